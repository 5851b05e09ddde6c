#include "kernels/opencl/host/launch.h"

#include <string.h>

#include "common/base/log.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/program.h"
#include "kernels/opencl/host/queue.h"

#define DEFINES_MAX 2048

/* ---- choice ---- */

static enum status defines_of(char all[DEFINES_MAX],
                              const struct opencl_variant *v,
                              const struct opencl_shape *shape,
                              const char *defines, struct error *e)
{
    char of_shape[64] = "";
    int n;

    if (v->shaped) {
        snprintf(of_shape, sizeof of_shape, "-DN=%u -DK=%u", shape->rows,
                 shape->cols);
    }
    n = snprintf(all, DEFINES_MAX,
                 "-DWG=%u -DTILE_ROWS=%u -DTILE_COLS=%u %s %s", v->wg,
                 v->tile_rows, v->tile_cols, of_shape, defines ? defines : "");
    return n < DEFINES_MAX ? ST_OK
                           : error_set(e, ST_INTERNAL,
                                       "too many defines for %s.cl", v->file);
}

/* Returns the kernel of a variant in a program, if there is one. */
static struct opencl_kernel *find_kernel(struct opencl *c,
                                         const struct opencl_variant *v,
                                         cl_program program)
{
    uint32_t n;
    struct opencl_kernel *all = opencl_kernels(c, &n);

    for (uint32_t i = 0; i < n; i++) {
        if (all[i].variant == v && all[i].program == program) {
            return &all[i];
        }
    }
    return NULL;
}

static enum status create_kernel(struct opencl *c, struct opencl_kernel **out,
                                 const struct opencl_variant *v,
                                 cl_program program, struct error *e)
{
    char name[64];
    cl_int code;
    cl_kernel id = clCreateKernel(program, v->kernel, &code);

    if (id == NULL) {
        return error_set(e, ST_INTERNAL, "kernel %s of %s.cl: %s", v->kernel,
                         v->file, opencl_error_name(code, name, sizeof name));
    }
    *out = opencl_kernel_new(c);
    if (*out == NULL) {
        clReleaseKernel(id);
        return error_set(e, ST_INTERNAL, "more than %d kernels",
                         OPENCL_KERNELS_MAX);
    }
    **out = (struct opencl_kernel){.id = id, .program = program, .variant = v};
    return ST_OK;
}

/* Builds the program if needed, and finds or creates the kernel in it. */
static enum status make_kernel(struct opencl *c, struct opencl_kernel **out,
                               const struct opencl_variant *v,
                               const struct opencl_shape *shape,
                               const char *defines, struct error *e)
{
    char all[DEFINES_MAX];
    cl_program program;
    enum status st = defines_of(all, v, shape, defines, e);

    if (st == ST_OK) {
        st = opencl_programs_get(c->programs, &program, v->file, all, e);
    }
    if (st != ST_OK) {
        return st;
    }
    /* The profile counts per kernel, so equal requests share one. */
    *out = find_kernel(c, v, program);
    if (*out != NULL) {
        return ST_OK;
    }
    st = create_kernel(c, out, v, program, e);
    if (st == ST_OK) {
        (*out)->shape = *shape;
    }
    return st;
}

enum status opencl_choose(struct opencl *c, struct opencl_kernel **out,
                          const struct opencl_variant *table, uint32_t n,
                          const struct opencl_shape *shape, const char *defines,
                          struct error *e)
{
    static const struct opencl_shape none;
    enum status st = error_set(e, ST_INTERNAL, "no kernel fits");

    shape = shape ? shape : &none;
    for (uint32_t i = 0; i < n; i++) {
        const struct opencl_variant *v = &table[i];

        /* A variant without fits() is portable. */
        if (v->fits != NULL && (c->portable || !v->fits(c, shape))) {
            continue;
        }
        st = make_kernel(c, out, v, shape, defines, e);
        if (st == ST_OK) {
            return ST_OK;
        }
        /* The last refusal is the caller's error; earlier ones only cost
         * speed. */
        if (i + 1 < n) {
            log_warn("kernel-refused", "kernel=%s text=\"%s\"", v->kernel,
                     e->text);
        }
    }
    return st;
}

/* ---- arguments ---- */

struct opencl_call opencl_call(struct opencl *c, struct opencl_kernel *k)
{
    return (struct opencl_call){.c = c, .kernel = k};
}

static void set_argument(struct opencl_call *a, size_t size, const void *value)
{
    struct opencl *c = a->c;
    cl_uint at = a->n++;

    /* After a failure nothing is enqueued, so arguments need not be set. */
    if (c->health.failed.code == ST_OK) {
        cl_int code = clSetKernelArg(a->kernel->id, at, size, value);

        if (code != CL_SUCCESS) {
            char what[128];

            snprintf(what, sizeof what, "argument %u of %s", at,
                     a->kernel->variant->kernel);
            opencl_check(c, code, what);
        }
    }
}

void opencl_arg_tensor(struct opencl_call *a, const struct opencl_tensor *t)
{
    /* An argument must be a valid cl_mem even if the tensor is absent. */
    cl_mem mem = t->mem ? t->mem : a->c->meta.tensor.mem;
    cl_ulong at = t->mem ? t->at / t->item : UINT64_MAX;

    set_argument(a, sizeof mem, &mem);
    set_argument(a, sizeof at, &at);
}

void opencl_arg_memory(struct opencl_call *a, const struct opencl_tensor *t)
{
    set_argument(a, sizeof t->mem, &t->mem);
}

void opencl_arg_meta(struct opencl_call *a)
{
    set_argument(a, sizeof a->c->meta.tensor.mem, &a->c->meta.tensor.mem);
}

void opencl_arg_u32(struct opencl_call *a, uint32_t v)
{
    cl_uint value = v;

    set_argument(a, sizeof value, &value);
}

void opencl_arg_u64(struct opencl_call *a, uint64_t v)
{
    cl_ulong value = v;

    set_argument(a, sizeof value, &value);
}

void opencl_arg_f32(struct opencl_call *a, float v)
{
    cl_float value = v;

    set_argument(a, sizeof value, &value);
}

/* ---- launch ---- */

/* Launches between two ticks: few events, yet no long time without a tick. */
#define LAUNCHES_A_TICK 6
#define BRIEF_A_TICK    64

/* An event delays the next kernel on NVIDIA's devices by 2 us, and a step
 * without prompts takes only a few ms there. */
static bool is_brief(const struct opencl *c)
{
    return c->device.nvidia > 0 && c->step.n_gen == c->step.n_tokens;
}

static bool needs_event(struct opencl *c)
{
    const uint32_t most = is_brief(c) ? BRIEF_A_TICK : LAUNCHES_A_TICK;

    if (opencl_profiles(c) || ++c->health.unwatched >= most) {
        c->health.unwatched = 0;
        return true;
    }
    return false;
}

static bool is_empty(uint32_t dims, const size_t *global)
{
    for (uint32_t i = 0; i < dims; i++) {
        if (global[i] == 0) {
            return true;
        }
    }
    return false;
}

void opencl_launch(struct opencl_call *a, uint32_t dims, const size_t *global,
                   const size_t *local, uint64_t bytes)
{
    struct opencl *c = a->c;
    cl_event *event = NULL;
    cl_int code;

    /* The first launch of a step uploads its meta, after embed added the
     * ids. */
    opencl_upload_meta(c);
    /* OpenCL rejects a global size of 0, which an empty range of rows gives. */
    if (c->health.failed.code != ST_OK || is_empty(dims, global)) {
        return;
    }
    if (needs_event(c)) {
        event = opencl_watch(c, a->kernel);
    }
    opencl_queue_use(c);
    code = clEnqueueNDRangeKernel(opencl_queue_id(c), a->kernel->id, dims, NULL,
                                  global, local, 0, NULL, event);
    if (event != NULL) {
        opencl_watch_end(c, code == CL_SUCCESS);
    }
    if (code != CL_SUCCESS) {
        opencl_check(c, code, a->kernel->variant->kernel);
        return;
    }
    a->kernel->calls++;
    a->kernel->bytes += bytes;
}

void opencl_operator_end(struct opencl *c)
{
    if (!is_brief(c)) {
        /* The next launch gets an event. */
        c->health.unwatched = LAUNCHES_A_TICK;
    }
}
