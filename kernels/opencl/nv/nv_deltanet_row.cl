/* nv_deltanet_row.cl - what nv_deltanet_decode.cl and nv_deltanet_replay.cl have
 * in common.  It precedes both.
 *
 * A work-group keeps the state of a value head in registers.  A work-item has 4
 * columns of ROWS rows, S [ROWS]; a warp reads 4 rows of 128 bytes at a time.
 *
 * Numerics  f32.  A sum over DK: ROWS rows of a work-item in order, 4 items by
 *           a tree, QUADS of these in order.  A replay has the bits of the
 *           row, because both are computed here */
#define ROWS    16 /* per work-item */
#define QUADS   2  /* warps that share columns */
#define LANES   256
#define STRIDE  8         /* between rows of a work-item */
#define HEADS   (HV / HK) /* value heads of a key head */
#define HISTORY (CONV - 1)
#define L2_EPS  1e-6f

/* A kept token: the channels of k and v, then b and a. */
#define KEPT_AT (HK * DK)
#define KEPT_B  (C - KEPT_AT)
#define KEPT_LD (KEPT_B + 2 * HV)

/* Returns the convolution's input `back` tokens before token i of the row; u:
 * the channel's inputs, ld apart. */
INLINE float before(__global const float *u, const uint ld,
                    __global const kv_t *tail, const int i, const int back,
                    const uint channel)
{
    return i >= back ? kv_rounded(u[(i - back) * (long)ld])
                     : kv_get(tail, (ulong)(HISTORY + i - back) * C + channel);
}

INLINE float convolve(__global const float *u, const uint ld,
                      __global const kv_t *tail, __global const float *conv,
                      const int i, const uint channel)
{
    __global const float *w = conv + (ulong)channel * CONV;
    float sum = 0.0f;

#pragma unroll
    for (int j = 0; j < HISTORY; j++) {
        sum = fma(w[j], before(u, ld, tail, i, HISTORY - j, channel), sum);
    }
    sum = fma(w[HISTORY], u[i * (long)ld], sum);
    return silu_of(sum);
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

/* exp(-exp(a_log) softplus(a + dt_bias)) */
INLINE float decay_of(const float a, const float dt_bias, const float a_log)
{
    const float x = a + dt_bias;
    const float soft = x > 20.0f ? x : log1p(exp(x));

    return exp(-exp(a_log) * soft);
}

/* S = decay S, and returns this work-item's part of k^T S. */
INLINE float4 decayed(float4 *s, const float decay, __local const float *k,
                      const float k_scale)
{
    float4 m = 0.0f;

#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        s[i] *= decay;
        m = scaled(k[STRIDE * i] * k_scale, s[i], m);
    }
    return m;
}
