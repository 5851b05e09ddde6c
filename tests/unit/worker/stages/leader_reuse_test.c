/* A leader that reuses prefixes over several stages, whose accounts the ring
 * keeps (ring_stages.h): what does not fit a stage, or is not there, fails. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/ring.h"

/* Positions that a prompt of n and some tokens take. */
#define COLD(n, tokens) ((n) + (tokens)-1)

static void options(struct worker_options *o)
{
    ring_options(o);
    o->pool.n_pages = 512;
    o->reuse = true;
    o->layer_end = 2;
}

/* Writes a prompt of n ids that begins like prompt `first` for `same` ids. */
static void make_prompt(uint32_t *out, uint32_t n, uint32_t first,
                        uint32_t same, uint32_t then)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = rig_prompt_id(i < same ? first : then, i);
    }
}

static void check_tokens(struct rig *r, const struct rig_submit *s,
                         uint64_t grant)
{
    struct rig_prompt p = {.ids = s->prompt,
                           .n = s->n_prompt,
                           .spans = s->spans,
                           .n_spans = s->n_spans,
                           .choice = s->choice};
    uint32_t expect[RIG_CONTEXT];

    rig_expect_prompt(r, &p, s->max_tokens, expect);
    assert_int_equal(r->heard[grant].n, s->max_tokens);
    assert_memory_equal(r->heard[grant].tokens, expect,
                        s->max_tokens * sizeof *expect);
}

/* Makes a leader of three stages, and prompt 7 of 300 ids. */
static struct rig *begin(uint32_t *ids)
{
    struct worker_options o;

    options(&o);
    make_prompt(ids, 300, 7, 300, 0);
    return ring_rig(3, &o);
}

/* Runs a prompt to its end and checks its tokens; returns how many positions
 * were computed for it. */
static uint32_t run(struct rig *r, const struct rig_submit *s)
{
    uint32_t before = r->n_computed;
    uint64_t tag = rig_submit(r, s), grant = r->grant;

    rig_turn(r);
    rig_check_ok(r, tag);
    ring_run(r->ring);
    check_tokens(r, s, grant);
    return r->n_computed - before;
}

/* Runs n choices of a prompt side by side, and checks their tokens. */
static void run_choices(struct rig *r, struct rig_submit *s, uint32_t n)
{
    uint64_t first = r->grant + 1;

    for (s->choice = 0; s->choice < n; s->choice++) {
        rig_submit(r, s);
    }
    rig_turn(r);
    ring_run(r->ring);
    for (s->choice = 0; s->choice < n; s->choice++) {
        check_tokens(r, s, first + s->choice);
    }
    assert_int_equal(r->n_broken, 0);
}

/* Returns how many messages of a kind were sent in this assembly. */
static uint32_t n_said(const struct rig *r, enum method m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->ring->n_said; i++) {
        n += r->ring->said[i].method == m;
    }
    return n;
}

static const struct ring_said *last_said(const struct rig *r, enum method m)
{
    for (uint32_t i = r->ring->n_said; i > 0; i--) {
        if (r->ring->said[i - 1].method == m) {
            return &r->ring->said[i - 1];
        }
    }
    fail_msg("nothing of %s was sent", method_find((uint16_t)m)->name);
    return NULL;
}

/* ---- hits ---- */

static void restores_at_every_stage(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 4; n++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300];
        struct rig_submit s = {
            .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};
        const struct ring_said *x;

        options(&o);
        r = ring_rig(n, &o);
        make_prompt(ids, 300, 7, 300, 0);
        assert_int_equal(run(r, &s), COLD(300, 5));
        assert_int_equal(n_said(r, METHOD_STAGE_RESTORE), 0);
        assert_int_equal(ring_stages_pages(r->ring->stages, 0).free,
                         rig_account(r).pages.free);
        s.id = 2;
        assert_int_equal(run(r, &s), COLD(300, 5) - 256);
        assert_int_equal(r->heard[r->grant].reused, 256);
        x = last_said(r, METHOD_STAGE_RESTORE);
        assert_int_equal(x->at, 256);
        assert_true(x->has_node && x->has_checkpoint && !x->has_from);
        for (uint32_t i = 0; i + 1 < n; i++) {
            struct pool_account a = ring_stages_pages(r->ring->stages, i);

            assert_int_equal(a.free, rig_account(r).pages.free);
            assert_int_equal(a.cached, rig_account(r).pages.cached);
            assert_true(a.cached >= 256 / 8);
        }
        ring_rig_end(&r);
    }
}

/* The last tokens go into the index before the sequence is removed. */
static void keeps_generated_positions(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 100, .max_tokens = 60, .prompt = ids};

    (void)state;
    options(&o);
    r = ring_rig(3, &o);
    make_prompt(ids, 100, 7, 100, 0);
    run(r, &s);
    memcpy(ids + 100, r->heard[1].tokens, 60 * sizeof *ids);
    s.id = 2;
    s.n_prompt = 160;
    s.max_tokens = 3;
    assert_int_equal(run(r, &s), COLD(160, 3) - 128);
    ring_rig_end(&r);
}

static void a_sequence_that_caches_nothing_tells_nothing(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[200];
    struct rig_submit s = {.id = 1,
                           .n_prompt = 200,
                           .max_tokens = 2,
                           .prompt = ids,
                           .no_cache = true};

    (void)state;
    options(&o);
    r = ring_rig(3, &o);
    make_prompt(ids, 200, 7, 200, 0);
    for (s.id = 1; s.id < 3; s.id++) {
        assert_int_equal(run(r, &s), COLD(200, 2));
    }
    assert_int_equal(n_said(r, METHOD_STAGE_KEEP), 0);
    assert_int_equal(n_said(r, METHOD_STAGE_GONE), 0);
    assert_int_equal(ring_stages_pages(r->ring->stages, 0).free, 512);
    ring_rig_end(&r);
}

/* ---- room ---- */

/* The leader has room for everything, a stage for two prompts and a half. */
static void evicts_for_the_tightest_stage(void **state)
{
    static const struct mirror_stage shapes[] = {{512, 1, 2, 0}, {80, 1, 2, 0}};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[200];
    struct rig_submit s = {.n_prompt = 200, .max_tokens = 3, .prompt = ids};

    (void)state;
    options(&o);
    r = ring_rig_with(3, &o, shapes);
    for (s.id = 1; s.id <= 12; s.id++) {
        make_prompt(ids, 200, s.id, 200, 0);
        assert_int_equal(run(r, &s), COLD(200, 3));
    }
    assert_true(n_said(r, METHOD_STAGE_GONE) > 0);
    assert_int_equal(r->n_broken, 0);
    /* The newest one is still there. */
    make_prompt(ids, 200, 12, 200, 0);
    assert_int_equal(run(r, &s), COLD(200, 3) - 192);
    /* One that takes everything. */
    s.id++;
    s.n_prompt = 500;
    s.max_tokens = 8;
    s.prompt = NULL;
    rig_submit(r, &s);
    rig_turn(r);
    ring_run(r->ring);
    assert_int_equal(r->heard[r->grant].n, 8);
    ring_rig_end(&r);
}

/* A sequence is removed, and its steps are still under way: its blocks are held
 * here, and cached at the stages, which a Submit may need. */
static void evicts_what_only_the_stages_do_not_hold(void **state)
{
    static const struct mirror_stage shapes[] = {{512, 1, 2, 0}, {80, 1, 2, 0}};
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.id = 1, .n_prompt = 200, .max_tokens = 40};
    uint64_t tag;

    (void)state;
    options(&o);
    r = ring_rig_with(3, &o, shapes);
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[1].n < 3 || ring_waiting(r->ring) == 0) {
        assert_true(rig_step(r) || ring_step(r->ring));
    }
    rig_cancel(r, 1);
    rig_turn(r);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    s.id = 2;
    s.n_prompt = 500;
    s.max_tokens = 8;
    tag = rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, tag);
    ring_run(r->ring);
    assert_int_equal(r->heard[2].n, 8);
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* A checkpoint is saved only where every stage has room for it. */
static void saves_only_what_fits_everywhere(void **state)
{
    static const struct mirror_stage shapes[] = {{512, 1, 2, 0}, {28, 1, 2, 0}};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[200];
    struct rig_submit s = {
        .id = 1, .n_prompt = 200, .max_tokens = 3, .prompt = ids};

    (void)state;
    options(&o);
    r = ring_rig_with(3, &o, shapes);
    make_prompt(ids, 200, 1, 200, 0);
    assert_int_equal(run(r, &s), COLD(200, 3)); /* 26 blocks and a slot */
    assert_int_equal(rig_account(r).checkpoints.cached, 0);
    s.id = 2;
    assert_int_equal(run(r, &s), COLD(200, 3));
    ring_rig_end(&r);
}

/* A tenant's share ends inside a prompt: what fits is kept under the sequence
 * that computed it. */
static void keeps_the_part_that_fits(void **state)
{
    static const char *const tenants[] = {"a", "b"};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {.n_prompt = 300, .max_tokens = 3, .prompt = ids};

    (void)state;
    options(&o);
    o.pool.tenant_share = 30.0f / 512;
    r = ring_rig(3, &o);
    for (s.id = 1; s.id <= 8; s.id++) {
        make_prompt(ids, 300, s.id, 300, 0);
        s.tenant = tenants[s.id / 2 % 2];
        run(r, &s);
        assert_int_equal(r->n_broken, 0);
        for (uint32_t i = 0; i < 2; i++) {
            struct pool_account a = ring_stages_pages(r->ring->stages, i);

            assert_int_equal(a.cached, rig_account(r).pages.cached);
            assert_in_range(a.cached, 8, 60);
        }
    }
    assert_true(n_said(r, METHOD_STAGE_KEEP) > 0);
    assert_true(n_said(r, METHOD_STAGE_GONE) > 0);
    ring_rig_end(&r);
}

static void restores_without(const struct mirror_stage *shapes)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {.n_prompt = 300, .max_tokens = 5, .prompt = ids};

    options(&o);
    r = ring_rig_with(3, &o, shapes);
    for (s.id = 1; s.id <= 6; s.id++) {
        make_prompt(ids, 300, s.id / 2, 300, 0);
        assert_int_equal(run(r, &s),
                         COLD(300, 5) - (s.id % 2 == 1 && s.id > 1 ? 256 : 0));
    }
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

static void stages_may_lack_a_class(void **state)
{
    static const struct mirror_stage one[] = {{256, 1, 0, 0}, {12, 0, 1, 0}};
    static const struct mirror_stage two[] = {{12, 0, 1, 0}, {256, 1, 0, 0}};
    static const struct mirror_stage both[] = {{256, 1, 0, 0}, {200, 1, 0, 0}};
    static const struct mirror_stage slots[] = {{12, 0, 1, 0}, {20, 0, 1, 0}};

    (void)state;
    restores_without(one);
    restores_without(two);
    restores_without(both);
    restores_without(slots);
}

static void a_leader_may_lack_blocks(void **state)
{
    static const struct mirror_stage shapes[] = {{120, 1, 2, 0},
                                                 {512, 1, 3, 0}};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {.n_prompt = 300, .max_tokens = 5, .prompt = ids};

    (void)state;
    options(&o);
    o.pool.pages_per_block = 0;
    o.pool.pages_per_slot = 1;
    o.pool.n_pages = 40;
    r = ring_rig_with(3, &o, shapes);
    for (s.id = 1; s.id <= 8; s.id++) {
        make_prompt(ids, 300, s.id / 2, 300, 0);
        assert_int_equal(run(r, &s),
                         COLD(300, 5) - (s.id % 2 == 1 && s.id > 1 ? 256 : 0));
    }
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* Its stages have states, which nothing saves: nothing is restored then. */
/* Their units differ behind the prompt, but share its blocks. */
static void a_leader_without_blocks_keeps_one_of_two_twins(void **state)
{
    static const struct mirror_stage shapes[] = {{512, 1, 2, 0},
                                                 {512, 1, 2, 0}};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 100, .max_tokens = 60, .prompt = ids};

    (void)state;
    options(&o);
    o.pool.pages_per_block = 0;
    r = ring_rig_with(3, &o, shapes);
    make_prompt(ids, 300, 7, 300, 0);
    run_choices(r, &s, 2);
    assert_int_equal(r->n_twins, 1);
    ring_rig_end(&r);
}

static void a_leader_without_slots_restores_nothing(void **state)
{
    static const struct mirror_stage shapes[] = {{120, 1, 2, 0}, {40, 0, 1, 0}};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {.n_prompt = 300, .max_tokens = 5, .prompt = ids};

    (void)state;
    options(&o);
    o.pool.pages_per_slot = 0;
    r = ring_rig_with(3, &o, shapes);
    make_prompt(ids, 300, 7, 300, 0);
    for (s.id = 1; s.id <= 8; s.id++) {
        assert_int_equal(run(r, &s), COLD(300, 5));
    }
    assert_int_equal(n_said(r, METHOD_STAGE_RESTORE), 0);
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* ---- twins, continuations, ranges ---- */

static void choices_share_a_prompt(void **state)
{
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 4, .prompt = ids};

    (void)state;
    r = begin(ids);
    run_choices(r, &s, 4);
    assert_int_equal(r->n_computed, 300 + 4 * 3);
    assert_int_equal(r->n_twins, 3);
    ring_rig_end(&r);
}

static void continues_and_cuts(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[400], before;
    struct rig_submit s = {.id = 1,
                           .n_prompt = 100,
                           .max_tokens = 50,
                           .prompt = ids,
                           .keep_ms = 60000};
    uint64_t tag;

    (void)state;
    options(&o);
    r = ring_rig(3, &o);
    make_prompt(ids, 400, 7, 400, 0);
    run(r, &s);
    memcpy(ids + 100, r->heard[1].tokens, 50 * sizeof *ids);
    s.id = 2;
    s.from = 1;
    s.n_prompt = 170;
    assert_int_equal(run(r, &s), COLD(170, 50) - 149);
    assert_true(last_said(r, METHOD_STAGE_RESTORE)->has_from);
    assert_int_equal(last_said(r, METHOD_STAGE_RESTORE)->at, 149);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    /* A range: back to a checkpoint, and on from there. */
    tag = rig_remove_range(r, 2, 160, 0);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_true(r->ends[tag].receipt.has_position);
    before = r->ends[tag].receipt.position;
    assert_int_equal(before % 64, 0);
    assert_int_equal(r->ends[tag].receipt.n_stages, 3);
    assert_true(r->ends[tag].receipt.stage_blocks[0] > 0);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(r->ends[tag].receipt.stage_blocks[i],
                         r->ends[tag].receipt.stage_blocks[0]);
    }
    assert_int_equal(r->ends[tag].receipt.blocks,
                     3 * r->ends[tag].receipt.stage_blocks[0]);
    assert_true(last_said(r, METHOD_STAGE_RESTORE)->cut);
    assert_int_equal(last_said(r, METHOD_STAGE_RESTORE)->at, before);
    s.id = 3;
    s.from = 2;
    s.n_prompt = 300;
    assert_int_equal(run(r, &s), COLD(300, 50) - before);
    rig_remove(r, 3);
    rig_turn(r);
    ring_run(r->ring);
    assert_int_equal(r->n_broken, 0);
    assert_int_equal(ring_stages_pages(r->ring->stages, 0).free,
                     rig_account(r).pages.free);
    ring_rig_end(&r);
}

/* The leader's own memory could end anywhere, but a stage's state cannot. */
static void a_range_goes_back_to_a_state_of_the_stages(void **state)
{
    static const struct mirror_stage shapes[] = {{120, 1, 2, 0}, {40, 0, 1, 0}};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {.id = 1,
                           .n_prompt = 100,
                           .max_tokens = 50,
                           .prompt = ids,
                           .keep_ms = 60000};
    uint64_t tag;

    (void)state;
    options(&o);
    o.pool.pages_per_slot = 0;
    r = ring_rig_with(3, &o, shapes);
    make_prompt(ids, 300, 7, 300, 0);
    run(r, &s);
    memcpy(ids + 100, r->heard[1].tokens, 50 * sizeof *ids);
    tag = rig_remove_range(r, 1, 90, 0);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(r->ends[tag].receipt.position, 0);
    assert_int_equal(last_said(r, METHOD_STAGE_RESTORE)->at, 0);
    s.id = 2;
    s.from = 1;
    s.n_prompt = 170;
    assert_int_equal(run(r, &s), COLD(170, 50));
    rig_remove(r, 2);
    rig_turn(r);
    ring_run(r->ring);
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* ---- failures ---- */

static void nothing_of_a_failed_step_is_kept(void **state)
{
    (void)state;
    for (int where = 0; where < 2; where++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300];
        struct rig_submit s = {
            .id = 1, .n_prompt = 100, .max_tokens = 3, .prompt = ids};

        options(&o);
        r = ring_rig(3, &o);
        make_prompt(ids, 300, 7, 300, 0);
        if (where == 0) {
            r->fail_next = "the leader's";
        } else {
            r->ring->fail_next = "a stage";
        }
        run(r, &s);
        assert_int_equal(r->n_broken, 0);
        s.id = 2;
        assert_int_equal(run(r, &s), COLD(100, 3) - 64);
        ring_rig_end(&r);
    }
}

static void begins_anew_from_a_checkpoint(void **state)
{
    struct rig *r;
    uint32_t ids[300], before;
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 20, .prompt = ids};

    (void)state;
    r = begin(ids);
    run(r, &s);
    s.id = 2;
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[2].n < 5) {
        assert_true(rig_step(r) || ring_step(r->ring));
    }
    before = r->n_computed;
    r->ring->fail_next = "a stage";
    ring_run(r->ring);
    check_tokens(r, &s, 2);
    assert_in_range(r->n_computed - before, 44 + 14, 80);
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* The stages count its positions anew, so that they cannot keep those which it
 * had computed before, when the index has let go of them. */
static void ends_while_it_is_computed_again(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.id = 1, .n_prompt = 100, .max_tokens = 200};
    uint32_t from;

    (void)state;
    options(&o);
    r = ring_rig(3, &o);
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[1].n < 120) {
        assert_true(rig_step(r) || ring_step(r->ring));
    }
    r->ring->fail_next = "a stage";
    from = r->ring->n_said;
    while (r->ring->n_said == from ||
           last_said(r, METHOD_STAGE_FORWARD)->position[0] != 64) {
        assert_true(rig_step(r) || ring_step(r->ring));
    }
    worker_clear_index(r->worker);
    rig_cancel(r, 1);
    rig_turn(r);
    ring_run(r->ring);
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* The stages have seen nothing of the twin, which has blocks here. */
static void begins_anew_behind_a_refused_twin(void **state)
{
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 4, .prompt = ids};

    (void)state;
    r = begin(ids);
    run(r, &s);
    s.id = 2;
    r->refuse_once = true;
    run_choices(r, &s, 2);
    assert_false(r->refuse_once);
    ring_rig_end(&r);
}

/* Returns whether the newest plan here, behind another one, is the first of
 * sequence 2. */
static bool begins_behind(const struct rig *r)
{
    const struct plan *p = rig_plan(r, 1);

    return p != NULL && p->rows[0].sequence == 2 && p->rows[0].position == 0;
}

/* The stages have some rows of a sequence when the leader's engine refuses its
 * next plan.  It begins anew, and has one plan under way: rows behind one that
 * fails would write garbage to blocks that others have. */
static void has_one_plan_when_it_begins_anew(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit other = {.id = 1, .n_prompt = 10, .max_tokens = 60};
    struct rig_submit s = {.id = 2, .n_prompt = 400, .max_tokens = 4};

    (void)state;
    options(&o);
    o.engine_depth = 2;
    o.reuse = false; /* it begins at 0 */
    r = ring_rig(4, &o);
    rig_submit(r, &other);
    rig_submit(r, &s);
    rig_turn(r);
    r->refuse_once = true;
    rig_step(r); /* the first plan goes on, the third is refused */
    assert_false(r->refuse_once);
    rig_step(r);
    while (!begins_behind(r)) {
        assert_true(ring_step(r->ring));
    }
    rig_step(r);
    assert_int_equal(rig_inflight(r), 1);
    rig_step(r); /* it is at the later stages now */
    assert_int_equal(rig_inflight(r), 0);
    ring_run(r->ring);
    rig_check_tokens(r, 1, 1, 10, 60);
    rig_check_tokens(r, 2, 2, 400, 4);
    assert_int_equal(r->n_broken, 0);
    ring_rig_end(&r);
}

/* ---- the end ---- */

static void forgets_with_the_assembly(void **state)
{
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};

    (void)state;
    r = begin(ids);
    run(r, &s);
    assert_true(rig_account(r).pages.cached > 0);
    ring_assemble(r->ring);
    assert_int_equal(rig_account(r).pages.free, 512);
    s.id = 2;
    assert_int_equal(run(r, &s), COLD(300, 5));
    s.id = 3;
    assert_int_equal(run(r, &s), COLD(300, 5) - 256);
    ring_rig_end(&r);
}

static void waits_for_the_geometry(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.id = 1, .n_prompt = 100, .max_tokens = 2};
    Sluice__V1__StageGeometry m = SLUICE__V1__STAGE_GEOMETRY__INIT;
    uint32_t pages[] = {100, 100}, ones[] = {1, 1}, twos[] = {2, 2};

    (void)state;
    options(&o);
    r = ring_rig(3, &o);
    r->ring->no_geometry = true;
    rig_submit(r, &s);
    rig_turn(r);
    assert_false(rig_step(r));
    m.n_n_pages = m.n_pages_per_block = m.n_pages_per_slot = 2;
    m.n_pages = pages;
    m.pages_per_block = ones;
    m.pages_per_slot = twos;
    ring_say(r->ring, METHOD_STAGE_GEOMETRY, &m.base);
    ring_run(r->ring);
    assert_int_equal(r->heard[1].n, 2);
    assert_int_equal(r->n_broken, 0);
    ring_say(r->ring, METHOD_STAGE_GEOMETRY, &m.base);
    rig_turn(r);
    assert_int_equal(r->n_broken, 1);
    assert_non_null(strstr(r->broken_why, "but it came before"));
    ring_rig_free(&r);
}

static void a_wrong_geometry_breaks_it(void **state)
{
    static const struct {
        uint32_t n, pages, block, slot;
        const char *says;
    } cases[] = {
        {1, 100, 1, 2, "Geometry of 1, 1 and 1 stages, but there are others"},
        {2, 0, 1, 2, "stage 1 has 0 pages"},
        {2, SHARD_CLASS_MAX + 1u, 1, 2, "stage 1 has 1073741825 pages"},
        {2, 100, 2, 2, "2 for a block and 2 for a slot"},
        {2, 100, 0, 0, "0 for a block and 0 for a slot"},
        {2, 100, 1, POOL_EXTENT_MAX + 1, "1 for a block and 2049 for a slot"},
        {3, 100, 1, 2, "Geometry of 2, 2 and 2 stages, but there are others"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct worker_options o;
        struct rig *r;
        struct rig_submit s = {.id = 1, .n_prompt = 100, .max_tokens = 2};
        Sluice__V1__StageGeometry m = SLUICE__V1__STAGE_GEOMETRY__INIT;
        uint32_t pages[] = {cases[i].pages, 100}, ones[] = {cases[i].block, 1};
        uint32_t twos[] = {cases[i].slot, 2}, keeps[] = {9, 9, 9};

        options(&o);
        r = ring_rig(3, &o);
        r->ring->no_geometry = true;
        rig_submit(r, &s);
        rig_turn(r);
        m.n_n_pages = cases[i].n < 2 ? cases[i].n : 2;
        m.n_pages_per_block = m.n_pages_per_slot = m.n_n_pages;
        m.n_keep_tokens = cases[i].n; /* 3: one too many */
        m.keep_tokens = keeps;
        m.n_pages = pages;
        m.pages_per_block = ones;
        m.pages_per_slot = twos;
        ring_say(r->ring, METHOD_STAGE_GEOMETRY, &m.base);
        rig_turn(r);
        assert_int_equal(r->n_broken, 1);
        if (strstr(r->broken_why, cases[i].says) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", r->broken_why, cases[i].says);
        }
        ring_rig_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restores_at_every_stage),
        cmocka_unit_test(keeps_generated_positions),
        cmocka_unit_test(a_sequence_that_caches_nothing_tells_nothing),
        cmocka_unit_test(evicts_for_the_tightest_stage),
        cmocka_unit_test(evicts_what_only_the_stages_do_not_hold),
        cmocka_unit_test(saves_only_what_fits_everywhere),
        cmocka_unit_test(keeps_the_part_that_fits),
        cmocka_unit_test(stages_may_lack_a_class),
        cmocka_unit_test(a_leader_may_lack_blocks),
        cmocka_unit_test(a_leader_without_blocks_keeps_one_of_two_twins),
        cmocka_unit_test(a_leader_without_slots_restores_nothing),
        cmocka_unit_test(choices_share_a_prompt),
        cmocka_unit_test(continues_and_cuts),
        cmocka_unit_test(a_range_goes_back_to_a_state_of_the_stages),
        cmocka_unit_test(nothing_of_a_failed_step_is_kept),
        cmocka_unit_test(begins_anew_from_a_checkpoint),
        cmocka_unit_test(ends_while_it_is_computed_again),
        cmocka_unit_test(begins_anew_behind_a_refused_twin),
        cmocka_unit_test(has_one_plan_when_it_begins_anew),
        cmocka_unit_test(forgets_with_the_assembly),
        cmocka_unit_test(waits_for_the_geometry),
        cmocka_unit_test(a_wrong_geometry_breaks_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
