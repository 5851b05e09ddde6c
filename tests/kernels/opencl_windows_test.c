/* Tests window layers on the opencl backend: a token's bits depend on its own
 * window alone, in whatever rows and pages it is computed, and nothing behind
 * the window is read. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define TOKENS 100
#define BLOCKS ((TOKENS + OPENCL_SHAPE_BLOCK - 1) / OPENCL_SHAPE_BLOCK)
#define PAGES  (2 * BLOCKS)

struct fixture {
    struct random_model model;
    struct kernels *k;
    float *x, *expected, *out; /* [TOKENS, H] */
};

static float *room(size_t n)
{
    float *p = malloc(n * sizeof *p);

    assert_non_null(p);
    return p;
}

static int set_up(void **state)
{
    static struct fixture f;
    const struct random_shape r = opencl_window_shape();
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_F32,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = OPENCL_SHAPE_TOKENS,
                                      .portable = true};
    struct kernels_sizes sizes;
    struct dice d = {77};
    struct error e;

    random_model_new(&f.model, &r, &d);
    if (backend_new(&f.k, &f.model.w, &o, &e) != ST_OK ||
        kernels_alloc(f.k, PAGES, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    kernels_sizes(f.k, &sizes);
    assert_int_equal(sizes.window_pages, 1);
    f.x = room(TOKENS * r.shape.hidden);
    f.expected = room(TOKENS * r.shape.hidden);
    f.out = room(TOKENS * r.shape.hidden);
    for (size_t i = 0; i < TOKENS * r.shape.hidden; i++) {
        f.x[i] = dice_float(&d, -2.0f, 2.0f);
    }
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    kernels_free(&f->k);
    random_model_free(&f->model);
    free(f->x);
    free(f->expected);
    free(f->out);
    return 0;
}

/* How a run differs from another. */
struct variant {
    uint32_t chunk; /* tokens of a row */
    bool generated;
    uint32_t first, step; /* page of block i: (first + i * step) % PAGES */
    uint32_t behind;      /* blocks behind the window that tables still name */
};

/* Runs all tokens through the window layer; blocks behind the window are
 * filled with NaN. */
static void run(struct fixture *f, const struct variant *v, float *out)
{
    const uint32_t h = f->model.w.shape.hidden, w = f->model.w.shape.window;
    uint32_t pages[BLOCKS];

    kernels_poison_pages(f->k, 0, PAGES);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        pages[i] = (v->first + i * v->step) % PAGES;
    }
    for (uint32_t at = 0; at < TOKENS; at += v->chunk) {
        const uint32_t n = TOKENS - at < v->chunk ? TOKENS - at : v->chunk;
        const uint32_t low = (at + 1 > w ? at + 1 - w : 0) / OPENCL_SHAPE_BLOCK;
        const uint32_t first = low > v->behind ? low - v->behind : 0;
        const struct kernel_row row = {.n_tokens = n,
                                       .position = at,
                                       .blocks = pages,
                                       .window = pages + first,
                                       .window_first = first,
                                       .window_stride = BLOCKS - first,
                                       .generated = v->generated};
        const struct kernel_step step = {&row, 1, n};

        for (uint32_t i = 0; i < low; i++) {
            kernels_poison_pages(f->k, pages[i], 1);
        }
        kernels_begin(f->k, &step);
        kernels_hidden_write(f->k, 0, n, f->x + (size_t)at * h);
        kernels_attention(f->k, 0);
        kernels_hidden_read(f->k, 0, n, out + (size_t)at * h);
        assert_int_equal(kernels_end(f->k, NULL), ST_OK);
    }
}

static void test_bits_do_not_depend_on_rows(void **state)
{
    static const struct variant variants[] = {
        {.chunk = TOKENS, .step = 1},
        {.chunk = 1, .generated = true, .first = 3, .step = 3},
        {.chunk = 7, .first = 5, .step = 5, .behind = 1},
        {.chunk = 3, .generated = true, .step = 1, .behind = BLOCKS},
        {.chunk = OPENCL_SHAPE_BLOCK, .first = 1, .step = 9},
        {.chunk = 33, .first = 13, .step = 1},
    };
    struct fixture *f = *state;
    const size_t n = (size_t)TOKENS * f->model.w.shape.hidden;

    run(f, &(struct variant){.chunk = 1, .step = 1}, f->expected);
    for (size_t i = 0; i < n; i++) {
        assert_true(f->expected[i] == f->expected[i]); /* no NaN */
    }
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        memset(f->out, 0, n * sizeof *f->out);
        run(f, &variants[i], f->out);
        assert_memory_equal(f->out, f->expected, n * sizeof *f->out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_do_not_depend_on_rows),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
