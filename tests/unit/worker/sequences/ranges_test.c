/* Ranges that are removed from kept sequences. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/sequences/chat.h"
#include "worker/plan/batch.h"
#include "worker/sequences/ranges.h"

/* Cuts at p, and continues there with other ids. */
static void cut(const struct worker_options *o, uint32_t p, uint32_t reached)
{
    struct chat c = {.id = 1};
    uint64_t tag;
    uint32_t bt = o->block_tokens, kept;

    c.r = rig_new(o);
    chat_turn(&c, 300, 100, false);
    tag = rig_remove_range(c.r, 2, p, p % 2 ? 400 : 0);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_true(c.r->ends[tag].receipt.has_position);
    assert_int_equal(c.r->ends[tag].receipt.position, reached);
    assert_int_equal(c.r->ends[tag].receipt.state, KEPT);
    kept = (reached + bt - 1) / bt;
    assert_int_equal(c.r->ends[tag].receipt.blocks, (399 + bt - 1) / bt - kept);
    assert_int_equal(rig_state(c.r, 2), KEPT);
    c.n = p;
    c.spans[p <= 300 ? 0 : 1] = p <= 300 ? p : p - 300;
    c.n_spans = p <= 300 ? 1 : 2;
    assert_int_equal(chat_turn(&c, 50, 9, true), p + 50 - reached + 8);
    rig_free(&c.r);
}

static void goes_back_to_a_checkpoint(void **state)
{
    struct worker_options o;

    (void)state;
    chat_defaults(&o);
    /* Decode saved at 384, the prompt at 256. */
    cut(&o, 399, 399);
    cut(&o, 400, 399);
    cut(&o, 390, 384);
    cut(&o, 384, 384);
    cut(&o, 383, 256);
    cut(&o, 301, 256);
    cut(&o, 256, 256);
    o.one_arithmetic = false;
    cut(&o, 390, 256);
}

static void goes_back_exactly_without_linear_layers(void **state)
{
    struct worker_options o;

    (void)state;
    chat_defaults(&o);
    o.pool.pages_per_slot = 0;
    cut(&o, 399, 399);
    cut(&o, 390, 390);
    cut(&o, 333, 333);
    cut(&o, 203, 203);
}

static void goes_back_to_the_begin_without_a_checkpoint(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {
        .id = 2, .n_prompt = 300, .max_tokens = 9, .keep_ms = 5000};
    uint64_t tag;

    (void)state;
    chat_defaults(&o);
    o.reuse = false;
    r = rig_new(&o);
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    tag = rig_remove_range(r, 2, 305, 0);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(r->ends[tag].receipt.position, 0);
    assert_int_equal(r->ends[tag].receipt.blocks, 39);
    assert_int_equal(r->ends[tag].receipt.slots, 1);
    rig_free(&r);
}

static void cut_refused(struct rig *r, uint32_t id, uint32_t begin,
                        uint32_t end, enum status status, const char *says)
{
    uint64_t tag = rig_remove_range(r, id, begin, end);

    rig_turn(r);
    if (r->ends[tag].status != status ||
        strstr(r->ends[tag].text, says) == NULL) {
        fail_msg("%s: %s", status_name(r->ends[tag].status), r->ends[tag].text);
    }
}

/* Returns a worker whose sequence 2 is kept, with 110 positions, while its last
 * row still runs: with two plans in flight. */
static struct rig *with_last_row(void)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {
        .id = 2, .n_prompt = 100, .max_tokens = 20, .keep_ms = 5000};

    chat_defaults(&o);
    o.engine_depth = 2;
    r = rig_new(&o);
    r->eos_at = 9;
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[1].finish == 0) {
        assert_true(rig_step(r));
    }
    assert_int_equal(rig_inflight(r), 1);
    assert_int_equal(rig_state(r, 2), KEPT);
    return r;
}

/* A plan in flight names the memory. */
static void a_range_waits_for_the_last_row(void **state)
{
    struct rig *r = with_last_row();
    uint32_t held = rig_account(r).pages.held;
    uint64_t tag = rig_remove_range(r, 2, 0, 0);

    (void)state;
    rig_turn(r);
    assert_false(r->ends[tag].ended);
    assert_int_equal(rig_account(r).pages.held, held);
    cut_refused(r, 2, 64, 0, ST_FAILED_PRECONDITION, "another call removes");
    assert_true(rig_step(r));
    rig_check_ok(r, tag);
    assert_true(r->ends[tag].receipt.has_position);
    assert_int_equal(r->ends[tag].receipt.position, 0);
    assert_int_equal(r->ends[tag].receipt.blocks, 14);
    assert_int_equal(r->ends[tag].receipt.slots, 1);
    assert_int_equal(rig_account(r).pages.held, 0);
    assert_int_equal(rig_state(r, 2), KEPT);
    cut_refused(r, 2, 64, 0, ST_INVALID_ARGUMENT, "begin is 64, but");
    rig_free(&r);
}

/* The sequence ends before its last row has come back. */
static void a_range_that_waits_ends_with_its_sequence(void **state)
{
    for (int how = 0; how < 3; how++) {
        struct rig *r = with_last_row();
        uint64_t tag = rig_remove_range(r, 2, 64, 0), all = 0;

        rig_turn(r);
        if (how == 0) {
            all = rig_remove(r, 2);
        } else if (how == 1) {
            rig_advance(r, 6000000);
        } else {
            rig_lose(r);
            rig_reconnect(r);
        }
        rig_turn(r);
        assert_true(r->ends[tag].ended);
        assert_int_equal(r->ends[tag].status,
                         how < 2 ? ST_FAILED_PRECONDITION : ST_UNAVAILABLE);
        assert_true(rig_step(r));
        assert_int_equal(rig_account(r).pages.held, 0);
        if (how == 0) {
            rig_check_ok(r, all);
            assert_int_equal(r->ends[all].receipt.blocks, 14);
        }
        rig_free(&r);
    }
    (void)state;
}

/* What is cut back holds ids and little else: it ends early when the ids of
 * another sequence find no room. */
static void what_is_cut_makes_room_for_ids(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 480, .max_tokens = 9, .keep_ms = 60000};
    uint64_t tag;

    (void)state;
    chat_defaults(&o);
    o.pool.slot_cap = 1;
    o.reuse = false;
    r = rig_new(&o);
    for (s.id = 1; s.id <= 40; s.id++) {
        tag = rig_submit(r, &s);
        rig_turn(r);
        rig_check_ok(r, tag);
        rig_run(r);
        rig_check_tokens(r, s.id, s.id, 480, 9);
        assert_int_equal(rig_state(r, s.id), KEPT);
        tag = rig_remove_range(r, s.id, 470, 0);
        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.position, 0);
    }
    assert_int_equal(rig_state(r, 1), UNKNOWN);
    assert_int_equal(rig_state(r, 40), KEPT);
    rig_free(&r);
}

/* They take places of the table, here and at other stages, but no pages. */
static void few_are_kept_without_memory(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 20, .max_tokens = 4, .keep_ms = 60000};

    (void)state;
    chat_defaults(&o);
    r = rig_new(&o);
    for (s.id = 1; s.id <= EMPTY_KEPT_MAX + 1; s.id++) {
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(rig_state(r, 1), KEPT);
        rig_remove_range(r, s.id, 20, 0);
        rig_turn(r);
        assert_int_equal(rig_state(r, s.id), KEPT);
    }
    assert_int_equal(rig_state(r, 1), UNKNOWN);
    assert_int_equal(rig_state(r, 2), KEPT);
    rig_free(&r);
}

static void refuses_what_is_no_range(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit running = {.id = 8, .n_prompt = 20, .max_tokens = 40};
    uint64_t tag;

    (void)state;
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
    rig_submit(c.r, &running);
    rig_turn(c.r);
    cut_refused(c.r, 77, 0, 0, ST_NOT_FOUND, "is not here");
    cut_refused(c.r, 8, 0, 0, ST_FAILED_PRECONDITION, "is prefill; a range");
    cut_refused(c.r, 2, 121, 0, ST_INVALID_ARGUMENT, "begin is 121, but");
    cut_refused(c.r, 2, 50, 119, ST_INVALID_ARGUMENT, "end is 119, but");
    cut_refused(c.r, 2, 50, 121, ST_INVALID_ARGUMENT, "end is 121, but");
    tag = rig_remove_range(c.r, 2, 120, 120);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_int_equal(c.r->ends[tag].receipt.position, 119);
    assert_int_equal(c.r->ends[tag].receipt.blocks, 0);
    rig_run(c.r);
    rig_free(&c.r);
}

/* The block at the cut is in the index: the heir writes to a copy of it. */
static void copies_a_block_that_others_have(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    uint32_t ids[RIG_CONTEXT], before;
    struct rig_submit s = {
        .id = 50, .n_prompt = 300, .max_tokens = 2, .prompt = ids};

    (void)state;
    chat_defaults(&o);
    o.pool.pages_per_slot = 0;
    c.r = rig_new(&o);
    chat_turn(&c, 300, 100, false);
    memcpy(ids, c.ids, sizeof ids);
    rig_remove_range(c.r, 2, 203, 0);
    rig_turn(c.r);
    c.n = 203;
    c.n_spans = 1;
    c.spans[0] = 203;
    chat_turn(&c, 40, 5, true);
    /* The index still has what was there. */
    before = c.r->n_computed;
    rig_submit(c.r, &s);
    rig_turn(c.r);
    rig_run(c.r);
    assert_int_equal(c.r->n_computed - before, 300 - 256 + 1);
    assert_int_equal(c.r->heard[c.r->grant].tokens[0], ids[300]);
    rig_free(&c.r);
}

static void the_state_is_lost_with_a_refused_plan(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit other = {.id = 60, .n_prompt = 30, .max_tokens = 3};

    (void)state;
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 300, 100, false);
    rig_remove_range(c.r, 2, 390, 0);
    rig_turn(c.r);
    c.r->refuse_once = true; /* the plan that was to load the state */
    rig_submit(c.r, &other);
    rig_turn(c.r);
    rig_run(c.r);
    rig_check_tokens(c.r, 2, 60, 30, 3);
    c.n = 390;
    c.spans[1] = 90;
    chat_turn(&c, 50, 9, true);
    rig_free(&c.r);
}

/* A plan loads states for LOADS_MAX kept sequences.  On an idle worker no plan
 * comes: further sequences give their states back, and their heirs find the
 * same states in the index. */
static void bounds_the_states_that_a_plan_loads(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 70, .max_tokens = 3, .keep_ms = 60000};
    uint32_t ids[80];
    uint64_t tag = 0;

    (void)state;
    chat_defaults(&o);
    o.pool.slot_cap = LOADS_MAX + 2;
    o.pool.n_pages = 4096;
    r = rig_new(&o);
    for (s.id = 1; s.id <= LOADS_MAX + 1; s.id++) {
        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    for (uint32_t id = 1; id <= LOADS_MAX; id++) {
        tag = rig_remove_range(r, id, 70, 0);
        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.position, 64);
    }
    tag = rig_remove_range(r, LOADS_MAX + 1, 70, 0);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(r->ends[tag].receipt.position, 0);
    assert_int_equal(r->ends[tag].receipt.slots, 1);
    for (uint32_t id = LOADS_MAX; id <= LOADS_MAX + 1; id++) {
        uint32_t before = r->n_computed;

        for (uint32_t i = 0; i < 80; i++) {
            ids[i] = rig_prompt_id(id, i);
        }
        s.id = 2 * LOADS_MAX + id;
        s.prompt = ids;
        s.from = id;
        s.n_prompt = 80;
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(r->heard[r->grant].n, s.max_tokens);
        assert_int_equal(r->heard[r->grant].reused, 64);
        assert_int_equal(r->n_computed - before, 80 - 64 + s.max_tokens - 1);
    }
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_back_to_a_checkpoint),
        cmocka_unit_test(goes_back_exactly_without_linear_layers),
        cmocka_unit_test(goes_back_to_the_begin_without_a_checkpoint),
        cmocka_unit_test(a_range_waits_for_the_last_row),
        cmocka_unit_test(a_range_that_waits_ends_with_its_sequence),
        cmocka_unit_test(what_is_cut_makes_room_for_ids),
        cmocka_unit_test(few_are_kept_without_memory),
        cmocka_unit_test(refuses_what_is_no_range),
        cmocka_unit_test(copies_a_block_that_others_have),
        cmocka_unit_test(the_state_is_lost_with_a_refused_plan),
        cmocka_unit_test(bounds_the_states_that_a_plan_loads),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
