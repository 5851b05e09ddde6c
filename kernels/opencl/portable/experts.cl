/* experts.cl - the products of tokens with their experts.  Follows products.cl.
 *
 *     experts_gate_up  out[p, j] = operand(activated(s_t g, s_t u)), p a pair of
 *                      token t and expert e: g, u = sum_k in[t, k] w[r, k]
 *                      (+ bias[r]), of rows r = e 2 Im + j and e 2 Im + Im + j;
 *                      if ALTERNATE e 2 Im + 2 j and e 2 Im + 2 j + 1
 *     experts_down     y[p, j] = sum_k in[p, k] w[e H + j, k] (+ bias[e H + j])
 *
 *   s_t    norm_scale() of ss[t]: the norm before the product
 *   in     [T, H]; down: [T * PAIRS, Im]  operand dtype
 *   out    [T * PAIRS, Im]  operand dtype;  y [T * PAIRS, H] f32
 *   w      [N_ALL * 2 Im, H], [N_ALL * H, Im]  W_DTYPE, or quantised
 *   bias   [rows of w] f32, or absent
 *   ids    [T, PAIRS] u32: the experts of each token
 *   order, tiles  of route.cl; unused if TILE_ROWS is 1
 *
 * Each kernel handles pairs first .. first + n; a pair is t PAIRS + i.
 *
 * Launch    global = (gate_up: Im / 4, down: H / 8; pairs, or if TILE_ROWS is
 *           not 1, tiles), rounded up.  Any local size
 * Defines   those of products.cl; TILE_ROWS: pairs of a tile; N_ALL, PAIRS,
 *           EXPERT_DIM (Im), ALTERNATE
 * Needs     nothing of H and Im
 * Numerics  those of products.cl */
#define HALF (COLS / 2)

/* Some pairs of one expert. */
typedef struct {
    uint expert, n;
    uint first;                  /* the pair, if there is one */
    __global const uint *order;  /* else the pairs */
} tile_t;

static tile_t tile_of(__global const uint *ids, __global const uint *order,
                      __global const uint *tiles, uint first, uint n)
{
    const uint i = get_global_id(1);
    tile_t t;

#if TILE_ROWS == 1
    t.n = i < n;
    t.first = first + min(i, n - 1);
    t.expert = ids[t.first];
    t.order = order;
#else
    t.expert = tiles[i * 3];
    t.order = order + tiles[i * 3 + 1];
    t.n = tiles[i * 3 + 2];
    t.first = 0;
#endif
    return t;
}

static uint pair_of(const tile_t *t, uint i)
{
#if TILE_ROWS == 1
    return t->first;
#else
    return t->order[min(i, t->n - 1)];
#endif
}

__kernel void experts_gate_up(
    __global operand_t *out, ulong out_at, __global const operand_t *in,
    ulong in_at, __global const float *ss, ulong ss_at,
    __global const weight_t *w, ulong w_at, __global const float *bias,
    ulong bias_at, __global const uint *ids, ulong ids_at,
    __global const uint *order, ulong order_at, __global const uint *tiles,
    ulong tiles_at, uint first, uint n)
{
    const uint j = get_global_id(0) * HALF;
    const tile_t tile =
        tile_of(ids + ids_at, order + order_at, tiles + tiles_at, first, n);
    const matrix_t m = matrix_of(w, w_at, (ulong)N_ALL * 2 * EXPERT_DIM * H);
    const ulong top = (ulong)tile.expert * 2 * EXPERT_DIM;
    float sum[PAIR][COLS], add[COLS];
    row_t row[COLS];

    if (j >= EXPERT_DIM || tile.n == 0) {
        return;
    }
    for (uint c = 0; c < COLS; c++) {
        const uint col = min(j + c % HALF, (uint)EXPERT_DIM - 1);
        const ulong r = top + (ALTERNATE ? 2 * col + c / HALF
                                         : c / HALF * EXPERT_DIM + col);

        row[c] = row_of(m, r, H);
        add[c] = bias_at == ABSENT ? 0.0f : bias[bias_at + r];
    }
    for (uint i = 0; i < tile.n; i += PAIR) {
        ulong of[PAIR];

        for (uint r = 0; r < PAIR; r++) {
            of[r] = in_at + (ulong)(pair_of(&tile, i + r) / PAIRS) * H;
        }
        products(sum, in, of, row, H);
        for (uint r = 0; r < PAIR && i + r < tile.n; r++) {
            const uint pair = pair_of(&tile, i + r);
            const float s =
                norm_scale(ss + ss_at + (ulong)(pair / PAIRS) * SS_LD);
            __global operand_t *o = out + out_at + (ulong)pair * EXPERT_DIM;

            for (uint c = 0; c < HALF && j + c < EXPERT_DIM; c++) {
                const float gate = s * sum[r][c] + add[c];
                const float up = s * sum[r][c + HALF] + add[c + HALF];

                o[j + c] = operand_of(activated(gate, up));
            }
        }
    }
}

__kernel void experts_down(
    __global float *y, ulong y_at, __global const operand_t *in, ulong in_at,
    __global const weight_t *w, ulong w_at, __global const float *bias,
    ulong bias_at, __global const uint *ids, ulong ids_at,
    __global const uint *order, ulong order_at, __global const uint *tiles,
    ulong tiles_at, uint first, uint n)
{
    const uint j = get_global_id(0) * COLS;
    const tile_t tile =
        tile_of(ids + ids_at, order + order_at, tiles + tiles_at, first, n);
    const matrix_t m = matrix_of(w, w_at, (ulong)N_ALL * H * EXPERT_DIM);
    const ulong top = (ulong)tile.expert * H;
    float sum[PAIR][COLS];
    row_t row[COLS];

    if (j >= H || tile.n == 0) {
        return;
    }
    for (uint c = 0; c < COLS; c++) {
        row[c] = row_of(m, top + min(j + c, (uint)H - 1), EXPERT_DIM);
    }
    for (uint i = 0; i < tile.n; i += PAIR) {
        ulong of[PAIR];

        for (uint r = 0; r < PAIR; r++) {
            of[r] = in_at + (ulong)pair_of(&tile, i + r) * EXPERT_DIM;
        }
        products(sum, in, of, row, EXPERT_DIM);
        for (uint r = 0; r < PAIR && i + r < tile.n; r++) {
            __global float *o =
                y + y_at + (ulong)pair_of(&tile, i + r) * H + j;

            for (uint c = 0; c < COLS && j + c < H; c++) {
                o[c] = bias_at == ABSENT
                           ? sum[r][c]
                           : sum[r][c] + bias[bias_at + top + j + c];
            }
        }
    }
}
