/* upstream.h - The gateway's sessions with the router.
 *
 * One session holds at most UPSTREAM_CALLS calls.  The upstream therefore
 * holds several client cores (client/lib/client_core.h), each with a session
 * of its own, over one node_io.  A call goes to the first core with a free
 * place.  Another core starts when all are full; an extra core without calls
 * is closed after UPSTREAM_IDLE_US.
 *
 *     requests ──▶ upstream ──▶ core 0 ──▶ session ──┐
 *                        └────▶ core 1 ──▶ session ──┴─▶ router
 *
 * Pure: the gateway's core passes the events of its node_ops on.
 *
 * Threading: one thread.  Memory: a core takes about 100 KB.  Limits: as many
 * sessions as the io can open, UPSTREAM_SESSIONS_MAX at most. */
#ifndef GATEWAY_UPSTREAM_UPSTREAM_H
#define GATEWAY_UPSTREAM_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client_core.h"
#include "common/wire/node_io.h"

#define UPSTREAM_SESSIONS_MAX 32
/* Generate calls of a session.  The rest of its places is for short calls and
 * for requests that resume. */
#define UPSTREAM_CALLS   (CLIENT_CALLS_MAX - 64)
#define UPSTREAM_IDLE_US 30000000

struct upstream;

/* Creates an upstream with one core.  name is that of the gateway, for the
 * router's logs.  n_max: sessions that io can open, 1..UPSTREAM_SESSIONS_MAX.
 * name and io are borrowed. */
struct upstream *upstream_new(const char *name, unsigned n_max,
                              struct node_io *io);

/* Ends all sessions with a Goodbye, ends open calls UNAVAILABLE, frees the
 * upstream and sets *u to NULL. */
void upstream_free(struct upstream **u);

/* Take events of node_ops with the same names. */
void upstream_opened(struct upstream *u, struct peer_id who);
void upstream_recv(struct upstream *u, struct peer_id from, struct frame **f);
void upstream_lost(struct upstream *u, struct peer_id who);
int64_t upstream_tick(struct upstream *u, int64_t now_us);

/* Reserves the place of one Generate call.  Returns the core for the call, NULL
 * if all places of all sessions are taken.  The caller gives the place back
 * with upstream_give(). */
struct client_core *upstream_take(struct upstream *u);
void upstream_give(struct upstream *u, struct client_core *c);

/* Returns the core for short calls. */
struct client_core *upstream_main(struct upstream *u);

/* Returns the io that a core uses, for its clock. */
struct node_io *upstream_io(struct upstream *u);

/* Returns whether the first session is up. */
bool upstream_up(const struct upstream *u);

/* Returns the number of places that are taken. */
uint32_t upstream_calls(const struct upstream *u);

/* Returns the number of cores, and of those whose session is up. */
unsigned upstream_sessions(const struct upstream *u);
unsigned upstream_sessions_up(const struct upstream *u);

#endif
