/* Accounts of stages under random events: requests, refusals, cancels, drains,
 * lost sessions, and stages that open, free and report late.  The fakes assert
 * that every grant fits and that numbers have no gap; at the end every account
 * is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#ifdef __SANITIZE_ADDRESS__
#define SEEDS 6
#else
#define SEEDS 40
#endif
#define STEPS   400
#define WORKERS 7 /* 2 replicas of 3 stages; 1 with all layers */
#define ASKS    120
#define MS      1000

struct scene {
    struct rig *rig;
    struct fake *w[WORKERS], *c, *a;
    struct record *asked[ASKS];
    uint32_t n_asked, n_ok;
    uint64_t random;
};

static uint32_t draw(struct scene *s, uint32_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s->random >> 33) % n;
}

static void bring(struct scene *s, uint64_t seed)
{
    const struct rig_options o = {.max_peers = 64,
                                  .max_requests = 512,
                                  .max_waiting = 512,
                                  .worker_wait_us = 600000000,
                                  .headroom = seed % 4 == 0};
    static const char *const names[] = {"a0", "a1", "a2",   "b0",
                                        "b1", "b2", "whole"};

    memset(s, 0, sizeof *s);
    s->random = seed;
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->a = rig_admin(s->rig, "a1");
    for (uint32_t i = 0; i < 6; i++) { /* one stage lacks slots, one blocks */
        uint32_t at = i % 3;

        s->w[i] = rig_stage_with(s->rig, names[i], at, at < 2 ? at + 1 : 4,
                                 i == 1 ? 0 : 12 + draw(s, 30),
                                 i == 2 ? 0 : 3 + draw(s, 6));
    }
    s->w[6] = rig_worker(s->rig, names[6], 12, 2);
}

static void ask(struct scene *s)
{
    uint32_t i = s->n_asked;

    if (i == ASKS) {
        return;
    }
    s->asked[s->n_asked++] =
        client_generate_n(s->c, (uint8_t)(i + 1), 1 + draw(s, 2), 20,
                          12 + RIG_BLOCK * draw(s, 8));
    rig_run(s->rig);
}

/* Returns a random sequence of a worker; NULL: none. */
static struct sequence *one_of(struct scene *s, struct fake *w)
{
    uint32_t skip = draw(s, RIG_SEQUENCES);

    for (uint32_t i = 0; i < RIG_SEQUENCES; i++) {
        struct sequence *q = &w->sequences[(i + skip) % RIG_SEQUENCES];
        if (q->used && !q->finished && q->finish == 0) {
            return q;
        }
    }
    return NULL;
}

static bool leads(const struct fake *w)
{
    return w->up && !w->gone && !w->mute && w->stage == 0;
}

static void give(struct scene *s, struct fake *w, uint32_t most)
{
    struct sequence *q = leads(w) ? one_of(s, w) : NULL;
    uint32_t left = q == NULL ? 0 : q->max_tokens - q->n_tokens;
    uint32_t n = left < most ? left : most;

    if (q != NULL) {
        worker_give(w, q->id[0], q->choice, n,
                    n == left ? SLUICE__V1__FINISH__FINISH_LENGTH : 0);
    }
}

/* Carries out all that a fake holds back. */
static void let_loose(struct fake *w)
{
    w->hold_opens = w->hold_removes = w->hold_receipts = false;
    w->refuse_submits = ST_OK;
    stage_opens(w);
    stage_removes(w);
    while (w->n_held > 0 && !w->gone) {
        worker_receipt(w);
    }
    w->n_held = 0;
    rig_run(w->rig);
}

static void hold(struct scene *s, struct fake *w)
{
    switch (draw(s, 6)) {
    case 0:
        w->hold_opens = true;
        break;
    case 1:
        w->hold_removes = true;
        break;
    case 2:
        w->hold_receipts = leads(w);
        break;
    case 3:
        w->refuse_submits =
            draw(s, 2) == 0 ? ST_RESOURCE_EXHAUSTED : ST_CANCELLED;
        break;
    default:
        let_loose(w);
        break;
    }
}

static void drain(struct scene *s, const struct fake *w, bool on)
{
    Sluice__V1__DrainRequest d = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__WorkerRequest u = SLUICE__V1__WORKER_REQUEST__INIT;

    d.worker = u.worker = wire_text(w->name);
    d.has_grace_ms = true;
    d.grace_ms = draw(s, 100);
    client_call(s->a, on ? METHOD_ADMIN_DRAIN : METHOD_ADMIN_UNDRAIN,
                on ? &d.base : &u.base, 0);
    rig_run(s->rig);
}

/* Workers without a session come back as the same life. */
static void come_back(struct scene *s)
{
    for (int i = 0; i < WORKERS; i++) {
        if (s->w[i]->gone || s->w[i]->mute) {
            s->w[i]->n_held = 0;
            fake_reconnect(s->w[i]);
            assert_true(s->w[i]->up);
        }
    }
}

static void act(struct scene *s)
{
    struct fake *w = s->w[draw(s, WORKERS)];
    uint32_t what = draw(s, 100);

    if (w->gone || w->mute) {
        return;
    }
    if (what < 25) {
        ask(s);
    } else if (what < 55) {
        give(s, w, 1 + draw(s, 100));
    } else if (what < 62 && s->n_asked > 0) {
        client_cancel(s->c, (uint8_t)(1 + draw(s, s->n_asked)));
    } else if (what < 80) {
        worker_report(w);
    } else if (what < 92) {
        hold(s, w);
    } else if (what < 96) {
        drain(s, w, draw(s, 2) == 0);
    } else if (what < 98) {
        fake_lost(w);
    }
    rig_run(s->rig);
}

static void pass(struct scene *s, int64_t us)
{
    for (; us > 0; us -= 200 * MS) {
        for (int i = 0; i < WORKERS; i++) {
            if (!s->w[i]->gone && !s->w[i]->mute) {
                worker_report(s->w[i]);
            }
        }
        rig_advance(s->rig, us < 200 * MS ? us : 200 * MS);
    }
}

static bool all_ended(const struct scene *s)
{
    for (uint32_t i = 0; i < s->n_asked; i++) {
        if (!s->asked[i]->ended) {
            return false;
        }
    }
    return true;
}

static void come_to_rest(struct scene *s)
{
    come_back(s);
    for (int i = 0; i < WORKERS; i++) {
        let_loose(s->w[i]);
        drain(s, s->w[i], false);
    }
    for (int round = 0; round < 2000 && !all_ended(s); round++) {
        for (int i = 0; i < WORKERS; i++) {
            give(s, s->w[i], UINT32_MAX);
        }
        pass(s, 20 * MS);
        come_back(s);
    }
    pass(s, 400 * MS);
}

static void check(struct scene *s)
{
    for (uint32_t i = 0; i < s->n_asked; i++) {
        assert_true(s->asked[i]->ended);
        s->n_ok += s->asked[i]->status == ST_OK;
    }
    for (int i = 0; i < WORKERS; i++) {
        struct fake *w = s->w[i];
        struct router_worker_view v = fake_view(w);

        assert_true(w->grants_in_order);
        assert_int_equal(v.n_sequences, 0);
        assert_int_equal(v.granted_blocks, 0);
        assert_int_equal(v.granted_slots, 0);
        assert_int_equal(v.last_grant, v.grant);
        assert_int_equal(v.free_blocks, w->classes[0].total);
        assert_int_equal(v.free_slots, w->classes[1].total);
    }
}

static void whatever_comes(void **state)
{
    uint32_t n_ok = 0, n_asked = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct router_metrics k;
        struct scene s;

        bring(&s, seed);
        for (int step = 0; step < STEPS; step++) {
            act(&s);
            if (draw(&s, 8) == 0) {
                pass(&s, 1 + draw(&s, 300 * MS));
            }
            if (draw(&s, 10) == 0) {
                come_back(&s);
            }
        }
        come_to_rest(&s);
        check(&s);
        router_counts(s.rig->router, &k);
        assert_int_equal(k.ledger_violations, 0);
        assert_int_equal(k.protocol_violations, 0);
        n_ok += s.n_ok;
        n_asked += s.n_asked;
        rig_end(&s.rig);
    }
    assert_true(n_asked > SEEDS * 60 && n_ok > n_asked / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_comes)};

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
