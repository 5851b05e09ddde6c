/* Which prompts have rows in a step: short ones first, the oldest its share. */
#include "tests/unit/worker/plan/batcher_bench.h"

#define CUT BATCHER_CUT

/* Returns the tokens of s in a plan, 0 if it has no row there. */
static uint32_t tokens_of(const struct plan *p, const struct sequence *s)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (p->rows[i].sequence == s->number) {
            return p->rows[i].n_tokens;
        }
    }
    return 0;
}

/* The oldest plan returns; its sequences that have a token leave. */
static void back(struct batcher *b)
{
    const struct batch *t = batcher_oldest(b);

    bench_back(b);
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        struct sequence *s = t->owners[i];

        if (s->portable.n_generated > 0 && s->plan.inflight == 0) {
            batcher_drop(b, s);
            sequence_release(&bench.table, s);
            sequence_free(&bench.table, &s);
        }
    }
}

static void short_prompts_go_first(void **state)
{
    struct batcher *b = bench_with(8, 256, 128, 1);
    struct sequence *a = bench_line_up(900, 0, 2), *c, *d, *e;
    const struct plan *p = bench_next(b);

    (void)state;
    bench_check_row(p, 0, a, 0, 128, false);
    back(b);
    c = bench_line_up(300, 0, 2);
    d = bench_line_up(20, 0, 2);
    e = bench_line_up(10, 0, 2);
    p = bench_next(b);
    bench_check_row(p, 0, e, 0, 10, true);
    bench_check_row(p, 1, d, 0, 20, true);
    bench_check_row(p, 2, c, 0, 128, false);
    bench_check_row(p, 3, a, 128, 64, false);
    back(b);
    bench_done();
}

static void equal_prompts_keep_their_order(void **state)
{
    struct batcher *b = bench_with(8, 256, 128, 1);
    struct sequence *s[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        s[i] = bench_line_up(400, 0, 2);
    }
    for (int i = 0; i < 3; i++) {
        const struct plan *p = bench_next(b);

        bench_check_row(p, 0, s[0], 128 * (uint32_t)i, 128, false);
        bench_check_row(p, 1, s[1], 128 * (uint32_t)i, 128, false);
        back(b);
    }
    bench_check_row(bench_next(b), 0, s[0], 384, 16, true);
    bench_done();
}

/* A prompt that is nearly computed is a short one. */
static void counts_what_is_left(void **state)
{
    struct batcher *b = bench_with(8, 128, 128, 1);
    struct sequence *a = bench_line_up(300, 0, 2), *c;
    const struct plan *p;

    (void)state;
    bench_next(b);
    back(b);
    bench_next(b);
    back(b);
    c = bench_line_up(60, 0, 2);
    p = bench_next(b);
    bench_check_row(p, 0, a, 256, 44, true);
    bench_check_row(p, 1, c, 0, 60, true);
    bench_done();
}

static void a_deadline_halves_the_work(void **state)
{
    struct batcher *b = bench_with(8, 128, 128, 1);
    struct sequence *a = bench_line_up(100, 0, 2),
                    *c = bench_line_up(120, 0, 2);
    const struct plan *p;

    (void)state;
    drafts_open(&c->drafts, 0, true);
    p = bench_next(b);
    bench_check_row(p, 0, c, 0, 120, true);
    assert_int_equal(p->n_rows, 1);
    back(b);
    bench_check_row(bench_next(b), 0, a, 0, 100, true);
    bench_done();
}

/* Short prompts that fill each step leave the oldest its turns. */
static void the_oldest_has_its_share(void **state)
{
    struct batcher *b = bench_with(8, 128, 128, 1);
    struct sequence *old = bench_line_up(1024, 0, 2);
    uint32_t n_plans = 0, n_turns = 0;

    (void)state;
    while (old->plan.n_planned < 1024) {
        const struct plan *p;
        uint32_t n;

        bench_line_up(64, 0, 1);
        bench_line_up(64, 0, 1);
        p = bench_next(b);
        n = tokens_of(p, old);
        assert_true(n == 0 || n == 128);
        n_turns += n > 0;
        n_plans++;
        assert_in_range(n_turns, n_plans / PROMPT_SHARES,
                        n_plans / PROMPT_SHARES);
        back(b);
    }
    assert_int_equal(n_plans, PROMPT_SHARES * 8);
    bench_done();
}

/* The only row of a step that others use up. */
static void one_row_is_shared_in_turns(void **state)
{
    struct batcher *b = bench_with(1, 512, 64, 1);
    struct sequence *old = bench_line_up(256, 0, 2);
    uint32_t n = 0;

    (void)state;
    for (uint32_t i = 1; i <= 16; i++) {
        bench_line_up(10, 0, 1);
        n += tokens_of(bench_next(b), old) > 0;
        assert_int_equal(n, i / PROMPT_SHARES);
        back(b);
    }
    bench_done();
}

/* While the oldest does not fit in its turn, nothing else goes ahead. */
static void others_wait_for_the_turn(void **state)
{
    struct batcher *b = bench_with(8, 128, 128, 1);
    struct sequence *old = bench_line_up(640, 0, 2);
    struct pool_need need = old->memory.need;

    (void)state;
    old->memory.need.n[POOL_BLOCKS] = 0; /* as one that waits for its growth */
    old->suspension.grows = true;
    for (int i = 0; i < PROMPT_SHARES - 1; i++) {
        bench_line_up(10, 0, 1);
        assert_int_equal(tokens_of(bench_next(b), old), 0);
        back(b);
    }
    bench_line_up(10, 0, 1);
    assert_null(batcher_plan(b));
    old->memory.need = need;
    assert_int_equal(bench_next(b)->rows[0].sequence, old->number);
    back(b);
    bench_done();
}

/* ---- the bound ---- */

#define LIVE 40

struct waiting {
    struct sequence *s;
    uint64_t bound; /* plans with prompt rows, from when it joined */
    uint64_t joined;
};

static uint32_t draw(uint64_t *x, uint32_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*x >> 33) % n);
}

static uint64_t bound_of(const struct waiting *all, uint32_t n, uint32_t length)
{
    uint64_t work = length, runs = 1;

    for (uint32_t i = 0; i < n; i++) {
        work += sequence_known(all[i].s) - all[i].s->plan.n_planned;
        runs++;
    }
    return PROMPT_SHARES * (work / CUT + 2 * runs);
}

/* Each prompt is computed within the bound of the header, whatever joins. */
static void no_prompt_starves(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t x = seed, n_plans = 0;
        uint32_t rows = 1 + draw(&x, 6), n = 0;
        struct batcher *b =
            bench_with(rows, 64 + draw(&x, 200), 64 + draw(&x, 100), 1);
        struct waiting all[LIVE];

        for (int i = 0; i < 600; i++) {
            while (n < LIVE && draw(&x, 3) > 0) {
                uint32_t length = 1 + draw(&x, draw(&x, 4) > 0 ? 60 : 900);

                all[n].bound = bound_of(all, n, length);
                all[n].joined = n_plans;
                all[n++].s = bench_line_up(length, 0, 1);
            }
            if (batcher_plan(b) == NULL) {
                continue;
            }
            n_plans++;
            for (uint32_t k = 0; k < n;) {
                assert_in_range(n_plans - all[k].joined, 0, all[k].bound);
                if (all[k].s->plan.pending > 0) {
                    all[k] = all[n - 1]; /* the sums need no order */
                    n--;
                } else {
                    k++;
                }
            }
            back(b);
        }
        bench_done();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_prompts_go_first),
        cmocka_unit_test(equal_prompts_keep_their_order),
        cmocka_unit_test(counts_what_is_left),
        cmocka_unit_test(a_deadline_halves_the_work),
        cmocka_unit_test(the_oldest_has_its_share),
        cmocka_unit_test(one_row_is_shared_in_turns),
        cmocka_unit_test(others_wait_for_the_turn),
        cmocka_unit_test(no_prompt_starves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
