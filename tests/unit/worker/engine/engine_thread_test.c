/* The engine's thread over the embedded model: results come in the order of
 * plans, and the descriptor becomes readable. */
#include "worker/engine/engine_thread.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/patience.h"
#include "tests/unit/cmocka.h"
#include "worker/model/shard.h"

#define BLOCKS 4
#define SLOTS  3

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};

struct rig {
    struct model_config config;
    struct shard *shard;
    struct forward *forward;
    struct engine_thread *thread;
    struct engine *engine;
};

static struct rig rig;
static uint32_t tokens[8] = {10, 11, 12, 13};
static uint32_t blocks[BLOCKS], zero[SLOTS]; /* page numbers */
static struct plan_result result;

/* Slots come first. */
static enum status alloc_pool(struct forward *f, struct error *e)
{
    struct kernels_sizes sizes;

    forward_sizes(f, &sizes);
    for (uint32_t i = 0; i < SLOTS; i++) {
        zero[i] = i * sizes.pages_per_slot;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        blocks[i] = SLOTS * sizes.pages_per_slot + i;
    }
    return forward_alloc(f, SLOTS * sizes.pages_per_slot + BLOCKS, e);
}

static int load(void **state)
{
    struct kernels_options o = {.device = "cpu",
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = 32,
                                .max_tokens = 64,
                                .max_rows = 4};
    struct error e;

    (void)state;
    if (config_load(&rig.config, "models/tiny-hybrid", &e) != ST_OK ||
        shard_load(&rig.shard, &rig.config, "models/tiny-hybrid", 0,
                   rig.config.shape.n_layers, NULL, &e) != ST_OK ||
        forward_new(&rig.forward, shard_weights(rig.shard), &o, &e) != ST_OK ||
        alloc_pool(rig.forward, &e) != ST_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    return 0;
}

static int unload(void **state)
{
    (void)state;
    forward_free(&rig.forward);
    shard_free(&rig.shard);
    return 0;
}

static void start(uint32_t depth)
{
    struct error e;

    assert_int_equal(engine_thread_new(&rig.thread, rig.forward, depth, &e),
                     ST_OK);
    rig.engine = engine_thread_engine(rig.thread);
}

/* Makes a greedy step of one sequence: n tokens from `position`. */
static struct plan step(uint64_t number, struct plan_row *row, uint32_t n,
                        uint32_t position)
{
    *row = (struct plan_row){.n_tokens = n,
                             .position = position,
                             .n_blocks = BLOCKS,
                             .sample = true,
                             .sampling = &greedy};
    return (struct plan){.step = number,
                         .n_rows = 1,
                         .n_tokens = n,
                         .n_blocks = BLOCKS,
                         .n_zero = position == 0,
                         .rows = row,
                         .tokens = tokens,
                         .blocks = blocks,
                         .zero_slots = zero};
}

static void wait_result(void)
{
    struct pollfd p = {.fd = engine_thread_fd(rig.thread), .events = POLLIN};

    /* The descriptor may still be readable after the result was polled. */
    do {
        assert_int_equal(poll(&p, 1, patience_ms()), 1);
        engine_thread_quiet(rig.thread);
    } while (!engine_poll(rig.engine, &result));
}

static void runs_a_plan_and_says_so(void **state)
{
    struct pollfd p;
    struct plan_row row;
    struct plan plan = step(7, &row, 4, 0);
    uint64_t before;

    (void)state;
    start(1);
    p = (struct pollfd){.fd = engine_thread_fd(rig.thread), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_false(engine_poll(rig.engine, &result));
    before = engine_progress(rig.engine);
    assert_int_equal(engine_submit(rig.engine, &plan), ST_OK);
    wait_result();
    assert_int_equal(result.step, 7);
    assert_int_equal(result.status, ST_OK);
    assert_int_equal(result.n_rows, 1);
    assert_in_range(result.tokens[0], 0, rig.config.shape.vocab - 1);
    assert_true(engine_progress(rig.engine) > before);
    assert_false(engine_poll(rig.engine, &result));
    engine_thread_free(&rig.thread);
    assert_null(rig.thread);
}

static void submit_and_wait(const struct plan *p)
{
    assert_int_equal(engine_submit(rig.engine, p), ST_OK);
    wait_result();
    assert_int_equal(result.status, ST_OK);
}

static void takes_as_many_as_its_depth(void **state)
{
    struct plan_row rows[3];
    struct plan a = step(1, &rows[0], 4, 0), b = step(2, &rows[1], 1, 4),
                c = step(3, &rows[2], 1, 5);
    uint32_t first, second;

    (void)state;
    rows[1].chained = true; /* the token that plan 1 sampled */
    start(2);
    assert_int_equal(engine_submit(rig.engine, &a), ST_OK);
    assert_int_equal(engine_submit(rig.engine, &b), ST_OK);
    assert_int_equal(engine_submit(rig.engine, &c), ST_RESOURCE_EXHAUSTED);
    wait_result();
    assert_int_equal(result.step, 1);
    first = result.tokens[0];
    if (!engine_poll(rig.engine, &result)) {
        wait_result();
    }
    assert_int_equal(result.step, 2);
    assert_int_equal(result.status, ST_OK);
    second = result.tokens[0];
    /* The same steps with explicit ids sample the same tokens. */
    submit_and_wait(&a);
    assert_int_equal(result.tokens[0], first);
    tokens[4] = first;
    rows[1].chained = false;
    b.tokens = &tokens[4];
    submit_and_wait(&b);
    assert_int_equal(result.tokens[0], second);
    engine_thread_free(&rig.thread);
}

/* The core writes the next id to the page that the engine reads. */
static void reads_a_history_while_more_is_written(void **state)
{
    static const struct sampling penalised = {
        .top_p = 1, .repetition_penalty = 1, .frequency_penalty = 2};
    static uint32_t pages[4 << 4]; /* 4 pages of 16: a root, a leaf */
    struct plan_row row;
    struct plan plan = step(1, &row, 4, 0);
    uint32_t alone;

    (void)state;
    pages[1 << 4] = 3;
    memcpy(&pages[3 << 4], tokens, 4 * sizeof tokens[0]);
    row.sampling = &penalised;
    row.history = (struct plan_history){
        .pages = {.memory = pages, .n_pages = 4, .root = 1, .shift = 4},
        .n = 4,
        .n_prompt = 2};
    start(1);
    submit_and_wait(&plan);
    alone = result.tokens[0];
    assert_int_equal(engine_submit(rig.engine, &plan), ST_OK);
    pages[(3 << 4) + 4] = 10;
    wait_result();
    assert_int_equal(result.status, ST_OK);
    assert_int_equal(result.tokens[0], alone);
    engine_thread_free(&rig.thread);
}

/* Only the values that a row requests are copied between threads. */
static void copies_the_logprobs_that_are_asked_for(void **state)
{
    struct sampling asks[3] = {greedy, greedy, greedy};
    struct plan_row rows[3];
    struct plan plan = step(1, &rows[0], 4, 0);
    struct plan_result before;

    (void)state;
    asks[1].logprobs = asks[2].logprobs = true;
    asks[2].n_top_logprobs = 2;
    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = rows[0];
        rows[i].sampling = &asks[i];
        rows[i].block = i;
        rows[i].slot = zero[i];
        rows[i].n_blocks = 1;
    }
    plan.n_rows = plan.n_zero = 3;
    memset(&result, 0xa5, sizeof result);
    before = result;
    start(1);
    submit_and_wait(&plan);
    assert_int_equal(result.n_rows, 3);
    assert_memory_equal(&result.logprobs[0], &before.logprobs[0], 4);
    assert_memory_not_equal(&result.logprobs[1], &before.logprobs[1], 4);
    assert_memory_not_equal(&result.logprobs[2], &before.logprobs[2], 4);
    assert_memory_equal(&result.logprobs[3], &before.logprobs[3],
                        sizeof result.logprobs - 12);
    assert_memory_equal(result.top[0], before.top[0], 2 * sizeof result.top[0]);
    assert_memory_not_equal(&result.top[2][0], &before.top[2][0], 8);
    assert_memory_not_equal(&result.top[2][1], &before.top[2][1], 8);
    assert_memory_equal(&result.top[2][2], &before.top[2][2],
                        sizeof result.top - 2 * sizeof result.top[0] - 16);
    engine_thread_free(&rig.thread);
}

static void tells_what_was_wrong_with_a_plan(void **state)
{
    struct plan_row row;
    struct plan plan = step(9, &row, 4, 0);

    (void)state;
    start(1);
    tokens[0] = UINT32_MAX;
    assert_int_equal(engine_submit(rig.engine, &plan), ST_OK);
    wait_result();
    tokens[0] = 10;
    assert_int_not_equal(result.status, ST_OK);
    assert_true(strlen(result.error.text) > 0);
    assert_int_equal(engine_submit(rig.engine, &plan), ST_OK);
    wait_result();
    assert_int_equal(result.status, ST_OK);
    engine_thread_free(&rig.thread);
}

/* Waits for n more results, polled or not. */
static void wait_finished(uint64_t n)
{
    struct pollfd p = {.fd = engine_thread_fd(rig.thread), .events = POLLIN};
    uint64_t some;

    for (; n > 0; n -= some) {
        assert_int_equal(poll(&p, 1, patience_ms()), 1);
        assert_int_equal(read(p.fd, &some, sizeof some), sizeof some);
        assert_in_range(some, 1, n);
    }
}

#define HIDDEN 4 /* tokens of the plans below */

static struct shard *stage_load(struct forward **out)
{
    struct kernels_options o = {.device = "cpu", .block_tokens = 32};
    struct shard *shard;
    struct error e;

    assert_int_equal(
        shard_load(&shard, &rig.config, "models/tiny-hybrid", 0, 3, NULL, &e),
        ST_OK);
    assert_int_equal(forward_new(out, shard_weights(shard), &o, &e), ST_OK);
    assert_int_equal(forward_alloc_hidden(*out, 3, HIDDEN, &e), ST_OK);
    assert_int_equal(alloc_pool(*out, &e), ST_OK);
    return shard;
}

/* The hidden states of layers 0-3 stay while two more plans run, until the
 * next result is polled. */
static void keeps_hidden_states_until_the_next_poll(void **state)
{
    struct forward *whole = rig.forward;
    struct shard *shard = stage_load(&rig.forward);
    size_t n = (size_t)HIDDEN * rig.config.shape.hidden;
    float *expect = calloc(3 * n, sizeof *expect);
    const float *first;
    struct plan_row rows[3];
    struct plan plans[3];

    (void)state;
    assert_non_null(expect);
    start(2);
    for (uint32_t i = 0; i < 3; i++) {
        plans[i] = step(i + 1, &rows[i], HIDDEN, 0);
        plans[i].tokens = &tokens[i];
        submit_and_wait(&plans[i]);
        assert_int_equal(result.tokens[0], TOKEN_NONE);
        memcpy(expect + i * n, result.hidden, n * sizeof *expect);
    }
    assert_int_equal(engine_submit(rig.engine, &plans[0]), ST_OK);
    assert_int_equal(engine_submit(rig.engine, &plans[1]), ST_OK);
    wait_finished(2);
    assert_true(engine_poll(rig.engine, &result));
    first = result.hidden;
    assert_int_equal(engine_submit(rig.engine, &plans[2]), ST_OK);
    wait_finished(1);
    assert_memory_equal(first, expect, n * sizeof *expect);
    for (uint32_t i = 1; i < 3; i++) {
        assert_true(engine_poll(rig.engine, &result));
        assert_int_equal(result.step, i + 1);
        assert_memory_equal(result.hidden, expect + i * n, n * sizeof *expect);
    }
    engine_thread_free(&rig.thread);
    forward_free(&rig.forward);
    shard_free(&shard);
    free(expect);
    rig.forward = whole;
}

static void stops_with_plans_in_flight(void **state)
{
    struct plan_row rows[2];
    struct plan a = step(1, &rows[0], 4, 0), b = step(2, &rows[1], 4, 0);

    (void)state;
    for (int i = 0; i < 20; i++) {
        start(2);
        assert_int_equal(engine_submit(rig.engine, &a), ST_OK);
        assert_int_equal(engine_submit(rig.engine, &b), ST_OK);
        engine_thread_free(&rig.thread);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_a_plan_and_says_so),
        cmocka_unit_test(takes_as_many_as_its_depth),
        cmocka_unit_test(reads_a_history_while_more_is_written),
        cmocka_unit_test(copies_the_logprobs_that_are_asked_for),
        cmocka_unit_test(tells_what_was_wrong_with_a_plan),
        cmocka_unit_test(keeps_hidden_states_until_the_next_poll),
        cmocka_unit_test(stops_with_plans_in_flight),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
