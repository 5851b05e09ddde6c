/* Routing: the place with the earliest first token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

struct scene {
    struct rig *rig;
    struct fake *cold, *warm, *c;
};

/* The cold worker has more room, so that ties go there. */
static void bring(struct scene *s)
{
    s->rig = rig_new(NULL);
    s->cold = rig_worker(s->rig, "cold", 1000, 64);
    s->warm = rig_worker(s->rig, "warm", 500, 64);
    s->c = rig_client(s->rig, "c1");
}

static bool at(struct fake *w, uint8_t id)
{
    return worker_sequence_of(w, id) != NULL;
}

/* Asks with the prompt of `like`, of which workers may have prefixes. */
static struct record *ask_like(struct scene *s, uint8_t id, uint8_t like,
                               uint32_t n_prompt,
                               Sluice__V1__GenerateRequest *m)
{
    uint32_t *ids = calloc(n_prompt, sizeof *ids);
    uint8_t full[16];
    struct record *x;

    memset(full, id, 16);
    for (uint32_t i = 0; i < n_prompt; i++) {
        ids[i] = (i * 3 + like) % RIG_VOCAB;
    }
    m->model = wire_text("tiny");
    m->request_id = (ProtobufCBinaryData){16, full};
    m->tokens = ids;
    m->n_tokens = n_prompt;
    m->has_max_tokens = true;
    m->max_tokens = 20;
    x = client_call(s->c, METHOD_INFERENCE_GENERATE, &m->base, 0);
    rig_run(s->rig);
    free(ids);
    return x;
}

static struct record *ask(struct scene *s, uint8_t id, uint8_t like,
                          uint32_t n_prompt)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    return ask_like(s, id, like, n_prompt, &m);
}

static void ties_go_to_the_most_free_pages(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    ask(&s, 1, 1, 1000);
    assert_true(at(s.cold, 1));
    rig_free(&s.rig);
}

static void the_warm_place_is_chosen(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.warm, 7, 0, 10, true, true);
    ask(&s, 1, 7, 1000);
    assert_true(at(s.warm, 1));
    ask(&s, 2, 8, 1000); /* another prompt */
    assert_true(at(s.cold, 2));
    rig_free(&s.rig);
}

static void the_deepest_prefix_is_chosen(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.cold, 7, 0, 4, true, true);
    worker_index(s.warm, 7, 0, 5, true, true);
    ask(&s, 1, 7, 1000);
    assert_true(at(s.warm, 1));
    rig_free(&s.rig);
}

/* The prompts before it at the warm place cost more than the prefix saves. */
static void an_overloaded_warm_place_is_not_chosen(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.warm, 7, 0, 10, true, true);
    worker_index(s.warm, 9, 0, 40, true, false);
    ask(&s, 1, 9, 4000); /* 1,440 tokens are to compute at the warm place */
    assert_true(at(s.warm, 1));
    assert_int_equal(fake_view(s.warm).n_backlog, 4000 - 2560);
    ask(&s, 2, 7, 1000); /* 360 + 1,440 there, 1,000 at the cold one */
    assert_true(at(s.cold, 2));
    /* With the first token of the long prompt, the place is free again. */
    worker_give(s.warm, 1, 0, 1, 0);
    assert_int_equal(fake_view(s.warm).n_backlog, 0);
    ask(&s, 3, 7, 1000);
    assert_true(at(s.warm, 3));
    rig_free(&s.rig);
}

/* Requests with one prompt, none of which has a token yet, use both places. */
static void no_place_starves(void **state)
{
    struct scene s;
    uint32_t n_cold = 0, n_warm = 0;

    (void)state;
    bring(&s);
    worker_index(s.warm, 7, 0, 10, true, true);
    for (uint8_t id = 1; id <= 12; id++) {
        ask(&s, id, 7, 1000);
        n_cold += at(s.cold, id);
        n_warm += at(s.warm, id);
    }
    /* 360 tokens each there, 1,000 here: about 3 to 1. */
    assert_int_equal(n_cold + n_warm, 12);
    assert_in_range(n_cold, 3, 4);
    rig_free(&s.rig);
}

static void a_place_without_room_loses_to_any_with_room(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.warm, 7, 0, 10, true, true);
    s.warm->classes[0].free = 3;
    s.warm->classes[0].held = 497;
    worker_report(s.warm);
    rig_run(s.rig);
    ask(&s, 1, 7, 1000);
    assert_true(at(s.cold, 1));
    rig_free(&s.rig);
}

/* A waiting prompt counts at its place until its first token, or until it
 * leaves. */
static void the_backlog_ends_with_the_first_token_or_the_sequence(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    ask(&s, 1, 1, 640);
    assert_int_equal(fake_view(s.cold).n_backlog, 640);
    ask(&s, 2, 2, 320);
    assert_int_equal(fake_view(s.warm).n_backlog, 320);
    worker_give(s.cold, 1, 0, 1, 0);
    assert_int_equal(fake_view(s.cold).n_backlog, 0);
    worker_give(s.cold, 1, 0, 1, 0);
    assert_int_equal(fake_view(s.cold).n_backlog, 0);
    client_cancel(s.c, 2);
    rig_run(s.rig);
    assert_int_equal(fake_view(s.warm).n_backlog, 0);
    rig_free(&s.rig);
}

/* A sequence that moves computes its generated tokens too. */
static void a_move_takes_the_backlog_along(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    ask(&s, 1, 1, 640);
    worker_give(s.cold, 1, 0, 10, 0);
    fake_lost(s.cold);
    rig_run(s.rig);
    assert_true(at(s.warm, 1));
    assert_int_equal(fake_view(s.warm).n_backlog, 650);
    worker_give(s.warm, 1, 0, 10, LENGTH);
    assert_int_equal(fake_view(s.warm).n_backlog, 0);
    rig_free(&s.rig);
}

/* The choices of a request follow the first one: their prompt is computed
 * once. */
static void choices_stay_together(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;

    (void)state;
    bring(&s);
    m.has_n = true;
    m.n = 8;
    ask_like(&s, 1, 1, 2000, &m);
    assert_int_equal(s.cold->n_submits, 8);
    assert_int_equal(s.warm->n_submits, 0);
    assert_int_equal(fake_view(s.cold).n_backlog, 2000 + 7);
    rig_free(&s.rig);
}

static void without_cache_nothing_counts_as_restorable(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.warm, 7, 0, 10, true, true);
    m.has_cache = true;
    m.cache = false;
    ask_like(&s, 1, 7, 1000, &m);
    assert_true(at(s.cold, 1));
    assert_true(worker_sequence_of(s.cold, 1)->uncached);
    rig_free(&s.rig);
}

/* The index has prefixes without a tenant. */
static void tenants_and_salts_share_nothing(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__GenerateRequest n = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.warm, 7, 0, 10, true, true);
    m.has_tenant = true;
    m.tenant = wire_text("acme");
    ask_like(&s, 1, 7, 1000, &m);
    assert_true(at(s.cold, 1));
    assert_string_equal(worker_sequence_of(s.cold, 1)->tenant, "acme");
    worker_give(s.cold, 1, 0, 1, 0);
    n.has_cache_salt = true;
    n.cache_salt = wire_text("blue");
    ask_like(&s, 2, 7, 1000, &n);
    assert_true(at(s.cold, 2));
    assert_string_equal(worker_sequence_of(s.cold, 2)->salt, "blue");
    assert_string_equal(worker_sequence_of(s.cold, 2)->tenant, "");
    rig_free(&s.rig);
}

static void a_salt_has_a_limit(void **state)
{
    static const char salt[CACHE_SALT_MAX + 2] =
        "0123456789012345678901234567890123456789012345678901234567890123x";
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s);
    m.has_cache_salt = true;
    m.cache_salt = wire_text(salt);
    x = ask_like(&s, 1, 7, 100, &m);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(x->error, "65 bytes, at most 64"));
    m.cache_salt.len--;
    ask_like(&s, 2, 7, 100, &m);
    assert_true(at(s.cold, 2));
    rig_free(&s.rig);
}

/* A place of several stages is warm if its leader is. */
static void a_replica_is_warm_by_its_leader(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct scene s = {.rig = rig};
    struct fake *w[2];

    (void)state;
    s.cold = rig_worker(rig, "cold", 1000, 64);
    rig_replica(rig, w, 2);
    s.c = rig_client(rig, "c1");
    worker_index(w[0], 7, 0, 4, true, true);
    ask(&s, 1, 7, 400);
    assert_true(at(w[0], 1));
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_most_free_pages),
        cmocka_unit_test(the_warm_place_is_chosen),
        cmocka_unit_test(the_deepest_prefix_is_chosen),
        cmocka_unit_test(an_overloaded_warm_place_is_not_chosen),
        cmocka_unit_test(no_place_starves),
        cmocka_unit_test(a_place_without_room_loses_to_any_with_room),
        cmocka_unit_test(the_backlog_ends_with_the_first_token_or_the_sequence),
        cmocka_unit_test(a_move_takes_the_backlog_along),
        cmocka_unit_test(choices_stay_together),
        cmocka_unit_test(without_cache_nothing_counts_as_restorable),
        cmocka_unit_test(tenants_and_salts_share_nothing),
        cmocka_unit_test(a_salt_has_a_limit),
        cmocka_unit_test(a_replica_is_warm_by_its_leader),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
