/* deltanet.cl - a Gated DeltaNet layer between its two products.
 *
 * For each token of a row, in order, and each value head h of key head g:
 *     c = silu(sum_{j<CONV} conv[., j] u_{t-CONV+1+j}) of q_g, k_g and v_h
 *     q = q / sqrt(sum q^2 + 1e-6) / sqrt(DK);  k = k / sqrt(sum k^2 + 1e-6)
 *     beta = sigmoid(b_h);  decay = exp(-exp(a_log_h) softplus(a_h + dt_h))
 *     S = decay S;  d = beta (v - k'S);  S = S + k d';  o = q'S
 *     y[t, h] = operand(norm(o, norm over DV) silu(z[t, h]))
 *
 *   in     [T, IN_LD] f32: u (q [HK, DK], k [HK, DK], v [HV, DV]), z [HV, DV],
 *          b [HV], a [HV]
 *   y      [T, HV, DV] operand dtype
 *   state  of the layer: slot s is [HV, DK, DV] f32 at s * page; tail: [CONV -
 *          1, C] KV_DTYPE at as many bytes.  page: floats of a page
 *   conv   [C, CONV], a_log, dt_bias [HV], norm [DV] f32
 *   kept   [.., KEPT_LD] f32, kept_q [.., HK, DK] KV_DTYPE: of the layer, the
 *          inputs k, v, b, a and q of rows that keep
 *
 * Inputs before the row's first token come from the tail.  All past inputs are
 * rounded to the tail's dtype.  Where the row has a save, state and tail are
 * also written to the save's page.
 *
 * A row that keeps leaves state and tail as they are, and writes its inputs to
 * kept and kept_q.  Each of its tokens advances the old state by the tokens
 * before it anew, element by element as they would have, from their k, d and
 * decay.
 *
 * deltanet_row.cl precedes this file.
 *
 * Launch    a group of WG per (key head, row)
 * Defines   WG 64, OPERAND_DTYPE, KEEP most tokens of a row that keeps
 * Needs     (2 DK + DV + WG + KEEP (DK + DV + 1)) * 4 bytes of local memory
 * Numerics  float32; the same arithmetic for both kinds of rows, token by
 *           token; sums over DK: four partial sums by i mod 4, then
 *           (0+1) + (2+3), as on the cpu */

/* The last CONV - 1 of n tokens of channel c become the tail `to`, which may be
 * the old one. */
static void shift_tail(__global kv_t *to, __global const kv_t *tail,
                       __global const float *in0, uint c, uint n)
{
    kv_t fresh[CONV];

    for (uint j = 0; j + 1 < CONV; j++) {
        const uint at = n + j;

        fresh[j] = at < CONV - 1
                       ? tail[(ulong)at * C + c]
                       : kv_of(in0[(ulong)(at - (CONV - 1)) * IN_LD + c]);
    }
    for (uint j = 0; j + 1 < CONV; j++) {
        to[(ulong)j * C + c] = fresh[j];
    }
}

/* The same for all channels of key head g. */
static void shift_tails(__global kv_t *to, __global const kv_t *tail,
                        __global const float *in0, uint g, uint n)
{
    const uint lane = get_local_id(0);

    for (uint d = lane; d < DK; d += WG) {
        shift_tail(to, tail, in0, g * DK + d, n);
        shift_tail(to, tail, in0, (HK + g) * DK + d, n);
    }
    for (uint d = lane; d < VALUES * DV; d += WG) {
        shift_tail(to, tail, in0, 2 * HK * DK + g * VALUES * DV + d, n);
    }
}

/* Copies the states of key head g. */
static void copy_states(__global float *to, __global const float *from, uint g)
{
    const ulong end = (ulong)(g + 1) * VALUES * DK * DV;

    for (ulong i = (ulong)g * VALUES * DK * DV + get_local_id(0); i < end;
         i += WG) {
        to[i] = from[i];
    }
}

/* Where a row's values are, for the functions below. */
typedef struct {
    __global const float *in; /* its first token's */
    __global const float *conv, *a_log, *dt_bias, *norm;
    __global float *state;
    __global kv_t *tail;
    __local float *q, *v, *part;
} row_of_t;

/* Computes y [DV] of value head h at token i, from q and k of its key head.  A
 * row that keeps adds the token to the past. */
static void run_head(__global operand_t *y, const row_of_t *r, past_t *past,
                     __local const float *k, uint h, uint i, bool keep)
{
    const uint lane = get_local_id(0);
    __global const float *now = r->in + (ulong)i * IN_LD;
    __global float *s = r->state + (ulong)h * DK * DV;
    const float decay =
        exp_of(log_decay(now[A_AT + h], r->dt_bias[h], r->a_log[h]));
    const float beta = sigmoid_of(now[B_AT + h]);
    const uint c = 2 * HK * DK + h * DV;
    float square = 0.0f, unit;

    for (uint d = lane; d < DV; d += WG) {
        r->v[d] = convolve(r->in + c + d, IN_LD, r->tail, r->conv, c + d, i);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = lane * 16; j < DV; j += WG * 16) {
        recur(s, past, r->v, r->q, k, decay, beta, j, min(DV - j, 16u),
              keep ? past->d + i * DV : (__local float *)0);
    }
    if (keep) {
        if (lane == 0) {
            past->decay[i] = decay;
        }
        past->n++;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = lane; d < DV; d += WG) {
        square = fma(r->v[d], r->v[d], square);
    }
    unit = 1.0f / sqrt(sum_of(r->part, square) / (float)DV + EPS);
    for (uint d = lane; d < DV; d += WG) {
        const float z = now[Z_AT + h * DV + d];

        y[d] = operand_of(r->v[d] * unit * r->norm[d] * silu_of(z));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* q and k of key head g at token i. */
static void convolve_units(const row_of_t *r, __local float *k, uint g, uint i)
{
    convolve_unit(r->q, r->part, r->in + g * DK, IN_LD, r->tail, r->conv,
                  g * DK, i, 1.0f / sqrt((float)DK));
    convolve_unit(k, r->part, r->in + (HK + g) * DK, IN_LD, r->tail, r->conv,
                  (HK + g) * DK, i, 1.0f);
}

/* Writes the inputs of n tokens of key head g. */
static void keep_inputs(__global float *kept, __global kv_t *kept_q,
                        __global const float *in, uint g, uint n)
{
    const uint lane = get_local_id(0), v = 2 * HK * DK + g * VALUES * DV;

    for (uint i = 0; i < n; i++) {
        __global const float *now = in + (ulong)i * IN_LD;
        __global float *to = kept + (ulong)i * KEPT_LD;

        for (uint d = lane; d < DK; d += WG) {
            kept_q[(ulong)i * (HK * DK) + g * DK + d] = kv_of(now[g * DK + d]);
            to[g * DK + d] = now[(HK + g) * DK + d];
        }
        for (uint d = lane; d < VALUES * DV; d += WG) {
            to[v - KEPT_AT + d] = now[v + d];
        }
        for (uint h = g * VALUES + lane; h < (g + 1) * VALUES; h += WG) {
            to[KEPT_B + h] = now[B_AT + h];
            to[KEPT_B + HV + h] = now[A_AT + h];
        }
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
deltanet(__global operand_t *y, ulong y_at, __global float *kept,
         ulong kept_at, __global kv_t *kept_q, ulong kept_q_at,
         __global float *state, ulong state_at, __global kv_t *tail,
         ulong tail_at, uint page, __global const float *in, ulong in_at,
         __global const float *conv, ulong conv_at, __global const float *a_log,
         ulong a_log_at, __global const float *dt_bias, ulong dt_bias_at,
         __global const float *norm, ulong norm_at, __global const int *meta,
         uint first_row, uint n_rows)
{
    __local float q[DK], k[DK], v[DV], part[WG];
    __local float past_k[KEEP * DK], past_d[KEEP * DV], past_decay[KEEP];
    const uint g = get_group_id(0);
    __global const int *row = ROW(meta, first_row + get_group_id(1));
    const ulong first = row[ROW_FIRST], slot = (uint)row[ROW_SLOT];
    const uint n = row[ROW_TOKENS], keep = row[ROW_KEEP];
    const row_of_t r = {in + in_at + first * IN_LD,
                        conv + conv_at,
                        a_log + a_log_at,
                        dt_bias + dt_bias_at,
                        norm + norm_at,
                        state + state_at + slot * page,
                        tail + tail_at + slot * kv_per(page),
                        q,
                        v,
                        part};
    past_t past = {past_k, past_d, past_decay, 0};
    uint save = 0, save_at = SAVE_TOKENS(meta, row, save);

    y += y_at + first * (HV * DV);
    if (keep > 0) {
        keep_inputs(kept + kept_at + (ulong)(keep - 1) * KEPT_LD,
                    kept_q + kept_q_at + (ulong)(keep - 1) * (HK * DK), r.in, g,
                    n);
        /* Head by head, as the past is one head's. */
        for (uint h = g * VALUES; h < (g + 1) * VALUES; h++) {
            past.n = 0;
            for (uint i = 0; i < n; i++) {
                convolve_units(&r, past_k + i * DK, g, i);
                run_head(y + ((ulong)i * HV + h) * DV, &r, &past,
                         past_k + i * DK, h, i, true);
            }
        }
        return;
    }
    for (uint i = 0; i < n; i++) {
        convolve_units(&r, k, g, i);
        for (uint h = g * VALUES; h < (g + 1) * VALUES; h++) {
            run_head(y + ((ulong)i * HV + h) * DV, &r, &past, k, h, i, false);
        }
        if (i + 1 == save_at) {
            const ulong at = SAVE_PAGE(meta, row, save);

            barrier(CLK_GLOBAL_MEM_FENCE); /* the state is written */
            copy_states(state + state_at + at * page, r.state, g);
            shift_tails(tail + tail_at + at * kv_per(page), r.tail, r.in, g,
                        i + 1);
            barrier(CLK_GLOBAL_MEM_FENCE); /* and read */
            save++;
            save_at = SAVE_TOKENS(meta, row, save);
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE); /* all work-items have read the old tail */
    shift_tails(r.tail, r.tail, r.in, g, n);
}
