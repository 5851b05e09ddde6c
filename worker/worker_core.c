#include "worker/worker_core.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "worker/sequences/orphans.h"

/* Versions of the wire are the session's business; ours is the shard. */

struct peer *worker_peer(struct worker_core *w)
{
    if (w->stopping || w->broken != NULL || w->session.state != SESSION_UP) {
        return NULL;
    }
    return w->session.peer;
}

void worker_break(struct worker_core *w, const char *why)
{
    if (w->broken == NULL) {
        log_error("session-broken", "why=\"%s\" grant=%llu", why,
                  (unsigned long long)w->ledger.grant);
        w->broken = why;
    }
}

/* ---- the session ---- */

static ProtobufCBinaryData bytes_of(const uint8_t *data, size_t n)
{
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)data};
}

static void fill_shard(struct worker_core *w, Sluice__V1__WorkerShard *m)
{
    const struct worker_options *o = &w->o;

    sluice__v1__worker_shard__init(m);
    m->model = wire_text(o->model);
    m->fingerprint = bytes_of(o->fingerprint, sizeof o->fingerprint);
    m->tokenizer =
        bytes_of(o->tokenizer, o->has_tokenizer ? sizeof o->tokenizer : 0);
    m->layer_begin = o->layer_begin;
    m->layer_end = o->layer_end;
    m->n_layers = o->n_layers;
    m->block_tokens = o->block_tokens;
    m->block_bytes = o->block_bytes;
    m->slot_bytes = o->slot_bytes;
    m->checkpoint_bytes = o->checkpoint_bytes;
    m->pages_per_block = o->pages_per_block;
    m->pages_per_slot = o->pages_per_slot;
    m->pages_per_checkpoint = o->pages_per_checkpoint;
    m->context = o->context;
    m->vocab = o->vocab;
    m->max_rows = o->max_rows;
    m->weight_bytes = o->weight_bytes;
    m->scratch_bytes = o->scratch_bytes;
    m->pool_bytes = o->pool_bytes;
    m->device = wire_text(o->device);
    m->has_lineage = m->has_life = true;
    m->lineage = wire_text(o->lineage);
    m->life = w->life;
    /* Of no session: what a plan of the last one still holds is in it. */
    ledger_begin(&w->ledger, 0);
    ledger_fill(&w->ledger, &w->pool, &w->table, &w->hello_ledger);
    m->ledger = &w->hello_ledger.ledger;
    if (o->stage_endpoint != NULL) {
        m->has_stage_endpoint = m->has_hidden = m->has_step_tokens = true;
        m->stage_endpoint = wire_text(o->stage_endpoint);
        m->hidden = o->hidden;
        m->step_tokens = o->step_tokens;
    }
    m->n_live = orphans_count(w);
    m->has_n_live = m->n_live > 0;
}

static void on_hello(void *node, ProtobufCMessage *message)
{
    struct worker_core *w = node;
    Sluice__V1__HelloRequest *m = (Sluice__V1__HelloRequest *)message;

    fill_shard(w, &w->hello_shard);
    m->role = SLUICE__V1__ROLE__ROLE_WORKER;
    m->name = wire_text(w->o.name);
    m->worker = &w->hello_shard;
}

static void on_up(void *node, struct peer *p)
{
    struct worker_core *w = node;

    log_info("session-up", "session=%016llx",
             (unsigned long long)peer_session(p));
    w->metrics.sessions++;
    ledger_begin(&w->ledger, peer_session(p));
    w->away = w->refused = false;
    w->broken = NULL;
    w->changed = true;
    w->reported_us = w->io->now_us(w->io) - REPORT_US;
    orphans_tell(w, p);
    FP(WORKER_UP);
}

/* Said once for each absence, however many attempts it takes. */
static void on_down(void *node, struct peer *p, enum status refused,
                    const char *why)
{
    struct worker_core *w = node;

    if (refused != ST_OK && !w->refused) {
        log_error("hello-refused", "status=%s why=\"%s\"", status_name(refused),
                  why);
        w->refused = true;
    } else if (refused == ST_OK && !w->away && !w->stopping) {
        log_warn("router-away", "why=\"%s\"", why);
        w->away = true;
    }
    if (p != NULL && !w->stopping) {
        assembly_session_over(w);
        orphans_begin(w);
    }
}

static const struct session_ops session_table = {
    .hello = on_hello, .up = on_up, .down = on_down};

/* ---- dispatch ---- */

void worker_health(struct peer *p, uint64_t call)
{
    Sluice__V1__HealthReply reply = SLUICE__V1__HEALTH_REPLY__INIT;

    reply.serving = true;
    peer_end(p, call, &reply.base);
}

static void refuse_unbuilt(struct peer *p, uint64_t call,
                           const struct method_row *m)
{
    struct error e;

    error_set(&e, ST_UNIMPLEMENTED, "%s is not built here", m->name);
    peer_fail(p, call, &e, 0);
}

static void recv_assign(struct worker_core *w, struct peer *p, uint64_t call)
{
    struct error e;

    error_set(&e, ST_FAILED_PRECONDITION, "this worker has layers %u-%u",
              w->o.layer_begin, w->o.layer_end);
    peer_fail(p, call, &e, 0);
}

/* To a stage that obeys: was it of sequences, which are the leader's matter?
 * Then it is refused. */
static bool is_leaders(const struct worker_core *w, struct peer *p,
                       const struct method_row *m, uint64_t call)
{
    struct error e;

    switch (m->number) {
    case METHOD_WORKER_SUBMIT:
    case METHOD_WORKER_CANCEL:
    case METHOD_WORKER_REMOVE:
        error_set(&e, ST_FAILED_PRECONDITION,
                  "%s: layers %u-%u of %u obey the stage that has layer 0",
                  m->method, w->o.layer_begin, w->o.layer_end, w->o.n_layers);
        peer_fail(p, call, &e, 0);
        return true;
    case METHOD_WORKER_SUBMIT_PART:
    case METHOD_WORKER_ACKNOWLEDGE:
    case METHOD_WORKER_DISOWN:
        return true;
    default:
        return false;
    }
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct worker_core *w = node;

    (void)deadline_us;
    if (worker_peer(w) != p ||
        (assembly_obeys(w) && is_leaders(w, p, m, call))) {
        return;
    }
    switch (m->number) {
    case METHOD_WORKER_ASSEMBLE:
        assembly_recv_assemble(w, p, call,
                               (const Sluice__V1__AssembleRequest *)request);
        break;
    case METHOD_WORKER_SUBMIT:
        worker_recv_submit(w, p, call,
                           (const Sluice__V1__SubmitRequest *)request);
        break;
    case METHOD_WORKER_SUBMIT_PART:
        worker_recv_submit_part(w, p,
                                (const Sluice__V1__SubmitPartMessage *)request);
        break;
    case METHOD_WORKER_ACKNOWLEDGE:
        worker_recv_acknowledge(
            w, (const Sluice__V1__AcknowledgeMessage *)request);
        break;
    case METHOD_WORKER_CANCEL:
        worker_recv_cancel(w, p, call,
                           (const Sluice__V1__CancelRequest *)request);
        break;
    case METHOD_WORKER_REMOVE:
        worker_recv_remove(w, p, call,
                           (const Sluice__V1__RemoveRequest *)request);
        break;
    case METHOD_WORKER_DISOWN:
        worker_recv_disown(w, (const Sluice__V1__DisownMessage *)request);
        break;
    case METHOD_WORKER_AUDIT:
        worker_recv_audit(w, p, call);
        break;
    case METHOD_WORKER_ASSIGN:
        recv_assign(w, p, call);
        break;
    case METHOD_HEALTH_CHECK:
        worker_health(p, call);
        break;
    default:
        refuse_unbuilt(p, call, m);
        break;
    }
}

/* Only a Submit that still waits for its parts is stopped by this; a Cancel
 * that waits for memory goes on, and its answer finds no call. */
static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    struct worker_core *w = node;
    struct sequence *s = w->table.all.head;

    (void)p;
    if (assembly_cancelled(w, call)) {
        return;
    }
    while (s != NULL && s->call != call) {
        s = list_next(s, LIST_ALL);
    }
    if (s != NULL && call != 0) {
        s->call = 0;
        s->forgotten = true;
        worker_end(w, s, FINISH_CANCELLED);
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    (void)p, (void)tag, (void)retry_after_ms;
    if (m->number == METHOD_REGISTRY_LEAVE) {
        leave_answered(node, status, (const Sluice__V1__DrainReply *)reply, e);
    }
}

/* The worker calls no stream, and every turn ends in session_tick(), which
 * flushes: nothing else is asked for. */
static const struct peer_ops peer_table = {
    .on_call = on_call, .on_cancel = on_cancel, .on_end = on_end};

/* ---- made and freed ---- */

static bool options_ok(const struct worker_options *o)
{
    return o->name != NULL && o->model != NULL && o->device != NULL &&
           o->block_tokens > 0 && o->context > 0 && o->vocab > 0 &&
           o->n_eos <= WORKER_EOS_MAX && o->max_rows >= 1 &&
           o->max_rows <= PLAN_ROWS_MAX && o->step_tokens >= 1 &&
           o->step_tokens <= PLAN_TOKENS_MAX && o->chunk_tokens >= 1 &&
           o->engine_depth >= 1 && o->engine_depth <= ENGINE_DEPTH_MAX &&
           (o->n_blocks > 0 || o->n_slots > 0) &&
           (o->stage_endpoint == NULL || o->hidden > 0);
}

/* Sequences that can hold memory at once: each has a block and a slot. */
static uint32_t most_live(const struct worker_options *o)
{
    uint32_t n = UINT32_MAX;

    n = o->n_blocks > 0 && o->n_blocks < n ? o->n_blocks : n;
    n = o->n_slots > 0 && o->n_slots < n ? o->n_slots : n;
    return n;
}

/* The table has room for what has finished and is not acknowledged yet:
 * three times what can be live.  Arrays: ids of all live ones twice over,
 * and every block's number.  Logprobs: as if all had asked for most. */
static struct sequence_limits table_limits(const struct worker_options *o,
                                           uint64_t seed)
{
    uint64_t live = most_live(o);
    uint64_t capacity = 4 * live + 16;
    uint64_t ids = live * o->context;
    uint64_t in_blocks = (uint64_t)o->n_blocks * o->block_tokens;

    if (capacity > WORKER_SEQUENCES_MAX) {
        capacity = WORKER_SEQUENCES_MAX;
    }
    if (o->n_blocks > 0 && in_blocks < ids) {
        ids = in_blocks;
    }
    return (struct sequence_limits){.capacity = (uint32_t)capacity,
                                    .longest = o->context + 1,
                                    .values = 2 * ids + o->n_blocks,
                                    .n_rings = (uint32_t)capacity,
                                    .hash_seed = seed};
}

static bool copy_names(struct worker_options *o)
{
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

static bool make_parts(struct worker_core *w)
{
    const struct worker_options *o = &w->o;
    struct pool_need total = {{o->n_blocks, o->n_slots, o->n_checkpoints}};
    struct pool_need pages = {
        {o->pages_per_block, o->pages_per_slot, o->pages_per_checkpoint}};
    struct sequence_limits sl = table_limits(o, w->io->random(w->io));
    struct batcher_limits bl = {.max_rows = o->max_rows,
                                .step_tokens = o->step_tokens,
                                .chunk_tokens = o->chunk_tokens,
                                .depth = o->engine_depth,
                                .batches = assembly_leads(w) ? BATCHES_MAX
                                                             : o->engine_depth,
                                .block_tokens = o->block_tokens,
                                .n_blocks = o->n_blocks,
                                .n_slots = o->n_slots};

    return pool_init(&w->pool, &total, &pages) &&
           sequence_table_init(&w->table, &sl, &w->pool) &&
           ledger_init(&w->ledger, &w->pool) &&
           batcher_init(&w->batcher, &bl, &w->table);
}

static void free_parts(struct worker_core *w)
{
    batcher_fini(&w->batcher);
    ledger_fini(&w->ledger);
    sequence_table_fini(&w->table);
    pool_fini(&w->pool);
    free((char *)(uintptr_t)w->o.lineage);
    free((char *)(uintptr_t)w->o.name);
    free((char *)(uintptr_t)w->o.model);
    free((char *)(uintptr_t)w->o.device);
    free((char *)(uintptr_t)w->o.stage_endpoint);
}

struct worker_core *worker_new(const struct worker_options *o,
                               struct node_io *io, struct engine *engine)
{
    struct worker_core *w;

    if (!options_ok(o) || (o->stage_endpoint != NULL && io->open_to == NULL)) {
        return NULL;
    }
    w = malloc(sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    memset(w, 0, offsetof(struct worker_core, output));
    w->output.n_rows = 0;
    w->o = *o;
    w->io = io;
    w->life = io->random(io);
    w->engine = engine;
    w->out.link = LIST_OUT;
    if (!copy_names(&w->o) || !make_parts(w)) {
        free_parts(w);
        free(w);
        return NULL;
    }
    arena_init(&w->arena);
    timers_init(&w->timers);
    session_init(&w->session, io, &session_table, &peer_table, w, &w->arena,
                 BY_WORKER);
    assembly_init(w);
    return w;
}

void worker_free(struct worker_core **w)
{
    struct worker_core *gone = *w;

    *w = NULL;
    if (gone == NULL) {
        return;
    }
    if (!gone->stopping) {
        worker_stop(gone);
    }
    timers_fini(&gone->timers);
    arena_fini(&gone->arena);
    stage_free(gone);
    free_parts(gone);
    free(gone);
}

void worker_stop(struct worker_core *w)
{
    if (w->stopping) {
        return;
    }
    w->stopping = true;
    session_fini(&w->session, "the worker stops");
    assembly_fini(w, "a stage stops");
    worker_drop_all(w);
}

bool worker_lost(const struct worker_core *w)
{
    return w->lost;
}

bool worker_failed(const struct worker_core *w)
{
    return w->failed;
}

/* ---- what an auditor asks ---- */

static struct class_account account_of(const struct worker_core *w,
                                       enum pool_class c)
{
    const struct pool_account *a = pool_account(&w->pool, c);

    return (struct class_account){.total = a->total,
                                  .free = a->free,
                                  .held = a->held,
                                  .cached = a->cached,
                                  .granted = a->granted};
}

void worker_account(const struct worker_core *w, struct worker_account *out)
{
    out->blocks = account_of(w, POOL_BLOCKS);
    out->slots = account_of(w, POOL_SLOTS);
    out->checkpoints = account_of(w, POOL_CHECKPOINTS);
    out->grant = w->ledger.grant;
    out->snapshot = w->ledger.snapshot;
    out->violations = w->pool.violations;
    out->n_sequences = w->table.n_live;
    out->n_orphans = orphans_count(w);
    out->orphans_expired = w->metrics.orphans_expired;
    out->orphans_disowned = w->metrics.orphans_disowned;
    out->assembly = assembly_is_up(w) ? w->assembly.id : 0;
    out->streams_broken = w->metrics.streams_broken;
    out->stage = w->assembly.stage;
    out->n_stages = w->assembly.n_stages;
}

void worker_counts(const struct worker_core *w, struct worker_metrics *out)
{
    *out = w->metrics;
    out->ledger_violations = w->pool.violations;
}

uint32_t worker_audit(const struct worker_core *w, char *text, size_t cap)
{
    return ledger_audit(&w->ledger, &w->pool, &w->table, text, cap);
}

int worker_sequence_state(const struct worker_core *w,
                          const uint8_t request_id[16], uint32_t choice)
{
    struct sequence_key key = {.choice = choice};
    const struct sequence *s;

    memcpy(key.request_id, request_id, sizeof key.request_id);
    s = sequence_by_key(&w->table, &key);
    return s == NULL ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN
                     : sequence_public_state(s);
}
