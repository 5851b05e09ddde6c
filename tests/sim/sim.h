/* sim.h - A whole cluster in one thread: virtual time, one seed.
 *
 * sim_run() draws the options of a seed and builds a router, workers and
 * clients from the real cores.  It lets clients send requests and faults occur,
 * stops the faults, waits until the cluster is idle, and audits.  The first
 * error ends the run. */
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
#include "tests/sim/claims.h"
#include "tests/sim/clock.h"
#include "tests/sim/control.h"
#include "tests/sim/crowd.h"
#include "tests/sim/drains.h"
#include "tests/sim/fake_engine.h"
#include "tests/sim/fake_text.h"
#include "tests/sim/forged.h"
#include "tests/sim/gateways.h"
#include "tests/sim/grants.h"
#include "tests/sim/holds.h"
#include "tests/sim/keys.h"
#include "tests/sim/liveness.h"
#include "tests/sim/network.h"
#include "tests/sim/offers.h"
#include "tests/sim/options.h"
#include "tests/sim/pools.h"
#include "tests/sim/replicas.h"
#include "tests/sim/request.h"
#include "tests/sim/rng.h"
#include "tests/sim/script.h"
#include "tests/sim/sessions.h"
#include "tests/sim/spare.h"
#include "tests/sim/strangers.h"
#include "tests/sim/web.h"
#include "worker/worker_core.h"

#define SIM_ROUTER        0
#define SIM_FIRST_WORKER  1
#define SIM_FIRST_CLIENT  (SIM_FIRST_WORKER + SIM_WORKERS)
#define SIM_FIRST_GATEWAY (SIM_FIRST_CLIENT + SIM_CLIENTS)
#define SIM_NODES         (SIM_FIRST_GATEWAY + SIM_GATEWAYS)

#define SIM_REQUESTS_MIN 40
#define SIM_FRAMES_MIN   2000
#define SIM_REQUESTS_MAX 2000
#define SIM_CONTROLS_MAX 4000
#define SIM_PROMPT_MAX   512
#define SIM_START_US     1000000
/* All requests must end this long after faults, and after the last token. */
#define SIM_CALM_US      200000000
#define SIM_LONG_US      3600000000 /* no new requests after this time */
#define SIM_WATCH_US     50000      /* interval between checks for the end */
#define SIM_WHAT         400
#define SIM_TRIAL_DEATHS 2 /* router's limits: deaths, and */
#define SIM_TRIAL_TOKENS 2
#define SIM_TRIAL_MERCY  6

struct sim_node {
    struct sim *sim;
    uint32_t number, life;
    const struct node_ops *ops;
    void *core; /* NULL: dead */
    struct node_io io;
    struct rng rng;
    int64_t paused_us; /* end of the pause */
    int64_t tick_us;   /* next tick, NODE_IDLE: none */
    uint64_t tick_number;
    int64_t evicted_us;   /* when the router gave its place to another */
    int64_t dropped_us;   /* when it dropped its session */
    bool ending;          /* being stopped or killed */
    uint32_t first_conn;  /* first connection of this life */
    int64_t leave_end_us; /* worker that leaves: end of its grace period */
    int64_t spin_us;      /* start of a series of ticks at nearly one time */
    uint32_t spins;
    char name[16];
};

/* Counts of a run; summed over seeds. */
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
    const struct script *script; /* NULL: the seed draws the requests */
    struct clock clock;
    struct network network;
    struct rng chance; /* for the network and the faults */
    struct rng will;   /* for the clients */
    uint32_t hurt_of;  /* damaged requests, per 10,000 */
    struct sim_node nodes[SIM_NODES];
    struct fake_engine *engines[SIM_WORKERS];
    struct fake_text *text;
    struct arena arena;
    uint32_t n_requests, n_open; /* requests, and those not ended */
    uint32_t n_controls, n_controls_open;
    struct grants grants;
    struct adoptions adoptions;
    struct orphans_seen orphans[SIM_WORKERS];
    struct liveness_seen alive;
    struct drains drains;
    struct spare spare[SIM_MODELS];
    struct claims_seen claims;
    struct replicas_seen replicas[SIM_WORKERS];
    struct offer_seen offers[SIM_WORKERS];
    uint64_t shards_seen; /* digest of the leftover shards */
    bool shards_changed;  /* ... at the last tick of the router */
    struct strangers strangers;
    struct crowd crowd;
    struct forged forged;
    struct holds holds;
    struct keys keys;
    struct gateways gateways;
    struct web web;
    uint32_t n_brought; /* choices requested by the frame just delivered */
    /* Time when the router last lacked room for so many choices. */
    int64_t full_us[REQUEST_CHOICES + 1];
    uint32_t room_before; /* room of the router at the last look */
    /* The router's session with each worker, 0: none; ended sessions per
     * model. */
    uint64_t sessions[SIM_WORKERS];
    uint32_t session_conns[SIM_WORKERS];
    uint32_t n_sessions[SIM_WORKERS]; /* sessions in this life */
    uint32_t n_ended[SIM_MODELS];
    bool closing;         /* no new requests */
    bool calm;            /* no faults any more */
    int64_t calm_us;      /* since then; or the last token, if later */
    uint64_t calm_tokens; /* tokens and HTTP bytes of all clients then */
    uint64_t hash;        /* hash of all deliveries */
    struct sim_counts counts;
    bool cleared; /* the prefix indexes, when all was quiet */
    bool done;
    bool failed;
    int64_t failed_us;
    int32_t failed_request; /* -1: none */
    char what[SIM_WHAT];

    /* Last in the struct, because entries are initialised on first use. */
    struct sim_request requests[SIM_REQUESTS_MAX];
    struct control controls[SIM_CONTROLS_MAX];
};

/* Set when an allocation of the cores was made to fail (failing.h): requests
 * may then end with RESOURCE_EXHAUSTED, and sessions without another reason. */
extern bool sim_short;

/* Runs one seed from beginning to end, and fills s.  Returns false on failure,
 * described in s->what. */
bool sim_run(struct sim *s, uint64_t seed, struct seeds_with with,
             bool verbose);

/* Runs a script in place of a seed. */
bool sim_play(struct sim *s, const struct script *script, bool verbose);

/* Records a failure; only the first one counts.  request -1: no particular
 * request. */
void sim_fail(struct sim *s, int32_t request, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void sim_log(const struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static inline int64_t sim_now(const struct sim *s)
{
    return s->clock.now_us;
}

/* nodes.c: start a node; stop it in order, which takes a while; kill it;
 * schedule its next tick soon. */
void node_start(struct sim *s, uint32_t number);
/* Starts the core of a worker that has loaded its layers. */
void node_serve(struct sim *s, uint32_t number);
/* Returns the core of a worker; NULL if it is dead, or has no layers. */
struct worker_core *node_worker(const struct sim *s, uint32_t number);
/* Sets up the io of a node that a test created itself. */
void node_plug(struct sim_node *n);
void node_stop(struct sim *s, uint32_t number);
void node_kill(struct sim *s, uint32_t number);
void node_pause(struct sim *s, uint32_t number, int64_t us);
void node_soon(struct sim *s, uint32_t number);
/* Returns whether a worker crashes by itself in its current life. */
bool node_crashes(const struct sim *s, uint32_t number);
bool node_is_worker(uint32_t number);
/* Returns whether a node is a client of the router; a gateway is one. */
bool node_is_client(uint32_t number);
bool node_is_gateway(uint32_t number);

/* faults.c: crashes a worker because of a plan that it runs; the worker
 * restarts later. */
void faults_crash(struct sim *s, uint32_t number);
/* Kills or stops a node, which restarts later. */
void faults_end(struct sim *s, uint32_t node);
void faults_start(struct sim *s);
void faults_stop(struct sim *s);
/* May disturb the assembly, when an Assemble arrives at this worker and another
 * worker could take its place.  The worker receives nothing from the router for
 * a while, and a worker with other layers is cut off.  The first then holds on
 * to an assembly that is over, next to a worker without it. */
void faults_strike(struct sim *s, uint32_t node);
/* Restarts a node that is about to end, some time later. */
void faults_restart(struct sim *s, uint32_t node);
/* Starts a node after this time, or once it has stopped. */
void node_comes_back(struct sim *s, uint32_t number, int64_t us);

/* sniff.c: inspects a frame before its delivery. */
void sniff(struct sim *s, uint32_t conn, enum conn_end to,
           const struct frame *f);

/* Returns whether the link accepts the ordered part: not early, late or
 * doubled. */
bool sniff_fresh(struct conn *c, enum conn_end to,
                 const struct frame_header *h);
void sniff_log(const struct sim *s, uint32_t conn, enum conn_end to,
               const struct frame *f, const struct frame_header *h);

/* auditor.c: check the cluster after each frame that a node received; after
 * each tick of a node; while waiting for idle (if not idle, why receives the
 * reason); at the end. */
void auditor_received(struct sim *s, uint32_t number);
void auditor_tick(struct sim *s, uint32_t number);
/* Handles a connection loss that the router has detected. */
void auditor_lost(struct sim *s, uint32_t conn);
/* Records that the router has room for this many choices. */
void auditor_full(struct sim *s, uint32_t room);
/* Records that a choice is about to kill the worker that runs it. */
void auditor_poisoned(struct sim *s, uint32_t number, struct sim_choice *c);
/* Removes a choice's newest death, for which the router could not find the
 * cause. */
void auditor_forgiven(struct sim_choice *c);
/* Handles a worker's Goodbye before its delivery to the router.  If the worker
 * has died since, because of a sequence that it released, the router cannot
 * find the cause, and the death does not count. */
void auditor_goodbye(struct sim *s, uint32_t conn);
/* Handles a session that the router has ended for a violation.  A death before
 * that does not count, because the router has another cause. */
void auditor_violated(struct sim *s, uint32_t conn);
bool auditor_quiet(struct sim *s, char *why, size_t cap);
void auditor_end(struct sim *s);

#endif
