#include "worker/stages/offer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/hello.h"
#include "common/wire/method_message.h"
#include "common/wire/session.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "worker/base/advertise.h"
#include "worker/base/base.h"

struct offer {
    struct offer_options o;
    struct node_io *io;
    struct arena arena;
    struct session session;
    enum offer_end ended;
    uint32_t begin, end; /* ASSIGNED */
    struct error why;    /* REFUSED */
    bool closed;         /* the session is gone for good */
    bool away_logged, refused_logged;

    Sluice__V1__WorkerOffer message;
    char endpoint[ENDPOINT_MAX]; /* in message */
    uint64_t layer_bytes[MODEL_LAYERS_MAX];
    uint64_t kv_bytes[MODEL_LAYERS_MAX];
    uint64_t slot_bytes[MODEL_LAYERS_MAX];
    uint64_t window_bytes[MODEL_LAYERS_MAX];
    uint64_t step_bytes[MODEL_LAYERS_MAX];
};

/* ---- the session ---- */

static void on_hello(void *node, ProtobufCMessage *message)
{
    struct offer *f = node;
    Sluice__V1__HelloRequest *m = (Sluice__V1__HelloRequest *)message;

    m->role = SLUICE__V1__ROLE__ROLE_WORKER;
    m->name = wire_text(f->o.name);
    f->message.stage_endpoint =
        wire_text(advertise_now(f->endpoint, f->o.stage_endpoint, f->io));
    m->offer = &f->message;
}

static void on_up(void *node, struct peer *p)
{
    struct offer *f = node;

    log_info("offered", "session=%016" PRIx64 " model=%s stages=%" PRIu32,
             peer_session(p), f->o.model, f->o.n_stages);
    f->away_logged = f->refused_logged = false;
}

/* A refusal that no later attempt can change. */
static bool is_final(enum status refused)
{
    return refused == ST_INVALID_ARGUMENT || refused == ST_UNIMPLEMENTED;
}

static void on_down(void *node, struct peer *p, enum status refused,
                    const char *why)
{
    struct offer *f = node;

    (void)p;
    /* The session ends because the offer has: there is nothing to log. */
    if (f->ended != OFFER_OPEN) {
        return;
    }
    if (is_final(refused)) {
        f->ended = OFFER_REFUSED;
        error_set(&f->why, refused, "%s", why);
    } else if (refused != ST_OK && !f->refused_logged) {
        log_error("offer-refused", "status=%s why=\"%s\"", status_name(refused),
                  why);
        f->refused_logged = true;
    } else if (refused == ST_OK && !f->away_logged) {
        log_warn("router-away", "why=\"%s\"", why);
        f->away_logged = true;
    }
}

static const struct session_ops session_table = {
    .hello = on_hello, .up = on_up, .down = on_down};

/* ---- calls ---- */

static void recv_assign(struct offer *f, struct peer *p, uint64_t call,
                        const Sluice__V1__AssignRequest *m)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    uint32_t n = f->message.n_layers;
    struct error e;

    if (m->layer_begin >= m->layer_end || m->layer_end > n) {
        error_set(&e, ST_INVALID_ARGUMENT,
                  "layers %" PRIu32 "-%" PRIu32 " of a model of %" PRIu32,
                  m->layer_begin, m->layer_end, n);
        peer_fail(p, call, &e, 0);
        return;
    }
    /* The next tick ends the offer, so the answer can still go out. */
    f->begin = m->layer_begin;
    f->end = m->layer_end;
    f->ended = OFFER_ASSIGNED;
    log_info("assigned", "layers=%" PRIu32 "-%" PRIu32 " of=%" PRIu32, f->begin,
             f->end, n);
    peer_end(p, call, &nothing.base);
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct offer *f = node;
    struct error e;

    (void)deadline_us;
    if (m->number == METHOD_HEALTH_CHECK) {
        base_health(p, call);
    } else if (m->number == METHOD_WORKER_ASSIGN && f->ended == OFFER_OPEN) {
        recv_assign(f, p, call, AS_REQUEST(WORKER_ASSIGN, request));
    } else if (call != 0) {
        error_set(&e, ST_FAILED_PRECONDITION, "this worker has no layers yet");
        peer_fail(p, call, &e, 0);
    }
}

static const struct peer_ops peer_table = {.on_call = on_call};

/* ---- made and freed ---- */

static bool options_ok(const struct offer_options *o)
{
    return o->name != NULL && o->lineage != NULL && o->model != NULL &&
           o->stage_endpoint != NULL && o->n_stages >= 2 &&
           o->costs->n_layers >= 2 && o->costs->n_layers <= MODEL_LAYERS_MAX;
}

/* Fills in the fields of window layers; absent without them. */
static void fill_windows(struct offer *f, const struct split_model *costs)
{
    Sluice__V1__WorkerOffer *m = &f->message;
    bool has_windows = false;

    for (uint32_t i = 0; i < costs->n_layers; i++) {
        f->window_bytes[i] = costs->layers[i].window_bytes;
        has_windows = has_windows || f->window_bytes[i] > 0;
    }
    if (has_windows) {
        m->n_window_bytes = costs->n_layers;
        m->window_bytes = f->window_bytes;
        m->has_window_tokens = m->has_chunk_tokens = true;
        m->window_tokens = f->o.window_tokens;
        m->chunk_tokens = f->o.chunk_tokens;
        session_need_minor(&f->session, WIRE_WINDOWS_MINOR,
                           "a model with sliding windows");
    }
}

/* Fills in what steps read of layers with experts; absent without them. */
static void fill_steps(struct offer *f, const struct split_model *costs)
{
    for (uint32_t i = 0; i < costs->n_layers; i++) {
        const struct split_layer *l = &costs->layers[i];

        f->step_bytes[i] = l->step_bytes > 0 ? l->step_bytes : l->weight_bytes;
        if (f->step_bytes[i] < l->weight_bytes) {
            f->message.n_step_bytes = costs->n_layers;
            f->message.step_bytes = f->step_bytes;
        }
    }
}

/* Fills the message, which borrows from f. */
static void fill_message(struct offer *f, const struct split_model *costs)
{
    const struct offer_options *o = &f->o;
    Sluice__V1__WorkerOffer *m = &f->message;

    sluice__v1__worker_offer__init(m);
    m->model = wire_text(o->model);
    m->fingerprint =
        (ProtobufCBinaryData){sizeof f->o.fingerprint, f->o.fingerprint};
    m->n_layers = costs->n_layers;
    m->n_stages = o->n_stages;
    m->budget_bytes = o->budget_bytes;
    m->speed = o->speed;
    m->scratch_bytes = o->scratch_bytes;
    m->embed_bytes = costs->embed_bytes;
    m->head_bytes = costs->head_bytes;
    m->n_layer_bytes = m->n_kv_bytes = m->n_slot_bytes = costs->n_layers;
    m->layer_bytes = f->layer_bytes;
    m->kv_bytes = f->kv_bytes;
    m->slot_bytes = f->slot_bytes;
    fill_windows(f, costs);
    fill_steps(f, costs);
    for (uint32_t i = 0; i < costs->n_layers; i++) {
        f->layer_bytes[i] = costs->layers[i].weight_bytes;
        f->kv_bytes[i] = costs->layers[i].token_bytes;
        f->slot_bytes[i] = costs->layers[i].slot_bytes;
    }
    m->block_tokens = o->block_tokens;
    m->context = o->context;
    m->max_rows = o->max_rows;
    m->has_kv_format = o->kv_format != NULL;
    m->kv_format = wire_text(o->kv_format != NULL ? o->kv_format : "");
    m->arithmetic = wire_text(o->arithmetic != NULL ? o->arithmetic : "");
    m->has_arithmetic = m->arithmetic.len > 0;
    m->has_lineage = m->has_stage_endpoint = true;
    m->lineage = wire_text(o->lineage);
}

struct offer *offer_new(const struct offer_options *o, struct node_io *io)
{
    struct offer *f = options_ok(o) ? calloc(1, sizeof *f) : NULL;

    if (f == NULL) {
        return NULL;
    }
    f->o = *o;
    /* The costs are copied into the message below; the rest is borrowed. */
    f->o.costs = NULL;
    f->io = io;
    arena_init(&f->arena);
    session_init(&f->session, io, &session_table, &peer_table, f, &f->arena,
                 BY_WORKER);
    fill_message(f, o->costs);
    return f;
}

/* Sends Goodbye, unless the session is closed already. */
static void close_session(struct offer *f, const char *why)
{
    if (!f->closed) {
        f->closed = true;
        session_fini(&f->session, why);
    }
}

void offer_free(struct offer **f)
{
    struct offer *gone = *f;

    *f = NULL;
    if (gone != NULL) {
        offer_stop(gone);
        arena_fini(&gone->arena);
        free(gone);
    }
}

void offer_stop(struct offer *f)
{
    f->ended = f->ended == OFFER_REFUSED ? OFFER_REFUSED : OFFER_STOPPED;
    close_session(f, "the worker stops");
}

enum offer_end offer_ended(const struct offer *f, uint32_t *begin,
                           uint32_t *end, struct error *e)
{
    if (f->ended == OFFER_ASSIGNED) {
        *begin = f->begin;
        *end = f->end;
    } else if (f->ended == OFFER_REFUSED) {
        *e = f->why;
    }
    return f->ended;
}

/* ---- the node ---- */

static void node_opened(void *node, struct peer_id from)
{
    struct offer *f = node;

    if (!f->closed) {
        session_opened(&f->session, from);
    }
}

static void node_recv(void *node, struct peer_id from, struct frame **frame)
{
    struct offer *f = node;

    if (f->closed) {
        frame_free(frame);
        return;
    }
    session_recv(&f->session, from, frame);
}

static void node_lost(void *node, struct peer_id from)
{
    struct offer *f = node;

    if (!f->closed) {
        session_lost(&f->session, from);
    }
}

/* session_tick() first, so that the answer to Assign goes out before Goodbye.
 */
static int64_t node_tick(void *node, int64_t now_us)
{
    struct offer *f = node;
    int64_t due = f->closed ? NODE_STOP : session_tick(&f->session, now_us);

    if (f->ended != OFFER_OPEN) {
        close_session(f, f->ended == OFFER_ASSIGNED
                             ? "the worker loads its layers"
                             : "the offer is over");
        return NODE_STOP;
    }
    return due;
}

const struct node_ops offer_node_ops = {.opened = node_opened,
                                        .recv = node_recv,
                                        .lost = node_lost,
                                        .tick = node_tick};
