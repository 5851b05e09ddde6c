/* Stages and offers come, leave, break and die at random.  When all is quiet
 * again, the workers left over cannot form another replica, and no offer could
 * complete one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/replicas/cover.h"
#include "tests/unit/router/rig.h"

#define SEEDS    60
#define EVENTS   150
#define FAKES    9
#define QUIET_US 80000000 /* more than the longest pause and probation */

struct soak {
    struct rig *rig;
    uint64_t random;
    struct fake *admin, *w[FAKES];
    uint32_t n_layers, n_seen; /* replicas that were up when it was quiet */
};

static uint32_t draw(struct soak *s, uint32_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s->random >> 33) % n;
}

static bool is_here(const struct fake *f)
{
    return f->up && !f->gone && !f->mute;
}

static void pass(struct soak *s, int64_t us)
{
    for (; us > 0; us -= 500000) {
        for (int i = 0; i < FAKES; i++) {
            if (is_here(s->w[i]) && !s->w[i]->offers) {
                worker_report(s->w[i]);
            }
        }
        rig_advance(s->rig, us < 500000 ? us : 500000);
    }
}

/* A worker with assigned layers loads them; the others send Hello again. */
static void come_back(struct soak *s, struct fake *f)
{
    if (f->offers && f->n_assigns > 0 && is_here(f)) {
        offer_load(f);
        f->n_assigns = 0;
    } else if (!is_here(f)) {
        if (draw(s, 3) == 0) {
            fake_restart(f);
        } else {
            fake_reconnect(f);
        }
    }
}

static void event(struct soak *s)
{
    struct fake *f = s->w[draw(s, FAKES)];

    f->hold_assembles = draw(s, 4) == 0;
    f->refuse_assembles = draw(s, 6) == 0 ? ST_UNAVAILABLE : ST_OK;
    f->refuse_assigns = draw(s, 6) == 0 ? ST_UNAVAILABLE : ST_OK;
    switch (is_here(f) ? draw(s, 7) : 6) {
    case 0:
        fake_lost(f);
        break;
    case 1:
        offer_leave(f);
        break;
    case 2:
        stage_broken(f, f->assembly, "what");
        break;
    case 3:
        f->mute = true; /* until its silence is noticed */
        break;
    case 4:
        if (f->assemble_call != 0) {
            stage_assembled(f);
        }
        break;
    case 5:
        if (f->offer.n_layers > 0 &&
            !f->offers) { /* it comes back without its layers */
            fake_lost(f);
            f->offers = true;
            f->n_assigns = 0;
        }
        break;
    default:
        come_back(s, f);
        break;
    }
    pass(s, draw(s, 3) == 0 ? draw(s, 4000000) : 1000);
}

static void calm(struct soak *s)
{
    for (int i = 0; i < FAKES; i++) {
        s->w[i]->hold_assembles = false;
        s->w[i]->refuse_assembles = s->w[i]->refuse_assigns = ST_OK;
        if (s->w[i]->assemble_call != 0 && is_here(s->w[i])) {
            stage_assembled(s->w[i]);
        }
    }
    for (int64_t us = 0; us < QUIET_US; us += 1000000) {
        for (int i = 0; i < FAKES; i++) {
            come_back(s, s->w[i]);
            assert_true(!s->w[i]->refused ||
                        s->w[i]->refusal == ST_ALREADY_EXISTS);
        }
        pass(s, 1000000);
    }
}

/* ---- assertions ---- */

static uint32_t n_replicas(struct soak *s)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    struct record *x = client_call(s->admin, METHOD_ADMIN_STATUS, &m.base, 0);
    uint32_t n;

    rig_run(s->rig);
    assert_true(x->ended && x->status == ST_OK);
    n = ((const Sluice__V1__StatusReply *)(const void *)x->reply)->n_replicas;
    fake_forget(s->admin);
    return n;
}

/* Asserts that all stages and layers of the assembly that f leads are present.
 */
static uint32_t assert_whole(const struct soak *s, const struct fake *f)
{
    uint32_t n = 0, at = 0;

    while (at < s->n_layers) {
        const struct fake *next = NULL;

        for (int i = 0; i < FAKES; i++) {
            if (s->w[i]->assembly == f->assembly && s->w[i]->stage == n) {
                next = s->w[i];
            }
        }
        assert_non_null(next);
        assert_int_equal(next->shard.layer_begin, at);
        assert_int_equal(next->n_stages, f->n_stages);
        at = next->shard.layer_end;
        n++;
    }
    assert_int_equal(n, f->n_stages);
    return n;
}

/* A replica that is up is never split to form two others, so only the workers
 * left over count. */
static void assert_quiet(struct soak *s)
{
    struct cover_piece loose[FAKES];
    uint32_t n = 0, n_free = 0, n_stages = 0, n_in = 0, n_up = 0;
    struct cover c;

    for (int i = 0; i < FAKES; i++) {
        const struct fake *f = s->w[i];

        assert_true(is_here(f));
        if (f->offers) {
            assert_int_equal(f->n_assigns, 0);
            n_free++;
            n_stages = f->offer.n_stages;
        } else if (f->assembly == 0) {
            loose[n++] =
                (struct cover_piece){f->shard.layer_begin, f->shard.layer_end};
        } else if (f->stage == 0) {
            n_in += assert_whole(s, f);
            n_up++;
        }
    }
    assert_int_equal(n_in + n + n_free, FAKES);
    assert_int_equal(n_replicas(s), n_up);
    s->n_seen += n_up;
    cover_find(&c, loose, n, s->n_layers);
    assert_int_equal(c.n, 0);
    /* Any offer can hold any gap, and at most two gaps must be filled. */
    assert_true(n_free == 0 || n_free < n_stages);
    assert_true(n == 0 || n_free < 2);
}

static void soak(struct soak *s)
{
    s->admin = rig_admin(s->rig, "admin");
    for (int i = 0; i < FAKES; i++) {
        fake_hello(s->w[i]);
    }
    for (int i = 0; i < EVENTS; i++) {
        event(s);
    }
    calm(s);
    assert_quiet(s);
    rig_end(&s->rig);
}

static void fixed_layers(void **state)
{
    uint32_t n_seen = 0;

    (void)state;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        struct soak s = {.random = seed, .rig = rig_new(NULL), .n_layers = 4};

        for (int i = 0; i < FAKES; i++) {
            uint32_t begin = draw(&s, 4), end;
            char name[8];

            do {
                end = begin + 1 + draw(&s, 4 - begin);
            } while (end - begin == 4);
            snprintf(name, sizeof name, "w%d", i);
            s.w[i] = fake_stage_new(s.rig, name, begin, end);
        }
        soak(&s);
        n_seen += s.n_seen;
    }

    assert_true(n_seen > SEEDS);
}

static void layers_that_are_given(void **state)
{
    uint32_t n_seen = 0;

    (void)state;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        struct soak s = {
            .random = seed, .rig = rig_new(NULL), .n_layers = RIG_LAYERS};

        for (int i = 0; i < FAKES; i++) {
            char name[8];

            snprintf(name, sizeof name, "w%d", i);
            s.w[i] = fake_offer_new(s.rig, name, 3, RIG_LAYERS);
        }
        soak(&s);
        n_seen += s.n_seen;
    }

    assert_true(n_seen > SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_layers),
        cmocka_unit_test(layers_that_are_given),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
