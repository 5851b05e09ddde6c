/* A stage whose pool is in pieces: a step may need more moves of blocks than
 * one of a worker that makes its own plans. */
#include "common/wire/wire.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"
#include "worker/plan/batch.h"

#define NONE    UINT32_MAX
#define PER     1024u /* pages of a slot */
#define EXTENTS 32u
#define N       16u /* sequences that fill the pool, with their slots */
#define TOKENS  1024u
#define PROMPT  32u
#define NEW     15u /* N / 2 of them find the slots of sequences that ended */

/* Makes a stage with blocks of one token. */
static struct bench *stand(void)
{
    struct worker_options o;
    struct bench *b;

    bench_options(&o, false);
    o.pool.n_pages = EXTENTS * PER;
    o.pool.pages_per_slot = PER;
    o.pool.slot_cap = EXTENTS;
    o.block_tokens = 1;
    o.context = TOKENS;
    o.step_tokens = NEW * PROMPT;
    o.max_rows = N;
    b = bench_new_with(&o, false);
    bench_assemble(b);
    return b;
}

static void intact(const struct bench *b)
{
    if (b->n_broken > 0) {
        fail_msg("broken: %s", b->why);
    }
}

/* Gives sequences blocks a token at a time, so that theirs alternate.  Failed
 * steps take memory too, and nothing is computed for them. */
static void fill(struct bench *b, uint64_t grants[N])
{
    for (uint32_t i = 0; i < N; i++) {
        grants[i] = bench_open_plain(b, TOKENS - 1, 1);
    }
    for (uint32_t at = 0; at + 1 < TOKENS; at++) {
        struct bench_forward f;

        bench_begin(b, &f);
        for (uint32_t i = 0; i < N; i++) {
            bench_row(&f, grants[i], false, at, 1, NONE);
        }
        f.m.has_failure = true;
        f.m.failure = wire_text("a failure");
        bench_send(b, &f);
        b->n_said = 0;
    }
    intact(b);
}

static void moves_as_many_blocks_as_a_step_needs(void **state)
{
    struct bench *b = stand();
    uint64_t grants[N], more[NEW];
    struct bench_forward f;

    (void)state;
    fill(b, grants);
    for (uint32_t i = 0; i < N; i += 2) {
        bench_remove(b, grants[i]);
    }
    for (uint32_t i = 0; i < NEW; i++) {
        more[i] = bench_open_plain(b, PROMPT, 1);
    }
    bench_begin(b, &f);
    for (uint32_t i = 0; i < NEW; i++) {
        bench_row(&f, more[i], false, 0, PROMPT, 0);
    }
    bench_send(b, &f);
    intact(b);
    assert_in_range(b->plan->n_before, BATCH_COPIES_MAX / 2, PLAN_COPIES_MAX);
    assert_true(bench_run(b));
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_as_many_blocks_as_a_step_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
