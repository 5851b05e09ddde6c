#include "worker/worker_core.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/quote.h"
#include "common/wire/hello.h"
#include "common/wire/method_message.h"
#include "worker/base/advertise.h"
#include "worker/core_state.h"
#include "worker/plan/batcher.h"
#include "worker/sequences/deadline.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/orphans.h"

/* ---- the session ---- */

static ProtobufCBinaryData bytes_of(const uint8_t *data, size_t n)
{
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)data};
}

/* The most tokens of a sequence in a step bound its window blocks, at each
 * stage of a replica. */
static void fill_windows(const struct worker_options *o,
                         Sluice__V1__WorkerShard *m)
{
    m->has_chunk_tokens = o->window > 0;
    m->chunk_tokens = !m->has_chunk_tokens               ? 0
                      : o->chunk_tokens < o->step_tokens ? o->chunk_tokens
                                                         : o->step_tokens;
    m->has_window_tokens = m->has_window_pages = o->pool.window_pages > 0;
    m->window_pages = o->pool.window_pages;
    m->window_tokens = o->pool.window_pages > 0 ? o->window : 0;
}

static void fill_shard(struct worker_core *w, Sluice__V1__WorkerShard *m)
{
    const struct worker_options *o = &w->base.o;
    struct sequences *q = &w->sequences;

    sluice__v1__worker_shard__init(m);
    m->model = wire_text(o->model);
    m->fingerprint = bytes_of(o->fingerprint, sizeof o->fingerprint);
    m->tokenizer = bytes_of(o->tokenizer.hash,
                            o->tokenizer.known ? sizeof o->tokenizer.hash : 0);
    m->layer_begin = o->layer_begin;
    m->layer_end = o->layer_end;
    m->n_layers = o->n_layers;
    m->block_tokens = o->block_tokens;
    m->block_bytes = o->pool.block_bytes;
    m->slot_bytes = o->pool.slot_bytes;
    m->checkpoint_bytes = o->pool.checkpoint_bytes;
    m->pages_per_block = o->pool.pages_per_block;
    m->pages_per_slot = o->pool.pages_per_slot;
    m->pages_per_checkpoint = o->pool.pages_per_slot;
    fill_windows(o, m);
    m->context = o->context;
    m->vocab = o->vocab;
    m->max_rows = o->max_rows;
    m->weight_bytes = o->weight_bytes;
    m->scratch_bytes = o->scratch_bytes;
    m->pool_bytes = o->pool.bytes;
    m->device = wire_text(o->device);
    m->has_cut_tokens = true;
    m->cut_tokens =
        min_u32(BATCHER_CUT, min_u32(o->chunk_tokens, o->step_tokens));
    m->has_kv_format = o->shared.kv_format != NULL;
    m->kv_format =
        wire_text(o->shared.kv_format != NULL ? o->shared.kv_format : "");
    m->arithmetic =
        wire_text(o->shared.arithmetic != NULL ? o->shared.arithmetic : "");
    m->has_arithmetic = m->arithmetic.len > 0;
    m->has_host_pages = o->pool.host_pages > 0;
    m->host_pages = o->pool.host_pages;
    m->has_lineage = m->has_life = true;
    m->lineage = wire_text(o->lineage);
    m->life = w->life;
    /* The account before the session: memory that a plan still holds is in it.
     */
    ledger_begin(&q->ledger, 0);
    ledger_fill(&q->ledger, &q->pool, &q->table, &w->hello_ledger);
    m->ledger = &w->hello_ledger.ledger;
    if (o->stage_endpoint != NULL) {
        m->has_stage_endpoint = m->has_hidden = m->has_step_tokens = true;
        m->stage_endpoint = wire_text(
            advertise_now(w->hello_endpoint, o->stage_endpoint, w->base.io));
        m->hidden = o->hidden;
        m->step_tokens = o->step_tokens;
    }
    /* The router grants nothing until Live has listed all of them. */
    m->n_live = orphans_count(q);
    m->has_n_live = m->n_live > 0;
}

/* The session checks wire versions; the core adds its shard. */
static void on_hello(void *node, ProtobufCMessage *message)
{
    struct worker_core *w = node;
    Sluice__V1__HelloRequest *m = (Sluice__V1__HelloRequest *)message;

    fill_shard(w, &w->hello_shard);
    m->role = SLUICE__V1__ROLE__ROLE_WORKER;
    m->name = wire_text(w->base.o.name);
    m->worker = &w->hello_shard;
}

static void on_up(void *node, struct peer *p)
{
    struct worker_core *w = node;
    struct sequences *q = &w->sequences;

    log_info("session-up", "session=%016llx name=%s",
             (unsigned long long)peer_session(p),
             quote(worker_known_as(w)).text);
    w->base.metrics.sessions++;
    ledger_begin(&q->ledger, peer_session(p));
    w->away_logged = w->refused_logged = false;
    w->base.broken = NULL;
    q->report.changed = true;
    q->report.sent_us = base_now_us(&w->base) - REPORT_US; /* due at once */
    orphans_announce(q, p);
    publish_begin(q, w->base.session.has_prefix_key
                         ? w->base.session.prefix_key.bytes
                         : NULL);
    FP(WORKER_UP);
}

/* Logged once for each absence, however many attempts it takes. */
static void on_down(void *node, struct peer *p, enum status refused,
                    const char *why)
{
    struct worker_core *w = node;
    bool stopping = w->base.stopping;

    if (refused != ST_OK && !w->refused_logged) {
        log_error("hello-refused", "status=%s why=\"%s\"", status_name(refused),
                  why);
        w->refused_logged = true;
    } else if (refused == ST_OK && !w->away_logged && !stopping) {
        log_warn("router-away", "why=\"%s\"", why);
        w->away_logged = true;
    }
    if (p != NULL && !stopping) {
        /* The assembly drops its sequences first: none of them lives on. */
        stages_session_over(&w->stages);
        orphans_begin(&w->sequences);
    }
}

static const struct session_ops session_table = {
    .hello = on_hello, .up = on_up, .down = on_down};

/* ---- calls ---- */

/* A session that is broken, or a worker that stops, accepts nothing more. */
static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct worker_core *w = node;

    (void)deadline_us;
    if (base_peer(&w->base) == p) {
        calls_dispatch(&w->calls, p, m, call, request);
    }
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    struct worker_core *w = node;

    (void)p;
    calls_cancelled(&w->calls, call);
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct worker_core *w = node;

    (void)p, (void)tag, (void)retry_after_ms;
    if (m->number == METHOD_REGISTRY_LEAVE) {
        leave_answered(&w->leave, status,
                       reply != NULL ? AS_REPLY(REGISTRY_LEAVE, reply) : NULL,
                       e);
    }
}

/* The worker calls no stream, and every turn ends in session_tick(), which
 * flushes.  The other callbacks are therefore not needed. */
static const struct peer_ops peer_table = {
    .on_call = on_call, .on_cancel = on_cancel, .on_end = on_end};

/* ---- reports from the rooms ---- */

static void on_stop(void *core)
{
    worker_stop(core);
}

static void on_broken(void *core, const char *why)
{
    const struct worker_core *w = core;

    log_error("session-broken", "why=\"%s\" grant=%llu", why,
              (unsigned long long)w->sequences.ledger.grant);
}

static const struct base_ops base_table = {.stop = on_stop,
                                           .broken = on_broken};

/* ---- made and freed ---- */

/* A shard has layers of some kind, and its pool at least one slot.  Blocks
 * divide the units of the index. */
static bool pages_ok(const struct worker_options *o)
{
    bool has_blocks = o->pool.pages_per_block + o->pool.window_pages > 0;

    if (o->pool.n_pages == 0 ||
        (has_blocks && PREFIX_UNIT % o->block_tokens != 0) ||
        o->pool.window_pages > (o->window > 0 ? MODEL_LAYERS_MAX : 0)) {
        return false;
    }
    return o->pool.pages_per_slot == 0
               ? has_blocks
               : o->pool.slot_cap > 0 &&
                     o->pool.pages_per_slot <= POOL_EXTENT_MAX &&
                     o->pool.n_pages >= o->pool.pages_per_slot;
}

static bool options_ok(const struct worker_options *o)
{
    return o->name != NULL && o->model != NULL && o->device != NULL &&
           o->block_tokens > 0 && o->context > 0 && o->vocab > 0 &&
           o->n_eos <= WORKER_EOS_MAX && o->max_rows >= 1 &&
           o->max_rows <= PLAN_ROWS_MAX && o->step_tokens >= 1 &&
           o->step_tokens <= PLAN_TOKENS_MAX && o->chunk_tokens >= 1 &&
           o->engine_depth >= 1 && o->engine_depth <= ENGINE_DEPTH_MAX &&
           pages_ok(o) && (o->stage_endpoint == NULL || o->hidden > 0);
}

static bool copy_names(struct worker_options *o)
{
    /* The caller's strings may be gone when Hello is sent again. */
    o->lineage = strdup(o->lineage != NULL ? o->lineage : o->name);
    o->name = strdup(o->name);
    o->model = strdup(o->model);
    o->device = strdup(o->device);
    if (o->stage_endpoint != NULL) {
        o->stage_endpoint = strdup(o->stage_endpoint);
        if (o->stage_endpoint == NULL) {
            return false;
        }
    }
    return o->lineage != NULL && o->name != NULL && o->model != NULL &&
           o->device != NULL;
}

static void free_parts(struct worker_core *w)
{
    const struct worker_options *o = &w->base.o;

    sequences_fini(&w->sequences);
    free((char *)(uintptr_t)o->lineage);
    free((char *)(uintptr_t)o->name);
    free((char *)(uintptr_t)o->model);
    free((char *)(uintptr_t)o->device);
    free((char *)(uintptr_t)o->stage_endpoint);
}

/* A leader has a microbatch at each stage; alone, plans are at the engine. */
static uint32_t batches_of(const struct worker_options *o)
{
    return worker_options_role(o) == ROLE_LEADER ? BATCHES_MAX
                                                 : o->engine_depth;
}

static void connect_rooms(struct worker_core *w)
{
    struct worker_base *b = &w->base;

    arena_init(&b->arena);
    session_init(&b->session, b->io, &session_table, &peer_table, w, &b->arena,
                 BY_WORKER);
    if (b->o.pool.window_pages > 0) {
        session_need_minor(&b->session, WIRE_WINDOWS_MINOR,
                           "a model with sliding windows");
    }
    stages_init(&w->stages, &w->sequences);
    leave_init(&w->leave, b, &w->sequences.table);
    w->calls = (struct worker_calls){b, &w->sequences, &w->stages};
}

struct worker_core *worker_new(const struct worker_options *o,
                               struct node_io *io, struct engine *engine)
{
    struct worker_core *w;
    bool ok;

    if (!options_ok(o) || (o->stage_endpoint != NULL && io->open_to == NULL)) {
        return NULL;
    }
    w = malloc(sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    /* Not all of it: the buffers at the end are large and need no zeros. */
    memset(w, 0, offsetof(struct worker_core, sequences));
    w->base.o = *o;
    w->base.io = io;
    w->base.engine = engine;
    w->base.ops = &base_table;
    w->base.core = w;
    /* The router sees by it whether a session follows a restart or only a lost
     * connection. */
    w->life = io->random(io);
    ok = copy_names(&w->base.o);
    if (!sequences_init(&w->sequences, &w->base, batches_of(o)) || !ok) {
        free_parts(w);
        free(w);
        return NULL;
    }
    connect_rooms(w);
    return w;
}

void worker_free(struct worker_core **w)
{
    struct worker_core *gone = *w;

    *w = NULL;
    if (gone == NULL) {
        return;
    }
    if (!gone->base.stopping) {
        worker_stop(gone);
    }
    arena_fini(&gone->base.arena);
    stages_fini(&gone->stages);
    free_parts(gone);
    free(gone);
}

void worker_stop(struct worker_core *w)
{
    if (w->base.stopping) {
        return;
    }
    w->base.stopping = true;
    /* Goodbye first, so that the router moves the sequences without waiting for
     * a timeout.  `stopping` keeps on_down() from making orphans of them. */
    session_fini(&w->base.session, "the worker stops");
    stages_stop(&w->stages, "a stage stops");
    ending_drop_all(&w->sequences);
    tombstones_clear(&w->sequences.tombstones);
}

void worker_leave(struct worker_core *w, uint32_t grace_ms)
{
    leave_begin(&w->leave, grace_ms);
}

bool worker_lost(const struct worker_core *w)
{
    return w->base.lost;
}

bool worker_is_up(const struct worker_core *w)
{
    return base_peer(&w->base) != NULL;
}

const char *worker_known_as(const struct worker_core *w)
{
    const char *given = w->base.session.your_name;

    return given[0] != '\0' ? given : w->base.o.name;
}

bool worker_failed(const struct worker_core *w)
{
    return w->base.failed;
}

/* ---- accounts ---- */

static struct class_account account_of(struct pool_account a)
{
    return (struct class_account){.total = a.total,
                                  .free = a.free,
                                  .held = a.held,
                                  .cached = a.cached,
                                  .granted = a.granted};
}

void worker_account(const struct worker_core *w, struct worker_account *out)
{
    const struct sequences *q = &w->sequences;
    const struct assembly *a = &w->stages.assembly;
    const struct worker_metrics *m = &w->base.metrics;

    out->blocks = account_of(pool_account(&q->pool, POOL_BLOCKS));
    out->slots = account_of(pool_account(&q->pool, POOL_SLOTS));
    out->checkpoints = account_of(pool_account(&q->pool, POOL_CHECKPOINTS));
    out->windows = account_of(pool_account(&q->pool, POOL_WINDOWS));
    out->pages = account_of(pool_pages(&q->pool));
    out->grant = q->ledger.grant;
    out->snapshot = q->ledger.snapshot;
    out->violations = q->pool.violations + q->host.violations;
    out->n_sequences = q->table.n_live;
    out->n_orphans = orphans_count(q);
    out->n_suspended = q->table.in_state[SEQUENCE_SUSPENDED];
    out->host_total = q->host.n_pages;
    out->host_used = q->host.n_used;
    out->host_cached = prefix_host_pages(q->reuse.index);
    out->late_us = deadline_late_us(q);
    out->orphans_expired = m->orphans_expired;
    out->orphans_disowned = m->orphans_disowned;
    out->n_passed = q->batcher.share.n_passed;
    out->n_exceeded = q->batcher.n_exceeded;
    out->assembly = assembly_is_up(a) ? a->id : 0;
    out->streams_broken = m->streams_broken;
    out->stage = a->stage;
    out->n_stages = a->n_stages;
}

uint64_t worker_prefixes(const struct worker_core *w, uint32_t *n)
{
    return prefix_digest(w->sequences.reuse.index, n);
}

uint32_t worker_nodes(const struct worker_core *w)
{
    return prefix_figures(w->sequences.reuse.index).n_nodes;
}

void worker_evicted(const struct worker_core *w, uint64_t *nodes,
                    uint64_t *checkpoints)
{
    struct prefix_figures f = prefix_figures(w->sequences.reuse.index);

    *nodes = f.evicted;
    *checkpoints = f.evicted_checkpoints;
}

uint32_t worker_tenant_pages(const struct worker_core *w, uint32_t *most,
                             uint64_t *n_full)
{
    const struct prefix *x = w->sequences.reuse.index;

    *n_full = prefix_figures(x).at_quota;
    return prefix_tenant_pages(x, most);
}

void worker_clear_index(struct worker_core *w)
{
    prefix_clear(w->sequences.reuse.index);
}

uint32_t worker_audit(const struct worker_core *w, char *text, size_t cap)
{
    const struct sequences *q = &w->sequences;

    return ledger_audit(&q->ledger, &q->pool, &q->table, text, cap);
}

int worker_sequence_state(const struct worker_core *w,
                          const uint8_t request_id[16], uint32_t choice)
{
    struct sequence_key key = {.choice = choice};
    const struct sequence *s;

    memcpy(key.request_id, request_id, sizeof key.request_id);
    s = sequence_by_key(&w->sequences.table, &key);
    return s == NULL ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN
                     : sequence_public_state(s);
}
