/* nv.cl - the instructions of sm_80 and later that OpenCL C has no words for.
 *
 * It comes after common.cl and before each nv_*.cl.  A lane is a work-item of
 * a warp, get_local_id(0) % 32; every call with `sync` in its instruction is
 * made by all 32 lanes of a warp together.
 *
 * Fragments of mma_bf16(), d [16, 8] += a [16, 16] * b [16, 8], where
 * g = lane / 4 and c = lane % 4; a uint holds two bf16, the lower index in
 * the lower half:
 *
 *     a0 (g, 2c..)   a1 (g + 8, 2c..)   a2 (g, 2c + 8..)   a3 (g + 8, 2c + 8..)
 *     b0 (2c.., g)   b1 (2c + 8.., g)
 *     d0 (g, 2c)     d1 (g, 2c + 1)     d2 (g + 8, 2c)     d3 (g + 8, 2c + 1)
 *
 * Needs     sm_80, PTX 7.8 */
#define INLINE static inline __attribute__((always_inline))

#ifndef NV_EMULATED

#define NV_LOCAL(p) ((uint)(size_t)(p))

INLINE void mma_bf16(float *d, const uint a0, const uint a1, const uint a2,
                     const uint a3, const uint b0, const uint b1)
{
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8
 * of matrix i / 8, 16 bytes aligned.  r[m]: of matrix m row g, columns 2c.. */
INLINE void ldmatrix(uint *r, __local const void *row)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                     "{%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(NV_LOCAL(row))
                     : "memory");
}

/* r[m]: of matrix m column g, rows 2c.. */
INLINE void ldmatrix_trans(uint *r, __local const void *row)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                     "{%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(NV_LOCAL(row))
                     : "memory");
}

/* An 8x8 matrix of 16-bit elements, row g, columns 2c.., turned over. */
INLINE uint movmatrix(const uint a)
{
    uint r;

    __asm__ volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                     : "=r"(r)
                     : "r"(a));
    return r;
}

INLINE float shfl_xor(const float v, const uint mask)
{
    float r;

    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                     : "=f"(r)
                     : "f"(v), "r"(mask));
    return r;
}

INLINE void warp_sync(void)
{
    __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/* Two floats to bf16, to nearest even. */
INLINE uint pack_bf16(const float low, const float high)
{
    uint r;

    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* Bytes of a and b picked by a selector. */
INLINE uint byte_perm(const uint a, const uint b, const uint selector)
{
    uint r;

    __asm__("prmt.b32 %0, %1, %2, %3;"
            : "=r"(r)
            : "r"(a), "r"(b), "r"(selector));
    return r;
}

/* x, of which the compiler knows nothing: what is computed from it in a loop
 * is not kept in registers from before the loop. */
INLINE uint opaque(uint x)
{
    __asm__ volatile("" : "+r"(x));
    return x;
}

/* 2 to the x, within 2 ulp; 0 for -INFINITY. */
INLINE float exp2_fast(const float x)
{
    float r;

    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* 16 bytes to local memory, past level 1; zeros if n is 0 rather than 16. */
INLINE void copy_async(__local void *to, __global const void *from,
                       const uint n)
{
    __asm__ volatile("{ .reg .u64 g; cvta.to.global.u64 g, %1; "
                     "cp.async.cg.shared.global [%0], [g], 16, %2; }"
                     :
                     : "r"(NV_LOCAL(to)), "l"(from), "r"(n)
                     : "memory");
}

INLINE void copy_commit(void)
{
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the newest n groups of this work-item are there. */
#define copy_wait(n) \
    __asm__ volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* Adds 1; what was written before it in this work-group (with a barrier
 * between) is seen by whoever gets a higher number. */
INLINE uint ticket_take(volatile __global uint *ticket)
{
    uint r;

    __asm__ volatile("{ .reg .u64 g; cvta.to.global.u64 g, %1; "
                     "fence.acq_rel.gpu; "
                     "atom.add.acq_rel.gpu.global.u32 %0, [g], 1; }"
                     : "=r"(r)
                     : "l"(ticket)
                     : "memory");
    return r;
}

INLINE void fence_device(void)
{
    __asm__ volatile("fence.acq_rel.gpu;" ::: "memory");
}

#endif

INLINE float bf16_low(const uint pair)
{
    return as_float(pair << 16);
}

INLINE float bf16_high(const uint pair)
{
    return as_float(pair & 0xffff0000u);
}

/* x as the sum of two bf16, to about 16 bits: what it is rounded to, and
 * what that leaves. */
INLINE uint pack_rest(const uint rounded, const float low, const float high)
{
    return pack_bf16(low - bf16_low(rounded), high - bf16_high(rounded));
}
