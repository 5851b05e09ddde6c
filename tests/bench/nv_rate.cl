/* nv_rate.cl - rates of the matrix units.
 *
 * d += a b, repeatedly: bf16 products with sums in float32, on random operands
 * that are already in registers or local memory.
 *
 *   rate_mma     mma.sync m16n8k16, operands in registers
 *   rate_wgmma   wgmma m64n256k16, operands in local memory, 128-byte swizzle
 *
 *   out  float [items]: the sum of d, so that nothing is optimised away
 *
 * Launch    groups of RATE_GROUP work-items; a warp (mma) does
 *           2 * 16 * 8 * 16 * RATE_TILES * n operations, four (wgmma)
 *           2 * 64 * 256 * 64 * n
 * Defines   RATE_GROUP 256, RATE_TILES 16
 * Needs     sm_80; rate_wgmma sm_90, with the held-back lines of program.h */
static uint mix(uint x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Two bf16 in [-1, 1). */
static uint pair(const uint seed)
{
    const uint bits = mix(seed);

    return (uint)to_bf16(0x1p-15f * (float)(short)(bits >> 16)) << 16 |
           to_bf16(0x1p-15f * (float)(short)(bits & 0xffff));
}

#ifndef WGMMA

__kernel __attribute__((reqd_work_group_size(RATE_GROUP, 1, 1))) void
rate_mma(__global float *out, const uint n)
{
    float d[RATE_TILES][4] = {{0.0f}};
    uint a[4], b[2], i = get_global_id(0) * 8;
    float sum = 0.0f;

    for (int k = 0; k < 4; k++) {
        a[k] = pair(i++);
    }
    b[0] = pair(i++);
    b[1] = pair(i++);
    for (uint k = 0; k < n; k++) {
#pragma unroll
        for (int t = 0; t < RATE_TILES; t++) {
            mma_bf16(d[t], a[0], a[1], a[2], a[3], b[0], b[1]);
        }
    }
    for (int t = 0; t < RATE_TILES; t++) {
        sum += d[t][0] + d[t][1] + d[t][2] + d[t][3];
    }
    out[get_global_id(0)] = sum;
}

#else

#define A_BYTES (64 * 64 * 2)
#define B_BYTES (256 * 64 * 2)

/* Describes a tile in local memory: rows of 128 bytes, eights of rows 1024
 * apart. */
#define SWIZZLE_128 ((ulong)1 << 62 | (ulong)64 << 32 | (ulong)1 << 16)

#define F4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64(i) F16(i), F16(i + 16), F16(i + 32), F16(i + 48)

#define PRODUCT(d, a, b)                                                      \
    __asm__ volatile(                                                         \
        "//@wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"          \
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"              \
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"    \
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"    \
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"    \
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"    \
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"    \
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127" \
        "}, %128, %129, 1, 1, 1, 0, 0;"                                        \
        : F64(0), F64(64)                                                     \
        : "l"(a), "l"(b)                                                      \
        : "memory")

static ulong tile_of(__local const uint *p)
{
    return SWIZZLE_128 | (NV_LOCAL(p) >> 4 & 0x3fff);
}

__kernel __attribute__((reqd_work_group_size(RATE_GROUP, 1, 1))) void
rate_wgmma(__global float *out, const uint n)
{
    __local uint tiles[(2 * A_BYTES + B_BYTES) / 4]
        __attribute__((aligned(1024)));
    const ulong a = tile_of(tiles + get_local_id(0) / 128 * (A_BYTES / 4));
    const ulong b = tile_of(tiles + 2 * A_BYTES / 4);
    float d[128], sum = 0.0f;

    for (uint i = get_local_id(0); i < (2 * A_BYTES + B_BYTES) / 4;
         i += RATE_GROUP) {
        tiles[i] = pair(i);
    }
#pragma unroll
    for (int i = 0; i < 128; i++) { /* d must stay in registers */
        d[i] = 0.0f;
    }
    __asm__ volatile("fence.proxy.async;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < n; k++) {
        __asm__ volatile("//@wgmma.fence.sync.aligned;" ::: "memory");
        PRODUCT(d, a, b);
        PRODUCT(d, a + 2, b + 2);
        PRODUCT(d, a + 4, b + 4);
        PRODUCT(d, a + 6, b + 6);
        __asm__ volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory");
        __asm__ volatile("//@wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
#pragma unroll
    for (int i = 0; i < 128; i++) {
        sum += d[i];
    }
    out[get_global_id(0)] = sum;
}

#endif
