/* Sequences that outlived their sessions: which are adopted, which are
 * disowned, and which Live messages are violations. */
#include <string.h>

#include "common/base/log.h"
#include "proto/admin.pb-c.h"
#include "router/base/router_limits.h"
#include "router/calls/router_state.h"
#include "router/placement/adoption.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* 40 ids and 20 tokens: 2 blocks of 32. */
#define PROMPT 40
#define TOKENS 20

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static struct scene begin(uint32_t blocks)
{
    struct rig_options o = {.max_peers = 32,
                            .max_requests = 64,
                            .max_waiting = 64,
                            .worker_wait_us = 10000000};
    struct scene s = {.rig = rig_new(&o)};

    s.w = rig_worker(s.rig, "w1", blocks, 8);
    s.w->survives = true;
    s.c = rig_client(s.rig, "c1");
    return s;
}

/* A worker that announced n_live sequences and has sent no Live. */
static struct scene announced(uint32_t n_live)
{
    struct scene s = begin(2);

    s.w = fake_worker_new(s.rig, "w2", 64, 8);
    s.w->shard.has_n_live = true;
    s.w->shard.n_live = n_live;
    fake_hello(s.w);
    assert_true(s.w->up);
    return s;
}

/* Request 1 has 3 tokens from w when the session of w is lost. */
static struct record *lose_one(struct scene *s)
{
    struct record *x = client_generate(s->c, 1, PROMPT, TOKENS);

    rig_run(s->rig);
    worker_give(s->w, 1, 0, 3, 0);
    fake_lost(s->w);
    rig_run(s->rig);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_WAITING);
    return x;
}

static void come_back(struct scene *s)
{
    fake_reconnect(s->w);
    rig_run(s->rig);
    assert_true(s->w->up);
}

static void finish(struct scene *s, struct record *x)
{
    struct sequence *q = worker_sequence_of(s->w, 1);

    assert_non_null(q);
    worker_give(s->w, 1, 0, TOKENS - q->n_tokens, LENGTH);
    rig_run(s->rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    record_check(x, 1, 0, TOKENS);
}

static bool lives(const struct scene *s, uint8_t id, uint32_t choice)
{
    uint8_t full[16];

    memset(full, id, sizeof full);
    return adoption_find(&s->rig->router->placement, full, choice) != NULL;
}

static struct router_metrics counts(const struct scene *s)
{
    struct router_metrics k;

    router_counts(s->rig->router, &k);
    return k;
}

/* ---- adopted ---- */

/* The orphan fills the pool: an adoption needs no room. */
static void adopts_what_waits(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s);
    struct router_worker_view v;

    (void)state;
    come_back(&s);
    assert_int_equal(s.w->n_adopts, 0);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    assert_int_equal(s.w->n_submits, 1);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
    assert_true(router_worker_view(s.rig->router, 0, &v));
    assert_int_equal(v.granted_blocks + v.granted_slots, 0);
    assert_int_equal(v.n_sequences, 1);
    assert_int_equal(counts(&s).adopted, 1);
    assert_false(lives(&s, 1, 0));
    finish(&s, x);
    assert_int_equal(x->figures.blocks, 2);
    assert_int_equal(s.w->n_disowned, 0);
    rig_end(&s.rig);
}

/* The orphan may have generated more tokens, or have finished. */
static void takes_what_was_made_meanwhile(void **state)
{
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        struct scene s = begin(2);
        struct record *x = lose_one(&s);

        worker_make(s.w, worker_sequence_of(s.w, 1), ended ? TOKENS - 3 : 5,
                    ended ? LENGTH : 0);
        come_back(&s);
        worker_live(s.w, 3000);
        rig_run(s.rig);
        worker_step(s.w);
        rig_run(s.rig);
        assert_int_equal(x->n_tokens, ended ? TOKENS : 8);
        if (!ended) {
            finish(&s, x);
        }
        assert_true(x->ended);
        record_check(x, 1, 0, TOKENS);
        rig_end(&s.rig);
    }
}

/* Adoptions pass the queue, which is a queue for room. */
static void adopts_past_the_queue(void **state)
{
    struct scene s = begin(4);
    struct record *first, *x;

    (void)state;
    first = client_generate(s.c, 9, PROMPT, 200); /* it can never fit now */
    rig_run(s.rig);
    assert_true(first->ended);
    x = lose_one(&s);
    come_back(&s);
    first = client_generate(s.c, 8, PROMPT, 80); /* 4 blocks: waits */
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 8), CHOICE_WAITING);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    assert_int_equal(rig_state(s.rig, 8), CHOICE_WAITING);
    finish(&s, x);
    rig_run(s.rig);
    worker_give(s.w, 8, 0, 80, LENGTH);
    assert_true(first->ended);
    rig_end(&s.rig);
}

/* Each choice is adopted by itself. */
static void adopts_each_choice(void **state)
{
    struct scene s = begin(6);
    struct record *x = client_generate_n(s.c, 1, 3, PROMPT, TOKENS);

    (void)state;
    rig_run(s.rig);
    for (uint32_t c = 0; c < 3; c++) {
        worker_give(s.w, 1, c, c + 1, 0);
    }
    fake_lost(s.w);
    rig_run(s.rig);
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 3);
    for (uint32_t c = 0; c < 3; c++) {
        worker_give(s.w, 1, c, TOKENS - c - 1, LENGTH);
    }
    assert_true(x->ended);
    for (uint32_t c = 0; c < 3; c++) {
        record_check(x, 1, c, TOKENS);
    }
    rig_end(&s.rig);
}

/* ---- orphans announced in Hello ---- */

static void grants_nothing_before_it_knows(void **state)
{
    struct scene s = begin(64);
    struct record *x = lose_one(&s), *y;

    (void)state;
    come_back(&s);
    y = client_generate(s.c, 2, PROMPT, TOKENS);
    rig_advance(s.rig, 100000);
    assert_int_equal(s.w->n_submits, 1);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    assert_int_equal(s.w->n_submits, 2);
    finish(&s, x);
    worker_give(s.w, 2, 0, TOKENS, LENGTH);
    assert_true(y->ended);
    rig_end(&s.rig);
}

/* Live was lost and will come again; grants do not wait for it. */
static void goes_on_without_it_after_a_ledger(void **state)
{
    struct scene s = begin(64);
    struct record *x = lose_one(&s);

    (void)state;
    come_back(&s);
    worker_report(s.w);
    rig_run(s.rig);
    assert_int_equal(s.w->n_submits, 2);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
    /* The orphan is not the sequence of the new Submit, so it is disowned. */
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 0);
    assert_int_equal(s.w->n_disowned, 1);
    worker_step(s.w);
    finish(&s, x);
    rig_end(&s.rig);
}

static void hello_of(uint32_t n_live, bool good)
{
    struct scene s = begin(64);
    struct fake *w = fake_worker_new(s.rig, "w2", 8, 8);

    w->shard.has_n_live = true;
    w->shard.n_live = n_live;
    fake_hello(w);
    assert_int_equal(w->up, good);
    if (!good) {
        assert_int_equal(w->refusal, ST_INVALID_ARGUMENT);
        assert_non_null(strstr(w->why, "n_live is 4097, but at most 4096"));
    }
    rig_free(&s.rig);
}

static void bounds_what_hello_announces(void **state)
{
    (void)state;
    hello_of(WORKER_ORPHANS_MAX, true);
    hello_of(WORKER_ORPHANS_MAX + 1, false);
}

/* ---- not found ---- */

/* The request goes on waiting; this does not count as a refusal. */
static void waits_on_if_it_is_gone(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s);

    (void)state;
    s.w->loses_orphans = true;
    for (uint32_t i = 0; i <= REFUSALS_MAX; i++) {
        come_back(&s);
        worker_live(s.w, 3000);
        rig_run(s.rig);
        assert_int_equal(s.w->n_adopts, i + 1);
        assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
        assert_false(x->ended);
        fake_lost(s.w);
        rig_run(s.rig);
    }
    assert_int_equal(counts(&s).adoptions_lost, REFUSALS_MAX + 1);
    s.w->survives = false;
    come_back(&s);
    rig_run(s.rig);
    assert_int_equal(s.w->n_submits, 2);
    finish(&s, x);
    rig_end(&s.rig);
}

static void keeps_its_place_in_the_queue(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s), *y;

    (void)state;
    y = client_generate(s.c, 2, PROMPT, TOKENS);
    s.w->loses_orphans = true;
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    worker_release(s.w,
                   worker_sequence_of(s.w, 1)); /* it expires at the worker */
    worker_sequence_of(s.w, 1)->used = false;
    worker_report(s.w);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    finish(&s, x);
    rig_run(s.rig);
    worker_give(s.w, 2, 0, TOKENS, LENGTH);
    assert_true(y->ended);
    rig_end(&s.rig);
}

/* ---- disowned ---- */

static void disowns_what_runs_elsewhere(void **state)
{
    struct scene s = begin(4);
    struct fake *other;
    struct record *x = lose_one(&s);

    (void)state;
    other = rig_worker(s.rig, "w2", 4, 8);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 0);
    assert_int_equal(s.w->n_disowned, 1);
    assert_null(worker_sequence_of(s.w, 1));
    worker_give(other, 1, 0, TOKENS - 3, LENGTH);
    assert_true(x->ended);
    record_check(x, 1, 0, TOKENS);
    assert_int_equal(counts(&s).disowned, 1);
    rig_end(&s.rig);
}

/* A waiting request is cancelled, loses its client, or is granted elsewhere. */
static void disowns_what_is_decided(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct scene s = begin(2);
        struct record *x = lose_one(&s);
        Sluice__V1__DrainRequest m = SLUICE__V1__DRAIN_REQUEST__INIT;
        struct fake *a = rig_admin(s.rig, "a"), *other = NULL;

        come_back(&s);
        m.worker = (ProtobufCBinaryData){2, (uint8_t *)"w1"};
        client_call(a, METHOD_ADMIN_DRAIN, &m.base, 0);
        rig_run(s.rig);
        worker_live(s.w, 3000); /* w drains, so it is not asked to adopt */
        rig_run(s.rig);
        assert_int_equal(s.w->n_adopts, 0);
        assert_int_equal(s.w->n_disowned, 0);
        assert_true(lives(&s, 1, 0));
        if (how == 0) {
            client_cancel(s.c, 1);
        } else if (how == 1) {
            fake_lost(s.c);
        } else {
            other = rig_worker(s.rig, "w2", 2, 8);
        }
        rig_run(s.rig);
        assert_int_equal(s.w->n_disowned, 1);
        assert_false(lives(&s, 1, 0));
        if (other != NULL) {
            worker_give(other, 1, 0, TOKENS - 3, LENGTH);
            assert_true(x->ended);
        }
        rig_end(&s.rig);
    }
}

static void disowns_what_no_request_has(void **state)
{
    struct scene s = begin(2);
    struct fake *w2 = fake_worker_new(s.rig, "w2", 4, 8);
    struct record *x = lose_one(&s);
    uint8_t id[16];
    uint32_t choice = 0, generated = 3;

    (void)state;
    memset(id, 1, sizeof id);
    strcpy(w2->model, "other");
    w2->shard.model = wire_text(w2->model);
    w2->shard.has_n_live = true;
    w2->shard.n_live = 1;
    w2->live_ms = 3000;
    fake_hello(w2);
    worker_live_rows(w2, 16, 1, 1, id, &choice, &generated);
    rig_run(s.rig);
    assert_int_equal(w2->n_disowned, 1); /* the choice is of another model */
    /* A choice number that the request does not have. */
    s.w->sequences[1] = s.w->sequences[0];
    s.w->sequences[1].choice = 1;
    s.w->sequences[1].blocks = s.w->sequences[1].slots = 0;
    s.w->sequences[1].ids = NULL;
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_disowned, 1);
    assert_null(worker_choice_of(s.w, 1, 1));
    assert_int_equal(s.w->n_adopts, 1);
    finish(&s, x);
    rig_end(&s.rig);
}

/* A Cancel during the Submit: the receipt comes from the worker. */
static void cancels_what_it_asked_for(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s), *k;

    (void)state;
    s.w->hold_submits = true;
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_SUBMITTED);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_true(k->ended && x->ended);
    assert_int_equal(k->receipt.blocks, 2);
    assert_int_equal(x->finish, SLUICE__V1__FINISH__FINISH_CANCELLED);
    assert_int_equal(s.w->n_disowned, 0);
    worker_report(s.w);
    rig_end(&s.rig);
}

/* ---- unknown ---- */

/* A client may resume the request: the orphan is then adopted at once. */
static void waits_for_who_resumes(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s);

    (void)state;
    client_give_up(s.c, x);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_ENDED);
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    assert_true(lives(&s, 1, 0));
    assert_int_equal(s.w->n_disowned, 0);
    for (int i = 0; i < 29; i++) {
        worker_report(s.w);
        rig_advance(s.rig, 100000);
    }
    x = client_generate(s.c, 1, PROMPT, TOKENS);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    worker_step(s.w);
    finish(&s, x);
    rig_end(&s.rig);
}

static void forgets_what_nobody_comes_for(uint32_t told_ms, uint32_t is_ms)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s);

    client_give_up(s.c, x);
    rig_run(s.rig);
    come_back(&s);
    worker_live(s.w, told_ms);
    rig_run(s.rig);
    for (uint32_t ms = 0; ms + 100 < is_ms; ms += 100) {
        worker_report(s.w); /* keeps the worker from being silent */
        rig_advance(s.rig, 100000);
        assert_true(lives(&s, 1, 0));
    }
    rig_advance(s.rig, 100000);
    assert_false(lives(&s, 1, 0));
    rig_free(&s.rig);
}

static void forgets_in_time(void **state)
{
    (void)state;
    forgets_what_nobody_comes_for(3000, 3000);
    forgets_what_nobody_comes_for(0, 0);
    forgets_what_nobody_comes_for(LIVE_MS_MAX, LIVE_MS_MAX);
    forgets_what_nobody_comes_for(UINT32_MAX, LIVE_MS_MAX);
}

/* The next session sends Live again. */
static void forgets_with_the_session(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s);

    (void)state;
    client_give_up(s.c, x);
    rig_run(s.rig);
    for (int i = 0; i < 3; i++) {
        come_back(&s);
        assert_false(lives(&s, 1, 0));
        worker_live(s.w, 3000);
        rig_run(s.rig);
        assert_true(lives(&s, 1, 0));
        fake_lost(s.w);
        rig_run(s.rig);
    }
    rig_free(&s.rig);
}

/* ---- violations ---- */

struct told {
    uint8_t ids[(WORKER_ORPHANS_MAX + 1) * 16];
    uint32_t choice[WORKER_ORPHANS_MAX + 1];
    uint32_t generated[WORKER_ORPHANS_MAX + 1];
};

static struct told *honest(void)
{
    static struct told t;

    memset(&t, 0, sizeof t);
    for (uint32_t i = 0; i <= WORKER_ORPHANS_MAX; i++) {
        t.ids[16 * i] = 1;
        memcpy(&t.ids[16 * i + 4], &i, sizeof i);
    }
    return &t;
}

static void tell(struct scene *s, const struct told *t, size_t from, size_t n)
{
    s->w->live_ms = 3000;
    worker_live_rows(s->w, 16 * n, n, n, t->ids + 16 * from, t->choice + from,
                     t->generated + from);
    rig_run(s->rig);
}

static void as_many_as_there_may_be(void **state)
{
    struct scene s = announced(WORKER_ORPHANS_MAX);
    const struct told *t = honest();

    (void)state;
    tell(&s, t, 0, 0);
    tell(&s, t, 0, LIVE_ROWS_MAX);
    tell(&s, t, LIVE_ROWS_MAX, WORKER_ORPHANS_MAX - LIVE_ROWS_MAX);
    assert_false(s.w->gone);
    assert_int_equal(counts(&s).protocol_violations, 0);
    tell(&s, t, WORKER_ORPHANS_MAX, 1);
    assert_true(s.w->gone);
    assert_int_equal(counts(&s).protocol_violations, 1);
    rig_free(&s.rig);
}

static void too_many_at_once(void **state)
{
    struct scene s = announced(WORKER_ORPHANS_MAX);

    (void)state;
    tell(&s, honest(), 0, LIVE_ROWS_MAX + 1);
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

/* Fewer than announced is allowed: some have ended since Hello. */
static void more_than_announced(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= 4; n++) {
        struct scene s = announced(3);

        tell(&s, honest(), 0, n);
        assert_int_equal(s.w->gone, n > 3);
        rig_free(&s.rig);
    }
}

static void limits_of_a_row(void **state)
{
    (void)state;
    for (int what = 0; what < 5; what++) {
        for (int past = 0; past < 2; past++) {
            struct scene s = announced(8);
            struct told *t = honest();

            switch (what) {
            case 0:
                t->choice[1] = CHOICES_MAX - 1 + (uint32_t)past;
                break;
            case 1:
                t->generated[1] = RIG_CONTEXT + (uint32_t)past;
                break;
            case 2:
                memset(t->ids + 16, !past, 16);
                break;
            case 3: /* one id twice, with different choices */
                memcpy(t->ids + 16, t->ids, 16);
                t->choice[1] = !past;
                break;
            default:
                break;
            }
            tell(&s, t, 0, 2);
            if (what == 4 && past) { /* twice, in two messages */
                tell(&s, t, 1, 1);
            }
            assert_int_equal(s.w->gone, past);
            assert_int_equal(counts(&s).protocol_violations, past);
            rig_free(&s.rig);
        }
    }
}

static void columns_of_other_length(void **state)
{
    static const size_t of[][3] = {{31, 2, 2}, {33, 2, 2}, {32, 1, 2},
                                   {32, 2, 1}, {32, 3, 2}, {0, 1, 1},
                                   {16, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct scene s = announced(8);
        const struct told *t = honest();

        worker_live_rows(s.w, of[i][0], of[i][1], of[i][2], t->ids, t->choice,
                         t->generated);
        rig_run(s.rig);
        assert_true(s.w->gone);
        assert_int_equal(counts(&s).protocol_violations, 1);
        rig_free(&s.rig);
    }
}

/* ---- figures ---- */

static void status_counts_them(void **state)
{
    struct scene s = begin(2);
    struct record *x = lose_one(&s), *y;
    struct fake *a = rig_admin(s.rig, "a");
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    const Sluice__V1__StatusReply *r;

    (void)state;
    come_back(&s);
    worker_live(s.w, 3000);
    rig_run(s.rig);
    y = client_call(a, METHOD_ADMIN_STATUS, &m.base, 0);
    rig_run(s.rig);
    r = (const void *)y->reply;
    assert_true(r->has_n_adopted);
    assert_int_equal(r->n_adopted, 1);
    finish(&s, x);
    rig_end(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopts_what_waits),
        cmocka_unit_test(takes_what_was_made_meanwhile),
        cmocka_unit_test(adopts_past_the_queue),
        cmocka_unit_test(adopts_each_choice),
        cmocka_unit_test(grants_nothing_before_it_knows),
        cmocka_unit_test(goes_on_without_it_after_a_ledger),
        cmocka_unit_test(bounds_what_hello_announces),
        cmocka_unit_test(waits_on_if_it_is_gone),
        cmocka_unit_test(keeps_its_place_in_the_queue),
        cmocka_unit_test(disowns_what_runs_elsewhere),
        cmocka_unit_test(disowns_what_is_decided),
        cmocka_unit_test(disowns_what_no_request_has),
        cmocka_unit_test(cancels_what_it_asked_for),
        cmocka_unit_test(waits_for_who_resumes),
        cmocka_unit_test(forgets_in_time),
        cmocka_unit_test(forgets_with_the_session),
        cmocka_unit_test(as_many_as_there_may_be),
        cmocka_unit_test(too_many_at_once),
        cmocka_unit_test(more_than_announced),
        cmocka_unit_test(limits_of_a_row),
        cmocka_unit_test(columns_of_other_length),
        cmocka_unit_test(status_counts_them),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
