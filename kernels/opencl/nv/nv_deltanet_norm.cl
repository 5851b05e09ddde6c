/* nv_deltanet_norm.cl - the Gated DeltaNet of prompt rows, last of three
 * kernels: the gated norm.
 *
 *     y = o / sqrt(mean(o^2) + EPS) * norm * silu(z)      head by head
 *
 *   y     [T, HV, DV]             operand dtype
 *   o     [T, HV, DV]             f32: left in v by nv_deltanet_scan.cl
 *   in    [T, C + HV DV + 2 HV]   f32; only z is read
 *   norm  [DV]                    f32
 *
 * Launch    WG = 256, a warp a head; groups ((HV + 7) / 8, n_tokens)
 * Defines   DV = 128; HV even
 * Needs     sm_80; all 16-byte aligned
 * Numerics  f32; squares of 4 columns, then a tree over the warp */
#define LANES 256
#define IN_LD (C + HV * DV + 2 * HV)

INLINE float warp_sum(float x)
{
    x += shfl_xor(x, 16);
    x += shfl_xor(x, 8);
    x += shfl_xor(x, 4);
    x += shfl_xor(x, 2);
    return x + shfl_xor(x, 1);
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_norm(__global operand_t *y, const ulong y_at, __global const float *o,
              const ulong o_at, __global const float *in, const ulong in_at,
              __global const float *norm, const ulong norm_at,
              const uint first_token, const uint n_tokens)
{
    const uint d = get_local_id(0) % 32 * 4;
    const uint head = get_group_id(0) * (LANES / 32) + get_local_id(0) / 32;
    const ulong token = first_token + get_group_id(1);

    if (head >= HV) {
        return;
    }

    const ulong at = (token * HV + head) * DV + d;
    const float4 x = *(__global const float4 *)(o + o_at + at);
    const float4 z = *(__global const float4 *)(in + in_at + token * IN_LD + C +
                                                head * DV + d);
    const float4 w = *(__global const float4 *)(norm + norm_at + d);
    const float sum =
        warp_sum(fma(x.s0, x.s0, x.s1 * x.s1) + fma(x.s2, x.s2, x.s3 * x.s3));
    const float scale = 1.0f / sqrt(sum / (float)DV + EPS);

    y += y_at + at;
    y[0] = operand_of(x.s0 * scale * w.s0 * silu_of(z.s0));
    y[1] = operand_of(x.s1 * scale * w.s1 * silu_of(z.s1));
    y[2] = operand_of(x.s2 * scale * w.s2 * silu_of(z.s2));
    y[3] = operand_of(x.s3 * scale * w.s3 * silu_of(z.s3));
}
