/* rate.cl - the float32 rate.
 *
 * x = a x + b, repeatedly, in registers: multiplications and additions in
 * float32.
 *
 *   out  float [items]: the sum of x, so that nothing is optimised away
 *
 * Launch    any number of work-items; 2 * RATE_FLOATS * n operations each
 * Defines   RATE_FLOATS 128 */
__kernel void rate(__global float *out, const float a, const float b,
                   const uint n)
{
    float16 x[RATE_FLOATS / 16];

    for (int i = 0; i < RATE_FLOATS / 16; i++) {
        x[i] = (float16)(0.001f * (float)(get_global_id(0) % 1024 + i));
    }
    for (uint k = 0; k < n; k++) {
#pragma unroll
        for (int i = 0; i < RATE_FLOATS / 16; i++) {
            x[i] = fma(x[i], (float16)(a), (float16)(b));
        }
    }
    for (int i = 1; i < RATE_FLOATS / 16; i++) {
        x[0] += x[i];
    }
    x[0].lo += x[0].hi;
    x[0].lo.lo += x[0].lo.hi;
    out[get_global_id(0)] = x[0].s0 + x[0].s1 + x[0].s2 + x[0].s3;
}
