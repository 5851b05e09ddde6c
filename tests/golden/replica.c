#include "tests/golden/replica.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/split/page_unit.h"
#include "tests/golden/replica_state.h"
#include "tests/patience.h"
#include "worker/base/metrics.h"

void replica_die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "replica: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    abort();
}

/* ---- io ---- */

static struct node *node_of(struct node_io *io)
{
    return io->impl;
}

int64_t replica_clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t io_now(struct node_io *io)
{
    (void)io;
    return replica_clock_us();
}

static uint64_t io_random(struct node_io *io)
{
    return ++node_of(io)->replica->random * 0x9e3779b97f4a7c15u;
}

void replica_put(struct replica *r, uint32_t node, uint32_t at, struct frame *f)
{
    if (r->n_parcels == FRAMES_MAX) {
        replica_die("%d frames wait", FRAMES_MAX);
    }
    r->parcels[r->n_parcels++] = (struct parcel){node, {at}, f};
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct replica *r = node_of(io)->replica;
    uint32_t i = (to.v - 1) / 2, other = to.v % 2;

    replica_put(r, r->connections[i].node[other], 2 * i + 1 + other, *f);
    *f = NULL;
    return ST_OK;
}

static struct peer_id connect_to(struct node *from, uint32_t to)
{
    struct replica *r = from->replica;
    uint32_t i = r->n_connections++;

    if (i == CONNECTIONS_MAX) {
        replica_die("%d connections", CONNECTIONS_MAX);
    }
    r->connections[i] = (struct connection){{from->index, to}};
    replica_put(r, from->index, 2 * i + 1, NULL);
    return (struct peer_id){2 * i + 1};
}

static struct peer_id io_open(struct node_io *io)
{
    struct node *n = node_of(io);

    return connect_to(n, n->replica->n);
}

static struct peer_id io_open_to(struct node_io *io, const char *endpoint,
                                 const uint8_t *key)
{
    struct replica *r = node_of(io)->replica;

    (void)key;
    for (uint32_t i = 0; i < r->n; i++) {
        if (strcmp(endpoint, r->nodes[i].endpoint) == 0) {
            return connect_to(node_of(io), i);
        }
    }
    replica_die("no stage at %s", endpoint);
}

/* Only a Goodbye ends a connection here. */
static void io_close(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
}

static void io_make(struct replica *r, uint32_t i)
{
    struct node *n = &r->nodes[i];

    n->replica = r;
    n->index = i;
    n->io = (struct node_io){.impl = n,
                             .now_us = io_now,
                             .random = io_random,
                             .send = io_send,
                             .open = i < r->n ? io_open : NULL,
                             .open_to = i < r->n ? io_open_to : NULL,
                             .close = io_close};
}

/* ---- turns ---- */

static void deliver(struct replica *r)
{
    struct parcel parcels[FRAMES_MAX];
    uint32_t n = r->n_parcels;

    memcpy(parcels, r->parcels, n * sizeof *parcels);
    r->n_parcels = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct parcel *p = &parcels[i];
        struct node *to = &r->nodes[p->node];

        if (p->node == r->n) {
            replica_router_recv(r, p->at, p->frame);
        } else if (p->frame == NULL) {
            worker_node_ops.opened(to->core, p->at);
        } else {
            worker_node_ops.recv(to->core, p->at, &p->frame);
        }
    }
}

/* Waits until an engine has a result, or a node's timer is due. */
static void wait_for_work(struct replica *r)
{
    struct pollfd fds[REPLICA_STAGES];
    int64_t due_us = replica_clock_us() + 1000000, now;
    int n;

    for (uint32_t i = 0; i < r->n; i++) {
        struct node *x = &r->nodes[i];

        fds[i] = (struct pollfd){.fd = x->stage.fd, .events = POLLIN};
        due_us = x->due_us < due_us ? x->due_us : due_us;
    }
    now = replica_clock_us();
    n = poll(fds, r->n, due_us <= now ? 0 : (int)((due_us - now) / 1000 + 1));
    for (uint32_t i = 0; i < r->n && n > 0; i++) {
        r->nodes[i].stage.quiet(r->nodes[i].stage.arg);
    }
}

static void turn(struct replica *r)
{
    if (r->n_parcels == 0) {
        wait_for_work(r);
    }
    deliver(r);
    for (uint32_t i = 0; i < r->n; i++) {
        struct node *n = &r->nodes[i];

        if (n->peer != NULL) {
            peer_flush(n->peer, replica_clock_us());
        }
        n->due_us = worker_node_ops.tick(n->core, replica_clock_us());
        if (n->due_us == NODE_STOP) {
            replica_die("stage %u has stopped: its engine is dead", i);
        }
    }
}

/* Takes turns until the condition holds; any result of a step restarts the
 * timeout. */
#define UNTIL(r, condition)                                          \
    for ((r)->news_us = replica_clock_us(); !(condition); turn(r)) { \
        if (replica_clock_us() - (r)->news_us > patience_us()) {     \
            replica_die("it hangs before %s", #condition);           \
        }                                                            \
    }

static struct worker_account account(const struct node *n)
{
    struct worker_account a;

    worker_account(n->core, &a);
    return a;
}

/* Only the index, and sequences that are kept, have memory. */
static bool is_quiet(const struct replica *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct worker_account a = account(&r->nodes[i]);

        if (a.n_sequences != r->n_kept ||
            (r->n_kept == 0 &&
             a.pages.free + a.pages.cached != a.pages.total)) {
            return false;
        }
    }
    return true;
}

static bool all_free(const struct replica *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct worker_account a = account(&r->nodes[i]);

        if (a.pages.free != a.pages.total || a.n_sequences > 0) {
            return false;
        }
    }
    return true;
}

static void audit(const struct replica *r)
{
    char text[1024];

    for (uint32_t i = 0; i < r->n; i++) {
        if (worker_audit(r->nodes[i].core, text, sizeof text) > 0) {
            replica_die("the account of stage %u differs: %s", i, text);
        }
    }
}

/* Ended sequences hold no memory, unless they are kept; the first stage frees
 * its own last. */
static bool is_released(const struct replica *r)
{
    return account(&r->nodes[0]).n_sequences + r->n_over <=
           r->n_accepted + r->n_kept;
}

void replica_run(struct replica *r, struct replica_ask *asks, uint32_t n)
{
    r->asks = asks;
    r->n_asks = n;
    r->n_sent = r->n_accepted = r->n_over = 0;
    while (r->n_over < n) {
        uint32_t over = r->n_over;

        while (r->n_sent < n && r->n_sent - r->n_over < r->o.at_once) {
            replica_send_submit(r, r->n_sent++);
        }
        UNTIL(r, r->n_over > over && is_released(r));
    }
    UNTIL(r, is_quiet(r));
    audit(r);
}

uint32_t replica_cut(struct replica *r, const struct replica_ask *a,
                     uint32_t begin)
{
    uint32_t n = r->n_cuts;

    replica_send_cut(r, a, begin);
    UNTIL(r, r->n_cuts > n);
    return r->position;
}

struct replica_counts replica_counts(const struct replica *r)
{
    struct worker_metrics m;

    worker_counts(r->nodes[0].core, &m);
    return (struct replica_counts){.drafted = m.drafts_mtp + m.drafts_ngram,
                                   .accepted =
                                       m.accepted_mtp + m.accepted_ngram,
                                   .reused = m.reused_tokens,
                                   .twins = m.twins,
                                   .continued = m.continued,
                                   .evicted = m.evicted,
                                   .checkpoints_evicted = m.checkpoints_evicted,
                                   .moved = m.blocks_moved,
                                   .resumed_swap = m.resumed_swap,
                                   .resumed_recompute = m.resumed_recompute,
                                   .from_host = m.reused_host_tokens};
}

/* ---- set-up and release ---- */

uint32_t replica_windows(const struct replica_options *o,
                         const struct replica_stage *s, uint32_t n_tokens)
{
    uint32_t chunk =
        o->chunk_tokens < o->step_tokens ? o->chunk_tokens : o->step_tokens;

    return s->window_pages * (uint32_t)page_window_blocks(
                                 s->window, chunk, o->block_tokens, n_tokens);
}

uint32_t replica_pages(const struct replica_options *o,
                       const struct replica_stage *s)
{
    uint32_t blocks = (o->context + o->block_tokens - 1) / o->block_tokens;

    if (o->pages > 0) {
        return o->pages;
    }
    return o->room * ((s->has_blocks ? blocks : 0) + s->pages_per_slot +
                      replica_windows(o, s, o->context));
}

static struct worker_options options(const struct replica *r,
                                     const struct node *n)
{
    const struct replica_stage *s = &n->stage;

    return (struct worker_options){
        .name = n->endpoint,
        .model = "golden",
        .device = "cpu",
        .layer_begin = s->begin,
        .layer_end = s->end,
        .n_layers = s->n_layers,
        .block_tokens = r->o.block_tokens,
        .pool.n_pages = replica_pages(&r->o, s),
        .pool.pages_per_block = s->has_blocks,
        .pool.pages_per_slot = s->pages_per_slot,
        .window = s->window,
        .pool.window_pages = s->window_pages,
        .pool.slot_cap = r->o.room,
        .pool.host_pages = r->o.host_pages,
        .pool.poison = true,
        .reuse = true,
        .pool.checkpoint_share = 0.5f,
        .pool.tenant_share = 1,
        .one_arithmetic = s->one_arithmetic,
        .context = r->o.context,
        .vocab = s->vocab,
        .max_rows = r->o.max_rows,
        .step_tokens = r->o.step_tokens,
        .chunk_tokens = r->o.chunk_tokens,
        .engine_depth = r->o.engine_depth,
        .drafting.most = r->o.drafts,
        .drafting.has_mtp = s->has_mtp,
        .drafting.keep_tokens = r->o.keep_tokens,
        .stage_endpoint = r->n > 1 ? n->endpoint : NULL,
        .hidden = s->hidden,
    };
}

static void node_make(struct replica *r, uint32_t i,
                      const struct replica_stage *stage)
{
    struct node *n = &r->nodes[i];
    struct worker_options o;

    io_make(r, i);
    snprintf(n->endpoint, sizeof n->endpoint, "ipc:///replica/%u", i);
    n->stage = *stage;
    o = options(r, n);
    n->core = worker_new(&o, &n->io, stage->engine);
    if (n->core == NULL) {
        replica_die("no worker of these options");
    }
}

static bool all_in(const struct replica *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->nodes[i].peer == NULL) {
            return false;
        }
    }
    return true;
}

struct replica *replica_new(const struct replica_stage *stages, uint32_t n,
                            const struct replica_options *o)
{
    struct replica *r = calloc(1, sizeof *r);

    if (r == NULL) {
        replica_die("memory is out");
    }
    r->n = n;
    r->o = *o;
    arena_init(&r->arena);
    io_make(r, n);
    for (uint32_t i = 0; i < n; i++) {
        node_make(r, i, &stages[i]);
    }
    UNTIL(r, all_in(r));
    for (uint32_t i = 0; i < n && n > 1; i++) {
        replica_send_assemble(r, i);
    }
    UNTIL(r, n == 1 || r->n_assembled == n);
    return r;
}

void replica_free(struct replica **rp)
{
    struct replica *r = *rp;

    *rp = NULL;
    worker_clear_index(r->nodes[0].core);
    UNTIL(r, all_free(r));
    for (uint32_t i = 0; i < r->n; i++) {
        struct node *n = &r->nodes[i];

        worker_free(&n->core);
        peer_free(&n->peer);
    }
    for (uint32_t i = 0; i < r->n_parcels; i++) {
        frame_free(&r->parcels[i].frame);
    }
    arena_fini(&r->arena);
    free(r);
}
