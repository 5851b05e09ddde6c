/* dequantise.cl - widens a quantised matrix to bf16, for a product of many
 * tokens.
 *
 *     out[r, c] = bf16(w[r, c])
 *
 *   out  [rows, k]  bf16, 16 bytes aligned
 *   w    [rows, k]  quantised (common.cl), 8 bytes aligned
 *
 * Launch    affine: global = rows * k / 8, rounded up: a work-item reads and
 *           writes 8 columns of a row at once; other formats: rows * (k / 16,
 *           rounded up), rounded up.  Any local size
 * Defines   W_DTYPE, W_FORMAT, W_BITS, W_GROUP
 * Needs     little-endian; affine: k is a multiple of W_GROUP
 * Numerics  float32, rounded once, then to bf16 */
#if !defined(W_FORMAT) || W_FORMAT == 1
__kernel void dequantise(__global ushort *out, ulong out_at,
                         __global const weight_t *w, ulong w_at, ulong n,
                         uint k)
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

#else

__kernel void dequantise(__global ushort *out, ulong out_at,
                         __global const weight_t *w, ulong w_at, ulong n,
                         uint k)
{
    const uint parts = (k + 15) / 16;
    const ulong row = get_global_id(0) / parts;
    const uint c = get_global_id(0) % parts * 16;
    const row_t from = row_of(matrix_of(w, w_at, n), row, k);

    if (row * k >= n) {
        return;
    }
    out += out_at + row * k + c;
    if (c + 16 <= k) {
        const float16 f = weight_get16(from, c);
        const float *each = (const float *)&f;
        ushort r[16];

        for (uint i = 0; i < 16; i++) {
            r[i] = to_bf16(each[i]);
        }
        vstore16(vload16(0, r), 0, out);
        return;
    }
    for (uint i = 0; c + i < k; i++) {
        out[i] = to_bf16(weight_get(from, c + i));
    }
}

#endif
