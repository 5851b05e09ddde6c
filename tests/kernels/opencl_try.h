/* opencl_try.h - tests and times single kernels of kernels/opencl on a device.
 *
 *     opencl_try [-bqsv] [-d DEVICE] [-k DIRECTORY] [-l KIB] [-o OPTIONS]
 * [CASE...]
 *
 * A case is a function in a table.  It builds kernels with its own defines,
 * fills buffers on the device, launches, compares with plain C, times, and
 * prints a line for each shape.  Cases are selected by prefix; without a name
 * all run.
 *
 *     -l KIB  cuts products for this much local memory per work-group
 *     -o OPTIONS  gives the compiler more options
 *     -b      builds only, to fill the driver's cache; several may run at once
 *     -q      checks without timing
 *     -s      takes small shapes, in buffers of exactly their size
 *             (nv_emulator/emulator.h)
 *     -v      shows the compiler's log
 *
 * Data.  Element i of a random buffer is try_value(seed, i, scale), uniform in
 * [-scale, scale), rounded to the buffer's type.  The host can compute any
 * element without reading any.
 *
 * Times.  try_alone(): median time of a launch by its events, with everything
 * evicted from the caches before.  try_chain(): launches one after the other
 * without waiting, by the clock, as in a step; the case gives each launch other
 * weights, so that no cache holds them.
 *
 * Threading: none.
 * Memory: buffers and kernels live until the case ends.
 * Limits: TRY_OBJECTS_MAX per case.
 *
 * Errors: a failed call of OpenCL ends the program and names the call.  A wrong
 * result is printed and counted, and makes the program's exit status 1. */
#ifndef TESTS_KERNELS_OPENCL_TRY_H
#define TESTS_KERNELS_OPENCL_TRY_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRY_OBJECTS_MAX 256

enum try_type { TRY_F32, TRY_BF16, TRY_I32 };

struct
try {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue; /* in order, with profiling */
    cl_command_queue quick; /* in order, without profiling */
    const char *directory;  /* folder of the .cl files */
    const char *more;       /* compiler options of -o, or NULL */
    uint32_t units;         /* compute units */
    uint32_t nvidia;        /* 10 * major + minor; 0: not NVIDIA */
    uint32_t local;         /* bytes of local memory per work-group */
    bool build_only, quiet, small, verbose;
    double read_gbs;  /* read rate of a plain kernel, from memory */
    double cache_gbs; /* the same from the last cache */
    double launch_us; /* time of an empty kernel in a chain */
    uint32_t n_wrong;
    cl_kernel fill, flush_kernel;
    cl_mem flush;
    cl_mem mems[TRY_OBJECTS_MAX];
    cl_kernel kernels[TRY_OBJECTS_MAX];
    uint32_t n_mems, n_kernels;
};

struct try_case {
    const char *name;
    void (*run)(struct try *t);
};

/* Tables of cases; each ends with a row without a name. */
extern const struct try_case try_products[];
extern const struct try_case try_attention[];
extern const struct try_case try_quantised[];
extern const struct try_case try_deltanet[];
extern const struct try_case try_layers[];
extern const struct try_case try_experts[];
extern const struct try_case try_prompt_experts[];

/* Ends the program unless code is CL_SUCCESS. */
void try_must(cl_int code, const char *what);

/* Builds the kernel `name` from the files, preludes first; NULL ends the list.
 * Options as in printf.  Returns NULL if the compiler rejects it, which is
 * printed and counted. */
cl_kernel try_kernel(struct try *t, const char *const *files, const char *name,
                     const char *options, ...)
    __attribute__((format(printf, 4, 5)));

size_t try_size(enum try_type type);
float try_value(uint32_t seed, uint64_t i, float scale, enum try_type type);
float try_bf16(float v); /* rounded to nearest even, then widened */
cl_mem try_random(struct try *t, enum try_type type, size_t n, uint32_t seed,
                  float scale);
/* Fills a buffer with bytes 0xff: NaN in every float type. */
cl_mem try_poison(struct try *t, size_t bytes);
cl_mem try_data(struct try *t, const void *data, size_t bytes);
/* Refills a buffer of try_random(). */
void try_refill(struct try *t, cl_mem m, enum try_type type, size_t n,
                uint32_t seed, float scale);
void try_repoison(struct try *t, cl_mem m, size_t bytes);
void try_read(struct try *t, cl_mem m, size_t at, size_t bytes, void *out);
/* Frees the buffers of the case, or all its kernels too; both happen at its end
 * anyway. */
void try_free_buffers(struct try *t);
void try_free(struct try *t);

/* Sets arguments by letter: m cl_mem, u uint32_t, U uint64_t (ulong), f double
 * (float), l size_t (local bytes). */
void try_args(cl_kernel k, const char *letters, ...);

struct try_launch {
    cl_kernel kernel;
    uint32_t dims;
    size_t groups[3], local[3]; /* work-groups, and work-items per group */
};

void try_run(struct try *t, const struct try_launch *l);
double try_alone(struct try *t, const struct try_launch *l); /* us */
/* set(arg, i) sets the arguments of the i-th launch.  Returns us per launch. */
double try_chain(struct try *t, const struct try_launch *l,
                 void (*set)(void *arg, uint32_t i), void *arg);

/* Checks ||got - want|| / ||want||: counted as wrong above `most` or if not
 * finite.  Prints only wrong results. */
void try_near(struct try *t, const char *what, const float *got,
              const double *want, size_t n, double most);
void try_same(struct try *t, const char *what, const void *got,
              const void *want, size_t bytes);

#endif
