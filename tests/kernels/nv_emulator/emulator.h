/* emulator.h - runs NVIDIA's kernels on the host, with every access checked.
 *
 * The sources of kernels/opencl/nv are compiled unchanged for the host, by
 * clang with AddressSanitizer.  clang cannot compile the instructions of nv.cl
 * there, so these are C functions that use the same pointers.  Any access past
 * a buffer, a __local variable or a private array ends the program with the
 * sanitizer's report, and so does a misaligned one.  (NVIDIA's
 * compute-sanitizer does not see into OpenCL processes.)
 *
 *     group.c     work-items of work-groups, as coroutines: barriers, ids, and
 *                 instructions that lanes of a warp execute together
 *     warp.c      the instructions of nv.cl
 *     builtins.c  functions of OpenCL C, under the names that clang calls
 *     device.c    the OpenCL calls that opencl_try makes: a device of compute
 *                 capability 9.0 with NV_GROUPS compute units
 *     nv.h        declares warp.c to the kernels
 *     plants.c    a test that accesses out of bounds are detected
 *
 * Memory.  A buffer is an allocation of exactly its size.  __local variables
 * are static in a program compiled for the host, so the sanitizer puts red
 * zones around each.  A program is loaded NV_GROUPS times, so that many
 * work-groups have their own local memory and run at the same time.
 *
 * nv_try is opencl_try on this device.  With -s, as in ctest, it takes shapes
 * around the edges of tiles.  Without -s the shapes are those of real models,
 * which attention and DeltaNet compute in minutes: nv_try -q attention
 * deltanet.
 *
 * Not detected: a wrong read or write inside a buffer (the cases of opencl_try
 * fill memory that must not be read with NaN, and compare), a race, and errors
 * of the driver's compiler.
 *
 * Threading: none.
 * Limits: below.
 *
 * Errors: end the program, with a line. */
#ifndef TESTS_KERNELS_NV_EMULATOR_EMULATOR_H
#define TESTS_KERNELS_NV_EMULATOR_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#define NV_GROUPS    4    /* work-groups that run at the same time */
#define NV_ITEMS_MAX 1024 /* work-items per group */
#define NV_WARP      32
#define NV_WARPGROUP 128

/* A copy in flight. */
struct nv_copy {
    void *to;
    uint8_t bytes[16];
    uint32_t group;
};

/* Values that a work-item passes to an instruction, and its results. */
struct nv_lane {
    uint32_t in[6], out[4];
    const void *row;
    float *d;
    uint64_t a, b;
};

struct nv_group;

struct nv_item {
    struct nv_lane lane;
    struct nv_group *group;
    uint32_t id;
    int state; /* state in group.c */
    void *sp, *stack, *fake;
    struct nv_copy *copies;
    uint32_t n_copies, copies_max, copy_groups;
    const void *local_base; /* base for wgmma_rows() */
};

/* Runs body(arg, copy) as each of `items` work-items of groups[0] * groups[1] *
 * groups[2] work-groups.  Work-groups that run at the same time have different
 * copies, below NV_GROUPS. */
typedef void (*nv_body_fn)(void *arg, uint32_t copy);
void nv_run(const size_t groups[3], uint32_t items, nv_body_fn body, void *arg);

/* Returns the work-item that runs. */
struct nv_item *nv_now(void);

/* Yields to other work-items. */
void nv_yield(void);

/* Returns when all n (NV_WARP or NV_WARPGROUP) adjacent work-items, this one
 * included, have called it with the same fn.  fn has then been called once,
 * with the first of them. */
typedef void (*nv_together_fn)(struct nv_item *first);
void nv_together(uint32_t n, nv_together_fn fn);

_Noreturn void nv_fail(const char *why);

#endif
