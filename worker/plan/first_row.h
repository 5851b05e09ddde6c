/* first_row.h - Copies before the first row of a sequence: a checkpoint, the
 * partly filled blocks of the kept sequence that it continues, and what it has
 * in the host tier.
 *
 * Threading: the core's.  Memory: no call allocates. */
#ifndef WORKER_PLAN_FIRST_ROW_H
#define WORKER_PLAN_FIRST_ROW_H

#include "worker/plan/batch.h"
#include "worker/plan/reuse.h"

/* Partly filled blocks of a kept sequence, which the row copies to those of its
 * own sequence. */
struct take_over_copies {
    uint32_t block;                 /* PLACE_NONE: none */
    const struct sequence *windows; /* has the window block; NULL: none */
};

/* From where a sequence begins. */
struct first_row {
    struct reuse_state state; /* to its slot */
    struct take_over_copies kept;
};

/* Nothing is copied. */
static const struct first_row first_row_none = {{SLOT_NONE, HOST_NONE},
                                                {PLACE_NONE, NULL}};

/* Adds the copies to t, in which s has the memory of its row.  Returns how many
 * pages come from the host tier. */
uint32_t first_row_copy(const struct batcher_limits *l,
                        const struct sequence_table *table, struct batch *t,
                        const struct sequence *s, const struct first_row *from);

/* Brings back what s has in the host tier, for the row that follows.  Returns
 * false if that was not granted; the account is broken then. */
MUST_CHECK bool first_row_bring_in(const struct batcher_limits *l,
                                   struct sequence_table *table,
                                   struct batch *t, struct sequence *s);

#endif
