/* device_shim - An OpenCL driver that fails, for one process.  The preloaded
 * library intercepts calls of the driver and makes them fail.
 *
 *     DEVICE_SHIM=CALL:N:WHAT
 *
 * CALL is buffer, build, launch or read.  The N-th such call of the process,
 * counted from 1, and every later one is affected.  If DEVICE_SHIM_AFTER names
 * a file, counting starts when the file exists.  WHAT is the error code of the
 * failing calls, as a number; or `hang`: launched kernels never end; or `flip`:
 * reads return data with one bit flipped.
 *
 * Threading: any, one at a time.  Memory: none. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wish {
    char call[8], what[8];
    long at;
};

/* Returns whether this call, the ++*n-th, is affected.  *code is its error
 * code, 0 for `hang` and `flip`. */
static bool is_due(const char *call, long *n, const char *what, cl_int *code)
{
    const char *text = getenv("DEVICE_SHIM");
    const char *after = getenv("DEVICE_SHIM_AFTER");
    struct wish w;

    if (*n == 0 && after != NULL && access(after, F_OK) != 0) {
        return false;
    }
    ++*n;
    if (text == NULL ||
        sscanf(text, "%7[a-z]:%ld:%7s", w.call, &w.at, w.what) != 3 ||
        strcmp(w.call, call) != 0) {
        return false;
    }
    *code = (cl_int)strtol(w.what, NULL, 10);
    return *n >= w.at && (*code != 0 || strcmp(w.what, what) == 0);
}

/* Returns the driver's own function. */
static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (f == NULL) {
        fprintf(stderr, "device_shim: no %s behind this one\n", name);
        abort();
    }
    return f;
}

#define NEXT(name)        \
    __typeof__(&name) of; \
    *(void **)(void *)&of = next(#name)

cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t n, void *host,
                      cl_int *code)
{
    static long calls;
    cl_int fault;
    NEXT(clCreateBuffer);

    if (is_due("buffer", &calls, "", &fault)) {
        if (code != NULL) {
            *code = fault;
        }
        return NULL;
    }
    return of(c, flags, n, host, code);
}

cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *ids,
                      const char *options,
                      void(CL_CALLBACK *done)(cl_program, void *), void *arg)
{
    static long calls;
    cl_int fault;
    NEXT(clBuildProgram);

    return is_due("build", &calls, "", &fault)
               ? fault
               : of(p, n, ids, options, done, arg);
}

/* Returns an event that is never set. */
static cl_event never(cl_command_queue q)
{
    cl_context c = NULL;

    clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof c, &c, NULL);
    return clCreateUserEvent(c, NULL);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dims,
                              const size_t *offset, const size_t *global,
                              const size_t *local, cl_uint n,
                              const cl_event *waits, cl_event *event)
{
    static long calls;
    cl_int fault;
    NEXT(clEnqueueNDRangeKernel);

    if (is_due("launch", &calls, "hang", &fault)) {
        if (fault != CL_SUCCESS) {
            return fault;
        }
        cl_event gate = never(q);

        return of(q, k, dims, offset, global, local, 1, &gate, event);
    }
    return of(q, k, dims, offset, global, local, n, waits, event);
}

cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool block,
                           size_t at, size_t size, void *to, cl_uint n,
                           const cl_event *waits, cl_event *event)
{
    static long calls;
    cl_int fault, code;
    NEXT(clEnqueueReadBuffer);

    if (!is_due("read", &calls, "flip", &fault)) {
        return of(q, m, block, at, size, to, n, waits, event);
    }
    code = fault != CL_SUCCESS
               ? fault
               : of(q, m, CL_TRUE, at, size, to, n, waits, event);
    if (code == CL_SUCCESS && size > 3) {
        ((unsigned char *)to)[3] ^= 0x40; /* the exponent of a float */
    }
    return code;
}
