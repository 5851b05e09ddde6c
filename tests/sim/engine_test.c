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

#define TOKENS  256
#define PAGES   96
#define PER     3 /* pages of a slot */
#define SLOT(i) (60 + PER * (i))

struct bench {
    struct sim *sim;
    struct fake_engine *engine;
    struct engine *seam;
    struct plan plan[2];
    struct plan_row rows[2][4];
    uint32_t tokens[2][TOKENS], blocks[2][TOKENS], zero[2][4];
    struct plan_save saves[2][4];
    struct plan_copy before[2][4], after[2][4], poison[2][4];
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
                                               .context = TOKENS};
    s->options.workers[0] = (struct worker_draw){.block_tokens = 4,
                                                 .max_rows = 4,
                                                 .step_tokens = TOKENS,
                                                 .chunk_tokens = 128,
                                                 .depth = 2,
                                                 .step_us = 100};
    s->options.pools.workers[0] = (struct pool_of_worker){
        .n_pages = PAGES, .pages_per_slot = PER, .slot_cap = 8};
    b->engine = s->engines[0] = fake_engine_new(s, 0);
    b->seam = fake_engine_seam(b->engine);
    for (int i = 0; i < 2; i++) {
        b->plan[i] = (struct plan){.step = (uint64_t)i + 1,
                                   .rows = b->rows[i],
                                   .tokens = b->tokens[i],
                                   .blocks = b->blocks[i],
                                   .zero_slots = b->zero[i],
                                   .saves = b->saves[i],
                                   .before = b->before[i],
                                   .after = b->after[i],
                                   .poison = b->poison[i]};
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
                           .slot = SLOT(slot),
                           .sample = true,
                           .sampling = &plain};
    for (uint32_t i = 0; i < n; i++) {
        p->tokens[p->n_tokens++] = 10 + i;
    }
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        p->blocks[p->n_blocks++] = block + i;
    }
    p->zero_slots[p->n_zero++] = SLOT(slot);
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
    assert_int_equal(fake_engine_named(b.engine), 1 + PER);
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
    assert_int_equal(fake_engine_named(b.engine), 0);
    assert_false(b.sim->failed);
    end_engine(&b);
}

/* Submits plan i, and runs it.  Returns its first token. */
static uint32_t run_plan(struct bench *b, uint32_t i)
{
    static struct plan_result out;

    assert_int_equal(engine_submit(b->seam, &b->plan[i]), ST_OK);
    run(b->sim);
    out.tokens[0] = TOKEN_NONE;
    (void)!engine_poll(b->seam, &out);
    return out.tokens[0];
}

static void clear_plan(struct plan *p)
{
    p->n_rows = p->n_tokens = p->n_blocks = p->n_zero = 0;
    p->n_saves = p->n_before = p->n_after = p->n_poison = 0;
}

static void see(struct bench *b, const char *what)
{
    assert_true(b->sim->failed);
    assert_non_null(strstr(b->sim->what, what));
    end_engine(b);
}

static void
test_engine_sees_a_block_that_another_sequence_overwrote(void **state)
{
    struct bench b;
    struct plan_row *r;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 7);
    (void)run_plan(&b, 0);
    clear_plan(&b.plan[0]);
    add_prompt(&b.plan[0], 2, 1, 1, 2); /* its second block */
    (void)run_plan(&b, 0);
    assert_false(b.sim->failed);
    r = add_prompt(&b.plan[1], 1, 0, 0, 1); /* used by the first again */
    b.plan[1].n_zero = 0;
    b.plan[1].blocks[b.plan[1].n_blocks++] = 1;
    r->n_blocks = 2;
    r->position = 7;
    r->kind = ROW_GENERATED;
    (void)run_plan(&b, 1);
    see(&b, "cell of another position");
}

/* Adds a row of tokens [from, n) of the same prompt, which continues a state
 * and shares the blocks from `block` on. */
static struct plan_row *add_rest(struct plan *p, uint64_t sequence,
                                 uint32_t block, uint32_t slot, uint32_t from,
                                 uint32_t n)
{
    struct plan_row *r = add_prompt(p, sequence, block, slot, n);

    p->n_zero--;
    p->n_tokens -= n;
    for (uint32_t i = from; i < n; i++) {
        p->tokens[p->n_tokens++] = 10 + i;
    }
    r->position = from;
    r->n_tokens = n - from;
    return r;
}

static void add_save(struct bench *b, uint32_t i, uint32_t position,
                     uint32_t slot)
{
    struct plan *p = &b->plan[i];
    struct plan_row *r = &p->rows[p->n_rows - 1];

    r->save = r->n_saves ? r->save : p->n_saves;
    r->n_saves++;
    p->saves[p->n_saves++] = (struct plan_save){position, SLOT(slot)};
}

static struct plan_copy *add_before(struct plan *p, uint32_t from, uint32_t to,
                                    uint32_t n)
{
    p->before[p->n_before] = (struct plan_copy){.from = from, .to = to, .n = n};
    return &p->before[p->n_before++];
}

/* Runs a prompt of 100 tokens that saves its state after 64, in the middle of
 * the row. */
static void save_at_64(struct bench *b)
{
    begin_engine(b);
    add_prompt(&b->plan[0], 1, 0, 0, 100);
    add_save(b, 0, 64, 2);
    assert_int_equal(run_plan(b, 0), right_token(b, 100));
    clear_plan(&b->plan[0]);
}

static void test_a_restored_prefix_gives_the_cold_token(void **state)
{
    struct bench b;
    struct plan_row *r;

    (void)state;
    save_at_64(&b);
    /* Another sequence with the first 16 blocks, and its own after them. */
    r = add_rest(&b.plan[1], 2, 0, 1, 64, 90);
    for (uint32_t k = 16; k < r->n_blocks; k++) {
        b.plan[1].blocks[r->block + k] = 30 + k;
    }
    add_before(&b.plan[1], SLOT(2), SLOT(1), PER);
    assert_int_equal(run_plan(&b, 1), right_token(&b, 90));
    assert_false(b.sim->failed);
    end_engine(&b);
}

static void test_engine_sees_wrong_restores(void **state)
{
    struct bench b;

    (void)state;
    save_at_64(&b); /* no copy */
    add_rest(&b.plan[1], 2, 0, 1, 64, 90);
    (void)run_plan(&b, 1);
    see(&b, "state of another position");
    save_at_64(&b); /* one block off */
    add_before(&b.plan[1], SLOT(2), SLOT(1), PER);
    add_rest(&b.plan[1], 2, 0, 1, 60, 90);
    (void)run_plan(&b, 1);
    see(&b, "state of another position");
    save_at_64(&b); /* a part of the state only */
    add_before(&b.plan[1], SLOT(2), SLOT(1), PER - 1);
    add_rest(&b.plan[1], 2, 0, 1, 64, 90);
    (void)run_plan(&b, 1);
    see(&b, "state of another position");
    save_at_64(&b); /* a block in the middle of the checkpoint */
    add_prompt(&b.plan[1], 3, SLOT(2) + 1, 3, 2);
    (void)run_plan(&b, 1);
    add_before(&b.plan[0], SLOT(2), SLOT(1), PER);
    add_rest(&b.plan[0], 2, 0, 1, 64, 90);
    (void)run_plan(&b, 0);
    see(&b, "state of another position");
    save_at_64(&b); /* a block that was freed */
    b.plan[1].poison[b.plan[1].n_poison++] =
        (struct plan_copy){.from = 3, .to = 0, .n = 1};
    add_before(&b.plan[1], SLOT(2), SLOT(1), PER);
    add_rest(&b.plan[1], 2, 0, 1, 64, 90);
    (void)run_plan(&b, 1);
    see(&b, "poisoned page");
}

static void test_a_moved_block_is_read_at_its_new_page(void **state)
{
    struct bench b;
    struct plan_row *r;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 8);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    /* While it is in flight, its first block moves for a slot of another. */
    add_before(&b.plan[1], 0, 40, 1);
    r = add_prompt(&b.plan[1], 1, 1, 0, 9); /* blocks 1, 2, 3 */
    b.plan[1].blocks[r->block] = 40;
    b.plan[1].blocks[r->block + 1] = 1;
    b.plan[1].blocks[r->block + 2] = 2;
    b.plan[1].n_zero = 0;
    b.plan[1].tokens[0] = 18;
    r->position = 8;
    r->n_tokens = 1;
    b.plan[1].n_tokens = 1;
    add_prompt(&b.plan[1], 2, 0, 1, 3); /* takes its page */
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    run(b.sim);
    assert_false(b.sim->failed);
    end_engine(&b);
}

static void test_engine_sees_pages_taken_from_plans_in_flight(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b); /* its block */
    add_prompt(&b.plan[0], 1, 0, 0, 8);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    add_prompt(&b.plan[1], 2, 1, 1, 3);
    (void)!engine_submit(b.seam, &b.plan[1]);
    see(&b, "block of another sequence in flight");
    begin_engine(&b); /* its slot, for a block */
    add_prompt(&b.plan[0], 1, 0, 0, 8);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    add_prompt(&b.plan[1], 2, SLOT(0) + 1, 1, 3);
    (void)!engine_submit(b.seam, &b.plan[1]);
    see(&b, "block of another sequence in flight");
    begin_engine(&b); /* freed */
    add_prompt(&b.plan[0], 1, 0, 0, 8);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    add_prompt(&b.plan[1], 2, 8, 1, 3);
    b.plan[1].poison[b.plan[1].n_poison++] =
        (struct plan_copy){.from = 1, .to = 0, .n = 1};
    (void)!engine_submit(b.seam, &b.plan[1]);
    see(&b, "page in flight is free");
    begin_engine(&b); /* overwritten by a copy */
    add_prompt(&b.plan[0], 1, 0, 0, 8);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    add_before(&b.plan[1], 30, 1, 1);
    add_prompt(&b.plan[1], 2, 8, 1, 3);
    (void)!engine_submit(b.seam, &b.plan[1]);
    see(&b, "copy to a page in flight");
}

/* Adds a twin of row 0, with this slot and last block. */
static struct plan_row *add_twin(struct plan *p, uint64_t sequence,
                                 uint32_t slot, uint32_t last)
{
    const struct plan_row *source = &p->rows[0];
    struct plan_row *r = &p->rows[p->n_rows++];

    *r = *source;
    r->sequence = sequence;
    r->position = source->position + source->n_tokens;
    r->n_tokens = 0;
    r->choice = 1;
    r->slot = SLOT(slot);
    r->block = p->n_blocks;
    for (uint32_t k = 0; k < r->n_blocks; k++) {
        p->blocks[p->n_blocks++] = p->blocks[source->block + k];
    }
    p->blocks[p->n_blocks - 1] = last;
    p->after[p->n_after++] =
        (struct plan_copy){.from = source->slot, .to = SLOT(slot), .n = PER};
    p->after[p->n_after++] = (struct plan_copy){
        .from = p->blocks[source->block + source->n_blocks - 1],
        .to = last,
        .n = 1};
    return r;
}

static void test_a_twin_continues_as_if_it_had_computed_the_prompt(void **state)
{
    struct bench b;
    struct plan_result out;
    struct plan_row *r;
    struct oracle o = {0};
    const struct fake_model *m;

    (void)state;
    begin_engine(&b);
    m = &b.sim->options.models[0];
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    run(b.sim);
    assert_true(engine_poll(b.seam, &out));
    for (uint32_t i = 0; i < 10; i++) {
        oracle_feed(&o, m, 10 + i, ROW_PROMPT);
    }
    assert_int_equal(out.tokens[0], oracle_next(&o, m, &plain, 0, 0));
    assert_int_equal(out.tokens[1], oracle_next(&o, m, &plain, 1, 0));
    /* Both go on, each in its own last block. */
    for (uint32_t i = 0; i < 2; i++) {
        r = add_rest(&b.plan[1], 1 + i, 0, i, 10, 11);
        r->kind = ROW_GENERATED;
        r->choice = i;
        r->index = 1;
        b.plan[1].tokens[r->token] = out.tokens[i];
        b.plan[1].blocks[r->block + 2] = i ? 20 : 2;
    }
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    run(b.sim);
    assert_false(b.sim->failed);
    oracle_feed(&o, m, out.tokens[1], ROW_GENERATED);
    assert_true(engine_poll(b.seam, &out));
    assert_int_equal(out.tokens[1], oracle_next(&o, m, &plain, 1, 1));
    end_engine(&b);
}

/* The twin's plan is submitted before the step of its source fails. */
static void test_a_twin_of_a_damaged_state_is_damaged_itself(void **state)
{
    struct bench b;
    struct plan_result out;
    struct plan_row *r;
    struct event e;

    (void)state;
    begin_engine(&b);
    b.sim->options.workers[0].fail_of = 10000;
    add_prompt(&b.plan[0], 1, 0, 0, 64)->sample = false;
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    add_rest(&b.plan[1], 1, 0, 0, 64, 90);
    add_twin(&b.plan[1], 2, 1, 40);
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    assert_true(clock_next(&b.sim->clock, &e));
    e.fn(b.sim, e.a, e.b);
    assert_true(engine_poll(b.seam, &out));
    assert_int_equal(out.status, ST_INTERNAL);
    b.sim->options.workers[0].fail_of = 0;
    clear_plan(&b.plan[0]);
    r = add_rest(&b.plan[0], 2, 0, 1, 90, 91);
    r->kind = ROW_GENERATED;
    r->chained = true;
    r->chain_row = r->choice = r->index = 1;
    b.plan[0].blocks[r->block + 22] = 40;
    (void)run_plan(&b, 0);
    assert_false(b.sim->failed);
    end_engine(&b);
}

static void test_engine_sees_wrong_twins(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b); /* no state of its own */
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20);
    b.plan[0].after[0].to = SLOT(3);
    (void)!engine_submit(b.seam, &b.plan[0]);
    see(&b, "twin without a state");
    begin_engine(&b); /* no source */
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20)->source = 1;
    (void)!engine_submit(b.seam, &b.plan[0]);
    see(&b, "twin without its source");
    begin_engine(&b); /* the source's last block */
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20);
    (void)run_plan(&b, 0);
    for (uint32_t i = 0; i < 2; i++) {
        add_rest(&b.plan[1], 1 + i, 0, i, 10, 11)->kind = ROW_GENERATED;
    }
    (void)!engine_submit(b.seam, &b.plan[1]);
    see(&b, "two uses");
    begin_engine(&b); /* no copy of the last block */
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20);
    b.plan[0].n_after = 1;
    (void)run_plan(&b, 0);
    add_rest(&b.plan[1], 2, 0, 1, 10, 11)->kind = ROW_GENERATED;
    b.plan[1].blocks[2] = 20;
    (void)run_plan(&b, 1);
    see(&b, "cell of another position");
}

static void test_engine_refuses_wrong_saves(void **state)
{
    static const uint32_t positions[] = {0, 32, 65, 128};
    struct bench b;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        begin_engine(&b);
        add_prompt(&b.plan[0], 1, 0, 0, 100);
        add_save(&b, 0, positions[i], 2);
        (void)!engine_submit(b.seam, &b.plan[0]);
        see(&b, "save at a wrong position");
    }
    begin_engine(&b); /* into its own slot */
    add_prompt(&b.plan[0], 1, 0, 0, 100);
    add_save(&b, 0, 64, 0);
    b.plan[0].saves[0].page++;
    (void)!engine_submit(b.seam, &b.plan[0]);
    see(&b, "save at a wrong position or page");
    begin_engine(&b); /* two to one page */
    add_prompt(&b.plan[0], 1, 0, 0, 100);
    add_save(&b, 0, 64, 2);
    add_prompt(&b.plan[0], 2, 30, 1, 100);
    add_save(&b, 0, 64, 2);
    (void)!engine_submit(b.seam, &b.plan[0]);
    see(&b, "two uses");
}

static void test_a_failed_step_leaves_its_states_as_garbage(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b);
    b.sim->options.workers[0].fail_of = 10000;
    add_prompt(&b.plan[0], 1, 0, 0, 100);
    add_save(&b, 0, 64, 2);
    (void)run_plan(&b, 0);
    assert_false(b.sim->failed);
    b.sim->options.workers[0].fail_of = 0;
    clear_plan(&b.plan[0]); /* the blocks are right, the checkpoint is not */
    add_prompt(&b.plan[0], 3, 0, 3, 100);
    (void)run_plan(&b, 0);
    assert_false(b.sim->failed);
    add_before(&b.plan[1], SLOT(2), SLOT(1), PER);
    add_rest(&b.plan[1], 2, 0, 1, 64, 90);
    (void)run_plan(&b, 1);
    see(&b, "state of another position");
}

/* A sequence that goes on from a failed step writes damaged cells: what others
 * then read in them shows. */
static void test_engine_sees_cells_from_a_damaged_state(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b);
    b.sim->options.workers[0].fail_of = 10000;
    add_prompt(&b.plan[0], 1, 0, 0, 64);
    (void)run_plan(&b, 0);
    b.sim->options.workers[0].fail_of = 0;
    add_rest(&b.plan[1], 1, 0, 0, 64, 128);
    (void)run_plan(&b, 1);
    assert_false(b.sim->failed);
    clear_plan(&b.plan[0]);
    add_rest(&b.plan[0], 2, 0, 1, 128, 132)->slot = SLOT(0);
    (void)run_plan(&b, 0);
    assert_true(b.sim->failed);
    end_engine(&b);
}

static void test_a_refused_plan_has_no_effect(void **state)
{
    struct bench b;

    (void)state;
    begin_engine(&b);
    b.sim->options.pools.workers[0].refuse_of = 10000;
    add_prompt(&b.plan[0], 1, 0, 0, 100);
    add_prompt(&b.plan[0], 2, 30, 1, 100);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(fake_engine_named(b.engine), 0);
    b.sim->options.pools.workers[0].refuse_of = 0;
    clear_plan(&b.plan[0]);
    add_prompt(&b.plan[0], 1, 0, 0, 100);
    assert_int_equal(run_plan(&b, 0), right_token(&b, 100));
    assert_false(b.sim->failed);
    end_engine(&b);
}

/* Their blocks have cells of a previous sequence at the same positions. */
static void
test_twins_of_a_failed_step_are_computed_again_together(void **state)
{
    struct bench b;
    struct plan_row *r;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 9, 0, 2, 10);
    for (uint32_t i = 0; i < 10; i++) {
        b.plan[0].tokens[i] += 100;
    }
    (void)run_plan(&b, 0);
    b.sim->options.workers[0].fail_of = 10000;
    clear_plan(&b.plan[0]);
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20);
    (void)run_plan(&b, 0);
    b.sim->options.workers[0].fail_of = 0;
    clear_plan(&b.plan[0]);
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    r = add_prompt(&b.plan[1], 2, 0, 1, 10);
    b.plan[1].blocks[r->block + 2] = 20;
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    run(b.sim);
    assert_false(b.sim->failed);
    end_engine(&b);
}

/* A row of the twin is still in flight, and computes garbage. */
static void test_a_source_is_computed_again_behind_a_damaged_twin(void **state)
{
    struct bench b;
    struct plan_result out;
    struct plan_row *r;
    struct event e;

    (void)state;
    begin_engine(&b);
    add_prompt(&b.plan[0], 9, 0, 2, 10);
    for (uint32_t i = 0; i < 10; i++) {
        b.plan[0].tokens[i] += 100;
    }
    (void)run_plan(&b, 0);
    b.sim->options.workers[0].fail_of = 10000;
    clear_plan(&b.plan[0]);
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    add_twin(&b.plan[0], 2, 1, 20);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    r = add_rest(&b.plan[1], 2, 0, 1, 10, 11);
    r->kind = ROW_GENERATED;
    r->chained = true;
    r->chain_row = r->choice = r->index = 1;
    b.plan[1].blocks[r->block + 2] = 20;
    assert_int_equal(engine_submit(b.seam, &b.plan[1]), ST_OK);
    assert_true(clock_next(&b.sim->clock, &e));
    e.fn(b.sim, e.a, e.b);
    assert_true(engine_poll(b.seam, &out));
    clear_plan(&b.plan[0]);
    add_prompt(&b.plan[0], 1, 0, 0, 10);
    assert_int_equal(engine_submit(b.seam, &b.plan[0]), ST_OK);
    assert_false(b.sim->failed);
    end_engine(&b);
}

static void test_kinds_matter_unless_arithmetic_is_one(void **state)
{
    struct oracle a = {0}, c = {0};
    struct fake_model m = {.salt = 3, .attention = true, .linear = true};

    (void)state;
    oracle_feed(&a, &m, 7, ROW_PROMPT);
    oracle_feed(&c, &m, 7, ROW_GENERATED);
    assert_true(a.a != c.a && a.s != c.s && a.h != c.h);
    m.one_arithmetic = true;
    a = c = (struct oracle){0};
    oracle_feed(&a, &m, 7, ROW_PROMPT);
    oracle_feed(&c, &m, 7, ROW_GENERATED);
    assert_true(a.a == c.a && a.s == c.s && a.h != c.h);
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
    refuse(&b, "two uses");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    add_prompt(&b.plan[0], 2, 1, 0, 3);
    refuse(&b, "two uses");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    b.plan[0].n_zero = 0;
    refuse(&b, "not zeroed");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 6)->n_blocks = 1;
    refuse(&b, "does not cover");
    begin_engine(&b);
    add_prompt(&b.plan[0], 1, 0, 0, 3);
    (void)run_plan(&b, 0);
    clear_plan(&b.plan[0]);
    add_rest(&b.plan[0], 1, 0, 0, 4, 6);
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
        cmocka_unit_test(
            test_engine_sees_a_block_that_another_sequence_overwrote),
        cmocka_unit_test(test_a_restored_prefix_gives_the_cold_token),
        cmocka_unit_test(test_engine_sees_wrong_restores),
        cmocka_unit_test(test_a_moved_block_is_read_at_its_new_page),
        cmocka_unit_test(test_engine_sees_pages_taken_from_plans_in_flight),
        cmocka_unit_test(
            test_a_twin_continues_as_if_it_had_computed_the_prompt),
        cmocka_unit_test(test_a_twin_of_a_damaged_state_is_damaged_itself),
        cmocka_unit_test(test_engine_sees_wrong_twins),
        cmocka_unit_test(test_engine_refuses_wrong_saves),
        cmocka_unit_test(test_a_failed_step_leaves_its_states_as_garbage),
        cmocka_unit_test(test_engine_sees_cells_from_a_damaged_state),
        cmocka_unit_test(test_a_refused_plan_has_no_effect),
        cmocka_unit_test(
            test_twins_of_a_failed_step_are_computed_again_together),
        cmocka_unit_test(test_a_source_is_computed_again_behind_a_damaged_twin),
        cmocka_unit_test(test_kinds_matter_unless_arithmetic_is_one),
        cmocka_unit_test(test_engine_refuses_wrong_plans),
        cmocka_unit_test(test_engine_sees_a_plan_change),
        cmocka_unit_test(test_engine_reads_the_history),
        cmocka_unit_test(test_engine_sees_a_wrong_history),
        cmocka_unit_test(test_logprobs_are_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
