/* route.cl - from a token to its experts, and from their outputs to x.
 *
 *   experts_logits  logits[t, e] = norm(x[t]) . w[e] (+ bias[e]), e < N_EXPERTS;
 *                   and that of the shared expert's gate behind them
 *   experts_choose  ids[t, i], i < TOP_K: the expert of rank i; the greater
 *                   logit first, equal ones by lower index; ids[t, TOP_K], if
 *                   there are as many: the shared expert, N_EXPERTS
 *                   weights[t, i] = exp(l_i - l_0) / Z, Z over the chosen if
 *                   TOP_K_NORMED, else over all; weights[t, TOP_K]: the shared
 *                   expert's, 1 or sigmoid of its logit
 *   experts_group   order: the pairs first .. first + n, by expert; a pair is
 *                   t PAIRS + i
 *                   tiles[i] = expert, place in order, pairs: at most `tile`,
 *                   or 0
 *   experts_sum     x[t] += sum_i weights[t, i] y[t, i], i < PAIRS (+ weights[t,
 *                   TOP_K] shared[t]), in order of rank; shared[t] = 0;
 *                   then next and ss of x for the norm behind it (common.cl)
 *
 *   x       [T, H]           f32, its ss [T, SS_LD]; gamma [H] f32
 *   w       [LOGITS, H]      W_DTYPE, or quantised (common.cl)
 *   bias    [N_EXPERTS]      f32, or absent
 *   logits  [T, LOGITS]      f32
 *   ids     [T, PAIRS]       u32;  weights [T, TOP_K + 1] f32
 *   order   [n], tiles [n_tiles, 3]  u32
 *   y       [T, PAIRS, H]    f32;  shared [T, H] f32, or absent; may be x
 *
 * Launch    logits: (LOGITS / 8, T), each rounded up; choose: a group of WG per
 *           token; group: one group of WG; sum: (SS_LD, T).  Any local size but
 *           for choose and group
 * Defines   W_DTYPE, W_FORMAT, W_BITS, W_GROUP of w, OPERAND_DTYPE, WG,
 *           N_EXPERTS, TOP_K, TOP_K_NORMED, SHARED 0 none, 1 without a gate, 2
 *           with one; PAIRS: TOP_K, or one more: the shared expert is one of
 *           them; N_ALL: experts with it
 * Needs     TOP_K <= N_EXPERTS; (N_EXPERTS * 2 + 514) * 4 bytes of local memory
 * Numerics  float32; x is not rounded.  Logits: lane j of 16 sums columns j, j
 *           + 16, .. by fma, then fold16.  A token's bits depend on no other
 *           token; the order of an expert's pairs is any */
#define COLS   8 /* rows of w per work-item */
#define LOGITS (N_EXPERTS + (SHARED == 2))

__kernel void experts_logits(__global float *logits, ulong logits_at,
                             __global const float *x, ulong x_at,
                             __global const float *ss, ulong ss_at,
                             __global const float *gamma, ulong gamma_at,
                             __global const weight_t *w, ulong w_at,
                             __global const float *bias, ulong bias_at, uint first,
                             uint n)
{
    const uint j = get_global_id(0) * COLS, t = first + get_global_id(1);
    const matrix_t m = matrix_of(w, w_at, (ulong)LOGITS * H);
    float16 acc[COLS];
    row_t row[COLS];

    if (j >= LOGITS || t >= first + n) {
        return;
    }
    x += x_at + (ulong)t * H;
    gamma += gamma_at;
    for (uint c = 0; c < COLS; c++) {
        row[c] = row_of(m, min(j + c, (uint)LOGITS - 1), H);
        acc[c] = 0.0f;
    }
    for (uint i = 0; i + 16 <= H; i += 16) {
        const float16 a = vload16(0, x + i) * vload16(0, gamma + i);

        for (uint c = 0; c < COLS; c++) {
            acc[c] = fma(a, weight_get16(row[c], i), acc[c]);
        }
    }
    for (uint c = 0; H % 16 != 0 && c < COLS; c++) {
        float part[16];

        vstore16(acc[c], 0, part);
        for (uint i = H / 16 * 16; i < H; i++) {
            part[i % 16] =
                fma(x[i] * gamma[i], weight_get(row[c], i), part[i % 16]);
        }
        acc[c] = vload16(0, part);
    }
    const float scale = norm_scale(ss + ss_at + (ulong)t * SS_LD);

    for (uint c = 0; c < COLS && j + c < LOGITS; c++) {
        const bool is_biased = bias_at != ABSENT && j + c < N_EXPERTS;
        const float l = scale * fold16(acc[c]);

        logits[logits_at + (ulong)t * LOGITS + j + c] =
            is_biased ? l + bias[bias_at + j + c] : l;
    }
}

/* Orders floats as integers; a NaN is the least, and no float is 0. */
static uint order_of(float f)
{
    const uint bits = as_uint(f);

    return isnan(f) ? 1 : bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Returns the expert with the greatest key, by all work-items. */
static inline __attribute__((always_inline)) uint
best_of(__local const uint *keys, __local uint *part)
{
    const uint lane = get_local_id(0);
    uint best = 0, key = 0;

    for (uint e = lane; e < N_EXPERTS; e += WG) {
        if (keys[e] > key) {
            best = e;
            key = keys[e];
        }
    }
    part[lane] = key;
    part[WG + lane] = best;
    barrier(CLK_LOCAL_MEM_FENCE);
    key = 0;
    for (uint i = 0; i < WG; i++) {
        if (part[i] > key || (part[i] == key && part[WG + i] < best)) {
            key = part[i];
            best = part[WG + i];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return best;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
experts_choose(__global uint *ids, ulong ids_at, __global float *weights,
               ulong weights_at, __global const float *logits, ulong logits_at,
               uint first)
{
    __local uint keys[N_EXPERTS], part[2 * WG], chosen[TOP_K];
    __local float sums[WG];
    const uint lane = get_local_id(0);
    const ulong t = first + get_group_id(0);
    float top, z = 0.0f;

    logits += logits_at + t * LOGITS;
    for (uint e = lane; e < N_EXPERTS; e += WG) {
        keys[e] = order_of(logits[e]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < TOP_K; i++) {
        const uint best = best_of(keys, part);

        if (lane == 0) {
            chosen[i] = best;
            keys[best] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    top = logits[chosen[0]];
    if (TOP_K_NORMED) {
        for (uint i = 0; i < TOP_K; i++) {
            z += exp_of(logits[chosen[i]] - top);
        }
    } else {
        sums[lane] = 0.0f;
        for (uint e = lane; e < N_EXPERTS; e += WG) {
            sums[lane] += exp_of(logits[e] - top);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < WG; i++) {
            z += sums[i];
        }
    }
    for (uint i = lane; i < TOP_K; i += WG) {
        ids[ids_at + t * PAIRS + i] = chosen[i];
        weights[weights_at + t * (TOP_K + 1) + i] =
            exp_of(logits[chosen[i]] - top) / z;
    }
    if (lane == 0) {
        if (PAIRS > TOP_K) {
            ids[ids_at + t * PAIRS + TOP_K] = N_EXPERTS;
        }
        weights[weights_at + t * (TOP_K + 1) + TOP_K] =
            SHARED == 2 ? sigmoid_of(logits[LOGITS - 1]) : 1.0f;
    }
}

/* Replaces each of sums [WG] by the sum of those before it, and returns the sum
 * of all. */
static inline __attribute__((always_inline)) uint scan(__local uint *sums)
{
    const uint lane = get_local_id(0), mine = sums[lane];
    uint all;

    for (uint step = 1; step < WG; step *= 2) {
        const uint before = lane >= step ? sums[lane - step] : 0;

        barrier(CLK_LOCAL_MEM_FENCE);
        sums[lane] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    all = sums[WG - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[lane] -= mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}

#define EACH ((N_ALL + WG - 1) / WG) /* experts of a work-item */

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
experts_group(__global uint *order, ulong order_at, __global uint *tiles,
              ulong tiles_at, __global const uint *ids, ulong ids_at,
              uint first, uint n, uint n_tiles, uint tile)
{
    /* Pairs of each expert; then the next place of each in order. */
    __local uint next[N_ALL], pairs[WG], used[WG];
    const uint lane = get_local_id(0), from = lane * EACH;
    const uint to = min(from + EACH, (uint)N_ALL);
    uint at, i, all;

    ids += ids_at;
    tiles += tiles_at;
    for (uint e = lane; e < N_ALL; e += WG) {
        next[e] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint p = lane; p < n; p += WG) {
        atomic_inc(&next[ids[first + p]]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    pairs[lane] = used[lane] = 0;
    for (uint e = from; e < to; e++) {
        pairs[lane] += next[e];
        used[lane] += (next[e] + tile - 1) / tile;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    scan(pairs);
    all = scan(used);
    at = pairs[lane];
    i = used[lane];
    for (uint e = from; e < to; e++) {
        const uint count = next[e];

        next[e] = at;
        for (uint p = 0; p < count; p += tile, i++) {
            tiles[i * 3] = e;
            tiles[i * 3 + 1] = at + p;
            tiles[i * 3 + 2] = min(count - p, tile);
        }
        at += count;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (i = all + lane; i < n_tiles; i += WG) {
        tiles[i * 3 + 2] = 0;
    }
    for (uint p = lane; p < n; p += WG) {
        order[order_at + atomic_inc(&next[ids[first + p]])] = first + p;
    }
}

__kernel void experts_sum(__global float *x, ulong x_at,
                          __global operand_t *next, ulong next_at,
                          __global float *ss, ulong ss_at,
                          __global const float *y, ulong y_at,
                          __global const float *weights, ulong weights_at,
                          __global float *shared, ulong shared_at,
                          __global const float *gamma, ulong gamma_at, uint n)
{
    const uint part = get_global_id(0), t = get_global_id(1);
    const uint c = part * NORM_PART;
    float square[NORM_PART];

    if (part >= SS_LD || t >= n) {
        return;
    }
    x += x_at + (ulong)t * H;
    y += y_at + (ulong)t * PAIRS * H;
    shared += shared_at == ABSENT ? 0 : shared_at + (ulong)t * H;
    weights += weights_at + (ulong)t * (TOP_K + 1);
    for (uint i = 0; i < NORM_PART; i++) {
        square[i] = 0.0f;
        if (c + i < H) {
            float v = 0.0f;

            for (uint k = 0; k < PAIRS; k++) {
                v = fma(weights[k], y[k * H + c + i], v);
            }
            if (shared_at != ABSENT) {
                v = fma(weights[TOP_K], shared[c + i], v);
                shared[c + i] = 0.0f;
            }
            v += x[c + i];
            x[c + i] = v;
            next[next_at + (ulong)t * H + c + i] =
                operand_of(v * gamma[gamma_at + c + i]);
            square[i] = v * v;
        }
    }
    ss[ss_at + (ulong)t * SS_LD + part] = fold8(vload8(0, square));
}
