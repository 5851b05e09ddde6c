/* Tests the checkpoints that the opencl backend takes while a row runs.
 *
 * A save holds the bits of a row that ends there, at any multiple of
 * KERNELS_SAVE_CUT; a sequence that goes on from it has the bits of one that
 * was never cut; and nothing else changes.  All pages hold NaN before.
 *
 * On an NVIDIA device also with a model that suits NVIDIA's kernels. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/opencl/host/opencl.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define CUT      KERNELS_SAVE_CUT
#define LENGTH   250 /* tokens of the sequence */
#define TABLE    (OPENCL_SHAPE_TOKENS / OPENCL_SHAPE_BLOCK + 1) /* blocks */
#define BLOCKS   (2 * TABLE)
#define SLOTS    8 /* slots and checkpoints */
#define ROWS_MAX 4

/* The contents of a slot, as read. */
struct state {
    float *state;
    unsigned char *tail;
};

struct fixture {
    struct random_model model;
    struct kernels *k;
    uint32_t pages_per_slot, h;
    size_t state_bytes, tail_bytes;
    uint32_t ids[LENGTH];
    uint32_t tables[2][TABLE];
    float *whole;      /* [LENGTH, H] x of the sequence in one row */
    struct state done; /* its state at the end */
};

static uint32_t slot_of(const struct fixture *f, uint32_t i)
{
    return ((BLOCKS + f->pages_per_slot - 1) / f->pages_per_slot + i) *
           f->pages_per_slot;
}

/* The same model, with the sizes that NVIDIA's kernels take. */
static struct random_shape tuned_shape(void)
{
    struct random_shape r = opencl_shape();

    r.shape.hidden = 128;
    r.shape.k_dim = r.shape.v_dim = 128;
    return r;
}

static void close_kernels(struct fixture *f)
{
    kernels_free(&f->k);
    random_model_free(&f->model);
    free(f->whole);
    free(f->done.state);
    free(f->done.tail);
}

static struct state new_state(const struct fixture *f)
{
    struct state s = {calloc(1, f->state_bytes), calloc(1, f->tail_bytes)};

    assert_true(s.state != NULL && s.tail != NULL);
    return s;
}

static void read_slot(const struct fixture *f, uint32_t i, struct state *s)
{
    kernels_slot_copy(f->k, 0, slot_of(f, i),
                      (void *[MIXER_PARTS_MAX]){s->state, s->tail}, false);
}

static void assert_same(const struct fixture *f, uint32_t slot,
                        const struct state *want)
{
    struct state got = new_state(f);

    read_slot(f, slot, &got);
    assert_memory_equal(got.state, want->state, f->state_bytes);
    assert_memory_equal(got.tail, want->tail, f->tail_bytes);
    free(got.state);
    free(got.tail);
}

static void assert_slots_same(const struct fixture *f, uint32_t a, uint32_t b)
{
    struct state want = new_state(f);

    read_slot(f, b, &want);
    assert_same(f, a, &want);
    free(want.state);
    free(want.tail);
}

static void assert_poisoned(const struct fixture *f, uint32_t slot)
{
    struct state want = new_state(f);

    memset(want.state, 0xff, f->state_bytes);
    memset(want.tail, 0xff, f->tail_bytes);
    assert_same(f, slot, &want);
    free(want.state);
    free(want.tail);
}

/* Tokens [from, to) of the sequence, in a slot and in blocks of table `table`;
 * saves: positions and slots, up to a position 0. */
struct part {
    uint32_t from, to, slot, table;
    bool generated;
    uint32_t saves[KERNELS_SAVES_MAX + 1][2];
};

static void make_row(const struct fixture *f, const struct part *p,
                     struct kernel_save *saves, struct kernel_row *row)
{
    uint32_t n = 0;

    for (; p->saves[n][0] > 0; n++) {
        saves[n] =
            (struct kernel_save){p->saves[n][0], slot_of(f, p->saves[n][1])};
    }
    *row = (struct kernel_row){.n_tokens = p->to - p->from,
                               .position = p->from,
                               .blocks = f->tables[p->table],
                               .slot = slot_of(f, p->slot),
                               .generated = p->generated,
                               .n_saves = n,
                               .saves = saves};
}

/* Runs a step of n parts; x [tokens, H] of all of them, in their order. */
static void run(const struct fixture *f, const struct part *parts, uint32_t n,
                float *x)
{
    struct kernel_save saves[ROWS_MAX][KERNELS_SAVES_MAX];
    struct kernel_row rows[ROWS_MAX];
    struct kernel_step step = {rows, n, 0};
    uint32_t ids[ROWS_MAX * LENGTH];
    struct error e;

    assert_in_range(n, 1, ROWS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        make_row(f, &parts[i], saves[i], &rows[i]);
        rows[i].first = step.n_tokens;
        memcpy(ids + step.n_tokens, f->ids + parts[i].from,
               rows[i].n_tokens * sizeof *ids);
        step.n_tokens += rows[i].n_tokens;
    }
    kernels_begin(f->k, &step);
    kernels_embed(f->k, ids);
    kernels_mixer(f->k, 0);
    kernels_ffn(f->k, 0);
    kernels_mixer(f->k, 1);
    kernels_ffn(f->k, 1);
    if (x != NULL) {
        kernels_hidden_read(f->k, 0, step.n_tokens, x);
    }
    assert_int_equal(kernels_end(f->k, &e), ST_OK);
}

static void assert_x(const struct fixture *f, const float *x, uint32_t from,
                     uint32_t to)
{
    assert_memory_equal(x, f->whole + (size_t)from * f->h,
                        (size_t)(to - from) * f->h * sizeof *x);
}

/* Poisons every page and zeroes slot 0. */
static void restart(const struct fixture *f)
{
    kernels_poison_pages(f->k, 0, slot_of(f, SLOTS));
    kernels_zero_slot(f->k, slot_of(f, 0));
}

static void open_kernels(struct fixture *f, const struct random_shape *shape)
{
    struct kernels_options o = {.device = test_device_or("0"),
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = OPENCL_SHAPE_BLOCK,
                                .max_tokens = OPENCL_SHAPE_TOKENS};
    struct dice d = {23};
    struct kernels_sizes sizes;
    struct error e;

    random_model_new(&f->model, shape, &d);
    if (backend_new(&f->k, &f->model.w, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    kernels_sizes(f->k, &sizes);
    f->pages_per_slot = sizes.pages_per_slot;
    f->h = shape->shape.hidden;
    f->state_bytes = (size_t)shape->shape.n_v_heads * shape->shape.k_dim *
                     shape->shape.v_dim * sizeof(float);
    f->tail_bytes = (size_t)3 * 2 *
                    (2 * shape->shape.n_k_heads * shape->shape.k_dim +
                     shape->shape.n_v_heads * shape->shape.v_dim);
    assert_int_equal(kernels_alloc(f->k, slot_of(f, SLOTS), &e), ST_OK);
    for (uint32_t i = 0; i < LENGTH; i++) {
        f->ids[i] = dice_below(&d, shape->shape.vocab);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        f->tables[i % 2][i / 2] = (i * 7 + 3) % BLOCKS;
    }
}

/* Runs the sequence in one row, without saves. */
static void record(struct fixture *f)
{
    const struct part all = {0, LENGTH, 0, 0, false, {{0}}};

    f->whole = malloc((size_t)LENGTH * f->h * sizeof *f->whole);
    assert_non_null(f->whole);
    f->done = new_state(f);
    restart(f);
    run(f, &all, 1, f->whole);
    read_slot(f, 0, &f->done);
}

/* ---- tests ---- */

/* Saves inside a row change nothing else, and hold what rows that end there
 * leave. */
static void inner_saves(const struct fixture *f, float *x)
{
    const struct part all = {0, LENGTH, 0,
                             0, false,  {{CUT, 2}, {2 * CUT, 3}, {3 * CUT, 4}}};
    const struct part cut[] = {{0, CUT, 1, 1, false, {{0}}},
                               {CUT, 2 * CUT, 1, 1, false, {{0}}},
                               {2 * CUT, 3 * CUT, 1, 1, false, {{0}}}};

    restart(f);
    run(f, &all, 1, x);
    assert_x(f, x, 0, LENGTH);
    assert_same(f, 0, &f->done);
    assert_poisoned(f, 1);
    assert_poisoned(f, 5);
    kernels_zero_slot(f->k, slot_of(f, 1));
    for (uint32_t i = 0; i < 3; i++) {
        run(f, &cut[i], 1, x);
        assert_x(f, x, cut[i].from, cut[i].to);
        assert_slots_same(f, 2 + i, 1);
    }
}

/* A row may begin inside a chunk, and end where it saves. */
static void save_at_end(const struct fixture *f)
{
    const struct part parts[] = {
        {0, 40, 0, 0, false, {{0}}},
        {40, 3 * CUT, 0, 0, false, {{CUT, 2}, {3 * CUT, 3}}}};
    const struct part other[] = {{0, 40, 1, 1, false, {{0}}},
                                 {40, CUT, 1, 1, false, {{0}}}};

    restart(f);
    kernels_zero_slot(f->k, slot_of(f, 1));
    for (uint32_t i = 0; i < 2; i++) {
        run(f, &parts[i], 1, NULL);
        run(f, &other[i], 1, NULL);
    }
    assert_slots_same(f, 3, 0);
    assert_slots_same(f, 2, 1);
}

/* From a checkpoint, in another slot, the sequence has the bits of the unbroken
 * run, however it is cut afterwards; and the checkpoint stays. */
static void restored(const struct fixture *f, uint32_t at, uint32_t chunk,
                     float *x)
{
    const struct part first = {0, LENGTH, 0, 0, false, {{at, 2}}};

    restart(f);
    run(f, &first, 1, NULL);
    kernels_poison_pages(f->k, slot_of(f, 0), f->pages_per_slot);
    kernels_copy_pages(f->k, slot_of(f, 2), slot_of(f, 5), f->pages_per_slot);
    for (uint32_t from = at; from < LENGTH; from += chunk) {
        struct part p = {from, from + chunk, 5, 0, false, {{0}}};

        p.to = p.to < LENGTH ? p.to : LENGTH;
        run(f, &p, 1, x);
        assert_x(f, x, p.from, p.to);
    }
    assert_same(f, 5, &f->done);
    assert_poisoned(f, 0);
    kernels_copy_pages(f->k, slot_of(f, 2), slot_of(f, 0), f->pages_per_slot);
    run(f, &(struct part){at, LENGTH, 0, 0, false, {{0}}}, 1, x);
    assert_x(f, x, at, LENGTH);
}

/* Rows of both kinds in a step have their own saves. */
static void many_rows(const struct fixture *f, float *x)
{
    const struct part head = {0, 2 * CUT - 3, 1, 1, false, {{0}}};
    const struct part alone[] = {{2 * CUT - 3, 2 * CUT, 4, 1, true, {{0}}},
                                 {2 * CUT, 2 * CUT + 2, 4, 1, true, {{0}}}};
    const struct part both[] = {
        {0, 100, 0, 0, false, {{CUT, 2}}},
        {2 * CUT - 3, 2 * CUT + 2, 1, 1, true, {{2 * CUT, 3}}}};
    const struct part short_row = {0, CUT, 5, 0, false, {{0}}};
    float *y = malloc((size_t)LENGTH * f->h * sizeof *y);

    assert_non_null(y);
    restart(f);
    kernels_zero_slot(f->k, slot_of(f, 1));
    run(f, &head, 1, NULL);
    kernels_copy_pages(f->k, slot_of(f, 1), slot_of(f, 4), f->pages_per_slot);
    run(f, both, 2, x);
    assert_x(f, x, 0, 100);
    run(f, &alone[0], 1, y);
    assert_memory_equal(y, x + (size_t)100 * f->h, 3 * f->h * sizeof *x);
    assert_slots_same(f, 3, 4);
    run(f, &alone[1], 1, y);
    assert_memory_equal(y, x + (size_t)103 * f->h, 2 * f->h * sizeof *x);
    assert_slots_same(f, 1, 4);
    kernels_zero_slot(f->k, slot_of(f, 5));
    run(f, &short_row, 1, NULL);
    assert_slots_same(f, 2, 5);
    free(y);
}

static void try_model(const struct random_shape *shape)
{
    static struct fixture f;
    float *x;

    memset(&f, 0, sizeof f);
    open_kernels(&f, shape);
    record(&f);
    x = malloc((size_t)2 * LENGTH * f.h * sizeof *x);
    assert_non_null(x);
    inner_saves(&f, x);
    save_at_end(&f);
    for (uint32_t i = 1; i < 4; i++) {
        restored(&f, i * CUT, CUT, x);
        restored(&f, i * CUT, 2 * CUT, x);
    }
    many_rows(&f, x);
    free(x);
    close_kernels(&f);
}

static void saves_have_the_bits_of_a_row_that_ends_there(void **state)
{
    const struct random_shape shape = opencl_shape();

    (void)state;
    try_model(&shape);
}

static void saves_of_tuned_kernels_have_the_same_bits(void **state)
{
    const struct random_shape shape = tuned_shape();
    struct opencl_device d;
    struct error e;

    (void)state;
    assert_int_equal(opencl_device_find(&d, test_device_or("0"), &e), ST_OK);
    if (d.nvidia == 0) {
        skip();
    }
    try_model(&shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_have_the_bits_of_a_row_that_ends_there),
        cmocka_unit_test(saves_of_tuned_kernels_have_the_same_bits),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
