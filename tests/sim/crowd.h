/* crowd.h - Strangers that fill the router's places and flood it with Hellos.
 *
 * One seed in eight has a crowd.  An independent stream draws it, so that other
 * seeds do not change.  In such a seed the router has few places.  Now and then
 * strangers send Hello, each on a connection of its own or all on one, as
 * clients or as administrators.  Those that are accepted never call anything;
 * some disconnect.
 *
 * The router's sessions are compared before and after each Hello:
 *
 *   - no session of a worker ends, and none of the other role;
 *   - no session with an open call ends;
 *   - a session ends only if the role had no place left, and then one;
 *   - a Hello is accepted if a place is free or a session is idle, unless it is
 *     throttled.
 *
 * In all seeds, no Hello of the cluster's own nodes is refused for lack of a
 * place. */
#ifndef SIM_CROWD_H
#define SIM_CROWD_H

#include <stdint.h>

#include "common/wire/frame.h"
#include "tests/sim/rng.h"

struct sim;

#define CROWD_CONN 0x60000000u /* and later; not of the network */

struct sim_request;

struct crowd {
    int64_t every_us;             /* mean interval; 0: no crowd */
    uint32_t n_clients, n_admins; /* places of the router */
    uint32_t first, last; /* connections of strangers that may be open */
    struct rng chance;
};

/* Draws the crowd of a seed.  Called before a node starts. */
void crowd_draw(struct sim *s);
void crowd_start(struct sim *s);

/* Inspects a frame of the router to one of the cluster's nodes: the answer to a
 * Hello, or a Goodbye. */
void crowd_look(struct sim *s, uint32_t conn, const struct frame *f,
                const struct frame_header *h);

/* Inspects a frame that the router sends, lost or not: a Goodbye that evicts
 * one of the cluster's nodes. */
void crowd_sent(struct sim *s, uint32_t conn, const struct frame *f);

/* Returns whether the eviction of its client's idle session explains that a
 * request ended UNAVAILABLE: its call and the Goodbye crossed. */
bool crowd_crossed(const struct sim_request *request);

#endif
