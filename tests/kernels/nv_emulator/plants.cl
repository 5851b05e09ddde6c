/* plants.cl - accesses out of bounds; see plants.c.
 *
 * Launch    64 work-items, one work-group; buffers of n elements, at least
 * 64 */
__kernel void plant_none(__global uint *out, __global const uint *in, uint n)
{
    __local uint4 held[64];
    const uint i = get_local_id(0);
    uint r[4];

    copy_async(held + i, in + i / 4 * 4, 16);
    copy_commit();
    copy_wait(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    ldmatrix(r, held + i);
    out[n - 1 - i] = r[0] + in[n - 1 - i];
}

__kernel void plant_read(__global uint *out, __global const uint *in, uint n)
{
    out[0] = in[n - 63 + get_local_id(0)];
}

__kernel void plant_before(__global uint *out, __global const uint *in, uint n)
{
    out[0] = in[(int)get_local_id(0) - 1];
}

__kernel void plant_write(__global uint *out, __global const uint *in, uint n)
{
    out[n - 63 + get_local_id(0)] = 0;
}

/* The last 4 of 16 bytes. */
__kernel void plant_wide(__global uint *out, __global const uint *in, uint n)
{
    const uint4 v = load_once((__global const ushort *)(in + n / 4 * 4));

    out[get_local_id(0)] = v.x + v.w;
}

__kernel void plant_copy(__global uint *out, __global const uint *in, uint n)
{
    __local uint4 held[64];

    copy_async(held + get_local_id(0), in + (n + 3) / 4 * 4, 16);
    copy_wait(0);
    out[get_local_id(0)] = held[get_local_id(0)].x;
}

__kernel void plant_copy_to(__global uint *out, __global const uint *in, uint n)
{
    __local uint4 held[64];

    copy_async(held + get_local_id(0) + 1, in, 16);
    copy_wait(0);
    out[get_local_id(0)] = held[get_local_id(0)].x;
}

__kernel void plant_local(__global uint *out, __global const uint *in, uint n)
{
    __local uint held[64];

    held[n - n + get_local_id(0)] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_local_id(0)] = *((__local uint *)held + get_local_id(0) + n / n);
}

__kernel void plant_matrix(__global uint *out, __global const uint *in, uint n)
{
    __local uint4 ring[64] __attribute__((aligned(1024)));
    uint r[4];

    ring[get_local_id(0)] = 1;
    ldmatrix(r, ring + get_local_id(0) + 1);
    out[get_local_id(0)] = r[0];
}

/* Tiles of 64 and of 128 rows, of which only 64 exist. */
__kernel void plant_wgmma(__global uint *out, __global const uint *in, uint n)
{
    __local uint4 ring[64 * 8] __attribute__((aligned(1024)));
    const ulong rows = wgmma_rows(ring);
    float d[64] = {0.0f};

    for (uint i = get_local_id(0); i < 64 * 8; i += 128) {
        ring[i] = 0;
    }
    wgmma_publish();
    barrier(CLK_LOCAL_MEM_FENCE);
    wgmma_begin();
    wgmma_128(d, rows, rows);
    wgmma_commit();
    wgmma_wait(0);
    out[get_local_id(0)] = (uint)d[0];
}
