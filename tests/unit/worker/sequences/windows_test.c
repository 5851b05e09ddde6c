/* Sliding windows: a sequence holds what its next row sees, and its engine
 * finds all of it there (rig_memory.h). */
#include <string.h>

#include "common/base/log.h"
#include "common/model/sizes.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/cache/windows.h"

#define WINDOW 20
#define TABLES 3

/* Blocks of 8 tokens; attention layers, and window layers of TABLES tables. */
static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pages_per_slot = 0;
    o->slot_bytes = 0;
    o->window = WINDOW;
    o->window_pages = TABLES;
    o->n_pages = 512;
}

/* Returns the window pages that a sequence of n tokens needs. */
static uint32_t need_of(const struct worker_options *o, uint32_t n)
{
    struct window_rules r = windows_rules(o);

    return windows_blocks(&r, n) * o->window_pages;
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
            assert_int_equal(a.windows.held % o->window_pages, 0);
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
        o.pages_per_block = kinds & 1;
        o.pages_per_slot = kinds & 2 ? 2 : 0;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_need_is_that_of_the_sizes),
        cmocka_unit_test(holds_what_the_next_row_sees),
        cmocka_unit_test(works_beside_every_other_kind_of_layer),
        cmocka_unit_test(uses_its_need_to_the_last_page),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
