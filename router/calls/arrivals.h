/* arrivals.h - A Generate call as the scheduler sees it, and its checks before
 * its text is encoded.
 *
 * Threading, memory: the core's. */
#ifndef ROUTER_CALLS_ARRIVALS_H
#define ROUTER_CALLS_ARRIVALS_H

#include "proto/inference.pb-c.h"
#include "router/calls/router_state.h"
#include "router/schedule/overload.h"

/* Returns whether the prompt of m is a text, which is to be encoded. */
bool arrival_has_text(const Sluice__V1__GenerateRequest *m);

/* Returns m as it arrives.  Its tenant and its route get slots if they have
 * none. */
struct arrival arrival_of(struct router_core *r, const struct model *model,
                          const Sluice__V1__GenerateRequest *m,
                          int64_t deadline_us);

/* Checks for a retry that comes too early, and whether a text would wait for
 * too long or exceed the quota of its tenant.  Ids are checked when they join
 * the queue, in the same turn.  Returns ST_RESOURCE_EXHAUSTED with the figures
 * if so, and sets *retry_ms. */
MUST_CHECK enum status arrival_check(struct router_core *r,
                                     const struct arrival *a,
                                     const Sluice__V1__GenerateRequest *m,
                                     uint32_t *retry_ms, struct error *e);

#endif
