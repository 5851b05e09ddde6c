/* matmul.cl - products of operands and a stored matrix, with fused epilogues.
 * Follows products.cl.
 *
 *     store  out[t, j] = s_t sum_k in[t, k] w[j, k] (+ bias[j])
 *     silu   out[t, j] = operand(activated(s_t g, s_t u)),
 *                        g, u = sum_k in[t, k] w[j, k] and w[n + j, k]
 *     add    x[t, j] += sum_k in[t, k] w[j, k] (+ bias[j]),
 *            then next and ss of x for the norm behind it (common.cl)
 *
 *   s_t    norm_scale() of ss[t]: the norm before the product
 *   in     [T, k]           operand dtype
 *   w      [n, k], silu [2 n, k]  W_DTYPE, or quantised
 *   out    [T, ld_out] f32; silu: [T, n] operand dtype
 *   x      [T, n = H] f32;  next [T, H] operand dtype;  ss [T, SS_LD] f32
 *   part, tickets: unused here; for kernels that share columns
 *
 * Each kernel handles tokens first .. first + n_rows.
 *
 * Launch    global = (rows of w / 8, n_rows / TILE_ROWS), each rounded up.
 *           Any local size: a work-item multiplies 8 rows of w with
 *           TILE_ROWS tokens
 * Defines   those of products.cl, TILE_ROWS
 * Needs     nothing of n and k
 * Numerics  those of products.cl */
/* Sets the offsets of tokens t and t + 1; past the end, of the last token. */
static void find_rows(ulong *of, ulong in_at, uint t, uint end, uint k)
{
    for (uint r = 0; r < PAIR; r++) {
        of[r] = in_at + (ulong)min(t + r, end - 1) * k;
    }
}

__kernel void matmul_store(__global float *out, ulong out_at,
                           __global const operand_t *in, ulong in_at,
                           __global const float *ss, ulong ss_at,
                           __global const weight_t *w, ulong w_at,
                           __global const float *bias, ulong bias_at,
                           uint first, uint n_rows, uint n, uint k, uint ld_out)
{
    const uint j = get_global_id(0) * COLS;
    const uint end = first + n_rows;
    const uint from = first + get_global_id(1) * TILE_ROWS;
    const uint to = min(from + TILE_ROWS, end);
    const matrix_t m = matrix_of(w, w_at, (ulong)n * k);
    row_t row[COLS];
    ulong of[PAIR];
    float sum[PAIR][COLS];

    if (j >= n) {
        return;
    }
    for (uint c = 0; c < COLS; c++) {
        row[c] = row_of(m, min(j + c, n - 1), k);
    }
    for (uint t = from; t < to; t += PAIR) {
        find_rows(of, in_at, t, to, k);
        products(sum, in, of, row, k);
        for (uint r = 0; r < PAIR && t + r < to; r++) {
            float s = norm_scale(ss + ss_at + (ulong)(t + r) * SS_LD);
            __global float *o = out + out_at + (ulong)(t + r) * ld_out;

            for (uint c = 0; c < COLS && j + c < n; c++) {
                float v = s * sum[r][c];

                o[j + c] = bias_at == ABSENT ? v : v + bias[bias_at + j + c];
            }
        }
    }
}

__kernel void matmul_silu(__global operand_t *out, ulong out_at,
                          __global const operand_t *in, ulong in_at,
                          __global const float *ss, ulong ss_at,
                          __global const weight_t *w, ulong w_at, uint first,
                          uint n_rows, uint n, uint k)
{
    const uint half_cols = COLS / 2, j = get_global_id(0) * half_cols;
    const uint end = first + n_rows;
    const uint from = first + get_global_id(1) * TILE_ROWS;
    const uint to = min(from + TILE_ROWS, end);
    const matrix_t m = matrix_of(w, w_at, 2 * (ulong)n * k);
    row_t row[COLS];
    ulong of[PAIR];
    float sum[PAIR][COLS];

    if (j >= n) {
        return;
    }
    for (uint c = 0; c < half_cols; c++) {
        uint col = min(j + c, n - 1);

        row[c] = row_of(m, col, k);
        row[c + half_cols] = row_of(m, (ulong)n + col, k);
    }
    for (uint t = from; t < to; t += PAIR) {
        find_rows(of, in_at, t, to, k);
        products(sum, in, of, row, k);
        for (uint r = 0; r < PAIR && t + r < to; r++) {
            float s = norm_scale(ss + ss_at + (ulong)(t + r) * SS_LD);
            __global operand_t *o = out + out_at + (ulong)(t + r) * n;

            for (uint c = 0; c < half_cols && j + c < n; c++) {
                float gate = s * sum[r][c], up = s * sum[r][c + half_cols];

                o[j + c] = operand_of(activated(gate, up));
            }
        }
    }
}

__kernel void matmul_add(__global float *x, ulong x_at,
                         __global operand_t *next, ulong next_at,
                         __global float *ss, ulong ss_at,
                         __global float *part, ulong part_at,
                         __global uint *tickets, ulong tickets_at,
                         __global const operand_t *in, ulong in_at,
                         __global const weight_t *w, ulong w_at,
                         __global const float *bias, ulong bias_at,
                         __global const float *gamma, ulong gamma_at,
                         uint first, uint n_rows, uint n, uint k)
{
    const uint j = get_global_id(0) * COLS;
    const uint end = first + n_rows;
    const uint from = first + get_global_id(1) * TILE_ROWS;
    const uint to = min(from + TILE_ROWS, end);
    const matrix_t m = matrix_of(w, w_at, (ulong)n * k);
    row_t row[COLS];
    ulong of[PAIR];
    float sum[PAIR][COLS];

    if (j >= n) {
        return;
    }
    for (uint c = 0; c < COLS; c++) {
        row[c] = row_of(m, min(j + c, n - 1), k);
    }
    for (uint t = from; t < to; t += PAIR) {
        find_rows(of, in_at, t, to, k);
        products(sum, in, of, row, k);
        for (uint r = 0; r < PAIR && t + r < to; r++) {
            const ulong at = (ulong)(t + r) * n + j;
            float square[COLS];

            for (uint c = 0; c < COLS; c++) {
                square[c] = 0.0f;
                if (j + c < n) {
                    float v = sum[r][c];

                    v = bias_at == ABSENT ? v : v + bias[bias_at + j + c];
                    v += x[x_at + at + c];
                    x[x_at + at + c] = v;
                    next[next_at + at + c] =
                        operand_of(v * gamma[gamma_at + j + c]);
                    square[c] = v * v;
                }
            }
            ss[ss_at + (ulong)(t + r) * SS_LD + j / NORM_PART] =
                fold8(vload8(0, square));
        }
    }
}
