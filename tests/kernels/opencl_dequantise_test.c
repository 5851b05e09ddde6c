/* Tests dequantise.cl against the cpu's dequantise(): every bit of every form,
 * and nothing written behind the end.  No portable product uses this kernel. */
#include <stdlib.h>
#include <string.h>

#include "common/model/half.h"
#include "kernels/isa/isa.h"
#include "kernels/opencl/host/program.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/test_queue.h"
#include "tests/unit/cmocka.h"

#define ROWS  3
#define COLS  384
#define N     (ROWS * COLS)
#define LOCAL 64
#define AWAY                                                                 \
    256          /* bytes before the matrix, and values before what it gives \
                  */
#define GUARD 64 /* values behind the matrix */

extern const struct embedded opencl_files[];

struct form {
    uint32_t bits, group;
    enum dtype dtype;
};

struct fixture {
    struct test_queue q;
};

static int set_up(void **state)
{
    static struct fixture f;

    test_queue_open(&f.q);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    test_queue_close(&f->q);
    return 0;
}

/* A matrix as the device stores it, at offset AWAY, and as the cpu reads it. */
struct matrix {
    uint8_t on_device[AWAY + N + 2 * 4 * N / 32];
    float scales[N / 32], biases[N / 32];
    struct quantised w;
    size_t bytes;
};

static void make(struct matrix *m, const struct form *f, struct dice *d)
{
    const struct cpu_isa *isa = isa_find("generic");
    const size_t item = dtype_bytes(f->dtype), n = N / f->group;
    char *pairs = (char *)m->on_device + AWAY + N * f->bits / 8;
    float plain[2][N / 32];

    for (size_t i = 0; i < AWAY + N * f->bits / 8; i++) {
        m->on_device[i] = (uint8_t)dice_below(d, 256);
    }
    for (size_t i = 0; i < n; i++) {
        plain[0][i] = dice_float(d, -0.1f, 0.1f);
        plain[1][i] = dice_float(d, -1.0f, 1.0f);
    }
    isa->narrow(m->scales, plain[0], f->dtype, n);
    isa->narrow(m->biases, plain[1], f->dtype, n);
    for (size_t i = 0; i < n; i++) {
        memcpy(pairs + 2 * i * item, (char *)m->scales + i * item, item);
        memcpy(pairs + (2 * i + 1) * item, (char *)m->biases + i * item, item);
    }
    m->bytes = AWAY + N * f->bits / 8 + 2 * n * item;
    m->w = (struct quantised){.format = WEIGHT_AFFINE,
                              .data = m->on_device + AWAY,
                              .scales = m->scales,
                              .biases = m->biases,
                              .dtype = f->dtype,
                              .k = COLS,
                              .bits = f->bits,
                              .group = f->group};
}

static void run(const struct fixture *f, cl_program program,
                const struct matrix *m, uint16_t *out, size_t n_out)
{
    const cl_ulong in_at = AWAY, out_at = AWAY, n = N;
    const cl_uint cols = COLS;
    const size_t local = LOCAL, global = (N / 8 + LOCAL - 1) / LOCAL * LOCAL;
    cl_mem in = clCreateBuffer(f->q.context, CL_MEM_COPY_HOST_PTR, m->bytes,
                               (void *)(uintptr_t)m->on_device, NULL);
    cl_mem to = clCreateBuffer(f->q.context, CL_MEM_COPY_HOST_PTR,
                               n_out * sizeof *out, out, NULL);
    cl_kernel k = clCreateKernel(program, "dequantise", NULL);

    assert_true(in != NULL && to != NULL && k != NULL);
    assert_int_equal(clSetKernelArg(k, 0, sizeof to, &to), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(k, 1, sizeof out_at, &out_at), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(k, 2, sizeof in, &in), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(k, 3, sizeof in_at, &in_at), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(k, 4, sizeof n, &n), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(k, 5, sizeof cols, &cols), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(f->q.queue, k, 1, NULL, &global,
                                            &local, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(f->q.queue, to, CL_TRUE, 0,
                                         n_out * sizeof *out, out, 0, NULL,
                                         NULL),
                     CL_SUCCESS);
    clReleaseKernel(k);
    clReleaseMemObject(in);
    clReleaseMemObject(to);
}

static void compare(const struct fixture *f, const struct form *form)
{
    static struct matrix m;
    static float wide[N];
    uint16_t out[AWAY + N + GUARD];
    struct dice d = {form->bits + form->group};
    struct opencl_programs *programs;
    cl_program program;
    char defines[96];
    struct error e;

    make(&m, form, &d);
    isa_find("generic")->dequantise(wide, &m.w, ROWS);
    memset(out, 0xab, sizeof out);
    snprintf(defines, sizeof defines, "-DW_DTYPE=%d -DW_BITS=%u -DW_GROUP=%u",
             (int)form->dtype, form->bits, form->group);
    assert_int_equal(
        opencl_programs_new(&programs, f->q.context, &f->q.device, opencl_files,
                            "-cl-std=CL1.2 -DH=64 -DEPS=1e-6f", "", &e),
        ST_OK);
    if (opencl_programs_get(programs, &program, "dequantise", defines, &e) !=
        ST_OK) {
        fail_msg("%s", e.text);
    }
    run(f, program, &m, out, sizeof out / sizeof *out);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        bool inside = i >= AWAY && i < AWAY + N;

        assert_int_equal(out[i],
                         inside ? half_to_bf16(wide[i - AWAY]) : 0xabab);
    }
    opencl_programs_free(&programs);
}

static void test_forms(void **state)
{
    static const struct form forms[] = {{4, 32, DTYPE_BF16},
                                        {8, 64, DTYPE_BF16},
                                        {4, 128, DTYPE_F16},
                                        {8, 32, DTYPE_F32}};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        compare(*state, &forms[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
