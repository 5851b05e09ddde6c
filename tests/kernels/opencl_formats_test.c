/* Tests the formats of weights.cl against weight_format.h, through two kernels
 * that need little else: embed reads single values, dequantise sixteen at once
 * and rounds them to bf16.  Every bit of every value must be right, and nothing
 * written behind the end.  Affine matrices are in opencl_dequantise_test.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/half.h"
#include "common/model/weight_format.h"
#include "kernels/opencl/host/opencl.h"
#include "kernels/opencl/host/program.h"
#include "tests/kernels/random_weights.h"
#include "tests/kernels/test_queue.h"
#include "tests/unit/cmocka.h"

#define ROWS  3
#define COLS  512
#define ODD   141 /* columns of fp8, which takes any number */
#define LOCAL 16
#define AWAY  256 /* bytes before the matrix, values before the result */
#define GUARD 64  /* values behind */
#define ROOM  (AWAY + ROWS * COLS + GUARD)

extern const struct embedded opencl_files[];

struct fixture {
    struct test_queue q;
    struct random_model model; /* owns the matrices */
    struct dice dice;
};

static int set_up(void **state)
{
    static struct fixture f = {.dice = {5}};

    test_queue_open(&f.q);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    test_queue_close(&f->q);
    random_model_free(&f->model);
    return 0;
}

/* Kernel arguments, in order. */
struct arguments {
    cl_kernel k;
    cl_uint n;
};

static void set(struct arguments *a, size_t size, const void *value)
{
    assert_int_equal(clSetKernelArg(a->k, a->n++, size, value), CL_SUCCESS);
}

static void set_tensor(struct arguments *a, cl_mem mem, cl_ulong at)
{
    set(a, sizeof mem, &mem);
    set(a, sizeof at, &at);
}

static cl_mem buffer(const struct fixture *f, size_t bytes, void *from)
{
    cl_mem mem =
        clCreateBuffer(f->q.context, CL_MEM_COPY_HOST_PTR, bytes, from, NULL);

    assert_non_null(mem);
    return mem;
}

static void launch(const struct fixture *f, cl_kernel k, cl_uint dims,
                   size_t items, size_t rows)
{
    const size_t local[2] = {LOCAL, 1};
    const size_t global[2] = {(items + LOCAL - 1) / LOCAL * LOCAL, rows};

    assert_int_equal(clEnqueueNDRangeKernel(f->q.queue, k, dims, NULL, global,
                                            local, 0, NULL, NULL),
                     CL_SUCCESS);
}

static void read_back(const struct fixture *f, cl_mem mem, size_t bytes,
                      void *to)
{
    assert_int_equal(clEnqueueReadBuffer(f->q.queue, mem, CL_TRUE, 0, bytes, to,
                                         0, NULL, NULL),
                     CL_SUCCESS);
    clReleaseMemObject(mem);
}

/* Returns the matrix as the device stores it, AWAY bytes from the begin. */
static cl_mem matrix_of(const struct fixture *f, const struct tensor *t)
{
    static char bytes[AWAY + ROWS * COLS * 2];
    const struct opencl_tensor as = {.rows = t->rows,
                                     .cols = t->cols,
                                     .format = t->format,
                                     .bits = t->bits,
                                     .group = t->group};

    assert_in_range(AWAY + opencl_tensor_bytes(&as), AWAY, sizeof bytes);
    memset(bytes, 0xff, sizeof bytes);
    memcpy(bytes + AWAY, t->data, t->rows * tensor_row_bytes(t));
    memcpy(bytes + AWAY + opencl_scales_at(&as), t->scales,
           t->rows * tensor_scale_bytes(t));
    return buffer(f, AWAY + opencl_tensor_bytes(&as), bytes);
}

static cl_kernel kernel_of(struct fixture *f, struct opencl_programs **programs,
                           const struct tensor *t, const char *file)
{
    char options[256], defines[128];
    cl_program program;
    struct error e;
    cl_kernel k;

    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -DH=%u -DV=%d -DEPS=1e-6f -DMETA_ROWS=0 "
             "-DMETA_TOKENS=0 -DMETA_IDS=0",
             t->cols, ROWS);
    snprintf(defines, sizeof defines,
             "-DW_DTYPE=1 -DW_FORMAT=%d -DW_BITS=%u -DW_GROUP=%u "
             "-DEMBED_SCALE=1.0f -DLOGIT_SCALE=1.0f -DLOGIT_CAP=0.0f",
             (int)t->format, t->bits, t->group);
    assert_int_equal(opencl_programs_new(programs, f->q.context, &f->q.device,
                                         opencl_files, options, "", &e),
                     ST_OK);
    if (opencl_programs_get(*programs, &program, file, defines, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    k = clCreateKernel(program, strcmp(file, "rows") == 0 ? "embed" : file,
                       NULL);
    assert_non_null(k);
    return k;
}

static bool is_same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* Reads each value as it is. */
static void check_single(struct fixture *f, const struct tensor *t,
                         const float *wide)
{
    const uint32_t h = t->cols, n = ROWS;
    struct opencl_programs *programs;
    struct arguments a = {.k = kernel_of(f, &programs, t, "rows")};
    static float x[ROOM], ones[COLS];
    int32_t ids[ROWS] = {2, 0, 1};
    cl_mem to, w = matrix_of(f, t), next, ss, gamma, meta;

    memset(x, 0xab, sizeof x);
    to = buffer(f, sizeof x, x);
    next = buffer(f, sizeof x, x);
    ss = buffer(f, sizeof x, x);
    gamma = buffer(f, sizeof ones, ones);
    meta = buffer(f, sizeof ids, ids);
    set_tensor(&a, to, AWAY);
    set_tensor(&a, next, 0);
    set_tensor(&a, ss, 0);
    set_tensor(&a, w, AWAY);
    set_tensor(&a, gamma, 0);
    set(&a, sizeof meta, &meta);
    set(&a, sizeof n, &n);
    launch(f, a.k, 2, (h + 7) / 8, ROWS);
    read_back(f, to, sizeof x, x);
    for (uint32_t i = 0; i < ROWS * h; i++) {
        const float want = wide[(uint32_t)ids[i / h] * h + i % h];

        assert_true(is_same(x[AWAY + i], want));
    }
    assert_memory_equal(x, x + AWAY + ROWS * h, GUARD * sizeof *x);
    clReleaseMemObject(w);
    clReleaseMemObject(next);
    clReleaseMemObject(ss);
    clReleaseMemObject(gamma);
    clReleaseMemObject(meta);
    clReleaseKernel(a.k);
    opencl_programs_free(&programs);
}

/* Reads sixteen values at once, rounded to bf16. */
static void check_many(struct fixture *f, const struct tensor *t,
                       const float *wide)
{
    const uint32_t h = t->cols;
    const cl_ulong n = (cl_ulong)ROWS * h;
    struct opencl_programs *programs;
    struct arguments a = {.k = kernel_of(f, &programs, t, "dequantise")};
    static uint16_t out[ROOM];
    cl_mem to, w = matrix_of(f, t);

    memset(out, 0xab, sizeof out);
    to = buffer(f, sizeof out, out);
    set_tensor(&a, to, AWAY);
    set_tensor(&a, w, AWAY);
    set(&a, sizeof n, &n);
    set(&a, sizeof h, &h);
    launch(f, a.k, 1, ROWS * (size_t)((h + 15) / 16), 1);
    read_back(f, to, sizeof out, out);
    for (size_t i = 0; i < ROOM; i++) {
        const bool inside = i >= AWAY && i < AWAY + n;

        if (inside && isnan(wide[i - AWAY])) {
            assert_true((out[i] & 0x7fff) > 0x7f80);
        } else {
            assert_int_equal(out[i],
                             inside ? half_to_bf16(wide[i - AWAY]) : 0xabab);
        }
    }
    clReleaseMemObject(w);
    clReleaseKernel(a.k);
    opencl_programs_free(&programs);
}

static void check(struct fixture *f, const struct tensor *t)
{
    static float wide[ROWS * COLS];

    for (uint32_t i = 0; i < ROWS; i++) {
        weight_format_decode(wide + (size_t)i * t->cols, t, i, 0, t->cols);
    }
    check_single(f, t, wide);
    check_many(f, t, wide);
}

static struct tensor random_matrix(struct fixture *f, enum weight_format format,
                                   uint32_t cols)
{
    struct tensor t = {.rows = ROWS, .cols = cols};

    random_codes(&f->model, &f->dice, &t, format, 0.2f);
    return t;
}

static void test_formats(void **state)
{
    struct fixture *f = *state;

    for (int i = WEIGHT_FP8; i < WEIGHT_FORMATS; i++) {
        const struct tensor t = random_matrix(f, (enum weight_format)i, COLS);

        print_message("%s\n", weight_format_name(t.format));
        check(f, &t);
    }
}

/* A row's end is anywhere. */
static void test_odd_columns(void **state)
{
    struct fixture *f = *state;
    const struct tensor t = random_matrix(f, WEIGHT_FP8, ODD);

    check(f, &t);
}

/* Codes and scales that random weights have not: every E4M3 code, and E8M0
 * scales down to 2^-127, which is no normal float32, up to 2^127, and NaN. */
static void test_rare_codes(void **state)
{
    static const uint8_t rare[] = {0, 1, 2, 126, 253, 254, 255};
    struct fixture *f = *state;
    uint8_t codes[ROWS * COLS], scales[ROWS * COLS / 32];
    struct tensor t = random_matrix(f, WEIGHT_FP8, COLS);

    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)i;
    }
    t.data = codes;
    check(f, &t);
    t = random_matrix(f, WEIGHT_MXFP4, COLS);
    for (size_t i = 0; i < sizeof scales; i++) {
        scales[i] = rare[i % sizeof rare];
    }
    t.data = codes;
    t.scales = scales;
    check(f, &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_odd_columns),
        cmocka_unit_test(test_rare_codes),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
