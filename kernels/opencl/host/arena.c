/* arena.c - places tensors in as few allocations as the device allows. */
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/queue.h"

#define MIB 0x1p20

/* A tensor to place, and the allocation and offset that it got. */
struct request {
    struct opencl_tensor *out;
    size_t bytes, at;
    uint32_t mem;
};

struct opencl_arena {
    const char *what;
    struct request *requests;
    uint32_t n, room;
    bool failed; /* memory ran short for a request */
    cl_mem *mems;
    size_t *sizes; /* [n_mems] */
    uint32_t n_mems;
    uint64_t bytes;
};

struct opencl_arena *opencl_arena_new(const char *what)
{
    struct opencl_arena *a = calloc(1, sizeof *a);

    if (a != NULL) {
        a->what = what;
    }
    return a;
}

static bool grow_requests(struct opencl_arena *a)
{
    uint32_t room = a->room > 0 ? 2 * a->room : 64;
    struct request *new = realloc(a->requests, room * sizeof *new);

    if (new == NULL) {
        a->failed = true;
        return false;
    }
    a->requests = new;
    a->room = room;
    return true;
}

void opencl_arena_add(struct opencl_arena *a, struct opencl_tensor *out,
                      size_t rows, size_t cols, size_t item)
{
    /* The shape is set even without memory, so that an operator may read it. */
    *out = (struct opencl_tensor){.item = item,
                                  .dtype = item == 2 ? DTYPE_BF16 : DTYPE_F32,
                                  .rows = (uint32_t)rows,
                                  .cols = (uint32_t)cols};
    if (a == NULL || rows == 0 || cols == 0 ||
        (a->n == a->room && !grow_requests(a))) {
        return;
    }
    a->requests[a->n++] =
        (struct request){.out = out, .bytes = rows * cols * item};
}

/* Places each tensor behind the one before while the allocation allows. */
static enum status place_requests(struct opencl_arena *a, uint64_t largest,
                                  struct error *e)
{
    size_t used = 0;

    a->n_mems = a->n > 0 ? 1 : 0;
    for (uint32_t i = 0; i < a->n; i++) {
        struct request *r = &a->requests[i];
        size_t bytes = opencl_aligned(r->bytes);

        if (bytes > largest) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             "the %s need a tensor of %.1f MiB, but the "
                             "device's largest allocation is %.1f MiB",
                             a->what, (double)bytes / MIB,
                             (double)largest / MIB);
        }
        if (bytes > largest - used) {
            a->n_mems++;
            used = 0;
        }
        r->mem = a->n_mems - 1;
        r->at = used;
        used += bytes;
    }
    return ST_OK;
}

static bool allocate_tables(struct opencl_arena *a)
{
    a->mems = calloc(a->n_mems, sizeof *a->mems);
    a->sizes = calloc(a->n_mems, sizeof *a->sizes);
    for (uint32_t i = 0; a->sizes && i < a->n; i++) {
        const struct request *r = &a->requests[i];

        a->sizes[r->mem] = r->at + opencl_aligned(r->bytes);
    }
    return a->mems != NULL && a->sizes != NULL;
}

/* Reports how far the allocation came, so that --memory can be chosen. */
static enum status no_room(const struct opencl *c, const struct opencl_arena *a,
                           cl_int code, struct error *e)
{
    char name[64];
    uint64_t all = 0;

    for (uint32_t i = 0; i < a->n_mems; i++) {
        all += a->sizes[i];
    }
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "%s has no room for %s of %.1f MiB; %.1f MiB were "
                     "allocated (its memory is %.1f MiB, which other "
                     "processes may share): %s; a smaller --memory may help",
                     c->device.name, a->what, (double)all / MIB,
                     (double)a->bytes / MIB, (double)c->device.memory / MIB,
                     opencl_error_name(code, name, sizeof name));
}

/* Uses the allocation at once, since a driver may defer it until first use. */
static enum status touch_memory(struct opencl *c, const struct opencl_arena *a,
                                uint32_t i, struct error *e)
{
    struct opencl_tensor all = {
        .mem = a->mems[i], .item = 1, .rows = 1, .cols = 1};
    enum status code;

    /* On host memory a few bytes do: touching all would claim the pages
     * early. */
    opencl_zero(c, &all, 0, c->device.host_memory ? 16 : a->sizes[i]);
    opencl_wait(c);
    code = c->health.failed.code;
    /* The deferred allocation failed, so the error is about room. */
    if (c->health.refusal == CL_MEM_OBJECT_ALLOCATION_FAILURE) {
        return no_room(c, a, c->health.refusal, e);
    }
    if (code != ST_OK) {
        *e = c->health.failed;
        return error_wrap(e, "touch the memory of the %s", a->what);
    }
    return ST_OK;
}

enum status opencl_arena_make(struct opencl *c, struct opencl_arena *a,
                              struct error *e)
{
    enum status st;

    if (a == NULL || a->failed) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = place_requests(a, c->device.largest, e);
    if (st == ST_OK && a->n > 0 && !allocate_tables(a)) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t i = 0; i < a->n_mems && st == ST_OK; i++) {
        cl_int code;

        a->mems[i] = clCreateBuffer(c->context, CL_MEM_READ_WRITE, a->sizes[i],
                                    NULL, &code);
        if (a->mems[i] == NULL) {
            return no_room(c, a, code, e);
        }
        st = touch_memory(c, a, i, e);
        a->bytes += st == ST_OK ? a->sizes[i] : 0;
    }
    for (uint32_t i = 0; i < a->n && st == ST_OK; i++) {
        a->requests[i].out->mem = a->mems[a->requests[i].mem];
        a->requests[i].out->at = a->requests[i].at;
    }
    return st;
}

uint64_t opencl_arena_bytes(const struct opencl_arena *a)
{
    return a->bytes;
}

void opencl_arena_free(struct opencl_arena **self)
{
    struct opencl_arena *a = *self;

    if (a == NULL) {
        return;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        /* An owner that outlives the arena must not use a released cl_mem. */
        a->requests[i].out->mem = NULL;
    }
    for (uint32_t i = 0; a->mems != NULL && i < a->n_mems; i++) {
        if (a->mems[i] != NULL) {
            clReleaseMemObject(a->mems[i]);
        }
    }
    free(a->requests);
    free(a->mems);
    free(a->sizes);
    free(a);
    *self = NULL;
}
