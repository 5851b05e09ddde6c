/* emulator.h - NVIDIA's kernels on the host, every access checked.
 *
 * The sources of kernels/opencl/nv_*.cl are compiled as they are for the host,
 * by clang with AddressSanitizer; the instructions of nv.cl, which clang would
 * not know there, are C functions that go through the same pointers.  So any
 * access past a buffer, past a __local variable or past a private array ends
 * the program with the sanitizer's report, as does a misaligned one.  (NVIDIA's
 * compute-sanitizer does not see into OpenCL processes.)
 *
 *   group.c     work-items of work-groups, as coroutines: barriers, ids, and
 *               instructions that lanes of a warp execute together
 *   warp.c      the instructions of nv.cl
 *   builtins.c  functions of OpenCL C, under the names that clang calls
 *   device.c    calls of OpenCL as far as opencl_try makes them: a device of
 *               compute capability 9.0 with NV_GROUPS compute units
 *   nv.h        declares warp.c to the kernels
 *   plants.c    a test that accesses out of bounds are seen
 *
 * Memory.  A buffer is an allocation of exactly its size.  __local variables
 * are static ones in a program compiled for the host: each has the sanitizer's
 * zones around it.  A program is loaded NV_GROUPS times, so as many groups
 * have local memory of their own, and run at the same time.
 *
 * nv_try is opencl_try on this device.  -s takes shapes around the edges of
 * tiles, as ctest does; without it the shapes are those of real models, which
 * attention and DeltaNet compute in minutes: nv_try -q attention deltanet.
 *
 * What is not seen: a read or write within the buffer that should not be (the
 * cases of opencl_try fill with NaN what must not be read, and compare), a
 * race, and what the driver's compiler makes of the source.
 *
 * Threading: none.  Limits: below.  Errors: end the program, with a line. */
#ifndef TESTS_KERNELS_NV_EMULATOR_EMULATOR_H
#define TESTS_KERNELS_NV_EMULATOR_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#define NV_GROUPS    4    /* work-groups that run at the same time */
#define NV_ITEMS_MAX 1024 /* work-items of a group */
#define NV_WARP      32
#define NV_WARPGROUP 128

/* A copy under way. */
struct nv_copy {
    void *to;
    uint8_t bytes[16];
    uint32_t group;
};

/* What a work-item gives to an instruction, and gets. */
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
    int state; /* of group.c */
    void *sp, *stack, *fake;
    struct nv_copy *copies;
    uint32_t n_copies, copies_max, copy_groups;
    const void *local_base; /* of wgmma_rows() */
};

/* Runs body(arg, copy) as each of `items` work-items of groups[0] * groups[1]
 * * groups[2] work-groups; those that run at the same time have different
 * copies, below NV_GROUPS. */
typedef void (*nv_body_fn)(void *arg, uint32_t copy);
void nv_run(const size_t groups[3], uint32_t items, nv_body_fn body, void *arg);

/* The work-item that runs. */
struct nv_item *nv_now(void);

/* Lets others run. */
void nv_yield(void);

/* Returns when all of the n (NV_WARP or NV_WARPGROUP) work-items next to this
 * one have called it with the same fn; fn has then been called with the first
 * of them. */
typedef void (*nv_together_fn)(struct nv_item *first);
void nv_together(uint32_t n, nv_together_fn fn);

_Noreturn void nv_fail(const char *why);

#endif
