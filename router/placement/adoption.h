/* adoption.h - Adoption: sequences that still live at a worker although the
 * session that granted them is over.
 *
 * A worker that reconnects lists these sequences, its orphans, in Live
 * messages.  The router decides for each orphan:
 *
 *     Live --> IDLE      no request of its id is open, or the prompt of that
 *                        request is still being encoded
 *              WANTED    its choice waits: the router sends Submit{adopt} as
 *                        soon as the worker takes one, ahead of the queue
 *              UNWANTED  its choice has ended or runs elsewhere: the router
 *                        sends Disown
 *
 * IDLE becomes WANTED when the choice begins to wait, because a client resumed
 * it.  IDLE and WANTED orphans expire when the worker drops them.  An orphan
 * whose choice is granted, here or elsewhere, or has ended, leaves the table.
 *
 * An adoption charges nothing: no ledger of the session counts the memory of an
 * orphan as free.  If the worker no longer has the orphan, the choice keeps its
 * place in the queue and waits on.
 *
 * A worker that announced orphans in Hello gets no grant until Live has listed
 * all of them, or until a ledger of the session arrives.  (Then Live was lost
 * and is sent again.) Otherwise the router could send a sequence anew to the
 * worker where it lives.
 *
 * Each worker has a table of orphans by (request_id, choice), freed with the
 * session.
 *
 * Threading: the core's thread only.  Memory: one heap block per orphan.
 * Limits: WORKER_ORPHANS_MAX orphans per worker, LIVE_MS_MAX until they
 * expire. */
#ifndef ROUTER_PLACEMENT_ADOPTION_H
#define ROUTER_PLACEMENT_ADOPTION_H

#include "proto/registry.pb-c.h"
#include "router/fleet/workers.h"

struct placement;

/* The states of the picture above. */
enum orphan_fate { ORPHAN_IDLE, ORPHAN_WANTED, ORPHAN_UNWANTED };

struct adoptions {
    struct table by_name;               /* struct orphan */
    struct list idle, wanted, unwanted; /* struct orphan */
    uint32_t n_announced, n_listed;     /* orphans in Hello, and in Live */
    struct event expiry;
};

/* Initialises the table of w, which announced n_announced orphans in Hello; and
 * frees it with all its orphans. */
void adoptions_open(struct placement *x, struct worker *w,
                    uint32_t n_announced);
void adoptions_close(struct placement *x, struct worker *w);

/* Handles a Live message of w.  Returns ST_DATA_LOSS with a sentence in e if
 * the message violates the protocol: the session must end. */
MUST_CHECK enum status adoptions_receive(struct placement *x, struct worker *w,
                                         const Sluice__V1__LiveMessage *m,
                                         struct error *e);

/* Returns the worker where the choice of request id lives; NULL: no worker
 * listed it. */
struct worker *adoption_find(const struct placement *x, const uint8_t id[16],
                             uint32_t choice);

/* Marks the orphans of a choice of model m as wanted: it has begun to wait. */
void adoption_wanted(struct placement *x, const uint8_t id[16], uint32_t choice,
                     const struct model *m);

/* Marks the orphans of a choice as unwanted: it is granted or has ended. */
void adoption_decided(struct placement *x, const uint8_t id[16],
                      uint32_t choice);

/* Returns the request id of the first choice that is wanted at w, borrowed, and
 * sets *choice; NULL: none.  router/requests/submit.h sends its Submit{adopt}
 * between adoption_begin(), after which adoption_decided() does not find this
 * orphan, and adoption_end(), which removes the orphan if sent and puts it back
 * if not.  adoption_begin() returns true if Live listed the orphan as one that
 * grows. */
const uint8_t *adoption_next(const struct worker *w, uint32_t *choice);
bool adoption_begin(struct worker *w);
void adoption_end(struct placement *x, struct worker *w, bool sent);

/* Sends Disown for the unwanted orphans of w, as far as the link has room. */
void adoption_pump(struct placement *x, struct worker *w);

#endif
