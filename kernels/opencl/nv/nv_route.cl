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

/* Sums a lane's columns; x: the first token's, `last` the last one's place. */
INLINE void add_columns(struct sums *sums, __global const float *x,
                        __global const float *gamma, const row_t one,
                        const row_t two, const uint last, const uint lane)
{
    #pragma unroll 2
    for (uint i = lane * 16; i + 16 <= H; i += 512) {
        const float16 g = vload16(0, gamma + i);
        const float16 a = weight_get16(one, i), b = weight_get16(two, i);

        #pragma unroll
        for (uint t = 0; t < EACH; t++) {
            const float16 n =
                vload16(0, x + (ulong)min(t, last) * H + i) * g;

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
