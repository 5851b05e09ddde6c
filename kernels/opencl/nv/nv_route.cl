/* nv_route.cl - the experts of generated tokens, on NVIDIA, in one launch.
 *
 * The formulas are those of experts_logits and experts_choose (route.cl).  A
 * work-group computes some logits of a token; the last one to end, by ticket,
 * chooses the token's experts with one warp.
 *
 *   tickets  [T] u32; 0 before and after
 *
 * Launch    WG = 128; groups (ceil(LOGITS / 8), tokens)
 * Defines   those of route.cl
 * Needs     sm_80; TOP_K <= N_EXPERTS, and at most 32
 * Numerics  float32; x is not rounded.  Logits: lane i of a warp has columns 16
 *           i .. 16 i + 15 of each 512, by fma in order; then fold16, then the
 *           lanes are folded.  Z is summed lane by lane.  A
 *           token's bits depend on no other token */
#define WARPS 4

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void
experts_route(__global uint *ids, ulong ids_at, __global float *weights,
              ulong weights_at, __global float *logits, ulong logits_at,
              __global uint *tickets, ulong tickets_at, __global const float *x,
              ulong x_at, __global const float *ss, ulong ss_at,
              __global const float *gamma, ulong gamma_at,
              __global const weight_t *w, ulong w_at,
              __global const float *bias, ulong bias_at)
{
    __local uint turn;
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const ulong t = get_group_id(1);
    const uint j = get_group_id(0) * (2 * WARPS) + warp * 2;
    const matrix_t m = matrix_of(w, w_at, (ulong)LOGITS * H);
    const row_t one = row_of(m, min(j, (uint)LOGITS - 1), H);
    const row_t two = row_of(m, min(j + 1, (uint)LOGITS - 1), H);
    float16 a = 0.0f, b = 0.0f;
    float scale = 0.0f;

    x += x_at + t * H;
    gamma += gamma_at;
    logits += logits_at + t * LOGITS;
    #pragma unroll 4
    for (uint i = lane * 16; i + 16 <= H; i += 512) {
        const float16 n = vload16(0, x + i) * vload16(0, gamma + i);

        a = fma(n, weight_get16(one, i), a);
        b = fma(n, weight_get16(two, i), b);
    }
    float sums[2] = {fold16(a), fold16(b)};

    /* The columns behind the last 16. */
    if (lane == 0) {
        for (uint i = H / 16 * 16; i < H; i++) {
            sums[0] = fma(x[i] * gamma[i], weight_get(one, i), sums[0]);
            sums[1] = fma(x[i] * gamma[i], weight_get(two, i), sums[1]);
        }
    }
    for (uint i = lane; i < SS_LD; i += 32) {
        scale += ss[ss_at + t * SS_LD + i];
    }
    scale = 1.0f / sqrt(fold_lanes(scale) / (float)H + EPS);
    #pragma unroll
    for (uint i = 0; i < 2; i++) {
        const float l = scale * fold_lanes(sums[i]);
        const uint e = j + i;

        if (lane == 0 && e < LOGITS) {
            logits[e] = bias_at != ABSENT && e < N_EXPERTS
                            ? l + bias[bias_at + e]
                            : l;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        turn = ticket_take(tickets + tickets_at + t);
        if (turn + 1 == get_num_groups(0)) {
            tickets[tickets_at + t] = 0;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (turn + 1 == get_num_groups(0) && warp == 0) {
        fence_device();
        choose(ids + ids_at + t * PAIRS, weights + weights_at + t * (TOP_K + 1),
               logits, lane);
    }
}
