/* drains.h - Workers drained by an administrator, or leaving and returning.
 *
 * These faults must not cost a request anything.  In a seed without other
 * faults, a request does not fail because of them if an open worker could hold
 * it at all times.  Otherwise, the request is bereft from the first moment
 * without such a worker. */
#ifndef SIM_DRAINS_H
#define SIM_DRAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/options.h"

struct sim;
struct sim_request;

/* Router's view of a worker at the last look. */
struct drain_seen {
    uint64_t session, last_grant;
    bool open, draining;
};

struct drains {
    struct drain_seen seen[SIM_WORKERS];
    uint32_t open; /* set of workers that the router may grant to */
};

/* Schedules drains and leaves; none occur after the faults have stopped. */
void drains_start(struct sim *s);

/* Returns whether this seed has drains or leaves. */
static inline bool drains_drawn(const struct sim_options *o)
{
    return o->drain_every_us != 0 || o->leave_every_us != 0;
}

/* Reports the arrival of a Drain for a worker; an Undrain may follow directly.
 */
void drains_asked(struct sim *s, const uint8_t *name, size_t n);

/* Checks that the router grants nothing to a draining worker. */
void drains_watch(struct sim *s);

/* Returns whether a request was without an open worker at any time.  Also
 * returns true if it cannot be determined, because the request's id was used
 * twice. */
bool drains_bereft(const struct sim *s, const struct sim_request *request);

/* Checks, when a worker's Goodbye arrives, that a leaving worker has no
 * sequences. */
void drains_goodbye(struct sim *s, uint32_t node, uint32_t conn);

#endif
