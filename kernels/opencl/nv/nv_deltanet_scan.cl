/* nv_deltanet_scan.cl - the Gated DeltaNet of prompt rows, second of three
 * kernels: runs the state through the chunks of nv_deltanet_chunks.cl.
 *
 *     R = beta (V - exp(G) (K S))          [m, DV], row by row
 *     N = T R
 *     O = exp(G) (Q S) + P N               exp(G), beta: a factor for each row
 *     S = exp(G_last) S + K^T (exp(G_last - G) N)
 *
 *   v        [T, HV, DV]             f32: V, and O in its place
 *   state    of the layer: slot s is [HV, DK, DV] f32 at s * page
 *   tail     of the layer: slot s is [CONV - 1, C] kv dtype at the bytes of
 *            s * page floats: moved to the row's end
 *   kq, tp, gates                    as in nv_deltanet_chunks.cl
 *   in       [T, C + HV DV + 2 HV]   f32; only qkv is read, for the tail
 *
 * A work-group has COLS columns of a value head's state and walks its row.  The
 * state is in registers, as the fragments of the last product, and also in
 * local memory as bf16 and rest, for the first product.  A warp computes 16
 * tokens and 16 columns of K S, Q S, R, N and O, and 16 rows of S.  K of the
 * next chunk and the next Q, T and P are loaded as soon as their place is free.
 * Saves are at the ends of chunks: there, state and tail are also written to
 * the save's page.
 *
 * Launch    WG = 256; groups (HV * DV / COLS, rows)
 * Defines   DK = DV = 128; CONV 2..8
 * Needs     sm_80; state, kq, tp 16-byte aligned; 170 KiB of local memory
 * Numerics  the state stays f32; products: three products of bf16 and rest,
 *           f32 sums, within 2^-15.  Chunks end at absolute multiples of 64,
 *           so cutting a prompt there changes no bit */
#define LANES   256
#define COLS    32
#define SLICES  (DV / COLS)
#define LEN     64
#define HEADS   (HV / HK)
#define IN_LD   (C + HV * DV + 2 * HV)
#define HISTORY (CONV - 1)

/* Places in bf16 matrices in local memory, in pieces of 16 bytes, swizzled to
 * avoid bank conflicts: rows of 128, of 64 and of 32 elements. */
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

/* Returns the row's input `back` tokens before its token i. */
INLINE float before(__global const float *in, __global const kv_t *tail,
                    const int i, const int back, const uint channel)
{
    return i >= back ? kv_rounded(in[(i - back) * (long)IN_LD + channel])
                     : kv_get(tail, (ulong)(HISTORY + i - back) * C + channel);
}

/* Writes the tail after n tokens, to the same place or another. */
INLINE void move_tail(__global kv_t *to, __global const kv_t *tail,
                      __global const float *in, const int n,
                      const uint channel)
{
    for (int j = 0; j < HISTORY; j++) {
        to[(ulong)j * C + channel] =
            kv_of(before(in, tail, n, HISTORY - j, channel));
    }
}

/* Writes the tails of a row's saves, then moves that of its slot. */
INLINE void move_tails(__global kv_t *tails, const uint page,
                       __global const float *in, __global const int *meta,
                       __global const int *row, const uint channel)
{
    __global kv_t *tail = tails + (uint)row[ROW_SLOT] * kv_per(page);

    for (uint i = 0; i < (uint)row[ROW_SAVES]; i++) {
        move_tail(tails + SAVE_PAGE(meta, row, i) * kv_per(page), tail, in,
                  (int)SAVE_TOKENS(meta, row, i), channel);
    }
    move_tail(tail, tail, in, row[ROW_TOKENS], channel);
}

/* Writes a work-item's part of the state. */
INLINE void put_state(__global float *to, float (*s)[4])
{
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        *(__global float2 *)(to + 8 * j) = (float2)(s[j][0], s[j][1]);
        *(__global float2 *)(to + 8 * DV + 8 * j) = (float2)(s[j][2], s[j][3]);
    }
}

/* Loads k or q of a chunk of m tokens: bf16 to [LEN][DK], rests behind them. */
INLINE void load_128(__local uint4 *to, __global const ushort *from,
                     const uint m)
{
    const uint item = opaque(get_local_id(0));

#pragma unroll
    for (uint n = 0; n < 2 * LEN * 16 / LANES; n++) {
        const uint r = (n * LANES + item) / 32, i = (n * LANES + item) % 32;
        const uint there = r < m ? r : 0;

        copy_async(to + (i / 16) * (LEN * 16) + at_128(r, i % 16),
                   from + (ulong)there * (HK * 4 * DK) + i * 8, r < m ? 16 : 0);
    }
}

/* Loads T or P in the same way: [LEN][LEN], and rests. */
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

/* acc [2][4] += a * b, for 16 columns. */
INLINE void mma_pair(float (*acc)[4], const uint *a, const uint *b)
{
    mma_bf16(acc[0], a[0], a[1], a[2], a[3], b[0], b[1]);
    mma_bf16(acc[1], a[0], a[1], a[2], a[3], b[2], b[3]);
}

/* Fragments with their rests. */
struct split {
    uint high[4], rest[4];
};

/* Loads columns 16 n.. of rows 16 k.. of a matrix [rows][COLS], for b. */
INLINE void load_b(struct split *b, __local const uint4 *from, const uint rows,
                   const uint k, const uint n, const uint lane)
{
    __local const uint4 *at =
        from + k * 64 + at_32(lane % 16, 2 * n + lane / 16);

    ldmatrix_trans(b->high, at);
    ldmatrix_trans(b->rest, at + rows * 4);
}

/* Load columns 16 k.. of 16 rows of a [LEN][DK], or of a [LEN][LEN], for a. */
INLINE void load_128_a(struct split *a, __local const uint4 *from,
                       const uint row0, const uint k, const uint lane)
{
    __local const uint4 *at =
        from + at_128(row0 + lane % 16, 2 * k + lane / 16);

    ldmatrix(a->high, at);
    ldmatrix(a->rest, at + LEN * 16);
}

INLINE void load_64_a(struct split *a, __local const uint4 *from,
                      const uint row0, const uint k, const uint lane)
{
    __local const uint4 *at = from + at_64(row0 + lane % 16, 2 * k + lane / 16);

    ldmatrix(a->high, at);
    ldmatrix(a->rest, at + LEN * 8);
}

/* x, y [2][4] += 16 rows of k and of q (and rests) times columns 16 n.. of S
 * [DK][COLS].  Each product in this file loads the fragments of the next step
 * before it uses those of the current one. */
INLINE void times_state(float (*x)[4], float (*y)[4], __local const uint4 *k,
                        __local const uint4 *q, __local const uint4 *s,
                        const uint row0, const uint n, const uint lane)
{
    struct split a[2], c[2], b[2];

    load_128_a(&a[0], k, row0, 0, lane);
    load_128_a(&c[0], q, row0, 0, lane);
    load_b(&b[0], s, DK, 0, n, lane);
#pragma unroll
    for (uint i = 0; i < DK / 16; i++) {
        const uint now = i % 2, next = (i + 1) % 2;

        if (i + 1 < DK / 16) {
            load_128_a(&a[next], k, row0, i + 1, lane);
            load_128_a(&c[next], q, row0, i + 1, lane);
            load_b(&b[next], s, DK, i + 1, n, lane);
        }
        mma_pair(x, a[now].rest, b[now].high);
        mma_pair(y, c[now].rest, b[now].high);
        mma_pair(x, a[now].high, b[now].rest);
        mma_pair(y, c[now].high, b[now].rest);
        mma_pair(x, a[now].high, b[now].high);
        mma_pair(y, c[now].high, b[now].high);
    }
}

/* acc [2][4] += 16 rows of a [LEN][LEN] times columns 16 n.. of b [LEN][COLS].
 * Products with rests have their own sum. */
INLINE void times_chunk(float (*acc)[4], __local const uint4 *a,
                        __local const uint4 *b, const uint row0, const uint n,
                        const uint lane)
{
    struct split x[2], y[2];
    float small[2][4];

#pragma unroll
    for (uint i = 0; i < 4; i++) {
        small[0][i] = small[1][i] = 0.0f;
    }
    load_64_a(&x[0], a, row0, 0, lane);
    load_b(&y[0], b, LEN, 0, n, lane);
#pragma unroll
    for (uint i = 0; i < LEN / 16; i++) {
        const uint now = i % 2, next = (i + 1) % 2;

        if (i + 1 < LEN / 16) {
            load_64_a(&x[next], a, row0, i + 1, lane);
            load_b(&y[next], b, LEN, i + 1, n, lane);
        }
        mma_pair(small, x[now].rest, y[now].high);
        mma_pair(acc, x[now].high, y[now].high);
        mma_pair(small, x[now].high, y[now].rest);
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        acc[0][i] += small[0][i];
        acc[1][i] += small[1][i];
    }
}

/* s [4][4] += columns row0.. of k [LEN][DK], times n [LEN][COLS]. */
INLINE void add_outer(float (*s)[4], __local const uint4 *k,
                      __local const uint4 *n, const uint row0, const uint lane)
{
    __local const uint4 *at =
        k + at_128(lane % 8 + lane / 16 * 8, row0 / 8 + lane / 8 % 2);
    struct split x[2], y[2], z[2];

    ldmatrix_trans(x[0].high, at);
    ldmatrix_trans(x[0].rest, at + LEN * 16);
    load_b(&y[0], n, LEN, 0, 0, lane);
    load_b(&z[0], n, LEN, 0, 1, lane);
#pragma unroll
    for (uint i = 0; i < LEN / 16; i++) {
        const uint now = i % 2, next = (i + 1) % 2;

        if (i + 1 < LEN / 16) {
            ldmatrix_trans(x[next].high, at + (i + 1) * 256);
            ldmatrix_trans(x[next].rest, at + (i + 1) * 256 + LEN * 16);
            load_b(&y[next], n, LEN, i + 1, 0, lane);
            load_b(&z[next], n, LEN, i + 1, 1, lane);
        }
        mma_pair(s, x[now].rest, y[now].high);
        mma_pair(s + 2, x[now].rest, z[now].high);
        mma_pair(s, x[now].high, y[now].rest);
        mma_pair(s + 2, x[now].high, z[now].rest);
        mma_pair(s, x[now].high, y[now].high);
        mma_pair(s + 2, x[now].high, z[now].high);
    }
}

/* Writes two columns c.. of row r, as bf16 and rest (`rows` rows further). */
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
              const uint page, __global const ushort *kq, const ulong kq_at,
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
    const uint row0 = warp % 4 * 16; /* this warp's tokens of a chunk, */
    const uint side = warp / 4;      /* and its half of the columns */
    uint start = 0, turn = 0;
    uint save = 0, save_at = SAVE_TOKENS(meta, row, save);
    uint m = min(n, LEN - (uint)row[ROW_POSITION] % LEN);
    float s[4][4];

    v += v_at + ((ulong)first * HV + head) * DV + col0;
    kq += kq_at + ((ulong)first * HK + head / HEADS) * (4 * DK);
    tp += tp_at + ((ulong)first * HV + head) * (4 * LEN);
    gates += gates_at + ((ulong)first * HV + head) * 4;
    state += state_at + (ulong)head * (DK * DV) + (warp * 16 + g) * DV + col0 +
             c;
    load_128(k_mem[0], kq, m);
    load_128(q_mem, kq + 2 * DK, m);
    copy_commit();
    load_64(t_mem, tp, m);
    copy_commit();
    load_64(p_mem, tp + 2 * LEN, m);
    copy_commit();
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        __global const float *from = state + (ulong)slot * page + 8 * j;
        const float2 a = *(__global const float2 *)from;
        const float2 b = *(__global const float2 *)(from + 8 * DV);

        s[j][0] = a.s0;
        s[j][1] = a.s1;
        s[j][2] = b.s0;
        s[j][3] = b.s1;
    }

    for (; start < n; turn ^= 1) {
        const uint next = start + m; /* the next chunk, if there is one */
        const uint next_m = min(n - next, (uint)LEN);
        const uint t0 = row0 + g, t1 = t0 + 8; /* this work-item's tokens */
        __global float *v0 =
            v + (ulong)(start + t0) * (HV * DV) + side * 16 + c;
        __global float *v1 = v0 + 8 * (HV * DV);
        float4 g0 = 0.0f, g1 = 0.0f;
        float x[2][4], y[2][4], r[2][4], vs[2][4], all;

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
        for (uint j = 0; j < 2; j++) {
            float2 a = 0.0f, b = 0.0f;

            if (t0 < m) {
                a = *(__global const float2 *)(v0 + 8 * j);
            }
            if (t1 < m) {
                b = *(__global const float2 *)(v1 + 8 * j);
            }
            vs[j][0] = a.s0;
            vs[j][1] = a.s1;
            vs[j][2] = b.s0;
            vs[j][3] = b.s1;
            x[j][0] = x[j][1] = x[j][2] = x[j][3] = 0.0f;
            y[j][0] = y[j][1] = y[j][2] = y[j][3] = 0.0f;
            r[j][0] = r[j][1] = r[j][2] = r[j][3] = 0.0f;
        }
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            put(s_mem, DK, warp * 16 + g, 8 * j + c, s[j][0], s[j][1]);
            put(s_mem, DK, warp * 16 + g + 8, 8 * j + c, s[j][2], s[j][3]);
        }
        copy_wait(2);
        barrier(CLK_LOCAL_MEM_FENCE);
        /* K S and Q S; R. */
        times_state(x, y, k_mem[turn], q_mem, s_mem, row0, side, lane);
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            const uint col = side * 16 + 8 * j + c;

            put(r_mem, LEN, t0, col, g0.s0 * (vs[j][0] - g0.s1 * x[j][0]),
                g0.s0 * (vs[j][1] - g0.s1 * x[j][1]));
            put(r_mem, LEN, t1, col, g1.s0 * (vs[j][2] - g1.s1 * x[j][2]),
                g1.s0 * (vs[j][3] - g1.s1 * x[j][3]));
        }
        copy_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < n) {
            load_128(k_mem[turn ^ 1], kq + (ulong)next * (HK * 4 * DK), next_m);
            load_128(q_mem, kq + (ulong)next * (HK * 4 * DK) + 2 * DK, next_m);
        }
        copy_commit();
        /* N, and N as it is added to the state. */
        times_chunk(r, t_mem, r_mem, row0, side, lane);
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            const uint col = side * 16 + 8 * j + c;

            put(n_mem, LEN, t0, col, r[j][0], r[j][1]);
            put(n_mem, LEN, t1, col, r[j][2], r[j][3]);
            put(d_mem, LEN, t0, col, g0.s2 * r[j][0], g0.s2 * r[j][1]);
            put(d_mem, LEN, t1, col, g1.s2 * r[j][2], g1.s2 * r[j][3]);
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
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            y[j][0] *= g0.s1;
            y[j][1] *= g0.s1;
            y[j][2] *= g1.s1;
            y[j][3] *= g1.s1;
        }
        times_chunk(y, p_mem, n_mem, row0, side, lane);
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            if (t0 < m) {
                *(__global float2 *)(v0 + 8 * j) = (float2)(y[j][0], y[j][1]);
            }
            if (t1 < m) {
                *(__global float2 *)(v1 + 8 * j) = (float2)(y[j][2], y[j][3]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < n) {
            load_64(p_mem, tp + (ulong)next * (HV * 4 * LEN) + 2 * LEN, next_m);
        }
        copy_commit();
        if (next == save_at) {
            put_state(state + SAVE_PAGE(meta, row, save) * page, s);
            save++;
            save_at = SAVE_TOKENS(meta, row, save);
        }
        start = next;
        m = next_m;
    }
    put_state(state + (ulong)slot * page, s);
    copy_wait(0);

    tail += tail_at;
    in += in_at + (ulong)first * IN_LD;
    if (item < COLS) {
        move_tails(tail, page, in, meta, row,
                   2 * HK * DK + head * DV + col0 + item);
    }
    if (head % HEADS == 0 && item < 2 * DK / SLICES) {
        const uint i = get_group_id(0) % SLICES * (2 * DK / SLICES) + item;

        move_tails(tail, page, in, meta, row,
                   i / DK * (HK * DK) + head / HEADS * DK + i % DK);
    }
}
