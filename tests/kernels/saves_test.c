/* Checkpoints that are taken while a row runs, and copies of pages.
 *
 * One sequence of TOKENS hidden states runs through the linear layers of a
 * random hybrid model.  All pages that nothing has written hold NaN.  A prompt
 * is cut only at multiples of KERNELS_SAVE_CUT, as devices require; on the cpu
 * also elsewhere.  The device is that of SLUICE_TEST_DEVICE. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define LAYERS 4 /* linear, attention, linear, linear */
#define TOKENS 300
#define CUT    KERNELS_SAVE_CUT
#define SLOTS  8 /* and checkpoints */
#define BLOCKS 8
#define MODELS 3

struct rig {
    struct random_model model;
    struct kernels *k;
    struct kernels_options o;
    uint32_t pages_per_slot, n_pages;
    size_t state_bytes, tail_bytes, h;
    float *x;   /* [TOKENS, H] */
    float *out; /* [TOKENS, H] of the newest run of each position */
};

/* A slot's contents, all layers. */
struct contents {
    char *bytes;
    size_t n;
};

static bool is_linear(const struct rig *g, uint32_t layer)
{
    return g->model.w.layers[layer].kind == MIXER_DELTANET;
}

static void open_model(struct rig *g, uint32_t round)
{
    struct dice d = {round + 40};
    struct random_shape r;

    random_shape(&r, &d);
    r.shape.n_layers = LAYERS;
    r.shape.context = TOKENS;
    if (round % 2) { /* norms behind the linear layers */
        random_features(&r, &d);
    }
    for (uint32_t i = 0; i < LAYERS; i++) {
        r.mixers[i] = i == 1 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    random_model_new(&g->model, &r, &d);
    g->h = r.shape.hidden;
    g->x = calloc(TOKENS * g->h, sizeof *g->x);
    g->out = calloc(TOKENS * g->h, sizeof *g->out);
    assert_non_null(g->x);
    assert_non_null(g->out);
    for (size_t i = 0; i < TOKENS * g->h; i++) {
        g->x[i] = dice_float(&d, -2.0f, 2.0f);
    }
}

static void open_rig(struct rig *g, uint32_t round)
{
    const struct model_shape *s = &g->model.w.shape;
    struct kernels_sizes sizes;
    struct error e = {0};

    memset(g, 0, sizeof *g);
    open_model(g, round);
    g->o = (struct kernels_options){
        .device = test_device(),
        .kv.dtype = round % 2 ? DTYPE_BF16 : DTYPE_F32,
        .block_tokens = 16,
        .n_threads = 1 + round % 2,
        .max_tokens = 2 * TOKENS,
    };
    if (backend_new(&g->k, &g->model.w, &g->o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    kernels_sizes(g->k, &sizes);
    g->pages_per_slot = sizes.pages_per_slot;
    g->n_pages = SLOTS * sizes.pages_per_slot + BLOCKS;
    assert_int_equal(kernels_alloc(g->k, g->n_pages, &e), ST_OK);
    kernels_poison_pages(g->k, 0, g->n_pages);
    g->state_bytes = (size_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
    g->tail_bytes =
        ((size_t)2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim) *
        (s->conv - 1) * dtype_bytes(g->o.kv.dtype);
}

static void close_rig(struct rig *g)
{
    kernels_free(&g->k);
    random_model_free(&g->model);
    free(g->x);
    free(g->out);
}

static uint32_t slot(const struct rig *g, uint32_t i)
{
    return i * g->pages_per_slot;
}

static struct contents read_slot(const struct rig *g, uint32_t i)
{
    struct contents c = {.n = LAYERS * (g->state_bytes + g->tail_bytes)};
    char *at;

    at = c.bytes = calloc(1, c.n + 1);
    assert_non_null(at);
    for (uint32_t l = 0; l < LAYERS; l++) {
        if (is_linear(g, l)) {
            kernels_slot_copy(
                g->k, l, slot(g, i),
                (void *[MIXER_PARTS_MAX]){at, at + g->state_bytes}, false);
        }
        at += g->state_bytes + g->tail_bytes;
    }
    return c;
}

/* Takes both. */
static void same_contents(struct contents a, struct contents b)
{
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.bytes, b.bytes, a.n);
    free(a.bytes);
    free(b.bytes);
}

/* Runs rows that begin at their positions of x; *slot_of their slots. */
static void run_rows(struct rig *g, struct kernel_row *rows, uint32_t n)
{
    /* Attention does not run, but begin copies the tables. */
    static const uint32_t blocks[TOKENS];
    struct kernel_step step = {rows, n, 0};
    struct error e = {0};

    for (uint32_t i = 0; i < n; i++) {
        rows[i].first = step.n_tokens;
        rows[i].blocks = blocks;
        step.n_tokens += rows[i].n_tokens;
    }
    kernels_begin(g->k, &step);
    for (uint32_t i = 0; i < n; i++) {
        kernels_hidden_write(g->k, rows[i].first, rows[i].n_tokens,
                             g->x + rows[i].position * g->h);
    }
    for (uint32_t l = 0; l < LAYERS; l++) {
        if (is_linear(g, l)) {
            kernels_mixer(g->k, l);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        kernels_hidden_read(g->k, rows[i].first, rows[i].n_tokens,
                            g->out + rows[i].position * g->h);
    }
    if (kernels_end(g->k, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

/* Runs positions [from, to) on a slot. */
static void run_row(struct rig *g, uint32_t in, uint32_t from, uint32_t to,
                    const struct kernel_save *saves, uint32_t n_saves)
{
    struct kernel_row row = {.n_tokens = to - from,
                             .position = from,
                             .slot = slot(g, in),
                             .n_saves = n_saves,
                             .saves = saves};

    run_rows(g, &row, 1);
}

/* Returns the contents of a slot on which [0, to) has run in one row. */
static struct contents cold(struct rig *g, uint32_t to)
{
    kernels_zero_slot(g->k, slot(g, 7));
    run_row(g, 7, 0, to, NULL, 0);
    return read_slot(g, 7);
}

/* As cold(), with a row for [0, at) first. */
static struct contents cold_from(struct rig *g, uint32_t at, uint32_t to)
{
    kernels_zero_slot(g->k, slot(g, 7));
    if (at > 0) {
        run_row(g, 7, 0, at, NULL, 0);
    }
    run_row(g, 7, at, to, NULL, 0);
    return read_slot(g, 7);
}

static struct rig rigs[MODELS];
static uint32_t n_rigs; /* compilers of a device are slow: one model there */

static int open_rigs(void **state)
{
    (void)state;
    n_rigs = test_device_is_cpu() ? MODELS : 1;
    for (uint32_t i = 0; i < n_rigs; i++) {
        open_rig(&rigs[i], i);
    }
    return 0;
}

static int close_rigs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_rigs; i++) {
        close_rig(&rigs[i]);
    }
    return 0;
}

static void on_models(void (*check)(struct rig *g))
{
    for (uint32_t i = 0; i < n_rigs; i++) {
        check(&rigs[i]);
    }
}

/* ---- saves ---- */

/* One save at each multiple of CUT, in rows with every begin and end. */
static void check_each_split(struct rig *g)
{
    static const uint32_t begins[] = {0, 64, 1, 63, 65};
    static const uint32_t ends[] = {64, 127, 192};
    size_t n_begins = test_device_is_cpu() ? 5 : 2;

    for (size_t i = 0; i < n_begins * 3; i++) {
        uint32_t from = begins[i / 3], to = ends[i % 3];

        for (uint32_t p = CUT; p <= to; p += CUT) {
            const struct kernel_save save = {p, slot(g, 3)};

            if (p <= from) {
                continue;
            }
            kernels_zero_slot(g->k, slot(g, 1));
            if (from > 0) {
                run_row(g, 1, 0, from, NULL, 0);
            }
            run_row(g, 1, from, to, &save, 1);
            same_contents(read_slot(g, 3), cold(g, p));
            same_contents(read_slot(g, 1), cold_from(g, from, to));
        }
    }
}

static void save_inside_a_row_equals_a_row_that_ends_there(void **state)
{
    (void)state;
    on_models(check_each_split);
}

/* As many saves as a row may have; they change no output and no state. */
static void check_many(struct rig *g)
{
    const struct kernel_save saves[KERNELS_SAVES_MAX] = {{64, slot(g, 5)},
                                                         {128, slot(g, 3)},
                                                         {192, slot(g, 4)},
                                                         {256, slot(g, 2)}};
    size_t bytes = TOKENS * g->h * sizeof *g->out;
    float *out = malloc(bytes);
    struct contents end = cold(g, TOKENS);

    assert_non_null(out);
    memcpy(out, g->out, bytes);
    kernels_zero_slot(g->k, slot(g, 1));
    run_row(g, 1, 0, TOKENS, saves, KERNELS_SAVES_MAX);
    assert_memory_equal(out, g->out, bytes);
    same_contents(read_slot(g, 1), end);
    same_contents(read_slot(g, 5), cold(g, 64));
    same_contents(read_slot(g, 3), cold(g, 128));
    same_contents(read_slot(g, 4), cold(g, 192));
    same_contents(read_slot(g, 2), cold(g, 256));
    free(out);
}

static void several_saves_in_one_row(void **state)
{
    (void)state;
    on_models(check_many);
}

/* The rest of the sequence has the bits of the cold run, whatever ran on the
 * slot before. */
static void check_restore(struct rig *g)
{
    const struct kernel_save saves[] = {{64, slot(g, 5)}, {192, slot(g, 3)}};
    size_t bytes = TOKENS * g->h * sizeof *g->out;
    float *out = malloc(bytes);
    struct contents end = cold(g, TOKENS);

    assert_non_null(out);
    memcpy(out, g->out, bytes);
    kernels_zero_slot(g->k, slot(g, 1));
    run_row(g, 1, 0, 256, saves, 2);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t p = saves[i].position;

        kernels_copy_pages(g->k, saves[i].page, slot(g, 1), g->pages_per_slot);
        memset(g->out + p * g->h, 0, (TOKENS - p) * g->h * sizeof *g->out);
        run_row(g, 1, p, TOKENS, NULL, 0);
        assert_memory_equal(out, g->out, bytes);
    }
    same_contents(read_slot(g, 1), end);
    /* The checkpoint is a copy: what ran after it changed nothing there. */
    same_contents(read_slot(g, 3), cold(g, 192));
    free(out);
}

static void restored_checkpoint_continues_bit_equal(void **state)
{
    (void)state;
    on_models(check_restore);
}

/* Rows of the decode kernels: one token that ends at a multiple, and several
 * as when they are computed again. */
static void check_generated(struct rig *g)
{
    const struct kernel_save save = {64, slot(g, 3)};
    struct kernel_row one = {.n_tokens = 1, .position = 63, .generated = true};
    struct kernel_row many = {.n_tokens = 90, .generated = true};
    struct contents end;

    kernels_zero_slot(g->k, slot(g, 1));
    run_row(g, 1, 0, 63, NULL, 0);
    kernels_copy_pages(g->k, slot(g, 1), slot(g, 2), g->pages_per_slot);
    one.slot = slot(g, 1);
    run_rows(g, &one, 1);
    end = read_slot(g, 1);
    one.slot = slot(g, 2);
    one.saves = &save;
    one.n_saves = 1;
    run_rows(g, &one, 1);
    same_contents(read_slot(g, 2), end);
    same_contents(read_slot(g, 3), read_slot(g, 1));

    many.slot = slot(g, 1);
    kernels_zero_slot(g->k, slot(g, 1));
    many.n_tokens = 64;
    run_rows(g, &many, 1);
    many.slot = slot(g, 2);
    kernels_zero_slot(g->k, slot(g, 2));
    many.n_tokens = 90;
    many.saves = &save;
    many.n_saves = 1;
    run_rows(g, &many, 1);
    same_contents(read_slot(g, 3), read_slot(g, 1));
}

static void generated_rows_save_too(void **state)
{
    (void)state;
    on_models(check_generated);
}

/* Three rows of a step, two of which save; each writes only its own pages.
 * Slot 0 is idle, and its bits stay. */
static void check_neighbours(struct rig *g)
{
    const struct kernel_save first = {64, slot(g, 3)};
    const struct kernel_save third[] = {{64, slot(g, 5)}, {128, slot(g, 6)}};
    struct kernel_row rows[3] = {
        {.n_tokens = 100, .slot = slot(g, 2), .n_saves = 1, .saves = &first},
        {.n_tokens = 30, .slot = slot(g, 1)},
        {.n_tokens = 128, .slot = slot(g, 4), .n_saves = 2, .saves = third},
    };
    struct contents idle;

    kernels_poison_pages(g->k, 0, g->n_pages);
    kernels_zero_slot(g->k, slot(g, 0));
    run_row(g, 0, 0, 17, NULL, 0);
    idle = read_slot(g, 0);
    for (uint32_t i = 0; i < 3; i++) {
        kernels_zero_slot(g->k, rows[i].slot);
    }
    run_rows(g, rows, 3);
    same_contents(read_slot(g, 0), idle);
    same_contents(read_slot(g, 2), cold(g, 100));
    same_contents(read_slot(g, 1), cold(g, 30));
    same_contents(read_slot(g, 4), cold(g, 128));
    same_contents(read_slot(g, 3), cold(g, 64));
    same_contents(read_slot(g, 5), cold(g, 64));
    same_contents(read_slot(g, 6), cold(g, 128));
}

static void saves_touch_no_other_slot(void **state)
{
    (void)state;
    on_models(check_neighbours);
}

/* ---- pages ---- */

#define FIRST_BLOCK(g) (SLOTS * (g)->pages_per_slot)

static size_t kv_bytes(const struct rig *g)
{
    const struct model_shape *s = &g->model.w.shape;

    return (size_t)2 * s->n_kv_heads * s->head_dim * g->o.block_tokens *
           dtype_bytes(g->o.kv.dtype);
}

static void write_block(struct rig *g, uint32_t block, int value)
{
    char *kv = malloc(kv_bytes(g));

    assert_non_null(kv);
    memset(kv, value, kv_bytes(g));
    kernels_block_copy(g->k, 1, block, kv, true);
    free(kv);
}

static void check_block(struct rig *g, uint32_t block, int value)
{
    char *kv = malloc(kv_bytes(g)), *want = malloc(kv_bytes(g));

    assert_non_null(kv);
    assert_non_null(want);
    memset(want, value, kv_bytes(g));
    kernels_block_copy(g->k, 1, block, kv, false);
    assert_memory_equal(kv, want, kv_bytes(g));
    free(kv);
    free(want);
}

static void check_copies(struct rig *g)
{
    uint32_t b = FIRST_BLOCK(g);

    for (uint32_t i = 0; i < BLOCKS; i++) {
        write_block(g, b + i, (int)i + 1);
    }
    kernels_copy_pages(g->k, b + 1, b + 5, 2);
    kernels_copy_pages(g->k, b + 6, b + 2, 1); /* after the copy before */
    kernels_copy_pages(g->k, b + 7, b, 0);
    static const int want[BLOCKS] = {1, 2, 3, 4, 5, 2, 3, 8};

    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_block(g, b + i, want[i]);
    }
}

static void copies_n_pages_in_order(void **state)
{
    (void)state;
    on_models(check_copies);
}

/* Host pages have what the pool's had when the copy came up in order, whatever
 * is written to these later. */
static void check_host(struct rig *g)
{
    static const int want[BLOCKS] = {1, 4, 0x77, 3, 4, 6, 7, 6};
    uint32_t b = FIRST_BLOCK(g);
    struct contents before = cold(g, 40);
    struct error e;

    assert_int_equal(kernels_alloc_host(g->k, 5 + g->pages_per_slot, &e),
                     ST_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        write_block(g, b + i, (int)i + 1);
    }
    kernels_page_out(g->k, b + 2, 1, 3); /* 3 4 5 */
    kernels_page_out(g->k, b + 5, 0, 1); /* 6 3 4 5 */
    kernels_page_out(g->k, slot(g, 7), 5, g->pages_per_slot);
    kernels_page_out(g->k, b, 0, 0);
    kernels_poison_pages(g->k, b + 2, 3);
    kernels_poison_pages(g->k, slot(g, 6), g->pages_per_slot);
    kernels_page_in(g->k, 1, b + 3, 2); /* 3 4 behind */
    kernels_page_in(g->k, 2, b + 1, 1);
    kernels_page_in(g->k, 0, b + 7, 1);
    kernels_page_in(g->k, 5, slot(g, 6), g->pages_per_slot);
    kernels_page_in(g->k, 0, b, 0);
    write_block(g, b + 2, 0x77);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_block(g, b + i, want[i]);
    }
    same_contents(read_slot(g, 6), before);
    assert_int_equal(kernels_alloc_host(g->k, 0, &e), ST_OK);
}

static void host_pages_come_back_as_they_went(void **state)
{
    (void)state;
    on_models(check_host);
}

/* Every byte of the pages, and none of their neighbours. */
static void check_poison(struct rig *g)
{
    uint32_t b = FIRST_BLOCK(g);
    struct contents before = cold(g, 40), after;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        write_block(g, b + i, 1);
    }
    kernels_copy_pages(g->k, slot(g, 7), slot(g, 6), g->pages_per_slot);
    kernels_poison_pages(g->k, b + 2, 3);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_block(g, b + i, i >= 2 && i < 5 ? 0xff : 1);
    }
    kernels_poison_pages(g->k, slot(g, 6), g->pages_per_slot);
    after = read_slot(g, 6);
    for (size_t i = 0; i < g->state_bytes; i++) {
        assert_int_equal(after.bytes[i], (char)0xff);
    }
    same_contents(read_slot(g, 7), before);
    free(after.bytes);
}

static void poison_fills_its_pages_alone(void **state)
{
    (void)state;
    on_models(check_poison);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(save_inside_a_row_equals_a_row_that_ends_there),
        cmocka_unit_test(several_saves_in_one_row),
        cmocka_unit_test(restored_checkpoint_continues_bit_equal),
        cmocka_unit_test(generated_rows_save_too),
        cmocka_unit_test(saves_touch_no_other_slot),
        cmocka_unit_test(copies_n_pages_in_order),
        cmocka_unit_test(host_pages_come_back_as_they_went),
        cmocka_unit_test(poison_fills_its_pages_alone),
    };

    return cmocka_run_group_tests(tests, open_rigs, close_rigs);
}
