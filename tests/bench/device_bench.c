/* device_bench - measures an OpenCL device: the limits that grid_bench's
 * figures are shares of.
 *
 *     device_bench [--device NAME] [--kernel-cache DIR] [--seconds S]
 *
 * Prints one line of JSON:
 *
 *     device, platform, driver, units, memory_bytes
 *     read_bandwidth   bytes/s of a kernel that reads random words far beyond
 *                      the caches (kernels/opencl/portable/read.cl)
 *     rates            operations/s, a multiply-add being two: "f32" in
 *                      registers; on NVIDIA "mma_bf16" (operands in registers)
 *                      and, from sm_90 on, "wgmma_bf16" (in local memory),
 *                      random operands, sums in float32
 *     matrix           the largest of these
 *
 * Each figure is the best of three runs of --seconds (0.1), by the device's own
 * clock.  Exit code 2, with a message: the device is not available. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/program.h"

#define TURNS       3
#define READ_BYTES  ((size_t)4 << 30)
#define READ_HOST   ((size_t)64 << 20) /* for a device in the host's memory */
#define GROUP       256
#define RATE_FLOATS 128
#define RATE_TILES  16
#define TRY_LOOPS   64

extern const struct embedded device_bench_files[];

struct bench {
    struct opencl_device device;
    cl_context context;
    cl_command_queue queue;
    struct opencl_programs *programs;
    cl_mem out; /* [items] float */
    double seconds;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "device_bench: %s: %s\n", what, why);
    exit(2);
}

static void check(cl_int code, const char *what)
{
    char text[64];

    if (code != CL_SUCCESS) {
        die(what, opencl_error_name(code, text, sizeof text));
    }
}

static cl_kernel kernel(struct bench *b, const char *file, const char *name,
                        const char *defines)
{
    cl_program program;
    struct error e;
    cl_int code;
    cl_kernel k;

    if (opencl_programs_get(b->programs, &program, file, defines, &e) !=
        ST_OK) {
        die(file, e.text);
    }
    k = clCreateKernel(program, name, &code);
    check(code, name);
    return k;
}

static void argument(cl_kernel k, cl_uint at, size_t size, const void *value)
{
    check(clSetKernelArg(k, at, size, value), "an argument");
}

/* Returns the seconds of a launch, by the device's clock. */
static double launch(struct bench *b, cl_kernel k, size_t groups)
{
    size_t global = groups * GROUP, local = GROUP;
    cl_ulong begin = 0, end = 0;
    cl_event event;

    check(clEnqueueNDRangeKernel(b->queue, k, 1, NULL, &global, &local, 0, NULL,
                                 &event),
          "a launch");
    check(clWaitForEvents(1, &event), "a wait");
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin,
                            &begin, NULL);
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end,
                            NULL);
    clReleaseEvent(event);
    return end > begin ? 1e-9 * (double)(end - begin) : 1e-9;
}

/* ---- reading ---- */

static void fill(struct bench *b, cl_mem mem, cl_ulong pieces)
{
    cl_kernel k = kernel(b, "noise", "noise", "-DNOISE_DTYPE=0");
    cl_ulong at = 0, seed = 1;
    cl_float width = 1.0f;

    argument(k, 0, sizeof mem, &mem);
    argument(k, 1, sizeof at, &at);
    argument(k, 2, sizeof seed, &seed);
    argument(k, 3, sizeof width, &width);
    argument(k, 4, sizeof pieces, &pieces);
    launch(b, k, (size_t)b->device.units * 8);
    clReleaseKernel(k);
}

static double read_bandwidth(struct bench *b)
{
    size_t bytes = b->device.host_memory ? READ_HOST : READ_BYTES;
    cl_ulong at = 0, pieces;
    double best = 0.0;
    cl_kernel k;
    cl_int code;
    cl_mem in;

    bytes = bytes < b->device.largest ? bytes : (size_t)b->device.largest;
    pieces = bytes / 16;
    in = clCreateBuffer(b->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    check(code, "memory to read");
    fill(b, in, pieces);
    k = kernel(b, "read", "read_all", "");
    argument(k, 0, sizeof b->out, &b->out);
    argument(k, 1, sizeof at, &at);
    argument(k, 2, sizeof in, &in);
    argument(k, 3, sizeof at, &at);
    argument(k, 4, sizeof pieces, &pieces);
    for (int i = 0; i < 2 * TURNS; i++) {
        double took = launch(b, k, (size_t)b->device.units * 8);

        best = fmax(best, (double)bytes / took);
    }
    clReleaseKernel(k);
    clReleaseMemObject(in);
    return best;
}

/* ---- multiplying ---- */

/* Checks that every work-group has written sums that are numbers, and not all
 * zero. */
static void look(struct bench *b, const char *what, size_t groups)
{
    size_t n = groups * GROUP;
    float *sums = calloc(n, sizeof *sums);
    bool some = false, numbers = true;

    if (sums == NULL) {
        die(what, "no memory");
    }
    check(clEnqueueReadBuffer(b->queue, b->out, CL_TRUE, 0, n * sizeof *sums,
                              sums, 0, NULL, NULL),
          "reading sums");
    for (size_t i = 0; i < n; i++) {
        numbers = numbers && isfinite(sums[i]);
        some = some || sums[i] != 0.0f;
    }
    free(sums);
    if (!numbers || !some) {
        die(what, "its sums are not what products add up to");
    }
}

/* Returns the operations/s of a kernel whose last argument is its number of
 * iterations, each worth `flops` per work-group. */
static double rate(struct bench *b, cl_kernel k, cl_uint last, size_t groups,
                   double flops)
{
    cl_uint n = TRY_LOOPS;
    double took, best = 0.0;

    argument(k, 0, sizeof b->out, &b->out);
    argument(k, last, sizeof n, &n);
    launch(b, k, groups);
    took = launch(b, k, groups);
    n = (cl_uint)fmin(1e9, fmax(n, b->seconds / took * n));
    argument(k, last, sizeof n, &n);
    for (int i = 0; i < TURNS; i++) {
        took = launch(b, k, groups);
        best = fmax(best, flops * (double)groups * n / took);
    }
    clReleaseKernel(k);
    return best;
}

static double rate_f32(struct bench *b)
{
    char defines[64];
    cl_float x = 0.999f, y = 0.001f;
    size_t groups = (size_t)b->device.units * 8;
    double got;
    cl_kernel k;

    snprintf(defines, sizeof defines, "-DRATE_FLOATS=%d", RATE_FLOATS);
    k = kernel(b, "rate", "rate", defines);
    argument(k, 1, sizeof x, &x);
    argument(k, 2, sizeof y, &y);
    got = rate(b, k, 3, groups, 2.0 * RATE_FLOATS * GROUP);
    look(b, "rate", groups);
    return got;
}

static double rate_bf16(struct bench *b, bool wgmma)
{
    const double mma = 2.0 * 16 * 8 * 16 * RATE_TILES * (GROUP / 32.0);
    const double wide = 2.0 * 64 * 256 * 64 * (GROUP / 128.0);
    size_t groups = (size_t)b->device.units * (wgmma ? 1 : 2);
    char defines[96];
    double got;

    snprintf(defines, sizeof defines, "-DRATE_GROUP=%d -DRATE_TILES=%d%s",
             GROUP, RATE_TILES, wgmma ? " -DWGMMA" : "");
    got = rate(b,
               kernel(b, "nv_rate", wgmma ? "rate_wgmma" : "rate_mma", defines),
               1, groups, wgmma ? wide : mma);
    look(b, "nv_rate", groups);
    return got;
}

static void print_rates(struct bench *b)
{
    double f32 = rate_f32(b), most = f32;

    printf("\"rates\": {\"f32\": %.5g", f32);
    if (b->device.nvidia >= 80) {
        double mma = rate_bf16(b, false);

        printf(", \"mma_bf16\": %.5g", mma);
        most = fmax(most, mma);
    }
    if (b->device.nvidia == 90) {
        double wgmma = rate_bf16(b, true);

        printf(", \"wgmma_bf16\": %.5g", wgmma);
        most = fmax(most, wgmma);
    }
    printf("}, \"matrix\": %.5g}\n", most);
}

/* ---- the bench ---- */

static void open_device(struct bench *b, const char *wish, const char *cache)
{
    struct error e;
    cl_int code;

    if (opencl_device_find(&b->device, wish, &e) != ST_OK) {
        fprintf(stderr, "device_bench: %s\n", e.text);
        exit(2);
    }
    b->context = clCreateContext(NULL, 1, &b->device.id, NULL, NULL, &code);
    check(code, b->device.name);
    b->queue = clCreateCommandQueue(b->context, b->device.id,
                                    CL_QUEUE_PROFILING_ENABLE, &code);
    check(code, "a queue");
    b->out = clCreateBuffer(b->context, CL_MEM_READ_WRITE,
                            (size_t)b->device.units * 8 * GROUP * sizeof(float),
                            NULL, &code);
    check(code, "memory for sums");
    /* common.cl needs a model's H and EPS. */
    if (opencl_programs_new(
            &b->programs, b->context, &b->device, device_bench_files,
            "-cl-std=CL1.2 -DH=16 -DEPS=1e-6f", cache, &e) != ST_OK) {
        die("programs", e.text);
    }
}

static void close_device(struct bench *b)
{
    opencl_programs_free(&b->programs);
    clReleaseMemObject(b->out);
    clReleaseCommandQueue(b->queue);
    clReleaseContext(b->context);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"kernel-cache", required_argument, NULL, 'k'},
        {"seconds", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    const char *wish = "opencl", *cache = NULL;
    struct bench b = {.seconds = 0.1};

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd':
            wish = optarg;
            break;
        case 'k':
            cache = optarg;
            break;
        case 's':
            b.seconds = strtod(optarg, NULL);
            break;
        default:
            fputs("usage: device_bench [--device NAME] [--kernel-cache DIR] "
                  "[--seconds S]\n",
                  stderr);
            return 2;
        }
    }
    open_device(&b, wish, cache);
    printf("{\"device\": \"%s\", \"platform\": \"%s\", \"driver\": \"%s\", "
           "\"units\": %u, \"memory_bytes\": %llu, \"read_bandwidth\": %.5g, ",
           b.device.name, b.device.platform_name, b.device.driver,
           b.device.units, (unsigned long long)b.device.memory,
           read_bandwidth(&b));
    print_rates(&b);
    close_device(&b);
    return 0;
}
