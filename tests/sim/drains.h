/* drains.h - workers that are drained by an administrator, and workers that
 * leave politely and come back: faults that must cost nothing.
 *
 * A request that always had a worker which was open and could hold it does
 * not fail because of them, in a seed without other faults: it is bereft
 * otherwise, from the first moment it had none. */
#ifndef SIM_DRAINS_H
#define SIM_DRAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/options.h"

struct sim;
struct sim_request;

/* What the router was last seen to believe of a worker. */
struct drain_seen {
    uint64_t session, last_grant;
    bool open, draining;
};

struct drains {
    struct drain_seen seen[SIM_WORKERS];
    uint32_t open; /* set of workers that the router may grant to */
};

/* From now on they happen; none after the faults have stopped. */
void drains_start(struct sim *s);

/* Does this seed have some? */
static inline bool drains_drawn(const struct sim_options *o)
{
    return o->drain_every_us != 0 || o->leave_every_us != 0;
}

/* A Drain of a worker arrives; an Undrain may be right behind it. */
void drains_asked(struct sim *s, const uint8_t *name, size_t n);

/* Look at the router: nothing is granted where it drains. */
void drains_watch(struct sim *s);

/* Has it been without a worker, at any time so far?  Of one whose id was used
 * twice this is not known, and said. */
bool drains_bereft(const struct sim *s, const struct sim_request *g);

/* A Goodbye of a worker arrives: if it leaves, it has nothing left. */
void drains_goodbye(struct sim *s, uint32_t node, uint32_t conn);

#endif
