/* Tests the host side of the opencl backend: memory, transfers, the order of
 * tokens, ticks, and failures of the driver.
 *
 * The linker puts the functions __wrap_cl... below in front of the driver's
 * (-Wl,--wrap), so that a test can make the n-th call fail, or hold kernels
 * back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/backends/backend.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/opencl.h"
#include "kernels/opencl/host/queue.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define TOKENS OPENCL_SHAPE_TOKENS
#define ROWS   8
#define BLOCKS 24 /* pages of blocks; slots are behind them */
#define SLOTS  ROWS
#define PAGES  (BLOCKS + SLOTS * OPENCL_SHAPE_SLOT)

/* ---- a driver that can fail ---- */

enum call { CREATE_BUFFER, LAUNCH, READ, WRITE, FINISH, WAIT, BUILD, CALLS };

static struct {
    uint32_t nth; /* 0: never; counted down to the call that fails */
    cl_int code;
} faults[CALLS];

static cl_event gate; /* kernels wait for it, unless NULL */

static cl_int failing(enum call call)
{
    return faults[call].nth > 0 && --faults[call].nth == 0 ? faults[call].code
                                                           : CL_SUCCESS;
}

static void fail_at(enum call call, uint32_t nth, cl_int code)
{
    faults[call].nth = nth;
    faults[call].code = code;
}

static bool has_failed(enum call call)
{
    return faults[call].nth == 0;
}

#define REAL(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

REAL(cl_mem, clCreateBuffer, cl_context c, cl_mem_flags flags, size_t n,
     void *host, cl_int *code)
{
    cl_int fault = failing(CREATE_BUFFER);

    if (fault != CL_SUCCESS) {
        *code = fault;
        return NULL;
    }
    return __real_clCreateBuffer(c, flags, n, host, code);
}

REAL(cl_int, clEnqueueNDRangeKernel, cl_command_queue q, cl_kernel k,
     cl_uint dims, const size_t *offset, const size_t *global,
     const size_t *local, cl_uint n, const cl_event *waits, cl_event *event)
{
    cl_int fault = failing(LAUNCH);

    if (fault != CL_SUCCESS) {
        return fault;
    }
    if (gate != NULL) {
        return __real_clEnqueueNDRangeKernel(q, k, dims, offset, global, local,
                                             1, &gate, event);
    }
    return __real_clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n,
                                         waits, event);
}

REAL(cl_int, clEnqueueReadBuffer, cl_command_queue q, cl_mem m, cl_bool block,
     size_t at, size_t size, void *to, cl_uint n, const cl_event *waits,
     cl_event *event)
{
    cl_int fault = failing(READ);

    return fault != CL_SUCCESS
               ? fault
               : __real_clEnqueueReadBuffer(q, m, block, at, size, to, n, waits,
                                            event);
}

REAL(cl_int, clEnqueueWriteBuffer, cl_command_queue q, cl_mem m, cl_bool block,
     size_t at, size_t size, const void *from, cl_uint n, const cl_event *waits,
     cl_event *event)
{
    cl_int fault = failing(WRITE);

    return fault != CL_SUCCESS
               ? fault
               : __real_clEnqueueWriteBuffer(q, m, block, at, size, from, n,
                                             waits, event);
}

REAL(cl_int, clFinish, cl_command_queue q)
{
    cl_int code = __real_clFinish(q), fault = failing(FINISH);

    return fault != CL_SUCCESS ? fault : code;
}

REAL(cl_int, clWaitForEvents, cl_uint n, const cl_event *events)
{
    cl_int code = __real_clWaitForEvents(n, events), fault = failing(WAIT);

    return fault != CL_SUCCESS ? fault : code;
}

REAL(cl_int, clBuildProgram, cl_program p, cl_uint n, const cl_device_id *ids,
     const char *options, void(CL_CALLBACK *done)(cl_program, void *),
     void *ctx)
{
    cl_int fault = failing(BUILD);

    return fault != CL_SUCCESS
               ? fault
               : __real_clBuildProgram(p, n, ids, options, done, ctx);
}

/* ---- a model ---- */

struct fixture {
    struct random_model model;
    struct kernels_options o;
    struct kernels *k;
    uint32_t tables[ROWS][TOKENS];
};

static void make_model(struct random_model *m)
{
    struct random_shape r = opencl_shape();
    struct dice d = {11};

    random_model_new(m, &r, &d);
}

/* Returns the first page of slot i. */
static uint32_t slot_of(uint32_t i)
{
    return BLOCKS + i * OPENCL_SHAPE_SLOT;
}

static enum status open_kernels(struct fixture *f, struct error *e)
{
    enum status st = backend_new(&f->k, &f->model.w, &f->o, e);

    if (st == ST_OK) {
        st = kernels_alloc(f->k, PAGES, e);
    }
    return st;
}

static int set_up_all(void **state)
{
    static struct fixture f;
    struct error e;

    make_model(&f.model);
    f.o = (struct kernels_options){
        .device = test_device_or("0"),
        .kv.dtype = DTYPE_BF16,
        .block_tokens = OPENCL_SHAPE_BLOCK,
        .max_tokens = TOKENS,
    };
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < TOKENS; j++) {
            f.tables[i][j] = (i + j * ROWS) % BLOCKS;
        }
    }
    if (open_kernels(&f, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    *state = &f;
    return 0;
}

static int tear_down_all(void **state)
{
    struct fixture *f = *state;

    kernels_free(&f->k);
    random_model_free(&f->model);
    return 0;
}

/* Opens a new device, for tests that break it. */
static void reopen(struct fixture *f)
{
    struct error e;

    memset(faults, 0, sizeof faults);
    kernels_free(&f->k);
    if (open_kernels(f, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

/* Alternates prompt rows and generated rows, so that begin must sort them. */
static void make_step(struct fixture *f, struct kernel_row *rows,
                      struct kernel_step *step)
{
    *step = (struct kernel_step){rows, 6, 0};
    for (uint32_t i = 0; i < step->n_rows; i++) {
        rows[i] = (struct kernel_row){
            .first = step->n_tokens,
            .n_tokens = i % 2 == 0 ? 1 + 3 * i : 1,
            .position = 0,
            .blocks = f->tables[i],
            .slot = slot_of(i),
            .generated = i % 2 == 1,
        };
        step->n_tokens += rows[i].n_tokens;
    }
}

static enum status run_step(struct fixture *f, uint32_t *token, struct error *e)
{
    struct kernel_row rows[ROWS];
    struct kernel_step step;
    uint32_t ids[TOKENS], last;
    struct sampling greedy = sampling_default();
    struct sample_row row = {.sampling = &greedy};
    struct sample_result out;
    enum status st, end;

    greedy.temperature = 0.0f;
    make_step(f, rows, &step);
    for (uint32_t i = 0; i < step.n_tokens; i++) {
        ids[i] = i * 7 % 257;
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        kernels_zero_slot(f->k, slot_of(i));
    }
    kernels_begin(f->k, &step);
    kernels_embed(f->k, ids);
    kernels_mixer(f->k, 0);
    kernels_ffn(f->k, 0);
    kernels_mixer(f->k, 1);
    kernels_ffn(f->k, 1);
    last = step.n_tokens - 1;
    kernels_head(f->k, &last, 1);
    st = kernels_sample(f->k, &row, 1, &out, e);
    *token = out.token;
    end = kernels_end(f->k, st == ST_OK ? e : NULL);
    return st != ST_OK ? st : end;
}

/* ---- memory ---- */

/* An arena's tensors use as few allocations as possible, and none crosses
 * two. */
static void test_split(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    uint64_t largest = c->device.largest;
    struct opencl_arena *a = opencl_arena_new("tensors");
    struct opencl_tensor t[5];
    struct error e;

    c->device.largest = 4096;
    opencl_arena_add(a, &t[0], 1, 1000, 2); /* 2000 -> 2048 */
    opencl_arena_add(a, &t[1], 1, 2048, 1); /* exactly at the limit */
    opencl_arena_add(a, &t[2], 4, 4, 4);
    opencl_arena_add(a, &t[3], 1, 4096, 1); /* alone */
    opencl_arena_add(a, &t[4], 0, 7, 4);    /* nothing */
    assert_int_equal(opencl_arena_make(c, a, &e), ST_OK);
    assert_ptr_equal(t[0].mem, t[1].mem);
    assert_int_equal(t[1].at, 2048);
    assert_ptr_not_equal(t[1].mem, t[2].mem);
    assert_ptr_not_equal(t[2].mem, t[3].mem);
    assert_int_equal(t[3].at, 0);
    assert_null(t[4].mem);
    assert_int_equal(opencl_arena_bytes(a), 4096 + 256 + 4096);
    opencl_arena_free(&a);
    assert_null(t[0].mem);
    a = opencl_arena_new("tensors");
    opencl_arena_add(a, &t[0], 1, 4097, 1);
    assert_int_equal(opencl_arena_make(c, a, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "largest allocation"));
    opencl_arena_free(&a);
    c->device.largest = largest;
}

/* Transfers more than both halves of pinned memory, at odd offsets. */
static void test_transfers(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    struct opencl_arena *a = opencl_arena_new("bytes");
    size_t n = ((size_t)21 << 20) + 13;
    unsigned char *from = malloc(n), *to = calloc(1, n);
    struct opencl_tensor t;
    struct error e;

    assert_true(from != NULL && to != NULL);
    for (size_t i = 0; i < n; i++) {
        from[i] = (unsigned char)(i * 2654435761u >> 24);
    }
    opencl_arena_add(a, &t, 1, n, 1);
    assert_int_equal(opencl_arena_make(c, a, &e), ST_OK);
    opencl_upload(c, &t, 0, from, 5);
    opencl_upload(c, &t, 5, from + 5, n - 5);
    opencl_download(c, &t, 0, to, n);
    assert_memory_equal(from, to, n);
    opencl_zero(c, &t, 32, 64);
    opencl_zero(c, &t, 98, 4);
    opencl_move(c, &t, 200, 1000, 100);
    opencl_download(c, &t, 0, to, 400);
    memset(from + 32, 0, 64);
    memset(from + 98, 0, 4);
    memcpy(from + 200, from + 1000, 100);
    assert_memory_equal(from, to, 400);
    assert_int_equal(c->health.failed.code, ST_OK);
    opencl_arena_free(&a);
    free(from);
    free(to);
}

/* x reads back as written, however begin sorted the rows. */
static void test_order(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    uint32_t h = f->model.w.shape.hidden;
    struct kernel_row rows[ROWS];
    struct kernel_step step;
    float *in, *out;

    make_step(f, rows, &step);
    in = calloc((size_t)step.n_tokens * h, sizeof *in);
    out = calloc((size_t)step.n_tokens * h, sizeof *out);
    assert_true(in != NULL && out != NULL);
    for (uint32_t i = 0; i < step.n_tokens * h; i++) {
        in[i] = (float)i;
    }
    kernels_begin(f->k, &step);
    assert_int_equal(c->step.n_gen, 3);
    assert_int_equal(c->step.n_gen_rows, 3);
    assert_int_equal(c->step.places[rows[1].first], 0);
    assert_int_equal(c->step.places[rows[0].first], 3);
    kernels_hidden_write(f->k, 0, step.n_tokens, in);
    kernels_hidden_read(f->k, 0, step.n_tokens, out);
    assert_memory_equal(in, out, step.n_tokens * h * sizeof *in);
    kernels_hidden_read(f->k, 2, 5, out);
    assert_memory_equal(in + 2 * h, out, 5 * h * sizeof *in);
    assert_int_equal(kernels_end(f->k, NULL), ST_OK);
    free(in);
    free(out);
}

/* ---- a step of generated rows ---- */

/* Returns the number of writes of a step of two rows, and the logits in the
 * order of heads. */
static uint32_t decode(struct fixture *f, const uint32_t heads[2],
                       float *logits)
{
    const struct sampling greedy = sampling_default();
    const struct sample_row asks[2] = {{.sampling = &greedy},
                                       {.sampling = &greedy}};
    const uint32_t ids[2] = {5, 9};
    struct kernel_row rows[2];
    struct kernel_step step = {rows, 2, 2};
    struct sample_result out[2];
    struct error e;
    uint32_t left;

    for (uint32_t i = 0; i < 2; i++) {
        rows[i] = (struct kernel_row){.first = i,
                                      .n_tokens = 1,
                                      .blocks = f->tables[i],
                                      .slot = slot_of(i),
                                      .generated = true};
        kernels_zero_slot(f->k, slot_of(i));
    }
    fail_at(WRITE, 1000, CL_OUT_OF_RESOURCES);
    kernels_begin(f->k, &step);
    kernels_embed(f->k, ids);
    kernels_mixer(f->k, 0);
    kernels_ffn(f->k, 0);
    kernels_mixer(f->k, 1);
    kernels_ffn(f->k, 1);
    kernels_head(f->k, heads, 2);
    for (uint32_t i = 0; i < 2; i++) {
        kernels_logits_read(f->k, i, logits + i * f->model.w.shape.vocab);
    }
    assert_int_equal(kernels_sample(f->k, asks, 2, out, &e), ST_OK);
    assert_int_equal(kernels_end(f->k, &e), ST_OK);
    left = faults[WRITE].nth;
    fail_at(WRITE, 0, CL_SUCCESS);
    return 1000 - left;
}

/* The head uses the operand of the last layer if it covers all requested rows
 * in order, and computes it otherwise, with the same bits. */
static void test_decode(void **state)
{
    struct fixture *f = *state;
    const size_t v = f->model.w.shape.vocab, bytes = v * sizeof(float);
    const uint32_t in_order[2] = {0, 1}, turned[2] = {1, 0};
    const uint32_t twins[2] = {1, 1};
    float *a = malloc(2 * bytes), *b = malloc(2 * bytes);

    assert_true(a != NULL && b != NULL);
    reopen(f);
    assert_int_equal(decode(f, in_order, a), 2); /* meta, parameters */
    assert_int_equal(decode(f, in_order, b), 1); /* parameters are unchanged */
    assert_memory_equal(a, b, 2 * bytes);
    assert_int_equal(decode(f, turned, b), 2); /* meta, places */
    assert_memory_equal(a, b + v, bytes);
    assert_memory_equal(a + v, b, bytes);
    assert_int_equal(decode(f, twins, b), 2); /* the same token twice */
    assert_memory_equal(a + v, b, bytes);
    assert_memory_equal(a + v, b + v, bytes);
    free(a);
    free(b);
}

/* ---- ticks ---- */

/* Enqueueing is no progress: while kernels are held back, ticks stand still. */
static void test_ticks(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    struct kernel_row rows[ROWS];
    struct kernel_step step;
    uint32_t ids[TOKENS] = {0};
    uint64_t before;
    struct error e;

    make_step(f, rows, &step);
    assert_int_equal(kernels_end(f->k, &e), ST_OK);
    gate = clCreateUserEvent(c->context, NULL);
    before = kernels_progress(f->k);
    kernels_begin(f->k, &step);
    kernels_embed(f->k, ids);
    for (uint32_t i = 0; i < 8; i++) {
        kernels_mixer(f->k, 1);
        kernels_ffn(f->k, 1);
    }
    assert_int_equal(kernels_progress(f->k), before);
    clSetUserEventStatus(gate, CL_COMPLETE);
    assert_int_equal(kernels_end(f->k, &e), ST_OK);
    assert_true(kernels_progress(f->k) >= before + 8);
    clReleaseEvent(gate);
    gate = NULL;
}

/* ---- faults ---- */

/* Any failure during set-up is reported, and everything is released. */
static void test_set_up_fails(void **state)
{
    static const struct {
        enum call call;
        cl_int code;
        enum status status;
    } of[] = {
        {CREATE_BUFFER, CL_MEM_OBJECT_ALLOCATION_FAILURE,
         ST_RESOURCE_EXHAUSTED},
        {LAUNCH, CL_OUT_OF_RESOURCES, ST_UNAVAILABLE},
        {WRITE, CL_OUT_OF_HOST_MEMORY, ST_UNAVAILABLE},
        {FINISH, CL_OUT_OF_RESOURCES, ST_UNAVAILABLE},
    };
    struct fixture *f = *state;
    struct error e;

    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        uint32_t nth = 1;

        for (;; nth++) {
            enum status st;

            kernels_free(&f->k);
            fail_at(of[i].call, nth, of[i].code);
            st = open_kernels(f, &e);
            if (!has_failed(of[i].call)) {
                assert_int_equal(st, ST_OK);
                break;
            }
            assert_int_equal(st, of[i].status);
            assert_true(strlen(e.text) > 20);
        }
        assert_true(nth > 2);
        faults[of[i].call].nth = 0;
    }
}

/* NVIDIA's driver allocates memory at first use, and only then reports that it
 * has none. */
static void test_no_room_when_touched(void **state)
{
    struct fixture *f = *state;
    struct error e;

    kernels_free(&f->k);
    fail_at(LAUNCH, 1, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(open_kernels(f, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "has no room for"));
    assert_non_null(strstr(e.text, "0.0 MiB were allocated"));
    assert_non_null(strstr(e.text, "a smaller --memory may help"));
    reopen(f);
}

/* If the driver rejects a program, the error is that of the last variant. */
static void test_build_fails(void **state)
{
    struct fixture *f = *state;
    struct error e;

    kernels_free(&f->k);
    f->o.kernel_cache = "";
    fail_at(BUILD, 1, CL_OUT_OF_HOST_MEMORY);
    assert_int_equal(open_kernels(f, &e), ST_INTERNAL);
    assert_non_null(strstr(e.text, "kernels/opencl/"));
    assert_non_null(strstr(e.text, "CL_OUT_OF_HOST_MEMORY"));
    f->o.kernel_cache = NULL;
    reopen(f);
}

/* If the n-th call of a step fails, end or sample reports it, the device is
 * lost, and the driver gets no further calls. */
static void test_step_fails(void **state)
{
    static const enum call calls[] = {LAUNCH, READ, WRITE, FINISH, WAIT};
    struct fixture *f = *state;
    uint32_t token, launches;
    struct error e;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint32_t nth = 1;

        for (;; nth += calls[i] == LAUNCH ? 5 : 1) {
            enum status st;

            reopen(f);
            fail_at(calls[i], nth, CL_OUT_OF_RESOURCES);
            st = run_step(f, &token, &e);
            if (!has_failed(calls[i])) {
                assert_int_equal(st, ST_OK);
                assert_false(kernels_lost(f->k));
                break;
            }
            assert_int_equal(st, ST_UNAVAILABLE);
            assert_true(kernels_lost(f->k));
            assert_non_null(strstr(e.text, "CL_OUT_OF_RESOURCES"));
            fail_at(LAUNCH, UINT32_MAX, CL_SUCCESS);
            assert_int_equal(run_step(f, &token, &e), ST_UNAVAILABLE);
            launches = UINT32_MAX - faults[LAUNCH].nth;
            assert_int_equal(launches, 0);
        }
        assert_true(nth > 1);
    }
    reopen(f);
}

/* The same step gives the same token on a reopened device. */
static void test_again(void **state)
{
    struct fixture *f = *state;
    uint32_t first, second;
    struct error e;

    assert_int_equal(run_step(f, &first, &e), ST_OK);
    assert_int_equal(run_step(f, &second, &e), ST_OK);
    assert_int_equal(first, second);
    reopen(f);
    assert_int_equal(run_step(f, &second, &e), ST_OK);
    assert_int_equal(first, second);
}

/* The profile has a line for each kernel that ran. */
static void test_profile(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    uint32_t token;
    struct error e;

    assert_non_null(out);
    kernels_profile(f->k, out); /* profile is off: prints nothing */
    fflush(out);
    assert_int_equal(n, 0);
    f->o.profile = true;
    reopen(f);
    assert_int_equal(run_step(f, &token, &e), ST_OK);
    kernels_profile(f->k, out);
    fclose(out);
    assert_non_null(strstr(text, "GB/s"));
    assert_non_null(strstr(text, "embed"));
    assert_non_null(strstr(text, "matmul_add"));
    free(text);
    f->o.profile = false;
    reopen(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_set_up_fails),
        cmocka_unit_test(test_no_room_when_touched),
        cmocka_unit_test(test_build_fails),
        cmocka_unit_test(test_step_fails),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
