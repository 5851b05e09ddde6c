/* A stage: sequences that begin anew after a failed step, and damaged rows. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

#define NONE UINT32_MAX /* the row samples nothing */
#define ANEW ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW)

static struct bench *stand(bool last)
{
    struct bench *b = bench_new(last);

    bench_assemble(b);
    return b;
}

/* Sends the first row of a sequence that begins anew, with n generated tokens.
 */
static void forward_anew(struct bench *b, uint64_t grant, uint32_t position,
                         uint32_t count, bool samples, uint32_t n)
{
    struct bench_forward f;

    bench_begin(b, &f);
    bench_row(&f, grant, false, position, count, samples ? n : NONE);
    f.kind[0] |= ANEW;
    f.index[0] = n;
    bench_send(b, &f);
}

/* The stage itself failed; its next one gets the row with the same mark. */
static void begins_anew_after_its_own_failure(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);
    const struct bench_said *s;

    (void)state;
    b->fail_next = "the device burns";
    bench_forward(b, grant, false, 0, 8, 0);
    bench_run(b);
    forward_anew(b, grant, 0, 8, true, 0);
    assert_int_equal(b->plan->n_zero, 1);
    assert_true(b->plan->rows[0].sample);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_FORWARD);
    assert_string_equal(s->failure, "");
    assert_int_equal(s->kind[0], 2 | ANEW);
    bench_forward(b, grant, true, 8, 1, 1);
    bench_run(b);
    assert_int_equal(b->n_broken, 0);
    bench_remove(b, grant);
    assert_int_equal(bench_account(b).n_sequences, 0);
    bench_free(&b);
}

/* A later stage failed: this one has counted a token that nobody got. */
static void gives_up_a_token_that_was_lost(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);

    (void)state;
    bench_forward(b, grant, false, 0, 8, 0);
    bench_run(b);
    bench_forward(b, grant, true, 8, 1, 1); /* failed further on */
    bench_run(b);
    forward_anew(b, grant, 0, 5, false, 1);
    bench_run(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->index[0], 1);
    bench_forward(b, grant, false, 5, 3, NONE);
    bench_run(b);
    bench_forward(b, grant, true, 8, 1, 1);
    bench_run(b);
    bench_forward(b, grant, true, 9, 1, 2);
    bench_run(b);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* The last stage has the ids that penalties count. */
static void keeps_its_ids_when_it_begins_anew(void **state)
{
    struct bench *b = stand(true);
    struct bench_open o;
    uint32_t token;

    (void)state;
    bench_open(b, &o, 8, 8);
    o.sampling.has_frequency_penalty = true;
    o.sampling.frequency_penalty = 1;
    o.m.n_tokens = 8;
    o.m.tokens = o.ids;
    bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
    bench_forward(b, b->grant, false, 0, 8, 0);
    bench_run(b);
    token = bench_last(b, METHOD_STAGE_RESULT)->tokens[0];
    bench_forward(b, b->grant, true, 8, 1, 1);
    b->fail_next = "the device burns";
    bench_run(b);
    forward_anew(b, b->grant, 0, 8, false, 1);
    bench_run(b);
    bench_forward(b, b->grant, true, 8, 1, 1);
    assert_int_equal(b->plan->rows[0].history.n, 9);
    bench_run(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->tokens[0],
                     (token * 7 + 9) % BENCH_VOCAB);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

static void a_wrong_beginning_breaks_it(void **state)
{
    static const char *const says[] = {
        "it begins anew at position 4 with 0 generated",
        "at position 0 with 2 generated tokens, but 1 are counted here",
        "1 steps with it are on their way", "index 0, but 1 of at most 8"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct bench *b = stand(false);
        uint64_t grant = bench_open_plain(b, 8, 8);

        bench_forward(b, grant, false, 0, 8, 0);
        bench_run(b);
        if (i == 0) {
            forward_anew(b, grant, 4, 4, false, 0);
        } else if (i == 1) {
            forward_anew(b, grant, 0, 8, false, 2);
        } else if (i == 2) {
            bench_forward(b, grant, true, 8, 1, 1);
            forward_anew(b, grant, 0, 8, false, 1);
        } else {
            forward_anew(b, grant, 0, 8, false, 1);
            bench_run(b);
            bench_forward(b, grant, true, 8, 1, 0);
        }
        bench_check_broken(b, says[i]);
        bench_free(&b);
    }
}

/* ---- damaged rows ---- */

static void passes_a_damaged_row_on(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = bench_open_plain(b, 8, 8), two = bench_open_plain(b, 8, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    b->damaged = 1; /* the engine's number of the first sequence */
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 8, 0);
    bench_row(&f, two, false, 0, 8, 0);
    bench_send(b, &f);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_string_equal(s->failure, "");
    assert_int_equal(s->n, 2);
    assert_int_equal(s->n_damaged, 2);
    assert_int_equal(s->damaged[0], 1);
    assert_int_equal(s->damaged[1], 0);
    assert_int_equal(s->tokens[0], 0);
    assert_int_equal(s->tokens[1], (uint32_t)bench_x(1, 15));
    bench_remove(b, one);
    bench_forward(b, two, true, 8, 1, 1);
    bench_run(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->n_damaged, 0);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_anew_after_its_own_failure),
        cmocka_unit_test(gives_up_a_token_that_was_lost),
        cmocka_unit_test(keeps_its_ids_when_it_begins_anew),
        cmocka_unit_test(a_wrong_beginning_breaks_it),
        cmocka_unit_test(passes_a_damaged_row_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
