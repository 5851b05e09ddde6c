/* draft_sum.h - Counts of drafts during a run, from a router's counters.
 *
 * The first reading is where the counting begins.  A counter that fell is that
 * of a router that started anew, and has counted from 0.
 *
 * Threading, memory: none. */
#ifndef CLIENT_LOAD_FIGURES_DRAFT_SUM_H
#define CLIENT_LOAD_FIGURES_DRAFT_SUM_H

#include <stdbool.h>
#include <stdint.h>

struct draft_counts {
    uint64_t rows;     /* rows of a step with drafts */
    uint64_t verified; /* drafts in them */
    uint64_t accepted; /* drafts that became tokens */
};

/* All 0: no reading yet. */
struct draft_sum {
    bool begun;
    struct draft_counts last, sum;
};

/* Adds what was counted since the reading before. */
void draft_sum_read(struct draft_sum *s, const struct draft_counts *now);

/* Returns the tokens that a row with drafts had, 0 if there was none: one is
 * not a draft. */
double draft_tokens(const struct draft_counts *c);

#endif
