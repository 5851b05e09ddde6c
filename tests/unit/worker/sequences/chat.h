/* chat.h - Conversations of kept sequences, for tests: each turn continues the
 * last one. */
#ifndef TESTS_UNIT_WORKER_SEQUENCES_CHAT_H
#define TESTS_UNIT_WORKER_SEQUENCES_CHAT_H

#include "tests/unit/worker/rig.h"

/* States of a sequence. */
#define KEPT    4
#define UNKNOWN 0

/* A conversation: its ids so far, and their kinds. */
struct chat {
    struct rig *r;
    uint32_t ids[RIG_CONTEXT], n;
    uint32_t spans[16], n_spans;
    uint32_t id; /* the newest turn's sequence */
};

/* Fills in the options of a worker that reuses prefixes. */
void chat_defaults(struct worker_options *o);

/* Adds a turn of n prompt ids and m tokens, which continues the last one if
 * `from`; its sequence is kept.  Returns the positions that were computed. */
uint32_t chat_turn(struct chat *c, uint32_t n, uint32_t m, bool from);

#endif
