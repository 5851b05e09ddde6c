/* part_kept.h - A sequence in KEPT, whose memory awaits a continuation.
 *
 *     HERE --the pool is short of free pages--> AWAY
 *       ^                                        |
 *       +---- its host pages are given back -----+
 *
 * Used by: worker/sequences/kept, worker/sequences/ranges.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_KEPT_H
#define WORKER_SEQUENCE_PART_KEPT_H

#include <stdbool.h>
#include <stdint.h>

struct sequence;
struct sequence_table;

enum kept_state { KEPT_HERE, KEPT_AWAY, KEPT_STATES };

struct sequence_kept {
    enum kept_state state; /* AWAY: all that it has is in the host tier */
    uint32_t n_ids;        /* that remain */
    /* RemoveSequence of [cut_begin, end), which waits for the last row; 0:
     * none. */
    uint64_t cut_call;
    uint32_t cut_begin;
};

/* Changes the state; checked against the table of successors, and logged. */
void kept_move(struct sequence_table *t, struct sequence *s,
               enum kept_state to);

static inline bool kept_is_away(const struct sequence_kept *p)
{
    return p->state == KEPT_AWAY;
}

/* Returns the ids that a continuation begins with. */
static inline uint32_t kept_ids(const struct sequence_kept *p)
{
    return p->n_ids;
}

#endif
