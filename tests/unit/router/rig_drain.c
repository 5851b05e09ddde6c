#include "tests/unit/router/rig_drain.h"

#include <string.h>

#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"

struct rig *rig_waiting(int64_t wait_us)
{
    const struct rig_options o = {.max_peers = 128,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = wait_us};

    return rig_new(&o);
}

struct record *drain_within(struct fake *a, const char *worker,
                            uint32_t grace_ms, uint32_t deadline_ms)
{
    Sluice__V1__DrainRequest m = SLUICE__V1__DRAIN_REQUEST__INIT;
    struct record *x;

    m.worker = wire_text(worker);
    m.has_grace_ms = true;
    m.grace_ms = grace_ms;
    x = client_call(a, METHOD_ADMIN_DRAIN, &m.base, deadline_ms);
    rig_run(a->rig);
    return x;
}

struct record *drain(struct fake *a, const char *worker, uint32_t grace_ms)
{
    return drain_within(a, worker, grace_ms, 0);
}

struct record *undrain(struct fake *a, const char *worker)
{
    Sluice__V1__WorkerRequest m = SLUICE__V1__WORKER_REQUEST__INIT;
    struct record *x;

    m.worker = wire_text(worker);
    x = client_call(a, METHOD_ADMIN_UNDRAIN, &m.base, 0);
    rig_run(a->rig);
    return x;
}

struct record *leave(struct fake *w, uint32_t grace_ms)
{
    Sluice__V1__LeaveRequest m = SLUICE__V1__LEAVE_REQUEST__INIT;
    struct record *x;

    m.grace_ms = grace_ms;
    x = client_call(w, METHOD_REGISTRY_LEAVE, &m.base, 0);
    rig_run(w->rig);
    return x;
}

void told(const struct record *x, uint32_t running, uint32_t finished,
          uint32_t moved)
{
    const Sluice__V1__DrainReply *m = (const void *)x->reply;

    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_non_null(m);
    assert_int_equal(m->n_running, running);
    assert_int_equal(m->n_finished, finished);
    assert_int_equal(m->n_moved, moved);
}

void state_is(struct fake *a, uint32_t i, const char *state)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    struct record *x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    const Sluice__V1__ListWorkersReply *l;

    rig_run(a->rig);
    l = (const void *)x->reply;
    assert_true(l != NULL && i < l->n_workers);
    assert_int_equal(l->workers[i]->state.len, strlen(state));
    assert_memory_equal(l->workers[i]->state.data, state, strlen(state));
}

void drain_bring_alone(struct drain_scene *s, int64_t wait_us)
{
    memset(s, 0, sizeof *s);
    s->rig = rig_waiting(wait_us);
    s->w1 = rig_worker(s->rig, "w1", 64, 8);
    s->c = rig_client(s->rig, "c1");
    s->a = rig_admin(s->rig, "a1");
    s->x = client_generate(s->c, 1, 40, 10);
    rig_run(s->rig);
    worker_give(s->w1, 1, 0, 2, 0);
    record_check(s->x, 1, 0, 2);
}

void drain_bring(struct drain_scene *s)
{
    drain_bring_alone(s, 0);
    s->w2 = rig_worker(s->rig, "w2", 32, 8);
}

void drain_goes_on(struct drain_scene *s, struct fake *w, uint32_t n_before)
{
    const struct sequence *q = worker_sequence_of(w, 1);

    assert_non_null(q);
    assert_int_equal(q->n_given, n_before);
    worker_give(w, 1, 0, 10 - n_before, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_true(s->x->ended);
    assert_int_equal(s->x->status, ST_OK);
    record_check(s->x, 1, 0, 10);
}
