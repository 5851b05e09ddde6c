#include "kernels/opencl/host/memory.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/queue.h"

#define PIECE       ((size_t)8 << 20) /* of an upload; there are two */
#define DOWN        ((size_t)4 << 20) /* of a download */
#define FILL_GROUP  64
#define FILL_ITEMS  ((size_t)1 << 20)
#define SCRATCH_MAX 256 /* tensors in all parts */

/* A tensor in a part, at offset `at` of the shared area. */
struct shared {
    struct opencl_tensor *out;
    size_t at;
};

struct opencl_memory {
    struct opencl_arena *kept; /* scratch that is not shared */
    struct opencl_tensor area; /* in kept: the overlapping parts */
    size_t used[OPENCL_PARTS]; /* bytes of each part */
    struct shared shared[SCRATCH_MAX];
    uint32_t n_shared;
    bool failed;

    cl_mem pinned;
    size_t pinned_bytes;
    char *map;        /* pinned, mapped on the host: meta, up, down */
    char *up, *down;  /* [2 * PIECE], [DOWN] */
    size_t up_at;     /* where the next upload goes */
    cl_event left[2]; /* end of all uploads from a half, or NULL */
};

static const struct opencl_variant fills[] = {
    {.file = "fill", .kernel = "fill", .wg = FILL_GROUP},
    {.file = "fill", .kernel = "fill16", .wg = FILL_GROUP},
};

/* ---- pinned memory ---- */

/* Mapped once and for good: one buffer holds meta, uploads and downloads. */
static enum status pin_memory(struct opencl *c, struct error *e)
{
    struct opencl_memory *m = c->memory;
    size_t meta = opencl_aligned(c->meta.ints * sizeof *c->meta.host);
    char name[64];
    cl_int code;

    m->pinned_bytes = meta + 2 * PIECE + DOWN;
    m->pinned =
        clCreateBuffer(c->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                       m->pinned_bytes, NULL, &code);
    if (m->pinned != NULL) {
        m->map = clEnqueueMapBuffer(opencl_queue_id(c), m->pinned, CL_TRUE,
                                    CL_MAP_READ | CL_MAP_WRITE, 0,
                                    m->pinned_bytes, 0, NULL, NULL, &code);
    }
    if (m->map == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "allocate %.1f MiB of pinned memory for %s: %s",
                         (double)m->pinned_bytes / 0x1p20, c->device.name,
                         opencl_error_name(code, name, sizeof name));
    }
    c->meta.host = (int32_t *)(void *)m->map;
    m->up = m->map + meta;
    m->down = m->up + 2 * PIECE;
    return ST_OK;
}

enum status opencl_memory_new(struct opencl *c, struct error *e)
{
    enum status st;

    c->memory = calloc(1, sizeof *c->memory);
    if (c->memory == NULL ||
        (c->memory->kept = opencl_arena_new("scratch")) == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = pin_memory(c, e);
    st = st == ST_OK ? opencl_choose(c, &c->fill, &fills[0], 1, NULL, NULL, e)
                     : st;
    return st == ST_OK
               ? opencl_choose(c, &c->fill16, &fills[1], 1, NULL, NULL, e)
               : st;
}

static void release_events(struct opencl_memory *m)
{
    for (int i = 0; i < 2; i++) {
        if (m->left[i] != NULL) {
            clReleaseEvent(m->left[i]);
            m->left[i] = NULL;
        }
    }
}

void opencl_memory_free(struct opencl *c)
{
    struct opencl_memory *m = c->memory;

    if (m == NULL) {
        return;
    }
    release_events(m);
    if (m->map != NULL) {
        clEnqueueUnmapMemObject(opencl_queue_id(c), m->pinned, m->map, 0, NULL,
                                NULL);
        clFinish(opencl_queue_id(c));
    }
    if (m->pinned != NULL) {
        clReleaseMemObject(m->pinned);
    }
    opencl_arena_free(&m->kept);
    free(m);
    c->memory = NULL;
}

/* ---- scratch ---- */

void opencl_scratch(struct opencl *c, enum opencl_part part,
                    struct opencl_tensor *out, size_t rows, size_t cols,
                    size_t item)
{
    struct opencl_memory *m = c->memory;

    if (part == OPENCL_KEEP) {
        opencl_arena_add(m->kept, out, rows, cols, item);
        return;
    }
    opencl_arena_add(NULL, out, rows, cols, item); /* sets its shape only */
    if (rows * cols == 0) {
        return;
    }
    if (m->n_shared == SCRATCH_MAX) {
        m->failed = true;
        return;
    }
    m->shared[m->n_shared++] = (struct shared){out, m->used[part]};
    m->used[part] += opencl_aligned(rows * cols * item);
}

enum status opencl_scratch_make(struct opencl *c, struct error *e)
{
    struct opencl_memory *m = c->memory;
    size_t most = 0;
    enum status st;

    if (m->failed) {
        return error_set(e, ST_INTERNAL, "more than %d scratch tensors",
                         SCRATCH_MAX);
    }
    for (int i = 0; i < OPENCL_PARTS; i++) {
        /* Parts overlap, so the area is as large as the largest part. */
        most = m->used[i] > most ? m->used[i] : most;
    }
    opencl_arena_add(m->kept, &m->area, most > 0 ? 1 : 0, most, 1);
    st = opencl_arena_make(c, m->kept, e);
    for (uint32_t i = 0; st == ST_OK && i < m->n_shared; i++) {
        m->shared[i].out->mem = m->area.mem;
        m->shared[i].out->at = m->area.at + m->shared[i].at;
    }
    return st;
}

uint64_t opencl_scratch_bytes(const struct opencl *c)
{
    return opencl_arena_bytes(c->memory->kept) + c->memory->pinned_bytes;
}

/* ---- on the device ---- */

void opencl_fill(struct opencl *c, const struct opencl_tensor *t, size_t at,
                 size_t bytes, uint32_t value)
{
    const bool wide = (t->at + at) % 16 == 0 && bytes % 16 == 0;
    const size_t item = wide ? 16 : 2;
    struct opencl_tensor to = {.mem = t->mem, .at = t->at + at, .item = item};
    struct opencl_call a = opencl_call(c, wide ? c->fill : c->fill16);
    cl_ulong n = bytes / item;
    size_t groups = (size_t)(n + FILL_GROUP - 1) / FILL_GROUP;
    size_t global = groups * FILL_GROUP, local = FILL_GROUP;

    /* The kernel strides, so a bounded grid fills any length. */
    global = global < FILL_ITEMS ? global : FILL_ITEMS;
    opencl_arg_tensor(&a, &to);
    opencl_arg_u32(&a, value);
    opencl_arg_u64(&a, n);
    opencl_launch(&a, 1, &global, &local, bytes);
}

void opencl_zero(struct opencl *c, const struct opencl_tensor *t, size_t at,
                 size_t bytes)
{
    opencl_fill(c, t, at, bytes, 0);
}

void opencl_move(struct opencl *c, const struct opencl_tensor *t, size_t to,
                 size_t from, size_t bytes)
{
    if (c->health.failed.code == ST_OK && bytes > 0) {
        opencl_queue_use(c);
        opencl_check(c,
                     clEnqueueCopyBuffer(opencl_queue_id(c), t->mem, t->mem,
                                         t->at + from, t->at + to, bytes, 0,
                                         NULL, NULL),
                     "copy in its memory");
    }
}

/* ---- transfers ---- */

/* Returns room for up to *n bytes of an upload.  A half is reused once all
 * reads from it have ended. */
static char *take_room(struct opencl *c, size_t *n)
{
    struct opencl_memory *m = c->memory;
    size_t half = m->up_at / PIECE, left;

    if (m->up_at % PIECE == 0 && m->up_at > 0) {
        cl_event *end = &m->left[half - 1];

        opencl_queue_use(c);
        opencl_check(
            c, clEnqueueMarkerWithWaitList(opencl_queue_id(c), 0, NULL, end),
            "mark an upload");
        /* Without a flush, the marker might not be submitted until the wait. */
        clFlush(opencl_queue_id(c));
        half %= 2;
        m->up_at = half * PIECE;
        if (m->left[half] != NULL) {
            opencl_check(c, clWaitForEvents(1, &m->left[half]),
                         "wait for an upload");
            clReleaseEvent(m->left[half]);
            m->left[half] = NULL;
        }
        opencl_poll_events(c);
    }
    left = (half + 1) * PIECE - m->up_at;
    *n = *n < left ? *n : left;
    return m->up + m->up_at;
}

static void write_piece(struct opencl *c, const struct opencl_tensor *to,
                        size_t at, const char *from, size_t bytes)
{
    opencl_queue_use(c);
    opencl_check(c,
                 clEnqueueWriteBuffer(opencl_queue_id(c), to->mem, CL_FALSE,
                                      to->at + at, bytes, from, 0, NULL, NULL),
                 "write to its memory");
}

void opencl_upload(struct opencl *c, const struct opencl_tensor *to, size_t at,
                   const void *from, size_t bytes)
{
    const char *rest = from;

    if (to == &c->meta.tensor) {
        opencl_upload_meta(c); /* or the step's meta would overwrite this
                                * later */
    }
    while (bytes > 0 && c->health.failed.code == ST_OK) {
        size_t n = bytes;
        char *up = take_room(c, &n);

        memcpy(up, rest, n);
        write_piece(c, to, at, up, n);
        c->memory->up_at += n;
        at += n;
        rest += n;
        bytes -= n;
    }
}

void opencl_upload_meta(struct opencl *c)
{
    uint32_t ints = c->meta.used;

    c->meta.used = 0;
    if (ints > 0 && c->health.failed.code == ST_OK) {
        write_piece(c, &c->meta.tensor, 0, (const char *)c->meta.host,
                    ints * sizeof *c->meta.host);
    }
}

void opencl_download(struct opencl *c, const struct opencl_tensor *from,
                     size_t at, void *to, size_t bytes)
{
    struct opencl_memory *m = c->memory;
    char *rest = to;

    while (bytes > 0 && c->health.failed.code == ST_OK) {
        size_t n = bytes < DOWN ? bytes : DOWN;
        cl_event *event = opencl_watch(c, NULL);
        cl_int code;

        opencl_queue_use(c);
        code = clEnqueueReadBuffer(opencl_queue_id(c), from->mem, CL_FALSE,
                                   from->at + at, n, m->down, 0, NULL, event);

        opencl_watch_end(c, code == CL_SUCCESS);
        opencl_check(c, code, "read from its memory");
        opencl_settle(c);
        memcpy(rest, m->down, n);
        at += n;
        rest += n;
        bytes -= n;
    }
}

/* After the wait, no command reads pinned memory. */
void opencl_settle(struct opencl *c)
{
    if (!c->health.idle) {
        opencl_wait(c);
    }
    release_events(c->memory);
    c->memory->up_at = 0;
}
