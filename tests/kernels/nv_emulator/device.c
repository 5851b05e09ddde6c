/* device.c - calls of OpenCL, on the emulator; see emulator.h.
 *
 * Implements only the calls of opencl_try and plants.c.  Arguments of kernels
 * are buffers and integers.  A program is built once for the same source and
 * options. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernels/nv_emulator/emulator.h"

#define ARGS_MAX 40
#define ALIGNED  256 /* as on NVIDIA's devices */

/* Options for clang.  Without optimisation nothing is optimised away, and
 * builds are fastest.  array-bounds also checks accesses within a variable. */
#define COMPILE                                                         \
    NV_CLANG " -x cl -cl-std=CL1.2 -O0 -g1 -w -fPIC -ffp-contract=off " \
             "-fsanitize=address,alignment,array-bounds "               \
             "-fno-sanitize-recover=all "                               \
             "-I " NV_ROOT " -include tests/kernels/nv_emulator/nv.h "

/* Source and options, and the libraries built from them. */
struct built {
    struct built *next;
    char *text;
    void *copies[NV_GROUPS];
};

struct _cl_mem {
    struct _cl_mem *next;
    void *data;
    size_t bytes;
};

struct _cl_program {
    char *source;
    const struct built *built;
};

struct _cl_kernel {
    struct _cl_kernel *next;
    void *copies[NV_GROUPS];
    struct {
        uint64_t value;
        cl_mem mem; /* NULL: the value is complete */
    } args[ARGS_MAX];
};

/* All programs and kernels, kept until the end, as few are released. */
static struct built *all_built;
static struct _cl_mem *all_mems;
static struct _cl_kernel *all_kernels;

static void *take(size_t bytes)
{
    void *p = calloc(1, bytes);

    if (!p) {
        nv_fail("no memory");
    }
    return p;
}

static cl_int set(cl_int *code, cl_int value)
{
    if (code) {
        *code = value;
    }
    return value;
}

/* ---- the device ---- */

static int the_device;

cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *out, cl_uint *there)
{
    if (n > 0) {
        out[0] = (cl_platform_id)&the_device;
    }
    *there = 1;
    return CL_SUCCESS;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint n,
                      cl_device_id *out, cl_uint *there)
{
    (void)platform;
    (void)type;
    if (n > 0) {
        out[0] = (cl_device_id)&the_device;
    }
    *there = 1;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes,
                       void *out, size_t *size)
{
    const cl_uint number = what == CL_DEVICE_MAX_COMPUTE_UNITS ? NV_GROUPS
                           : what == 0x4000 /* NVIDIA's capability: major,
                                             * minor */
                               ? 9
                               : 0;

    (void)device;
    (void)size;
    if (bytes == sizeof(number)) {
        memcpy(out, &number, sizeof(number));
    } else {
        snprintf(out, bytes, "emulated");
    }
    return CL_SUCCESS;
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint n,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *,
                                                     size_t, void *),
                           void *user, cl_int *code)
{
    (void)properties;
    (void)n;
    (void)devices;
    (void)notify;
    (void)user;
    set(code, CL_SUCCESS);
    return (cl_context)&the_device;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties,
                                      cl_int *code)
{
    (void)context;
    (void)device;
    (void)properties;
    set(code, CL_SUCCESS);
    return (cl_command_queue)&the_device;
}

cl_int clFinish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

/* ---- buffers ---- */

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes,
                      void *data, cl_int *code)
{
    cl_mem m = take(sizeof(*m));

    (void)context;
    if (posix_memalign(&m->data, ALIGNED, bytes)) {
        free(m);
        set(code, CL_MEM_OBJECT_ALLOCATION_FAILURE);
        return NULL;
    }
    if (flags & CL_MEM_COPY_HOST_PTR) {
        memcpy(m->data, data, bytes);
    }
    m->bytes = bytes;
    m->next = all_mems;
    all_mems = m;
    set(code, CL_SUCCESS);
    return m;
}

cl_int clReleaseMemObject(cl_mem m)
{
    struct _cl_mem **at = &all_mems;

    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
    free(m->data);
    free(m);
    return CL_SUCCESS;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem m, cl_bool wait,
                           size_t at, size_t bytes, void *out, cl_uint n,
                           const cl_event *events, cl_event *event)
{
    (void)queue;
    (void)wait;
    (void)n;
    (void)events;
    (void)event;
    memcpy(out, (const char *)m->data + at, bytes);
    return CL_SUCCESS;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem m, cl_bool wait,
                            size_t at, size_t bytes, const void *from,
                            cl_uint n, const cl_event *events, cl_event *event)
{
    (void)queue;
    (void)wait;
    (void)n;
    (void)events;
    (void)event;
    memcpy((char *)m->data + at, from, bytes);
    return CL_SUCCESS;
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem m,
                           const void *pattern, size_t width, size_t at,
                           size_t bytes, cl_uint n, const cl_event *events,
                           cl_event *event)
{
    (void)queue;
    (void)n;
    (void)events;
    (void)event;
    for (size_t i = 0; i < bytes; i += width) {
        memcpy((char *)m->data + at + i, pattern, width);
    }
    return CL_SUCCESS;
}

/* ---- programs ---- */

cl_program clCreateProgramWithSource(cl_context context, cl_uint n,
                                     const char **sources,
                                     const size_t *lengths, cl_int *code)
{
    cl_program p = take(sizeof(*p));
    size_t bytes = 1;

    (void)context;
    (void)lengths;
    for (cl_uint i = 0; i < n; i++) {
        bytes += strlen(sources[i]) + 1;
    }
    p->source = take(bytes);
    for (cl_uint i = 0; i < n; i++) {
        strcat(p->source, sources[i]);
        strcat(p->source, "\n");
    }
    set(code, CL_SUCCESS);
    return p;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint n,
                                     const cl_device_id *devices,
                                     const size_t *lengths,
                                     const unsigned char **binaries,
                                     cl_int *status, cl_int *code)
{
    (void)context;
    (void)n;
    (void)devices;
    (void)lengths;
    (void)binaries;
    (void)status;
    set(code, CL_INVALID_OPERATION);
    return NULL;
}

/* A program has no PTX here, so nothing is held back. */
cl_int clGetProgramInfo(cl_program p, cl_program_info what, size_t bytes,
                        void *out, size_t *size)
{
    (void)p;
    (void)size;
    if (what == CL_PROGRAM_BINARY_SIZES) {
        memset(out, 0, bytes);
    }
    return CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program p, cl_device_id device,
                             cl_program_build_info what, size_t bytes,
                             void *out, size_t *size)
{
    (void)p;
    (void)device;
    (void)what;
    (void)bytes;
    (void)out;
    (void)size;
    return CL_SUCCESS;
}

cl_int clReleaseProgram(cl_program p)
{
    free(p->source);
    free(p);
    return CL_SUCCESS;
}

__attribute__((format(printf, 1, 2))) static bool run(const char *format, ...)
{
    char command[8192];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    return n > 0 && (size_t)n < sizeof(command) && system(command) == 0;
}

/* The folder of programs until the process ends, as reports name their
 * lines. */
static char directory[] = "/tmp/nv_emulator.XXXXXX";
static pid_t owner;

static void remove_directory(void)
{
    if (getpid() == owner) {
        (void)run("rm -r %s", directory);
    }
}

static void make_directory(void)
{
    if (owner == 0) {
        if (!mkdtemp(directory)) {
            nv_fail("no directory for programs");
        }
        owner = getpid();
        atexit(remove_directory);
        __sanitizer_set_death_callback(remove_directory);
    }
}

static bool copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char bytes[16384];
    size_t n;

    if (!in || !out) {
        return false;
    }
    while ((n = fread(bytes, 1, sizeof(bytes), in)) > 0) {
        (void)fwrite(bytes, 1, n, out);
    }
    fclose(in);
    return fclose(out) == 0;
}

/* Copies the file, since dlopen() of one file twice gives the same library. */
static void load_copies(struct built *b, const char *library)
{
    char path[128];

    for (uint32_t i = 0; i < NV_GROUPS; i++) {
        snprintf(path, sizeof(path), "%s.%u", library, i);
        if (!copy_file(library, path)) {
            nv_fail("a program cannot be copied");
        }
        b->copies[i] = dlopen(path, RTLD_NOW);
        if (!b->copies[i]) {
            nv_fail(dlerror());
        }
    }
}

static bool compile(struct built *b, const char *source, const char *options)
{
    static uint32_t n_programs;
    char path[64], library[64];
    FILE *f;

    make_directory();
    snprintf(path, sizeof(path), "%s/%u.cl", directory, n_programs);
    snprintf(library, sizeof(library), "%s/%u.so", directory, n_programs++);
    f = fopen(path, "w");
    if (!f || fputs(source, f) < 0 || fclose(f) != 0) {
        nv_fail("a program cannot be written");
    }
    if (!run(COMPILE "%s -shared -o %s %s", options, library, path)) {
        return false;
    }
    load_copies(b, library);
    return true;
}

cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *devices,
                      const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    size_t bytes = strlen(p->source) + strlen(options) + 1;
    struct built *b = all_built;
    char *text = take(bytes);

    (void)n;
    (void)devices;
    (void)notify;
    (void)user;
    snprintf(text, bytes, "%s%s", options, p->source);
    while (b && strcmp(b->text, text) != 0) {
        b = b->next;
    }
    if (!b) {
        b = take(sizeof(*b));
        b->text = text;
        if (!compile(b, p->source, options)) {
            free(b->text);
            free(b);
            return CL_BUILD_PROGRAM_FAILURE;
        }
        b->next = all_built;
        all_built = b;
    } else {
        free(text);
    }
    p->built = b;
    return CL_SUCCESS;
}

/* ---- kernels ---- */

cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *code)
{
    cl_kernel k = take(sizeof(*k));

    k->next = all_kernels;
    all_kernels = k;
    for (uint32_t i = 0; i < NV_GROUPS; i++) {
        k->copies[i] = dlsym(p->built->copies[i], name);
        if (!k->copies[i]) {
            set(code, CL_INVALID_KERNEL_NAME);
            return NULL;
        }
    }
    set(code, CL_SUCCESS);
    return k;
}

cl_int clReleaseKernel(cl_kernel k)
{
    (void)k;
    return CL_SUCCESS;
}

/* A number that is the address of a buffer's handle stands for that buffer. */
static cl_mem mem_of(uint64_t value)
{
    struct _cl_mem *m = all_mems;

    while (m && (uintptr_t)m != value) {
        m = m->next;
    }
    return m;
}

cl_int clSetKernelArg(cl_kernel k, cl_uint i, size_t bytes, const void *value)
{
    if (i >= ARGS_MAX) {
        return CL_INVALID_ARG_INDEX;
    }
    if (!value || bytes > sizeof(k->args[i].value)) {
        return CL_INVALID_ARG_VALUE;
    }
    k->args[i].value = 0;
    memcpy(&k->args[i].value, value, bytes);
    k->args[i].mem = bytes == sizeof(cl_mem) ? mem_of(k->args[i].value) : NULL;
    return CL_SUCCESS;
}

/* Passes more arguments than a kernel has, which is harmless in calls of C
 * functions here; pointers and integers use the same registers and slots. */
static void call(void *arg, uint32_t copy)
{
    cl_kernel k = arg;
    uint64_t a[ARGS_MAX];
    union {
        void *symbol;
        void (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    } of = {k->copies[copy]};

    for (uint32_t i = 0; i < ARGS_MAX; i++) {
        a[i] =
            k->args[i].mem ? (uintptr_t)k->args[i].mem->data : k->args[i].value;
    }
    of.function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
                a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18],
                a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27],
                a[28], a[29], a[30], a[31], a[32], a[33], a[34], a[35], a[36],
                a[37], a[38], a[39]);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel k, cl_uint dims,
                              const size_t *offset, const size_t *global,
                              const size_t *local, cl_uint n,
                              const cl_event *events, cl_event *event)
{
    size_t groups[3] = {1, 1, 1}, items = local ? local[0] : NV_WARP;

    (void)queue;
    (void)offset;
    (void)n;
    (void)events;
    (void)event;
    for (cl_uint i = 0; i < dims; i++) {
        size_t width = i == 0 ? items : 1;
        if ((local && local[i] != width) || global[i] % width) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
        groups[i] = global[i] / width;
    }
    nv_run(groups, (uint32_t)items, call, k);
    return CL_SUCCESS;
}

/* ---- times: always 0 ---- */

cl_int clWaitForEvents(cl_uint n, const cl_event *events)
{
    (void)n;
    (void)events;
    return CL_SUCCESS;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what,
                               size_t bytes, void *out, size_t *size)
{
    (void)event;
    (void)what;
    (void)size;
    memset(out, 0, bytes);
    return CL_SUCCESS;
}

cl_int clReleaseEvent(cl_event event)
{
    (void)event;
    return CL_SUCCESS;
}
