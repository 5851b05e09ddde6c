/* dequantise.cl - a quantised matrix as bf16, for a product of many tokens.
 *
 *     out[i] = bf16(scale q + bias)
 *
 *   out  [rows, k]  bf16
 *   w    [rows, k]  quantised (common.cl)
 *
 * Launch    global = rows * k / 16, rounded up: an item is 16 columns of a row
 * Defines   W_DTYPE, W_BITS 4 or 8, W_GROUP
 * Needs     nothing; k is a multiple of W_GROUP
 * Numerics  float32, rounded once, then to bf16 */
__kernel void dequantise(__global ushort *out, ulong out_at,
                         __global const weight_t *w, ulong w_at, ulong n)
{
    const ulong i = get_global_id(0) * 16ul;

    if (i < n) {
        const matrix_t m = matrix_of(w, w_at, n);
        float part[16];

        vstore16(weight_get16(m, i), 0, part);
        for (uint j = 0; j < 16; j++) {
            out[out_at + i + j] = to_bf16(part[j]);
        }
    }
}
