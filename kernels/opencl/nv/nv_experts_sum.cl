/* nv_experts_sum.cl - adds the outputs of a token's experts to x, on NVIDIA.
 *
 * The formula and argument list are those of experts_sum of route.cl, and so
 * are the bits.  A work-item has four columns; two adjacent ones share a sum of
 * squares.
 *
 * Launch    global = (H / 4 rounded up, tokens); WG work-items
 * Defines   those of route.cl; OPERAND_DTYPE 1
 * Needs     sm_80; H a multiple of 8
 * Numerics  those of route.cl */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
experts_sum(__global float *x, ulong x_at, __global operand_t *next,
            ulong next_at, __global float *ss, ulong ss_at,
            __global const float *y, ulong y_at, __global const float *weights,
            ulong weights_at, __global float *shared, ulong shared_at,
            __global const float *gamma, ulong gamma_at, uint n)
{
    const uint c = get_global_id(0) * 4, t = get_group_id(1);
    const ulong at = (ulong)t * H + c;
    float4 v = 0.0f, square;

    weights += weights_at + (ulong)t * (TOP_K + 1);
    if (c < H) {
        __global const float *of = y + y_at + (ulong)t * PAIRS * H + c;
        __global float4 *to = (__global float4 *)(x + x_at + at);
        const float4 g = *(__global const float4 *)(gamma + gamma_at + c);

        #pragma unroll
        for (uint k = 0; k < PAIRS; k++) {
            v = fma((float4)weights[k], *(__global const float4 *)(of + k * H),
                    v);
        }
        if (shared_at != ABSENT) {
            __global float4 *s = (__global float4 *)(shared + shared_at + at);

            v = fma((float4)weights[TOP_K], *s, v);
            *s = 0.0f;
        }
        v += *to;
        *to = v;
        *(__global ushort4 *)(next + next_at + at) =
            (ushort4)(to_bf16(v.x * g.x), to_bf16(v.y * g.y),
                      to_bf16(v.z * g.z), to_bf16(v.w * g.w));
    }
    square = v * v;
    square.x += shfl_xor(square.x, 1);
    square.y += shfl_xor(square.y, 1);
    square.z += shfl_xor(square.z, 1);
    square.w += shfl_xor(square.w, 1);
    if (c < H && c % NORM_PART == 0) {
        ss[ss_at + (ulong)t * SS_LD + c / NORM_PART] =
            (square.x + square.z) + (square.y + square.w);
    }
}
