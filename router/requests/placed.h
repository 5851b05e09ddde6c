/* placed.h - Answers of this room to the room of placement
 * (router/placement/placement.h, struct placement_events).
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_REQUESTS_PLACED_H
#define ROUTER_REQUESTS_PLACED_H

#include "router/placement/placement.h"
#include "router/requests/requests.h"

/* Returns all claims on sequences of w, which begins to drain, and ends choices
 * that only w could hold. */
void placed_draining(struct requests *r, struct worker *w);

/* Asks the worker to release every sequence of place that may go elsewhere.
 * Returns how many have to stay, because no other place could hold them. */
uint32_t placed_move_all(struct requests *r, struct worker *place);

/* Returns what to do with a sequence of model m that lives at a worker. */
enum orphan_fate placed_fate(const struct requests *r,
                             const uint8_t id[REQUEST_ID_BYTES],
                             uint32_t choice, const struct model *m);

#endif
