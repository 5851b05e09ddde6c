/* explain_blockers.h - The sequences that one waits for, and what would help.
 *
 * Blockers are the sequences with the most pages at the place that the sequence
 * waits for: the one that it reserved (router/schedule/bypass.h), or that keeps
 * what it continues, else the first that could hold it.
 *
 * Threading: the core's thread only.  Memory: none. */
#ifndef ROUTER_CALLS_EXPLAIN_BLOCKERS_H
#define ROUTER_CALLS_EXPLAIN_BLOCKERS_H

#include "router/calls/router_state.h"

#define EXPLAIN_BLOCKERS 3

struct explain_blocker {
    const struct choice *choice;
    const struct worker *place;
    uint64_t pages;
    int64_t end_us; /* expected, from now */
};

/* Fills out with the blockers of e, the largest first; returns their number. */
uint32_t explain_blockers(const struct router_core *r,
                          const struct queue_entry *e,
                          struct explain_blocker out[EXPLAIN_BLOCKERS]);

/* Returns the place that has room for e now if it asked for *max_tokens, the
 * most of all places; NULL: none has with any. */
const struct worker *explain_room(struct router_core *r,
                                  const struct queue_entry *e,
                                  uint32_t *max_tokens);

#endif
