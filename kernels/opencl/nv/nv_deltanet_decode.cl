/* nv_deltanet_decode.cl - the Gated DeltaNet of generated rows, everything
 * between its two products, in one launch.
 *
 *     c_t = silu(sum_j conv[.][j] qkv_{t-CONV+1+j})       channel by channel
 *     q = c_q / sqrt(sum c_q^2 + 1e-6) / sqrt(DK),  k the same, unscaled
 *     beta = sigmoid(b),  g = exp(-exp(a_log) softplus(a + dt_bias))
 *     S = g S;  d = beta (v - k^T S);  S = S + k d^T;  o = q^T S
 *     y = o / sqrt(mean(o^2) + EPS) * norm * silu(z)
 *
 *   y        [T, HV, DV]             operand dtype
 *   o        unused
 *   tickets  [n_rows, HK]            u32; 0 before and after
 *   state    of the layer: slot s is [HV, DK, DV] f32 at s * page
 *   tail     of the layer: slot s is [CONV - 1, C] kv dtype, the oldest row
 *            first, at the bytes of s * page floats
 *   in       [T, C + HV DV + 2 HV]   f32: qkv, z, b, a
 *   conv     [C, CONV], a_log, dt_bias [HV], norm [DV]   f32
 *
 * A work-group keeps the state of a value head in registers, from the first
 * token of the row to the last, so the state is read and written once.  A
 * work-item has 4 columns of ROWS rows.  A warp reads 4 rows of 128 bytes at a
 * time.  All value heads of a key head read the tail of q and k.  The last of
 * them to have read the tail, by ticket, moves it on.  With SAVES, where the
 * row has a save, state and tail are also written to the save's page; hardly
 * any step has one, and the checks cost registers.
 *
 * Launch    WG = 256; groups (HV, n_rows)
 * Defines   DK = DV = 128; CONV 2..8; SAVES 0 or 1
 * Needs     sm_80; state 16-byte aligned
 * Numerics  f32.  A sum over DK: ROWS rows of a work-item in order, 4 items by
 *           a tree, QUADS of these in order; no bit depends on n_rows */
#define ROWS    16 /* per work-item */
#define QUADS   2  /* warps that share columns */
#define LANES   256
#define STRIDE  8         /* between rows of a work-item */
#define HEADS   (HV / HK) /* value heads of a key head */
#define IN_LD   (C + HV * DV + 2 * HV)
#define HISTORY (CONV - 1)
#define L2_EPS  1e-6f

/* Returns the convolution's input `back` tokens before token i of the row. */
INLINE float before(__global const float *in, __global const kv_t *tail,
                    const int i, const int back, const uint channel)
{
    return i >= back ? kv_rounded(in[(i - back) * (long)IN_LD + channel])
                     : kv_get(tail, (ulong)(HISTORY + i - back) * C + channel);
}

/* in: input of the row's first token. */
INLINE float convolve(__global const float *in, __global const kv_t *tail,
                      __global const float *conv, const int i,
                      const uint channel)
{
    __global const float *w = conv + (ulong)channel * CONV;
    float sum = 0.0f;

#pragma unroll
    for (int j = 0; j < HISTORY; j++) {
        sum = fma(w[j], before(in, tail, i, HISTORY - j, channel), sum);
    }
    sum = fma(w[HISTORY], in[i * (long)IN_LD + channel], sum);
    return silu_of(sum);
}

/* Writes the tail after n tokens, to the same place or another. */
INLINE void move_tail(__global kv_t *to, __global const kv_t *tail,
                      __global const float *in, const int n,
                      const uint channel)
{
#pragma unroll
    for (int j = 0; j < HISTORY; j++) {
        to[(ulong)j * C + channel] =
            kv_of(before(in, tail, n, HISTORY - j, channel));
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

/* Sums over the 4 work-items of a warp that have the same columns. */
INLINE float4 rows_sum(const float4 x)
{
    float4 r;

    r.s0 = x.s0 + shfl_xor(x.s0, 8);
    r.s1 = x.s1 + shfl_xor(x.s1, 8);
    r.s2 = x.s2 + shfl_xor(x.s2, 8);
    r.s3 = x.s3 + shfl_xor(x.s3, 8);
    r.s0 += shfl_xor(r.s0, 16);
    r.s1 += shfl_xor(r.s1, 16);
    r.s2 += shfl_xor(r.s2, 16);
    r.s3 += shfl_xor(r.s3, 16);
    return r;
}

INLINE float4 scaled(const float a, const float4 x, const float4 y)
{
    return (float4)(fma(a, x.s0, y.s0), fma(a, x.s1, y.s1), fma(a, x.s2, y.s2),
                    fma(a, x.s3, y.s3));
}

/* Handles one head of a token with one warp: lane l has elements 4l.. of x, z
 * and norm. */
INLINE void norm_gate(__global operand_t *y, const float4 x, const float4 z,
                      const float4 norm, const uint lane)
{
    const float sum =
        warp_sum(fma(x.s0, x.s0, x.s1 * x.s1) + fma(x.s2, x.s2, x.s3 * x.s3));
    const float scale = 1.0f / sqrt(sum / (float)DV + EPS);

    y[4 * lane] = operand_of(x.s0 * scale * norm.s0 * silu_of(z.s0));
    y[4 * lane + 1] = operand_of(x.s1 * scale * norm.s1 * silu_of(z.s1));
    y[4 * lane + 2] = operand_of(x.s2 * scale * norm.s2 * silu_of(z.s2));
    y[4 * lane + 3] = operand_of(x.s3 * scale * norm.s3 * silu_of(z.s3));
}

/* 1 / sqrt(sum of squares + eps) of q or k, whose squares 4 warps have
 * summed. */
INLINE float unit_scale(__local const float *squares)
{
    return 1.0f /
           sqrt(squares[0] + squares[1] + squares[2] + squares[3] + L2_EPS);
}

INLINE float4 quads_sum(__local float4 (*sums)[DV / 4], const uint i)
{
    float4 all = sums[0][i];

#pragma unroll
    for (uint j = 1; j < QUADS; j++) {
        all += sums[j][i];
    }
    return all;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_decode(__global operand_t *y, const ulong y_at, __global float *o,
                const ulong o_at, __global uint *tickets,
                const ulong tickets_at, __global float *state,
                const ulong state_at, __global kv_t *tail, const ulong tail_at,
                const uint page, __global const float *in, const ulong in_at,
                __global const float *conv, const ulong conv_at,
                __global const float *a_log, const ulong a_log_at,
                __global const float *dt_bias, const ulong dt_bias_at,
                __global const float *norm, const ulong norm_at,
                __global const int *meta, const uint first_row,
                const uint n_rows)
{
    __local float qk[2 * DK], squares[2][4], gates[2];
    __local float v[DV] __attribute__((aligned(16)));
    __local float4 sums[2][QUADS][DV / 4];
    __local uint turn;
    const uint lane = get_local_id(0), warp = lane / 32;
    const uint head = get_group_id(0), index = get_group_id(1);
    const uint key_head = head / HEADS;
    __global const int *row = ROW(meta, first_row + index);
    const uint first = (uint)row[ROW_FIRST], n = (uint)row[ROW_TOKENS];
    const uint slot = (uint)row[ROW_SLOT];
    const uint quad = warp / 4;
    const uint col = warp % 4 * 32 + lane % 8 * 4;
    const uint from = quad * 4 + lane % 32 / 8; /* rows from + STRIDE i */
    const uint q_channel = key_head * DK + lane;
    const uint k_channel = HK * DK + q_channel;
    const uint v_lane = LANES - DV; /* the last DV work-items convolve v */
    const uint v_channel = 2 * HK * DK + head * DV + lane - v_lane;
    __local const float *q = qk + from, *k = q + DK;
    const ulong place =
        state_at + (ulong)head * (DK * DV) + from * DV + col;
    __global float4 *mine =
        (__global float4 *)(state + place + (ulong)slot * page);
#if SAVES
    __global kv_t *tails = tail + tail_at;
    uint save = 0, save_at = SAVE_TOKENS(meta, row, save);
#endif
    float4 s[ROWS];

    tail += tail_at + slot * kv_per(page);
    in += in_at + (ulong)first * IN_LD;
    conv += conv_at;
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        s[i] = mine[i * (STRIDE * DV / 4)];
    }

    for (uint t = 0; t < n; t++) {
        __global const float *now = in + t * (ulong)IN_LD + C;
        float4 z, gamma, m = 0.0f, out = 0.0f, d;

        if (warp == 0) {
            z = *(__global const float4 *)(now + head * DV + 4 * lane);
            gamma = *(__global const float4 *)(norm + norm_at + 4 * lane);
        }
        if (lane < DK) {
            const float a = convolve(in, tail, conv, (int)t, q_channel);
            const float b = convolve(in, tail, conv, (int)t, k_channel);
            const float qq = warp_sum(a * a), kk = warp_sum(b * b);

            qk[lane] = a;
            qk[DK + lane] = b;
            if (lane % 32 == 0) {
                squares[0][warp] = qq;
                squares[1][warp] = kk;
            }
        }
        if (lane >= v_lane) {
            v[lane - v_lane] = convolve(in, tail, conv, (int)t, v_channel);
        }
        if (lane == LANES - 1) {
            const float x =
                now[HV * DV + HV + head] + dt_bias[dt_bias_at + head];
            const float soft = x > 20.0f ? x : log1p(exp(x));

            gates[0] = sigmoid_of(now[HV * DV + head]);
            gates[1] = exp(-exp(a_log[a_log_at + head]) * soft);
        }
#if SAVES
        if (t + 1 == save_at) { /* before the ticket */
            __global kv_t *to =
                tails + SAVE_PAGE(meta, row, save) * kv_per(page);

            if (lane >= v_lane) {
                move_tail(to, tail, in, (int)save_at, v_channel);
            }
            if (lane < DK && head % HEADS == 0) {
                move_tail(to, tail, in, (int)save_at, q_channel);
                move_tail(to, tail, in, (int)save_at, k_channel);
            }
        }
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0 && t + 1 == n) {
            turn = atomic_inc(tickets + tickets_at + index * HK + key_head);
        }

        const float beta = gates[0], decay = gates[1];
        const float q_scale = unit_scale(squares[0]) / sqrt((float)DK);
        const float k_scale = unit_scale(squares[1]);

#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            s[i] *= decay;
            m = scaled(k[STRIDE * i] * k_scale, s[i], m);
        }
        m = rows_sum(m);
        if (lane % 32 < 8) {
            sums[0][quad][col / 4] = m;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        m = quads_sum(sums[0], col / 4);
        d = beta * (*(__local const float4 *)(v + col) - m);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            s[i] = scaled(k[STRIDE * i] * k_scale, d, s[i]);
            out = scaled(q[STRIDE * i] * q_scale, s[i], out);
        }
        out = rows_sum(out);
        if (lane % 32 < 8) {
            sums[1][quad][col / 4] = out;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (warp == 0) {
            norm_gate(y + y_at + ((ulong)(first + t) * HV + head) * DV,
                      quads_sum(sums[1], lane), z, gamma, lane);
        }
#if SAVES
        if (t + 1 == save_at) {
            __global float4 *to =
                (__global float4 *)(state + place +
                                    SAVE_PAGE(meta, row, save) * page);

#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                to[i * (STRIDE * DV / 4)] = s[i];
            }
            save++;
            save_at = SAVE_TOKENS(meta, row, save);
        }
#endif
    }
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        mine[i * (STRIDE * DV / 4)] = s[i];
    }
    if (lane >= v_lane) {
        move_tail(tail, tail, in, (int)n, v_channel);
    }
    if (turn + 1 < HEADS) {
        return;
    }
    if (lane < DK) {
        move_tail(tail, tail, in, (int)n, q_channel);
        move_tail(tail, tail, in, (int)n, k_channel);
    }
    if (lane == 0) {
        tickets[tickets_at + index * HK + key_head] = 0;
    }
}
