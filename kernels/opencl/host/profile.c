#include "kernels/opencl/host/profile.h"

#include <stdlib.h>

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/queue.h"

#define READ_BYTES ((size_t)1 << 30)  /* for a device with its own memory */
#define READ_HOST  ((size_t)64 << 20) /* for one that shares the host's */
#define READ_GROUP 256
#define READ_TURNS 4

static const struct opencl_variant reads[] = {
    {.file = "read", .kernel = "read_all", .wg = READ_GROUP},
};

/* Reads all bytes of t once. */
static void read_once(struct opencl *c, struct opencl_kernel *k,
                      const struct opencl_tensor *t,
                      const struct opencl_tensor *out)
{
    struct opencl_call a = opencl_call(c, k);
    size_t bytes = t->cols, local = READ_GROUP;
    /* Enough work-groups to occupy every compute unit several times. */
    size_t global = (size_t)c->device.units * 8 * READ_GROUP;

    opencl_arg_tensor(&a, out);
    opencl_arg_tensor(&a, t);
    opencl_arg_u64(&a, bytes / 16);
    opencl_launch(&a, 1, &global, &local, bytes);
    opencl_wait(c);
}

static enum status measure_rate(struct opencl *c, struct opencl_arena *arena,
                                struct error *e)
{
    struct opencl_tensor all = {0}, out = {0};
    struct opencl_kernel *k;
    size_t bytes = c->device.host_memory ? READ_HOST : READ_BYTES;
    uint64_t best = UINT64_MAX;
    enum status st = opencl_choose(c, &k, reads, 1, NULL, NULL, e);

    /* One tensor cannot be larger than the largest allocation. */
    bytes = bytes < c->device.largest ? bytes : (size_t)c->device.largest;
    bytes = bytes / 2 / 256 * 256;
    opencl_arena_add(arena, &all, 1, bytes, 1);
    opencl_arena_add(arena, &out, 1, 16, 1);
    st = st == ST_OK ? opencl_arena_make(c, arena, e) : st;
    /* The elements of read.cl have 16 bytes. */
    all.item = 16;
    out.item = 16;
    for (int i = 0; i < READ_TURNS && st == ST_OK; i++) {
        uint64_t before = k->ns;

        read_once(c, k, &all, &out);
        st = c->health.failed.code;
        /* The fastest turn is the closest to what the device can do. */
        best = k->ns - before < best ? k->ns - before : best;
    }
    c->read_rate =
        best > 0 && best < UINT64_MAX ? (double)bytes / (double)best : 0.0;
    opencl_arena_free(&arena);
    return st;
}

enum status opencl_profile_new(struct opencl *c, struct error *e)
{
    struct opencl_arena *arena = opencl_arena_new("profile");

    return arena ? measure_rate(c, arena, e)
                 : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

static int slowest(const void *a, const void *b)
{
    const struct opencl_kernel *x = *(const struct opencl_kernel *const *)a;
    const struct opencl_kernel *y = *(const struct opencl_kernel *const *)b;

    return (x->ns < y->ns) - (x->ns > y->ns);
}

/* Bytes per nanosecond are GB/s. */
static void print_row(const struct opencl *c, const struct opencl_kernel *k,
                      uint64_t all, FILE *out)
{
    double rate = k->ns > 0 ? (double)k->bytes / (double)k->ns : 0.0;
    char shape[32] = "";

    if (k->shape.rows > 0) {
        snprintf(shape, sizeof shape, "%ux%u", k->shape.rows, k->shape.cols);
    }
    fprintf(out, "%-28s %-14s %9llu %11.3f %5.1f %9.2f %10.1f %8.1f\n",
            k->variant->kernel, shape, (unsigned long long)k->calls,
            (double)k->ns / 1e6,
            all > 0 ? 100.0 * (double)k->ns / (double)all : 0.0,
            k->calls > 0 ? (double)k->ns / 1e3 / (double)k->calls : 0.0, rate,
            c->read_rate > 0 ? 100.0 * rate / c->read_rate : 0.0);
}

void opencl_profile_print(struct opencl *c, FILE *out)
{
    struct opencl_kernel *by_time[OPENCL_KERNELS_MAX], *all;
    uint32_t n;
    uint64_t ns = 0;

    if (!opencl_profiles(c)) {
        return;
    }
    all = opencl_kernels(c, &n);
    for (uint32_t i = 0; i < n; i++) {
        by_time[i] = &all[i];
        ns += all[i].ns;
    }
    qsort(by_time, n, sizeof by_time[0], slowest);
    fprintf(out,
            "device %s: kernels ran %.3f ms; it reads %.1f GB/s "
            "(measured)\n",
            c->device.name, (double)ns / 1e6, c->read_rate);
    fprintf(out, "%-28s %-14s %9s %11s %5s %9s %10s %8s\n", "kernel", "shape",
            "calls", "ms", "%", "us/call", "GB/s", "% read");
    for (uint32_t i = 0; i < n; i++) {
        if (by_time[i]->calls > 0) {
            print_row(c, by_time[i], ns, out);
        }
    }
}
