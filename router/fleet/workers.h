/* workers.h - The router's record of a worker: its shard, its newest ledger,
 * and the grants that no ledger includes yet.
 *
 *     SLOW <--a plan is overdue, is done--> UP
 *      |  |                               ^  |
 *      |  +--silence--> SILENT --a frame--+  |
 *      |                  |  ^----silence----+
 *      +----> LOST <------+------------------+
 *
 * Only a worker that is UP receives grants.  LOST: the session and its grants
 * are over.  liveness.h has the conditions.  A worker may also be draining
 * (router/placement/drain.h), in any of these states.
 *
 * A worker with all layers is a place where sequences run.  A worker with a
 * partial shard is a stage of a replica (router/replicas/replica.h), or waits
 * to become one.
 *
 * The classes of a pool share its pages.  By the newest ledger and owed, the
 * needs of the grants above ledger.grant:
 *
 *     pages left      = free + cached - owed, in pages
 *     units left      = total - held - granted - owed, of a class
 *     room of a class = min(units left, pages left / pages per unit)
 *
 * A need fits if its pages are left and its units of each class are.  Units
 * run out before pages where a class has a cap, as slots have.  Only ledgers
 * change the room; receipts do not.  The sum of grants therefore never exceeds
 * the pool, even if ledgers are delayed, lost, reordered or duplicated.
 *
 * Threading: the core's.  Memory: a worker on the heap; its ring of needs
 * has GRANTS_UNSETTLED_MAX entries.  Limits: ROUTER_WORKERS_MAX workers. */
#ifndef ROUTER_FLEET_WORKERS_H
#define ROUTER_FLEET_WORKERS_H

#include <string.h>

#include "common/wire/endpoint.h"
#include "proto/common.pb-c.h"
#include "proto/registry.pb-c.h"
#include "router/base/parts.h"
#include "router/fleet/lineage.h"
#include "router/fleet/liveness.h"
#include "router/fleet/models.h"
#include "router/fleet/peers.h"
#include "router/fleet/tier.h"

struct fleet;

enum worker_state {
    WORKER_UP,
    WORKER_SLOW,
    WORKER_SILENT,
    WORKER_LOST,
    WORKER_STATES
};

/* The end of a worker's session as a death.  DEATH_NONE: the worker did not die
 * (a Goodbye, a violation, a drain).  DEATH_LOST: the connection was lost or
 * silent; the same life may come back.  DEATH_HUNG: the engine made no
 * progress. */
enum worker_death { DEATH_NONE, DEATH_LOST, DEATH_HUNG };

enum fleet_class { BLOCKS, SLOTS, CHECKPOINTS, WINDOWS, PAGES, FLEET_CLASSES };

/* Units of one class in a pool; WINDOWS are the pages of window blocks.  In
 * pages total = free + held + cached + granted.  Of the other classes held,
 * cached and granted are exact, total is what an empty pool gives, and free
 * what all free pages would. */
struct class_ledger {
    uint32_t total, free, held, cached, granted;
};

/* A ledger as the router keeps it: proto/common.proto has the fields. */
struct fleet_ledger {
    uint64_t session, snapshot, grant, violations;
    struct class_ledger classes[FLEET_CLASSES];
    uint32_t n_queued, n_prefill, n_decode, n_kept;
    uint32_t n_suspended, host_total, host_used;
    struct tier tier;
};

/* Units of each class that a sequence needs. */
struct need {
    uint64_t of[FLEET_CLASSES];
    uint64_t window_blocks; /* their pages, of[WINDOWS], depend on the shard */
};

/* A worker's layers [layer_begin, layer_end) and its limits, from its Hello. */
struct shard {
    uint32_t layer_begin, layer_end, n_layers;
    uint32_t block_tokens, context, vocab, max_rows;
    uint32_t pages_per_block, pages_per_slot, pages_per_checkpoint;
    /* 0 without window layers; chunk_tokens: most tokens in a step. */
    uint32_t window_tokens, window_pages, chunk_tokens;
    uint64_t block_bytes, slot_bytes, checkpoint_bytes;
    uint64_t weight_bytes, scratch_bytes, pool_bytes;
    uint32_t hidden;      /* H, values of x per token; 0: not given */
    uint32_t step_tokens; /* tokens in a step of a stage; 0: not given */
    uint32_t cut_tokens;  /* least of a prompt in a step; 0: not given */
    char device[SHARD_DEVICE_MAX + 1];
    char kv_format[KV_FORMAT_MAX + 1];   /* "": not given */
    char arithmetic[ARITHMETIC_MAX + 1]; /* "": not given */
    char stage_endpoint[ENDPOINT_MAX];   /* "": none */
};

/* Returns false if both KV formats, or both arithmetic ids, are given and
 * differ. */
static inline bool shard_words_agree(const char *a, const char *b)
{
    return a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0;
}

/* Whether a worker is to get no new grants (router/placement/drain.h).  LEAVES:
 * the worker asked for it, because it is stopping.
 *
 *     NONE <--> ON --> LEAVES
 *       +----------------^   */
enum worker_drain { DRAIN_NONE, DRAIN_ON, DRAIN_LEAVES, WORKER_DRAINS };

/* The grants of a session. */
struct worker_grants {
    uint64_t last;      /* number of the newest grant */
    struct need *ring;  /* [ring_size] need of grant g at g % ring_size */
    uint32_t ring_size; /* GRANTS_UNSETTLED_MAX */
    uint64_t owed[FLEET_CLASSES]; /* needs of the grants above ledger.grant */
    uint64_t closed_until; /* the worker refused this grant for lack of room:
                            * no grants until a ledger includes it */
};

/* Counts of a session. */
struct worker_counts {
    uint64_t step;     /* number of its newest step */
    uint32_t step_us;  /* device time of the newest step; 0: not given */
    uint64_t n_moved;  /* granted sequences that moved to other workers */
    uint64_t n_tokens; /* generated tokens */
    uint64_t n_prompt_tokens;    /* prompts that began here; */
    uint64_t n_reused_tokens;    /* the part of them that was restored */
    bool drafted;                /* drafts has counts */
    struct router_drafts drafts; /* in its life, as newest reported */
};

struct worker {
    struct router_peer *peer;
    struct model *model;
    enum worker_state state;
    struct shard shard;
    struct fleet_ledger ledger; /* the newest */

    bool serves;           /* the worker is a place: replica.h */
    uint32_t chunk_tokens; /* most tokens of a sequence in a step there: the
                            * leader's */

    struct worker_grants grants;
    uint32_t n_running; /* sequences granted to the worker's place, not yet
                         * ended and acknowledged */
    enum worker_drain drain;
    bool grew; /* a sequence that grows was here in this session, so that any
                * may be suspended: router/schedule/claims.h */
    struct worker_counts counts;
    struct liveness live;
    uint32_t n_unlisted; /* orphans in its Hello that Live has not listed */

    enum worker_death death;
    bool blamed; /* the death has been charged already */
    struct life life;
    void *parts[PARTS]; /* parts.h */
};

/* Adds a worker of peer p to the fleet, with a shard s that shard_check() has
 * accepted.  Takes over the caller's reference to m.  The caller
 * (router/calls/worker_session.h) introduces it to the other rooms.  Returns
 * NULL without memory; the reference is then still the caller's. */
struct worker *workers_add(struct fleet *fleet, struct router_peer *p,
                           struct model *m, const Sluice__V1__WorkerShard *s);

/* Removes a worker from fleet->workers.  Does not free it. */
void workers_unlist(struct fleet *fleet, struct worker *w);

/* Frees a worker that is not listed and not referenced, releases its model, and
 * sets *w to NULL. */
void workers_free(struct fleet *fleet, struct worker **w);

/* Records how the session of w is about to end.  A no-op if the session has
 * ended already: the first cause counts. */
void worker_died(struct worker *w, enum worker_death how);

/* Returns true if w is a place: it has all layers, or leads a replica that is
 * UP. */
static inline bool worker_can_serve(const struct worker *w)
{
    return w->serves;
}

/* Moves w to a state that the picture above allows; asserts otherwise. */
void worker_move(struct worker *w, enum worker_state to);

/* Moves the drain of w to another state; asserts that the move is allowed. */
void worker_drain_move(struct worker *w, enum worker_drain to);

/* Returns the name of w's state for operators, without drain.  Never NULL. */
const char *worker_state_name(const struct worker *w);

/* Returns true if Live has listed all orphans that w announced in its Hello, or
 * if a ledger of the session has come without Live.  Before that, a grant could
 * send w a sequence that it still has. */
static inline bool worker_orphans_known(const struct worker *w)
{
    return w->n_unlisted == 0 || w->ledger.snapshot > 0;
}

/* Returns the part of a place's need that w holds: the same blocks, window
 * blocks and slots, with the pages that they take on w.  Classes that the shard
 * does not have are 0. */
struct need worker_share(const struct worker *w, const struct need *need);

/* Returns the need on w of a sequence of n_tokens tokens. */
struct need worker_need(const struct worker *w, uint64_t n_tokens);

/* Returns true if a sequence of n_tokens fits w's context and empty pool. */
bool worker_fits_ever(const struct worker *w, uint64_t n_tokens);

/* Returns true if w has room for need now. */
bool worker_has_room(const struct worker *w, const struct need *need);

/* Returns the pages of one unit of a class; 0: the shard lacks the class. */
uint32_t worker_pages_per(const struct shard *s, enum fleet_class c);

/* Returns the room of a class, in units: see the formulas above. */
uint64_t worker_room(const struct worker *w, enum fleet_class c);

/* Returns the units of a class that are left, if pages allow them. */
uint64_t worker_units(const struct worker *w, enum fleet_class c);

/* Charges a need to w and returns its grant number.  The caller has checked
 * that fewer than GRANTS_UNSETTLED_MAX grants are unsettled. */
uint64_t worker_grant(struct worker *w, const struct need *need);

#endif
