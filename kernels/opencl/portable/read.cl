/* read.cl - measures the read bandwidth.
 *
 * Reads in [n].  out is written only if the xor of the values is a pattern
 * that does not occur, so that the compiler cannot drop the reads.
 *
 *   out  uint4 [1]
 *   in   uint4 [n]
 *
 * Launch    any number of work-items; each strides by their number
 * Numerics  none */
__kernel void read_all(__global uint4 *out, const ulong out_at,
                       __global const uint4 *in, const ulong in_at,
                       const ulong n)
{
    const ulong stride = get_global_size(0);
    uint4 a = (uint4)(0), b = (uint4)(0);
    ulong i = get_global_id(0);

    for (; i + stride < n; i += 2 * stride) {
        a ^= in[in_at + i];
        b ^= in[in_at + i + stride];
    }
    for (; i < n; i += stride) {
        a ^= in[in_at + i];
    }
    a ^= b;
    if (a.x == 0x5eed5eed && a.y == 0x5eed5eed && a.z == 1 && a.w == 2) {
        out[out_at] = a;
    }
}
