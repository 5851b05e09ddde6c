/* Tests the values that noise.cl writes: within their width, spread over it,
 * different for another seed, and nothing past the end.  A matrix in any format
 * gets finite values of about the width asked for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/embedded.h"
#include "common/model/weight_format.h"
#include "kernels/backends/backend.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/program.h"
#include "kernels/opencl/noise.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_queue.h"
#include "tests/unit/cmocka.h"

#define PIECES 4099 /* of 16 bytes */
#define GUARD  16   /* bytes behind, which must not change */
#define BYTES  ((PIECES + GUARD) * 16)
#define WIDTH  0.3f

extern const struct embedded opencl_files[];

enum dtype_of_noise { F32, BF16, F16 };

struct fixture {
    struct test_queue q;
    struct opencl_programs *programs;
};

static int set_up(void **state)
{
    static struct fixture f;
    struct error e;

    test_queue_open(&f.q);
    assert_int_equal(
        opencl_programs_new(&f.programs, f.q.context, &f.q.device, opencl_files,
                            "-cl-std=CL1.2 -DH=16 -DEPS=1e-6f", "", &e),
        ST_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    opencl_programs_free(&f->programs);
    test_queue_close(&f->q);
    return 0;
}

static void set(cl_kernel k, cl_uint at, size_t size, const void *value)
{
    assert_int_equal(clSetKernelArg(k, at, size, value), CL_SUCCESS);
}

static void run(struct fixture *f, cl_kernel k, cl_mem mem, cl_ulong seed)
{
    size_t global = 640, local = 64;
    cl_ulong at = 0, n = PIECES;
    cl_float width = WIDTH;

    set(k, 0, sizeof mem, &mem);
    set(k, 1, sizeof at, &at);
    set(k, 2, sizeof seed, &seed);
    set(k, 3, sizeof width, &width);
    set(k, 4, sizeof n, &n);
    assert_int_equal(clEnqueueNDRangeKernel(f->q.queue, k, 1, NULL, &global,
                                            &local, 0, NULL, NULL),
                     CL_SUCCESS);
}

/* Fills out [BYTES], whose bits are all 1 before. */
static void noise(struct fixture *f, enum dtype_of_noise dtype, cl_ulong seed,
                  char *out)
{
    char define[32];
    cl_program program;
    struct error e;
    cl_kernel k;
    cl_mem mem;

    memset(out, 0xff, BYTES);
    snprintf(define, sizeof define, "-DNOISE_DTYPE=%d", (int)dtype);
    assert_int_equal(
        opencl_programs_get(f->programs, &program, "noise", define, &e), ST_OK);
    k = clCreateKernel(program, "noise", NULL);
    mem = clCreateBuffer(f->q.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                         BYTES, out, NULL);
    assert_non_null(mem);
    run(f, k, mem, seed);
    assert_int_equal(clEnqueueReadBuffer(f->q.queue, mem, CL_TRUE, 0, BYTES,
                                         out, 0, NULL, NULL),
                     CL_SUCCESS);
    clReleaseMemObject(mem);
    clReleaseKernel(k);
}

static float value(const char *at, enum dtype_of_noise dtype)
{
    uint16_t h;
    float f;

    if (dtype == F32) {
        memcpy(&f, at, sizeof f);
        return f;
    }
    memcpy(&h, at, sizeof h);
    if (dtype == BF16) {
        uint32_t bits = (uint32_t)h << 16;

        memcpy(&f, &bits, sizeof f);
        return f;
    }
    f = (h >> 10 & 31) != 0
            ? ldexpf((float)(1024 + (h & 1023)), (h >> 10 & 31) - 25)
            : ldexpf((float)(h & 1023), -24);
    return h >> 15 ? -f : f;
}

static void check_values(const char *got, enum dtype_of_noise dtype)
{
    size_t item = dtype == F32 ? 4 : 2, n = PIECES * 16 / item;
    double sum = 0.0, squares = 0.0;

    for (size_t i = 0; i < n; i++) {
        float v = value(got + i * item, dtype);

        assert_true(fabsf(v) <= WIDTH * 1.004f); /* rounded to bf16 */
        sum += v;
        squares += (double)v * v;
    }
    /* Uniform values have mean 0 and a third of the width's square as variance;
     * the limits are nine standard deviations or more. */
    assert_true(fabs(sum / (double)n) < 0.05 * WIDTH);
    assert_true(fabs(squares / (double)n * 3 / (WIDTH * WIDTH) - 1) < 0.07);
}

static void fills_what_it_should(void **state)
{
    char *got = malloc(BYTES), *other = malloc(BYTES);

    assert_true(got != NULL && other != NULL);
    for (int dtype = F32; dtype <= F16; dtype++) {
        noise(*state, (enum dtype_of_noise)dtype, 7, got);
        check_values(got, (enum dtype_of_noise)dtype);
        for (size_t i = PIECES * 16; i < BYTES; i++) {
            assert_int_equal((unsigned char)got[i], 0xff);
        }
        noise(*state, (enum dtype_of_noise)dtype, 7, other);
        assert_memory_equal(got, other, BYTES);
        noise(*state, (enum dtype_of_noise)dtype, 8, other);
        assert_memory_not_equal(got, other, 64);
        assert_memory_not_equal(got, got + PIECES * 8, 64);
    }
    free(got);
    free(other);
}

/* ---- formats ---- */

#define ROWS 4
#define COLS 1024

/* Opens a backend for its memory and programs; its model does not matter. */
static struct kernels *open_backend(struct random_model *m)
{
    const struct random_shape r = opencl_shape();
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_BF16,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = OPENCL_SHAPE_TOKENS};
    struct dice d = {11};
    struct kernels *k;
    struct error e;

    random_model_new(m, &r, &d);
    if (backend_new(&k, &m->w, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return k;
}

/* Fills a matrix with noise, and decodes it to out [ROWS, COLS]. */
static void fill_matrix(struct opencl *c, enum weight_format format, float *out)
{
    static char bytes[2 * ROWS * COLS];
    const struct opencl_tensor form = {.item = 1,
                                       .dtype = DTYPE_BF16,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .format = format,
                                       .bits = weight_format_bits(format),
                                       .group = weight_format_group(format)};
    const size_t n = opencl_tensor_bytes(&form);
    struct opencl_arena *arena = opencl_arena_new("noise");
    struct tensor t = opencl_tensor_form(&form);
    struct opencl_tensor w;
    struct error e;

    assert_in_range(n, 1, sizeof bytes);
    opencl_arena_add(arena, &w, 1, n, 1);
    assert_int_equal(opencl_arena_make(c, arena, &e), ST_OK);
    w.rows = ROWS;
    w.cols = COLS;
    w.format = format;
    w.bits = form.bits;
    w.group = form.group;
    opencl_noise(c, &w, WIDTH, 3);
    opencl_download(c, &w, 0, bytes, n);
    t.data = bytes;
    t.scales = bytes + opencl_scales_at(&form);
    for (uint32_t i = 0; i < ROWS; i++) {
        weight_format_decode(out + (size_t)i * COLS, &t, i, 0, COLS);
    }
    opencl_arena_free(&arena);
}

static void fills_matrices_of_any_format(void **state)
{
    static float out[ROWS * COLS];
    struct random_model m;
    struct kernels *k = open_backend(&m);

    (void)state;
    for (int f = WEIGHT_FP8; f < WEIGHT_FORMATS; f++) {
        double squares = 0.0;

        fill_matrix(opencl_of(k), (enum weight_format)f, out);
        for (size_t i = 0; i < ROWS * COLS; i++) {
            assert_true(fabsf(out[i]) <= 1.5f * WIDTH);
            squares += (double)out[i] * (double)out[i];
        }
        /* Some formats' codes are far from uniform. */
        assert_true(sqrt(squares / (ROWS * COLS)) > 0.02 * WIDTH);
    }
    kernels_free(&k);
    random_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_what_it_should),
        cmocka_unit_test(fills_matrices_of_any_format),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
