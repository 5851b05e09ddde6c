/* Workers with some of the layers, and workers without layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

struct fake *fake_stage_new(struct rig *rig, const char *name, uint32_t begin,
                            uint32_t end)
{
    struct fake *f = fake_worker_new(rig, name, 64, 8);

    f->shard.layer_begin = begin;
    f->shard.layer_end = end;
    f->shard.has_hidden = f->shard.has_stage_endpoint = true;
    f->shard.hidden = 64;
    snprintf(f->endpoint, sizeof f->endpoint, "ipc:///%.60s", name);
    f->shard.stage_endpoint = wire_text(f->endpoint);
    return f;
}

struct fake *rig_stage(struct rig *rig, const char *name, uint32_t begin,
                       uint32_t end)
{
    struct fake *f = fake_stage_new(rig, name, begin, end);

    fake_hello(f);
    if (!f->up) {
        fail_msg("%s was refused: %s", f->name, f->why);
    }
    return f;
}

struct fake *fake_offer_new(struct rig *rig, const char *name,
                            uint32_t n_stages, uint32_t n_layers)
{
    struct fake *f = fake_stage_new(rig, name, 0, 1);
    Sluice__V1__WorkerOffer *o = &f->offer;

    f->offers = true;
    sluice__v1__worker_offer__init(o);
    o->model = f->shard.model;
    o->fingerprint = f->shard.fingerprint;
    o->n_layers = RIG_LAYERS;
    o->n_layer_bytes = o->n_kv_bytes = o->n_slot_bytes = RIG_LAYERS;
    f->shard.n_layers = RIG_LAYERS;
    o->n_stages = n_stages;
    o->budget_bytes = (uint64_t)RIG_LAYER_NEED * n_layers;
    o->speed = 1000000;
    o->layer_bytes = f->layer_bytes;
    o->kv_bytes = f->kv_bytes;
    o->slot_bytes = f->slot_bytes;
    for (int i = 0; i < RIG_LAYERS; i++) {
        f->layer_bytes[i] = 1000;
        f->kv_bytes[i] = 2; /* 64 bytes per block, as pages have it */
    }
    o->block_tokens = RIG_BLOCK;
    o->context = 64;
    o->max_rows = 8;
    return f;
}

struct fake *rig_offer(struct rig *rig, const char *name, uint32_t n_stages,
                       uint32_t n_layers)
{
    struct fake *f = fake_offer_new(rig, name, n_stages, n_layers);

    fake_hello(f);
    if (!f->up) {
        fail_msg("%s was refused: %s", f->name, f->why);
    }
    return f;
}

void offer_leave(struct fake *w)
{
    Sluice__V1__GoodbyeMessage m = SLUICE__V1__GOODBYE_MESSAGE__INIT;

    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_GOODBYE, &m.base),
                     ST_OK);
    rig_run(w->rig);
    w->gone = true;
}

void offer_load(struct fake *w)
{
    offer_leave(w);
    w->offers = false;
    w->shard.layer_begin = w->begin;
    w->shard.layer_end = w->end;
    fake_reconnect(w);
    assert_true(w->up);
}

void offer_accept(struct fake *w)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;

    assert_true(w->assign_call != 0);
    peer_end(w->peer, w->assign_call, &none.base);
    w->assign_call = 0;
    rig_run(w->rig);
}

void stage_assembled(struct fake *w)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;

    assert_true(w->assemble_call != 0);
    peer_end(w->peer, w->assemble_call, &none.base);
    w->assemble_call = 0;
    rig_run(w->rig);
}

void stage_broken(struct fake *w, uint64_t assembly, const char *why)
{
    Sluice__V1__BrokenMessage m = SLUICE__V1__BROKEN_MESSAGE__INIT;

    m.assembly = assembly;
    m.why = wire_text(why);
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_BROKEN, &m.base),
                     ST_OK);
    rig_run(w->rig);
}

static void on_assemble(struct fake *w, uint64_t call,
                        const Sluice__V1__AssembleRequest *m)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct error e;

    assert_true(m->assembly != 0 && m->next.len < sizeof w->next);
    w->n_assembles++;
    w->assembly = m->assembly;
    w->stage = m->stage;
    w->n_stages = m->n_stages;
    w->step_rows = m->max_rows;
    w->step_tokens = m->step_tokens;
    assert_int_equal(m->has_next_key, m->has_previous_key);
    w->has_keys = m->has_next_key;
    if (w->has_keys) {
        assert_int_equal(m->next_key.len, KEY_BYTES);
        assert_int_equal(m->previous_key.len, KEY_BYTES);
        memcpy(w->next_key, m->next_key.data, KEY_BYTES);
        memcpy(w->previous_key, m->previous_key.data, KEY_BYTES);
    }
    snprintf(w->next, sizeof w->next, "%.*s", (int)m->next.len,
             (const char *)m->next.data);
    if (w->refuse_assembles != ST_OK) {
        error_set(&e, w->refuse_assembles, "nobody is there");
        peer_fail(w->peer, call, &e, 0);
    } else if (w->hold_assembles) {
        w->assemble_call = call;
    } else {
        peer_end(w->peer, call, &none.base);
    }
}

static void on_assign(struct fake *w, uint64_t call,
                      const Sluice__V1__AssignRequest *m)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct error e;

    assert_true(w->offers && m->layer_begin < m->layer_end &&
                m->layer_end <= w->offer.n_layers);
    w->n_assigns++;
    w->begin = m->layer_begin;
    w->end = m->layer_end;
    if (w->refuse_assigns != ST_OK) {
        error_set(&e, w->refuse_assigns, "not these");
        peer_fail(w->peer, call, &e, 0);
    } else if (w->hold_assigns) {
        w->assign_call = call;
    } else {
        peer_end(w->peer, call, &none.base);
    }
}

void fake_stage_hears(struct fake *w, const struct method_row *m, uint64_t call,
                      const ProtobufCMessage *request)
{
    switch (m->number) {
    case METHOD_WORKER_ASSEMBLE:
        on_assemble(w, call, (const void *)request);
        break;
    case METHOD_WORKER_ASSIGN:
        on_assign(w, call, (const void *)request);
        break;
    default:
        fail_msg("the router called %s", m->name);
    }
}
