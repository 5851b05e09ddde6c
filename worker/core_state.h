/* core_state.h - The state of the worker's core, for worker_core.c and tick.c
 * alone.  worker/worker_core.h is the contract.
 *
 * Each room has a struct of its own here, and sees of the core what struct
 * worker_base offers. */
#ifndef WORKER_CORE_STATE_H
#define WORKER_CORE_STATE_H

#include "worker/base/base.h"
#include "worker/base/watch.h"
#include "worker/calls/calls.h"
#include "worker/calls/leave.h"
#include "worker/sequences/sequences.h"
#include "worker/stages/stages.h"
#include "worker/worker_core.h"

struct worker_core {
    struct worker_base base;
    struct stages stages;
    struct worker_calls calls;
    struct leave leave;
    struct engine_watch watch;
    int64_t reap_us;     /* when leaks are looked for next */
    uint64_t life;       /* random: a new session with it is not a restart */
    bool away_logged;    /* that the router is away */
    bool refused_logged; /* that the router refused this worker */

    /* Parts of Hello, which borrows them. */
    struct ledger_message hello_ledger;
    Sluice__V1__WorkerShard hello_shard;
    char hello_endpoint[ENDPOINT_MAX];

    struct sequences sequences; /* last: sequences_init() clears it */
};

#endif
