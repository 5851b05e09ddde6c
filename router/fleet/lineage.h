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

/* A lineage that died lately. */
struct lineage {
    char name[PEER_NAME_MAX + 1];
    uint32_t n_barren; /* lives in a row */
    uint64_t life;     /* the newest that died; 0: it did not say */
    uint32_t n_before; /* n_barren before that death */
    bool sure;         /* it died, whatever comes back */
    int64_t died_us;
};

struct lineages {
    struct lineage of[LINEAGES_MAX];
    uint32_t n;
};

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
void lineage_begin(struct router_core *r, struct worker *w,
                   const Sluice__V1__WorkerShard *s);

/* May the place w be granted a sequence now, as far as the past of its stages
 * goes?  One that has to wait is not assembled before. */
bool lineage_open(const struct worker *w);

/* The place w has given tokens; a sequence ended well there. */
void lineage_made(struct router_core *r, struct worker *w);
void lineage_ended_well(struct router_core *r, struct worker *w);

/* Its session is over.  charged: a suspect on trial is blamed for it. */
void lineage_end(struct router_core *r, struct worker *w, bool charged);

/* When it is let in again, in ms from now; 0: it is. */
uint32_t lineage_readmit_ms(const struct router_core *r,
                            const struct worker *w);

#endif
