/* fill.cl - fills memory with a value.
 *
 * out[i] = value, 0 <= i < n
 *
 *   fill      uint4: out [n] of 16 bytes
 *   fill16    ushort: out [n] of 2 bytes
 *
 * Launch    any number of work-items; each strides by their number
 * Numerics  copies bits */
__kernel void fill(__global uint4 *out, const ulong at, const uint value,
                   const ulong n)
{
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
        out[at + i] = (uint4)(value);
    }
}

__kernel void fill16(__global ushort *out, const ulong at, const uint value,
                     const ulong n)
{
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
        out[at + i] = (ushort)value;
    }
}
