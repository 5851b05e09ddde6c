/* part_reuse.h - The positions that a sequence restored from the index,
 * and those at which it saves.
 *
 * Used by: worker/plan/reuse.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_REUSE_H
#define WORKER_SEQUENCE_PART_REUSE_H

#include <stdint.h>

/* Positions at which a prompt saves its state. */
#define SEQUENCE_WANTS_MAX 16

struct sequence_reuse {
    uint32_t reused; /* first positions that were restored, not computed */
    uint32_t node;   /* that it was restored from; PREFIX_NONE: none */
    uint32_t n_wants, wants[SEQUENCE_WANTS_MAX]; /* positions to save at */
};

/* Returns the first positions that were not computed. */
static inline uint32_t reuse_positions(const struct sequence_reuse *p)
{
    return p->reused;
}

/* Counts the first n positions as restored: another sequence gave them. */
static inline void reuse_given(struct sequence_reuse *p, uint32_t n)
{
    p->reused = n;
}

#endif
