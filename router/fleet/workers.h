/* workers.h - a worker as the router sees it: its shard, its newest ledger,
 * and what was granted to it that no ledger includes yet.
 *
 *     SLOW <--a plan is out for long, is back--> UP
 *      |  |                                    ^  |
 *      |  +--silence--> SILENT --a word--------+  |
 *      |                  |  ^------silence-------+
 *      +----> LOST <------+-----------------------+
 *
 * Only UP is granted to; LOST: the session is over, and the grants with it.
 * liveness.h says when.
 *
 * Beside that it may be drained (drain.h), in any of these states.
 *
 * A worker of all layers is a place where sequences run by itself; one of a
 * partial shard is a stage of a replica (replica.h), or waits to be.
 *
 * Room of a class = free + cached of the newest ledger - the needs of the
 * grants above ledger.grant.  Only ledgers move room; a receipt never does.
 * The sum of grants therefore never passes the pool, under any delay, loss,
 * reordering or doubling of ledgers.
 *
 * Threading: the core's.  Memory: on the heap; the ring of needs doubles up
 * to GRANTS_UNSETTLED_MAX. */
#ifndef ROUTER_FLEET_WORKERS_H
#define ROUTER_FLEET_WORKERS_H

#include "common/wire/endpoint.h"
#include "proto/common.pb-c.h"
#include "proto/registry.pb-c.h"
#include "router/fleet/lineage.h"
#include "router/fleet/liveness.h"
#include "router/fleet/models.h"
#include "router/fleet/peers.h"

struct fleet;
struct choice;
struct queue_entry;
struct replica;

enum worker_state {
    WORKER_UP,
    WORKER_SLOW,
    WORKER_SILENT,
    WORKER_LOST,
    WORKER_STATES
};

/* How its session ends: not by a death (a Goodbye, a lie, a drain), or it was
 * lost or silent, which may turn out to be none, or its engine stood still. */
enum worker_death { DEATH_NONE, DEATH_LOST, DEATH_HUNG };

enum fleet_class { BLOCKS, SLOTS, CHECKPOINTS, PAGES, FLEET_CLASSES };

struct class_ledger {
    uint32_t total, free, held, cached, granted;
};

struct fleet_ledger {
    uint64_t session, snapshot, grant, violations;
    struct class_ledger classes[FLEET_CLASSES];
    uint32_t n_queued, n_prefill, n_decode, n_kept;
};

/* Of one sequence, in every class. */
struct need {
    uint64_t of[FLEET_CLASSES];
};

struct shard {
    uint32_t layer_begin, layer_end, n_layers;
    uint32_t block_tokens, context, vocab, max_rows;
    uint32_t pages_per_block, pages_per_slot, pages_per_checkpoint;
    uint64_t block_bytes, slot_bytes, checkpoint_bytes;
    uint64_t weight_bytes, scratch_bytes, pool_bytes;
    uint32_t hidden;      /* H; 0: it did not say */
    uint32_t step_tokens; /* of a stage; 0: it did not say */
    char device[SHARD_DEVICE_MAX + 1];
    char stage_endpoint[ENDPOINT_MAX]; /* "": none */
};

/* Drain state of a worker; router/requests/drain.h has the rules. */
struct drain {
    bool on;             /* no new grants */
    bool leaving;        /* the worker asked to drain because it is stopping */
    int64_t move_us;     /* when the sequences that still run are moved */
    uint32_t n_stuck;    /* sequences that could not be moved; logged once */
    struct event due;    /* the end of the grace, or now: nothing is left */
    struct list waiting; /* struct drain_call */
};

/* Sequences that outlived their sessions there: router/requests/adoption.h. */
struct adoptions {
    struct table by_name;               /* struct orphan */
    struct list idle, wanted, unwanted; /* of struct orphan */
    uint32_t n_announced, n_told;       /* by Hello, by Live */
    struct event expiry;
};

struct worker {
    struct router_peer *peer;
    struct model *model;
    enum worker_state state;
    struct shard shard;
    struct fleet_ledger ledger; /* the newest */

    bool serves;             /* sequences may be granted to it: replica.h */
    struct replica *replica; /* of a staged worker; NULL: it waits for one */
    uint32_t stage;          /* its place there */

    uint64_t last_grant;
    struct need
        *ring; /* [ring_size] of grant request at request & (ring_size - 1) */
    uint32_t ring_size;
    uint64_t owed[FLEET_CLASSES]; /* sum of the needs above ledger.grant */

    struct table grants;   /* struct choice by grant number */
    struct list running;   /* struct choice, in order of grant */
    struct list parts;     /* struct choice: ids not yet sent */
    struct list removals;  /* struct choice: Cancel or Remove not yet sent */
    uint32_t n_running;    /* granted to its place, not yet ended and
                            * acknowledged */
    uint64_t closed_until; /* it refused this grant for lack of room: nothing
                            * new before a ledger includes it */
    uint64_t n_moved;      /* of those granted, how many went elsewhere */
    struct drain drain;
    uint64_t load[FLEET_CLASSES]; /* BLOCKS and SLOTS of n_load sequences: */
    uint32_t n_load;              /* of headroom.h */
    uint64_t n_tokens;
    uint32_t step_us;
    struct liveness live;
    struct adoptions adoptions;

    enum worker_death death;
    bool blamed;                  /* its death was charged to someone already */
    struct queue_entry *on_trial; /* the suspect that it runs; NULL: none */
    struct life life;
};

/* Adds a worker to the fleet: s is checked; m is taken over with its
 * reference.  router/calls/worker_session.h introduces it to the other rooms.
 */
struct worker *workers_add(struct fleet *fleet, struct router_peer *p,
                           struct model *m, const Sluice__V1__WorkerShard *s);

/* Takes a worker out of the list of those that are here; its memory stays. */
void workers_unlist(struct fleet *fleet, struct worker *w);

/* Frees a worker that nothing refers to any more, and sets *w to NULL. */
void workers_free(struct fleet *fleet, struct worker **w);

/* Records how the session of w is about to end.  Keeps what was recorded by
 * an end that came before. */
void worker_died(struct worker *w, enum worker_death how);

/* May sequences run there, as it stands in the cluster?  It has all layers, or
 * leads a replica that is UP. */
static inline bool worker_can_serve(const struct worker *w)
{
    return w->serves;
}

/* To another state; only those of the picture. */
void worker_move(struct worker *w, enum worker_state to);

/* The name of its state for operators, drain aside. */
const char *worker_state_name(const struct worker *w);

/* Is every orphan of it known, so that none is sent there anew? */
static inline bool worker_orphans_known(const struct worker *w)
{
    return w->adoptions.n_told >= w->adoptions.n_announced ||
           w->ledger.snapshot > 0;
}

/* What so many blocks and slots are here, in all classes: a kind that the
 * shard lacks is neither needed nor counted. */
struct need worker_share(const struct worker *w, uint64_t blocks,
                         uint64_t slots);

/* What n_tokens tokens need here. */
struct need worker_need(const struct worker *w, uint64_t n_tokens);

/* Could a sequence of n_tokens ever run here, were the pool empty? */
bool worker_fits_ever(const struct worker *w, uint64_t n_tokens);

/* Does it fit now? */
bool worker_has_room(const struct worker *w, const struct need *need);

/* What is left of a class. */
uint64_t worker_room(const struct worker *w, enum fleet_class c);

/* Charge a need: its grant number. */
uint64_t worker_grant(struct worker *w, const struct need *need);

#endif
