/* part_orphan.h - A sequence that outlives its session.
 *
 *     NONE --its session is over--> LEFT --named to a later one--> ANNOUNCED
 *      ^                              |                              |
 *      +---- adopted, or ended -------+------------------------------+
 *
 * Used by: worker/sequences/orphans.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_ORPHAN_H
#define WORKER_SEQUENCE_PART_ORPHAN_H

#include <stdint.h>

struct sequence;

enum orphan_state {
    ORPHAN_NONE,
    ORPHAN_LEFT,
    ORPHAN_ANNOUNCED, /* a later session was sent a Live that names it */
    ORPHAN_STATES
};

struct sequence_orphan {
    enum orphan_state state;
    uint32_t n_hashed; /* first ids that may be dropped */
    uint64_t ids_hash; /* their hash */
};

/* Changes the state; checked against the table of successors, and logged. */
void orphan_move(struct sequence *s, enum orphan_state to);

#endif
