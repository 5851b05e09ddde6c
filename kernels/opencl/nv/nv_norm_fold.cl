/* nv_norm_fold.cl - folds the sums of squares of a token into one.
 *
 *     ss[t, 0] = sum_i ss[t, i];  ss[t, i] = 0 for i > 0
 *
 * The sum of all is unchanged.  nv_matmul_prefill.cl reads only the first.
 *
 *   ss     [T, SS_LD] f32; tokens first .. first + n_rows
 *
 * Launch    256 work-items, a warp a token; dim 0: ceil(n_rows / 8)
 * Needs     sm_80
 * Numerics  lane i of 32 sums i, i + 32, ..; lanes are folded i and i + 16,
 *           then + 8, + 4, + 2, + 1 */
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
norm_fold(__global float *ss, ulong ss_at, uint first, uint n_rows)
{
    const uint lane = get_local_id(0) % 32;
    const uint t = get_group_id(0) * 8 + get_local_id(0) / 32;
    __global float *of = ss + ss_at + (ulong)(first + t) * SS_LD;
    float sum = 0.0f;

    if (t >= n_rows) {
        return;
    }
    #pragma unroll 4
    for (uint i = lane; i < SS_LD; i += 32) {
        sum += of[i];
        of[i] = 0.0f;
    }
    #pragma unroll
    for (uint m = 16; m > 0; m /= 2) {
        sum += shfl_xor(sum, m);
    }
    if (lane == 0) {
        of[0] = sum;
    }
}
