/* Sliding windows: a sequence holds what its next row sees, and its engine
 * finds all of it there (rig_memory.h). */
#include <string.h>

#include "common/base/log.h"
#include "common/model/sizes.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/sequence/windows.h"

#define WINDOW 20
#define TABLES 3

/* Blocks of 8 tokens; attention layers, and window layers of TABLES tables. */
static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pool.pages_per_slot = 0;
    o->pool.slot_bytes = 0;
    o->window = WINDOW;
    o->pool.window_pages = TABLES;
    o->pool.n_pages = 512;
}

/* Returns the window pages that a sequence of n tokens needs. */
static uint32_t need_of(const struct worker_options *o, uint32_t n)
{
    struct window_rules r = windows_rules(o);

    return windows_blocks(&r, n) * o->pool.window_pages;
}

static void the_need_is_that_of_the_sizes(void **state)
{
    static const uint32_t chunks[] = {1, 7, 8, 9, 64, 512};

    (void)state;
    for (uint32_t window = 0; window < 70; window++) {
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            struct window_rules r = {.window = window,
                                     .pages = 1,
                                     .block_tokens = 8,
                                     .chunk_tokens = chunks[i]};

            for (uint32_t n = 0; n < 200; n += 3) {
                assert_int_equal(windows_blocks(&r, n),
                                 sizes_window_blocks(window, chunks[i], 8, n));
            }
        }
    }
}

static void check_alone(const struct worker_options *o, uint32_t n_prompt,
                        uint32_t max_tokens)
{
    struct rig_submit s = {
        .id = 5, .n_prompt = n_prompt, .max_tokens = max_tokens};
    uint32_t need = need_of(o, n_prompt + max_tokens);
    struct rig *r = rig_new(o);

    rig_submit(r, &s);
    rig_turn(r);
    do {
        struct worker_account a = rig_account(r);

        if (a.n_sequences > 0 && rig_state(r, 5) < 5) {
            assert_int_equal(a.windows.held + a.windows.granted, need);
            assert_int_equal(a.windows.held % o->pool.window_pages, 0);
        }
    } while (rig_step(r));
    rig_check_tokens(r, 1, 5, n_prompt, max_tokens);
    rig_free(&r);
}

/* At the limits of windows, blocks, chunks and prompts; at both depths. */
static void holds_what_the_next_row_sees(void **state)
{
    static const uint32_t windows[] = {2, 7, 8, 9, 16, 17, 20, 64, 500};
    static const uint32_t chunks[] = {1, 8, 19, 64, 128};
    static const uint32_t prompts[] = {1, 7, 8, 9, 63, 64, 65, 200};

    (void)state;
    for (uint32_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        for (uint32_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
            for (uint32_t n = 0; n < sizeof prompts / sizeof *prompts; n++) {
                struct worker_options o;

                defaults(&o);
                o.window = windows[i];
                o.chunk_tokens = chunks[k];
                o.engine_depth = 1 + (i + k + n) % 2;
                check_alone(&o, prompts[n], 40);
            }
        }
    }
}

static void works_beside_every_other_kind_of_layer(void **state)
{
    (void)state;
    for (uint32_t kinds = 0; kinds < 4; kinds++) {
        struct worker_options o;

        defaults(&o);
        o.pool.pages_per_block = kinds & 1;
        o.pool.pages_per_slot = kinds & 2 ? 2 : 0;
        check_alone(&o, 150, 40);
    }
}

/* The need is what it holds at most: a row of a whole chunk, at a place where
 * its window and its end are in the middle of blocks. */
static void uses_its_need_to_the_last_page(void **state)
{
    struct rig_submit s = {.id = 5, .n_prompt = 100, .max_tokens = 9};
    struct worker_options o;
    struct rig *r;
    uint32_t most = 0;

    (void)state;
    defaults(&o);
    o.window = 15;
    o.chunk_tokens = 10;
    r = rig_new(&o);
    rig_submit(r, &s);
    rig_turn(r);
    do {
        uint32_t held = rig_account(r).windows.held;

        most = held > most ? held : most;
    } while (rig_step(r));
    assert_int_equal(need_of(&o, 109), TABLES * ((15 + 10 + 7) / 8 + 1));
    assert_in_range(most, need_of(&o, 109) - TABLES, need_of(&o, 109));
    rig_free(&r);
}

/* A pool of one sequence, whose window pages stay cached as they are given
 * back: each takes the place of another. */
static void a_full_pool_keeps_its_promises(void **state)
{
    (void)state;
    for (uint32_t spare = 0; spare < 4; spare++) {
        struct worker_options o;

        defaults(&o);
        o.reuse = true;
        o.pool.n_pages = need_of(&o, 440) + 55 + spare;
        o.engine_depth = 1 + spare % 2;
        check_alone(&o, 300, 140);
    }
}

/* Returns the positions that were reused. */
static uint32_t ask(struct rig *r, uint32_t id, const uint32_t *prompt,
                    uint32_t n, uint32_t max_tokens, uint32_t *tokens)
{
    struct rig_prompt p = {.ids = prompt, .n = n};
    struct rig_submit s = {
        .id = id, .prompt = prompt, .n_prompt = n, .max_tokens = max_tokens};
    uint64_t grant;

    rig_submit(r, &s);
    grant = r->grant;
    rig_turn(r);
    rig_run(r);
    rig_expect_prompt(r, &p, max_tokens, tokens);
    assert_int_equal(r->heard[grant].n, max_tokens);
    assert_memory_equal(r->heard[grant].tokens, tokens,
                        max_tokens * sizeof *tokens);
    return r->heard[grant].reused;
}

static void the_next_turn_goes_on_behind_the_last(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        uint32_t ids[RIG_CONTEXT];
        struct worker_options o;
        struct rig *r;

        defaults(&o);
        o.reuse = true;
        o.engine_depth = depth;
        r = rig_new(&o);
        for (uint32_t i = 0; i < 300; i++) {
            ids[i] = rig_prompt_id(1, i);
        }
        assert_int_equal(ask(r, 1, ids, 200, 90, ids + 200), 0);
        for (uint32_t i = 290; i < 310; i++) {
            ids[i] = rig_prompt_id(2, i);
        }
        /* 289 positions were computed: 4 units. */
        assert_int_equal(ask(r, 2, ids, 310, 30, ids + 310), 256);
        assert_int_equal(ask(r, 3, ids, 200, 20, ids + 200), 192);
        rig_free(&r);
    }
}

static void choices_share_the_windows_of_their_prompt(void **state)
{
    struct rig_submit s = {.id = 9, .n_prompt = 203, .max_tokens = 60};
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    o.reuse = true;
    o.pool.n_pages = 1024;
    r = rig_new(&o);
    for (s.choice = 0; s.choice < 4; s.choice++) {
        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->n_twins, 3);
    assert_int_equal(r->n_computed, 203 + 4 * 59);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t expect[RIG_CONTEXT];

        rig_expect_choice(9, i, 203, 60, expect);
        assert_memory_equal(r->heard[i + 1].tokens, expect,
                            60 * sizeof *expect);
    }
    rig_free(&r);
}

static void a_receipt_counts_window_pages(void **state)
{
    struct rig_submit s = {.id = 5, .n_prompt = 100, .max_tokens = 50};
    struct worker_options o;
    struct rig *r;
    uint64_t tag;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    rig_submit(r, &s);
    rig_turn(r);
    rig_step(r);
    tag = rig_cancel(r, 5);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->ends[tag].receipt.windows, need_of(&o, 150));
    rig_free(&r);
}

static void refused(struct rig *r, uint32_t windows, const char *text)
{
    struct rig_submit s = {.id = 5, .n_prompt = 100, .max_tokens = 50};
    struct rig_message m;
    uint64_t tag;

    rig_message(r, &s, &m);
    m.need.has_windows = true;
    m.need.windows = windows;
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_INVALID_ARGUMENT);
    if (strstr(r->ends[tag].text, text) == NULL) {
        fail_msg("%s", r->ends[tag].text);
    }
}

static void a_submit_names_what_its_windows_need(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    refused(r, need_of(&o, 150) - 1,
            "need has 56 window pages, 150 ids need 57 to 198");
    refused(r, 199, "need has 199 window pages");
    rig_free(&r);
    o.window = o.pool.window_pages = 0;
    r = rig_new(&o);
    refused(r, 1, "need has 1 window pages, 150 ids need 0 to 0");
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_need_is_that_of_the_sizes),
        cmocka_unit_test(holds_what_the_next_row_sees),
        cmocka_unit_test(works_beside_every_other_kind_of_layer),
        cmocka_unit_test(uses_its_need_to_the_last_page),
        cmocka_unit_test(a_full_pool_keeps_its_promises),
        cmocka_unit_test(the_next_turn_goes_on_behind_the_last),
        cmocka_unit_test(choices_share_the_windows_of_their_prompt),
        cmocka_unit_test(a_receipt_counts_window_pages),
        cmocka_unit_test(a_submit_names_what_its_windows_need),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
