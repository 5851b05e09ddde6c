/* A model whose last worker has left: which requests wait for the next worker,
 * how long, and how they end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH  SLUICE__V1__FINISH__FINISH_LENGTH
#define MS      1000
#define WAIT_US (1000 * MS)

/* Sequence 1 has two tokens from w1, sequence 2 has none, and w1 is lost. */
struct scene {
    struct rig *rig;
    struct fake *w, *c;
    struct record *x, *y;
};

static void has_tokenizer(struct fake *w, const uint8_t hash[16])
{
    memcpy(w->tokenizer, hash, 16);
    w->shard.tokenizer.len = 16;
}

static void has_format(struct fake *w, const char *name)
{
    w->shard.has_kv_format = true;
    w->shard.kv_format = wire_text(name);
}

static void has_arithmetic(struct fake *w, const char *id)
{
    w->shard.has_arithmetic = true;
    w->shard.arithmetic = wire_text(id);
}

/* text: the router and w1 have a tokenizer; format: of w1's KV, or NULL. */
static void bring_as(struct scene *s, int64_t wait_us, struct fake_text *text,
                     const char *format)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 16,
                                  .max_waiting = 16,
                                  .text = text == NULL ? NULL : &text->seam,
                                  .worker_wait_us = wait_us};

    s->rig = rig_new(&o);
    s->w = fake_worker_new(s->rig, "w1", 64, 8);
    if (text != NULL) {
        has_tokenizer(s->w, text->hash);
    }
    if (format != NULL) {
        has_format(s->w, format);
        has_arithmetic(s->w, "cpu-int8-1");
    }
    fake_hello(s->w);
    assert_true(s->w->up);
    s->c = rig_client(s->rig, "c1");
    s->x = client_generate(s->c, 1, 40, 10);
    s->y = client_generate(s->c, 2, 40, 10);
    rig_run(s->rig);
    worker_give(s->w, 1, 0, 2, 0);
    fake_lost(s->w);
    rig_run(s->rig);
}

static void bring(struct scene *s, int64_t wait_us)
{
    bring_as(s, wait_us, NULL, NULL);
}

static void refused(const struct record *x, enum status status, const char *why)
{
    assert_true(x->ended);
    assert_int_equal(x->status, status);
    assert_non_null(strstr(x->error, why));
}

static void it_comes_back(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, WAIT_US);
    rig_advance(s.rig, WAIT_US - 1 * MS);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    fake_reconnect(s.w);
    assert_int_equal(worker_sequence_of(s.w, 1)->n_given, 2);
    worker_give(s.w, 1, 0, 8, LENGTH);
    worker_give(s.w, 2, 0, 10, LENGTH);
    record_check(s.x, 1, 0, 10);
    record_check(s.y, 2, 0, 10);
    rig_end(&s.rig);
}

static void it_does_not(void **state)
{
    struct scene s;
    struct record *z;

    (void)state;
    bring(&s, WAIT_US);
    rig_advance(s.rig, WAIT_US);
    refused(s.x, ST_UNAVAILABLE, "no worker of model tiny is up");
    refused(s.y, ST_UNAVAILABLE, "no worker of model tiny is up");
    assert_int_equal(s.x->retry_ms, RETRY_MS_ABSENT);
    record_check(s.x, 1, 0, 2); /* the client keeps its tokens */
    z = client_generate(s.c, 3, 40, 10);
    rig_run(s.rig);
    refused(z, ST_NOT_FOUND, "model tiny is not served here"); /* model freed */
    rig_end(&s.rig);
}

/* A second absence lasts its full time; the timer of the first does not end it.
 */
static void again(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, WAIT_US);
    rig_advance(s.rig, WAIT_US / 2);
    fake_reconnect(s.w);
    fake_lost(s.w);
    rig_run(s.rig);
    rig_advance(s.rig, WAIT_US - 1 * MS);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    rig_advance(s.rig, 1 * MS);
    assert_int_equal(s.x->status, ST_UNAVAILABLE);
    rig_end(&s.rig);
}

static void new_ones_wait_too(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;
    struct record *named, *unnamed, *wrong, *hasty;

    (void)state;
    bring(&s, WAIT_US);
    rig_advance(s.rig, WAIT_US / 2);
    named = client_generate(s.c, 3, 40, 10);
    unnamed = client_generate_with(s.c, 4, 40, 10, &m, 0);
    hasty = client_generate_with(s.c, 5, 40, 10, &m, 100);
    wrong = client_generate(
        s.c, 6, 40, RIG_CONTEXT); /* the context of the last worker applies */
    rig_advance(s.rig, 200 * MS);
    refused(wrong, ST_INVALID_ARGUMENT, "exceed the context");
    assert_int_equal(hasty->status, ST_DEADLINE_EXCEEDED);
    rig_advance(s.rig, WAIT_US / 2);
    refused(named, ST_UNAVAILABLE, "no worker of model tiny is up");
    refused(unnamed, ST_UNAVAILABLE, "no worker of model tiny is up");
    rig_end(&s.rig);
}

/* A request without a model name gets the only model that has a worker. */
static void another_model_is_up(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;
    struct fake *other;
    struct record *x;

    (void)state;
    bring(&s, WAIT_US);
    other = fake_worker_new(s.rig, "w2", 64, 8);
    strcpy(other->model, "other");
    other->shard.model = wire_text(other->model);
    fake_hello(other);
    x = client_generate_with(s.c, 3, 40, 10, &m, 0);
    rig_run(s.rig);
    worker_give(other, 3, 0, 10, LENGTH);
    record_check(x, 3, 0, 10);
    rig_advance(s.rig, WAIT_US);
    assert_int_equal(s.x->status, ST_UNAVAILABLE);
    rig_end(&s.rig);
}

static void it_comes_back_smaller(void **state)
{
    struct scene s;
    struct fake *small;
    struct record *large;

    (void)state;
    bring(&s, WAIT_US);
    large = client_generate(s.c, 3, 40, 1000); /* 33 blocks */
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 3), CHOICE_WAITING);
    small = rig_worker(s.rig, "w2", 32, 8);
    refused(large, ST_RESOURCE_EXHAUSTED, "it can never run");
    assert_int_equal(large->retry_ms, 0);
    worker_give(small, 1, 0, 8, LENGTH);
    worker_give(small, 2, 0, 10, LENGTH);
    record_check(s.x, 1, 0, 10);
    rig_end(&s.rig);
}

static void it_comes_back_another(void **state)
{
    struct scene s;
    struct fake *other;

    (void)state;
    bring(&s, WAIT_US);
    other = fake_worker_new(s.rig, "w2", 64, 8);
    other->fingerprint[0]++;
    fake_hello(other);
    assert_true(other->up);
    refused(s.x, ST_ABORTED,
            "different weights"); /* it had tokens of the old */
    worker_give(other, 2, 0, 10, LENGTH);
    record_check(s.y, 2, 0, 10);
    rig_end(&s.rig);
}

/* So do they on the arithmetic. */
static void it_comes_back_with_another_arithmetic(void **state)
{
    static const char *const ids[] = {"cpu-int8-1", "cpu-float-1"};

    (void)state;
    for (int other = 0; other < 2; other++) {
        struct scene s;
        struct fake *w;

        bring_as(&s, WAIT_US, NULL, "bf16");
        w = fake_worker_new(s.rig, "w2", 64, 8);
        has_arithmetic(w, ids[other]);
        fake_hello(w);
        assert_true(w->up);
        if (other) {
            refused(s.x, ST_ABORTED, "another arithmetic");
        } else {
            worker_give(w, 1, 0, 8, LENGTH);
            record_check(s.x, 1, 0, 10);
        }
        worker_give(w, 2, 0, 10, LENGTH);
        record_check(s.y, 2, 0, 10);
        rig_end(&s.rig);
    }
}

/* Tokens depend on the cache too. */
static void it_comes_back_with_another_kv_format(void **state)
{
    static const char *const formats[] = {"bf16", "affine4/64+bf16"};

    (void)state;
    for (int other = 0; other < 2; other++) {
        struct scene s;
        struct fake *w;

        bring_as(&s, WAIT_US, NULL, "bf16");
        w = fake_worker_new(s.rig, "w2", 64, 8);
        has_format(w, formats[other]);
        fake_hello(w);
        assert_true(w->up);
        if (other) {
            refused(s.x, ST_ABORTED, "another KV format");
        } else {
            worker_give(w, 1, 0, 8, LENGTH);
            record_check(s.x, 1, 0, 10);
        }
        worker_give(w, 2, 0, 10, LENGTH);
        record_check(s.y, 2, 0, 10);
        rig_end(&s.rig);
    }
}

static void it_comes_back_with_other_ids(void **state)
{
    struct scene s;
    struct fake *other;

    (void)state;
    bring(&s, WAIT_US);
    other = fake_worker_new(s.rig, "w2", 64, 8);
    other->fingerprint[0]++;
    other->shard.vocab--;
    fake_hello(other);
    assert_true(other->up);
    refused(s.x, ST_ABORTED, "different weights");
    refused(s.y, ST_ABORTED, "different weights");
    rig_end(&s.rig);
}

/* A worker with other weights and ids is refused for its tokenizer.  Waiting
 * requests go on waiting, and new ones are checked with the old vocabulary. */
static void another_is_refused(void **state)
{
    static const uint8_t ours[16] = {1}, theirs[16] = {2};
    struct fake_text text;
    struct scene s;
    struct fake *other;
    struct record *z;

    (void)state;
    fake_text_init(&text, NULL);
    text.hash = ours;
    bring_as(&s, WAIT_US, &text, NULL);
    other = fake_worker_new(s.rig, "w2", 64, 8);
    has_tokenizer(other, theirs);
    other->fingerprint[0]++;
    other->shard.vocab = 10;
    fake_hello(other);
    assert_true(other->refused);
    assert_non_null(strstr(other->why, "tokenizer.json"));
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    z = client_generate(s.c, 3, 40, 10);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 3), CHOICE_WAITING);
    fake_reconnect(s.w);
    worker_give(s.w, 1, 0, 8, LENGTH);
    worker_give(s.w, 2, 0, 10, LENGTH);
    worker_give(s.w, 3, 0, 10, LENGTH);
    record_check(s.x, 1, 0, 10);
    record_check(s.y, 2, 0, 10);
    record_check(z, 3, 0, 10);
    rig_end(&s.rig);
}

static void nobody_waits(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 0);
    refused(s.x, ST_UNAVAILABLE, "no other worker has model tiny");
    refused(s.y, ST_UNAVAILABLE, "no other worker has model tiny");
    rig_end(&s.rig);
}

/* The router stops while requests wait. */
static void the_router_stops(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, WAIT_US);
    router_stop(s.rig->router);
    rig_run(s.rig);
    assert_false(s.x->ended); /* the end of the session ends the call */
    rig_free(&s.rig);
}

/* Requests do not wait for ever for a worker that keeps crashing. */
static void it_dies_again_and_again(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, WAIT_US);
    for (int i = 1; i < IDLE_MOVES_MAX; i++) {
        fake_reconnect(s.w);
        assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
        fake_lost(s.w);
        rig_run(s.rig);
        assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    }
    fake_reconnect(s.w);
    fake_lost(s.w);
    rig_run(s.rig);
    refused(s.x, ST_ABORTED,
            "workers in a row were lost while they held the sequence");
    rig_end(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back),
        cmocka_unit_test(it_does_not),
        cmocka_unit_test(again),
        cmocka_unit_test(new_ones_wait_too),
        cmocka_unit_test(another_model_is_up),
        cmocka_unit_test(it_comes_back_smaller),
        cmocka_unit_test(it_comes_back_another),
        cmocka_unit_test(it_comes_back_with_another_kv_format),
        cmocka_unit_test(it_comes_back_with_another_arithmetic),
        cmocka_unit_test(it_comes_back_with_other_ids),
        cmocka_unit_test(another_is_refused),
        cmocka_unit_test(nobody_waits),
        cmocka_unit_test(the_router_stops),
        cmocka_unit_test(it_dies_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
