#include "tests/kernels/late_driver.h"

#include "kernels/opencl/host/queue.h"
#include "tests/unit/cmocka.h"

#define WAITS_MAX 8

struct late_driver late_driver;

static cl_event gate; /* held commands wait for it; NULL: none is held */

#define REAL(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

static cl_context context_of(cl_command_queue q)
{
    cl_context c = NULL;

    clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof c, &c, NULL);
    return c;
}

static enum late_held kind_of(cl_command_queue q)
{
    if (late_driver.steps == NULL ||
        context_of(q) != context_of(late_driver.steps)) {
        return LATE_NONE;
    }
    return q == late_driver.steps ? LATE_STEPS : LATE_COPIES;
}

/* A wait list with room for the gate. */
struct waits {
    cl_event events[WAITS_MAX];
    cl_uint n;
};

static struct waits waits_of(cl_command_queue q, cl_uint n,
                             const cl_event *events)
{
    enum late_held kind = kind_of(q);
    struct waits w = {.n = n};

    assert_true(n < WAITS_MAX);
    for (cl_uint i = 0; i < n; i++) {
        w.events[i] = events[i];
    }
    if (kind == LATE_COPIES && late_driver.no_markers) {
        w.n = 0;
    }
    if (kind != LATE_NONE && kind == late_driver.held) {
        if (gate == NULL) {
            gate = clCreateUserEvent(context_of(q), NULL);
            assert_non_null(gate);
        }
        w.events[w.n++] = gate;
    }
    return w;
}

void late_driver_open(void)
{
    if (gate != NULL) {
        clSetUserEventStatus(gate, CL_COMPLETE);
        clReleaseEvent(gate);
        gate = NULL;
    }
}

/* A copy that is to fail ends with an event that has failed. */
static void fail_copy(cl_command_queue q, cl_event *event)
{
    if (kind_of(q) != LATE_COPIES || late_driver.fail_in == 0 ||
        --late_driver.fail_in > 0) {
        return;
    }
    clReleaseEvent(*event);
    *event = clCreateUserEvent(context_of(q), NULL);
    clSetUserEventStatus(*event, late_driver.fail_code);
}

REAL(cl_int, clEnqueueReadBuffer, cl_command_queue q, cl_mem m, cl_bool block,
     size_t at, size_t size, void *to, cl_uint n, const cl_event *events,
     cl_event *event)
{
    struct waits w = waits_of(q, n, events);
    cl_int code = __real_clEnqueueReadBuffer(q, m, block, at, size, to, w.n,
                                             w.n > 0 ? w.events : NULL, event);

    fail_copy(q, event);
    return code;
}

REAL(cl_int, clEnqueueWriteBuffer, cl_command_queue q, cl_mem m, cl_bool block,
     size_t at, size_t size, const void *from, cl_uint n,
     const cl_event *events, cl_event *event)
{
    struct waits w = waits_of(q, n, events);
    cl_int code = __real_clEnqueueWriteBuffer(q, m, block, at, size, from, w.n,
                                              w.n > 0 ? w.events : NULL, event);

    fail_copy(q, event);
    return code;
}

REAL(cl_int, clEnqueueCopyBuffer, cl_command_queue q, cl_mem from, cl_mem to,
     size_t from_at, size_t to_at, size_t size, cl_uint n,
     const cl_event *events, cl_event *event)
{
    struct waits w = waits_of(q, n, events);

    return __real_clEnqueueCopyBuffer(q, from, to, from_at, to_at, size, w.n,
                                      w.n > 0 ? w.events : NULL, event);
}

REAL(cl_int, clEnqueueNDRangeKernel, cl_command_queue q, cl_kernel k,
     cl_uint dims, const size_t *offset, const size_t *global,
     const size_t *local, cl_uint n, const cl_event *events, cl_event *event)
{
    struct waits w = waits_of(q, n, events);

    return __real_clEnqueueNDRangeKernel(q, k, dims, offset, global, local, w.n,
                                         w.n > 0 ? w.events : NULL, event);
}

REAL(cl_int, clEnqueueBarrierWithWaitList, cl_command_queue q, cl_uint n,
     const cl_event *events, cl_event *event)
{
    if (late_driver.no_barriers && kind_of(q) == LATE_STEPS) {
        return CL_SUCCESS;
    }
    return __real_clEnqueueBarrierWithWaitList(q, n, events, event);
}

static void host_waits(cl_context c)
{
    if (!late_driver.by_hand && late_driver.steps != NULL &&
        c == context_of(late_driver.steps)) {
        late_driver_open();
    }
}

REAL(cl_int, clWaitForEvents, cl_uint n, const cl_event *events)
{
    cl_context c = NULL;

    clGetEventInfo(events[0], CL_EVENT_CONTEXT, sizeof c, &c, NULL);
    /* A command that has ended is not waited for. */
    if (opencl_event_state(events[0]) > CL_COMPLETE) {
        late_driver.n_waits++;
        host_waits(c);
    }
    return __real_clWaitForEvents(n, events);
}

REAL(cl_int, clFinish, cl_command_queue q)
{
    host_waits(context_of(q));
    return __real_clFinish(q);
}
