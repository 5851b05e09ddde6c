/* nv.h - the instructions of kernels/opencl/nv/nv.cl, for kernels compiled for
 * the host; nv.cl describes them.  The file is valid C and OpenCL C. */
#ifndef TESTS_KERNELS_NV_EMULATOR_NV_H
#define TESTS_KERNELS_NV_EMULATOR_NV_H

#ifdef __OPENCL_C_VERSION__
#define NV_EMULATED 1
#define NV_GLOBAL   __global
#define NV_LOCAL    __local
typedef uint uint32_t;
typedef int int32_t;
typedef ulong uint64_t;

/* The sanitizer puts no red zones around a variable with a larger alignment. */
#define aligned(n) aligned(32)

#define load_once(from)  (*(__global const uint4 *)(from))
#define vload2(i, p)     ((float2)((p)[2 * (i)], (p)[2 * (i) + 1]))
#define vstore2(v, i, p) ((p)[2 * (i)] = (v).x, (p)[2 * (i) + 1] = (v).y)
#else
#include "tests/kernels/nv_emulator/emulator.h"
typedef uint32_t uint4 __attribute__((ext_vector_type(4)));
#define NV_GLOBAL
#define NV_LOCAL
#endif

void mma_bf16(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
              uint32_t b0, uint32_t b1);
void ldmatrix(uint32_t *r, NV_LOCAL const void *row);
void ldmatrix_trans(uint32_t *r, NV_LOCAL const void *row);
uint32_t movmatrix(uint32_t a);
float shfl_xor(float v, uint32_t mask);
uint32_t warp_max(uint32_t v);
uint32_t warp_min(uint32_t v);
void warp_sync(void);
uint32_t pack_bf16(float first, float second);
uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c);
uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t selector);
uint32_t opaque(uint32_t x);
float exp2_fast(float x);

void copy_async(NV_LOCAL void *to, NV_GLOBAL const void *from, uint32_t n);
void copy_commit(void);
void copy_wait(int32_t n);

uint32_t ticket_take(volatile NV_GLOBAL uint32_t *ticket);
void fence_device(void);
void post(NV_GLOBAL uint64_t *to, uint32_t value, uint32_t number);
uint4 posted(NV_GLOBAL const uint64_t *two);
void give_up(void);

void wgmma_publish(void);
void wgmma_begin(void);
void wgmma_commit(void);
void wgmma_wait(int32_t n);
uint64_t wgmma_rows(NV_LOCAL const void *row0);
void wgmma_32(float *d, uint64_t a, uint64_t b);
void wgmma_64(float *d, uint64_t a, uint64_t b);
void wgmma_96(float *d, uint64_t a, uint64_t b);
void wgmma_128(float *d, uint64_t a, uint64_t b);
void wgmma_160(float *d, uint64_t a, uint64_t b);
void wgmma_192(float *d, uint64_t a, uint64_t b);
void wgmma_224(float *d, uint64_t a, uint64_t b);
void wgmma_256(float *d, uint64_t a, uint64_t b);

#endif
