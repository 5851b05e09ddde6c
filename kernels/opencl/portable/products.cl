/* products.cl - the inner loop of products with a stored matrix.  Precedes the
 * files that use it (program.h).
 *
 * Defines   W_DTYPE, W_FORMAT, W_BITS, W_GROUP, OPERAND_DTYPE, TILE_ROWS
 * Needs     nothing of k
 * Numerics  float32: lane j of 16 sums k = j, j + 16, .. by fma, then fold16,
 *           as on the cpu; the same arithmetic for every tile and other rows */
#define COLS 8 /* rows of w per work-item */
#if TILE_ROWS == 1
#define PAIR 1
#else
#define PAIR 2 /* tokens that share a read of w */
#endif

static float16 weight_rest(row_t w, uint i, uint n)
{
    float part[16];

    for (uint j = 0; j < 16; j++) {
        part[j] = j < n ? weight_get(w, i + j) : 0.0f;
    }
    return vload16(0, part);
}

static float16 operand_rest(__global const operand_t *x, ulong i, uint n)
{
    float part[16];

    for (uint j = 0; j < 16; j++) {
        part[j] = j < n ? operand_get(x, i + j) : 0.0f;
    }
    return vload16(0, part);
}

/* sum[r][c] = in row r times row[c]; of[r] is the offset of the former. */
static void products(float sum[PAIR][COLS], __global const operand_t *in,
                     const ulong *of, const row_t *row, uint k)
{
    float16 acc[PAIR][COLS];
    uint i = 0;

    #pragma unroll
    for (uint c = 0; c < COLS; c++) {
        #pragma unroll
        for (uint r = 0; r < PAIR; r++) {
            acc[r][c] = 0.0f;
        }
    }
    for (; i + 16 <= k; i += 16) {
        float16 a[PAIR];

        #pragma unroll
        for (uint r = 0; r < PAIR; r++) {
            a[r] = operand_get16(in, of[r] + i);
        }
        #pragma unroll
        for (uint c = 0; c < COLS; c++) {
            float16 v = weight_get16(row[c], i);

            #pragma unroll
            for (uint r = 0; r < PAIR; r++) {
                acc[r][c] = fma(a[r], v, acc[r][c]);
            }
        }
    }
    if (i < k) {
        #pragma unroll
        for (uint c = 0; c < COLS; c++) {
            float16 v = weight_rest(row[c], i, k - i);

            #pragma unroll
            for (uint r = 0; r < PAIR; r++) {
                acc[r][c] =
                    fma(operand_rest(in, of[r] + i, k - i), v, acc[r][c]);
            }
        }
    }
    #pragma unroll
    for (uint c = 0; c < COLS; c++) {
        #pragma unroll
        for (uint r = 0; r < PAIR; r++) {
            sum[r][c] = fold16(acc[r][c]);
        }
    }
}
