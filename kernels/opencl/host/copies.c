#include "kernels/opencl/host/copies.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/opencl/host/queue.h"

struct opencl_copies {
    cl_command_queue id;
    cl_event ends[OPENCL_COPIES_MAX]; /* of copy i at i % OPENCL_COPIES_MAX */
    /* Copies are numbered from 1.  These are the last one that was enqueued,
     * that has ended, that the next commands need, and that the steps' queue
     * waits for. */
    uint64_t begun, ended, needed, ordered;
    uint32_t n_pages;
    uint64_t *last; /* [n_pages] the page's last copy; 0: none */
    struct opencl_copy_counts counts;
};

cl_int opencl_copies_new(struct opencl *c)
{
    struct opencl_copies *q = calloc(1, sizeof *q);
    cl_int code = CL_OUT_OF_HOST_MEMORY;

    if (q == NULL) {
        return code;
    }
    q->n_pages = c->cache.n_pages;
    q->last = calloc((size_t)c->cache.n_pages + 1, sizeof *q->last);
    if (q->last != NULL) {
        q->id = clCreateCommandQueue(c->context, c->device.id, 0, &code);
    }
    if (q->id == NULL) {
        free(q->last);
        free(q);
        return code;
    }
    c->copies = q;
    return CL_SUCCESS;
}

void opencl_copies_free(struct opencl *c)
{
    struct opencl_copies *q = c->copies;

    if (q == NULL) {
        return;
    }
    opencl_copies_finish(c);
    clReleaseCommandQueue(q->id);
    free(q->last);
    free(q);
    c->copies = NULL;
}

static cl_event *end_of(struct opencl_copies *q, uint64_t copy)
{
    return &q->ends[copy % OPENCL_COPIES_MAX];
}

/* ---- ends ---- */

/* Waits for the oldest copy and retires it; a negative state is its error. */
static void wait_oldest(struct opencl *c)
{
    cl_event end = *end_of(c->copies, c->copies->ended + 1);
    cl_int code = clWaitForEvents(1, &end);
    cl_int state = opencl_event_state(end);

    opencl_check(c, state < 0 ? state : code,
                 "a copy to or from the host failed");
    clReleaseEvent(end);
    c->copies->ended++;
    /* Relaxed: as for the steps' queue. */
    atomic_fetch_add_explicit(&c->ticks, 1, memory_order_relaxed);
}

static void wait_until(struct opencl *c, uint64_t copy)
{
    if (c->copies->ended < copy) {
        clFlush(c->copies->id);
    }
    while (c->copies->ended < copy) {
        wait_oldest(c);
    }
}

void opencl_copies_poll(struct opencl *c)
{
    while (opencl_copies_pending(c)) {
        cl_event end = *end_of(c->copies, c->copies->ended + 1);

        if (opencl_event_state(end) > CL_COMPLETE) {
            return;
        }
        /* Reading the status synchronizes no memory (OpenCL 1.2, 5.9); a wait
         * does, and returns at once. */
        wait_oldest(c);
    }
}

void opencl_copies_wait(struct opencl *c)
{
    if (c->copies != NULL) {
        wait_until(c, c->copies->ordered);
    }
}

void opencl_copies_finish(struct opencl *c)
{
    if (c->copies != NULL) {
        wait_until(c, c->copies->begun);
    }
}

bool opencl_copies_pending(const struct opencl *c)
{
    return c->copies != NULL && c->copies->ended < c->copies->begun;
}

/* ---- copies ---- */

static cl_int enqueue(struct opencl *c, const struct opencl_copy *copy,
                      cl_event after, cl_event *end)
{
    cl_command_queue id = c->copies->id;
    cl_uint n = after != NULL ? 1 : 0;
    const cl_event *waits = n > 0 ? &after : NULL;

    return copy->out
               ? clEnqueueReadBuffer(id, copy->mem, CL_FALSE, copy->at,
                                     copy->bytes, copy->host, n, waits, end)
               : clEnqueueWriteBuffer(id, copy->mem, CL_FALSE, copy->at,
                                      copy->bytes, copy->host, n, waits, end);
}

void opencl_copies_add(struct opencl *c, const struct opencl_copy *copy,
                       uint32_t page, uint32_t n)
{
    struct opencl_copies *q = c->copies;
    cl_event after = NULL;
    cl_int code;

    assert(page <= q->n_pages && n <= q->n_pages - page);
    if (q->begun - q->ended == OPENCL_COPIES_MAX) {
        wait_until(c, q->ended + 1);
    }
    /* Later copies are behind this one, so they need no marker until the steps'
     * queue has more commands. */
    after = opencl_mark(c);
    if (c->health.failed.code == ST_OK) {
        code = enqueue(c, copy, after, end_of(q, q->begun + 1));
        if (opencl_check(c, code,
                         copy->out ? "copy pages to the host"
                                   : "copy pages back")) {
            q->begun++;
            q->counts.copies++;
            q->counts.markers += after != NULL;
        }
    }
    if (after != NULL) {
        clReleaseEvent(after);
    }
    for (uint32_t i = page; i < page + n; i++) {
        q->last[i] = q->begun;
    }
}

void opencl_copies_flush(struct opencl *c)
{
    if (opencl_copies_pending(c)) {
        clFlush(c->copies->id);
    }
}

/* ---- the steps' queue ---- */

void opencl_copies_use(struct opencl *c, uint32_t page, uint32_t n)
{
    struct opencl_copies *q = c->copies;

    if (!opencl_copies_pending(c) || page >= q->n_pages) {
        return;
    }
    n = n < q->n_pages - page ? n : q->n_pages - page;
    for (uint32_t i = page; i < page + n; i++) {
        q->needed = q->last[i] > q->needed ? q->last[i] : q->needed;
    }
}

void opencl_copies_order(struct opencl *c)
{
    struct opencl_copies *q = c->copies;

    if (q == NULL || q->needed <= q->ordered || q->needed <= q->ended ||
        c->health.failed.code != ST_OK) {
        return;
    }
    q->ordered = q->needed;
    q->counts.waits++;
    clFlush(q->id);
    opencl_queue_use(c);
    opencl_check(c,
                 clEnqueueBarrierWithWaitList(opencl_queue_id(c), 1,
                                              end_of(q, q->needed), NULL),
                 "wait for copies of pages");
}

struct opencl_copy_counts opencl_copies_counts(const struct opencl *c)
{
    return c->copies != NULL ? c->copies->counts
                             : (struct opencl_copy_counts){0};
}
