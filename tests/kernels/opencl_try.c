/* opencl_try.c - see opencl_try.h. */
#include "tests/kernels/opencl_try.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/opencl/host/ptx.h"
#include "kernels/opencl/nv/matmul_nv.h"

#define FLUSH_BYTES  ((size_t)256 << 20) /* exceeds any cache */
#define READ_BYTES   ((size_t)2 << 30)
#define CACHE_BYTES  ((size_t)16 << 20)
#define SOURCE_MAX   ((size_t)1 << 20)
#define ALONE_TIMES  15
#define CHAIN_TIMES  200u    /* upper limit of launches, */
#define CHAIN_US     20000.0 /* and about this long at most */
#define CHAIN_ROUNDS 5
#define FILES_MAX    8
#define OPTIONS_MAX  128

static const char builtin[] =
    "uint hash(uint a) { a ^= a >> 16; a *= 0x7feb352du; a ^= a >> 15;\n"
    "  a *= 0x846ca68bu; return a ^ a >> 16; }\n"
    "__kernel void fill(__global uint *out, ulong n, uint seed, uint scale,\n"
    "                   uint type) {\n"
    "  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {\n"
    "    uint h = hash((uint)i ^ hash((uint)(i >> 32) + seed));\n"
    "    float v = ((int)(h >> 8) - 8388608) / 8388608.0f *\n"
    "              as_float(scale);\n"
    "    uint b = as_uint(v);\n"
    "    if (type == 1) ((__global ushort *)out)[i] =\n"
    "        (ushort)((b + 0x7fffu + (b >> 16 & 1)) >> 16);\n"
    "    else out[i] = type == 2 ? h : b; } }\n"
    "__kernel void flush(__global uint4 *p, uint v) {\n"
    "  p[get_global_id(0)] = (uint4)(v); }\n"
    "__kernel void empty(__global uint *p) {\n"
    "  if (get_global_id(0) == 0x7fffffff) p[0] = 0; }\n"
    "__kernel void read(__global const uint4 *p, ulong n, uint times,\n"
    "                   __global uint *out) {\n"
    "  uint4 a = 0, b = 0, c = 0, d = 0; ulong s = get_global_size(0);\n"
    "  for (uint j = 0; j < times; j++)\n"
    "    for (ulong i = get_global_id(0); i + 3 * s < n; i += 4 * s) {\n"
    "      a ^= p[i]; b ^= p[i + s]; c ^= p[i + 2 * s]; d ^= p[i + 3 * s]; }\n"
    "  a ^= b ^ c ^ d;\n"
    "  if ((a.x ^ a.y ^ a.z ^ a.w) == 0x12345) out[0] = 1; }\n";

static const struct try_case *const tables[] = {
    try_products, try_attention, try_quantised,     try_deltanet,
    try_layers,   try_experts,   try_prompt_experts};

void try_must(cl_int code, const char *what)
{
    if (code != CL_SUCCESS) {
        fprintf(stderr, "opencl_try: %s: error %d\n", what, (int)code);
        exit(2);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- data ---- */

static uint32_t hash(uint32_t a)
{
    a ^= a >> 16;
    a *= 0x7feb352du;
    a ^= a >> 15;
    a *= 0x846ca68bu;
    return a ^ a >> 16;
}

float try_bf16(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    b = (b + 0x7fffu + (b >> 16 & 1)) & 0xffff0000u;
    memcpy(&v, &b, 4);
    return v;
}

float try_value(uint32_t seed, uint64_t i, float scale, enum try_type type)
{
    uint32_t h = hash((uint32_t)i ^ hash((uint32_t)(i >> 32) + seed));
    float v = (float)((int32_t)(h >> 8) - 8388608) / 8388608.0f * scale;
    return type == TRY_BF16 ? try_bf16(v) : v;
}

size_t try_size(enum try_type type)
{
    return type == TRY_BF16 ? 2 : 4;
}

static cl_mem buffer(struct try *t, size_t bytes, const void *data)
{
    cl_int code;
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    if (data) {
        flags |= CL_MEM_COPY_HOST_PTR;
    }
    cl_mem m = clCreateBuffer(t->context, flags, bytes, (void *)(uintptr_t)data,
                              &code);
    try_must(code, "clCreateBuffer");
    if (t->n_mems == TRY_OBJECTS_MAX) {
        try_must(CL_OUT_OF_HOST_MEMORY, "too many buffers in a case");
    }
    t->mems[t->n_mems++] = m;
    return m;
}

cl_mem try_data(struct try *t, const void *data, size_t bytes)
{
    return buffer(t, bytes, data);
}

void try_refill(struct try *t, cl_mem m, enum try_type type, size_t n,
                uint32_t seed, float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    try_args(t->fill, "mUuuu", m, (uint64_t)n, seed, bits, (uint32_t)type);
    size_t global = (size_t)t->units * 2048;
    try_must(clEnqueueNDRangeKernel(t->queue, t->fill, 1, NULL, &global, NULL,
                                    0, NULL, NULL),
             "fill");
    try_must(clFinish(t->queue), "fill");
}

cl_mem try_random(struct try *t, enum try_type type, size_t n, uint32_t seed,
                  float scale)
{
    cl_mem m = buffer(t, n * try_size(type), NULL);
    try_refill(t, m, type, n, seed, scale);
    return m;
}

void try_repoison(struct try *t, cl_mem m, size_t bytes)
{
    uint8_t ff = 0xff;
    try_must(clEnqueueFillBuffer(t->queue, m, &ff, 1, 0, bytes, 0, NULL, NULL),
             "clEnqueueFillBuffer");
    try_must(clFinish(t->queue), "clEnqueueFillBuffer");
}

cl_mem try_poison(struct try *t, size_t bytes)
{
    cl_mem m = buffer(t, bytes, NULL);
    try_repoison(t, m, bytes);
    return m;
}

void try_read(struct try *t, cl_mem m, size_t at, size_t bytes, void *out)
{
    try_must(clEnqueueReadBuffer(t->queue, m, CL_TRUE, at, bytes, out, 0, NULL,
                                 NULL),
             "clEnqueueReadBuffer");
}

void try_free_buffers(struct try *t)
{
    while (t->n_mems) {
        clReleaseMemObject(t->mems[--t->n_mems]);
    }
}

void try_free(struct try *t)
{
    try_free_buffers(t);
    while (t->n_kernels) {
        clReleaseKernel(t->kernels[--t->n_kernels]);
    }
}

/* ---- kernels ---- */

/* Releases held-back instructions in a program's PTX and builds it again. */
static cl_int release(struct try *t, cl_program *p, const char *options)
{
    size_t n = 0;
    cl_int code =
        clGetProgramInfo(*p, CL_PROGRAM_BINARY_SIZES, sizeof(n), &n, NULL);
    unsigned char *ptx = calloc(1, n + 1);
    if (code == CL_SUCCESS && ptx) {
        code =
            clGetProgramInfo(*p, CL_PROGRAM_BINARIES, sizeof(ptx), &ptx, NULL);
    }
    if (code == CL_SUCCESS && ptx && ptx_release((char *)ptx, &n, n + 1)) {
        const unsigned char *bytes = ptx;
        clReleaseProgram(*p);
        *p = clCreateProgramWithBinary(t->context, 1, &t->device, &n, &bytes,
                                       NULL, &code);
        try_must(code, "clCreateProgramWithBinary");
        code = clBuildProgram(*p, 1, &t->device, options, NULL, NULL);
    }
    free(ptx);
    return code;
}

static cl_kernel build(struct try *t, const char *const *sources, cl_uint n,
                       const char *name, const char *options)
{
    cl_int code;
    cl_program p = clCreateProgramWithSource(
        t->context, n, (const char **)(uintptr_t)sources, NULL, &code);
    try_must(code, "clCreateProgramWithSource");
    code = clBuildProgram(p, 1, &t->device, options, NULL, NULL);
    if (code == CL_SUCCESS && t->nvidia) {
        code = release(t, &p, options);
    }
    static char text[16384];
    text[0] = 0;
    clGetProgramBuildInfo(p, t->device, CL_PROGRAM_BUILD_LOG, sizeof(text) - 1,
                          text, NULL);
    if (code != CL_SUCCESS || (t->verbose && strlen(text) > 2)) {
        printf("%s %s:\n%s\n", name, options, text);
    }
    cl_kernel k = NULL;
    if (code == CL_SUCCESS) {
        k = clCreateKernel(p, name, &code);
    }
    if (code != CL_SUCCESS) {
        printf("WRONG %s: does not build, error %d\n", name, (int)code);
        t->n_wrong++;
        k = NULL;
    }
    clReleaseProgram(p);
    return k;
}

/* Loads a file with the #line that names it in the compiler's messages. */
static char *load(const struct try *t, const char *file)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s/%s", t->directory,
             strncmp(file, "nv", 2) == 0 ? "nv" : "portable", file);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "opencl_try: %s: cannot be opened\n", path);
        exit(2);
    }
    char *text = malloc(SOURCE_MAX);
    try_must(text ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, path);
    int n = snprintf(text, 256, "#line 1 \"%s\"\n", file);
    size_t got = fread(text + n, 1, SOURCE_MAX - 256, f);
    text[(size_t)n + got] = 0;
    fclose(f);
    return text;
}

cl_kernel try_kernel(struct try *t, const char *const *files, const char *name,
                     const char *options, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, options);
    vsnprintf(text, sizeof(text) - OPTIONS_MAX - 32, options, ap);
    va_end(ap);
    if (t->more) {
        snprintf(text + strlen(text), OPTIONS_MAX, " %s", t->more);
    }
    if (t->verbose && t->nvidia) {
        strcat(text, " -cl-nv-verbose");
    }
    char *sources[FILES_MAX];
    cl_uint n = 0;
    for (; files[n] && n < FILES_MAX; n++) {
        sources[n] = load(t, files[n]);
    }
    cl_kernel k =
        build(t, (const char *const *)(uintptr_t)sources, n, name, text);
    while (n) {
        free(sources[--n]);
    }
    if (k && t->n_kernels < TRY_OBJECTS_MAX) {
        t->kernels[t->n_kernels++] = k;
    }
    return k;
}

void try_args(cl_kernel k, const char *letters, ...)
{
    va_list ap;
    va_start(ap, letters);
    for (cl_uint i = 0; letters[i]; i++) {
        cl_mem m;
        cl_uint u;
        cl_ulong U;
        cl_float f;
        cl_int code;
        switch (letters[i]) {
        case 'm':
            m = va_arg(ap, cl_mem);
            code = clSetKernelArg(k, i, sizeof(m), &m);
            break;
        case 'u':
            u = va_arg(ap, uint32_t);
            code = clSetKernelArg(k, i, sizeof(u), &u);
            break;
        case 'U':
            U = va_arg(ap, uint64_t);
            code = clSetKernelArg(k, i, sizeof(U), &U);
            break;
        case 'f':
            f = (cl_float)va_arg(ap, double);
            code = clSetKernelArg(k, i, sizeof(f), &f);
            break;
        default:
            code = clSetKernelArg(k, i, va_arg(ap, size_t), NULL);
        }
        if (code != CL_SUCCESS) {
            fprintf(stderr, "argument %u of \"%s\": ", (unsigned)i, letters);
            try_must(code, "clSetKernelArg");
        }
    }
    va_end(ap);
}

/* ---- launches and times ---- */

static void enqueue(const struct try_launch *l, cl_command_queue queue,
                    cl_event *event)
{
    size_t global[3];
    for (uint32_t i = 0; i < l->dims; i++) {
        global[i] = l->groups[i] * l->local[i];
    }
    try_must(clEnqueueNDRangeKernel(queue, l->kernel, l->dims, NULL, global,
                                    l->local, 0, NULL, event),
             "clEnqueueNDRangeKernel");
}

void try_run(struct try *t, const struct try_launch *l)
{
    enqueue(l, t->queue, NULL);
    try_must(clFinish(t->queue), "a kernel");
}

static double event_us(cl_event event)
{
    cl_ulong start = 0, end = 0;
    try_must(clWaitForEvents(1, &event), "a kernel");
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &start, NULL);
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, &end, NULL);
    clReleaseEvent(event);
    return (double)(end - start) / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_size);
    return v[n / 2];
}

double try_alone(struct try *t, const struct try_launch *l)
{
    double us[ALONE_TIMES];
    size_t global = FLUSH_BYTES / 16;
    for (uint32_t i = 0; i < ALONE_TIMES; i++) {
        try_args(t->flush_kernel, "mu", t->flush, i);
        try_must(clEnqueueNDRangeKernel(t->queue, t->flush_kernel, 1, NULL,
                                        &global, NULL, 0, NULL, NULL),
                 "flush");
        cl_event event;
        enqueue(l, t->queue, &event);
        us[i] = event_us(event);
    }
    return median(us, ALONE_TIMES);
}

static void nothing(void *arg, uint32_t i)
{
    (void)arg;
    (void)i;
}

/* From the first launch to the end of the last, wait included. */
static double span_us(struct try *t, const struct try_launch *l, uint32_t n,
                      void (*set)(void *arg, uint32_t i), void *arg)
{
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < n; i++) {
        set(arg, i);
        enqueue(l, t->quick, NULL);
    }
    try_must(clFinish(t->quick), "a chain of kernels");
    return (double)(now_ns() - start) / 1e3;
}

double try_chain(struct try *t, const struct try_launch *l,
                 void (*set)(void *arg, uint32_t i), void *arg)
{
    double us[CHAIN_ROUNDS];
    span_us(t, l, 1, set, arg);
    double one = span_us(t, l, 4, set, arg) / 4;
    uint32_t n = (uint32_t)fmin(fmax(CHAIN_US / one, 4), CHAIN_TIMES);
    for (uint32_t r = 0; r < CHAIN_ROUNDS; r++) {
        double single = span_us(t, l, n, set, arg);
        us[r] = (span_us(t, l, 2 * n, set, arg) - single) / n;
    }
    return median(us, CHAIN_ROUNDS);
}

/* ---- verdicts ---- */

void try_near(struct try *t, const char *what, const float *got,
              const double *want, size_t n, double most)
{
    double off = 0, all = 0;
    size_t worst = 0;
    double far = -1;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        off += d * d;
        all += want[i] * want[i];
        if (!(fabs(d) <= far)) {
            far = fabs(d);
            worst = i;
        }
    }
    double share = sqrt(off / all);
    if (!(share <= most)) {
        printf("WRONG %s: off by %.3g of the whole (%.3g allowed); worst at "
               "%zu of %zu: %g, not %g\n",
               what, share, most, worst, n, (double)got[worst], want[worst]);
        t->n_wrong++;
    }
}

void try_same(struct try *t, const char *what, const void *got,
              const void *want, size_t bytes)
{
    const uint8_t *a = got, *b = want;
    size_t n = 0, first = 0;
    for (size_t i = bytes; i-- > 0;) {
        if (a[i] != b[i]) {
            n++;
            first = i;
        }
    }
    if (n) {
        printf("WRONG %s: %zu of %zu bytes differ, the first at %zu\n", what, n,
               bytes, first);
        t->n_wrong++;
    }
}

/* ---- the machine ---- */

static double read_rate(struct try *t, cl_kernel k, size_t bytes,
                        uint32_t times)
{
    cl_mem data = try_random(t, TRY_I32, bytes / 4, 1, 1.0f);
    cl_mem out = try_poison(t, 64);
    double best = 0;
    for (size_t per = 2; per <= 8; per *= 2) {
        struct try_launch l = {k, 1, {t->units * per}, {256}};
        try_args(k, "mUum", data, (uint64_t)bytes / 16, times, out);
        double gbs = (double)bytes * times / try_alone(t, &l) / 1e3;
        best = fmax(best, gbs);
    }
    return best;
}

static void measure(struct try *t)
{
    const char *source[] = {builtin};
    cl_kernel k = build(t, source, 1, "read", "");
    cl_kernel empty = build(t, source, 1, "empty", "");
    size_t scale = t->nvidia ? 1 : 16; /* for small machines */
    t->read_gbs = read_rate(t, k, READ_BYTES / scale, 1);
    t->cache_gbs = read_rate(t, k, CACHE_BYTES / scale, 32);
    struct try_launch l = {empty, 1, {t->units}, {256}};
    try_args(empty, "m", t->flush);
    t->launch_us = try_chain(t, &l, nothing, NULL);
    printf("reads %.0f GB/s from memory, %.0f GB/s from the last cache; an "
           "empty launch takes %.2f us\n",
           t->read_gbs, t->cache_gbs, t->launch_us);
    clReleaseKernel(k);
    clReleaseKernel(empty);
    try_free(t);
}

static void choose_device(struct try *t, uint32_t wish)
{
    cl_platform_id platforms[16];
    cl_uint n = 0, seen = 0;
    try_must(clGetPlatformIDs(16, platforms, &n), "clGetPlatformIDs");
    for (cl_uint i = 0; i < n && i < 16; i++) {
        cl_device_id devices[16];
        cl_uint m = 0;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, devices, &m)) {
            continue;
        }
        if (wish < seen + m) {
            t->device = devices[wish - seen];
            return;
        }
        seen += m;
    }
    try_must(CL_DEVICE_NOT_FOUND, "no such device");
}

static void open_device(struct try *t, uint32_t wish)
{
    cl_int code;
    char name[256] = "", driver[256] = "";
    cl_uint major = 0, minor = 0, units = 1;
    choose_device(t, wish);
    clGetDeviceInfo(t->device, CL_DEVICE_NAME, 255, name, NULL);
    clGetDeviceInfo(t->device, CL_DRIVER_VERSION, 255, driver, NULL);
    clGetDeviceInfo(t->device, CL_DEVICE_MAX_COMPUTE_UNITS, 4, &units, NULL);
    clGetDeviceInfo(t->device, 0x4000, 4, &major, NULL); /* NVIDIA's
                                                          * capability */
    clGetDeviceInfo(t->device, 0x4001, 4, &minor, NULL);
    t->nvidia = 10 * major + minor;
    t->local = t->local > 0 ? t->local : matmul_nv_local(t->nvidia);
    t->units = units;
    t->context = clCreateContext(NULL, 1, &t->device, NULL, NULL, &code);
    try_must(code, "clCreateContext");
    t->queue = clCreateCommandQueue(t->context, t->device,
                                    CL_QUEUE_PROFILING_ENABLE, &code);
    try_must(code, "clCreateCommandQueue");
    t->quick = clCreateCommandQueue(t->context, t->device, 0, &code);
    try_must(code, "clCreateCommandQueue");
    const char *source[] = {builtin};
    t->fill = build(t, source, 1, "fill", "");
    t->flush_kernel = build(t, source, 1, "flush", "");
    t->flush =
        clCreateBuffer(t->context, CL_MEM_READ_WRITE, FLUSH_BYTES, NULL, &code);
    try_must(code, "clCreateBuffer");
    printf("%s, driver %s, %u units\n", name, driver, (unsigned)units);
}

static bool wanted(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return n == 0;
}

int main(int argc, char **argv)
{
    struct try t = {.directory = "kernels/opencl"};
    uint32_t device = 0;
    for (int c; (c = getopt(argc, argv, "bd:k:l:o:qsv")) != -1;) {
        switch (c) {
        case 'b':
            t.build_only = true;
            break;
        case 'd':
            device = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'k':
            t.directory = optarg;
            break;
        case 'l':
            t.local = (uint32_t)strtoul(optarg, NULL, 10) << 10;
            break;
        case 'o':
            t.more = optarg;
            break;
        case 'q':
            t.quiet = true;
            break;
        case 's':
            t.small = true;
            break;
        case 'v':
            t.verbose = true;
            break;
        default:
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_device(&t, device);
    if (!t.quiet && !t.build_only) {
        measure(&t);
    }
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct try_case *c = tables[i]; c->name; c++) {
            if (wanted(c->name, argc - optind, argv + optind)) {
                c->run(&t);
                try_free(&t);
            }
        }
    }
    printf(t.n_wrong ? "%u WRONG\n" : "nothing wrong\n", (unsigned)t.n_wrong);
    return t.n_wrong != 0;
}
