/* noise.cl - fills a tensor with pseudo-random values.
 *
 * out[i] = width u_i, u_i uniform in [-1, 1) and drawn from (seed, i),
 * 0 <= i < n; n counts pieces of 16 bytes
 *
 *   out  uint4 [n]: elements of NOISE_DTYPE
 *
 * Launch    any number of work-items; each strides by their number
 * Defines   NOISE_DTYPE 0 f32, 1 bf16, 2 f16, 3 raw bits, 4 E4M3, at most 1.875
 * Numerics  16 bits of u in a 16-bit element, 24 in a float32 */
static uint mix(uint x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

static uint word(const uint bits, const float width)
{
#if NOISE_DTYPE == 3
    return bits;
#elif NOISE_DTYPE == 4
    return bits & 0xbfbfbfbfu; /* no NaN */
#elif NOISE_DTYPE == 0
    return as_uint(width * 0x1p-23f * (float)((int)bits >> 8));
#else
    const float low = width * 0x1p-15f * (float)(short)(bits & 0xffff);
    const float high = width * 0x1p-15f * (float)(short)(bits >> 16);
#if NOISE_DTYPE == 1
    return (uint)to_bf16(high) << 16 | to_bf16(low);
#else
    return (uint)to_f16(high) << 16 | to_f16(low);
#endif
#endif
}

__kernel void noise(__global uint4 *out, const ulong at, const ulong seed,
                    const float width, const ulong n)
{
    const uint key = mix((uint)seed ^ mix((uint)(seed >> 32)));

    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint x = (uint)i * 4 ^ mix(key + (uint)(i >> 30));

        out[at + i] = (uint4)(word(mix(x), width), word(mix(x + 1), width),
                              word(mix(x + 2), width), word(mix(x + 3), width));
    }
}
