/* replay_state.h - The parts of a replay, for the files of this room.
 *
 *     replay.c          arrivals, places that come and go, the clock
 *     replay_net.c      frames between the core and its peers
 *     replay_worker.c   sequences, steps and messages of a worker
 *     replay_memory.c   its pages: blocks, slots, shared prefixes
 *
 * Threading: none.  Memory: one struct replay, freed by replay_run(). */
#ifndef ROUTER_REPLAY_REPLAY_STATE_H
#define ROUTER_REPLAY_REPLAY_STATE_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/timer.h"
#include "common/wire/peer.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "router/base/router_limits.h"
#include "router/replay/replay.h"
#include "router/router_core.h"

#define REPLAY_CLIENTS   32
#define REPLAY_VOCAB     65536
#define REPLAY_ID_BYTES  16
#define REPLAY_SEQUENCES 3072 /* WORKER_LIVE_MAX */

struct replay;
struct replay_worker;

/* A session with the core. */
struct replay_peer {
    struct replay *in;
    struct replay_worker *worker; /* NULL: a client */
    struct node_io io;
    struct peer_id id;
    struct peer *peer; /* NULL before the answer to Hello */
    bool up, gone, dirty;
    struct prefix_key key;
};

/* A prefix that a worker can restore: a unit of tokens, after those before. */
struct replay_unit {
    struct table_node node;
    struct list lru; /* while no sequence uses it */
    struct prefix_hash hash;
    uint32_t n_tokens, n_users;
};

struct replay_sequence {
    uint32_t request, choice; /* indices; choice: in its request */
    uint64_t grant;
    uint32_t n_prompt, n_made, n_acked, n_done, n_now, max_tokens, length;
    uint32_t n_restored;
    uint32_t n_blocks, n_windows; /* that it has, with shared ones */
    struct replay_unit **units;   /* [n_units] that it uses */
    uint32_t n_units;
    struct prefix_hash *hashes; /* [n_hashes] of its whole length */
    uint32_t n_hashes;
    bool grows, suspended, cached;
    bool changed; /* it has news for the router, besides tokens */
    uint32_t finish;
};

/* Units of a pool in use. */
struct replay_pool {
    uint64_t n_pages, n_blocks, n_slots, n_windows; /* n_pages: in all */
    uint64_t n_cached;                              /* units of prefixes */
    struct table units;
    struct list lru; /* struct replay_unit, oldest first */
};

struct replay_worker {
    struct replay_peer peer;
    uint32_t place; /* index of the recorded one */
    struct record_place shape;
    const struct record_cost *cost;
    uint32_t next_cost;
    struct replay_pool pool;
    struct replay_sequence *all[REPLAY_SEQUENCES]; /* [n] in order of grants */
    uint32_t n, n_suspended;
    bool busy;
    int64_t due_us;                  /* end of the step */
    uint32_t step_us, n_step_tokens; /* in this step */
    uint64_t n_steps, snapshot, last_grant;
    /* Index events that are not sent. */
    uint32_t n_events;
    uint64_t next_event;
    uint8_t event_hashes[INDEX_EVENTS_MAX * PREFIX_HASH_BYTES];
    uint32_t event_tokens[INDEX_EVENTS_MAX];
};

/* A request whose client gives up: its time. */
struct replay_client_request {
    struct timer give_up;
    struct replay_peer *client;
    uint64_t call; /* 0: not open */
};

struct replay_frame {
    struct replay_peer *peer;
    bool to_router;
    struct frame *frame;
};

struct replay {
    const struct recording *recording;
    struct replay_options options;
    struct replay_run *run;
    uint32_t *lengths; /* [recording.n_choices] */
    struct node_io io;
    struct router_core *router;
    int64_t now_us, begin_us, router_due_us;
    uint64_t random;
    struct arena arena;
    struct replay_peer clients[REPLAY_CLIENTS];
    struct replay_worker **workers; /* [n_workers], also those that are gone */
    uint32_t n_workers, next_client;
    struct replay_peer **peers; /* [n_peers] by id - 1 */
    uint32_t n_peers, peers_size;
    struct replay_frame *frames; /* [n_frames] in flight */
    uint32_t n_frames, frames_size;
    struct replay_client_request *requests; /* [recording.n_requests] */
    struct timers give_ups;
    uint32_t n_sent, n_open; /* requests */
    uint32_t next_place;
    struct error refusal; /* why the core refused a worker; ST_OK: it did not */
};

/* ---- replay_net.c ---- */

/* Creates the core; and frees it with all peers and frames. */
void replay_net_init(struct replay *x, const struct router_options *o);
void replay_net_fini(struct replay *x);

/* Brings a peer up, whose worker is set before.  hello: its message. */
void replay_connect(struct replay *x, struct replay_peer *p,
                    const Sluice__V1__HelloRequest *hello);

/* Breaks its connection. */
void replay_disconnect(struct replay_peer *p);

/* Delivers frames and ticks until none is left. */
void replay_pump(struct replay *x);

/* Returns when the core or a peer is due next. */
int64_t replay_net_due(const struct replay *x);

/* ---- replay.c ---- */

/* Returns a token of the sequence of the first choice of a request. */
uint32_t replay_token(const struct recording *r, uint32_t request,
                      uint32_t choice, uint32_t at);

/* Takes the end of a call. */
void replay_ended(struct replay *x, uint32_t request, enum status status);

/* Returns the record of a choice. */
static inline struct recorded_choice *
replay_choice(const struct replay *x, uint32_t request, uint32_t choice)
{
    return &x->run->choices[x->recording->requests[request].choices + choice];
}

/* Returns the time since the begin. */
static inline int64_t replay_time(const struct replay *x)
{
    return x->now_us - x->begin_us;
}

/* ---- replay_worker.c ---- */

/* Creates a worker like a place, and brings it up; NULL without memory. */
struct replay_worker *replay_worker_new(struct replay *x, uint32_t place);
void replay_worker_free(struct replay_worker **w);

/* Takes a call or a message of the router. */
void replay_worker_hears(struct replay_worker *w, const struct method_row *m,
                         uint64_t call, const ProtobufCMessage *request);

/* Does what is due at x->now_us: ends a step, begins the next. */
void replay_worker_turn(struct replay_worker *w);

/* ---- replay_memory.c ---- */

/* Initialises the pool of w by its shape; and frees it. */
void replay_pool_init(struct replay_worker *w);
void replay_pool_fini(struct replay_worker *w);

/* Returns the pages that are free or hold cached prefixes. */
uint64_t replay_pool_left(const struct replay_worker *w);

/* Gives s a slot, its prefix as far as it can be restored, and blocks for n
 * tokens.  Returns false without room or memory: it has nothing then. */
bool replay_pool_take(struct replay_worker *w, struct replay_sequence *s,
                      uint32_t n);

/* Gives s blocks for n tokens.  Returns false without room. */
bool replay_pool_grow(struct replay_worker *w, struct replay_sequence *s,
                      uint32_t n);

/* Makes what s has computed restorable. */
void replay_pool_share(struct replay_worker *w, struct replay_sequence *s);

/* Takes all memory of s back. */
void replay_pool_release(struct replay_worker *w, struct replay_sequence *s);

/* Fills in a ledger of w. */
struct replay_ledger {
    Sluice__V1__Ledger m;
    Sluice__V1__ClassLedger classes[5];
};
void replay_pool_ledger(const struct replay_worker *w, struct replay_ledger *l);

/* Sends the Index events of w that wait. */
void replay_pool_tell(struct replay_worker *w);

#endif
