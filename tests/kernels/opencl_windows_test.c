/* Tests window layers on the opencl backend: a token's bits depend on its own
 * window alone, in whatever rows and pages it is computed, and nothing behind
 * the window is read.  A step waits for window pages that come in from the
 * host. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/queue.h"
#include "tests/kernels/late_driver.h"
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

/* Sends pages to the host, and begins to bring them back. */
static void swap(struct fixture *f, const uint32_t *pages, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        kernels_page_out(f->k, pages[i], i, 1);
        kernels_poison_pages(f->k, pages[i], 1);
    }
    opencl_copies_finish(opencl_of(f->k));
    late_driver.held = LATE_COPIES;
    for (uint32_t i = 0; i < n; i++) {
        kernels_page_in(f->k, i, pages[i], 1);
    }
}

static uint64_t n_waits(const struct fixture *f)
{
    return opencl_copies_counts(opencl_of(f->k)).waits;
}

/* How a run differs from another. */
struct variant {
    uint32_t chunk; /* tokens of a row */
    bool generated;
    uint32_t first, step; /* page of block i: (first + i * step) % PAGES */
    uint32_t behind;      /* blocks behind the window that tables still name */
    bool swapped;         /* the window comes in late for each row */
};

/* Runs all tokens through the window layer; blocks behind the window are
 * filled with NaN. */
static void run(struct fixture *f, const struct variant *v, float *out)
{
    const uint32_t h = f->model.w.shape.hidden, w = f->model.w.shape.window;
    uint32_t pages[BLOCKS], others[BLOCKS];
    uint64_t waits;

    kernels_poison_pages(f->k, 0, PAGES);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        pages[i] = (v->first + i * v->step) % PAGES;
        others[i] = BLOCKS + i;
    }
    for (uint32_t at = 0; at < TOKENS; at += v->chunk) {
        const uint32_t n = TOKENS - at < v->chunk ? TOKENS - at : v->chunk;
        const uint32_t low = (at + 1 > w ? at + 1 - w : 0) / OPENCL_SHAPE_BLOCK;
        const uint32_t first = low > v->behind ? low - v->behind : 0;
        const struct kernel_row row = {.n_tokens = n,
                                       .position = at,
                                       .blocks = v->swapped ? others : pages,
                                       .window = pages + first,
                                       .window_first = first,
                                       .window_stride = BLOCKS - first,
                                       .generated = v->generated};
        const struct kernel_step step = {&row, 1, n};

        for (uint32_t i = 0; i < low; i++) {
            kernels_poison_pages(f->k, pages[i], 1);
        }
        if (v->swapped) {
            swap(f, pages + low, (at + n - 1) / OPENCL_SHAPE_BLOCK + 1 - low);
        }
        waits = n_waits(f);
        kernels_begin(f->k, &step);
        assert_int_equal(n_waits(f), waits + (v->swapped ? 1 : 0));
        kernels_hidden_write(f->k, 0, n, f->x + (size_t)at * h);
        kernels_mixer(f->k, 0);
        kernels_hidden_read(f->k, 0, n, out + (size_t)at * h);
        assert_int_equal(kernels_end(f->k, NULL), ST_OK);
        late_driver.held = LATE_NONE;
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

static void test_step_waits_for_its_window(void **state)
{
    const struct variant plain = {.chunk = 9, .step = 1};
    const struct variant swapped = {.chunk = 9, .step = 1, .swapped = true};
    struct fixture *f = *state;
    const size_t n = (size_t)TOKENS * f->model.w.shape.hidden;
    struct error e;

    assert_int_equal(kernels_alloc_host(f->k, BLOCKS, &e), ST_OK);
    late_driver.steps = opencl_queue_id(opencl_of(f->k));
    run(f, &plain, f->expected);
    run(f, &swapped, f->out);
    late_driver = (struct late_driver){0};
    assert_memory_equal(f->out, f->expected, n * sizeof *f->out);
    assert_int_equal(kernels_alloc_host(f->k, 0, &e), ST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_do_not_depend_on_rows),
        cmocka_unit_test(test_step_waits_for_its_window),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
