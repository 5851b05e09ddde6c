/* overcommit.h - Checks of the router's optimistic admission (--overcommit).
 *
 * In strict seeds no sequence grows and none is ever suspended.  In the others:
 *
 *   - Only workers with all layers are granted less than a sequence may need,
 *     and never less than its prompt, the tokens that it has, and one more.
 *   - The greatest needs of the sequences of a place stay within the bound.
 *     Adopted ones are not counted: they were granted by another router.
 *   - A place with suspended sequences is granted nothing but adoptions.
 *   - A model learns from its own choices only: never from more of them than
 *     have come.
 *
 * That nothing admitted is lost, that every request ends, and that its tokens
 * are those of the oracle, are rules of every seed. */
#ifndef SIM_OVERCOMMIT_H
#define SIM_OVERCOMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/worker.pb-c.h"
#include "tests/sim/options.h"

struct sim;
struct sim_choice;

/* The router's account of a worker after its last tick. */
struct place_seen {
    uint64_t session;
    uint32_t n_suspended, granted_pages;
};

struct overcommit_seen {
    struct place_seen places[SIM_WORKERS];
    uint64_t n_brought[SIM_MODELS]; /* choices of calls that have arrived */
};

/* Check the router and a worker after a tick. */
void overcommit_router(struct sim *s);
void overcommit_worker(struct sim *s, uint32_t w);

/* Checks a Submit of c that arrives at its worker, before c->submitted_conn is
 * set. */
void overcommit_submitted(struct sim_choice *c, uint32_t conn,
                          const Sluice__V1__SubmitRequest *r);

#endif
