/* sim.h - a whole cluster in one thread: virtual time, one seed.
 *
 * sim_run() draws the options of a seed, builds a router, workers and
 * clients from the real cores, lets clients ask and faults happen, stops the
 * faults, waits for quiet and audits.  The first thing found wrong ends the
 * run. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/client_core.h"
#include "common/wire/node_io.h"
#include "common/wire/wire.h"
#include "router/router_core.h"
#include "tests/sim/actor.h"
#include "tests/sim/adoptions.h"
#include "tests/sim/cells.h"
#include "tests/sim/clock.h"
#include "tests/sim/control.h"
#include "tests/sim/drains.h"
#include "tests/sim/fake_engine.h"
#include "tests/sim/fake_text.h"
#include "tests/sim/grants.h"
#include "tests/sim/liveness.h"
#include "tests/sim/network.h"
#include "tests/sim/offers.h"
#include "tests/sim/options.h"
#include "tests/sim/replicas.h"
#include "tests/sim/request.h"
#include "tests/sim/rng.h"
#include "tests/sim/spare.h"
#include "tests/sim/strangers.h"
#include "worker/worker_core.h"

#define SIM_ROUTER       0
#define SIM_FIRST_WORKER 1
#define SIM_FIRST_CLIENT (SIM_FIRST_WORKER + SIM_WORKERS)
#define SIM_NODES        (SIM_FIRST_CLIENT + SIM_CLIENTS)

#define SIM_REQUESTS_MIN 40
#define SIM_FRAMES_MIN   2000
#define SIM_REQUESTS_MAX 2000
#define SIM_CONTROLS_MAX 4000
#define SIM_PROMPT_MAX   512
#define SIM_START_US     1000000
#define SIM_CALM_US                                       \
    200000000 /* all must end this long after faults, and \
               * after the last token */
#define SIM_LONG_US      3600000000 /* no new requests after this */
#define SIM_WATCH_US     50000      /* between looks for the end */
#define SIM_WHAT         400
#define SIM_TRIAL_DEATHS 2 /* of the router, and */
#define SIM_TRIAL_TOKENS 2
#define SIM_TRIAL_MERCY  6

struct sim_node {
    struct sim *sim;
    uint32_t number, life;
    const struct node_ops *ops;
    void *core; /* NULL: dead */
    struct node_io io;
    struct rng rng;
    int64_t paused_us; /* until then */
    int64_t tick_us;   /* the earliest tick to come, NODE_IDLE: none */
    uint64_t tick_number;
    int64_t dropped_us;   /* when its session was hung up */
    bool ending;          /* on its way out */
    uint32_t first_conn;  /* of this life */
    int64_t leave_end_us; /* of a worker that leaves: it waits till then */
    int64_t spin_us;      /* ticks that saw the same time */
    uint32_t spins;
    char name[16];
};

/* Of a run; summed over seeds. */
struct sim_counts {
    uint64_t seeds, frames, lost, doubled, reordered, flipped, cuts, one_ways;
    uint64_t kills, router_kills, pauses, requests, tokens, plans, failed_plans;
    uint64_t moved, moved_tokens, refused, virtual_ms;
    struct cells cells;
};

struct sim {
    uint64_t seed;
    bool verbose;
    struct sim_options options;
    struct clock clock;
    struct network network;
    struct rng chance; /* of the network and the faults */
    struct rng will;   /* of the clients */
    struct sim_node nodes[SIM_NODES];
    struct fake_engine *engines[SIM_WORKERS];
    struct fake_text *text;
    struct arena arena;
    uint32_t n_requests, n_open; /* of them not ended */
    uint32_t n_controls, n_controls_open;
    struct grants grants;
    struct adoptions adoptions;
    struct orphans_seen orphans[SIM_WORKERS];
    struct liveness_seen alive;
    struct drains drains;
    struct spare spare[SIM_MODELS];
    struct replicas_seen replicas[SIM_WORKERS];
    struct offer_seen offers[SIM_WORKERS];
    struct strangers strangers;
    uint32_t n_brought; /* choices that the frame just delivered asks for */
    /* When the router was last seen without room for so many choices. */
    int64_t full_us[GENERATION_CHOICES + 1];
    uint32_t room_before; /* of the router, when it was looked at last */
    /* Of each worker, as the router has it, 0: none; and how many of a model
     * have ended. */
    uint64_t sessions[SIM_WORKERS];
    uint32_t session_conns[SIM_WORKERS];
    uint32_t n_sessions[SIM_WORKERS]; /* of this life */
    uint32_t n_ended[SIM_MODELS];
    bool closing;         /* no new requests any more */
    bool calm;            /* no faults any more, since */
    int64_t calm_us;      /* since when; or the last token, if that is later */
    uint64_t calm_tokens; /* by then, of all clients */
    uint64_t hash;        /* of everything delivered */
    struct sim_counts counts;
    bool done;
    bool failed;
    int64_t failed_us;
    int32_t failed_request; /* -1: none */
    char what[SIM_WHAT];

    /* Last, as they are filled in when they come to be. */
    struct sim_request requests[SIM_REQUESTS_MAX];
    struct control controls[SIM_CONTROLS_MAX];
};

/* One seed from beginning to end; false: failed, see what.  s is filled. */
bool sim_run(struct sim *s, uint64_t seed, struct seeds_with with,
             bool verbose);

/* The first one counts; request -1: none in particular. */
void sim_fail(struct sim *s, int32_t request, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void sim_log(const struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static inline int64_t sim_now(const struct sim *s)
{
    return s->clock.now_us;
}

/* nodes.c: bring a node to life; end it politely, which takes a while, or
 * without a word; let it tick soon. */
void node_start(struct sim *s, uint32_t number);
/* A worker has loaded the layers that it was given. */
void node_serve(struct sim *s, uint32_t number);
/* The core of a worker; NULL: it is dead, or has no layers. */
struct worker_core *node_worker(const struct sim *s, uint32_t number);
/* The io of a node that a test makes itself. */
void node_plug(struct sim_node *n);
void node_stop(struct sim *s, uint32_t number);
void node_kill(struct sim *s, uint32_t number);
void node_pause(struct sim *s, uint32_t number, int64_t us);
void node_soon(struct sim *s, uint32_t number);
/* Is this one of the lives of a worker that end by themselves? */
bool node_crashes(const struct sim *s, uint32_t number);
bool node_is_worker(uint32_t number);
bool node_is_client(uint32_t number);

/* faults.c; a worker dies by what it runs, and comes back. */
void faults_crash(struct sim *s, uint32_t number);
void faults_start(struct sim *s);
void faults_stop(struct sim *s);
/* An Assemble has come to this worker.  If another could take its place, it
 * hears nothing of the router for a while, and somebody else is cut off: so it
 * clings to an assembly that is over, beside one without it. */
void faults_strike(struct sim *s, uint32_t node);
/* The node is on its way out, and comes back some time later. */
void faults_restart(struct sim *s, uint32_t node);
/* It starts again after so long, or once it has stopped. */
void node_comes_back(struct sim *s, uint32_t number, int64_t us);

/* sniff.c: what a frame says, before it is delivered. */
void sniff(struct sim *s, uint32_t conn, enum conn_end to,
           const struct frame *f);

/* Does the link take the ordered part, or is it early, late or doubled? */
bool sniff_fresh(struct conn *c, enum conn_end to,
                 const struct frame_header *h);
void sniff_log(const struct sim *s, uint32_t conn, enum conn_end to,
               const struct frame *f, const struct frame_header *h);

/* auditor.c: after each tick of a node; while waiting for quiet (why not is
 * written to why); at the end. */
/* ... and after each frame that a node took. */
void auditor_heard(struct sim *s, uint32_t number);
void auditor_tick(struct sim *s, uint32_t number);
/* The router has heard that a connection is gone. */
void auditor_lost(struct sim *s, uint32_t conn);
/* The router takes no more than so many choices now. */
void auditor_full(struct sim *s, uint32_t room);
/* A choice kills the worker that runs it, which lives still. */
void auditor_poisoned(struct sim *s, uint32_t number, struct sim_choice *c);
/* Its newest death is not laid at its door: the router could not know. */
void auditor_forgiven(struct sim_choice *c);
/* The router is about to hear a worker's Goodbye: if that has died since of
 * what it let go of, the router cannot know, and it counts for no death. */
void auditor_goodbye(struct sim *s, uint32_t conn);
bool auditor_quiet(struct sim *s, char *why, size_t cap);
void auditor_end(struct sim *s);

#endif
