/* hello_throttle.h - Bounds how many Hellos are judged.
 *
 * A session costs memory, an answer and perhaps an eviction.  A stranger can
 * send Hello again and again, on one connection or on many.  A Hello beyond a
 * limit is dropped without an answer and counted; an honest peer repeats it
 * (common/wire/session.h).
 *
 *   - HELLO_BURST Hellos of one connection in HELLO_SECOND_US.  The newest
 *     HELLO_CONNECTIONS connections are counted, found by their number.
 *   - HELLO_ROLE_RATE Hellos a second of each role, and HELLO_ROLE_BURST beyond
 *     that at once.  A Hello that its port does not admit counts for no role,
 *     so that a flood at one port throttles no peer of another.
 *
 * Threading: the core's thread only.  Memory: one block, made at the start. */
#ifndef ROUTER_CALLS_HELLO_THROTTLE_H
#define ROUTER_CALLS_HELLO_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"

#define HELLO_SECOND_US 1000000

struct hello_throttle;

struct hello_throttle *hello_throttle_new(void);
void hello_throttle_free(struct hello_throttle **t);

/* Counts a Hello of this connection.  Returns false if it must be dropped. */
bool hello_throttle_connection(struct hello_throttle *t, struct peer_id who,
                               int64_t now_us);

/* Counts a Hello of this role, one of BY_*; 0: of none that may come.  Returns
 * false if it must be dropped. */
bool hello_throttle_role(struct hello_throttle *t, uint8_t role,
                         int64_t now_us);

#endif
