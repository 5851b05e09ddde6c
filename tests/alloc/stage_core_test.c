/* The core of a stage that is not the leader does not allocate while it runs.
 * Sequences arrive, run steps with penalties and logprobs, and are removed, in
 * the middle of a ring and at its end. */
#include <string.h>

#include "tests/alloc/count.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

#define WARM   100
#define ROUNDS 500
#define LIVE   6

static void within(bool in)
{
    alloc_as(in ? ALLOC_WORKER : ALLOC_TEST);
}

static void open_all(struct bench *b, uint64_t *grants)
{
    for (uint32_t i = 0; i < LIVE; i++) {
        struct bench_open o;

        bench_open(b, &o, 8, 8);
        o.sampling.has_presence_penalty = true;
        o.sampling.presence_penalty = 1;
        o.sampling.has_top_logprobs = true;
        o.sampling.top_logprobs = 1;
        o.m.n_tokens = 8;
        bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
        grants[i] = b->grant;
    }
}

/* Runs one step of half of the sequences, in each of two microbatches. */
static void steps(struct bench *b, const uint64_t *grants, uint32_t index)
{
    for (uint32_t half = 0; half < 2; half++) {
        struct bench_forward f;

        bench_begin(b, &f);
        for (uint32_t i = half; i < LIVE; i += 2) {
            bench_row(&f, grants[i], index > 0, index > 0 ? 7 + index : 0,
                      index > 0 ? 1 : 8, index);
        }
        bench_send(b, &f);
    }
    while (bench_run(b)) {
    }
}

static void rounds(struct bench *b, uint32_t n)
{
    uint64_t grants[LIVE];

    for (uint32_t k = 0; k < n; k++) {
        open_all(b, grants);
        for (uint32_t i = 0; i < 8; i++) {
            steps(b, grants, i);
        }
        for (uint32_t i = 0; i < LIVE; i++) {
            bench_remove(b, grants[i]);
        }
        b->n_said = 0;
        bench_advance(b, 5000);
    }
    assert_int_equal(b->n_broken, 0);
}

static void a_stage_allocates_nothing(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        struct bench *b = bench_new(last == 1);

        bench_assemble(b);
        b->within = within;
        rounds(b, WARM);
        alloc_reset();
        rounds(b, ROUNDS);
        assert_int_equal(alloc_count(ALLOC_WORKER), 0);
        assert_true(alloc_count(ALLOC_TEST) > 0); /* the counter works */
        b->within = NULL;
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
