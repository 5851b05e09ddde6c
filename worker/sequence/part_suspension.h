/* part_suspension.h - How a sequence gives its memory to others, and gets it
 * back.
 *
 *     NONE --Submit finds no room--> WAITS --its first grant--> NONE
 *     NONE --chosen to make room--> OUT --its second grant--> BACK
 *                                    ^                          |
 *                                    +--- chosen once more -----+
 *
 * Used by: worker/sequences/suspend.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_SUSPENSION_H
#define WORKER_SEQUENCE_PART_SUSPENSION_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/sequence/state.h"

struct sequence;

enum suspension_state {
    SUSPENSION_NONE,
    SUSPENSION_WAITS,
    SUSPENSION_OUT,
    SUSPENSION_BACK,
    SUSPENSION_STATES
};

struct sequence_suspension {
    enum suspension_state state;
    enum sequence_state resumes; /* OUT, with its pages: PREFILL or DECODE */
    bool grows;         /* need is what it is expected to use, all its life */
    uint32_t expected;  /* blocks that its Submit asked for */
    uint64_t swap_step; /* the newest plan with its copies from the host */
};

/* Changes the state; checked against the table of successors, and logged. */
void suspension_move(struct sequence *s, enum suspension_state to);

/* Returns whether nothing is granted to the sequence yet. */
static inline bool suspension_waits(const struct sequence_suspension *p)
{
    return p->state == SUSPENSION_WAITS;
}

/* Returns whether the sequence was suspended once. */
static inline bool suspension_happened(const struct sequence_suspension *p)
{
    return p->state == SUSPENSION_OUT || p->state == SUSPENSION_BACK;
}

/* Returns whether the sequence may outgrow its grant. */
static inline bool suspension_grows(const struct sequence_suspension *p)
{
    return p->grows;
}

/* Notes the plan that copies the pages of the sequence from the host. */
static inline void suspension_copies(struct sequence_suspension *p,
                                     uint64_t step)
{
    p->swap_step = step;
}

#endif
