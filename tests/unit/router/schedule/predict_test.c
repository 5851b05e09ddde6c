/* Predicted times: the formulas at a place, and whole loads in virtual time
 * against what then happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "router/calls/router_state.h"
#include "router/schedule/predict.h"
#include "tests/unit/router/rig_engine.h"

static const struct engine_load plain = {.n_prefix = 64,
                                         .n_own = 448,
                                         .length = 80,
                                         .max_tokens = 320,
                                         .slots = 8,
                                         .base_us = 8000,
                                         .row_us = 1000,
                                         .token_us = 40,
                                         .chunk = 512};

static struct engines scene; /* large */
static struct prediction expected[RIG_RECORDS];

static struct schedule *schedule_of(const struct engines *s)
{
    return &s->rig->router->schedule;
}

static struct model *model_at(const struct engines *s)
{
    return s->rig->router->fleet.models[0];
}

static struct prediction arrive(struct engines *s, uint32_t n_prompt,
                                uint32_t max_tokens, uint32_t tenant)
{
    const struct newcomer x = {.model = model_at(s),
                               .n_prompt = n_prompt,
                               .max_tokens = max_tokens,
                               .tenant = tenant,
                               .tier = TIER_DEFAULT};

    return predict_arrival(schedule_of(s), &x);
}

static void predict(struct engines *s, struct engine_request *o)
{
    expected[o - s->all] = arrive(s, s->load.n_prefix + s->load.n_own,
                                  s->load.max_tokens, METRIC_DEFAULT);
}

/* Returns the share of requests from the `from`th on, in percent, of which a
 * time was predicted within a factor of two, or within slack_us. */
static uint32_t right(uint32_t from, int64_t slack_us,
                      int64_t (*is)(const struct engine_request *o),
                      int64_t (*was)(const struct prediction *p))
{
    uint32_t n = 0;

    for (uint32_t i = from; i < scene.n; i++) {
        int64_t a = is(&scene.all[i]), b = was(&expected[i]);
        int64_t apart = a > b ? a - b : b - a;

        n += apart <= slack_us || (a <= 2 * b && b <= 2 * a);
    }
    return n * 100 / (scene.n - from);
}

static int64_t granted(const struct engine_request *o)
{
    return o->granted_us;
}

static int64_t first(const struct engine_request *o)
{
    return o->first_us;
}

static int64_t end(const struct engine_request *o)
{
    return o->end_us;
}

static int64_t wait_of(const struct prediction *p)
{
    return p->wait_us;
}

static int64_t first_of(const struct prediction *p)
{
    return p->first_us;
}

static int64_t end_of(const struct prediction *p)
{
    return p->end_us;
}

static void run(const struct engine_load *l, uint32_t n, uint32_t rate,
                uint32_t seconds)
{
    engines_bring(&scene, l, n);
    scene.before = predict;
    engines_load(&scene, rate, seconds);
    engines_finish(&scene);
}

/* Lengths are of half to one and a half of the mean. */
static void without_a_queue_first_tokens_and_ends_are_foreseen(void **state)
{
    (void)state;
    run(&plain, 4, 10, 20);
    assert_true(right(40, 10000, first, first_of) >= 90);
    assert_true(right(40, 0, end, end_of) >= 90);
}

/* Twice of what the places serve. */
static void the_wait_in_a_queue_is_foreseen(void **state)
{
    (void)state;
    run(&plain, 2, 20, 15);
    assert_true(right(60, 100000, granted, wait_of) >= 90);
    assert_true(right(60, 100000, first, first_of) >= 90);
}

/* Half of the rows of the place are still in its prompts. */
static void prompts_before_it_count_until_they_are_computed(void **state)
{
    struct prediction before, after;
    struct worker *w;

    (void)state;
    engines_bring(&scene, &plain, 1);
    w = scene.rig->router->fleet.workers[0];
    before = predict_at(w, 512, 1);
    client_generate(scene.c, 1, 5120, 20);
    rig_run(scene.rig);
    after = predict_at(w, 512, 1);
    assert_true(after.first_us > 5 * before.first_us);
    scene.of[0].w->device_us = COSTS_STEP_US;
    scene.of[0].w->n_prompt_tokens = 4608;
    worker_step(scene.of[0].w);
    rig_run(scene.rig);
    after = predict_at(w, 512, 1);
    assert_true(after.first_us < 3 * before.first_us);
    worker_give(scene.of[0].w, 1, 0, 20, SLUICE__V1__FINISH__FINISH_LENGTH);
    after = predict_at(w, 512, 1);
    assert_int_equal(after.first_us, before.first_us);
    rig_free(&scene.rig);
}

/* Waiting work of one tenant is not before the first of another. */
static void a_light_tenant_is_told_of_its_own_wait(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct prediction heavy, light;

    (void)state;
    engines_bring(&scene, &plain, 1);
    m.has_tenant = true;
    m.tenant = wire_text("heavy");
    for (uint8_t id = 1; id <= 40; id++) {
        client_generate_with(scene.c, id, 512, 320, &m, 0);
        rig_run(scene.rig);
    }
    heavy = arrive(&scene, 512, 320,
                   (uint32_t)metric_slot(&scene.rig->router->base.tenant_names,
                                         "heavy", 5));
    light = arrive(&scene, 512, 320, METRIC_DEFAULT);
    assert_true(light.wait_us > 0);
    assert_true(heavy.wait_us > 10 * light.wait_us);
    rig_free(&scene.rig);
}

static void without_a_place_nothing_is_foreseen(void **state)
{
    struct prediction p;

    (void)state;
    engines_bring(&scene, &plain, 1);
    p = arrive(&scene, 512, RIG_CONTEXT, METRIC_DEFAULT);
    assert_true(p.wait_us == PREDICT_NEVER && p.first_us == PREDICT_NEVER &&
                p.end_us == PREDICT_NEVER);
    rig_free(&scene.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_queue_first_tokens_and_ends_are_foreseen),
        cmocka_unit_test(the_wait_in_a_queue_is_foreseen),
        cmocka_unit_test(prompts_before_it_count_until_they_are_computed),
        cmocka_unit_test(a_light_tenant_is_told_of_its_own_wait),
        cmocka_unit_test(without_a_place_nothing_is_foreseen),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
