/* nv_attention_widen.cl - reads quantised keys and values as bf16.  Precedes
 * nv_attention_prefill.cl in programs for quantised layers.
 *
 *   affine      bf16(s q + b)
 *   turboquant  bf16(m c[q]), in the rotated basis
 *
 * Defines   those of kv.cl
 * Needs     sm_80; KV_DTYPE 1; HD a multiple of 64
 * Numerics  float32, rounded once */

#if KV_SCHEME == 1

/* Dimensions 8 i .. 8 i + 7 of vector n of a block. */
INLINE uint4 widen_piece(__global const uchar *block, const uint n,
                         const uint i, const bool value,
                         __local const float *books)
{
    __global const uchar *codes =
        block + (value ? V_CODES + n * V_BYTES : n * K_BYTES) + i * K_BITS;
    const uint pair =
        *(__global const uint *)(block +
                                 (value ? V_PARAMS + n * V_PARAM
                                        : K_PARAMS + n * K_PARAM) +
                                 i * 8 / KV_GROUP * 4);
    const float s = bf16_low(pair), b = bf16_high(pair);
    float x[8];

#if K_BITS == 8
    const uint2 w = *(__global const uint2 *)codes;
#else
    const uint w = *(__global const uint *)codes;
#endif
#pragma unroll
    for (uint j = 0; j < 8; j++) {
        /* 2^23 + q */
#if K_BITS == 8
        x[j] =
            as_float(byte_perm(j < 4 ? w.x : w.y, 0x4b000000, 0x7540 | j % 4));
#else
        x[j] = as_float((w >> 4 * j & 15) | 0x4b000000);
#endif
        x[j] = fma(x[j] - 8388608.0f, s, b);
    }
    return (uint4)(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]),
                   pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
}

#else

__constant uint centroids_k[] = {K_BOOK}, centroids_v[] = {V_BOOK};
__constant uint signs_v[] = {V_SIGNS};

#define BOOKS 32 /* centroids of keys, then of values from 16 on */

INLINE void load_books(__local float *books)
{
    const uint i = get_local_id(0);

    if (i < 1 << K_BITS) {
        books[i] = as_float(centroids_k[i]);
    }
    if (i < 1 << V_BITS) {
        books[16 + i] = as_float(centroids_v[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

INLINE uint4 widen_piece(__global const uchar *block, const uint n,
                         const uint i, const bool value,
                         __local const float *books)
{
    const uint bits = value ? V_BITS : K_BITS;
    __global const uchar *codes =
        block + (value ? V_CODES + n * V_BYTES : n * K_BYTES);
    const float norm = norm_of(
        *(__global const ushort *)(block + (value ? V_PARAMS + n * V_PARAM
                                                  : K_PARAMS + n * K_PARAM)));
    __global const uint *words = (__global const uint *)codes + i * bits / 4;
    const uint at = i * bits % 4 * 8;
    uint w = words[0] >> at;
    float x[8];

    if (at + 8 * bits > 32) {
        w |= words[1] << (32 - at);
    }
    books += value ? 16 : 0;
#pragma unroll
    for (uint j = 0; j < 8; j++) {
        x[j] = norm * books[w >> j * bits & ((1 << bits) - 1)];
    }
    return (uint4)(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]),
                   pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
}

/* Rotates the sums of a warp's rows back: a row's dimensions are n * 8 + 2 c +
 * i of acc [n][i], or [n][2 + i] for row g + 8. */
INLINE void rotate_back(float (*acc)[4], const uint c)
{
#pragma unroll
    for (uint stride = 1; stride < HD / 8; stride *= 2) {
#pragma unroll
        for (uint j = 0; j < HD / 16; j++) {
            const uint n = j / stride * stride * 2 + j % stride;

#pragma unroll
            for (uint i = 0; i < 4; i++) {
                const float a = acc[n][i], b = acc[n + stride][i];

                acc[n][i] = a + b;
                acc[n + stride][i] = a - b;
            }
        }
    }
#pragma unroll
    for (uint n = 0; n < HD / 8; n++) {
#pragma unroll
        for (uint i = 0; i < 4; i += 2) {
            const float a = acc[n][i], b = acc[n][i + 1];

            acc[n][i] = a + b;
            acc[n][i + 1] = a - b;
        }
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            float other = shfl_xor(acc[n][i], 1);

            acc[n][i] = c & 1 ? other - acc[n][i] : acc[n][i] + other;
            other = shfl_xor(acc[n][i], 2);
            acc[n][i] = c & 2 ? other - acc[n][i] : acc[n][i] + other;
            acc[n][i] *= signs_v[n / 4] >> (n % 4 * 8 + 2 * c + i % 2) & 1
                             ? -as_float(UNIT)
                             : as_float(UNIT);
        }
    }
}

#endif
