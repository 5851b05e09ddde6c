/* nv_deltanet_chunks.cl - the Gated DeltaNet of prompt rows, first of three
 * kernels: everything that needs no state.
 *
 * A row is cut into chunks of up to 64 tokens, which end at absolute multiples
 * of 64 or at the row's end.  For each chunk, its tokens i, j, and each head:
 *
 *     c, q, k, beta, g as in nv_deltanet_decode.cl;  v = c_v
 *     G_i  = sum_{m <= i} log g_m
 *     A_ij = -beta_i (k_i . k_j) exp(G_i - G_j)     j < i, else 0
 *     T    = (1 - A)^-1                             by forward substitution
 *     P_ij = (q_i . k_j) exp(G_i - G_j)             j <= i, else 0
 *
 *   kq       [T, HK, 4, DK]   bf16: k, its rest, q, its rest.  A number is
 *                             the sum of its bf16 and the rest: 16 bits
 *   v        [T, HV, DV]      f32
 *   tp       [T, HV, 4, 64]   bf16: row i of T, its rest, row i of P, its rest
 *   gates    [T, HV, 4]       f32: beta_i, exp(G_i), exp(G_last - G_i),
 *                             exp(G_last)
 *   in       [T, C + HV DV + 2 HV]   f32: qkv, z, b, a
 *   tail     of the layer: slot s is [CONV - 1, C] kv dtype at the bytes of
 *            s * page floats; read
 *   conv     [C, CONV], a_log, dt_bias [HV]   f32
 *
 * A work-group has a chunk and a key head, with the value heads of that key
 * head.  Each work-item convolves one channel.  Then k and q are in local
 * memory as bf16 and rest, and one product [k; q] k^T serves A and P.  Each
 * work-item solves one column of T, in registers.
 *
 * Launch    WG = 256; groups (HK, chunks, rows), chunks the most of a row:
 *           (position % 64 + n_tokens + 63) / 64.  APART: (2 HK, chunks, rows),
 *           where the second HK work-groups convolve the value heads
 * Defines   DK = DV = 128; CONV 2..8.  For launches of few work-groups, which
 *           wait for memory: APART 1, else 0; AHEAD 8, 16 or 32, tokens loaded
 *           ahead of their use.  Neither changes any bit
 * Needs     sm_80; kq and tp 16-byte aligned; 100 KiB of local memory
 * Numerics  convolution, norms, gates and T in f32, G in double; products of
 *           k and q: three products of bf16 and rest, f32 sums, within 2^-15 */
#define LANES   256
#define LEN     64
#define HEADS   (HV / HK)
#define IN_LD   (C + HV * DV + 2 * HV)
#define HISTORY (CONV - 1)
#define L2_EPS  1e-6f
#define WIDE    (DK / 4) /* 16-byte pieces of a row of DK floats */
#define A_LD    (LEN + 4)

/* Returns the convolution's input `back` tokens before token i of the row. */
INLINE float before(__global const float *in, __global const kv_t *tail,
                    const int i, const int back, const uint channel)
{
    return i >= back ? kv_rounded(in[(i - back) * (long)IN_LD + channel])
                     : kv_get(tail, (ulong)(HISTORY + i - back) * C + channel);
}

/* Loads the weights w [CONV] of a channel, and in x [CONV] the inputs before
 * token `start` of the row. */
INLINE void start_channel(float *w, float *x, __global const float *in,
                          __global const kv_t *tail, __global const float *conv,
                          const uint start, const uint channel)
{
#pragma unroll
    for (int j = 0; j < CONV; j++) {
        w[j] = conv[(ulong)channel * CONV + j];
    }
#pragma unroll
    for (int j = 0; j < HISTORY; j++) {
        x[j] = before(in, tail, (int)start, HISTORY - j, channel);
    }
}

/* Convolves the next AHEAD tokens, of which n exist; in: the channel's
 * input. */
INLINE void convolve(float *out, float *x, const float *w,
                     __global const float *in, const uint n)
{
    float raw[AHEAD];

#pragma unroll
    for (uint i = 0; i < AHEAD; i++) {
        raw[i] = in[(long)min(i, n - 1) * IN_LD];
    }
#pragma unroll
    for (uint i = 0; i < AHEAD; i++) {
        float sum = 0.0f;

        x[HISTORY] = raw[i];
#pragma unroll
        for (uint j = 0; j < CONV; j++) {
            sum = fma(w[j], x[j], sum);
        }
#pragma unroll
        for (uint j = 0; j + 1 < HISTORY; j++) {
            x[j] = x[j + 1];
        }
        x[HISTORY - 1] = kv_rounded(raw[i]);
        out[i] = silu_of(sum);
    }
}

INLINE float warp_sum(float x)
{
    x += shfl_xor(x, 16);
    x += shfl_xor(x, 8);
    x += shfl_xor(x, 4);
    x += shfl_xor(x, 2);
    return x + shfl_xor(x, 1);
}

/* Place of piece i of row r: 16 bytes, swizzled to avoid bank conflicts.  A row
 * holds DK floats first, then DK bf16 and their rests, at pieces 0.. and WIDE /
 * 2... */
INLINE uint piece_at(const uint r, const uint i)
{
    return r * WIDE + (i ^ (r & 7));
}

/* Normalises row r of the stack [k; q] to length 1, splits it into bf16 and
 * rest, and stores it; by one warp. */
INLINE void split_row(__local uint4 *stack, __global ushort *out, const uint r,
                      const bool there, const uint lane)
{
    __local float *row = (__local float *)(stack + r * WIDE);
    float4 x = *(__local const float4 *)(row + 4 * lane);
    const float sum =
        warp_sum(fma(x.s0, x.s0, x.s1 * x.s1) + fma(x.s2, x.s2, x.s3 * x.s3));
    uint2 high, rest;

    x *= 1.0f / sqrt(sum + L2_EPS);
    if (r >= LEN) {
        x *= 1.0f / sqrt((float)DK);
    }
    high = (uint2)(pack_bf16(x.s0, x.s1), pack_bf16(x.s2, x.s3));
    rest =
        (uint2)(pack_rest(high.s0, x.s0, x.s1), pack_rest(high.s1, x.s2, x.s3));
    warp_sync(); /* all lanes have read the floats */
    *((__local uint2 *)(stack + piece_at(r, lane / 2)) + lane % 2) = high;
    *((__local uint2 *)(stack + piece_at(r, WIDE / 2 + lane / 2)) + lane % 2) =
        rest;
    if (there) {
        *(__global uint2 *)(out + 4 * lane) = high;
        *(__global uint2 *)(out + DK + 4 * lane) = rest;
    }
}

/* acc [LEN / 8][4] = 16 rows of the stack from row0, times k^T. */
INLINE void gram(float (*acc)[4], __local const uint4 *stack, const uint row0,
                 const uint lane)
{
#pragma unroll
    for (uint n = 0; n < LEN / 8; n++) {
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0.0f;
    }
#pragma unroll 2
    for (uint d = 0; d < DK / 16; d++) {
        const uint ra = row0 + lane % 16, ia = 2 * d + lane / 16;
        const uint rb = lane % 8 + lane / 16 * 8, ib = 2 * d + lane / 8 % 2;
        uint a[4], ar[4], b[LEN / 16][4], br[LEN / 16][4];

        ldmatrix(a, stack + piece_at(ra, ia));
        ldmatrix(ar, stack + piece_at(ra, ia + WIDE / 2));
#pragma unroll
        for (uint n = 0; n < LEN / 16; n++) {
            ldmatrix(b[n], stack + piece_at(rb + 16 * n, ib));
            ldmatrix(br[n], stack + piece_at(rb + 16 * n, ib + WIDE / 2));
        }
#pragma unroll
        for (uint n = 0; n < LEN / 8; n++) {
            mma_bf16(acc[n], ar[0], ar[1], ar[2], ar[3], b[n / 2][n % 2 * 2],
                     b[n / 2][n % 2 * 2 + 1]);
        }
#pragma unroll
        for (uint n = 0; n < LEN / 8; n++) {
            mma_bf16(acc[n], a[0], a[1], a[2], a[3], br[n / 2][n % 2 * 2],
                     br[n / 2][n % 2 * 2 + 1]);
        }
#pragma unroll
        for (uint n = 0; n < LEN / 8; n++) {
            mma_bf16(acc[n], a[0], a[1], a[2], a[3], b[n / 2][n % 2 * 2],
                     b[n / 2][n % 2 * 2 + 1]);
        }
    }
}

/* exp(G_i - G_j) for j <= i. */
INLINE float decay_between(__local const double *sum, const uint i,
                           const uint j)
{
    return j <= i ? exp((float)(sum[i] - sum[j])) : 0.0f;
}

/* Makes A of one head, from the fragments of k k^T. */
INLINE void make_a(__local float *a, float (*acc)[4], __local const double *sum,
                   __local const float *beta, const uint row0, const uint lane)
{
#pragma unroll
    for (uint n = 0; n < LEN / 8; n++) {
#pragma unroll
        for (uint e = 0; e < 4; e++) {
            const uint i = row0 + lane / 4 + e / 2 * 8;
            const uint j = n * 8 + lane % 4 * 2 + e % 2;

            a[i * A_LD + j] =
                j < i ? -beta[i] * acc[n][e] * decay_between(sum, i, j) : 0.0f;
        }
    }
}

/* Writes P of one head, from the fragments of q k^T, to tp of the chunk's first
 * token. */
INLINE void make_p(__global ushort *tp, float (*acc)[4],
                   __local const double *sum, const uint row0, const uint m,
                   const uint lane)
{
#pragma unroll
    for (uint n = 0; n < LEN / 8; n++) {
#pragma unroll
        for (uint h = 0; h < 2; h++) {
            const uint i = row0 + lane / 4 + 8 * h, j = n * 8 + lane % 4 * 2;
            const float x = acc[n][2 * h] * decay_between(sum, i, j);
            const float y = acc[n][2 * h + 1] * decay_between(sum, i, j + 1);
            const uint high = pack_bf16(x, y);
            __global ushort *to = tp + (ulong)i * (HV * 4 * LEN) + 2 * LEN + j;

            if (i < m) {
                *(__global uint *)to = high;
                *(__global uint *)(to + LEN) = pack_rest(high, x, y);
            }
        }
    }
}

/* Solves for column j of T = (1 - A)^-1. */
INLINE void solve(__global ushort *tp, __local const float *a, const uint j,
                  const uint m)
{
    float x[LEN];

#pragma unroll
    for (uint i = 0; i < LEN; i++) {
        float part[4] = {i == j ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
        uint high;

#pragma unroll
        for (uint k = 0; k < i; k += 4) {
            const float4 row = *(__local const float4 *)(a + i * A_LD + k);

            part[0] = fma(row.s0, x[k], part[0]);
            part[1] = k + 1 < i ? fma(row.s1, x[k + 1], part[1]) : part[1];
            part[2] = k + 2 < i ? fma(row.s2, x[k + 2], part[2]) : part[2];
            part[3] = k + 3 < i ? fma(row.s3, x[k + 3], part[3]) : part[3];
        }
        x[i] = (part[0] + part[1]) + (part[2] + part[3]);
        high = pack_bf16(x[i], 0.0f);
        if (i < m) {
            tp[j] = (ushort)high;
            tp[LEN + j] = (ushort)pack_rest(high, x[i], 0.0f);
            tp += HV * 4 * LEN;
        }
    }
}

/* Computes the gates of one head, with LEN work-items, one for each token i.
 * beta [LEN] and the logs of the decays [LEN] go to local memory. */
INLINE void log_gates(__local float *beta, __local float *logs,
                      __global const float *ba, const float a_log,
                      const float dt_bias, const uint i, const uint m)
{
    float x = 0.0f, b = 0.0f;

    if (i < m) {
        const float a = ba[(ulong)i * IN_LD + HV] + dt_bias;

        x = -exp(a_log) * (a > 20.0f ? a : log1p(exp(a)));
        b = sigmoid_of(ba[(ulong)i * IN_LD]);
    }
    beta[i] = b;
    logs[i] = x;
}

INLINE void sum_gates(__global float *out, __local double *sum,
                      __local const float *beta, __local const float *logs,
                      const uint i, const uint m)
{
    double until = 0.0, all = 0.0;

    for (uint j = 0; j < LEN; j++) {
        all += (double)logs[j];
        until = j <= i ? all : until;
    }
    sum[i] = until;
    if (i < m) {
        *(__global float4 *)(out + (ulong)i * HV * 4) =
            (float4)(beta[i], exp((float)until), exp((float)(all - until)),
                     exp((float)all));
    }
}

/* Convolves the value heads of a key head. */
INLINE void convolve_values(__global float *v, __global const float *in,
                            __global const kv_t *tail,
                            __global const float *conv, const uint key_head,
                            const uint token, const uint start, const uint m)
{
    const uint side = get_local_id(0) / 128, channel = get_local_id(0) % 128;

    for (uint h = side; h < HEADS; h += 2) {
        const uint head = key_head * HEADS + h;
        const uint from = 2 * HK * DK + head * DV + channel;
        __global float *to =
            v + ((ulong)token * HV + head) * DV + channel;
        float w[CONV], x[CONV], out[AHEAD];

        start_channel(w, x, in, tail, conv, start, from);
        for (uint i = 0; i < m; i += AHEAD) {
            convolve(out, x, w, in + (ulong)(start + i) * IN_LD + from, m - i);
#pragma unroll
            for (uint j = 0; j < AHEAD; j++) {
                if (i + j < m) {
                    to[(ulong)(i + j) * (HV * DV)] = out[j];
                }
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_chunks(__global ushort *kq, const ulong kq_at, __global float *v,
                const ulong v_at, __global ushort *tp, const ulong tp_at,
                __global float *gates, const ulong gates_at,
                __global const float *in, const ulong in_at,
                __global const kv_t *tail, const ulong tail_at,
                const uint page, __global const float *conv,
                const ulong conv_at,
                __global const float *a_log, const ulong a_log_at,
                __global const float *dt_bias, const ulong dt_bias_at,
                __global const int *meta, const uint first_row)
{
    __local uint4 stack[2 * LEN * WIDE];
    __local float a[2][LEN * A_LD] __attribute__((aligned(16)));
    __local float beta[2][LEN], logs[2][LEN];
    __local double sum[2][LEN];
    const uint item = get_local_id(0), lane = item % 32, warp = item / 32;
    const uint key_head = get_group_id(0) % HK;
    __global const int *row = ROW(meta, first_row + get_group_id(2));
    const uint position = (uint)row[ROW_POSITION], n = (uint)row[ROW_TOKENS];
    const uint begin = get_group_id(1) * LEN; /* past the chunk's multiple of
                                               * LEN */
    const uint skip = position % LEN;
    const uint start = begin > skip ? begin - skip : 0;
    float acc[LEN / 8][4];

    if (start >= n) {
        return;
    }
    const uint m = min(n - start, begin + LEN - skip - start);
    const uint token = (uint)row[ROW_FIRST] + start;
    const uint side = item / 128, channel = item % 128; /* k or q */

    in += in_at + (ulong)row[ROW_FIRST] * IN_LD;
    tail += tail_at + (uint)row[ROW_SLOT] * kv_per(page);
    conv += conv_at;
#if APART
    if (get_group_id(0) >= HK) {
        convolve_values(v + v_at, in, tail, conv, key_head, token, start, m);
        return;
    }
#endif
    kq += kq_at + ((ulong)token * HK + key_head) * (4 * DK);
    tp += tp_at + (ulong)token * (HV * 4 * LEN);
    gates += gates_at + (ulong)token * (HV * 4);
    {
        const uint from = (side ? 0 : HK * DK) + key_head * DK + channel;
        __local float *to =
            (__local float *)(stack + side * LEN * WIDE) + channel;
        float w[CONV], x[CONV], out[AHEAD];

        start_channel(w, x, in, tail, conv, start, from);
        for (uint i = 0; i < LEN; i += AHEAD) {
            if (i < m) {
                convolve(out, x, w, in + (ulong)(start + i) * IN_LD + from,
                         m - i);
            }
#pragma unroll
            for (uint j = 0; j < AHEAD; j++) {
                to[(i + j) * DK] = i + j < m ? out[j] : 0.0f;
            }
        }
    }
#if !APART
    convolve_values(v + v_at, in, tail, conv, key_head, token, start, m);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint r = warp * 16; r < warp * 16 + 16; r++) {
        split_row(stack,
                  kq + (ulong)(r % LEN) * (HK * 4 * DK) + r / LEN * (2 * DK), r,
                  r % LEN < m, lane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    gram(acc, stack, warp * 16, lane);

    for (uint h0 = 0; h0 < HEADS; h0 += 2) {
        const uint heads = min((uint)HEADS - h0, 2u);
        const uint mine = item / LEN, i = item % LEN;
        const uint head = key_head * HEADS + h0 + mine;

        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine < heads) {
            log_gates(beta[mine], logs[mine],
                      in + (ulong)start * IN_LD + C + HV * DV + head,
                      a_log[a_log_at + head], dt_bias[dt_bias_at + head], i, m);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine < heads) {
            sum_gates(gates + head * 4, sum[mine], beta[mine], logs[mine], i,
                      m);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint h = 0; h < heads; h++) {
            if (warp < 4) {
                make_a(a[h], acc, sum[h], beta[h], warp * 16, lane);
            } else {
                make_p(tp + (key_head * HEADS + h0 + h) * (4 * LEN), acc,
                       sum[h], warp * 16 - LEN, m, lane);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine < heads) {
            solve(tp + head * (4 * LEN), a[mine], i, m);
        }
    }
}
