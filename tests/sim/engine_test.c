/* Tests of the fake engine and its oracle: their results, and the faults that
 * they detect.  A simulator that cannot detect a fault proves nothing. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/cmocka.h"

static struct sim *new_sim(void)
{
    struct sim *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    return s;
}

static void run(struct sim *s)
{
    struct event e;

    while (clock_next(&s->clock, &e)) {
        e.fn(s, e.a, e.b);
    }
}

struct bench {
    struct sim *sim;
    struct fake_engine *engine;
    struct engine *seam;
    struct plan plan[2];
    struct plan_row rows[2][4];
    uint32_t tokens[2][16], blocks[2][8], zero[2][4];
};

static void begin_engine(struct bench *b)
{
    struct sim *s = new_sim();

    memset(b, 0, sizeof(*b));
    b->sim = s;
    clock_init(&s->clock, SIM_START_US);
    s->options.models[0] = (struct fake_model){.salt = 99,
                                               .attention = true,
                                               .linear = true,
                                               .vocab = 1000,
                                               .context = 64};
    s->options.workers[0] = (struct worker_draw){.block_tokens = 4,
                                                 .n_blocks = 8,
                                                 .n_slots = 2,
                                                 .max_rows = 4,
                                                 .step_tokens = 16,
                                                 .chunk_tokens = 8,
                                                 .depth = 2,
                                                 .step_us = 100};
    b->engine = s->engines[0] = fake_engine_new(s, 0);
    b->seam = fake_engine_seam(b->engine);
    for (int i = 0; i < 2; i++) {
        b->plan[i] = (struct plan){.step = (uint64_t)i + 1,
                                   .rows = b->rows[i],
                                   .tokens = b->tokens[i],
                                   .blocks = b->blocks[i],
                                   .zero_slots = b->zero[i]};
    }
}

static void end_engine(struct bench *b)
{
    fake_engine_free(&b->engine);
    clock_fini(&b->sim->clock);
    free(b->sim);
}

static const struct sampling plain = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 5};

/* Adds a row of n prompt tokens 10, 11, ... from position 0, with one block
 * for each 4 tokens. */
static struct plan_row *add_prompt(struct plan *p, uint64_t sequence,
                                   uint32_t block, uint32_t slot, uint32_t n)
{
    struct plan_row *r = &p->rows[p->n_rows++];

    *r = (struct plan_row){.sequence = sequence,
                           .n_tokens = n,
                           .token = p->n_tokens,
                           .block = p->n_blocks,
                           .n_blocks = (n + 3) / 4,
                           .slot = slot,
                           .sample = true,
                           .sampling = &plain};
    for (uint32_t i = 0; i < n; i++) {
        p->tokens[p->n_tokens++] = 10 + i;
    }
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        p->blocks[p->n_blocks++] = block + i;
    }
    p->zero_slots[p->n_zero++] = slot;
    return r;
}

static uint32_t right_token(const struct bench *b, uint32_t n)
{
    const struct fake_model *m = &b->sim->options.models[0];
    struct oracle o = {0};

    for (uint32_t i = 0; i < n; i++) {
        oracle_feed(&o, m, 10 + i, ROW_PROMPT);
    }
    return oracle_next(&o, m, &plain, 0, 0);
}

static void test_engine_gives_the_right_token(void **state)
{
    struct bench b;
    struct plan_result out;
    struct plan_row *r;
    struct oracle o = {0};

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    assert_int_equal(fake_engine_named_blocks(b.engine), 1);
    r = add_prompt(&b.plan[1], 1, 0, 0, 1); /* chained on the first */
    b.plan[1].n_zero = 0;
    r->position = 3;
    r->kind = ROW_GENERATED;
    r->chained = true;
    r->index = 1;
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_RESOURCE_EXHAUSTED);
    assert_false(engine_poll(b.seam, &out));
    run(b.sim);
    assert_true(engine_poll(b.seam, &out));
    assert_int_equal(out.status, ST_OK);
    assert_int_equal(out.tokens[0], right_token(&b, 3));
    for (uint32_t i = 0; i < 3; i++) {
        oracle_feed(&o, &b.sim->options.models[0], 10 + i, ROW_PROMPT);
    }
    oracle_feed(&o, &b.sim->options.models[0], out.tokens[0], ROW_GENERATED);
    assert_true(engine_poll(b.seam, &out));
    assert_int_equal(out.tokens[0], oracle_next(&o, &b.sim->options.models[0],
                                                r->sampling, 0, 1));
    assert_int_equal(fake_engine_named_blocks(b.engine), 0);
    assert_false(b.sim->failed);
    end_engine(&b);
}

static void test_engine_scribbles_over_taken_blocks(void **state)
{
    struct bench b;
    struct plan_result out;
    struct plan_row *r;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    run(b.sim);
    assert_true(engine_poll(b.seam, &out));
    b.plan[0].n_rows = b.plan[0].n_tokens = b.plan[0].n_blocks = 0;
    b.plan[0].n_zero = 0;
    add_prompt(&b.plan[0], 2, 0, 1, 2); /* its block, in another sequence */
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    run(b.sim);
    assert_true(engine_poll(b.seam, &out));
    assert_false(b.sim->failed);
    r = add_prompt(&b.plan[1], 1, 0, 0, 1); /* and used by the first again */
    b.plan[1].n_zero = 0;
    r->position = 3;
    r->kind = ROW_GENERATED;
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    run(b.sim);
    assert_true(b.sim->failed);
    assert_non_null(strstr(b.sim->what, "cell of another position"));
    end_engine(&b);
}

static void refuse(struct bench *b, const char *what)
{
    (void)!engine_submit(b->seam, &b->plan[0]);
    assert_true(b->sim->failed);
    assert_non_null(strstr(b->sim->what, what));
    end_engine(b);
}

static void test_engine_refuses_wrong_plans(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    add_prompt(&b.plan[0], 2, 0, 1, 3);
    refuse(&b, "block of another sequence");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    add_prompt(&b.plan[0], 2, 1, 0, 3);
    refuse(&b, "slot of another sequence");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    b.plan[0].n_zero = 0;
    refuse(&b, "not zeroed");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 6)->n_blocks = 1;
    refuse(&b, "does not cover");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3)->position = 1;
    refuse(&b, "gap");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 6);
    b.blocks[0][1] = b.blocks[0][0];
    refuse(&b, "twice in a table");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 1)->chained = true;
    b.rows[0][0].kind = ROW_GENERATED;
    refuse(&b, "without a previous plan");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    b.tokens[0][1] = 1000;
    refuse(&b, "outside the vocabulary");
    begin_engine(&b);
    refuse(&b, "no rows");
}

static void test_engine_sees_a_plan_change(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    b.tokens[0][0]++;
    run(b.sim);
    assert_true(b.sim->failed);
    assert_non_null(strstr(b.sim->what, "changed while in flight"));
    end_engine(&b);
}

static const struct sampling penalty = {.temperature = 1,
                                        .top_p = 1,
                                        .repetition_penalty = 2,
                                        .logprobs = true,
                                        .n_top_logprobs = 3,
                                        .seed = 5};

/* One page of ids behind a root page. */
static struct plan_history history(uint32_t memory[32], uint32_t n,
                                   uint32_t n_prompt)
{
    memory[16] = 0;
    for (uint32_t i = 0; i < n; i++) {
        memory[i] = 10 + i;
    }
    return (struct plan_history){
        .pages = {.memory = memory, .n_pages = 2, .root = 1, .shift = 4},
        .n = n,
        .n_prompt = n_prompt};
}

/* Submits a prompt of three ids with the given history, and runs it. */
static void run_penalty(struct bench *b, const struct plan_history *h,
                        struct plan_result *out)
{
    struct plan_row *r;

    begin_engine(b);
    r = add_prompt(&b->plan[0], 1, 0, 0, 3);
    r->sampling = &penalty;
    r->history = *h;
    assert_int_equal(engine_submit(b->seam, &b->plan[0]), ST_OK);
    run(b->sim);
    (void)!engine_poll(b->seam, out);
}

static void test_engine_reads_the_history(void **state)
{
    struct bench b;
    struct plan_result out;
    struct token_logprob top[TOP_LOGPROBS_MAX];
    struct oracle o = {0};
    uint32_t memory[32];
    struct plan_history h = history(memory, 3, 3);
    float own;

    (void)state;
    run_penalty(&b, &h, &out);
    assert_false(b.sim->failed);
    for (uint32_t i = 0; i < 3; i++) {
        oracle_feed(&o, &b.sim->options.models[0], 10 + i, ROW_PROMPT);
    }
    assert_int_equal(out.tokens[0], oracle_next(&o, &b.sim->options.models[0],
                                                &penalty, 0, 0));
    own = oracle_logprobs(&o, &b.sim->options.models[0], out.tokens[0], 3, top);
    assert_memory_equal(&own, &out.logprobs[0], sizeof(own));
    assert_memory_equal(top, out.top[0], 3 * sizeof(top[0]));
    end_engine(&b);
    o.h++; /* another history gives another token */
    assert_int_not_equal(out.tokens[0],
                         oracle_next(&o,
                                     &(struct fake_model){.salt = 99,
                                                          .attention = true,
                                                          .linear = true,
                                                          .vocab = 1000},
                                     &penalty, 0, 0));
}

static void wrong_history(struct plan_history h, const char *what)
{
    struct bench b;
    struct plan_result out;

    run_penalty(&b, &h, &out);
    assert_true(b.sim->failed);
    assert_non_null(strstr(b.sim->what, what));
    end_engine(&b);
}

static void test_engine_sees_a_wrong_history(void **state)
{
    uint32_t memory[32];

    (void)state;
    wrong_history(history(memory, 2, 2), "wrong length");
    wrong_history(history(memory, 3, 2), "wrong length");
    wrong_history(history(memory, 0, 0), "wrong length");
    (void)history(memory, 3, 3);
    memory[2]++;
    wrong_history((struct plan_history){.pages = {memory, 2, 1, 4}, 3, 3},
                  "wrong ids");
    (void)history(memory, 3, 3);
    memory[1] = memory[2]; /* the same ids, elsewhere */
    memory[2] = 11;
    wrong_history((struct plan_history){.pages = {memory, 2, 1, 4}, 3, 3},
                  "wrong ids");
}

/* Logprobs as a model produces them: best first, none above 0, no id twice, and
 * the chosen token's own value if it is among them. */
static void test_logprobs_are_in_order(void **state)
{
    struct token_logprob top[TOP_LOGPROBS_MAX];
    const struct fake_model m = {.salt = 3, .attention = true, .vocab = 256};
    uint32_t among = 0;

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        struct oracle o = {.a = i};
        uint32_t token = i % 256;
        float own = oracle_logprobs(&o, &m, token, TOP_LOGPROBS_MAX, top);

        assert_true(own <= 0 && top[0].logprob <= 0);
        for (uint32_t k = 0; k < TOP_LOGPROBS_MAX; k++) {
            assert_true(k == 0 || top[k].logprob <= top[k - 1].logprob);
            for (uint32_t j = 0; j < k; j++) {
                assert_int_not_equal(top[j].token, top[k].token);
            }
            if (top[k].token == token) {
                assert_memory_equal(&own, &top[k].logprob, sizeof(own));
                among++;
            }
        }
        assert_true(own <= top[0].logprob);
    }
    assert_true(among > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_gives_the_right_token),
        cmocka_unit_test(test_engine_scribbles_over_taken_blocks),
        cmocka_unit_test(test_engine_refuses_wrong_plans),
        cmocka_unit_test(test_engine_sees_a_plan_change),
        cmocka_unit_test(test_engine_reads_the_history),
        cmocka_unit_test(test_engine_sees_a_wrong_history),
        cmocka_unit_test(test_logprobs_are_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
