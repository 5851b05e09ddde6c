/* Tests the opencl backend's copy queue: copies between the pool and the host
 * that run beside steps.
 *
 * Two backends have the same model.  The one under test copies in its copy
 * queue, with a driver that is as late as the rules allow (late_driver.h).  The
 * other, the model, has no host tier: its copies go through the test, one after
 * the other.  All bytes of both pools must agree. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/opencl.h"
#include "kernels/opencl/host/queue.h"
#include "tests/kernels/late_driver.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define TOKENS OPENCL_SHAPE_TOKENS
#define BLOCKS 24 /* pages of blocks; slots are behind them */
#define SLOTS  8
#define PAGES  (BLOCKS + SLOTS * OPENCL_SHAPE_SLOT)
#define HOST   20
#define ROWS   3
#define TABLE  6 /* blocks of a row */
#define KEEP   4
#define OPS    1500 /* of a random sequence */

struct fixture {
    struct random_model model;
    struct kernels *k, *other; /* under test, and the model */
    size_t page;               /* bytes */
    unsigned char *host;       /* [HOST, page] the model's host tier */
};

static struct opencl *tested(const struct fixture *f)
{
    return opencl_of(f->k);
}

/* Returns the first page of slot i. */
static uint32_t slot_of(uint32_t i)
{
    return BLOCKS + i * OPENCL_SHAPE_SLOT;
}

static struct kernels *open_kernels(struct fixture *f, uint32_t n_host)
{
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_BF16,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = TOKENS,
                                      .keep_tokens = KEEP};
    struct kernels *k;
    struct error e;

    if (backend_new(&k, &f->model.w, &o, &e) != ST_OK ||
        kernels_alloc(k, PAGES, &e) != ST_OK ||
        kernels_alloc_host(k, n_host, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return k;
}

/* Fills both pools with the same bytes. */
static void fill_pools(struct fixture *f, uint32_t seed)
{
    struct kernels *both[] = {f->k, f->other};
    unsigned char *page = malloc(f->page);

    assert_non_null(page);
    for (uint32_t i = 0; i < PAGES; i++) {
        /* Small values of bf16. */
        for (size_t at = 0; at < f->page; at += 2) {
            seed = seed * 1664525 + 1013904223;
            page[at] = (unsigned char)(seed >> 24);
            page[at + 1] = (unsigned char)(0x3c + (seed >> 16 & 0x80));
        }
        for (int k = 0; k < 2; k++) {
            struct opencl *c = opencl_of(both[k]);

            opencl_copies_finish(c);
            opencl_upload(c, &c->cache.groups[0], i * f->page, page, f->page);
            opencl_settle(c);
        }
    }
    free(page);
}

static int set_up_all(void **state)
{
    static struct fixture f;
    const struct random_shape r = opencl_shape();
    struct dice d = {11};

    random_model_new(&f.model, &r, &d);
    f.k = open_kernels(&f, HOST);
    f.other = open_kernels(&f, 0);
    f.page = tested(&f)->sizes.page_bytes;
    f.host = calloc(HOST, f.page);
    assert_non_null(f.host);
    assert_int_equal(tested(&f)->cache.pages.n_groups, 1);
    *state = &f;
    return 0;
}

static int tear_down_all(void **state)
{
    struct fixture *f = *state;

    kernels_free(&f->k);
    kernels_free(&f->other);
    random_model_free(&f->model);
    free(f->host);
    return 0;
}

/* Starts with a new host tier, and with a new backend if a test has broken the
 * one before. */
static int set_up(void **state)
{
    struct fixture *f = *state;
    struct error e;

    late_driver = (struct late_driver){0};
    if (kernels_lost(f->k)) {
        kernels_free(&f->k);
        f->k = open_kernels(f, HOST);
    }
    assert_int_equal(kernels_alloc_host(f->k, HOST, &e), ST_OK);
    late_driver.steps = opencl_queue_id(tested(f));
    fill_pools(f, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    late_driver_open();
    late_driver = (struct late_driver){0};
    return 0;
}

/* ---- calls on both ---- */

static void page_out(struct fixture *f, uint32_t page, uint32_t host,
                     uint32_t n)
{
    struct opencl *c = opencl_of(f->other);

    kernels_page_out(f->k, page, host, n);
    opencl_download(c, &c->cache.groups[0], page * f->page,
                    f->host + host * f->page, n * f->page);
}

static void page_in(struct fixture *f, uint32_t host, uint32_t page, uint32_t n)
{
    struct opencl *c = opencl_of(f->other);

    kernels_page_in(f->k, host, page, n);
    opencl_upload(c, &c->cache.groups[0], page * f->page,
                  f->host + host * f->page, n * f->page);
}

/* Computes rows, of which the last one keeps its inputs if it is generated.
 * Returns the status of the backend under test. */
static enum status run_rows(struct fixture *f, const struct kernel_row *rows,
                            uint32_t n_rows, struct error *e)
{
    struct kernels *both[] = {f->other, f->k};
    struct kernel_step step = {rows, n_rows, 0};
    uint32_t ids[TOKENS];
    enum status st = ST_OK;

    for (uint32_t i = 0; i < n_rows; i++) {
        step.n_tokens += rows[i].n_tokens;
    }
    for (uint32_t i = 0; i < step.n_tokens; i++) {
        ids[i] = (i * 7 + rows[0].slot) % 257;
    }
    for (int i = 0; i < 2; i++) {
        kernels_begin(both[i], &step);
        kernels_embed(both[i], ids);
        kernels_mixer(both[i], 0);
        kernels_ffn(both[i], 0);
        kernels_mixer(both[i], 1);
        kernels_ffn(both[i], 1);
        st = kernels_end(both[i], e);
    }
    return st;
}

/* A row of 20 tokens on two blocks. */
static struct kernel_row small_row(const uint32_t blocks[2], uint32_t slot)
{
    return (struct kernel_row){
        .n_tokens = 20, .blocks = blocks, .slot = slot_of(slot)};
}

static void step_on(struct fixture *f, const uint32_t blocks[2], uint32_t slot)
{
    struct kernel_row r = small_row(blocks, slot);
    struct error e;

    assert_int_equal(run_rows(f, &r, 1, &e), ST_OK);
}

static unsigned char *read_pool(const struct fixture *f, struct kernels *k)
{
    struct opencl *c = opencl_of(k);
    unsigned char *all = malloc(PAGES * f->page);

    assert_non_null(all);
    opencl_copies_finish(c);
    opencl_download(c, &c->cache.groups[0], 0, all, PAGES * f->page);
    return all;
}

static bool pools_agree(const struct fixture *f)
{
    unsigned char *a = read_pool(f, f->k), *b = read_pool(f, f->other);
    bool same = memcmp(a, b, PAGES * f->page) == 0;

    free(a);
    free(b);
    return same;
}

static uint64_t n_waits(const struct fixture *f)
{
    return opencl_copies_counts(tested(f)).waits;
}

/* ---- what waits ---- */

/* The copies cannot begin until the steps have ended. */
static void step_runs_beside_copies_of_other_pages(void **state)
{
    struct fixture *f = *state;
    const uint32_t out[] = {2, 3}, beside[] = {10, 11};

    step_on(f, out, 0);
    late_driver.held = LATE_COPIES;
    late_driver.by_hand = true;
    page_out(f, 2, 0, 2);
    page_out(f, slot_of(0), 2, OPENCL_SHAPE_SLOT);
    page_in(f, 0, 6, 2);
    step_on(f, beside, 1);
    kernels_zero_slot(f->k, slot_of(2));
    kernels_zero_slot(f->other, slot_of(2));
    step_on(f, beside, 1);
    assert_true(opencl_copies_pending(tested(f)));
    assert_int_equal(opencl_copies_counts(tested(f)).copies, 3);
    assert_int_equal(n_waits(f), 0);
    late_driver_open();
    assert_true(pools_agree(f));
}

static void step_waits_for_blocks_coming_in(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {12, 5};

    page_out(f, 0, 0, 4);
    late_driver.held = LATE_COPIES;
    page_in(f, 2, 5, 1);
    step_on(f, blocks, 0);
    assert_int_equal(n_waits(f), 1);
    assert_true(pools_agree(f));
}

static void step_waits_for_its_slot_coming_in(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {12, 5};

    page_out(f, slot_of(1), 0, OPENCL_SHAPE_SLOT);
    late_driver.held = LATE_COPIES;
    page_in(f, 0, slot_of(3), OPENCL_SHAPE_SLOT);
    step_on(f, blocks, 3);
    assert_int_equal(n_waits(f), 1);
    assert_true(pools_agree(f));
}

static void step_waits_for_pages_going_out(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {4, 5};

    late_driver.held = LATE_COPIES;
    page_out(f, 4, 0, 2);
    page_out(f, slot_of(2), 2, OPENCL_SHAPE_SLOT);
    step_on(f, blocks, 2);
    assert_int_equal(n_waits(f), 1);
    page_in(f, 0, 16, 5);
    assert_true(pools_agree(f));
}

static void step_waits_for_pages_that_it_saves_to(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {0, 1, 2, 3, 4};
    const struct kernel_save save = {KERNELS_SAVE_CUT, slot_of(4)};
    const struct kernel_row row = {.n_tokens = 70,
                                   .blocks = blocks,
                                   .slot = slot_of(1),
                                   .n_saves = 1,
                                   .saves = &save};
    struct error e;

    late_driver.held = LATE_COPIES;
    page_out(f, slot_of(4), 0, OPENCL_SHAPE_SLOT);
    assert_int_equal(run_rows(f, &row, 1, &e), ST_OK);
    assert_int_equal(n_waits(f), 1);
    page_in(f, 0, slot_of(6), OPENCL_SHAPE_SLOT);
    assert_true(pools_agree(f));
}

/* A call waits if it uses a page with a copy, and only then. */
static void calls_on_pages_wait_for_their_copies_alone(void **state)
{
    struct fixture *f = *state;
    struct kernels *both[] = {f->k, f->other};

    late_driver.held = LATE_COPIES;
    page_out(f, slot_of(0), 0, OPENCL_SHAPE_SLOT);
    page_out(f, 3, 4, 2);
    page_in(f, 4, 8, 2);
    for (int i = 0; i < 2; i++) {
        kernels_zero_slot(both[i], slot_of(1));
        kernels_copy_pages(both[i], 16, 18, 2);
        kernels_poison_pages(both[i], 10, 2);
    }
    assert_int_equal(n_waits(f), 0);
    for (int i = 0; i < 2; i++) {
        kernels_zero_slot(both[i], slot_of(0));
    }
    assert_int_equal(n_waits(f), 1);
    for (int i = 0; i < 2; i++) {
        kernels_poison_pages(both[i], 4, 1);
    }
    assert_int_equal(n_waits(f), 2);
    for (int i = 0; i < 2; i++) {
        kernels_copy_pages(both[i], 9, 12, 1);
        kernels_copy_pages(both[i], 13, 8, 1);
    }
    /* The queue waits for that copy already. */
    assert_int_equal(n_waits(f), 3);
    assert_true(pools_agree(f));
}

static void contents_are_read_behind_their_copies(void **state)
{
    struct fixture *f = *state;
    unsigned char a[8192], b[8192], tail_a[4096], tail_b[4096];
    static float state_a[4096], state_b[4096];

    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    memset(tail_a, 0, sizeof tail_a);
    memset(tail_b, 0, sizeof tail_b);
    page_out(f, 1, 0, 1);
    page_out(f, slot_of(2), 1, OPENCL_SHAPE_SLOT);
    late_driver.held = LATE_COPIES;
    page_in(f, 0, 7, 1);
    page_in(f, 1, slot_of(5), OPENCL_SHAPE_SLOT);
    kernels_block_copy(f->k, 1, 7, a, false);
    kernels_block_copy(f->other, 1, 7, b, false);
    assert_memory_equal(a, b, sizeof a);
    kernels_slot_copy(f->k, 0, slot_of(5),
                      (void *[MIXER_PARTS_MAX]){state_a, tail_a}, false);
    kernels_slot_copy(f->other, 0, slot_of(5),
                      (void *[MIXER_PARTS_MAX]){state_b, tail_b}, false);
    assert_memory_equal(state_a, state_b, sizeof state_a);
    assert_memory_equal(tail_a, tail_b, sizeof tail_a);
}

/* Copies wait for what the steps' queue had before them. */
static void copies_wait_for_earlier_commands(void **state)
{
    struct fixture *f = *state;
    struct kernels *both[] = {f->k, f->other};

    late_driver.held = LATE_STEPS;
    for (int i = 0; i < 2; i++) {
        kernels_poison_pages(both[i], 2, 2);
        kernels_copy_pages(both[i], 9, 3, 1);
    }
    page_out(f, 2, 0, 2);
    page_out(f, 5, 2, 1);
    assert_int_equal(opencl_copies_counts(tested(f)).markers, 1);
    page_in(f, 2, 3, 1);
    page_in(f, 0, 14, 2);
    assert_int_equal(opencl_copies_counts(tested(f)).markers, 1);
    assert_true(pools_agree(f));
}

/* One host page is used again and again. */
static void chains_through_one_host_page(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 2; i++) {
        late_driver.held = i == 0 ? LATE_COPIES : LATE_STEPS;
        for (uint32_t k = 0; k + 1 < BLOCKS; k++) {
            page_out(f, k, 3, 1);
            page_in(f, 3, (k * 5 + 1) % BLOCKS, 1);
        }
        assert_true(pools_agree(f));
    }
}

/* ---- limits ---- */

static void full_ring_waits_for_its_oldest_copy(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < 2; i++) {
        late_driver.held = LATE_COPIES;
        for (uint32_t k = 0; k < OPENCL_COPIES_MAX; k++) {
            page_out(f, k % BLOCKS, k % HOST, 1);
        }
        assert_true(opencl_copies_pending(tested(f)));
        late_driver.n_waits = 0;
        page_in(f, 7, 3, 1);
        assert_int_equal(late_driver.n_waits, 1);
        assert_true(pools_agree(f));
    }
}

/* ---- failures ---- */

static void refused_copy_fails_the_next_end(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {12, 13};
    struct kernel_row r = small_row(blocks, 0);
    struct error e = {ST_OK, ""};

    /* Every driver refuses bytes behind the buffer. */
    opencl_copies_add(
        tested(f),
        &(struct opencl_copy){.mem = tested(f)->cache.groups[0].mem,
                              .at = (uint64_t)1 << 40,
                              .bytes = 1,
                              .host = f->host,
                              .out = true},
        0, 1);
    assert_int_equal(run_rows(f, &r, 1, &e), ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "copy pages to the host"));
    assert_true(kernels_lost(f->k));
}

static void failed_copy_fails_the_step_that_needs_it(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {4, 5};
    struct kernel_row r = small_row(blocks, 0);
    struct error e = {ST_OK, ""};

    late_driver.fail_in = 1;
    late_driver.fail_code = CL_OUT_OF_RESOURCES;
    kernels_page_out(f->k, 4, 0, 1);
    kernels_page_out(f->k, 8, 1, 1);
    assert_int_equal(run_rows(f, &r, 1, &e), ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "a copy to or from the host failed"));
    assert_non_null(strstr(e.text, "CL_OUT_OF_RESOURCES"));
    assert_true(kernels_lost(f->k));
}

/* The step does not need that copy, nor the one before it, which is late. */
static void failed_copy_fails_a_later_end(void **state)
{
    struct fixture *f = *state;
    const uint32_t blocks[] = {4, 5};
    struct kernel_row r = small_row(blocks, 0);
    struct error e = {ST_OK, ""};

    late_driver.held = LATE_COPIES;
    late_driver.by_hand = true;
    late_driver.fail_in = 2;
    late_driver.fail_code = CL_OUT_OF_RESOURCES;
    kernels_page_out(f->k, 7, 0, 1);
    kernels_page_out(f->k, 8, 1, 1);
    assert_int_equal(run_rows(f, &r, 1, &e), ST_OK);
    assert_false(kernels_lost(f->k));
    late_driver_open();
    late_driver.by_hand = false;
    opencl_copies_finish(tested(f));
    assert_int_equal(run_rows(f, &r, 1, &e), ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "CL_OUT_OF_RESOURCES"));
}

/* ---- random sequences ---- */

/* Makes up to ROWS rows on blocks and slots of their own. */
static void random_step(struct fixture *f, struct dice *d)
{
    static struct kernel_row rows[ROWS];
    static struct kernel_save saves[ROWS];
    uint32_t tables[ROWS][TABLE], order[BLOCKS], slots[SLOTS];
    uint32_t n = 1 + dice_below(d, ROWS), tokens = 0;
    struct error e;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t at = dice_below(d, i + 1);

        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t at = dice_below(d, i + 1);

        slots[i] = slots[at];
        slots[at] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool keeps = i + 1 == n, saved = i == 0 && n > 1;
        uint32_t n_tokens = 1 + dice_below(d, keeps ? KEEP : 12);

        memcpy(tables[i], order + i * TABLE, sizeof tables[i]);
        n_tokens = saved ? KERNELS_SAVE_CUT + dice_below(d, 8) : n_tokens;
        saves[i] =
            (struct kernel_save){KERNELS_SAVE_CUT, slot_of(slots[SLOTS - 1])};
        rows[i] = (struct kernel_row){.first = tokens,
                                      .n_tokens = n_tokens,
                                      .position = saved ? 0 : dice_below(d, 40),
                                      .blocks = tables[i],
                                      .slot = slot_of(slots[i]),
                                      .generated = keeps,
                                      .keep = keeps,
                                      .n_saves = saved ? 1 : 0,
                                      .saves = &saves[i]};
        tokens += n_tokens;
    }
    assert_int_equal(run_rows(f, rows, n, &e), ST_OK);
}

static void random_call(struct fixture *f, struct dice *d)
{
    struct kernels *both[] = {f->k, f->other};
    uint32_t slot = slot_of(dice_below(d, SLOTS)), n = 1 + dice_below(d, 4);
    uint32_t from = dice_below(d, PAGES / 2 - 3);
    uint32_t to = PAGES / 2 + dice_below(d, PAGES / 2 - 3);
    const struct kernel_replay r = {slot, 0, 1};
    bool back = dice_below(d, 2) == 1;
    uint32_t kind = dice_below(d, 4);

    for (int i = 0; i < 2; i++) {
        switch (kind) {
        case 0:
            kernels_zero_slot(both[i], slot);
            break;
        case 1:
            kernels_replay(both[i], &r, 1);
            break;
        case 2:
            kernels_copy_pages(both[i], back ? to : from, back ? from : to, n);
            break;
        default:
            kernels_poison_pages(both[i], to, 1);
            break;
        }
    }
}

static void random_copy(struct fixture *f, struct dice *d)
{
    uint32_t n = 1 + dice_below(d, 5), page = dice_below(d, PAGES - n + 1);
    uint32_t host = dice_below(d, HOST - n + 1);

    if (dice_below(d, 2) == 0) {
        page_out(f, page, host, n);
    } else {
        page_in(f, host, page, n);
    }
}

/* Returns whether all bytes agree after `ops` random calls. */
static bool random_calls(struct fixture *f, uint32_t seed, uint32_t ops)
{
    struct dice d = {seed};
    bool same = true;

    fill_pools(f, seed);
    page_out(f, 0, 0, HOST);
    random_step(f, &d); /* what it keeps is replayed */
    for (uint32_t i = 0; i < ops && same; i++) {
        uint32_t kind = dice_below(&d, 20);

        if (kind == 0) {
            random_step(f, &d);
        } else if (kind < 6) {
            random_call(f, &d);
        } else {
            random_copy(f, &d);
        }
        same = i % 100 != 99 || pools_agree(f);
    }
    page_in(f, 0, 0, HOST);
    return same && pools_agree(f);
}

static void random_calls_with_late_copies(void **state)
{
    late_driver.held = LATE_COPIES;
    assert_true(random_calls(*state, 5, OPS));
    assert_true(n_waits(*state) > OPS / 100);
}

static void random_calls_with_late_steps(void **state)
{
    late_driver.held = LATE_STEPS;
    assert_true(random_calls(*state, 6, OPS));
    assert_true(opencl_copies_counts(tested(*state)).markers > OPS / 100);
}

static void random_calls_at_the_drivers_own_pace(void **state)
{
    assert_true(random_calls(*state, 7, OPS));
}

static void a_missing_barrier_is_found(void **state)
{
    late_driver.held = LATE_COPIES;
    late_driver.no_barriers = true;
    assert_false(random_calls(*state, 5, OPS));
}

static void a_missing_marker_is_found(void **state)
{
    late_driver.held = LATE_STEPS;
    late_driver.no_markers = true;
    assert_false(random_calls(*state, 6, OPS));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(step_runs_beside_copies_of_other_pages),
        TEST(step_waits_for_blocks_coming_in),
        TEST(step_waits_for_its_slot_coming_in),
        TEST(step_waits_for_pages_going_out),
        TEST(step_waits_for_pages_that_it_saves_to),
        TEST(calls_on_pages_wait_for_their_copies_alone),
        TEST(contents_are_read_behind_their_copies),
        TEST(copies_wait_for_earlier_commands),
        TEST(chains_through_one_host_page),
        TEST(full_ring_waits_for_its_oldest_copy),
        TEST(refused_copy_fails_the_next_end),
        TEST(failed_copy_fails_the_step_that_needs_it),
        TEST(failed_copy_fails_a_later_end),
        TEST(random_calls_with_late_copies),
        TEST(random_calls_with_late_steps),
        TEST(random_calls_at_the_drivers_own_pace),
        TEST(a_missing_barrier_is_found),
        TEST(a_missing_marker_is_found),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
