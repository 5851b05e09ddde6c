/* draft.cl - the operand of fc, before the MTP layer.
 *
 *     in[t] = norm(E[ids[t]], embed_gamma) ++
 *             norm(norm(hidden[from[t]], gamma), hidden_gamma);  x[t] = 0
 *     norm(x, g) = x / sqrt(mean(x^2) + EPS) g
 *
 *   in      [T, 2 H]  operand dtype
 *   x       [T, H]    f32, to which the product with fc is added
 *   hidden  [T, H]    f32: x after the last layer of an earlier step, whose
 *                     norm is gamma [H]
 *   e       [V, H]    W_DTYPE, or quantised (common.cl)
 *   embed_gamma, hidden_gamma [H] f32
 *
 * Launch    groups of WG: (2, n), the halves of a token's operand
 * Defines   WG a multiple of SOME; W_DTYPE, W_FORMAT, W_BITS, W_GROUP of e,
 *           OPERAND_DTYPE, EMBED_SCALE
 * Needs     (WG + WG / SOME) * 4 bytes of local memory
 * Numerics  float32; a sum of squares: every WG-th column by a work-item, in
 *           order, then SOME work-items in order, then these; in is rounded
 *           once */
#define SOME 16

/* Sums x of all work-items. */
static float sum_of(__local float *part, __local float *some, float x)
{
    const uint lane = get_local_id(0);
    float sum = 0.0f;

    barrier(CLK_LOCAL_MEM_FENCE);
    part[lane] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < WG / SOME) {
        for (uint i = 0; i < SOME; i++) {
            sum += part[lane * SOME + i];
        }
        some[lane] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0.0f;
    for (uint i = 0; i < WG / SOME; i++) {
        sum += some[i];
    }
    return sum;
}

/* Column i of E's row or of hidden. */
static float value_of(bool embeds, row_t e, __global const float *hidden,
                      uint i)
{
    return embeds ? weight_get(e, i) * EMBED_SCALE : hidden[i];
}

/* Both halves run the same barriers. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
draft_input(__global operand_t *in, ulong in_at, __global float *x, ulong x_at,
            __global const float *hidden, ulong hidden_at,
            __global const weight_t *e, ulong e_at,
            __global const float *embed_gamma, ulong embed_gamma_at,
            __global const float *gamma, ulong gamma_at,
            __global const float *hidden_gamma, ulong hidden_gamma_at,
            __global const int *meta, uint from)
{
    __local float part[WG], some[WG / SOME];
    const uint lane = get_local_id(0), t = get_group_id(1);
    const bool embeds = get_group_id(0) == 0;
    const row_t row = row_of(matrix_of(e, e_at, (ulong)V * H),
                             (uint)meta[META_IDS + t], H);
    float square = 0.0f, scale, again;

    in += in_at + (ulong)t * (2 * H) + (embeds ? 0 : H);
    x += x_at + (ulong)t * H;
    hidden += hidden_at + (ulong)(uint)meta[from + t] * H;
    gamma = embeds ? embed_gamma + embed_gamma_at : gamma + gamma_at;
    for (uint i = lane; i < H; i += WG) {
        const float v = value_of(embeds, row, hidden, i);

        square = fma(v, v, square);
    }
    scale = 1.0f / sqrt(sum_of(part, some, square) / (float)H + EPS);
    square = 0.0f;
    for (uint i = lane; i < H; i += WG) {
        const float v = value_of(embeds, row, hidden, i) * scale * gamma[i];

        square = fma(v, v, square);
    }
    again = 1.0f / sqrt(sum_of(part, some, square) / (float)H + EPS);
    for (uint i = lane; i < H; i += WG) {
        const float v = value_of(embeds, row, hidden, i) * scale * gamma[i];

        if (embeds) {
            in[i] = operand_of(v);
            x[i] = 0.0f;
        } else {
            in[i] = operand_of(v * again * hidden_gamma[hidden_gamma_at + i]);
        }
    }
}
