/* rows.cl - token by token: the embedding, and the first part of a norm.
 *
 *     embed     x[t] = EMBED_SCALE E[ids[t]]             and next, ss of x
 *     norm      next[i], ss[i] of x[t], t = ids[i] or i  (common.cl)
 *     norm_add  x[t] += RESIDUAL norm(y[t], by); y[t] = 0, and next, ss of x;
 *               without `by`, x[t] += RESIDUAL y[t]
 *     cap       l *= LOGIT_SCALE, then l = LOGIT_CAP tanh(l / LOGIT_CAP), each
 *
 *   x      [T, H]      f32
 *   next   [T, H]      operand dtype
 *   ss     [T, SS_LD]  f32
 *   e      [V, H]      W_DTYPE, or quantised (common.cl)
 *   gamma  [H]         f32, of the norm that comes next, or absent: none does
 *   y      [T, H]      f32, its sums of squares y_ss [T, SS_LD]; by [H] f32
 *                      or absent
 *   l      [n]         f32
 *
 * Launch    global = (SS_LD, n), any local size: a work-item handles 8 columns
 *           of a row; cap: any number of work-items, each strides by their
 *           number
 * Defines   W_DTYPE, W_FORMAT, W_BITS, W_GROUP of e, OPERAND_DTYPE,
 *           EMBED_SCALE, RESIDUAL (unless 1), LOGIT_SCALE, LOGIT_CAP (0: none)
 * Needs     nothing of H
 * Numerics  exact except for next (rounded once) and ss (8 squares, each
 *           rounded, folded +4, +2, +1); norm_add and cap float32 */

/* Writes next and ss of 8 columns from c; x0, next0 [H], ss0 [SS_LD] of the
 * row.  Without gamma the operand is x: the sums are those of a row whose norm
 * is a factor of 1. */
static void part_out(__global operand_t *next0, __global float *ss0,
                     __global const float *x0, __global const float *gamma,
                     ulong gamma_at, uint c)
{
    const bool bare = gamma_at == ABSENT;
    float square[NORM_PART];

    for (uint i = 0; i < NORM_PART; i++) {
        square[i] = 0.0f;
        if (c + i < H) {
            float x = x0[c + i];

            next0[c + i] = operand_of(bare ? x : x * gamma[gamma_at + c + i]);
            square[i] = bare ? (1.0f - EPS) : x * x;
        }
    }
    ss0[c / NORM_PART] = fold8(vload8(0, square));
}

__kernel void embed(__global float *x, ulong x_at, __global operand_t *next,
                    ulong next_at, __global float *ss, ulong ss_at,
                    __global const weight_t *e, ulong e_at,
                    __global const float *gamma, ulong gamma_at,
                    __global const int *meta, uint n)
{
    const uint part = get_global_id(0), t = get_global_id(1);
    const uint c = part * NORM_PART;

    if (part >= SS_LD || t >= n) {
        return;
    }
    const row_t from = row_of(matrix_of(e, e_at, (ulong)V * H),
                              (uint)meta[META_IDS + t], H);
    __global float *x0 = x + x_at + (ulong)t * H;

    for (uint i = c; i < c + NORM_PART && i < H; i++) {
        x0[i] = weight_get(from, i) * EMBED_SCALE;
    }
    part_out(next + next_at + (ulong)t * H, ss + ss_at + (ulong)t * SS_LD, x0,
             gamma, gamma_at, c);
}

__kernel void norm(__global operand_t *next, ulong next_at, __global float *ss,
                   ulong ss_at, __global const float *x, ulong x_at,
                   __global const float *gamma, ulong gamma_at,
                   __global const int *meta, uint n, uint ids)
{
    const uint part = get_global_id(0), i = get_global_id(1);

    if (part >= SS_LD || i >= n) {
        return;
    }
    const uint t = ids == UINT_MAX ? i : (uint)meta[ids + i];

    part_out(next + next_at + (ulong)i * H, ss + ss_at + (ulong)i * SS_LD,
             x + x_at + (ulong)t * H, gamma, gamma_at, part * NORM_PART);
}

__kernel void norm_add(__global float *x, ulong x_at, __global operand_t *next,
                       ulong next_at, __global float *ss, ulong ss_at,
                       __global float *y, ulong y_at,
                       __global const float *y_ss, ulong y_ss_at,
                       __global const float *by, ulong by_at,
                       __global const float *gamma, ulong gamma_at, uint n)
{
    const uint part = get_global_id(0), t = get_global_id(1);
    const uint c = part * NORM_PART;

    if (part >= SS_LD || t >= n) {
        return;
    }
    const float scale =
        by_at == ABSENT ? 1.0f
                        : norm_scale(y_ss + y_ss_at + (ulong)t * SS_LD);
    __global float *x0 = x + x_at + (ulong)t * H;
    __global float *y0 = y + y_at + (ulong)t * H;

    for (uint i = c; i < c + NORM_PART && i < H; i++) {
        float out = by_at == ABSENT ? y0[i] : y0[i] * scale * by[by_at + i];

#ifdef RESIDUAL
        out *= RESIDUAL;
#endif
        x0[i] += out;
        y0[i] = 0.0f;
    }
    part_out(next + next_at + (ulong)t * H, ss + ss_at + (ulong)t * SS_LD, x0,
             gamma, gamma_at, c);
}

__kernel void cap(__global float *l, ulong l_at, ulong n)
{
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
        const float scaled = l[l_at + i] * LOGIT_SCALE;

        l[l_at + i] = LOGIT_CAP > 0.0f ? capped(scaled, LOGIT_CAP) : scaled;
    }
}
