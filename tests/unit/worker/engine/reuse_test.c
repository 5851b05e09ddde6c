/* A plan's orders around its rows, and its twins: what each leaves in memory
 * and in the result, also where something fails.  golden_reuse shows that what
 * is reused has the bits of a cold run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/runner.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define VOCAB  100
#define LAYERS 3 /* linear, attention, linear */
#define TWINS  3
#define LENGTH 10 /* of a prompt: its last block is partly filled */
#define LOGITS 2  /* rows of a head call: twins need several */

struct rig {
    struct random_model model;
    struct runner r;
    struct kernels *k;
    struct kernels_ops ops; /* of the kernels, where a test changes some */
    size_t state_floats;
    uint32_t ids[64];
    float logits[TWINS + 2][VOCAB];
};

static struct rig *rig_new(void)
{
    struct rig *g = calloc(1, sizeof *g);
    struct kernels_options o = {.device = "cpu",
                                .block_tokens = 4,
                                .max_tokens = 8,
                                .max_logits = LOGITS,
                                .n_threads = 1};
    struct dice d = {11};
    struct random_shape r;

    assert_non_null(g);
    random_shape(&r, &d);
    r.shape.n_layers = LAYERS;
    r.shape.vocab = VOCAB;
    r.shape.context = 64;
    for (uint32_t i = 0; i < LAYERS; i++) {
        r.mixers[i] = i == 1 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    random_model_new(&g->model, &r, &d);
    runner_open(&g->r, &g->model.w, &o, 40, 8, 3);
    runner_poison(&g->r);
    g->k = forward_kernels(g->r.forward);
    g->ops = *g->k->ops;
    g->state_floats = (size_t)r.shape.n_v_heads * r.shape.k_dim * r.shape.v_dim;
    for (uint32_t i = 0; i < 64; i++) {
        g->ids[i] = i * 7 % VOCAB;
    }
    return g;
}

static void rig_free(struct rig *g)
{
    runner_close(&g->r);
    random_model_free(&g->model);
    free(g);
}

/* ---- orders ---- */

/* Returns the state of the first layer in a slot; the caller frees it. */
static float *state_of(const struct rig *g, uint32_t slot)
{
    float *state = calloc(g->state_floats, sizeof *state);
    static char tail[65536];

    assert_non_null(state);
    kernels_slot_copy(g->k, 0, slot, (void *[MIXER_PARTS_MAX]){state, tail},
                      false);
    return state;
}

/* Takes both. */
static bool same_state(const struct rig *g, float *a, float *b)
{
    bool same = memcmp(a, b, g->state_floats * sizeof *a) == 0;

    free(a);
    free(b);
    return same;
}

static bool is_state(const struct rig *g, uint32_t slot, int byte)
{
    float *want = calloc(g->state_floats, sizeof *want);

    assert_non_null(want);
    memset(want, byte, g->state_floats * sizeof *want);
    return same_state(g, state_of(g, slot), want);
}

/* Slots for the orders of one plan, next to a sequence. */
struct places {
    struct run_seq a;
    uint32_t poisoned, copied, again, zeroed, after;
    float *before; /* the sequence's state before the plan */
};

/* Runs a prompt, then makes a plan that continues it with every order. */
static void make_orders(struct rig *g, struct places *s)
{
    struct plan *p = &g->r.plan;
    uint32_t per = g->r.pages_per_slot;

    runner_start(&g->r, &s->a, g->ids, 2 * LENGTH, 4);
    runner_add(&g->r, &s->a, LENGTH, false, NULL);
    runner_step(&g->r);
    s->poisoned = runner_take_slot(&g->r);
    s->copied = runner_take_slot(&g->r);
    s->again = runner_take_slot(&g->r);
    s->zeroed = runner_take_slot(&g->r);
    s->after = runner_take_slot(&g->r);
    s->before = state_of(g, s->a.slot);
    for (uint32_t i = 0; i < 5; i++) { /* known contents: zero */
        const uint32_t all[] = {s->poisoned, s->copied, s->again, s->zeroed,
                                s->after};

        kernels_zero_slot(g->k, all[i]);
    }
    runner_add(&g->r, &s->a, LENGTH, true, NULL);
    p->poison[p->n_poison++] =
        (struct plan_copy){.from = s->poisoned, .n = per};
    p->poison[p->n_poison++] = (struct plan_copy){.from = s->copied, .n = per};
    runner_before(&g->r, s->a.slot, s->copied, per);
    runner_before(&g->r, s->copied, s->again, per);
    runner_before(&g->r, s->copied, s->zeroed, per);
    p->zero_slots[p->n_zero++] = s->zeroed;
    runner_after(&g->r, s->a.slot, s->after, per);
}

static void close_orders(struct rig *g, struct places *s)
{
    free(s->before);
    runner_stop(&g->r, &s->a);
}

/* Returns whether the orders before the rows have been carried out. */
static bool before_is_done(const struct rig *g, const struct places *s)
{
    float *copy = calloc(g->state_floats, sizeof *copy);

    assert_non_null(copy);
    memcpy(copy, s->before, g->state_floats * sizeof *copy);
    return is_state(g, s->poisoned, 0xff) && is_state(g, s->zeroed, 0) &&
           same_state(g, state_of(g, s->copied), state_of(g, s->again)) &&
           same_state(g, state_of(g, s->again), copy);
}

static void orders_run_in_order(void **state)
{
    struct rig *g = rig_new();
    struct places s;

    (void)state;
    make_orders(g, &s);
    runner_step(&g->r);
    assert_true(before_is_done(g, &s));
    assert_true(same_state(g, state_of(g, s.after), state_of(g, s.a.slot)));
    assert_false(same_state(g, state_of(g, s.after), state_of(g, s.copied)));
    close_orders(g, &s);
    rig_free(g);
}

static enum status fail_end(struct kernels *k, struct error *e)
{
    (void)k;
    return error_set(e, ST_UNAVAILABLE, "the step failed");
}

/* What is due before the rows is done even then; what is due after is not. */
static void failed_step_carries_out_what_is_before_it(void **state)
{
    struct rig *g = rig_new();
    struct places s;

    (void)state;
    make_orders(g, &s);
    g->ops.end = fail_end;
    g->k->ops = &g->ops;
    forward_run(g->r.forward, &g->r.plan, &g->r.result);
    assert_int_equal(g->r.result.status, ST_UNAVAILABLE);
    assert_true(before_is_done(g, &s));
    assert_true(is_state(g, s.after, 0));
    close_orders(g, &s);
    rig_free(g);
}

static void refused_plan_carries_out_nothing(void **state)
{
    struct rig *g = rig_new();
    struct places s;

    (void)state;
    make_orders(g, &s);
    g->r.plan.rows[0].slot = SLOT_NONE;
    forward_run(g->r.forward, &g->r.plan, &g->r.result);
    assert_int_equal(g->r.result.status, ST_INTERNAL);
    assert_true(is_state(g, s.poisoned, 0));
    assert_true(is_state(g, s.copied, 0));
    assert_true(is_state(g, s.after, 0));
    close_orders(g, &s);
    rig_free(g);
}

/* ---- twins ---- */

static const struct sampling hot = {.temperature = 1,
                                    .top_p = 1,
                                    .repetition_penalty = 1,
                                    .seed = 5,
                                    .logprobs = 1,
                                    .n_top_logprobs = 2};

/* The results of a row in a plan of its own sequence. */
struct alone {
    uint32_t token, next;
    float logprob;
    struct token_logprob top[2];
    float logits[VOCAB];
};

static void run_alone(struct rig *g, const struct sampling *s, uint32_t choice,
                      struct alone *out)
{
    struct run_seq a;
    uint32_t row;

    runner_start(&g->r, &a, g->ids, LENGTH, 4);
    a.sampling = *s;
    a.choice = choice;
    row = runner_add(&g->r, &a, LENGTH, true, out->logits);
    runner_step(&g->r);
    out->token = runner_token(&g->r, row);
    out->logprob = g->r.result.logprobs[row];
    memcpy(out->top, g->r.result.top[row], sizeof out->top);
    run_seq_push(&a, out->token);
    row = runner_add(&g->r, &a, 1, true, NULL);
    runner_step(&g->r);
    out->next = runner_token(&g->r, row);
    runner_stop(&g->r, &a);
}

/* Starts a prompt and TWINS twins of it, in the plan being made. */
static void start_family(struct rig *g, struct run_seq *a)
{
    memset(a, 0, (TWINS + 1) * sizeof *a);
    runner_start(&g->r, &a[0], g->ids, LENGTH, 4);
    a[0].sampling = hot;
    runner_add(&g->r, &a[0], LENGTH, true, g->logits[0]);
    for (uint32_t i = 1; i <= TWINS; i++) {
        a[i].choice = i;
        runner_twin(&g->r, &a[i], &a[0], 0, g->logits[i]);
    }
}

static void stop_family(struct rig *g, struct run_seq *a)
{
    for (uint32_t i = TWINS + 1; i > 0; i--) {
        runner_stop(&g->r, &a[i - 1]);
    }
}

/* Adds a row for each, chained to its token of the last plan. */
static void chain_family(struct rig *g, struct run_seq *a)
{
    for (uint32_t i = 0; i <= TWINS; i++) {
        uint32_t row;

        run_seq_push(&a[i], 0); /* not read */
        row = runner_add(&g->r, &a[i], 1, true, NULL);
        g->r.plan.rows[row].chained = true;
        g->r.plan.rows[row].chain_row = i;
    }
}

/* Tokens, logprobs and logits; and the next tokens, chained. */
static void twins_equal_separate_sequences(void **state)
{
    static struct alone x[TWINS + 1];
    struct rig *g = rig_new();
    struct run_seq a[TWINS + 1];
    uint32_t different = 0;

    (void)state;
    for (uint32_t i = 0; i <= TWINS; i++) {
        run_alone(g, &hot, i, &x[i]);
    }
    start_family(g, a);
    runner_step(&g->r);
    for (uint32_t i = 0; i <= TWINS; i++) {
        assert_int_equal(g->r.result.outcomes[i], ROW_DONE);
        assert_int_equal(runner_token(&g->r, i), x[i].token);
        assert_memory_equal(&g->r.result.logprobs[i], &x[i].logprob, 4);
        assert_memory_equal(g->r.result.top[i], x[i].top, sizeof x[i].top);
        assert_memory_equal(g->logits[i], x[i].logits, sizeof x[i].logits);
        different += x[i].token != x[0].token;
    }
    assert_true(different > 0); /* or the choice would not be read */
    chain_family(g, a);
    runner_step(&g->r);
    for (uint32_t i = 0; i <= TWINS; i++) {
        assert_int_equal(runner_token(&g->r, i), x[i].next);
    }
    stop_family(g, a);
    rig_free(g);
}

/* The twin's parameters are its own: here the bias of one token. */
static void twin_samples_with_its_own_parameters(void **state)
{
    static const uint32_t tokens[] = {42};
    static const float biases[] = {90};
    struct rig *g = rig_new();
    struct run_seq a[TWINS + 1];

    (void)state;
    start_family(g, a);
    a[2].sampling.n_biases = 1;
    a[2].sampling.bias_tokens = tokens;
    a[2].sampling.biases = biases;
    runner_step(&g->r);
    assert_int_equal(runner_token(&g->r, 2), 42);
    assert_int_not_equal(runner_token(&g->r, 1), 42);
    assert_int_not_equal(runner_token(&g->r, 0), 42);
    stop_family(g, a);
    rig_free(g);
}

/* Makes all logits of a row infinite. */
static void spoil(struct run_seq *a)
{
    static const uint32_t tokens[] = {0};
    static const float biases[] = {INFINITY};

    a->sampling.n_biases = 1;
    a->sampling.bias_tokens = tokens;
    a->sampling.biases = biases;
}

static void expect_outcomes(const struct rig *g, const uint8_t *want)
{
    for (uint32_t i = 0; i <= TWINS; i++) {
        assert_int_equal(g->r.result.outcomes[i], want[i]);
        assert_int_equal(runner_token(&g->r, i) == TOKEN_NONE,
                         want[i] != ROW_DONE);
    }
}

static void twin_that_is_not_finite_fails_alone(void **state)
{
    struct rig *g = rig_new();
    struct run_seq a[TWINS + 1];

    (void)state;
    start_family(g, a);
    spoil(&a[2]);
    runner_step(&g->r);
    expect_outcomes(g,
                    (uint8_t[]){ROW_DONE, ROW_DONE, ROW_NOT_FINITE, ROW_DONE});
    chain_family(g, a);
    a[2].sampling = hot;
    runner_step(&g->r);
    expect_outcomes(g, (uint8_t[]){ROW_DONE, ROW_DONE, ROW_CUT_OFF, ROW_DONE});
    stop_family(g, a);
    rig_free(g);
}

/* The twins' own logits would be finite. */
static void source_that_fails_takes_its_twins(void **state)
{
    struct rig *g = rig_new();
    struct run_seq a[TWINS + 1];

    (void)state;
    start_family(g, a);
    spoil(&a[0]);
    runner_step(&g->r);
    expect_outcomes(g, (uint8_t[]){ROW_NOT_FINITE, ROW_NOT_FINITE,
                                   ROW_NOT_FINITE, ROW_NOT_FINITE});
    stop_family(g, a);
    rig_free(g);
}

/* A source chained to a row that got no token, beside a row that is whole. */
static void source_that_is_cut_off_takes_its_twins(void **state)
{
    struct rig *g = rig_new();
    struct run_seq a[2], twin = {.choice = 1};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        runner_start(&g->r, &a[i], g->ids, LENGTH, 4);
        runner_add(&g->r, &a[i], LENGTH, true, NULL);
    }
    spoil(&a[0]);
    runner_step(&g->r);
    for (uint32_t i = 0; i < 2; i++) {
        run_seq_push(&a[i], 0);
        runner_add(&g->r, &a[i], 1, true, NULL);
        g->r.plan.rows[i].chained = true;
        g->r.plan.rows[i].chain_row = i;
    }
    runner_twin(&g->r, &twin, &a[0], 0, NULL);
    g->r.plan.rows[2].chained = false;
    runner_step(&g->r);
    assert_int_equal(g->r.result.outcomes[0], ROW_CUT_OFF);
    assert_int_equal(g->r.result.outcomes[1], ROW_DONE);
    assert_int_equal(g->r.result.outcomes[2], ROW_CUT_OFF);
    assert_int_equal(runner_token(&g->r, 2), TOKEN_NONE);
    runner_stop(&g->r, &twin);
    runner_stop(&g->r, &a[1]);
    runner_stop(&g->r, &a[0]);
    rig_free(g);
}

/* The source's row is cut into passes; its twins sample after the last. */
static void twins_of_a_row_in_several_passes(void **state)
{
    struct rig *g = rig_new();
    struct run_seq a, twin = {.choice = 1};
    float first[VOCAB];

    (void)state;
    runner_start(&g->r, &a, g->ids, 50, 4);
    runner_add(&g->r, &a, 50, true, g->logits[0]);
    runner_twin(&g->r, &twin, &a, 0, g->logits[1]);
    runner_step(&g->r);
    assert_memory_equal(g->logits[0], g->logits[1], sizeof first);
    assert_int_equal(runner_token(&g->r, 0), runner_token(&g->r, 1));
    runner_stop(&g->r, &twin);
    runner_stop(&g->r, &a);
    rig_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_run_in_order),
        cmocka_unit_test(failed_step_carries_out_what_is_before_it),
        cmocka_unit_test(refused_plan_carries_out_nothing),
        cmocka_unit_test(twins_equal_separate_sequences),
        cmocka_unit_test(twin_samples_with_its_own_parameters),
        cmocka_unit_test(twin_that_is_not_finite_fails_alone),
        cmocka_unit_test(source_that_fails_takes_its_twins),
        cmocka_unit_test(source_that_is_cut_off_takes_its_twins),
        cmocka_unit_test(twins_of_a_row_in_several_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
