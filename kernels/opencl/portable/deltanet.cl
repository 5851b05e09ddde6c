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
 *   o, tickets: unused here; for kernels that share a head among groups
 *
 * Inputs before the row's first token come from the tail.  All past inputs are
 * rounded to the tail's dtype.  Where the row has a save, state and tail are
 * also written to the save's page.
 *
 * Launch    a group of WG per (key head, row)
 * Defines   WG 64, OPERAND_DTYPE
 * Needs     (2 DK + DV + WG) * 4 bytes of local memory
 * Numerics  float32; the same arithmetic for both kinds of rows, token by
 *           token; sums over DK: four partial sums by i mod 4, then
 *           (0+1) + (2+3), as on the cpu */
#define VALUES (HV / HK) /* value heads of a key head */
#define Z_AT   C
#define B_AT   (C + HV * DV)
#define A_AT   (B_AT + HV)
#define IN_LD  (A_AT + HV)
#define L2_EPS 1e-6f

/* Sums x of all work-items, in order. */
static float sum_of(__local float *part, float x)
{
    float sum = 0.0f;

    barrier(CLK_LOCAL_MEM_FENCE);
    part[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < WG; i++) {
        sum += part[i];
    }
    return sum;
}

/* Convolves channel c at the row's token i; in0 is the input of its first
 * token. */
static float convolve(__global const float *in0, __global const kv_t *tail,
                      __global const float *conv, uint c, uint i)
{
    float sum = 0.0f;

    for (uint j = 0; j + 1 < CONV; j++) {
        const uint at = i + j;
        const float u =
            at < CONV - 1
                ? kv_get(tail, (ulong)at * C + c)
                : kv_rounded(in0[(ulong)(at - (CONV - 1)) * IN_LD + c]);

        sum = fma(conv[c * CONV + j], u, sum);
    }
    sum = fma(conv[c * CONV + CONV - 1], in0[(ulong)i * IN_LD + c], sum);
    return silu_of(sum);
}

/* out [2, DK] := q and k of key head g, each normalised to a unit vector; q is
 * also scaled by 1 / sqrt(DK). */
static void convolve_units(__local float *out, __local float *part,
                           __global const float *in0,
                           __global const kv_t *tail,
                           __global const float *conv, uint g, uint i)
{
    const uint lane = get_local_id(0);
    const float scale = 1.0f / sqrt((float)DK);

    for (uint of = 0; of < 2; of++) {
        __local float *to = out + of * DK;
        float square = 0.0f, unit;

        for (uint d = lane; d < DK; d += WG) {
            to[d] = convolve(in0, tail, conv, (of * HK + g) * DK + d, i);
            square = fma(to[d], to[d], square);
        }
        unit = 1.0f / sqrt(sum_of(part, square) + L2_EPS);
        for (uint d = lane; d < DK; d += WG) {
            to[d] = of == 0 ? to[d] * unit * scale : to[d] * unit;
        }
    }
}

static float16 get_n(__global const float *p, uint n)
{
    float part[16];

    if (n >= 16) {
        return vload16(0, p);
    }
    for (uint j = 0; j < 16; j++) {
        part[j] = j < n ? p[j] : 0.0f;
    }
    return vload16(0, part);
}

static void put_n(__global float *p, float16 a, uint n)
{
    float part[16];

    if (n >= 16) {
        vstore16(a, 0, p);
        return;
    }
    vstore16(a, 0, part);
    for (uint j = 0; j < n; j++) {
        p[j] = part[j];
    }
}

/* Advances columns j .. j + n of a state by one token; v becomes o. */
static void recur(__global float *s, __local float *v, __local const float *q,
                  __local const float *k, float decay, float beta, uint j,
                  uint n)
{
    float16 part[4], out[4], d;
    float o[16];

    for (uint h = 0; h < 4; h++) {
        part[h] = 0.0f;
        out[h] = 0.0f;
    }
    for (uint i = 0; i < DK; i += 4) {
        #pragma unroll
        for (uint h = 0; h < 4; h++) {
            if (i + h < DK) {
                float16 a = decay * get_n(s + (ulong)(i + h) * DV + j, n);

                part[h] = fma((float16)k[i + h], a, part[h]);
            }
        }
    }
    for (uint i = 0; i < 16; i++) {
        o[i] = i < n ? v[j + i] : 0.0f;
    }
    d = beta * (vload16(0, o) - ((part[0] + part[1]) + (part[2] + part[3])));
    for (uint i = 0; i < DK; i += 4) {
        #pragma unroll
        for (uint h = 0; h < 4; h++) {
            if (i + h < DK) {
                __global float *at = s + (ulong)(i + h) * DV + j;
                float16 a = fma((float16)k[i + h], d, decay * get_n(at, n));

                put_n(at, a, n);
                out[h] = fma((float16)q[i + h], a, out[h]);
            }
        }
    }
    vstore16((out[0] + out[1]) + (out[2] + out[3]), 0, o);
    for (uint i = 0; i < n; i++) {
        v[j + i] = o[i];
    }
}

/* -exp(a_log) softplus(a + dt_bias). */
static float log_decay(float a, float dt_bias, float a_log)
{
    float x = a + dt_bias;

    return -exp_of(a_log) * (x > 20.0f ? x : log1p(exp_of(x)));
}

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

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
deltanet(__global operand_t *y, ulong y_at, __global float *o, ulong o_at,
         __global uint *tickets, ulong tickets_at, __global float *state,
         ulong state_at, __global kv_t *tail, ulong tail_at, uint page,
         __global const float *in, ulong in_at, __global const float *conv,
         ulong conv_at, __global const float *a_log, ulong a_log_at,
         __global const float *dt_bias, ulong dt_bias_at,
         __global const float *norm, ulong norm_at, __global const int *meta,
         uint first_row, uint n_rows)
{
    __local float qk[2 * DK], v[DV], part[WG];
    const uint lane = get_local_id(0), g = get_group_id(0);
    __global const int *row = ROW(meta, first_row + get_group_id(1));
    const ulong first = row[ROW_FIRST], slot = (uint)row[ROW_SLOT];
    const uint n = row[ROW_TOKENS];
    __global const float *in0 = in + in_at + first * IN_LD;
    __global float *state0 = state + state_at + slot * page;
    __global kv_t *tail0 = tail + tail_at + slot * kv_per(page);
    __global const float *w = conv + conv_at;
    uint save = 0, save_at = SAVE_TOKENS(meta, row, save);

    for (uint i = 0; i < n; i++) {
        __global const float *now = in0 + (ulong)i * IN_LD;

        convolve_units(qk, part, in0, tail0, w, g, i);
        for (uint h = g * VALUES; h < (g + 1) * VALUES; h++) {
            __global float *s = state0 + (ulong)h * DK * DV;
            const float decay = exp_of(log_decay(
                now[A_AT + h], dt_bias[dt_bias_at + h], a_log[a_log_at + h]));
            const float beta = sigmoid_of(now[B_AT + h]);
            float square = 0.0f, unit;

            for (uint d = lane; d < DV; d += WG) {
                v[d] = convolve(in0, tail0, w, 2 * HK * DK + h * DV + d, i);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint j = lane * 16; j < DV; j += WG * 16) {
                recur(s, v, qk, qk + DK, decay, beta, j, min(DV - j, 16u));
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint d = lane; d < DV; d += WG) {
                square = fma(v[d], v[d], square);
            }
            unit = 1.0f / sqrt(sum_of(part, square) / (float)DV + EPS);
            for (uint d = lane; d < DV; d += WG) {
                const float z = now[Z_AT + h * DV + d];

                y[y_at + ((first + i) * HV + h) * DV + d] = operand_of(
                    v[d] * unit * norm[norm_at + d] * silu_of(z));
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (i + 1 == save_at) {
            const ulong at = SAVE_PAGE(meta, row, save);

            barrier(CLK_GLOBAL_MEM_FENCE); /* the state is written */
            copy_states(state + state_at + at * page, state0, g);
            shift_tails(tail + tail_at + at * kv_per(page), tail0, in0, g,
                        i + 1);
            barrier(CLK_GLOBAL_MEM_FENCE); /* and read */
            save++;
            save_at = SAVE_TOKENS(meta, row, save);
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE); /* all work-items have read the old tail */
    shift_tails(tail0, tail0, in0, g, n);
}
