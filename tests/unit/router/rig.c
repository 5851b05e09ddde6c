#include "tests/unit/router/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RUN_ROUNDS 10000

static int64_t io_now(struct node_io *io)
{
    return ((struct rig *)io->impl)->now;
}

static int64_t fake_now(struct node_io *io)
{
    return ((struct fake *)io->impl)->rig->now;
}

static uint64_t draw(struct rig *rig)
{
    uint64_t z = (rig->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t io_random(struct node_io *io)
{
    return draw(io->impl);
}

static uint64_t fake_random(struct node_io *io)
{
    return draw(((struct fake *)io->impl)->rig);
}

static void fly(struct rig *rig, struct fake *from, struct fake *to,
                struct frame **f)
{
    if (rig->n_flying == rig->flying_size) {
        rig->flying_size = rig->flying_size == 0 ? 64 : 2 * rig->flying_size;
        rig->flying =
            realloc(rig->flying, rig->flying_size * sizeof *rig->flying);
        assert_non_null(rig->flying);
    }
    rig->flying[rig->n_flying++] = (struct flying){to, from, *f};
    *f = NULL;
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct rig *rig = io->impl;

    rig->n_sent++;
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        if (rig->fakes[i]->id.v == to.v) {
            fly(rig, NULL, rig->fakes[i], f);
            return ST_OK;
        }
    }
    frame_free(f);
    return ST_UNAVAILABLE;
}

static enum status fake_send(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    struct fake *from = io->impl;

    (void)to;
    if (from->mute) {
        frame_free(f);
    } else {
        fly(from->rig, from, NULL, f);
    }
    return ST_OK;
}

static uint8_t io_port(struct node_io *io, struct peer_id who)
{
    (void)who;
    return ((struct rig *)io->impl)->port;
}

static const struct identity *io_identity(struct node_io *io,
                                          struct peer_id who)
{
    const struct rig *rig = io->impl;

    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        if (rig->fakes[i]->id.v == who.v && rig->fakes[i]->keyed) {
            return &rig->fakes[i]->identity;
        }
    }
    return NULL;
}

struct rig *rig_new(const struct rig_options *o)
{
    static const struct rig_options plenty = {
        .max_peers = 128, .max_requests = 4096, .max_waiting = 4096};
    struct rig *rig = calloc(1, sizeof *rig);
    struct router_options ro = {.name = "r"};

    assert_non_null(rig);
    o = o == NULL ? &plenty : o;
    rig->io = (struct node_io){.impl = rig,
                               .now_us = io_now,
                               .random = io_random,
                               .send = io_send,
                               .port = io_port,
                               .identity = io_identity};
    rig->now = 1000000;
    rig->port = BY_ALL;
    arena_init(&rig->arena);
    ro.max_peers = o->max_peers;
    ro.max_admins = o->max_admins > 0 ? o->max_admins : 16;
    ro.max_requests = o->max_requests;
    ro.max_waiting = o->max_waiting;
    ro.kept = o->kept;
    ro.tenant_quota = o->tenant_quota;
    ro.retry_budget = o->retry_budget;
    ro.text = o->text;
    ro.worker_wait_us = o->worker_wait_us;
    ro.gather_us = o->gather_us;
    ro.queue_timeout_us = o->queue_timeout_us;
    ro.silent_us = o->silent_us;
    ro.lost_us = o->lost_us;
    ro.hung_us = o->hung_us;
    ro.headroom = o->headroom;
    ro.admission = o->expected ? ADMISSION_EXPECTED : ADMISSION_STRICT;
    ro.weights = o->weights;
    ro.n_weights = o->n_weights;
    ro.places = o->places;
    ro.n_places = o->n_places;
    ro.suspensions = 1000;
    ro.keyed = o->keyed;
    ro.mixed_arithmetic = o->mixed_arithmetic;
    ro.memory_bytes = o->memory_bytes;
    ro.recorder = o->recorder;
    rig->router = router_new(&ro, &rig->io);
    return rig;
}

void record_free(struct record *x)
{
    if (x == NULL) {
        return;
    }
    if (x->reply != NULL) {
        protobuf_c_message_free_unpacked(x->reply, NULL);
    }
    for (int c = 0; c < CHOICES_MAX; c++) {
        record_free(x->others[c]);
    }
    free(x->tokens);
    free(x);
}

void fake_forget(struct fake *f)
{
    for (int i = 0; i < RIG_RECORDS; i++) {
        record_free(f->records[i]);
        f->records[i] = NULL;
    }
}

static void fake_free(struct fake *f)
{
    peer_free(&f->peer);
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        free(f->sequences[i].ids);
    }
    fake_forget(f);
    free(f);
}

void rig_free(struct rig **prig)
{
    struct rig *rig = *prig;

    *prig = NULL;
    router_free(&rig->router);
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        fake_free(rig->fakes[i]);
    }
    for (uint32_t i = 0; i < rig->n_flying; i++) {
        frame_free(&rig->flying[i].frame);
    }
    free(rig->flying);
    arena_fini(&rig->arena);
    free(rig);
}

void rig_end(struct rig **prig)
{
    struct rig *rig = *prig;
    struct router_worker_view v;
    struct router_metrics k;

    rig_advance(rig, 10000);
    router_counts(rig->router, &k);
    assert_int_equal(k.choices_open, 0);
    assert_int_equal(k.choices_waiting, 0);
    assert_int_equal(k.choices_early, 0);
    for (uint32_t i = 0; router_worker_view(rig->router, i, &v); i++) {
        assert_int_equal(v.n_sequences, 0);
    }
    rig_free(prig);
}

/* ---- frames to a fake ---- */

static void fake_on_call(void *node, struct peer *p, const struct method_row *m,
                         uint64_t call, int64_t deadline_us,
                         const ProtobufCMessage *request)
{
    (void)p, (void)deadline_us;
    fake_worker_hears(node, m, call, request);
}

static void fake_on_cancel(void *node, struct peer *p, uint64_t call)
{
    (void)node, (void)p, (void)call;
}

static void fake_on_reply(void *node, struct peer *p, uint64_t tag,
                          const struct method_row *m,
                          const ProtobufCMessage *reply)
{
    struct fake *f = node;

    (void)p;
    if (f->on_chunk != NULL && m->number == METHOD_INFERENCE_GENERATE) {
        f->on_chunk(f, (const void *)reply);
    }
    record_take(f->records[tag], m, reply);
}

static void fake_on_end(void *node, struct peer *p, uint64_t tag,
                        const struct method_row *m, enum status status,
                        const ProtobufCMessage *reply, const struct error *e,
                        uint32_t retry_after_ms)
{
    struct record *x = ((struct fake *)node)->records[tag];

    (void)p;
    assert_false(x->ended);
    x->ended = true;
    x->status = status;
    x->retry_ms = retry_after_ms;
    if (e != NULL) {
        snprintf(x->error, sizeof x->error, "%s", e->text);
    }
    if (reply != NULL) {
        record_take(x, m, reply);
    }
}

static void fake_on_dirty(void *node, struct peer *p)
{
    (void)node, (void)p;
}

static const struct peer_ops fake_peer_ops = {
    fake_on_call, fake_on_cancel, fake_on_reply, fake_on_end, fake_on_dirty};

static void fake_up(struct fake *f, uint64_t session)
{
    struct peer_config c = {.io = &f->io,
                            .id = {1},
                            .session = session,
                            .self = f->role,
                            .other = BY_ROUTER,
                            .ops = &fake_peer_ops,
                            .node = f,
                            .arena = &f->rig->arena};

    f->session = session;
    f->ledger.session = session;
    f->peer = peer_new(&c);
    f->up = true;
}

static void fake_hears(struct fake *f, const struct frame *frame)
{
    struct frame_header h;
    struct envelope v;
    struct error e;

    f->deaf = f->n_hears > 0 && --f->n_hears == 0;
    assert_int_equal(frame_check(frame->data, frame->bytes, &h, &e), ST_OK);
    if (hello_is_answer(frame, &h, &v)) {
        if (v.status != ST_OK) {
            failure_read(&f->rig->arena, &v, &e, &f->retry_ms);
            f->refused = true;
            f->refusal = (enum status)v.status;
            snprintf(f->why, sizeof f->why, "%s", e.text);
        } else if (!f->up) {
            Sluice__V1__HelloReply *r;
            ProtobufCMessage *m;
            assert_int_equal(wire_unpack(&f->rig->arena,
                                         &sluice__v1__hello_reply__descriptor,
                                         v.body, v.body_bytes, &m, &e),
                             ST_OK);
            r = (void *)m;
            assert_true(r->has_your_name);
            snprintf(f->your_name, sizeof f->your_name, "%.*s",
                     (int)r->your_name.len, (const char *)r->your_name.data);
            f->minor = r->version_minor;
            f->has_prefix_key = r->has_prefix_key;
            if (r->has_prefix_key) {
                assert_int_equal(r->prefix_key.len, PREFIX_KEY_BYTES);
                memcpy(f->prefix_key.bytes, r->prefix_key.data,
                       PREFIX_KEY_BYTES);
            }
            fake_up(f, r->session);
        }
    } else if (hello_is_goodbye(frame, &h, &v)) {
        f->gone = true;
        snprintf(f->goodbye, sizeof f->goodbye, "%.*s", (int)v.body_bytes,
                 (const char *)v.body);
    } else if (f->up) {
        assert_int_equal(h.session, f->session);
        assert_int_equal(peer_recv(f->peer, frame, &h, f->rig->now), PEER_FINE);
    }
}

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool deliver(struct rig *rig)
{
    uint32_t n = rig->n_flying;
    struct flying *now = rig->flying;

    rig->flying = NULL;
    rig->n_flying = rig->flying_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (now[i].to == NULL) {
            uint64_t begin = clock_ns();
            router_node_ops.recv(rig->router, now[i].from->id, &now[i].frame);
            rig->router_ns += clock_ns() - begin;
        } else {
            if (!now[i].to->deaf) {
                fake_hears(now[i].to, now[i].frame);
            }
            frame_free(&now[i].frame);
        }
    }
    free(now);
    return n > 0;
}

static int64_t turn(struct rig *rig)
{
    int64_t due = NODE_IDLE;

    if (!rig->stopped) {
        uint64_t begin = clock_ns();
        due = router_node_ops.tick(rig->router, rig->now);
        rig->router_ns += clock_ns() - begin;
        if (due == NODE_STOP) {
            rig->stopped = true;
            due = NODE_IDLE;
        }
    }
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        struct fake *f = rig->fakes[i];
        if (f->up && !f->gone) {
            peer_flush(f->peer, rig->now);
            if (peer_due(f->peer) < due) {
                due = peer_due(f->peer);
            }
        }
    }
    return due;
}

void rig_run(struct rig *rig)
{
    int rounds = 0;

    do {
        turn(rig);
        assert_true(++rounds < RUN_ROUNDS);
    } while (deliver(rig));
}

void rig_advance(struct rig *rig, int64_t us)
{
    int64_t end = rig->now + us;

    for (;;) {
        int64_t due;

        rig_run(rig);
        due = turn(rig);
        if (deliver(rig)) {
            continue;
        }
        if (due >= end || rig->now >= end) {
            break;
        }
        rig->now = due > rig->now ? due : rig->now + 1;
    }
    rig->now = end;
    rig_run(rig);
}

/* ---- fakes ---- */

struct fake *fake_new(struct rig *rig, uint8_t role, const char *name)
{
    struct fake *f = calloc(1, sizeof *f);

    assert_true(f != NULL && rig->n_fakes < RIG_FAKES);
    f->rig = rig;
    f->role = role;
    f->id.v = ++rig->last_id;
    f->nonce = draw(rig);
    f->grants_in_order = true;
    f->minor = WIRE_VERSION_MINOR;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->io = (struct node_io){.impl = f,
                             .now_us = fake_now,
                             .random = fake_random,
                             .send = fake_send};
    rig->fakes[rig->n_fakes++] = f;
    return f;
}

struct fake *fake_worker_new(struct rig *rig, const char *name, uint32_t blocks,
                             uint32_t slots)
{
    struct fake *f = fake_new(rig, BY_WORKER, name);
    Sluice__V1__WorkerShard *s = &f->shard;
    const uint32_t totals[5] = {blocks, slots, 0, 0, 0};

    sluice__v1__worker_shard__init(s);
    sluice__v1__ledger__init(&f->ledger);
    for (int i = 0; i < 5; i++) {
        sluice__v1__class_ledger__init(&f->classes[i]);
        f->classes[i].total = f->classes[i].free = totals[i];
    }
    f->ledger.blocks = &f->classes[0];
    f->ledger.slots = &f->classes[1];
    f->ledger.checkpoints = &f->classes[2];
    f->ledger.pages = &f->classes[3];
    strcpy(f->model, "tiny");
    strcpy(f->device, "fake");
    memset(f->fingerprint, 7, 16);
    s->model = wire_text(f->model);
    s->device = wire_text(f->device);
    s->fingerprint = (ProtobufCBinaryData){16, f->fingerprint};
    s->tokenizer = (ProtobufCBinaryData){0, f->tokenizer};
    s->layer_end = s->n_layers = 4;
    s->block_tokens = RIG_BLOCK;
    s->block_bytes = 4096;
    s->slot_bytes = slots > 0 ? 8192 : 0;
    s->pages_per_block = s->pages_per_slot = s->pages_per_checkpoint = 1;
    s->context = RIG_CONTEXT;
    s->vocab = RIG_VOCAB;
    s->max_rows = 64;
    s->has_life = true; /* so a connection that breaks is no death */
    s->life = f->id.v;
    s->ledger = &f->ledger;
    return f;
}

void fake_pages(struct fake *w)
{
    Sluice__V1__WorkerShard *s = &w->shard;
    const uint32_t per[3] = {s->pages_per_block, s->pages_per_slot,
                             s->pages_per_checkpoint};
    Sluice__V1__ClassLedger *p = &w->classes[3];

    if (w->own_pages) {
        return;
    }
    p->total = p->free = p->held = p->cached = p->granted = 0;
    for (int i = 0; i < 3; i++) {
        p->total += w->classes[i].total * per[i];
        p->held += w->classes[i].held * per[i];
        p->cached += w->classes[i].cached * per[i];
        p->granted += w->classes[i].granted * per[i];
        p->free += w->classes[i].free * per[i];
    }
    p->total += w->classes[4].total;
    p->held += w->classes[4].held;
    p->cached += w->classes[4].cached;
    p->granted += w->classes[4].granted;
    p->free += w->classes[4].free;
}

void fake_windows(struct fake *w, uint32_t window_tokens, uint32_t chunk_tokens,
                  uint32_t window_pages, uint32_t total)
{
    Sluice__V1__WorkerShard *s = &w->shard;

    s->has_window_tokens = s->has_window_pages = s->has_chunk_tokens = true;
    s->window_tokens = window_tokens;
    s->chunk_tokens = chunk_tokens;
    s->window_pages = window_pages;
    w->classes[4].total = w->classes[4].free = total;
    w->ledger.windows = &w->classes[4];
}

void fake_key(struct fake *f, const char *key, uint8_t roles)
{
    static uint8_t last;

    f->keyed = true;
    f->identity.roles = roles;
    snprintf(f->identity.name, sizeof f->identity.name, "%s", key);
    memset(f->identity.key, ++last, KEY_BYTES);
}

void fake_hello(struct fake *f)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    struct frame *frame;

    fake_pages(f);
    m.version_major = WIRE_VERSION_MAJOR;
    m.version_minor = f->minor;
    m.role = f->role == BY_WORKER   ? SLUICE__V1__ROLE__ROLE_WORKER
             : f->role == BY_CLIENT ? SLUICE__V1__ROLE__ROLE_CLIENT
                                    : SLUICE__V1__ROLE__ROLE_ADMIN;
    m.nonce = f->nonce;
    m.name = wire_text(f->name);
    m.worker = f->role == BY_WORKER && !f->offers ? &f->shard : NULL;
    m.offer = f->offers ? &f->offer : NULL;
    frame = hello_make(&m.base);
    fake_send(&f->io, (struct peer_id){1}, &frame);
    rig_run(f->rig);
}

void fake_lost(struct fake *f)
{
    f->deaf = f->mute = true;
    router_node_ops.lost(f->rig->router, f->id);
}

void fake_reconnect(struct fake *f)
{
    peer_free(&f->peer);
    f->up = f->gone = f->deaf = f->mute = f->refused = false;
    f->id.v = ++f->rig->last_id;
    f->nonce = draw(f->rig);
    f->ledger.session = f->ledger.snapshot = f->ledger.grant = 0;
    f->last_grant = f->index_next = 0;
    f->assembly = f->assemble_call = 0;
    f->n_stages = f->n_opens = 0;
    f->shard.n_live = 0;
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        if (f->sequences[i].used && f->survives) {
            f->sequences[i].orphan = true;
            f->sequences[i].grant = 0;
            f->shard.has_n_live = true;
            f->shard.n_live++;
        } else if (f->sequences[i].used) {
            worker_release(f, &f->sequences[i]);
            f->sequences[i].used = false;
        }
    }
    fake_hello(f);
}

void fake_restart(struct fake *f)
{
    f->shard.life += 1000;
    fake_reconnect(f);
}

static struct fake *up(struct fake *f)
{
    fake_hello(f);
    if (!f->up) {
        fail_msg("%s was refused: %s", f->name, f->why);
    }
    return f;
}

struct fake *rig_worker(struct rig *rig, const char *name, uint32_t blocks,
                        uint32_t slots)
{
    return up(fake_worker_new(rig, name, blocks, slots));
}

struct fake *rig_client(struct rig *rig, const char *name)
{
    return up(fake_new(rig, BY_CLIENT, name));
}

struct fake *rig_admin(struct rig *rig, const char *name)
{
    return up(fake_new(rig, BY_ADMIN, name));
}

enum choice_state rig_choice_state(const struct rig *rig, uint8_t id,
                                   uint32_t choice)
{
    uint8_t full[16];

    memset(full, id, 16);
    return router_choice_state(rig->router, full, choice);
}

enum choice_state rig_state(const struct rig *rig, uint8_t id)
{
    return rig_choice_state(rig, id, 0);
}
