/* nv_route.cl - the experts of generated tokens, on NVIDIA, in one launch.
 *
 * The formulas are those of experts_logits and experts_choose (route.cl).  A
 * work-group computes some logits of EACH tokens; the last one to end, by
 * ticket, chooses their experts, with one warp each.
 *
 *   tickets  [T / EACH] u32; 0 before and after
 *
 * Launch    WG = 128; groups (ceil(LOGITS / 8), ceil(n / EACH))
 * Defines   those of route.cl; TILE_ROWS: 1 to 4
 * Needs     sm_80; TOP_K <= N_EXPERTS, and at most 32
 * Numerics  float32; x is not rounded.  Logits: lane i of a warp has columns 16
 *           i .. 16 i + 15 of each 512; four sums of them, by column mod 4, by
 *           fma in order; then the lanes are folded.  Z is summed lane by lane.  A
 *           token's bits depend on no other token */
#define WARPS  4
#define EACH   TILE_ROWS /* tokens; at most WARPS */

/* Sums of two rows of w, for each of EACH tokens. */
struct sums {
    float4 of[EACH][2];
};

INLINE float4 add16(const float16 n, const float16 w, float4 acc)
{
    acc = fma(n.lo.lo, w.lo.lo, acc);
    acc = fma(n.lo.hi, w.lo.hi, acc);
    acc = fma(n.hi.lo, w.hi.lo, acc);
    return fma(n.hi.hi, w.hi.hi, acc);
}

/* Returns 16 floats at a place that is a multiple of 4. */
INLINE float16 load16(__global const float *x)
{
    __global const float4 *v = (__global const float4 *)x;

    return (float16)(v[0], v[1], v[2], v[3]);
}

/* Returns 16 columns of a row of w, the first a multiple of 16. */
INLINE float16 row16(const row_t row, const uint i)
{
#if SPAN == 1 && defined(W_DTYPE) && W_DTYPE == 1
    __global const uint4 *v = (__global const uint4 *)(row.w + i);
    const uint4 a = v[0], b = v[1];

    return (float16)(bf16_low(a.x), bf16_high(a.x), bf16_low(a.y),
                     bf16_high(a.y), bf16_low(a.z), bf16_high(a.z),
                     bf16_low(a.w), bf16_high(a.w), bf16_low(b.x),
                     bf16_high(b.x), bf16_low(b.y), bf16_high(b.y),
                     bf16_low(b.z), bf16_high(b.z), bf16_low(b.w),
                     bf16_high(b.w));
#else
    return weight_get16(row, i);
#endif
}

/* Sums a lane's columns; x: the first token's, `last` the last one's place. */
INLINE void add_columns(struct sums *sums, __global const float *x,
                        __global const float *gamma, const row_t one,
                        const row_t two, const uint last, const uint lane)
{
    #pragma unroll 3
    for (uint i = lane * 16; i + 16 <= H; i += 512) {
        const float16 g = load16(gamma + i);
        const float16 a = row16(one, i), b = row16(two, i);

        #pragma unroll
        for (uint t = 0; t < EACH; t++) {
            const float16 n = load16(x + (ulong)min(t, last) * H + i) * g;

            sums->of[t][0] = add16(n, a, sums->of[t][0]);
            sums->of[t][1] = add16(n, b, sums->of[t][1]);
        }
    }
    /* The columns behind the last 16. */
    for (uint i = H / 16 * 16 + lane; i < H; i += 32) {
        #pragma unroll
        for (uint t = 0; t < EACH; t++) {
            const float n = x[(ulong)min(t, last) * H + i] * gamma[i];

            sums->of[t][0].s0 =
                fma(n, weight_get(one, i), sums->of[t][0].s0);
            sums->of[t][1].s0 =
                fma(n, weight_get(two, i), sums->of[t][1].s0);
        }
    }
}

/* 1 / sqrt(mean of squares + eps) of a token, with one warp. */
INLINE float scale_of(__global const float *ss, const uint lane)
{
    float sum = 0.0f;

    #pragma unroll 8
    for (uint i = lane; i < SS_LD; i += 32) {
        sum += ss[i];
    }
    return 1.0f / sqrt(fold_lanes(sum) / (float)H + EPS);
}

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void
experts_route(__global uint *ids, ulong ids_at, __global float *weights,
              ulong weights_at, __global float *logits, ulong logits_at,
              __global uint *tickets, ulong tickets_at, __global const float *x,
              ulong x_at, __global const float *ss, ulong ss_at,
              __global const float *gamma, ulong gamma_at,
              __global const weight_t *w, ulong w_at,
              __global const float *bias, ulong bias_at, uint n)
{
    __local uint turn;
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint first = get_group_id(1) * EACH;
    const uint last = min(n - first, (uint)EACH) - 1;
    const uint j = get_group_id(0) * (2 * WARPS) + warp * 2;
    const matrix_t m = matrix_of(w, w_at, (ulong)LOGITS * H);
    const row_t one = row_of(m, min(j, (uint)LOGITS - 1), H);
    const row_t two = row_of(m, min(j + 1, (uint)LOGITS - 1), H);
    struct sums sums = {{{0.0f}}};

    add_columns(&sums, x + x_at + (ulong)first * H, gamma + gamma_at, one, two,
                last, lane);
    logits += logits_at + (ulong)first * LOGITS;
    #pragma unroll
    for (uint t = 0; t < EACH; t++) {
        const float scale = scale_of(
            ss + ss_at + (ulong)(first + min(t, last)) * SS_LD, lane);

        #pragma unroll
        for (uint i = 0; i < 2; i++) {
            const float4 v = sums.of[t][i];
            const float l = scale * fold_lanes((v.s0 + v.s1) + (v.s2 + v.s3));
            const uint e = j + i;

            if (lane == 0 && t <= last && e < LOGITS) {
                logits[t * LOGITS + e] = bias_at != ABSENT && e < N_EXPERTS
                                             ? l + bias[bias_at + e]
                                             : l;
            }
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        turn = ticket_take(tickets + tickets_at + get_group_id(1));
        if (turn + 1 == get_num_groups(0)) {
            tickets[tickets_at + get_group_id(1)] = 0;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (turn + 1 == get_num_groups(0) && warp <= last) {
        const ulong t = first + warp;

        fence_device();
        choose(ids + ids_at + t * PAIRS, weights + weights_at + t * (TOP_K + 1),
               logits + warp * LOGITS, lane);
    }
}
