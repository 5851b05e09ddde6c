/* nv.cl - instructions of sm_80 and later that OpenCL C cannot express, and
 * functions shared by the kernels that use them.
 *
 * This file comes after common.cl and before each nv_*.cl.  A lane is a
 * work-item of a warp, get_local_id(0) % 32.  All 32 lanes of a warp must make
 * a call together if its instruction contains `sync`.
 *
 * Fragments of mma_bf16(), d [16, 8] += a [16, 16] * b [16, 8], where g = lane
 * / 4 and c = lane % 4; a uint holds two bf16, the lower index in the lower
 * half:
 *
 *     a0 (g, 2c..)   a1 (g + 8, 2c..)   a2 (g, 2c + 8..)   a3 (g + 8, 2c + 8..)
 *     b0 (2c.., g)   b1 (2c + 8.., g)
 *     d0 (g, 2c)     d1 (g, 2c + 1)     d2 (g + 8, 2c)     d3 (g + 8, 2c + 1)
 *
 * Needs     sm_80, PTX 7.8; wgmma: sm_90a */
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

/* Loads four 8x8 matrices of 16-bit elements.  Lane i gives the address of row
 * i % 8 of matrix i / 8, 16 bytes aligned.  r[m] gets row g, columns 2c.. of
 * matrix m. */
INLINE void ldmatrix(uint *r, __local const void *row)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                     "{%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(NV_LOCAL(row))
                     : "memory");
}

/* The same, but r[m] gets column g, rows 2c.. of matrix m. */
INLINE void ldmatrix_trans(uint *r, __local const void *row)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                     "{%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(NV_LOCAL(row))
                     : "memory");
}

/* Transposes an 8x8 matrix of 16-bit elements; a lane has row g, columns
 * 2c.. */
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

/* Rounds two floats to bf16, to nearest even. */
INLINE uint pack_bf16(const float low, const float high)
{
    uint r;

    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* a * b + c for two pairs of bf16, each rounded once. */
INLINE uint fma_bf16x2(const uint a, const uint b, const uint c)
{
    uint r;

    __asm__("fma.rn.bf16x2 %0, %1, %2, %3;"
            : "=r"(r)
            : "r"(a), "r"(b), "r"(c));
    return r;
}

/* Picks bytes of a and b with a selector. */
INLINE uint byte_perm(const uint a, const uint b, const uint selector)
{
    uint r;

    __asm__("prmt.b32 %0, %1, %2, %3;"
            : "=r"(r)
            : "r"(a), "r"(b), "r"(selector));
    return r;
}

/* Hides x from the optimiser, so that values computed from x in a loop are not
 * kept in registers from before the loop. */
INLINE uint opaque(uint x)
{
    __asm__ volatile("" : "+r"(x));
    return x;
}

/* The greatest and the least value of a warp. */
INLINE uint warp_max(const uint v)
{
    uint r;

    __asm__ volatile("redux.sync.max.u32 %0, %1, 0xffffffff;"
                     : "=r"(r)
                     : "r"(v));
    return r;
}

INLINE uint warp_min(const uint v)
{
    uint r;

    __asm__ volatile("redux.sync.min.u32 %0, %1, 0xffffffff;"
                     : "=r"(r)
                     : "r"(v));
    return r;
}

/* 2 to the x, within 2 ulp; 0 for -INFINITY. */
INLINE float exp2_fast(const float x)
{
    float r;

    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Copies 16 bytes to local memory, past level 1; writes zeros if n is 0 instead
 * of 16. */
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

/* Waits for all but the newest n groups of this work-item. */
#define copy_wait(n) \
    __asm__ volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* Adds 1.  Earlier writes of this work-group (with a barrier between) are
 * visible to every work-group that gets a higher number. */
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

/* Stores a value and a number as one 8-byte word. */
INLINE void post(__global ulong *to, const uint value, const uint number)
{
    __asm__ volatile("{ .reg .u64 g; cvta.to.global.u64 g, %0; "
                     "st.relaxed.gpu.global.u64 [g], %1; }"
                     :
                     : "l"(to), "l"((ulong)number << 32 | value)
                     : "memory");
}

/* Loads two adjacent posts as they are now: value and number of each; 16 bytes
 * aligned. */
INLINE uint4 posted(__global const ulong *two)
{
    ulong a, b;

    __asm__ volatile("{ .reg .u64 g; cvta.to.global.u64 g, %2; "
                     "ld.relaxed.gpu.global.v2.u64 {%0,%1}, [g]; }"
                     : "=l"(a), "=l"(b)
                     : "l"(two)
                     : "memory");
    return (uint4)((uint)a, (uint)(a >> 32), (uint)b, (uint)(b >> 32));
}

/* Ends the kernel with a fault that the host detects. */
INLINE void give_up(void)
{
    __asm__ volatile("trap;" ::: "memory");
}

/* Loads 16 bytes that are not read again, nor written while the kernel runs.
 * The other half of their line is needed too. */
INLINE uint4 load_once(__global const ushort *from)
{
    uint4 v;

    __asm__ volatile(
        "{ .reg .u64 g; cvta.to.global.u64 g, %4; "
        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [g]; }"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from));
    return v;
}

/* ---- sm_90a: see PTX_HELD_BACK of ptx.h ---- */

/* Makes writes of this work-item to local memory, by copy_async() and stores,
 * visible to wgmma after a barrier. */
INLINE void wgmma_publish(void)
{
    __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Comes before the first wgmma of a group, since other instructions may have
 * written the sums. */
INLINE void wgmma_begin(void)
{
    __asm__ volatile("//@wgmma.fence.sync.aligned;" ::: "memory");
}

INLINE void wgmma_commit(void)
{
    __asm__ volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits for all but the newest n groups of this warpgroup. */
#define wgmma_wait(n) \
    __asm__ volatile("//@wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

/* Describes an operand in local memory: rows of 128 bytes, with the 16-byte
 * unit u of row r at u ^ r % 8, and row 0 at a multiple of 1024.  Add 2 for
 * each 16 bf16. */
INLINE ulong wgmma_rows(__local const void *row0)
{
    const ulong swizzle_128 = (ulong)1 << 62, eight_rows = 1024 >> 4;

    return swizzle_128 | eight_rows << 32 | (ulong)1 << 16 |
           (NV_LOCAL(row0) & 0x3ffff) >> 4;
}

#define WGMMA_R_0 \
    "%0,%1,%2,%3,%4,%5,%6,%7," \
    "%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_R_1 \
    "%16,%17,%18,%19,%20,%21,%22,%23," \
    "%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_R_2 \
    "%32,%33,%34,%35,%36,%37,%38,%39," \
    "%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_R_3 \
    "%48,%49,%50,%51,%52,%53,%54,%55," \
    "%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_R_4 \
    "%64,%65,%66,%67,%68,%69,%70,%71," \
    "%72,%73,%74,%75,%76,%77,%78,%79"
#define WGMMA_R_5 \
    "%80,%81,%82,%83,%84,%85,%86,%87," \
    "%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_R_6 \
    "%96,%97,%98,%99,%100,%101,%102,%103," \
    "%104,%105,%106,%107,%108,%109,%110,%111"
#define WGMMA_R_7 \
    "%112,%113,%114,%115,%116,%117,%118,%119," \
    "%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA_D_8(i)                                                          \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]),               \
        "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_D_16(i) WGMMA_D_8(i), WGMMA_D_8(i + 8)
#define WGMMA_REGS_32 WGMMA_R_0
#define WGMMA_SUMS_32 WGMMA_D_16(0)
#define WGMMA_REGS_64 WGMMA_REGS_32 "," WGMMA_R_1
#define WGMMA_SUMS_64 WGMMA_SUMS_32, WGMMA_D_16(16)
#define WGMMA_REGS_96 WGMMA_REGS_64 "," WGMMA_R_2
#define WGMMA_SUMS_96 WGMMA_SUMS_64, WGMMA_D_16(32)
#define WGMMA_REGS_128 WGMMA_REGS_96 "," WGMMA_R_3
#define WGMMA_SUMS_128 WGMMA_SUMS_96, WGMMA_D_16(48)
#define WGMMA_REGS_160 WGMMA_REGS_128 "," WGMMA_R_4
#define WGMMA_SUMS_160 WGMMA_SUMS_128, WGMMA_D_16(64)
#define WGMMA_REGS_192 WGMMA_REGS_160 "," WGMMA_R_5
#define WGMMA_SUMS_192 WGMMA_SUMS_160, WGMMA_D_16(80)
#define WGMMA_REGS_224 WGMMA_REGS_192 "," WGMMA_R_6
#define WGMMA_SUMS_224 WGMMA_SUMS_192, WGMMA_D_16(96)
#define WGMMA_REGS_256 WGMMA_REGS_224 "," WGMMA_R_7
#define WGMMA_SUMS_256 WGMMA_SUMS_224, WGMMA_D_16(112)

/* d [64, N] += a [64, 16] * b [N, 16]^T by 128 work-items, with a and b from
 * wgmma_rows().  Warp w of the four has rows 16 w .. 16 w + 15.  In these rows
 * and columns 8 n .. 8 n + 7, a lane has d[4 n ..], as in mma_bf16().  at and
 * next are the numbers of the operands behind the N / 2 sums. */
#define WGMMA_OF(n, at, next)                                                 \
    INLINE void wgmma_##n(float *d, const ulong a, const ulong b)             \
    {                                                                         \
        __asm__ volatile("//@wgmma.mma_async.sync.aligned.m64n" #n            \
                         "k16.f32.bf16.bf16 {" WGMMA_REGS_##n "}, "           \
                         "%" #at ", %" #next ", 1, 1, 1, 0, 0;"               \
                         : WGMMA_SUMS_##n                                     \
                         : "l"(a), "l"(b)                                     \
                         : "memory");                                         \
    }
WGMMA_OF(32, 16, 17)
WGMMA_OF(64, 32, 33)
WGMMA_OF(96, 48, 49)
WGMMA_OF(128, 64, 65)
WGMMA_OF(160, 80, 81)
WGMMA_OF(192, 96, 97)
WGMMA_OF(224, 112, 113)
WGMMA_OF(256, 128, 129)

#endif

/* Turns two loads of a warp into left operands of mma_bf16().  Each load is 4
 * rows by 64 columns, where lane i has row i / 8 and 8 columns from i % 8 * 8.
 * Row g of the operands is row g / 2 of `even` if g is even, else of `odd`.  A
 * lane has 8 of its columns from 8 c in `first`, for a0, and 8 from 8 c + 32 in
 * `second`, for a2.  is_odd: lane & 4. */
INLINE void mma_pairs(uint *first, uint *second, const uint even,
                      const uint odd, const bool is_odd)
{
    const uint mine = is_odd ? odd : even;
    const uint got = as_uint(shfl_xor(as_float(is_odd ? even : odd), 4));

    *first = is_odd ? got : mine;
    *second = is_odd ? mine : got;
}

INLINE void mma_rows(uint4 *first, uint4 *second, const uint4 even,
                     const uint4 odd, const bool is_odd)
{
    uint f[4], s[4];

    mma_pairs(f, s, even.x, odd.x, is_odd);
    mma_pairs(f + 1, s + 1, even.y, odd.y, is_odd);
    mma_pairs(f + 2, s + 2, even.z, odd.z, is_odd);
    mma_pairs(f + 3, s + 3, even.w, odd.w, is_odd);
    *first = (uint4)(f[0], f[1], f[2], f[3]);
    *second = (uint4)(s[0], s[1], s[2], s[3]);
}

/* ---- attention ---- */

#ifndef WINDOW
#define WINDOW 0 /* positions that a token sees; 0: all before it */
#endif
#define LOG2_E 1.4426950408889634f
#ifdef ATTN_SCALE
#define LOG2_SCALE (LOG2_E * ATTN_SCALE)
#else
#define LOG2_SCALE (LOG2_E / sqrt((float)HD))
#endif

/* Returns the first position that a token at p sees. */
INLINE uint first_seen(const uint p)
{
    return WINDOW > 0 && p >= WINDOW ? p - WINDOW + 1 : 0;
}

#ifdef META_BLOCKS
/* Returns a row's blocks; the first of a window table is that of an absolute
 * position, and those before it are not there. */
INLINE __global const int *blocks_of(__global const int *meta,
                                     __global const int *row, const uint table)
{
    __global const int *blocks = meta + META_BLOCKS;

#if WINDOW > 0
    blocks += row[ROW_FIRST_SAVE] + row[ROW_SAVES] * 2;
    return blocks + 2 + (int)table * blocks[1] - blocks[0];
#else
    return blocks + row[ROW_BLOCKS];
#endif
}
#endif

/* Returns the factor of a sum of values, whose weights have the sum `sum` and
 * the maximum 2^top; a sink adds its weight, but no value. */
INLINE float value_factor(const float top, const float sum,
                          __global const float *sink)
{
    if (sink) {
        const float s = *sink * LOG2_E, most = fmax(top, s);
        const float f = exp2_fast(top - most);

        return f / fma(sum, f, exp2_fast(s - most));
    }
    return 1.0f / sum;
}

/* A number of f16 that is not negative; h: its bits. */
INLINE float norm_of(const uint h)
{
    return (h & 0x7c00) == 0x7c00 ? NAN
                                  : as_float((h & 0x7fff) << 13) * 0x1p112f;
}

/* An f16; h: its bits. */
INLINE float half_of(const uint h)
{
    const float f = norm_of(h & 0x7fff);

    return h & 0x8000 ? -f : f;
}

INLINE float bf16_low(const uint pair)
{
    return as_float(pair << 16);
}

INLINE float bf16_high(const uint pair)
{
    return as_float(pair & 0xffff0000u);
}

/* Splits x into a sum of two bf16, exact to about 16 bits: returns the second
 * part, the remainder of the rounding. */
INLINE uint pack_rest(const uint rounded, const float low, const float high)
{
    return pack_bf16(low - bf16_low(rounded), high - bf16_high(rounded));
}

/* ---- weights, for products of few tokens ---- */

/* 16 bytes hold 8 columns of bf16, or SPAN times as many of 8 or 4 bits. */
#if defined(W_BITS) && W_BITS > 0
#define SPAN  (16 / W_BITS)
#else
#define SPAN  1
#endif
#define CHUNK (64 * SPAN) /* columns per warp at a time */

/* What a group of codes has: a scale and a bias as bf16, a float32 scale, one of
 * E8M0, or one of f16 (weights.cl). */
#if defined(W_FORMAT) && W_FORMAT == 3
typedef uchar scales_t;
#elif defined(W_FORMAT) && W_FORMAT > 3
typedef ushort scales_t;
#else
typedef uint scales_t;
#endif

/* A lane's load of one row of a chunk. */
struct load {
    uint4 v;
#if SPAN > 1
    uint pair; /* scales_t */
#endif
};

/* Returns part s of a lane's load of a row, as bf16. */
INLINE uint4 widen(const struct load *l, const uint s)
{
#if SPAN == 1
    return l->v;
#elif defined(W_FORMAT) && W_FORMAT == 3
    const uint word = s == 0 ? l->v.x : s == 1 ? l->v.y : s == 2 ? l->v.z
                                                                 : l->v.w;
    const uint scale = (l->pair ? l->pair << 7 : 0x40) * 0x10001;
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        /* Byte i of each.  The code's bits are those of a bf16 2^126 times
         * smaller; both products are exact. */
        const uint two = byte_perm(word, word >> 4, 0x4400 + i * 0x1111);
        const uint q = (two << 6 & 0x01c001c0) | (two << 12 & 0x80008000);

        r[i] = fma_bf16x2(fma_bf16x2(q, 0x7e807e80, 0), scale, 0);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#elif defined(W_FORMAT) && W_FORMAT > 1 && W_BITS == 8
    const uint words[2] = {s == 0 ? l->v.x : l->v.z, s == 0 ? l->v.y : l->v.w};
    const float scale = W_FORMAT == 2 ? as_float(l->pair) : half_of(l->pair);
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        float f[2];

        #pragma unroll
        for (uint j = 0; j < 2; j++) {
            const uint q = words[i / 2] >> (i % 2 * 2 + j) * 8 & 255;

            /* An E4M3 code has the bits of a float 2^120 times smaller. */
            f[j] = W_FORMAT == 2
                       ? as_float((q & 128) << 24 | (q & 127) << 20) * 0x1p120f
                       : as_float(0x4b000000 | q) - 8388736.0f;
            f[j] *= scale;
        }
        r[i] = pack_bf16(f[0], f[1]);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#elif W_BITS == 8
    const float scale = bf16_low(l->pair), bias = bf16_high(l->pair);
    const uint words[2] = {s == 0 ? l->v.x : l->v.z, s == 0 ? l->v.y : l->v.w};
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        float f[2];

        #pragma unroll
        for (uint j = 0; j < 2; j++) {
            /* 2^23 + q */
            f[j] = as_float(byte_perm(words[i / 2], 0x4b000000,
                                      0x7540 | (i % 2 * 2 + j)));
            f[j] = fma(f[j] - 8388608.0f, scale, bias);
        }
        r[i] = pack_bf16(f[0], f[1]);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#elif defined(W_FORMAT) && W_FORMAT == 5
    const float scale = half_of(l->pair);
    const uint word = s == 0 ? l->v.x : s == 1 ? l->v.y : s == 2 ? l->v.z
                                                                 : l->v.w;
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        const float a = as_float(0x4b000000 | (word >> i * 8 & 15));
        const float b = as_float(0x4b000000 | (word >> (i * 8 + 4) & 15));

        r[i] = pack_bf16((a - 8388616.0f) * scale, (b - 8388616.0f) * scale);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#else
    const uint scale = byte_perm(l->pair, 0, 0x1010);
    const uint bias = byte_perm(l->pair, 0, 0x3232);
    const uint word = s == 0 ? l->v.x : s == 1 ? l->v.y : s == 2 ? l->v.z
                                                                 : l->v.w;
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        /* Byte i of each; 128 + q, minus 128. */
        const uint two = byte_perm(word, word >> 4, 0x4400 + i * 0x1111);
        const uint q = (two & 0x000f000f) | 0x43004300;

        r[i] = fma_bf16x2(fma_bf16x2(q, 0x3f803f80, 0xc300c300), scale, bias);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#endif
}

/* ---- the choice of experts, see nv_route.cl ---- */

#ifdef SHARED
#define LOGITS (N_EXPERTS + (SHARED == 2))
#define KEYS   ((N_EXPERTS + 31) / 32) /* of a lane */
#ifndef ROUTED
#define ROUTED __global /* where the logits and the choice are */
#endif

INLINE float fold_lanes(float sum)
{
    #pragma unroll
    for (uint m = 16; m > 0; m /= 2) {
        sum += shfl_xor(sum, m);
    }
    return sum;
}

/* Orders floats as integers; a NaN is the least, and no float is 0. */
INLINE uint key_of(const float f)
{
    const uint bits = as_uint(f);

    return isnan(f) ? 1 : bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Returns the float of a key. */
INLINE float of_key(const uint key)
{
    return key == 1 ? NAN : as_float(key >> 31 ? key & 0x7fffffff : ~key);
}

/* Chooses with one warp, from the logits of a token.  Lane i has the keys of
 * experts i, i + 32, .. */
INLINE void choose(ROUTED uint *ids, ROUTED float *weights,
                   ROUTED const float *logits, const uint lane)
{
    uint keys[KEYS], mine = 0, mine_key = 1, top = 1;
    float p, z = 0.0f;

    #pragma unroll
    for (uint i = 0; i < KEYS; i++) {
        const uint e = lane + 32 * i;

        keys[i] = e < N_EXPERTS ? key_of(logits[e]) : 0;
    }
    /* Lane r keeps the expert of rank r. */
    #pragma unroll 1
    for (uint r = 0; r < TOP_K; r++) {
        uint key = 0, best;

        #pragma unroll
        for (uint i = 0; i < KEYS; i++) {
            key = max(key, keys[i]);
        }
        key = warp_max(key);
        best = UINT_MAX;
        #pragma unroll
        for (uint i = 0; i < KEYS; i++) {
            best = keys[i] == key ? min(best, lane + 32 * i) : best;
        }
        best = warp_min(best);
        #pragma unroll
        for (uint i = 0; i < KEYS; i++) {
            keys[i] = lane + 32 * i == best ? 0 : keys[i];
        }
        top = r == 0 ? key : top;
        if (lane == r) {
            mine = best;
            mine_key = key;
        }
    }
    p = lane < TOP_K ? exp_of(of_key(mine_key) - of_key(top)) : 0.0f;
#if TOP_K_NORMED
    z = fold_lanes(p);
#else
    for (uint e = lane; e < N_EXPERTS; e += 32) {
        z += exp_of(logits[e] - of_key(top));
    }
    z = fold_lanes(z);
#endif
    if (lane < TOP_K) {
        ids[lane] = mine;
        weights[lane] = p / z;
    }
    if (lane == 0) {
#if PAIRS > TOP_K
        ids[TOP_K] = N_EXPERTS;
#endif
        weights[TOP_K] = SHARED == 2 ? sigmoid_of(logits[LOGITS - 1]) : 1.0f;
    }
}
#endif
