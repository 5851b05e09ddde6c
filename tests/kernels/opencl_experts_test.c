/* Tests layers with experts on the opencl backend: a token's bits depend on no
 * other token, however its products are grouped, and values that are not finite
 * stay in their row.  One model suits NVIDIA's kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/opencl/experts.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define TOKENS OPENCL_SHAPE_TOKENS

struct fixture {
    struct random_model model;
    struct kernels *k;
    uint32_t blocks[TOKENS / OPENCL_SHAPE_BLOCK + 1];
    float *x, *alone, *out; /* [TOKENS, H] */
};

static float *room(size_t n)
{
    float *p = malloc(n * sizeof *p);

    assert_non_null(p);
    return p;
}

static int set_up_shape(void **state, const struct random_shape *of)
{
    static struct fixture f;
    const struct random_shape r = *of;
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_BF16,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = TOKENS};
    struct dice d = {77};
    struct error e;

    random_model_new(&f.model, &r, &d);
    if (backend_new(&f.k, &f.model.w, &o, &e) != ST_OK ||
        kernels_alloc(f.k, 3 * OPENCL_SHAPE_SLOT, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    f.x = room(TOKENS * r.shape.hidden);
    f.alone = room(TOKENS * r.shape.hidden);
    f.out = room(TOKENS * r.shape.hidden);
    for (size_t i = 0; i < TOKENS * r.shape.hidden; i++) {
        f.x[i] = dice_float(&d, -2.0f, 2.0f);
    }
    *state = &f;
    return 0;
}

static int set_up(void **state)
{
    const struct random_shape r = opencl_expert_shape();

    return set_up_shape(state, &r);
}

static int set_up_tuned(void **state)
{
    const struct random_shape r = opencl_tuned_shape(true);

    return set_up_shape(state, &r);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    kernels_free(&f->k);
    random_model_free(&f->model);
    free(f->x);
    free(f->alone);
    free(f->out);
    return 0;
}

/* Runs tokens [first, first + n), of which the last `prompt` are a prompt. */
static void run(struct fixture *f, uint32_t first, uint32_t n, uint32_t prompt,
                float *out)
{
    const uint32_t h = f->model.w.shape.hidden;
    struct kernel_row rows[2];
    struct kernel_step step = {.rows = rows, .n_tokens = n};

    if (prompt < n) {
        rows[step.n_rows++] = (struct kernel_row){
            .n_tokens = n - prompt, .blocks = f->blocks, .generated = true};
    }
    if (prompt > 0) {
        rows[step.n_rows++] = (struct kernel_row){
            .first = n - prompt, .n_tokens = prompt, .blocks = f->blocks};
    }
    kernels_begin(f->k, &step);
    kernels_hidden_write(f->k, 0, n, f->x + (size_t)first * h);
    kernels_ffn(f->k, 0);
    kernels_hidden_read(f->k, 0, n, out);
    assert_int_equal(kernels_end(f->k, NULL), ST_OK);
}

static void run_alone(struct fixture *f, uint32_t n)
{
    const uint32_t h = f->model.w.shape.hidden;

    for (uint32_t t = 0; t < n; t++) {
        run(f, t, 1, 0, f->alone + (size_t)t * h);
    }
}

/* Few pairs are products of their own, many are grouped by expert.  The
 * portable kernels have one arithmetic for prompt and generated rows. */
static void test_bits_do_not_depend_on_other_tokens(void **state)
{
    struct fixture *f = *state;
    const struct model_shape *s = &f->model.w.shape;
    const uint32_t border = EXPERTS_GROUP_FROM * s->n_experts / s->top_k;
    const uint32_t sizes[] = {1, 2, 7, 8, border, border + 1, 65, 256};
    struct kernels_sizes of;

    kernels_sizes(f->k, &of);
    run_alone(f, 256);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint32_t n = sizes[i];

        for (uint32_t prompt = 0; prompt <= (of.one_arithmetic ? n : 0);
             prompt += (n + 1) / 2) {
            memset(f->out, 0, n * s->hidden * sizeof *f->out);
            run(f, 0, n, prompt, f->out);
            assert_memory_equal(f->out, f->alone,
                                n * s->hidden * sizeof *f->out);
        }
    }
}

/* The router's choice must be of experts that exist, each once. */
static void test_nan_stays_in_its_row(void **state)
{
    struct fixture *f = *state;
    const uint32_t h = f->model.w.shape.hidden, n = 40, bad = 17;
    const float was = f->x[bad * h];
    struct kernels_sizes of;
    uint32_t prompt;

    kernels_sizes(f->k, &of);
    prompt = of.one_arithmetic ? 20 : 0;
    run_alone(f, n);
    f->x[bad * h] = NAN;
    run(f, 0, n, prompt, f->out);
    for (uint32_t t = 0; t < n; t++) {
        if (t == bad) {
            assert_true(isnan(f->out[t * h]));
        } else {
            assert_memory_equal(f->out + t * h, f->alone + t * h,
                                h * sizeof *f->out);
        }
    }
    f->x[bad * h] = was;
    run(f, 0, n, prompt, f->out);
    assert_memory_equal(f->out, f->alone, n * h * sizeof *f->out);
}

/* Prompt and generated rows may differ, but neither depends on others. */
static void test_prompt_bits_do_not_depend_on_other_tokens(void **state)
{
    struct fixture *f = *state;
    const uint32_t h = f->model.w.shape.hidden;
    const uint32_t sizes[] = {2, 33, 65, 256};

    for (uint32_t t = 0; t < 256; t++) {
        run(f, t, 1, 1, f->alone + (size_t)t * h);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint32_t n = sizes[i];

        memset(f->out, 0, n * h * sizeof *f->out);
        run(f, 0, n, n, f->out);
        assert_memory_equal(f->out, f->alone, n * h * sizeof *f->out);
    }
    run(f, 0, 64, 40, f->out);
    assert_memory_equal(f->out + 24 * h, f->alone + 24 * h,
                        40 * h * sizeof *f->out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_do_not_depend_on_other_tokens),
        cmocka_unit_test(test_nan_stays_in_its_row),
    };

    const struct CMUnitTest tuned[] = {
        cmocka_unit_test(test_prompt_bits_do_not_depend_on_other_tokens),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down) +
           cmocka_run_group_tests(tuned, set_up_tuned, tear_down);
}
