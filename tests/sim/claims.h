/* claims.h - Checks of the router's --admission expected.
 *
 * In strict seeds no sequence grows and none is ever suspended.  In the others:
 *
 *   - Only workers with all layers are granted less than a sequence may need:
 *     its prompt, the tokens that it has, and one more.
 *   - A place with suspended sequences is granted nothing but adoptions.
 *   - A queue is in the order of its tenants.
 *   - A place that is kept for the first of its queue is granted no other.
 *   - A kept sequence gives way to the first that waits for room, within
 *     OWED_US.
 *   - The share of suspended sequences stays near the target.
 *   - A model learns from its own choices only: never from more of them than
 *     have come.  So does each tenant of it.
 *
 *   - A tenant is charged for its choices that wait, or have memory, and for no
 *     others.  In every eighth seed tenants have a quota, which those that came
 *     to the router itself never exceed.
 *
 * That nothing admitted is lost, that every request ends, and that its tokens
 * are those of the oracle, are rules of every seed. */
#ifndef SIM_CLAIMS_H
#define SIM_CLAIMS_H

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
    uint64_t n_late;
};

struct claims_seen {
    struct place_seen places[SIM_WORKERS];
    /* choices of calls that have arrived, by tenant */
    uint64_t n_brought[SIM_MODELS][SIM_TENANTS];
    int64_t owed_us[SIM_MODELS]; /* a lease could have given way since then;
                                  * 0: none could */
    uint64_t n_grow;             /* grants of sequences that may grow, */
    uint64_t n_suspended;        /* and suspensions, by the ledgers */
};

/* Checks the share of suspended sequences at the end of a seed. */
void claims_end(struct sim *s);

/* Returns the quota of a tenant in this seed, in tokens; 0: none. */
uint32_t claims_quota(const struct sim *s);

/* Check the router and a worker after a tick. */
void claims_router(struct sim *s);
void claims_worker(struct sim *s, uint32_t w);

/* Checks a Submit of c that arrives at its worker, before c->submitted_conn is
 * set. */
void claims_submitted(struct sim_choice *c, uint32_t conn,
                      const Sluice__V1__SubmitRequest *r);

#endif
