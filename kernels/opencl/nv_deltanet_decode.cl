/* nv_deltanet_decode.cl
 *
 * The Gated DeltaNet mixer of generated rows, between its two products: one
 * launch, the state read and written once.
 *
 *     c_t = silu(sum_j conv[.][j] qkv_{t-CONV+1+j})       channel by channel
 *     q = c_q / sqrt(sum c_q^2 + 1e-6) / sqrt(DK),  k the same, unscaled
 *     beta = sigmoid(b),  g = exp(-exp(a_log) softplus(a + dt_bias))
 *     S = g S;  d = beta (v - k^T S);  S = S + k d^T;  o = q^T S
 *     y = o / sqrt(mean(o^2) + EPS) * norm * silu(z)
 *
 *   y        [T, HV, DV]             operand dtype
 *   o        [T, HV, DV]             f32, scratch
 *   tickets  [n_rows, HK]            u32; 0 before and after
 *   state    [slots, HV, DK, DV]     f32
 *   tail     [slots, CONV - 1, C]    kv dtype, the oldest row first
 *   in       [T, C + HV DV + 2 HV]   f32: qkv, z, b, a
 *   conv     [C, CONV], a_log, dt_bias [HV], norm [DV]   f32
 *
 * A work-group has COLS = DV / SLICES columns of a value head's state, in
 * registers from the first token of the row to the last: a work-item 4
 * columns of 8 rows.  A warp reads 4 rows of 128 bytes at a time.  The last
 * group of a key head to arrive norms its value heads and moves the tail of
 * q and k, which the others read.
 *
 * Launch    WG = 512 / SLICES; groups (HV * SLICES, n_rows)
 * Defines   SLICES 1, 2 or 4; DK = DV = 128; CONV 2..8
 * Needs     sm_80; state 16-byte aligned
 * Numerics  f32.  A sum over DK: 8 rows of an item in order, 4 items by a
 *           tree, 4 such in order; no bit depends on SLICES or n_rows */
#ifndef SLICES
#define SLICES 2
#endif
#define LANES   (512 / SLICES)
#define COLS    (DV / SLICES)
#define BLOCKS  (COLS / 32) /* of 32 columns */
#define ROWS    8           /* of a work-item */
#define HEADS   (HV / HK)   /* value heads of a key head */
#define IN_LD   (C + HV * DV + 2 * HV)
#define HISTORY (CONV - 1)
#define L2_EPS  1e-6f

/* What the convolution sees `back` rows before token i of the row. */
static inline float before(__global const float *in, __global const kv_t *tail,
                           const int i, const int back, const uint channel)
{
    return i >= back ? kv_rounded(in[(i - back) * (long)IN_LD + channel])
                     : kv_get(tail, (ulong)(HISTORY + i - back) * C + channel);
}

/* in: of the row's first token. */
static inline float convolve(__global const float *in,
                             __global const kv_t *tail,
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

/* The tail after n tokens. */
static inline void move_tail(__global kv_t *tail, __global const float *in,
                             const int n, const uint channel)
{
#pragma unroll
    for (int j = 0; j < HISTORY; j++) {
        tail[(ulong)j * C + channel] =
            kv_of(before(in, tail, n, HISTORY - j, channel));
    }
}

static inline float warp_sum(float x)
{
    x += shfl_xor(x, 16);
    x += shfl_xor(x, 8);
    x += shfl_xor(x, 4);
    x += shfl_xor(x, 2);
    return x + shfl_xor(x, 1);
}

/* Over the 4 work-items of a warp that have the same columns. */
static inline float4 rows_sum(const float4 x)
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

static inline float4 scaled(const float a, const float4 x, const float4 y)
{
    return (float4)(fma(a, x.s0, y.s0), fma(a, x.s1, y.s1),
                    fma(a, x.s2, y.s2), fma(a, x.s3, y.s3));
}

/* One head of a token, by one warp: lane l has elements 4l.. */
static inline void norm_gate(__global operand_t *y, __global const float *o,
                             __global const float *z,
                             __global const float *norm, const uint lane)
{
    const float4 x = *(__global const float4 *)(o + 4 * lane);
    const float sum = warp_sum(fma(x.s0, x.s0, x.s1 * x.s1) +
                               fma(x.s2, x.s2, x.s3 * x.s3));
    const float scale = 1.0f / sqrt(sum / (float)DV + EPS);
    const float part[4] = {x.s0, x.s1, x.s2, x.s3};

#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const uint d = 4 * lane + i;

        y[d] = operand_of(part[i] * scale * norm[d] * silu_of(z[d]));
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_decode(__global operand_t *y, const ulong y_at, __global float *o,
                const ulong o_at, __global uint *tickets,
                const ulong tickets_at, __global float *state,
                const ulong state_at, __global kv_t *tail,
                const ulong tail_at, __global const float *in,
                const ulong in_at, __global const float *conv,
                const ulong conv_at, __global const float *a_log,
                const ulong a_log_at, __global const float *dt_bias,
                const ulong dt_bias_at, __global const float *norm,
                const ulong norm_at, __global const int *meta,
                const uint first_row, const uint n_rows)
{
    __local float qk[2 * DK], squares[2][4], gates[2];
    __local float v[COLS] __attribute__((aligned(16)));
    __local float4 sums[4][COLS / 4];
    __local uint turn;
    const uint lane = get_local_id(0), warp = lane / 32;
    const uint head = get_group_id(0) / SLICES;
    const uint slice = get_group_id(0) % SLICES;
    const uint key_head = head / HEADS, index = get_group_id(1);
    __global const int *row = ROW(meta, first_row + index);
    const uint first = (uint)row[ROW_FIRST], n = (uint)row[ROW_TOKENS];
    const uint slot = (uint)row[ROW_SLOT];
    const uint quad = warp / BLOCKS; /* a fourth of the rows */
    const uint col = warp % BLOCKS * 32 + lane % 8 * 4;
    const uint from = quad * 4 + lane % 32 / 8; /* rows from + 16 i */
    const uint value = head * DV + slice * COLS;
    const uint q_channel = key_head * DK + lane;
    const uint k_channel = HK * DK + q_channel;
    const uint v_lane = LANES - COLS; /* the last COLS items convolve v */
    const uint v_channel = 2 * HK * DK + value + lane - v_lane;
    float4 s[ROWS];

    state += state_at + ((ulong)slot * HV + head) * DK * DV + slice * COLS;
    tail += tail_at + (ulong)slot * HISTORY * C;
    in += in_at + (ulong)first * IN_LD;
    o += o_at + (ulong)first * HV * DV;
    conv += conv_at;
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        s[i] = *(__global const float4 *)(state + (from + 16 * i) * DV + col);
    }

    for (uint t = 0; t < n; t++) {
        if (lane < DK) {
            const float q = convolve(in, tail, conv, (int)t, q_channel);
            const float k = convolve(in, tail, conv, (int)t, k_channel);
            const float qq = warp_sum(q * q), kk = warp_sum(k * k);

            qk[lane] = q;
            qk[DK + lane] = k;
            if (lane % 32 == 0) {
                squares[0][warp] = qq;
                squares[1][warp] = kk;
            }
        }
        if (lane >= v_lane) {
            v[lane - v_lane] = convolve(in, tail, conv, (int)t, v_channel);
        }
        if (lane == LANES - 1) {
            __global const float *ba = in + t * (ulong)IN_LD + C + HV * DV;
            const float x = ba[HV + head] + dt_bias[dt_bias_at + head];
            const float soft = x > 20.0f ? x : log1p(exp(x));

            gates[0] = sigmoid_of(ba[head]);
            gates[1] = exp(-exp(a_log[a_log_at + head]) * soft);
        }
        barrier(CLK_LOCAL_MEM_FENCE);

        const float beta = gates[0], decay = gates[1];
        const float q_scale =
            1.0f / sqrt(squares[0][0] + squares[0][1] + squares[0][2] +
                        squares[0][3] + L2_EPS) / sqrt((float)DK);
        const float k_scale =
            1.0f / sqrt(squares[1][0] + squares[1][1] + squares[1][2] +
                        squares[1][3] + L2_EPS);
        float4 m = 0.0f, out = 0.0f, d;

#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            s[i] *= decay;
            m = scaled(qk[DK + from + 16 * i] * k_scale, s[i], m);
        }
        m = rows_sum(m);
        if (lane % 32 < 8) {
            sums[quad][col / 4] = m;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        m = sums[0][col / 4] + sums[1][col / 4] + sums[2][col / 4] +
            sums[3][col / 4];
        d = beta * (*(__local const float4 *)(v + col) - m);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            s[i] = scaled(qk[DK + from + 16 * i] * k_scale, d, s[i]);
            out = scaled(qk[from + 16 * i] * q_scale, s[i], out);
        }
        out = rows_sum(out);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane % 32 < 8) {
            sums[quad][col / 4] = out;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < COLS / 4) {
            *(__global float4 *)(o + (ulong)t * HV * DV + value + 4 * lane) =
                sums[0][lane] + sums[1][lane] + sums[2][lane] + sums[3][lane];
        }
    }
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        *(__global float4 *)(state + (from + 16 * i) * DV + col) = s[i];
    }
    if (lane >= v_lane) {
        move_tail(tail, in, (int)n, v_channel);
    }

    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        tickets += tickets_at + index * HK + key_head;
        turn = ticket_take(tickets);
        if (turn + 1 == HEADS * SLICES) {
            *tickets = 0;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (turn + 1 < HEADS * SLICES) {
        return;
    }
    fence_device();
    if (lane < DK) {
        move_tail(tail, in, (int)n, q_channel);
        move_tail(tail, in, (int)n, k_channel);
    }
    for (uint i = warp; i < n * HEADS; i += LANES / 32) {
        const uint t = i / HEADS, h = key_head * HEADS + i % HEADS;

        norm_gate(y + y_at + ((ulong)(first + t) * HV + h) * DV,
                  o + ((ulong)t * HV + h) * DV,
                  in + (ulong)t * IN_LD + C + h * DV, norm + norm_at,
                  lane % 32);
    }
}
