/* Drain, Undrain and Leave: what ends where it is, what moves, who is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "router/limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define MOVED  SLUICE__V1__CANCEL_REASON__CANCEL_MOVED
#define MS     1000

static struct rig *rig_waiting(int64_t wait_us)
{
    const struct rig_options o = {.max_peers = 128,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = wait_us};

    return rig_new(&o);
}

static struct record *drain_within(struct fake *a, const char *worker,
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

static struct record *drain(struct fake *a, const char *worker,
                            uint32_t grace_ms)
{
    return drain_within(a, worker, grace_ms, 0);
}

static struct record *undrain(struct fake *a, const char *worker)
{
    Sluice__V1__WorkerRequest m = SLUICE__V1__WORKER_REQUEST__INIT;
    struct record *x;

    m.worker = wire_text(worker);
    x = client_call(a, METHOD_ADMIN_UNDRAIN, &m.base, 0);
    rig_run(a->rig);
    return x;
}

static struct record *leave(struct fake *w, uint32_t grace_ms)
{
    Sluice__V1__LeaveRequest m = SLUICE__V1__LEAVE_REQUEST__INIT;
    struct record *x;

    m.grace_ms = grace_ms;
    x = client_call(w, METHOD_REGISTRY_LEAVE, &m.base, 0);
    rig_run(w->rig);
    return x;
}

static void told(const struct record *x, uint32_t running, uint32_t finished,
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

static void serves(struct fake *a, bool yes)
{
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;
    struct record *x = client_call(a, METHOD_HEALTH_CHECK, &m.base, 0);

    rig_run(a->rig);
    assert_int_equal(
        ((const Sluice__V1__HealthReply *)(const void *)x->reply)->serving,
        yes);
}

static void state_is(struct fake *a, uint32_t i, const char *state)
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

/* Sequence 1 at w1 with two tokens, and w2 beside it. */
struct scene {
    struct rig *rig;
    struct fake *w1, *w2, *c, *a;
    struct record *x;
};

static void bring_alone(struct scene *s, int64_t wait_us)
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

static void bring(struct scene *s)
{
    bring_alone(s, 0);
    s->w2 = rig_worker(s->rig, "w2", 32, 8);
}

/* It goes on at w with the tokens it had, to its end. */
static void goes_on(struct scene *s, struct fake *w, uint32_t had)
{
    const struct sequence *q = worker_sequence_of(w, 1);

    assert_non_null(q);
    assert_int_equal(q->n_given, had);
    worker_give(w, 1, 0, 10 - had, LENGTH);
    assert_true(s->x->ended);
    assert_int_equal(s->x->status, ST_OK);
    record_check(s->x, 1, 0, 10);
}

static void nothing_is_there(void **state)
{
    struct rig *rig = rig_waiting(0);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8), *w2;
    struct fake *c = rig_client(rig, "c1"), *a = rig_admin(rig, "a1");

    (void)state;
    w2 = rig_worker(rig, "w2", 4, 1);
    told(drain(a, "w1", 1000), 0, 0, 0);
    state_is(a, 0, "drained");
    state_is(a, 1, "up");
    client_generate(c, 1, 40, 10); /* w1 has more room */
    client_generate(c, 2, 40, 10); /* w2 has none left */
    rig_run(rig);
    assert_int_equal(w1->n_submits, 0);
    assert_int_equal(w2->n_submits, 1);
    told(drain(a, "w1", 0), 0, 0, 0); /* again */
    assert_int_equal(undrain(a, "w1")->status, ST_OK);
    assert_int_equal(undrain(a, "w1")->status,
                     ST_OK); /* as often as you like */
    assert_int_equal(w1->n_submits, 1);
    state_is(a, 0, "up");
    rig_free(&rig);
}

static void ends_within_the_grace(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    d = drain(s.a, "w1", 1000);
    rig_advance(s.rig, 900 * MS);
    worker_report(s.w1);
    rig_run(s.rig);
    state_is(s.a, 0, "draining");
    assert_false(d->ended);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    told(d, 1, 1, 0);
    assert_true(
        ((const Sluice__V1__DrainReply *)(const void *)d->reply)->micros >=
        900 * MS);
    record_check(s.x, 1, 0, 10);
    assert_int_equal(s.w1->n_cancels, 0);
    rig_end(&s.rig);
}

static void moves_after_the_grace(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    d = drain(s.a, "w1", 500);
    rig_advance(s.rig, 499 * MS);
    assert_int_equal(s.w1->n_cancels, 0);
    s.w1->hold_receipts = true;
    rig_advance(s.rig, 1 * MS);
    assert_int_equal(s.w1->n_cancels, 1);
    assert_int_equal(s.w1->last_reason, MOVED);
    /* What the step under way makes is not lost. */
    worker_give(s.w1, 1, 0, 1, 0);
    record_check(s.x, 1, 0, 3);
    assert_false(d->ended);
    assert_int_equal(s.w2->n_submits, 0);
    worker_receipt(s.w1);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    assert_int_equal(s.w2->n_submits, 1);
    goes_on(&s, s.w2, 3);
    assert_int_equal(s.x->figures.n_moves, 1);
    rig_end(&s.rig);
}

/* The worker's row says that it let the sequence go before its receipt does. */
static void let_go_before_the_receipt(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    worker_give(s.w1, 1, 0, 1, SLUICE__V1__FINISH__FINISH_CANCELLED);
    record_check(s.x, 1, 0, 3);
    assert_false(s.x->ended || d->ended);
    worker_receipt(s.w1);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    goes_on(&s, s.w2, 3);
    rig_end(&s.rig);
}

/* Rows of the old grant come late: they are forgotten, and give nothing. */
static void late_rows(void **state)
{
    uint64_t grant = 1;
    uint32_t first = 2, count = 1, finish = 0, was = 4, token;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    struct scene s;

    (void)state;
    bring(&s);
    told(drain(s.a, "w1", 0), 1, 0, 1);
    token = choice_token((const uint8_t[16]){1}, 0, 2);
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    m.n_tokens = 1;
    m.grant = &grant;
    m.first_index = &first;
    m.count = &count;
    m.finish = &finish;
    m.state = &was;
    m.tokens = &token;
    worker_say(s.w1, &m);
    rig_run(s.rig);
    assert_true(s.w1->last_ack_grant == 1);
    assert_true(s.w1->last_ack_index == UINT32_MAX);
    record_check(s.x, 1, 0, 2);
    goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void in_every_state(void **state)
{
    struct scene s;
    struct record *y;

    (void)state;
    bring(&s);
    s.w1->hold_submits = true;
    y = client_generate(s.c, 2, 40, 4); /* it stays SUBMITTED */
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 2), REQUEST_SUBMITTED);
    told(drain(s.a, "w1", 0), 2, 0, 2);
    goes_on(&s, s.w2, 2);
    worker_give(s.w2, 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* A Submit whose ids are not all there is refused when the Cancel comes. */
static void refused_while_it_moves(void **state)
{
    struct scene s;
    struct record *d, *y;
    struct error e;

    (void)state;
    bring(&s);
    s.w1->hold_submits = s.w1->hold_receipts = true;
    y = client_generate(s.c, 2, 40, 4);
    rig_run(s.rig);
    d = drain(s.a, "w1", 0);
    error_set(&e, ST_CANCELLED, "cancelled before all of its ids had come");
    peer_fail(s.w1->peer, worker_sequence_of(s.w1, 2)->call, &e, 0);
    rig_run(s.rig);
    assert_false(d->ended); /* the other's receipt is to come */
    assert_int_equal(s.w2->n_submits, 1);
    worker_receipt(s.w1);
    worker_receipt(s.w1); /* of a grant that is not known any more */
    rig_run(s.rig);
    told(d, 2, 0, 2);
    goes_on(&s, s.w2, 2);
    worker_give(s.w2, 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

static void ends_while_it_moves(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    record_check(s.x, 1, 0, 10);
    told(d, 1, 1, 0);
    worker_receipt(s.w1);
    rig_run(s.rig);
    assert_int_equal(s.w2->n_submits, 0);
    rig_end(&s.rig);
}

static void cancelled_while_it_moves(void **state)
{
    struct scene s;
    struct record *d, *k;

    (void)state;
    bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(s.w1->n_cancels, 1); /* one serves both */
    worker_receipt(s.w1);
    rig_run(s.rig);
    assert_true(k->ended);
    assert_int_equal(k->receipt.blocks, 2);
    assert_int_equal(s.x->finish, SLUICE__V1__FINISH__FINISH_CANCELLED);
    told(d, 1, 1, 0);
    assert_int_equal(s.w2->n_submits, 0);
    rig_end(&s.rig);
}

static void what_is_ending_ends(void **state)
{
    struct scene s;
    struct record *d, *k;

    (void)state;
    bring(&s);
    s.w1->hold_receipts = true;
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    d = drain(s.a, "w1", 0);
    assert_int_equal(s.w1->n_cancels, 1);
    assert_false(d->ended);
    worker_receipt(s.w1);
    rig_run(s.rig);
    assert_true(k->ended);
    told(d, 1, 1, 0);
    rig_end(&s.rig);
}

static void what_is_kept_is_kept_for_the_grace(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_waiting(0);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1"), *a = rig_admin(rig, "a1");
    struct record *d;

    (void)state;
    rig_worker(rig, "w2", 32, 8);
    m.model = wire_text("tiny");
    m.has_keep_ms = true;
    m.keep_ms = 600000;
    client_generate_with(c, 1, 40, 4, &m, 0);
    rig_run(rig);
    worker_give(w1, 1, 0, 4, LENGTH);
    d = drain(a, "w1", 500);
    rig_advance(rig, 499 * MS);
    assert_int_equal(w1->n_removes, 0);
    assert_false(d->ended);
    rig_advance(rig, 1 * MS);
    assert_int_equal(w1->n_removes, 1);
    told(d, 1, 1, 0);
    rig_end(&rig);
}

/* There is nowhere to move it: a drained worker ends it, one that leaves
 * gives it back to the queue. */
static void alone(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring_alone(&s, 10000 * MS);
    d = drain(s.a, "w1", 500);
    for (int i = 0; i < 20; i++) {
        rig_advance(s.rig, 500 * MS);
        worker_report(s.w1);
    }
    assert_int_equal(s.w1->n_cancels, 0);
    assert_false(d->ended);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    told(d, 1, 1, 0);
    rig_end(&s.rig);
}

static void another_comes(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring_alone(&s, 0);
    d = drain(s.a, "w1", 0);
    assert_false(d->ended);
    rig_worker(s.rig, "small", 1, 1); /* it could never hold it */
    assert_false(d->ended);
    s.w2 = rig_worker(s.rig, "w2", 2, 1);
    told(d, 1, 0, 1);
    goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void leaves(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    told(leave(s.w1, 0), 1, 0, 1);
    state_is(s.a, 0, "leaving");
    assert_int_equal(undrain(s.a, "w1")->status, ST_FAILED_PRECONDITION);
    told(leave(s.w1, 0), 0, 0, 0);
    goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

/* A rolling restart of the only worker there is. */
static void leaves_and_comes_back(void **state)
{
    struct scene s;
    struct record *y;

    (void)state;
    bring_alone(&s, 1000 * MS);
    told(leave(s.w1, 0), 1, 0, 1);
    assert_int_equal(rig_state(s.rig, 1), REQUEST_WAITING);
    for (int i = 0; i < 20; i++) { /* it takes its time to go */
        rig_advance(s.rig, 500 * MS);
        worker_report(s.w1);
    }
    fake_lost(s.w1);
    y = client_generate(s.c, 2, 40, 4); /* and this one waits too */
    rig_advance(s.rig, 999 * MS);
    assert_int_equal(rig_state(s.rig, 1), REQUEST_WAITING);
    assert_int_equal(rig_state(s.rig, 2), REQUEST_WAITING);
    fake_reconnect(s.w1);
    goes_on(&s, s.w1, 2);
    worker_give(s.w1, 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* The others could never hold it: it is told so, rather than wait. */
static void leaves_what_fits_nowhere(void **state)
{
    struct scene s;

    (void)state;
    bring_alone(&s, 10000 * MS);
    rig_worker(s.rig, "small", 1, 1);
    told(leave(s.w1, 0), 1, 1, 0);
    assert_true(s.x->ended);
    assert_int_equal(s.x->status, ST_UNAVAILABLE);
    assert_int_equal(s.x->retry_ms, RETRY_MS_ABSENT);
    assert_non_null(strstr(s.x->error, "that are drained could hold 50"));
    rig_end(&s.rig);
}

static void several(void **state)
{
    struct scene s;
    struct fake *b;
    struct record *slow, *fast, *late, *gone;

    (void)state;
    bring(&s);
    b = rig_admin(s.rig, "a2");
    slow = drain(s.a, "w1", 60000);
    gone = drain(b, "w1", 50000);
    late = drain_within(s.a, "w1", 40000, 100);
    fake_lost(b);
    rig_advance(s.rig, 200 * MS);
    assert_int_equal(late->status, ST_DEADLINE_EXCEEDED);
    assert_false(gone->ended);
    worker_report(s.w1);
    state_is(s.a, 0, "draining"); /* all the same */
    fast = drain(s.a, "w1", 0);
    told(slow, 1, 0, 1);
    told(fast, 1, 0, 1);
    goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void undrained_on_the_way(void **state)
{
    struct scene s;
    struct record *d, *y;

    (void)state;
    bring(&s);
    y = client_generate(s.c, 2, 40, 4);
    rig_run(s.rig);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    worker_receipt(s.w1); /* of the first: it has moved */
    rig_run(s.rig);
    assert_int_equal(undrain(s.a, "w1")->status, ST_OK);
    assert_true(d->ended);
    assert_int_equal(d->status, ST_ABORTED);
    assert_non_null(strstr(d->error, "w1 takes sequences again"));
    worker_receipt(s.w1); /* and what was told to go goes */
    rig_run(s.rig);
    goes_on(&s, s.w2, 2);
    worker_give(worker_sequence_of(s.w1, 2) != NULL ? s.w1 : s.w2, 2, 0, 4,
                LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* Undrain of one gives the others of its model somewhere to go. */
static void undrain_lets_others_go(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    told(drain(s.a, "w2", 0), 0, 0, 0);
    d = drain(s.a, "w1", 0);
    assert_false(d->ended);
    assert_int_equal(undrain(s.a, "w2")->status, ST_OK);
    told(d, 1, 0, 1);
    goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void unknown(void **state)
{
    char long_name[65] = {0};
    struct rig *rig = rig_waiting(0);
    struct fake *a = rig_admin(rig, "a1");
    struct record *x = drain(a, "w9", 0);

    (void)state;
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_non_null(strstr(x->error, "no worker w9; there are: none is up"));
    rig_worker(rig, "w1", 64, 8);
    rig_worker(rig, "w2", 64, 8);
    x = undrain(a, "w9");
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_non_null(strstr(x->error, "there are: w1, w2"));
    for (int i = 3; i < 12; i++) { /* more than a sentence can name */
        memset(long_name, 'a' + i, 60);
        rig_worker(rig, long_name, 64, 8);
    }
    x = drain(a, "w9", 0);
    assert_non_null(strstr(x->error, ", ..."));
    assert_int_equal(drain(a, "", 0)->status, ST_INVALID_ARGUMENT);
    rig_end(&rig);
}

static void limits(void **state)
{
    struct scene s;
    struct record *d[DRAIN_CALLS_MAX], *x;

    (void)state;
    bring(&s);
    assert_int_equal(drain(s.a, "w1", GRACE_MS_MAX + 1)->status,
                     ST_INVALID_ARGUMENT);
    assert_int_equal(leave(s.w1, GRACE_MS_MAX + 1)->status,
                     ST_INVALID_ARGUMENT);
    for (int i = 0; i < DRAIN_CALLS_MAX; i++) {
        d[i] = drain(s.a, "w1", GRACE_MS_MAX);
        assert_false(d[i]->ended);
    }
    x = drain(s.a, "w1", 0);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_true(x->retry_ms > 0);
    assert_int_equal(s.w1->n_cancels, 0); /* it changed nothing */
    x = leave(s.w1, 0);                   /* the worker's own always counts */
    told(x, 1, 0, 1);
    for (int i = 0; i < DRAIN_CALLS_MAX; i++) {
        told(d[i], 1, 0, 1);
    }
    goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void lost_while_it_drains(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    assert_false(d->ended);
    fake_lost(s.w1);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    goes_on(&s, s.w2, 2);
    fake_reconnect(s.w1); /* a new session drains nothing */
    state_is(s.a, 1, "up");
    rig_end(&s.rig);
}

static void the_router_stops(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    d = drain(s.a, "w1", 1000);
    router_stop(s.rig->router);
    rig_run(s.rig);
    assert_true(s.rig->stopped);
    assert_true(d->ended || s.a->gone); /* whichever is heard of first */
    rig_free(&s.rig);
}

/* To and fro, and never a token: nobody is to blame. */
static void moves_cost_nothing(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    for (int i = 0; i < IDLE_MOVES_MAX; i++) {
        told(drain(s.a, "w1", 0), 1, 0, 1);
        undrain(s.a, "w1");
        told(drain(s.a, "w2", 0), 1, 0, 1);
        undrain(s.a, "w2");
        worker_report(s.w1); /* of what they gave back */
        worker_report(s.w2);
    }
    goes_on(&s, s.w1, 2);
    assert_int_equal(s.x->figures.n_moves, 2 * IDLE_MOVES_MAX);
    rig_end(&s.rig);
}

static void all_are_drained(void **state)
{
    struct scene s;
    struct record *d, *y, *z;

    (void)state;
    bring_alone(&s, 1000 * MS);
    serves(s.a, true);
    d = drain(s.a, "w1", 0);
    serves(s.a, false);
    y = client_generate(s.c, 2, 40, 4);
    for (int i = 0; i < 4; i++) { /* while it has something, all wait */
        rig_advance(s.rig, 500 * MS);
        worker_report(s.w1);
    }
    assert_int_equal(rig_state(s.rig, 2), REQUEST_WAITING);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    told(d, 1, 1, 0);
    rig_advance(s.rig, 900 * MS);
    worker_report(s.w1);
    assert_int_equal(rig_state(s.rig, 2), REQUEST_WAITING);
    rig_advance(s.rig, 200 * MS);
    assert_int_equal(y->status, ST_UNAVAILABLE);
    assert_int_equal(y->retry_ms, RETRY_MS_ABSENT);
    assert_non_null(strstr(y->error, "every worker of model tiny is drained"));
    z = client_generate(s.c, 3, 40, 4);
    rig_run(s.rig);
    assert_int_equal(z->status, ST_UNAVAILABLE);
    worker_report(s.w1);
    undrain(s.a, "w1");
    z = client_generate(s.c, 4, 40, 4);
    rig_run(s.rig);
    worker_give(s.w1, 4, 0, 4, LENGTH);
    record_check(z, 4, 0, 4);
    rig_end(&s.rig);
}

/* What only a drained worker could hold does not block the others' queue. */
static void only_the_drained_could(void **state)
{
    struct scene s;
    struct record *d, *y, *z;

    (void)state;
    bring(&s);
    client_generate(s.c, 2, 40, 32 * 60); /* w1 is full now */
    y = client_generate(s.c, 3, 40, 32 * 40);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 3), REQUEST_WAITING);
    d = drain(s.a, "w1", 60000);
    rig_run(s.rig);
    assert_int_equal(y->status, ST_UNAVAILABLE);
    z = client_generate(s.c, 4, 40, 32 * 40);
    rig_run(s.rig);
    assert_int_equal(z->status, ST_UNAVAILABLE);
    assert_non_null(strstr(z->error, "that are drained could hold"));
    assert_false(d->ended);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_there),
        cmocka_unit_test(ends_within_the_grace),
        cmocka_unit_test(moves_after_the_grace),
        cmocka_unit_test(let_go_before_the_receipt),
        cmocka_unit_test(late_rows),
        cmocka_unit_test(in_every_state),
        cmocka_unit_test(refused_while_it_moves),
        cmocka_unit_test(ends_while_it_moves),
        cmocka_unit_test(cancelled_while_it_moves),
        cmocka_unit_test(what_is_ending_ends),
        cmocka_unit_test(what_is_kept_is_kept_for_the_grace),
        cmocka_unit_test(alone),
        cmocka_unit_test(another_comes),
        cmocka_unit_test(leaves),
        cmocka_unit_test(leaves_and_comes_back),
        cmocka_unit_test(leaves_what_fits_nowhere),
        cmocka_unit_test(several),
        cmocka_unit_test(undrained_on_the_way),
        cmocka_unit_test(undrain_lets_others_go),
        cmocka_unit_test(unknown),
        cmocka_unit_test(limits),
        cmocka_unit_test(lost_while_it_drains),
        cmocka_unit_test(the_router_stops),
        cmocka_unit_test(moves_cost_nothing),
        cmocka_unit_test(all_are_drained),
        cmocka_unit_test(only_the_drained_could),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
