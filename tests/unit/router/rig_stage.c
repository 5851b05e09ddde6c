/* Workers of some of the layers. */
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

void fake_stage_hears(struct fake *w, const struct method_row *m, uint64_t call,
                      const ProtobufCMessage *request)
{
    switch (m->number) {
    case METHOD_WORKER_ASSEMBLE:
        on_assemble(w, call, (const void *)request);
        break;
    default:
        fail_msg("the router called %s", m->name);
    }
}
