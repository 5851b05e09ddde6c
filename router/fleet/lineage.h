/* lineage.h - workers that die as soon as they are started.
 *
 * A lineage is what stays the same when a worker is started again
 * (WorkerShard.lineage; its name, if it says none).  A life is one run of the
 * process (WorkerShard.life; one session, if it says none).
 *
 *     barren   it died with fewer than LIFE_TOKENS tokens given and no
 *              sequence that ended well
 *     neither  it left with a Goodbye; or it died with a suspect on trial, who
 *              is charged with that (router/requests/trial.h): one death, one
 * to blame good     anything else: its lineage is as new
 *
 * After n barren lives in a row:
 *
 *     n < 2   the next one is let in as if nothing had been
 *     n >= 2  PROBATION: no sequence before min(2^(n-2) s, READMIT_US_MAX)
 *             and up to an eighth more have gone by since its Hello; then one
 *             at a time until it has given TRIAL_TOKENS tokens, or one of
 *             them has ended well
 *
 * So a worker that dies of itself costs at most one sequence a window.  If
 * all workers of a model are on probation its queue waits; a call ends by its
 * own deadline only.
 *
 * A session that broke was no death if the same life says Hello again: what
 * was counted is taken back, unless the worker had hung.
 *
 * Threading: the core's.  Memory: a table in the core.  Limits: LINEAGES_MAX
 * entries, the oldest goes; one is forgotten LINEAGE_QUIET_US after the last
 * death in it. */
#ifndef ROUTER_FLEET_LINEAGE_H
#define ROUTER_FLEET_LINEAGE_H

#include "proto/registry.pb-c.h"
#include "router/fleet/peers.h"

struct fleet;

/* Of a worker. */
struct life {
    char lineage[PEER_NAME_MAX + 1];
    uint64_t hash;     /* of lineage, not 0 */
    uint64_t number;   /* 0: it did not say */
    uint32_t n_barren; /* of its lineage, as far as this life may change it */
    bool good;
    bool probation; /* one at a time */
    bool closed;    /* none, until `readmit` */
    struct event readmit;
};

/* w has come in, its peer's name is known. */
void lineage_begin(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__WorkerShard *s);

/* May w be granted a sequence now, given the past of its lineage?  n_running:
 * sequences at the place that w is a stage of. */
bool lineage_open(const struct worker *w, uint32_t n_running);

/* The place of w has generated n_tokens tokens so far; a sequence of it has
 * ended well. */
void lineage_made(struct fleet *fleet, struct worker *w, uint64_t n_tokens);
void lineage_ended_well(struct fleet *fleet, struct worker *w);

/* Its session is over.  charged: a suspect on trial is blamed for it. */
void lineage_end(struct fleet *fleet, struct worker *w, bool charged);

/* When it is let in again, in ms from now; 0: it is. */
uint32_t lineage_readmit_ms(const struct fleet *fleet, const struct worker *w);

#endif
