/* dequantise.cl - widens a quantised matrix to bf16, for a product of many
 * tokens.
 *
 *     out[i] = bf16(scale q + bias)
 *
 *   out  [rows, k]  bf16, 16 bytes aligned
 *   w    [rows, k]  quantised (common.cl), 8 bytes aligned
 *
 * Launch    global = rows * k / 8, rounded up; any local size: a work-item
 *           reads and writes 8 columns of a row at once
 * Defines   W_DTYPE, W_BITS 4 or 8, W_GROUP
 * Needs     little-endian; k is a multiple of W_GROUP
 * Numerics  float32, rounded once, then to bf16 */
__kernel void dequantise(__global ushort *out, ulong out_at,
                         __global const weight_t *w, ulong w_at, ulong n)
{
    const ulong i = get_global_id(0) * 8ul;

    if (i >= n) {
        return;
    }
    const matrix_t m = matrix_of(w, w_at, n);
    const ulong g = i / W_GROUP * 2;
    const float s = scale_get(m.pairs, g), b = scale_get(m.pairs, g + 1);
    __global const uint *from = (__global const uint *)(m.w + i * W_BITS / 8);
    uint r[4];

    #pragma unroll
    for (uint j = 0; j < 4; j++) {
#if W_BITS == 8
        const uint two = from[j / 2] >> j % 2 * 16;
        const uint low = two & 255, high = two >> 8 & 255;
#else
        const uint two = from[0] >> j * 8;
        const uint low = two & 15, high = two >> 4 & 15;
#endif

        r[j] = (uint)to_bf16(fma((float)high, s, b)) << 16 |
               to_bf16(fma((float)low, s, b));
    }
    *(__global uint4 *)(out + out_at + i) = (uint4)(r[0], r[1], r[2], r[3]);
}
