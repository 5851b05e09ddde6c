/* adoption.h - what workers still have from sessions that are over, and who
 * goes on where it lives.
 *
 *   Live --> IDLE      nobody knows it, or its prompt is being encoded
 *            WANTED    its choice waits: Submit{adopt} as soon as its worker
 *                      takes one, whoever stands before it in the queue
 *            UNWANTED  its choice has ended, or runs elsewhere: Disown
 *
 * IDLE becomes WANTED when its choice comes to wait (a client resumes); both
 * are forgotten when their time is over, as the worker drops them then.  What
 * is decided (granted there or elsewhere, ended) leaves the table.
 *
 * An adoption charges nothing: what an orphan holds is not free in any ledger
 * of the session.  If it is not found after all, its choice goes on waiting
 * in its old place, as if it had never lived.
 *
 * A worker that announced orphans in its Hello is granted nothing before Live
 * has told them all, or a ledger of the session came without it (Live was
 * lost and comes again): else what lives there would be sent there anew.
 *
 * A table a worker, by (request_id, choice); it goes with the session.
 *
 * Threading: the core's.  Memory: an entry on the heap each.  Limits:
 * WORKER_ORPHANS_MAX a worker, LIVE_MS_MAX. */
#ifndef ROUTER_REQUESTS_ADOPTION_H
#define ROUTER_REQUESTS_ADOPTION_H

#include "proto/registry.pb-c.h"
#include "router/requests/request.h"

struct requests;

void adoptions_open(struct requests *r, struct worker *w, uint32_t n_announced);
void adoptions_close(struct requests *r, struct worker *w);

/* Take a Live.  Not OK: it is a lie, and the session must end. */
MUST_CHECK enum status adoptions_told(struct requests *r, struct worker *w,
                                      const Sluice__V1__LiveMessage *m,
                                      struct error *e);

/* Where a choice lives, NULL: nowhere that is known. */
struct worker *adoption_find(const struct requests *r, const uint8_t id[16],
                             uint32_t choice);

/* choice has come to wait: it is wanted where it lives. */
void adoption_wanted(struct requests *r, const struct choice *choice);

/* choice is granted, or has ended: it is wanted nowhere else. */
void adoption_decided(struct requests *r, const struct choice *choice);

/* The first choice that is wanted at w, NULL: none.  router/requests/submit.h
 * sends its Submit{adopt} between adoption_begin(), from which on it is wanted
 * nowhere else, and adoption_end(). */
struct choice *adoption_next(struct requests *r, struct worker *w);
void adoption_begin(struct worker *w);
void adoption_end(struct requests *r, struct worker *w, bool sent);

/* Disown what is not wanted, as far as there is room. */
void adoption_pump(struct requests *r, struct worker *w);

#endif
