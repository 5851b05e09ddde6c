/* A stage that keeps what the leader's index keeps: restores, saves, twins,
 * continuations, ranges, and what breaks the assembly. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

#define NONE UINT32_MAX
#define ANEW ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW)
#define SLOT 3u /* pages */

static struct bench *stand(bool last)
{
    struct bench *b = bench_new(last);

    bench_assemble(b);
    return b;
}

static uint32_t free_pages(const struct bench *b)
{
    return bench_account(b).pages.free;
}

static uint32_t cached_pages(const struct bench *b)
{
    return bench_account(b).pages.cached;
}

static void intact(const struct bench *b)
{
    if (b->n_broken > 0) {
        fail_msg("broken: %s", b->why);
    }
}

/* Opens a sequence that computes a prompt of n ids, 64 at a time, saves its
 * state at 64 and 128, and keeps its nodes: 10, 11, .. with checkpoints 70 and
 * 71. */
static uint64_t computed(struct bench *b, uint32_t n)
{
    uint64_t grant = bench_open_plain(b, n, 8);

    for (uint32_t at = 0, k = 0; at < n; at += 64, k++) {
        uint32_t count = n - at < 64 ? n - at : 64;
        struct bench_forward f;

        bench_begin(b, &f);
        bench_row(&f, grant, false, at, count, at + count == n ? 0 : NONE);
        if (count == 64 && k < 2) {
            bench_save(&f, at + 64, 70 + k);
        }
        bench_send(b, &f);
        bench_run(b);
        if (count == 64) {
            bench_keep(b, grant, 10 + k, k == 0 ? NONE : 9 + k, at + 64);
        }
    }
    intact(b);
    return grant;
}

/* ---- restores ---- */

static void goes_on_from_what_another_computed(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 150), two;
    uint32_t left = free_pages(b);

    (void)state;
    two = bench_open_plain(b, 150, 8);
    assert_int_equal(free_pages(b), left - 20 - SLOT);
    bench_restore(b, two, 128, 11, 71);
    assert_int_equal(free_pages(b), left - 4 - SLOT); /* 16 are shared */
    bench_forward(b, two, false, 128, 22, 0);
    assert_int_equal(b->plan->n_before, 1);
    assert_int_equal(b->plan->n_zero, 0);
    bench_run(b); /* the engine compares its blocks with its state */
    bench_forward(b, two, true, 150, 1, 1);
    bench_run(b);
    intact(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESTORE)->grant, two);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESTORE)->n, 128);
    assert_int_equal(bench_last(b, METHOD_STAGE_KEEP)->grant, one);
    assert_int_equal(bench_last(b, METHOD_STAGE_KEEP)->c[0], 128);
    bench_free(&b);
}

static void keeps_it_after_the_sequence(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = computed(b, 150), two;

    (void)state;
    bench_remove(b, one);
    assert_int_equal(cached_pages(b), 16 + 2 * SLOT);
    assert_int_equal(free_pages(b), BENCH_PAGES - 16 - 2 * SLOT);
    two = bench_open_plain(b, 150, 8);
    bench_restore(b, two, 64, 10, 70);
    assert_int_equal(cached_pages(b), 8 + 2 * SLOT);
    bench_forward(b, two, false, 64, 64, NONE);
    bench_run(b);
    bench_gone(b, 11, 71);
    assert_int_equal(cached_pages(b), SLOT);
    bench_gone(b, 10, 70); /* its blocks are held */
    assert_int_equal(cached_pages(b), 0);
    bench_forward(b, two, false, 128, 22, 0);
    bench_run(b);
    bench_remove(b, two);
    intact(b);
    assert_int_equal(free_pages(b), BENCH_PAGES);
    bench_free(&b);
}

/* The checkpoint goes, and its pages are used, before the row that needs its
 * state is computed. */
static void copies_a_state_before_its_pages_are_used_again(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 130), two, three;

    (void)state;
    bench_remove(b, one);
    two = bench_open_plain(b, 130, 8);
    bench_restore(b, two, 128, 11, 71);
    bench_gone(b, NONE, 70);
    bench_gone(b, NONE, 71);
    for (int i = 0; i < 3; i++) { /* someone gets those pages */
        three = bench_open_plain(b, 8, 8);
        bench_forward(b, three, false, 0, 8, 0);
    }
    bench_run(b);
    bench_run(b);
    bench_forward(b, two, false, 128, 2, 0);
    while (bench_run(b)) {
    }
    intact(b);
    bench_free(&b);
}

/* Blocks move to make room for a slot while the plan before still waits. */
static void moves_blocks_behind_plans_that_wait(void **state)
{
    struct bench *b = stand(false);
    uint64_t grants[8], last;

    (void)state;
    /* 7 sequences of 7 blocks fill the pool but for their slots. */
    for (uint32_t i = 0; i < 7; i++) {
        grants[i] = bench_open_plain(b, 48, 8);
        bench_forward(b, grants[i], false, 0, 48, 0);
        bench_run(b);
    }
    for (uint32_t i = 0; i < 7; i += 2) {
        bench_remove(b, grants[i]);
    }
    bench_forward(b, grants[1], true, 48, 1, 1); /* waits in line */
    bench_forward(b, grants[3], true, 48, 1, 1);
    last = bench_open_plain(b, 240, 8);
    bench_forward(b, last, false, 0, 64, NONE);
    while (bench_run(b)) {
    }
    bench_forward(b, grants[5], true, 48, 1, 1);
    bench_run(b);
    bench_forward(b, grants[1], true, 49, 1, 2);
    bench_run(b);
    intact(b);
    bench_free(&b);
}

static void begins_anew_from_a_restore(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 150);
    struct bench_forward f;

    (void)state;
    b->fail_next = "the device burns";
    bench_forward(b, one, true, 150, 1, 1);
    bench_run(b);
    bench_restore(b, one, 128, NONE, 71); /* its own blocks */
    bench_begin(b, &f);
    bench_row(&f, one, false, 128, 22, 1);
    f.kind[0] = ANEW;
    bench_send(b, &f);
    assert_int_equal(b->plan->n_before, 1);
    bench_run(b);
    bench_forward(b, one, true, 150, 1, 1);
    bench_run(b);
    intact(b);
    assert_string_equal(bench_last(b, METHOD_STAGE_FORWARD)->failure, "");
    bench_free(&b);
}

/* ---- twins ---- */

static void a_twin_samples_from_its_source(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = bench_open_plain(b, 44, 8), two = bench_open_plain(b, 44, 8);
    uint64_t three = bench_open_plain(b, 44, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 44, 0);
    bench_twin(&f, two, 0, 44);
    bench_twin(&f, three, 0, 44);
    bench_send(b, &f);
    assert_int_equal(b->plan->n_after, 4); /* a slot and a block each */
    /* 5 full blocks are shared. */
    assert_int_equal(free_pages(b), BENCH_PAGES - 3 * 7 - 3 * SLOT + 2 * 5);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->n, 3);
    assert_int_equal(s->tokens[1], s->tokens[0]);
    bench_forward(b, two, true, 44, 1, 1);
    bench_run(b);
    bench_remove(b, one);
    bench_forward(b, three, true, 44, 1, 1);
    bench_run(b);
    bench_forward(b, two, true, 45, 1, 2);
    bench_run(b);
    intact(b);
    bench_free(&b);
}

/* Its step fails while the one with the twin waits behind it: the engine takes
 * a twin only with a source that samples. */
static void a_twin_of_a_spoilt_source_is_spoilt(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = bench_open_plain(b, 44, 8), two = bench_open_plain(b, 44, 8);
    uint64_t three = bench_open_plain(b, 8, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    b->astray = true;
    b->fail_next = "the device burns";
    bench_forward(b, one, false, 0, 40, NONE);
    bench_begin(b, &f);
    bench_row(&f, one, false, 40, 4, 0);
    bench_twin(&f, two, 0, 44);
    bench_row(&f, three, false, 0, 8, 0);
    bench_send(b, &f);
    bench_run(b);
    assert_int_equal(b->plan->n_rows, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(b->plan->rows[i].sample);
    }
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->n, 3);
    assert_int_equal(s->tokens[0], 0); /* no token of a spoilt sequence */
    assert_int_equal(s->tokens[1], 0);
    assert_int_not_equal(s->tokens[2], 0);
    bench_free(&b);
}

static void passes_twins_and_saves_on(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 64, 8), two = bench_open_plain(b, 64, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 64, 0);
    bench_save(&f, 64, 5);
    bench_twin(&f, two, 0, 64);
    bench_send(b, &f);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_FORWARD);
    assert_int_equal(s->n, 2);
    assert_int_equal(s->count[1], 0);
    assert_int_equal(s->n_sources, 1);
    assert_int_equal(s->source[0], 0);
    assert_int_equal(s->n_saves, 1);
    assert_int_equal(s->save_row[0], 0);
    assert_int_equal(s->save_position[0], 64);
    assert_int_equal(s->save_name[0], 5);
    bench_forward(b, two, true, 64, 1, 1);
    bench_run(b);
    intact(b);
    bench_free(&b);
}

/* ---- continuations and ranges ---- */

static void takes_over_a_kept_sequence(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 130), two;
    uint32_t left;

    (void)state;
    bench_forward(b, one, true, 130, 1, 1);
    bench_run(b);
    left = free_pages(b);
    two = bench_open_plain(b, 150, 8);
    bench_continue(b, two, 131, one);
    assert_int_equal(free_pages(b), left - 20 + 17);
    bench_remove(b, one);
    bench_forward(b, two, false, 131, 19, 0);
    assert_int_equal(b->plan->n_before, 0);
    bench_run(b);
    bench_forward(b, two, true, 150, 1, 1);
    bench_run(b);
    intact(b);
    bench_remove(b, two);
    assert_int_equal(free_pages(b), BENCH_PAGES - 16 - 2 * SLOT);
    bench_free(&b);
}

static void a_range_takes_a_sequence_back(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 150), two;
    uint32_t left = free_pages(b);

    (void)state;
    bench_cut(b, one, 64, 70);
    assert_int_equal(free_pages(b), left + 4);
    assert_int_equal(bench_account(b).blocks.cached, 8);
    two = bench_open_plain(b, 80, 8);
    bench_continue(b, two, 64, one);
    bench_remove(b, one);
    bench_forward(b, two, false, 64, 16, 0);
    bench_run(b);
    intact(b);
    bench_remove(b, two);
    bench_gone(b, 11, 71);
    bench_gone(b, 10, 70);
    assert_int_equal(free_pages(b), BENCH_PAGES);
    bench_free(&b);
}

/* A kept sequence samples no more. */
static void a_range_frees_the_ids_for_penalties(void **state)
{
    struct bench *b = stand(true);
    struct bench_open o;

    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        bench_open(b, &o, 8, 248);
        o.sampling.has_frequency_penalty = true;
        o.sampling.frequency_penalty = 1;
        o.m.n_tokens = 8;
        bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
        intact(b);
        bench_forward(b, b->grant, false, 0, 8, 0);
        bench_run(b);
        bench_cut(b, b->grant, 0, NONE);
    }
    for (uint32_t i = 0; i < 40; i++) {
        bench_remove(b, b->grant - i);
    }
    intact(b);
    bench_free(&b);
}

static void a_range_from_zero_frees_the_slot(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 8, 8);

    (void)state;
    bench_forward(b, one, false, 0, 8, 0);
    bench_run(b);
    bench_cut(b, one, 0, NONE);
    assert_int_equal(free_pages(b), BENCH_PAGES);
    bench_remove(b, one);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[0], 0);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->slots[0], 0);
    intact(b);
    bench_free(&b);
}

/* ---- failures ---- */

/* Its memory is taken like that of any Forward: other stages took theirs. */
static void a_failed_forward_takes_its_memory(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 72, 8), two = bench_open_plain(b, 72, 8);
    uint32_t left = free_pages(b);
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 72, 0);
    bench_save(&f, 64, 5);
    bench_twin(&f, two, 0, 72);
    f.m.has_failure = true;
    f.m.failure = wire_text("stage 0: its fault");
    bench_send(b, &f);
    assert_int_equal(b->n_plans, 0);
    assert_int_equal(free_pages(b), left - SLOT + 9);
    assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->n_saves, 1);
    assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->n_sources, 1);
    bench_gone(b, NONE, 5);
    bench_begin(b, &f);
    bench_row(&f, two, false, 0, 64, NONE);
    f.kind[0] |= ANEW;
    bench_send(b, &f);
    assert_int_equal(b->plan->n_zero, 1);
    bench_run(b);
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 64, NONE);
    f.kind[0] |= ANEW;
    bench_send(b, &f);
    bench_run(b);
    intact(b);
    bench_free(&b);
}

/* The engine did not copy: the next plan does. */
static void copies_of_a_refused_plan_are_not_lost(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 130), two = bench_open_plain(b, 130, 8);
    uint64_t three = bench_open_plain(b, 130, 8);

    (void)state;
    bench_remove(b, one);
    bench_restore(b, two, 128, 11, 71);
    bench_restore(b, three, 128, 11, 71);
    b->refuse_plans = true;
    bench_forward(b, two, false, 128, 2, 0);
    assert_null(b->plan);
    b->refuse_plans = false;
    bench_forward(b, three, false, 128, 2, 0);
    assert_int_equal(b->plan->n_before, 2);
    bench_run(b);
    intact(b);
    bench_free(&b);
}

/* A step after the one that computed them has failed. */
static void keeps_what_was_computed_before_a_failure(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 150, 8), two;

    (void)state;
    bench_forward(b, one, false, 0, 64, NONE);
    bench_run(b);
    bench_forward(b, one, false, 64, 64, NONE);
    b->fail_next = "the device burns";
    bench_run(b);
    bench_keep(b, one, 3, NONE, 64);
    intact(b);
    two = bench_open_plain(b, 80, 8);
    bench_restore(b, two, 0, NONE, NONE);
    intact(b);
    bench_keep(b, one, 4, 3, 128);
    bench_check_broken(b, "node 4 ends at 128, but a step failed that computed "
                          "from 64 on");
    bench_free(&b);
}

/* ---- the end ---- */

static void drops_everything_with_the_assembly(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = computed(b, 150), two;

    (void)state;
    bench_forward(b, one, true, 150, 1, 1); /* at the engine */
    two = bench_open_plain(b, 150, 8);
    bench_restore(b, two, 128, 11, 71);
    bench_assemble(b);
    assert_int_equal(free_pages(b), BENCH_PAGES);
    bench_run(b);
    assert_int_equal(free_pages(b), BENCH_PAGES);
    (void)computed(b, 150); /* under the same names */
    bench_free(&b);
}

static void adds_its_pool_to_the_geometry(void **state)
{
    struct bench *b = stand(false);
    const struct bench_said *s;

    (void)state;
    bench_geometry(b);
    s = bench_last(b, METHOD_STAGE_GEOMETRY);
    assert_int_equal(s->n, 1);
    assert_int_equal(s->a[0], BENCH_PAGES);
    assert_int_equal(s->b[0], 1);
    assert_int_equal(s->c[0], SLOT);
    bench_open_plain(b, 8, 8);
    bench_geometry(b);
    bench_check_broken(b, "Geometry of 0, 0 and 0 stages, but it passed 0, and "
                          "an Open came first");
    bench_free(&b);
}

/* ---- a stage that lacks a class ---- */

static void a_stage_without_blocks_restores_states(void **state)
{
    struct worker_options o;
    struct bench *b;
    uint64_t one, two;

    (void)state;
    bench_options(&o, false);
    o.pool.pages_per_block = 0;
    o.pool.pages_per_slot = 1;
    o.pool.n_pages = 12;
    b = bench_new_with(&o, false);
    bench_assemble(b);
    one = computed(b, 150);
    bench_remove(b, one);
    assert_int_equal(cached_pages(b), 2);
    two = bench_open_plain(b, 150, 8);
    bench_restore(b, two, 128, 11, 71);
    bench_forward(b, two, false, 128, 22, 0);
    assert_int_equal(b->plan->rows[0].n_blocks, 0);
    bench_run(b);
    bench_gone(b, 10, 70);
    intact(b);
    assert_int_equal(cached_pages(b), 1);
    bench_free(&b);
}

static void a_stage_without_slots_restores_blocks(void **state)
{
    struct worker_options o;
    struct bench *b;
    uint64_t one, two;

    (void)state;
    bench_options(&o, false);
    o.pool.pages_per_slot = 0;
    o.pool.n_pages = 64;
    b = bench_new_with(&o, false);
    bench_assemble(b);
    one = computed(b, 150);
    bench_remove(b, one);
    assert_int_equal(cached_pages(b), 16);
    two = bench_open_plain(b, 150, 8);
    bench_restore(b, two, 128, 11, 71);
    bench_forward(b, two, false, 128, 22, 0);
    assert_int_equal(b->plan->n_before, 0);
    assert_int_equal(b->plan->rows[0].slot, SLOT_NONE);
    bench_run(b);
    bench_gone(b, NONE, 71);
    intact(b);
    bench_free(&b);
}

/* ---- forged messages ---- */

struct forged {
    const char *text;
    void (*say)(struct bench *b, uint64_t one, uint64_t two);
};

#define FORGE(name, ...)                                          \
    static void name(struct bench *b, uint64_t one, uint64_t two) \
    {                                                             \
        (void)one, (void)two;                                     \
        __VA_ARGS__;                                              \
    }

static void save_at(struct bench *b, uint64_t two, uint32_t position,
                    uint32_t name)
{
    struct bench_forward f;

    bench_begin(b, &f);
    bench_row(&f, two, false, 0, 64, NONE);
    bench_save(&f, position, name);
    bench_send(b, &f);
}

static void twin_of(struct bench *b, uint64_t two, uint32_t source,
                    uint32_t position)
{
    struct bench_forward f;

    bench_begin(b, &f);
    bench_row(&f, two, false, 0, 64, NONE);
    bench_twin(&f, bench_open_plain(b, 150, 8), source, position);
    bench_send(b, &f);
}

FORGE(node_unknown, bench_restore(b, two, 64, 9, 70))
FORGE(node_elsewhere, bench_restore(b, two, 64, 11, 70))
FORGE(no_node_there, bench_restore(b, two, 63, 10, 70))
FORGE(checkpoint_unknown, bench_restore(b, two, 64, 10, 9))
FORGE(no_node, bench_restore(b, two, 64, NONE, 70))
FORGE(no_checkpoint, bench_restore(b, two, 64, 10, NONE))
FORGE(behind_its_ids, bench_restore(b, two, 150, NONE, 71))
FORGE(not_open, bench_restore(b, 999, 64, 10, 70))
FORGE(no_grant, bench_restore(b, 0, 64, 10, 70))
FORGE(cut_beyond, bench_cut(b, one, 151, 70))
FORGE(row_of_a_cut,
      (bench_cut(b, one, 64, 70), bench_forward(b, one, false, 64, 64, NONE)))
FORGE(from_nothing, bench_continue(b, two, 64, 999))
FORGE(from_elsewhere, bench_continue(b, two, 149, one))
FORGE(from_itself, bench_continue(b, two, 0, two))
FORGE(keep_again, bench_keep(b, one, 10, NONE, 64))
FORGE(keep_the_same, bench_keep(b, one, 20, NONE, 64))
FORGE(keep_no_unit, bench_keep(b, one, 20, 11, 150))
FORGE(keep_orphan, bench_keep(b, one, 20, 21, 128))
FORGE(keep_uncomputed, bench_keep(b, two, 20, NONE, 64))
FORGE(keep_not_open, bench_keep(b, 999, 20, NONE, 64))
FORGE(gone_unknown, bench_gone(b, 9, NONE))
FORGE(gone_state, bench_gone(b, NONE, 9))
FORGE(save_again, save_at(b, two, 64, 70))
FORGE(save_no_unit, save_at(b, two, 63, 5))
FORGE(save_beyond, save_at(b, two, 128, 5))
FORGE(twin_of_none, twin_of(b, two, 1, 150))
FORGE(twin_too_early, twin_of(b, two, 0, 64))

static void says_what_is_wrong(void **state)
{
    static const struct forged cases[] = {
        {"node 9, for positions below 64, is not kept", node_unknown},
        {"node 11 ends at 128, not at 64", node_elsewhere},
        {"no node ends at 63", no_node_there},
        {"it goes on at 64 in its own blocks, but has 0 of 8", no_node},
        {"checkpoint 9 is not kept", checkpoint_unknown},
        {"it goes on at 64 without a checkpoint", no_checkpoint},
        {"it goes on at 150, but 150 ids are known", behind_its_ids},
        {"Restore of grant 999: the sequence is not open here", not_open},
        {"Restore of grant 0: the sequence is not open here", no_grant},
        {"it goes on at 151, but 151 ids are known and 150", cut_beyond},
        {"the sequence is kept: a range was removed", row_of_a_cut},
        {"the sequence is not open here", from_nothing},
        {"is to be taken over at 149, but it is not spoilt, has 0 steps here "
         "and 150 positions",
         from_elsewhere},
        {"it has 0 blocks already, and takes over others", from_itself},
        {"node 10 is kept already", keep_again},
        {"where another node has the blocks", keep_the_same},
        {"node 20 ends at 150", keep_no_unit},
        {"its parent 21 does not end at 64", keep_orphan},
        {"node 20 ends at 64, but 0 positions are computed", keep_uncomputed},
        {"Keep of grant 999: the sequence is not open here", keep_not_open},
        {"Gone: node 9 is not kept", gone_unknown},
        {"Gone: checkpoint 9 is not kept", gone_state},
        {"checkpoint 70 is kept already", save_again},
        {"its save 0 is at 63, which is not a multiple of 64", save_no_unit},
        {"its save 0 is at 128, which is not a multiple of 64 above 0, at most "
         "64",
         save_beyond},
        {"the source of a twin is row 1", twin_of_none},
        {"a twin of kind 2, at position 0", twin_too_early},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench *b = stand(false);
        uint64_t one = computed(b, 150), two = bench_open_plain(b, 150, 8);

        cases[i].say(b, one, two);
        bench_check_broken(b, cases[i].text);
        assert_int_equal(free_pages(b), BENCH_PAGES);
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_from_what_another_computed),
        cmocka_unit_test(keeps_it_after_the_sequence),
        cmocka_unit_test(copies_a_state_before_its_pages_are_used_again),
        cmocka_unit_test(moves_blocks_behind_plans_that_wait),
        cmocka_unit_test(begins_anew_from_a_restore),
        cmocka_unit_test(a_twin_samples_from_its_source),
        cmocka_unit_test(a_twin_of_a_spoilt_source_is_spoilt),
        cmocka_unit_test(passes_twins_and_saves_on),
        cmocka_unit_test(takes_over_a_kept_sequence),
        cmocka_unit_test(a_range_takes_a_sequence_back),
        cmocka_unit_test(a_range_frees_the_ids_for_penalties),
        cmocka_unit_test(a_range_from_zero_frees_the_slot),
        cmocka_unit_test(a_failed_forward_takes_its_memory),
        cmocka_unit_test(copies_of_a_refused_plan_are_not_lost),
        cmocka_unit_test(keeps_what_was_computed_before_a_failure),
        cmocka_unit_test(drops_everything_with_the_assembly),
        cmocka_unit_test(adds_its_pool_to_the_geometry),
        cmocka_unit_test(a_stage_without_blocks_restores_states),
        cmocka_unit_test(a_stage_without_slots_restores_blocks),
        cmocka_unit_test(says_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
