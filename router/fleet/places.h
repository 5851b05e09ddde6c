/* places.h - Places for sessions, counted separately for each role.
 *
 *     role             places                        evicted
 *     workers          ROUTER_WORKERS_MAX with       never
 *                      layers, OFFERS_MAX without
 *     clients          options.max_peers             the one idle longest
 *     administrators   options.max_admins            the one idle longest
 *
 * The roles do not compete: clients that fill their places keep no worker and
 * no administrator out.  The transport admits each role at one port only, so
 * strangers at one port cannot take the places of another.
 *
 * A session is idle while it has no open call and its link has taken all that
 * was queued for it.  If a role has no place left, a new session takes the
 * place of the one that has been idle longest.  That one gets a Goodbye and may
 * connect again.  If no session is idle, the newcomer is refused.  A session
 * with an open call thus keeps its place.
 *
 * A call keeps its session from being idle from pending_open() to
 * pending_close().  Calls that are answered at once count as activity; pings do
 * not, because every client sends them.
 *
 * Threading: the core's.  Memory: lists through struct router_peer; no call
 * allocates.  Limits: options.max_peers, options.max_admins, PLACE_SETTLE_US,
 * PLACE_LOOK_MAX. */
#ifndef ROUTER_FLEET_PLACES_H
#define ROUTER_FLEET_PLACES_H

#include <stdint.h>

#include "common/base/status.h"

struct fleet;
struct router_peer;

/* Clears the counts and lists of the fleet, which is zeroed. */
void places_init(struct fleet *fleet);

/* Checks that a session of this role, one of BY_*, can have a place: one is
 * free, or another session can be evicted.  Changes nothing.  Returns
 * ST_RESOURCE_EXHAUSTED with a sentence if there is none. */
MUST_CHECK enum status places_check(const struct fleet *fleet, uint8_t role,
                                    struct error *e);

/* Evicts the session that has been idle longest if no place of this role is
 * free.  Call it after places_check(), before peers_add(). */
void places_make(struct fleet *fleet, uint8_t role);

/* Count p, whose session begins or ends. */
void places_enter(struct fleet *fleet, struct router_peer *p);
void places_leave(struct fleet *fleet, struct router_peer *p);

/* Record that p has an open call, or none any more.  idle: also call it for a
 * call that was answered at once. */
void places_busy(struct router_peer *p);
void places_idle(struct fleet *fleet, struct router_peer *p);

/* Returns the number of sessions of a role. */
uint32_t places_count(const struct fleet *fleet, uint8_t role);

#endif
