/* nv_deltanet_replay.cl - advances states by the first inputs that rows have
 * kept, in several layers at once; deltanet_tail.cl moves the tails afterwards.
 *
 *   state, tail     of the pool; conv, a_log, dt_bias: of the weights, from the
 *                   start of their memory
 *   kept            [layers, keep_tokens, KEPT_LD] f32, see deltanet.cl
 *   places, asks    see common.cl; no two asks have the same slot
 *
 * nv_deltanet_row.cl precedes this file.  AHEAD tokens are convolved at a time.
 *
 * Launch    WG = 256; groups (HV, layers from first_layer on, asks)
 * Defines   DK = DV = 128; CONV 2..8; AHEAD
 * Needs     sm_80; states 16-byte aligned
 * Numerics  the bits of nv_deltanet_decode.cl */
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_replay(__global float *state, __global const kv_t *tail,
                __global const float *conv, __global const float *a_log,
                __global const float *dt_bias, __global const float *kept,
                const ulong kept_at, __global const ulong *places,
                const ulong places_at, __global const uint *asks,
                const ulong asks_at, const uint first_layer,
                const uint keep_tokens)
{
    __local float ks[AHEAD][DK], squares[AHEAD][4], gates[AHEAD][2];
    __local float v[AHEAD][DV] __attribute__((aligned(16)));
    __local float4 sums[QUADS][DV / 4];
    const uint lane = get_local_id(0), warp = lane / 32;
    const uint head = get_group_id(0), layer = first_layer + get_group_id(1);
    __global const ulong *at = PLACES(places + places_at, layer);
    __global const uint *ask = ASK(asks + asks_at, get_group_id(2));
    const uint n = ask[ASK_TOKENS];
    const uint quad = warp / 4;
    const uint col = warp % 4 * 32 + lane % 8 * 4;
    const uint from = quad * 4 + lane % 32 / 8; /* rows from + STRIDE i */
    const uint k_channel = HK * DK + head / HEADS * DK + lane;
    const uint v_lane = LANES - DV; /* the last DV work-items convolve v */
    const uint v_channel = 2 * HK * DK + head * DV + lane - v_lane;
    __global float4 *mine =
        (__global float4 *)(state + at[PLACE_STATE] +
                            ask[ASK_SLOT] * at[PLACE_PAGE] +
                            (ulong)head * (DK * DV) + from * DV + col);
    float4 s[ROWS];

    tail += at[PLACE_TAIL] + ask[ASK_SLOT] * kv_per((uint)at[PLACE_PAGE]);
    conv += at[PLACE_CONV];
    kept += kept_at + ((ulong)layer * keep_tokens + ask[ASK_KEPT]) * KEPT_LD;
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        s[i] = mine[i * (STRIDE * DV / 4)];
    }
    for (uint t = 0; t < n; t++) {
        const uint slice = t % AHEAD;
        __local const float *k = ks[slice] + from;
        float4 m, d;

        if (slice == 0) {
#pragma unroll
            for (uint i = 0; i < AHEAD; i++) {
                const uint now = t + i < n ? t + i : n - 1;
                __global const float *gate =
                    kept + now * (ulong)KEPT_LD + KEPT_B + head;

                if (lane < DK) {
                    const float b = convolve(kept + k_channel - KEPT_AT,
                                             KEPT_LD, tail, conv, (int)now,
                                             k_channel);
                    const float kk = warp_sum(b * b);

                    ks[i][lane] = b;
                    if (lane % 32 == 0) {
                        squares[i][warp] = kk;
                    }
                }
                if (lane >= v_lane) {
                    v[i][lane - v_lane] =
                        convolve(kept + v_channel - KEPT_AT, KEPT_LD, tail,
                                 conv, (int)now, v_channel);
                }
                if (lane == LANES - 1) {
                    gates[i][0] = sigmoid_of(gate[0]);
                    gates[i][1] =
                        decay_of(gate[HV], dt_bias[at[PLACE_DT_BIAS] + head],
                                 a_log[at[PLACE_A_LOG] + head]);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        const float beta = gates[slice][0], decay = gates[slice][1];
        const float k_scale = unit_scale(squares[slice]);

        m = rows_sum(decayed(s, decay, k, k_scale));
        if (lane % 32 < 8) {
            sums[quad][col / 4] = m;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        m = quads_sum(sums, col / 4);
        d = beta * (*(__local const float4 *)(v[slice] + col) - m);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            s[i] = scaled(k[STRIDE * i] * k_scale, d, s[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        mine[i * (STRIDE * DV / 4)] = s[i];
    }
}
