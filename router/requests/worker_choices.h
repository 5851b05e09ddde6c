/* worker_choices.h - The choices that have a grant at a worker.
 *
 * Threading: the core's thread only.  Memory: a part of the worker
 * (router/base/parts.h), and the buckets of the table. */
#ifndef ROUTER_REQUESTS_WORKER_CHOICES_H
#define ROUTER_REQUESTS_WORKER_CHOICES_H

#include "router/fleet/workers.h"

/* The work of a place, done and to be done: progress.h. */
struct place_progress {
    bool idle;       /* in the newest ledger, */
    uint64_t ticks;  /* with these ticks of all its stages */
    uint64_t work;   /* steps that its sequences may need */
    int64_t idle_us; /* time without a plan and a tick, in all */
    int64_t measured_us, looked_us;
    uint64_t first_step; /* in its session; 0: none yet */
};

struct worker_choices {
    struct table by_grant; /* struct choice by grant number */
    struct list running;   /* struct choice, in order of grant */
    struct list unsent;    /* struct choice with prompt ids not yet sent */
    struct list removals;  /* struct choice with an unsent Cancel or Remove */
    uint64_t n_outputs;    /* ledgers compared with choices: held_check.h */
    uint64_t lapsed_at;    /* snapshot with the room of the last lease that gave
                            * way: leases.h */
    struct place_progress progress;
};

static inline struct worker_choices *choices_of(const struct worker *w)
{
    return w->parts[PART_REQUESTS];
}

/* Initialises the part of a new worker, and frees its table.  fini: no choice
 * may have a grant there. */
void worker_choices_init(struct worker *w);
void worker_choices_fini(struct worker *w);

#endif
