#include "kernels/opencl/host/queue.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/copies.h"

/* A command whose completion becomes a tick. */
struct watched {
    cl_event event;
    struct opencl_kernel *kernel; /* NULL: no kernel, or no profile */
};

struct opencl_queue {
    cl_command_queue id;
    bool profile;
    struct watched watched[OPENCL_EVENTS_MAX];
    uint32_t first, n;
    struct opencl_kernel kernels[OPENCL_KERNELS_MAX];
    uint32_t n_kernels;
};

void opencl_fail(struct opencl *c, enum status code, const char *fmt, ...)
{
    char text[ERROR_TEXT];
    va_list args;

    if (c->health.failed.code != ST_OK) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_set(&c->health.failed, code, "%s", text);
}

bool opencl_check(struct opencl *c, cl_int code, const char *what)
{
    char name[64];

    if (code == CL_SUCCESS) {
        return true;
    }
    /* Only the first failure is the cause; the rest follow from it. */
    if (c->health.failed.code == ST_OK) {
        c->health.refusal = code;
    }
    /* A failed call leaves the queue in an unknown state, so nothing is
     * retried. */
    c->health.lost = true;
    opencl_fail(c, ST_UNAVAILABLE, "device %u (%s) failed: %s: %s",
                c->device.index, c->device.name, what,
                opencl_error_name(code, name, sizeof name));
    return false;
}

enum status opencl_queue_new(struct opencl *c, bool profile, struct error *e)
{
    struct opencl_queue *q = calloc(1, sizeof *q);
    cl_int code;
    char name[64];

    if (q == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    q->profile = profile;
    q->id =
        clCreateCommandQueue(c->context, c->device.id,
                             profile ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    if (q->id == NULL) {
        free(q);
        return error_set(e, ST_UNAVAILABLE, "create a queue for %s: %s",
                         c->device.name,
                         opencl_error_name(code, name, sizeof name));
    }
    c->queue = q;
    return ST_OK;
}

void opencl_queue_free(struct opencl *c)
{
    struct opencl_queue *q = c->queue;

    if (q == NULL) {
        return;
    }
    for (uint32_t i = 0; i < q->n; i++) {
        clReleaseEvent(q->watched[(q->first + i) % OPENCL_EVENTS_MAX].event);
    }
    for (uint32_t i = 0; i < q->n_kernels; i++) {
        if (q->kernels[i].id != NULL) {
            clReleaseKernel(q->kernels[i].id);
        }
    }
    clReleaseCommandQueue(q->id);
    free(q);
    c->queue = NULL;
}

cl_command_queue opencl_queue_id(const struct opencl *c)
{
    return c->queue->id;
}

struct opencl_kernel *opencl_kernel_new(struct opencl *c)
{
    struct opencl_queue *q = c->queue;

    return q->n_kernels < OPENCL_KERNELS_MAX ? &q->kernels[q->n_kernels++]
                                             : NULL;
}

/* ---- events ---- */

/* Adds the command's run time on the device, without its time in the queue. */
static void count_time(const struct watched *w)
{
    cl_ulong begin = 0, end = 0;

    clGetEventProfilingInfo(w->event, CL_PROFILING_COMMAND_START, sizeof begin,
                            &begin, NULL);
    clGetEventProfilingInfo(w->event, CL_PROFILING_COMMAND_END, sizeof end,
                            &end, NULL);
    w->kernel->ns += end > begin ? end - begin : 0;
}

/* Retires the oldest command; a negative state is its error code. */
static void retire_oldest(struct opencl *c, cl_int state)
{
    struct opencl_queue *q = c->queue;
    struct watched *w = &q->watched[q->first];

    if (state < 0) {
        opencl_check(c, state, "a command failed");
    } else if (w->kernel != NULL) {
        count_time(w);
    }
    clReleaseEvent(w->event);
    q->first = (q->first + 1) % OPENCL_EVENTS_MAX;
    q->n--;
    /* Relaxed: the watchdog compares counts and reads nothing else. */
    atomic_fetch_add_explicit(&c->ticks, 1, memory_order_relaxed);
}

cl_int opencl_event_state(cl_event event)
{
    cl_int state = CL_QUEUED;
    cl_int code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                 sizeof state, &state, NULL);

    /* A query that fails counts as a failed command. */
    return code == CL_SUCCESS ? state : code;
}

void opencl_poll_events(struct opencl *c)
{
    struct opencl_queue *q = c->queue;

    /* First: a command fails because a copy did, which is the cause. */
    opencl_copies_poll(c);
    while (q->n > 0) {
        cl_int state = opencl_event_state(q->watched[q->first].event);

        if (state > CL_COMPLETE) {
            return;
        }
        retire_oldest(c, state);
    }
}

/* The queue is in order, so the oldest command ends first. */
static void wait_oldest(struct opencl *c)
{
    struct opencl_queue *q = c->queue;
    cl_event event = q->watched[q->first].event;
    cl_int code = clWaitForEvents(1, &event);
    cl_int state = opencl_event_state(event);

    retire_oldest(c, state < 0 ? state : code);
}

/* Waits event by event, so that ticks go on during a long wait. */
void opencl_wait(struct opencl *c)
{
    struct opencl_queue *q = c->queue;

    if (!c->health.idle) {
        clFlush(q->id);
    }
    opencl_copies_wait(c);
    while (q->n > 0) {
        wait_oldest(c);
    }
    c->health.idle = opencl_check(c, clFinish(q->id), "wait for its commands");
}

cl_event opencl_mark(struct opencl *c)
{
    cl_event end = NULL;

    if (c->health.idle || c->health.marked || c->health.failed.code != ST_OK) {
        return NULL;
    }
    opencl_check(c,
                 clEnqueueMarkerWithWaitList(opencl_queue_id(c), 0, NULL, &end),
                 "mark the end of its commands");
    clFlush(opencl_queue_id(c));
    c->health.marked = true;
    return end;
}

cl_event *opencl_watch(struct opencl *c, struct opencl_kernel *kernel)
{
    struct opencl_queue *q = c->queue;
    struct watched *w;

    opencl_poll_events(c);
    /* The ring is full: waiting bounds the events and also the queue's
     * length. */
    if (q->n == OPENCL_EVENTS_MAX) {
        clFlush(q->id);
        wait_oldest(c);
    }
    w = &q->watched[(q->first + q->n) % OPENCL_EVENTS_MAX];
    w->event = NULL;
    /* Without the profile the event has no times to read. */
    w->kernel = q->profile ? kernel : NULL;
    return &w->event;
}

void opencl_watch_end(struct opencl *c, bool taken)
{
    c->queue->n += taken ? 1 : 0;
}

bool opencl_profiles(const struct opencl *c)
{
    return c->queue->profile;
}

struct opencl_kernel *opencl_kernels(struct opencl *c, uint32_t *n)
{
    *n = c->queue->n_kernels;
    return c->queue->kernels;
}
