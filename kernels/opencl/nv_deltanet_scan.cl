/* nv_deltanet_scan.cl
 *
 * The Gated DeltaNet of prompt rows, second of three: chunk after chunk
 * through the state, from what nv_deltanet_chunks.cl left.
 *
 *     R = beta (V - exp(G) (K S))          [m, DV], row by row
 *     N = T R
 *     O = exp(G) (Q S) + P N               exp(G), beta: a factor for each row
 *     S = exp(G_last) S + K^T (exp(G_last - G) N)
 *
 *   v        [T, HV, DV]             f32: V, and O in its place
 *   state    [slots, HV, DK, DV]     f32
 *   tail     [slots, CONV - 1, C]    kv dtype: moved to the row's end
 *   kq, tp, gates                    as nv_deltanet_chunks.cl
 *   in       [T, C + HV DV + 2 HV]   f32: of it qkv, for the tail
 *
 * A work-group has COLS columns of a value head's state and walks its row.
 * The state is in registers, as the fragments of the last product, and once
 * more in local memory as bf16 and rest, for the first. Warps 0-3 compute
 * K S and R, warps 4-7 Q S and O, all of them N and S.  K of the next chunk
 * and the next Q, T and P come in as soon as their place is free.
 *
 * Launch    WG = 256; groups (HV * DV / COLS, rows)
 * Defines   DK = DV = 128; CONV 2..8
 * Needs     sm_80; state, kq, tp 16-byte aligned; 170 KiB of local memory
 * Numerics  the state stays f32; products: three of bf16 and rest, f32 sums,
 *           within 2^-15.  Chunks end at absolute multiples of 64, so a
 *           prompt may be cut there without a trace */
#define LANES   256
#define COLS    32
#define SLICES  (DV / COLS)
#define LEN     64
#define HEADS   (HV / HK)
#define IN_LD   (C + HV * DV + 2 * HV)
#define HISTORY (CONV - 1)

/* Matrices of bf16 in local memory, in pieces of 16 bytes, turned over for
 * the banks: rows of 128, of 64 and of 32. */
INLINE uint at_128(const uint r, const uint i)
{
    return r * 16 + (i ^ (r & 7));
}

INLINE uint at_64(const uint r, const uint i)
{
    return r * 8 + (i ^ (r & 7));
}

INLINE uint at_32(const uint r, const uint i)
{
    return r * 4 + (i ^ (r >> 1 & 3));
}

/* What the row had `back` tokens before its token i. */
INLINE float before(__global const float *in, __global const kv_t *tail,
                    const int i, const int back, const uint channel)
{
    return i >= back ? kv_rounded(in[(i - back) * (long)IN_LD + channel])
                     : kv_get(tail, (ulong)(HISTORY + i - back) * C + channel);
}

INLINE void move_tail(__global kv_t *tail, __global const float *in,
                      const int n, const uint channel)
{
    for (int j = 0; j < HISTORY; j++) {
        tail[(ulong)j * C + channel] =
            kv_of(before(in, tail, n, HISTORY - j, channel));
    }
}

/* k or q of a chunk of m tokens: bf16 to [LEN][DK], rests behind them. */
INLINE void load_128(__local uint4 *to, __global const ushort *from,
                     const uint m)
{
    const uint item = opaque(get_local_id(0));

#pragma unroll
    for (uint n = 0; n < 2 * LEN * 16 / LANES; n++) {
        const uint r = (n * LANES + item) / 32, i = (n * LANES + item) % 32;
        const uint there = r < m ? r : 0;

        copy_async(to + (i / 16) * (LEN * 16) + at_128(r, i % 16),
                   from + (ulong)there * (HK * 4 * DK) + i * 8,
                   r < m ? 16 : 0);
    }
}

/* T or P likewise: [LEN][LEN], and rests. */
INLINE void load_64(__local uint4 *to, __global const ushort *from,
                    const uint m)
{
    const uint item = opaque(get_local_id(0));

#pragma unroll
    for (uint n = 0; n < 2 * LEN * 8 / LANES; n++) {
        const uint r = (n * LANES + item) / 16, i = (n * LANES + item) % 16;
        const uint there = r < m ? r : 0;

        copy_async(to + (i / 8) * (LEN * 8) + at_64(r, i % 8),
                   from + (ulong)there * (HV * 4 * LEN) + i * 8,
                   r < m ? 16 : 0);
    }
}

/* acc [2][4] += a * b, 16 columns: the products of bf16 with rests first. */
INLINE void mma_split(float (*acc)[4], const uint *a, const uint *ar,
                      const uint *b, const uint *br)
{
#pragma unroll
    for (uint h = 0; h < 2; h++) {
        mma_bf16(acc[h], ar[0], ar[1], ar[2], ar[3], b[2 * h], b[2 * h + 1]);
        mma_bf16(acc[h], a[0], a[1], a[2], a[3], br[2 * h], br[2 * h + 1]);
        mma_bf16(acc[h], a[0], a[1], a[2], a[3], b[2 * h], b[2 * h + 1]);
    }
}

/* Columns 16 n.. of rows 16 k.. of a matrix [..][COLS], for b. */
INLINE void load_b(uint *b, __local const uint4 *from, const uint k,
                   const uint n, const uint lane)
{
    ldmatrix_trans(b, from + at_32(16 * k + lane % 16, 2 * n + lane / 16));
}

/* acc [4][4] += rows of a [LEN][DK] (and rests) times S [DK][COLS]. */
INLINE void times_state(float (*acc)[4], __local const uint4 *a,
                        __local const uint4 *s, const uint row0,
                        const uint lane)
{
#pragma unroll
    for (uint k = 0; k < DK / 16; k++) {
        uint x[4], xr[4], b[4], br[4];

        ldmatrix(x, a + at_128(row0 + lane % 16, 2 * k + lane / 16));
        ldmatrix(xr, a + LEN * 16 +
                         at_128(row0 + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (uint n = 0; n < COLS / 16; n++) {
            load_b(b, s, k, n, lane);
            load_b(br, s + DK * 4, k, n, lane);
            mma_split(acc + 2 * n, x, xr, b, br);
        }
    }
}

/* acc [2][4] += rows of a [LEN][LEN] times columns 16 n.. of b [LEN][COLS]. */
INLINE void times_chunk(float (*acc)[4], __local const uint4 *a,
                        __local const uint4 *b, const uint row0, const uint n,
                        const uint lane)
{
#pragma unroll
    for (uint k = 0; k < LEN / 16; k++) {
        uint x[4], xr[4], y[4], yr[4];

        ldmatrix(x, a + at_64(row0 + lane % 16, 2 * k + lane / 16));
        ldmatrix(xr, a + LEN * 8 +
                         at_64(row0 + lane % 16, 2 * k + lane / 16));
        load_b(y, b, k, n, lane);
        load_b(yr, b + LEN * 4, k, n, lane);
        mma_split(acc, x, xr, y, yr);
    }
}

/* s [4][4] += columns row0.. of k [LEN][DK], times n [LEN][COLS]. */
INLINE void add_outer(float (*s)[4], __local const uint4 *k,
                      __local const uint4 *n, const uint row0,
                      const uint lane)
{
#pragma unroll
    for (uint t = 0; t < LEN / 16; t++) {
        const uint r = 16 * t + lane % 8 + lane / 16 * 8;
        const uint i = row0 / 8 + lane / 8 % 2;
        uint x[4], xr[4], y[4], yr[4];

        ldmatrix_trans(x, k + at_128(r, i));
        ldmatrix_trans(xr, k + LEN * 16 + at_128(r, i));
#pragma unroll
        for (uint j = 0; j < COLS / 16; j++) {
            load_b(y, n, t, j, lane);
            load_b(yr, n + LEN * 4, t, j, lane);
            mma_split(s + 2 * j, x, xr, y, yr);
        }
    }
}

/* Two columns c.. of row r, as bf16 and rest (`rows` rows further). */
INLINE void put(__local uint4 *to, const uint rows, const uint r, const uint c,
                const float x, const float y)
{
    const uint high = pack_bf16(x, y);
    __local uint *at = (__local uint *)(to + at_32(r, c / 8)) + c % 8 / 2;

    at[0] = high;
    at[rows * 16] = pack_rest(high, x, y);
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_scan(__global float *v, const ulong v_at, __global float *state,
              const ulong state_at, __global kv_t *tail, const ulong tail_at,
              __global const ushort *kq, const ulong kq_at,
              __global const ushort *tp, const ulong tp_at,
              __global const float *gates, const ulong gates_at,
              __global const float *in, const ulong in_at,
              __global const int *meta, const uint first_row)
{
    __local uint4 k_mem[2][2 * LEN * 16], q_mem[2 * LEN * 16];
    __local uint4 t_mem[2 * LEN * 8], p_mem[2 * LEN * 8];
    __local uint4 s_mem[2 * DK * 4], r_mem[2 * LEN * 4];
    __local uint4 n_mem[2 * LEN * 4], d_mem[2 * LEN * 4];
    const uint item = get_local_id(0), lane = item % 32, warp = item / 32;
    const uint g = lane / 4, c = lane % 4 * 2;
    const uint head = get_group_id(0) / SLICES;
    const uint col0 = get_group_id(0) % SLICES * COLS;
    __global const int *row = ROW(meta, first_row + get_group_id(1));
    const uint first = (uint)row[ROW_FIRST], n = (uint)row[ROW_TOKENS];
    const uint slot = (uint)row[ROW_SLOT];
    const uint row0 = warp % 4 * 16; /* of the chunk's tokens */
    uint start = 0, turn = 0;
    uint m = min(n, LEN - (uint)row[ROW_POSITION] % LEN);
    float s[4][4];

    v += v_at + ((ulong)first * HV + head) * DV + col0;
    kq += kq_at + ((ulong)first * HK + head / HEADS) * (4 * DK);
    tp += tp_at + ((ulong)first * HV + head) * (4 * LEN);
    gates += gates_at + ((ulong)first * HV + head) * 4;
    state += state_at + ((ulong)slot * HV + head) * (DK * DV) +
             (warp * 16 + g) * DV + col0 + c;
    load_128(k_mem[0], kq, m);
    load_128(q_mem, kq + 2 * DK, m);
    copy_commit();
    load_64(t_mem, tp, m);
    copy_commit();
    load_64(p_mem, tp + 2 * LEN, m);
    copy_commit();
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        const float2 a = *(__global const float2 *)(state + 8 * j);
        const float2 b = *(__global const float2 *)(state + 8 * DV + 8 * j);

        s[j][0] = a.s0;
        s[j][1] = a.s1;
        s[j][2] = b.s0;
        s[j][3] = b.s1;
    }

    for (; start < n; turn ^= 1) {
        const uint next = start + m; /* the next chunk, if there is one */
        const uint next_m = min(n - next, (uint)LEN);
        const uint t0 = row0 + g, t1 = t0 + 8; /* this item's tokens */
        __global float *v0 = v + (ulong)(start + t0) * (HV * DV) + c;
        __global float *v1 = v0 + 8 * (HV * DV);
        float4 g0 = 0.0f, g1 = 0.0f;
        float x[4][4], y[2][4], vs[4][4], all;

        all = gates[(ulong)start * (HV * 4) + 3];
        if (t0 < m) {
            g0 = *(__global const float4 *)(gates +
                                            (ulong)(start + t0) * (HV * 4));
        }
        if (t1 < m) {
            g1 = *(__global const float4 *)(gates +
                                            (ulong)(start + t1) * (HV * 4));
        }
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            float2 a = 0.0f, b = 0.0f;

            if (warp < 4 && t0 < m) {
                a = *(__global const float2 *)(v0 + 8 * j);
            }
            if (warp < 4 && t1 < m) {
                b = *(__global const float2 *)(v1 + 8 * j);
            }
            vs[j][0] = a.s0;
            vs[j][1] = a.s1;
            vs[j][2] = b.s0;
            vs[j][3] = b.s1;
            x[j][0] = x[j][1] = x[j][2] = x[j][3] = 0.0f;
            put(s_mem, DK, warp * 16 + g, 8 * j + c, s[j][0], s[j][1]);
            put(s_mem, DK, warp * 16 + g + 8, 8 * j + c, s[j][2], s[j][3]);
        }
        copy_wait(2);
        barrier(CLK_LOCAL_MEM_FENCE);
        /* K S, and R; or Q S. */
        times_state(x, warp < 4 ? k_mem[turn] : q_mem, s_mem, row0, lane);
        if (warp < 4) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                put(r_mem, LEN, t0, 8 * j + c,
                    g0.s0 * (vs[j][0] - g0.s1 * x[j][0]),
                    g0.s0 * (vs[j][1] - g0.s1 * x[j][1]));
                put(r_mem, LEN, t1, 8 * j + c,
                    g1.s0 * (vs[j][2] - g1.s1 * x[j][2]),
                    g1.s0 * (vs[j][3] - g1.s1 * x[j][3]));
            }
        }
        copy_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < n) {
            load_128(k_mem[turn ^ 1], kq + (ulong)next * (HK * 4 * DK),
                     next_m);
            load_128(q_mem, kq + (ulong)next * (HK * 4 * DK) + 2 * DK, next_m);
        }
        copy_commit();
        /* N, and N as it enters the state. */
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            y[j][0] = y[j][1] = y[j][2] = y[j][3] = 0.0f;
        }
        times_chunk(y, t_mem, r_mem, row0, warp / 4, lane);
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            const uint col = warp / 4 * 16 + 8 * j + c;

            put(n_mem, LEN, t0, col, y[j][0], y[j][1]);
            put(n_mem, LEN, t1, col, y[j][2], y[j][3]);
            put(d_mem, LEN, t0, col, g0.s2 * y[j][0], g0.s2 * y[j][1]);
            put(d_mem, LEN, t1, col, g1.s2 * y[j][2], g1.s2 * y[j][3]);
        }
        copy_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < n) {
            load_64(t_mem, tp + (ulong)next * (HV * 4 * LEN), next_m);
        }
        copy_commit();
        /* S; and O. */
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            s[j][0] *= all;
            s[j][1] *= all;
            s[j][2] *= all;
            s[j][3] *= all;
        }
        add_outer(s, k_mem[turn], d_mem, warp * 16, lane);
        if (warp >= 4) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                x[j][0] *= g0.s1;
                x[j][1] *= g0.s1;
                x[j][2] *= g1.s1;
                x[j][3] *= g1.s1;
            }
            times_chunk(x, p_mem, n_mem, row0, 0, lane);
            times_chunk(x + 2, p_mem, n_mem, row0, 1, lane);
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                if (t0 < m) {
                    *(__global float2 *)(v0 + 8 * j) =
                        (float2)(x[j][0], x[j][1]);
                }
                if (t1 < m) {
                    *(__global float2 *)(v1 + 8 * j) =
                        (float2)(x[j][2], x[j][3]);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < n) {
            load_64(p_mem, tp + (ulong)next * (HV * 4 * LEN) + 2 * LEN,
                    next_m);
        }
        copy_commit();
        start = next;
        m = next_m;
    }
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        *(__global float2 *)(state + 8 * j) = (float2)(s[j][0], s[j][1]);
        *(__global float2 *)(state + 8 * DV + 8 * j) =
            (float2)(s[j][2], s[j][3]);
    }
    copy_wait(0);

    tail += tail_at + (ulong)slot * HISTORY * C;
    in += in_at + (ulong)first * IN_LD;
    if (item < COLS) {
        move_tail(tail, in, (int)n, 2 * HK * DK + head * DV + col0 + item);
    }
    if (head % HEADS == 0 && item < 2 * DK / SLICES) {
        const uint i = get_group_id(0) % SLICES * (2 * DK / SLICES) + item;

        move_tail(tail, in, (int)n,
                  i / DK * (HK * DK) + head / HEADS * DK + i % DK);
    }
}
