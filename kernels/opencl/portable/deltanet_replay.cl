/* deltanet_replay.cl - advances states by the first inputs that rows have kept,
 * in several layers; deltanet_tail.cl moves the tails afterwards.
 *
 *   state, tail     of the pool; conv, a_log, dt_bias: of the weights, from the
 *                   start of their memory
 *   kept            [layers, keep_tokens, KEPT_LD] f32, see deltanet.cl
 *   places, asks    see common.cl; no two asks have the same slot
 *
 * Launch    a group of WG per (key head, layer from first_layer on, ask)
 * Defines   WG 64
 * Needs     (DK + DV + WG) * 4 bytes of local memory
 * Numerics  the bits of deltanet.cl */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
deltanet_replay(__global float *state, __global const kv_t *tail,
                __global const float *conv, __global const float *a_log,
                __global const float *dt_bias, __global const float *kept,
                ulong kept_at, __global const ulong *places, ulong places_at,
                __global const uint *asks, ulong asks_at, uint first_layer,
                uint keep_tokens)
{
    __local float k[DK], v[DV], part[WG];
    const uint lane = get_local_id(0), g = get_group_id(0);
    const uint layer = first_layer + get_group_id(1);
    __global const ulong *at = PLACES(places + places_at, layer);
    __global const uint *ask = ASK(asks + asks_at, get_group_id(2));
    const past_t past = {0, 0, 0, 0};

    kept += kept_at + ((ulong)layer * keep_tokens + ask[ASK_KEPT]) * KEPT_LD;
    state += at[PLACE_STATE] + ask[ASK_SLOT] * at[PLACE_PAGE];
    tail += at[PLACE_TAIL] + ask[ASK_SLOT] * kv_per((uint)at[PLACE_PAGE]);
    conv += at[PLACE_CONV];
    for (uint i = 0; i < ask[ASK_TOKENS]; i++) {
        __global const float *now = kept + (ulong)i * KEPT_LD + KEPT_B;

        convolve_unit(k, part, kept + g * DK, KEPT_LD, tail, conv,
                      (HK + g) * DK, i, 1.0f);
        for (uint h = g * VALUES; h < (g + 1) * VALUES; h++) {
            const float decay = exp_of(
                log_decay(now[HV + h], dt_bias[at[PLACE_DT_BIAS] + h],
                          a_log[at[PLACE_A_LOG] + h]));
            const float beta = sigmoid_of(now[h]);
            const uint c = 2 * HK * DK + h * DV;

            for (uint d = lane; d < DV; d += WG) {
                v[d] = convolve(kept + c - KEPT_AT + d, KEPT_LD, tail, conv,
                                c + d, i);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint j = lane * 16; j < DV; j += WG * 16) {
                recur(state + (ulong)h * DK * DV, &past, v, k, k, decay, beta,
                      j, min(DV - j, 16u), 0);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
