/* Tests of the fake engine as a stage of a model: tokens are independent of the
 * number of stages, and faults between or within stages are detected. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fake_hidden.h"
#include "tests/sim/sim.h"
#include "tests/unit/cmocka.h"

#define STAGES    4
#define LAYERS    8
#define SEQUENCES 4
#define BATCHES   2 /* microbatches: sequences 0 and 1, 2 and 3 */
#define ROWS      (SEQUENCES / BATCHES)
#define PROMPT    7
#define CHUNK     4
#define GENERATED 5
#define IDS       (PROMPT + GENERATED)
#define ROUNDS    (PROMPT / CHUNK + 1 + GENERATED - 1)
#define BLOCK     4
#define TABLE     4
#define PER       2 /* pages of a slot, which follow the blocks */
#define PAGES     (SEQUENCES * TABLE + SEQUENCES * PER)
#define FLOATS    (ROWS * CHUNK * FAKE_HIDDEN)

struct microbatch {
    struct plan plan;
    struct plan_row rows[ROWS];
    uint32_t tokens[ROWS * CHUNK], blocks[ROWS * TABLE], zero[ROWS];
    float hidden[FLOATS], before[FLOATS], older[FLOATS];
};

struct line {
    uint32_t ids[IDS], n, n_run; /* all ids, and those computed */
};

struct chain {
    struct sim *sim;
    uint32_t n_stages, round;
    struct fake_engine *engines[STAGES];
    struct line lines[SEQUENCES];
    struct microbatch batches[BATCHES];
    struct plan_result out;
};

/* Changes the plans of a stage before they are submitted. */
typedef void disturb_fn(struct chain *c, uint32_t stage);

static const struct sampling plain = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 5};

static void begin(struct chain *c, uint32_t n_stages, uint32_t attention)
{
    struct sim *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    memset(c, 0, sizeof(*c));
    c->sim = s;
    c->n_stages = n_stages;
    clock_init(&s->clock, SIM_START_US);
    s->options.models[0] =
        (struct fake_model){.salt = 99,
                            .attention = attention != 0,
                            .linear = attention != (1u << LAYERS) - 1,
                            .vocab = 1000,
                            .context = 64};
    s->options.stages.n_layers[0] = LAYERS;
    s->options.stages.attention[0] = attention;
    for (uint32_t i = 0; i < n_stages; i++) {
        struct fake_shard shard;

        s->options.stages.layers[i].begin = i * LAYERS / n_stages;
        s->options.stages.layers[i].end = (i + 1) * LAYERS / n_stages;
        shard = options_shard(&s->options, i);
        s->options.workers[i] =
            (struct worker_draw){.block_tokens = BLOCK,
                                 .max_rows = ROWS,
                                 .step_tokens = ROWS * CHUNK,
                                 .chunk_tokens = CHUNK,
                                 .depth = 2,
                                 .step_us = 100};
        s->options.pools.workers[i] =
            (struct pool_of_worker){.n_pages = PAGES,
                                    .pages_per_slot = shard.linear ? PER : 0,
                                    .slot_cap = SEQUENCES};
        c->engines[i] = s->engines[i] = fake_engine_new(s, i);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        c->lines[i].n = PROMPT;
        for (uint32_t k = 0; k < PROMPT; k++) {
            c->lines[i].ids[k] = 10 + 100 * i + k;
        }
    }
}

static void end(struct chain *c)
{
    for (uint32_t i = 0; i < c->n_stages; i++) {
        fake_engine_free(&c->engines[i]);
    }
    clock_fini(&c->sim->clock);
    free(c->sim);
}

/* Adds a row.  Each stage has its own numbers for blocks and slots. */
static void add_row(struct chain *c, struct microbatch *b, uint32_t stage,
                    uint32_t i)
{
    const struct line *l = &c->lines[i];
    struct fake_shard shard = options_shard(&c->sim->options, stage);
    struct plan *p = &b->plan;
    struct plan_row *r = &p->rows[p->n_rows++];
    uint32_t left = l->n - l->n_run;

    *r = (struct plan_row){
        .sequence = i + 1,
        .kind = l->n_run < PROMPT ? ROW_PROMPT : ROW_GENERATED,
        .position = l->n_run,
        .n_tokens = left < CHUNK ? left : CHUNK,
        .token = p->n_tokens,
        .block = p->n_blocks,
        .slot = shard.linear ? SEQUENCES * TABLE + (i + stage) % SEQUENCES * PER
                             : SLOT_NONE,
        .sample = left <= CHUNK,
        .index = l->n - PROMPT,
        .sampling = &plain};
    if (stage == 0) {
        memcpy(&p->tokens[p->n_tokens], &l->ids[l->n_run],
               r->n_tokens * sizeof(*l->ids));
    }
    p->n_tokens += r->n_tokens;
    if (shard.attention) {
        r->n_blocks = (l->n_run + r->n_tokens + BLOCK - 1) / BLOCK;
        for (uint32_t k = 0; k < r->n_blocks; k++) {
            p->blocks[p->n_blocks++] = (i + stage) % SEQUENCES + SEQUENCES * k;
        }
    }
    if (shard.linear && l->n_run == 0) {
        p->zero_slots[p->n_zero++] = r->slot;
    }
}

static void fill(struct chain *c, uint32_t batch, uint32_t stage)
{
    struct microbatch *b = &c->batches[batch];

    b->plan = (struct plan){.step = c->round * BATCHES + batch + 1,
                            .rows = b->rows,
                            .tokens = b->tokens,
                            .blocks = b->blocks,
                            .zero_slots = b->zero,
                            .hidden = stage ? b->hidden : NULL};
    memset(b->tokens, stage ? 0xff : 0, sizeof(b->tokens));
    for (uint32_t i = 0; i < ROWS; i++) {
        add_row(c, b, stage, batch * ROWS + i);
    }
}

static void run_clock(struct sim *s)
{
    struct event e;

    while (clock_next(&s->clock, &e)) {
        e.fn(s, e.a, e.b);
    }
}

/* Copies the hidden states of a result, which are valid only until the next one
 * is polled. */
static bool poll_hidden(struct chain *c, uint32_t stage, uint32_t batch)
{
    struct microbatch *b = &c->batches[batch];

    if (!engine_poll(fake_engine_seam(c->engines[stage]), &c->out)) {
        return false;
    }
    memcpy(b->before, b->hidden, sizeof(b->before));
    if (stage + 1 < c->n_stages) {
        assert_non_null(c->out.hidden);
        memcpy(b->hidden, c->out.hidden,
               (size_t)b->plan.n_tokens * FAKE_HIDDEN * sizeof(float));
    } else {
        assert_null(c->out.hidden);
    }
    return true;
}

static void take_tokens(struct chain *c, uint32_t batch)
{
    const struct plan *p = &c->batches[batch].plan;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        struct line *l = &c->lines[batch * ROWS + i];

        l->n_run += p->rows[i].n_tokens;
        if (p->rows[i].sample) {
            l->ids[l->n++] = c->out.tokens[i];
        }
    }
}

/* Runs one round of both microbatches through all stages; false if a fault was
 * detected. */
static bool run_round(struct chain *c, disturb_fn *disturb)
{
    for (uint32_t stage = 0; stage < c->n_stages; stage++) {
        for (uint32_t i = 0; i < BATCHES; i++) {
            fill(c, i, stage);
        }
        if (disturb) {
            disturb(c, stage);
        }
        for (uint32_t i = 0; i < BATCHES; i++) {
            (void)!engine_submit(fake_engine_seam(c->engines[stage]),
                                 &c->batches[i].plan);
        }
        run_clock(c->sim);
        for (uint32_t i = 0; i < BATCHES; i++) {
            if (c->sim->failed || !poll_hidden(c, stage, i)) {
                return false;
            }
            if (stage + 1 == c->n_stages) {
                take_tokens(c, i);
            }
        }
    }
    for (uint32_t i = 0; i < BATCHES; i++) {
        memcpy(c->batches[i].older, c->batches[i].before,
               sizeof(float[FLOATS]));
    }
    return true;
}

/* Returns whether all tokens are those of the whole model. */
static bool right(const struct chain *c)
{
    const struct fake_model *m = &c->sim->options.models[0];
    bool same = true;

    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const struct line *l = &c->lines[i];
        struct oracle o = {0};

        for (uint32_t k = 0; k < l->n; k++) {
            same = same &&
                   (k < PROMPT ||
                    l->ids[k] == oracle_next(&o, m, &plain, 0, k - PROMPT));
            oracle_feed(&o, m, l->ids[k],
                        k < PROMPT ? ROW_PROMPT : ROW_GENERATED);
        }
    }
    return same;
}

/* Returns false if a fault was detected, in plans, memory or tokens. */
static bool run(struct chain *c, disturb_fn *disturb)
{
    for (c->round = 0; c->round < ROUNDS; c->round++) {
        if (!run_round(c, disturb)) {
            return false;
        }
    }
    return right(c);
}

/* All layers with attention, none, in the middle, at the end, and as in real
 * hybrids. */
static const uint32_t kinds[] = {0xff, 0x00, 0x18, 0x80, 0x88, 0x0f};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

static void tokens_do_not_depend_on_stages(void **state)
{
    struct chain c;

    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        for (uint32_t n = 1; n <= STAGES; n++) {
            begin(&c, n, kinds[k]);
            assert_true(run(&c, NULL));
            for (uint32_t i = 0; i < SEQUENCES; i++) {
                assert_int_equal(c.lines[i].n, IDS);
            }
            end(&c);
        }
    }
}

/* ---- disturbances, at the last stage, in the last but one round ---- */

static bool now(const struct chain *c, uint32_t stage)
{
    return c->round == ROUNDS - 2 && stage == c->n_stages - 1;
}

static void swap_microbatches(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].plan.hidden = c->batches[1].hidden;
        c->batches[1].plan.hidden = c->batches[0].hidden;
    }
}

static void swap_rows(struct chain *c, uint32_t stage)
{
    float *x = c->batches[0].hidden, y[FAKE_HIDDEN];

    if (now(c, stage)) {
        memcpy(y, x, sizeof(y));
        memcpy(x, x + FAKE_HIDDEN, sizeof(y));
        memcpy(x + FAKE_HIDDEN, y, sizeof(y));
    }
}

static void repeat_round(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[1].plan.hidden = c->batches[1].older;
    }
}

static void skip_stage(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[1].plan.hidden = c->batches[1].before;
    }
}

static void lose_hidden(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].plan.hidden = NULL;
    }
}

static void give_first_hidden(struct chain *c, uint32_t stage)
{
    if (stage == 0) {
        c->batches[0].plan.hidden = c->batches[0].hidden;
    }
}

/* Swaps two of a row's own blocks. */
static void turn_table(struct chain *c, uint32_t stage)
{
    struct microbatch *b = &c->batches[0];
    uint32_t first = b->blocks[0];

    if (now(c, stage)) {
        assert_true(b->rows[0].n_blocks >= 2);
        b->blocks[0] = b->blocks[1];
        b->blocks[1] = first;
    }
}

/* Uses the block table of a sequence that is not in this plan. */
static void borrow_table(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        memcpy(c->batches[1].blocks, c->batches[0].blocks,
               sizeof(c->batches[0].blocks));
        c->batches[0].plan.n_rows = 0;
    }
}

static void forget_zeroing(struct chain *c, uint32_t stage)
{
    if (stage == c->n_stages - 1) {
        c->batches[0].plan.n_zero = 0;
    }
}

static void zero_again(struct chain *c, uint32_t stage)
{
    struct microbatch *b = &c->batches[0];

    if (now(c, stage)) {
        b->plan.zero_slots[b->plan.n_zero++] = b->rows[1].slot;
    }
}

static void swap_slots(struct chain *c, uint32_t stage)
{
    struct plan_row *r = c->batches[0].rows;
    uint32_t slot = r[0].slot;

    if (now(c, stage)) {
        r[0].slot = r[1].slot;
        r[1].slot = slot;
    }
}

static void take_for_prompt(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].rows[1].kind = ROW_PROMPT;
    }
}

static void chain_row(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].rows[1].chained = true;
        c->batches[0].rows[1].chain_row = 1;
    }
}

static void break_tiling(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].rows[0].token = 1;
        c->batches[0].rows[1].token = 0;
    }
}

static void lose_sampling(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].rows[0].sampling = NULL;
    }
}

static void other_index(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        c->batches[0].rows[0].index++;
    }
}

static void drop_round(struct chain *c, uint32_t stage)
{
    if (c->round == ROUNDS - 2 && stage == 1) {
        c->batches[0].plan.n_rows = 0;
    }
}

static void change_in_flight(struct sim *s, uint32_t unused, uint64_t hidden)
{
    (void)s, (void)unused;
    *(float *)(uintptr_t)hidden += 1;
}

static void overwrite(struct chain *c, uint32_t stage)
{
    if (now(c, stage)) {
        clock_add(&c->sim->clock, sim_now(c->sim), change_in_flight, 0,
                  (uintptr_t)c->batches[0].hidden);
    }
}

/* Checks that the disturbance is detected with 2 to 4 stages of a model with
 * these attention layers. */
static void see(disturb_fn *disturb, uint32_t attention)
{
    struct chain c;

    for (uint32_t n = 2; n <= STAGES; n++) {
        begin(&c, n, attention);
        assert_false(run(&c, disturb));
        end(&c);
    }
}

static void disturbances_are_seen(void **state)
{
    static disturb_fn *const any[] = {
        swap_microbatches, swap_rows,   repeat_round, skip_stage,
        lose_hidden,       other_index, chain_row,    give_first_hidden,
        take_for_prompt,   overwrite,   break_tiling, lose_sampling,
        drop_round};

    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        for (uint32_t i = 0; i < sizeof(any) / sizeof(*any); i++) {
            see(any[i], kinds[k]);
        }
    }
    see(turn_table, 0x80);
    see(borrow_table, 0x80);
    see(forget_zeroing, 0x08);
    see(zero_again, 0x08);
    see(swap_slots, 0x08);
}

/* A fault that no check can detect, because only the ids differ, changes the
 * token: microbatches that are swapped at every stage. */
static void a_digest_shows_swapped_ids(void **state)
{
    struct chain c;

    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        begin(&c, 2, kinds[k]);
        assert_false(run(&c, swap_microbatches));
        assert_false(c.sim->failed);
        end(&c);
    }
}

/* Flips any bit of any lane. */
static void a_bit_is_seen(void **state)
{
    const struct fake_hidden h = {.token = 77, .where = 12, .a = 1, .s = 2};
    struct fake_hidden out;
    float x[FAKE_HIDDEN];

    (void)state;
    fake_hidden_put(x, &h, 99, 3);
    assert_true(fake_hidden_get(&out, x, 99, 3));
    assert_int_equal(out.token, 77);
    assert_int_equal(out.where, 12);
    assert_false(out.has_a || out.has_s || out.tainted);
    assert_false(fake_hidden_get(&out, x, 99, 4));
    assert_false(fake_hidden_get(&out, x, 98, 3));
    for (uint32_t bit = 0; bit < sizeof(x) * 8; bit++) {
        ((uint8_t *)x)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(fake_hidden_get(&out, x, 99, 3));
        ((uint8_t *)x)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(fake_hidden_get(&out, x, 99, 3));
}

static void submit_first(struct chain *c, uint32_t stage)
{
    struct engine *engine = fake_engine_seam(c->engines[stage]);

    assert_int_equal(engine_submit(engine, &c->batches[0].plan), ST_OK);
    run_clock(c->sim);
}

/* A stage whose step failed marks the sequence for the stages after it, which
 * then tolerate its remaining steps. */
static void a_failed_step_taints(void **state)
{
    struct chain c;
    struct plan *p = &c.batches[0].plan;

    (void)state;
    begin(&c, 2, 0x88);
    c.sim->options.workers[0].fail_of = 10000;
    fill(&c, 0, 0);
    submit_first(&c, 0);
    assert_true(engine_poll(fake_engine_seam(c.engines[0]), &c.out));
    assert_int_equal(c.out.status, ST_INTERNAL);
    assert_null(c.out.hidden);
    c.sim->options.workers[0].fail_of = 0;
    c.lines[0].n_run = c.lines[1].n_run = CHUNK;
    fill(&c, 0, 0);
    submit_first(&c, 0);
    assert_true(poll_hidden(&c, 0, 0));
    fill(&c, 0, 1);
    for (uint32_t i = 0; i < ROWS; i++) { /* first run on this stage */
        p->zero_slots[p->n_zero++] = p->rows[i].slot;
    }
    submit_first(&c, 1);
    assert_true(engine_poll(fake_engine_seam(c.engines[1]), &c.out));
    assert_false(c.sim->failed);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_do_not_depend_on_stages),
        cmocka_unit_test(disturbances_are_seen),
        cmocka_unit_test(a_digest_shows_swapped_ids),
        cmocka_unit_test(a_bit_is_seen),
        cmocka_unit_test(a_failed_step_taints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
