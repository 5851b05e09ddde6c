/* Tests how many kernels a layer launches: where kernels compute little,
 * launches dominate the time of a decode step.
 *
 * The linker puts __wrap_clEnqueueNDRangeKernel in front of the driver's own
 * (-Wl,--wrap); the wrapper counts. */
#include "kernels/backends/backend.h"
#include "kernels/opencl/host/opencl.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define ROWS 8

static uint32_t n_launches;

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k,
                                     cl_uint dims, const size_t *offset,
                                     const size_t *global, const size_t *local,
                                     cl_uint n, const cl_event *waits,
                                     cl_event *event);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k,
                                     cl_uint dims, const size_t *offset,
                                     const size_t *global, const size_t *local,
                                     cl_uint n, const cl_event *waits,
                                     cl_event *event);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k,
                                     cl_uint dims, const size_t *offset,
                                     const size_t *global, const size_t *local,
                                     cl_uint n, const cl_event *waits,
                                     cl_event *event)
{
    n_launches++;
    return __real_clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n,
                                         waits, event);
}

struct fixture {
    struct random_model model;
    struct kernels *k;
};

static void open_model(struct fixture *f, const struct random_shape *r)
{
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_BF16,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = OPENCL_SHAPE_TOKENS};
    struct dice d = {11};
    struct error e;

    random_model_new(&f->model, r, &d);
    if (backend_new(&f->k, &f->model.w, &o, &e) != ST_OK ||
        kernels_alloc(f->k, ROWS + (ROWS + 1) * OPENCL_SHAPE_SLOT, &e) !=
            ST_OK) {
        fail_msg("%s", e.text);
    }
}

static void close_model(struct fixture *f)
{
    kernels_free(&f->k);
    random_model_free(&f->model);
}

typedef void (*operator_fn)(struct kernels *k, uint32_t layer);

static uint32_t launches_of(struct kernels *k, uint32_t layer,
                            operator_fn mixer)
{
    n_launches = 0;
    mixer(k, layer);
    kernels_ffn(k, layer);
    return n_launches;
}

struct launches {
    uint32_t linear, attention;
};

/* Counts the layers' launches in a step of n generated rows, one token each,
 * and of a prompt row if `prompt`. */
static struct launches count(struct kernels *k, uint32_t n, bool prompt)
{
    static const uint32_t ids[ROWS];
    struct kernel_row rows[ROWS];
    struct kernel_step step = {rows, n + prompt, n + prompt};
    uint32_t blocks[ROWS];
    struct launches of;

    assert_in_range(step.n_rows, 1, ROWS);
    for (uint32_t i = 0; i < step.n_rows; i++) {
        blocks[i] = i;
        /* Slots begin at a multiple of their pages, behind the blocks. */
        rows[i] = (struct kernel_row){
            .first = i,
            .n_tokens = 1,
            .blocks = &blocks[i],
            .slot = (ROWS / OPENCL_SHAPE_SLOT + 1 + i) * OPENCL_SHAPE_SLOT,
            .generated = i < n};
        kernels_zero_slot(k, rows[i].slot);
    }
    kernels_begin(k, &step);
    kernels_embed(k, ids);
    of.linear = launches_of(k, 0, kernels_mixer);
    of.attention = launches_of(k, 1, kernels_mixer);
    assert_int_equal(kernels_end(k, NULL), ST_OK);
    return of;
}

/* For any number of rows, the portable kernels are at the limit in an attention
 * layer and one below it in a linear layer.  Tuned kernels may need fewer.
 * Prompt rows cost more, which shows that counting works. */
static void test_launches(void **state)
{
    static struct fixture f;
    const struct random_shape r = opencl_shape();
    const uint32_t most = OPENCL_LAUNCHES_MAX;
    bool portable;

    (void)state;
    open_model(&f, &r);
    portable = opencl_of(f.k)->device.nvidia == 0;
    (void)count(f.k, 1, false); /* the first step also clears scratch */
    for (uint32_t n = 1; n <= ROWS; n += ROWS - 1) {
        const struct launches of = count(f.k, n, false);

        assert_in_range(of.attention, portable ? most : 1, most);
        assert_in_range(of.linear, portable ? most - 1 : 1, most);
    }
    assert_true(count(f.k, 2, true).attention > most);
    close_model(&f);
}

/* A layer with experts, a shared one among them; the rows' pairs are few, and
 * then grouped.  The router's choice takes no turn over the host, so the
 * launches of a row are those of any. */
static void test_launches_of_experts(void **state)
{
    static struct fixture f;
    const struct random_shape r = opencl_expert_shape();
    const uint32_t most = OPENCL_LAUNCHES_EXPERT + OPENCL_LAUNCHES_SHARED;
    bool portable;

    (void)state;
    open_model(&f, &r);
    portable = opencl_of(f.k)->device.nvidia == 0;
    (void)count(f.k, 1, false);
    assert_in_range(count(f.k, 1, false).linear, portable ? most - 1 : 1, most);
    assert_in_range(count(f.k, ROWS, false).linear, portable ? most : 1,
                    most + OPENCL_LAUNCHES_GROUP);
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_launches_of_experts),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
