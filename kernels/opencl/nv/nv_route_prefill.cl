/* nv_route_prefill.cl - the experts of prompt tokens, on NVIDIA.
 *
 * The formulas are those of route.cl, for experts_logits, experts_choose and
 * experts_group; so is the argument list of experts_logits.
 *
 *   counts  [2 * N_ALL + 1] u32: pairs of each expert; of these, the ones that
 *           have a place; a ticket.  0 before choose and after group
 *
 * Logits.  x gamma is split into three bf16, which together have its 24 bits,
 * and a weight that is not bf16 into two.  The matrix unit multiplies the parts
 * and adds their products in float32.  Four warps of a work-group share the
 * columns, 32 at a time: a lane has 8 of each, read from memory as they lie.
 *
 * Groups.  choose counts the pairs of each expert.  A work-group of group has
 * WG pairs, and reserves as many places in order as it has of each expert.
 * Tiles of an expert have about equal numbers of pairs.  All tokens have the
 * shared expert, so its pairs need no counting.
 *
 * Launch    logits: 128 work-items; dim 0: LOGIT_TILES, see below; dim 1:
 *           ceil(n / 32).  choose: 128 work-items; ceil(n / 4).  group: WG
 *           work-items; ceil(n / WG)
 * Defines   those of route.cl; MOST 1..12: tiles of 8 logits of a work-group
 * Needs     sm_80; H a multiple of 32; TOP_K <= N_EXPERTS, and at most 32;
 *           group: a tile of a multiple of 32 pairs.  nv_norm_fold.cl runs
 *           before logits, which reads only the first of a token's ss
 * Numerics  float32.  Logits: sum s of four is over the columns 32 b .. 32 b +
 *           31, b = s mod 4, in order, 16 at a time, the least part of x first;
 *           then the sums are added in order of s.  Choice: Z is summed lane by
 *           lane.  A token's bits depend on no other token */
#define WARPS   4
#define ITEMS   (WARPS * 32)
#define TOKENS  32 /* of a tile */
#define BLOCK   32 /* columns */
#define M_TILES (TOKENS / 16)
#define N_TILES ((LOGITS + 7) / 8)
#define LOGIT_TILES ((N_TILES + MOST - 1) / MOST)
#define OCTETS  ((N_TILES + LOGIT_TILES - 1) / LOGIT_TILES)
#define WIDTH   (OCTETS * 8)
#if SPAN == 1 && defined(W_DTYPE) && W_DTYPE == 1
#define W_PARTS 1 /* bf16 of a weight */
#else
#define W_PARTS 2
#endif

/* ---- logits ---- */

/* Parts of 8 values, the greatest first; those that add up to float32. */
struct parts {
    uint of[3][4];
};

/* Splits 8 values. */
INLINE struct parts split(const float *v)
{
    struct parts p;

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        const float low = v[2 * i], high = v[2 * i + 1];
        const uint top = pack_bf16(low, high);
        const float low_rest = low - bf16_low(top);
        const float high_rest = high - bf16_high(top);

        p.of[0][i] = top;
        p.of[1][i] = pack_bf16(low_rest, high_rest);
        p.of[2][i] = pack_rest(p.of[1][i], low_rest, high_rest);
    }
    return p;
}

/* Returns 8 columns of x gamma from c on, a multiple of 8. */
INLINE struct parts x_parts(__global const float *x,
                            __global const float *gamma)
{
    __global const float4 *a = (__global const float4 *)x;
    __global const float4 *b = (__global const float4 *)gamma;
    const float4 low = a[0] * b[0], high = a[1] * b[1];
    const float v[8] = {low.x,  low.y,  low.z,  low.w,
                        high.x, high.y, high.z, high.w};

    return split(v);
}

/* Returns 8 columns of a row of w; bf16 has only the first part. */
INLINE struct parts w_parts(const row_t row, uint c)
{
#if W_PARTS == 1
    const uint4 v = *(__global const uint4 *)(row.w + c);
    const struct parts p = {{{v.x, v.y, v.z, v.w}}};

    return p;
#else
    float v[8];

    #pragma unroll
    for (uint i = 0; i < 8; i++) {
        v[i] = weight_get(row, c + i);
    }
    return split(v);
#endif
}

/* acc += x w over 32 columns; a: rows g and g + 8 of 16 tokens. */
INLINE void add_block(float *acc, const struct parts a[2],
                      const struct parts *b)
{
    #pragma unroll
    for (uint i = 0; i < 2; i++) {
        #pragma unroll
        for (uint p = 3; p-- > 0;) {
            const uint *low = a[0].of[p] + 2 * i, *high = a[1].of[p] + 2 * i;

#if W_PARTS > 1
            if (p < 2) {
                mma_bf16(acc, low[0], high[0], low[1], high[1],
                         b->of[1][2 * i], b->of[1][2 * i + 1]);
            }
#endif
            mma_bf16(acc, low[0], high[0], low[1], high[1], b->of[0][2 * i],
                     b->of[0][2 * i + 1]);
        }
    }
}

/* Sums the columns of a warp for the tile of logits from e0 on; x: the tile's
 * first token, `last` the last one's place. */
INLINE void sum_columns(float acc[M_TILES][OCTETS][4],
                        __global const float *x, __global const float *gamma,
                        const matrix_t m, uint e0, uint last)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;

    #pragma unroll 1
    for (uint b = warp; b < H / BLOCK; b += WARPS) {
        const uint c = b * BLOCK + lane % 4 * 8;
        struct parts a[M_TILES][2];

        #pragma unroll
        for (uint i = 0; i < M_TILES * 2; i++) {
            const uint t = min(i * 8 + lane / 4, last);

            a[i / 2][i % 2] = x_parts(x + (ulong)t * H + c, gamma + c);
        }
        #pragma unroll
        for (uint o = 0; o < OCTETS; o++) {
            const uint e = min(e0 + o * 8 + lane / 4, (uint)LOGITS - 1);
            const struct parts w = w_parts(row_of(m, e, H), c);

            #pragma unroll
            for (uint i = 0; i < M_TILES; i++) {
                add_block(acc[i][o], a[i], &w);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
experts_logits(__global float *logits, ulong logits_at, __global const float *x,
               ulong x_at, __global const float *ss, ulong ss_at,
               __global const float *gamma, ulong gamma_at,
               __global const weight_t *w, ulong w_at,
               __global const float *bias, ulong bias_at, uint first, uint n)
{
    __local float part[WARPS][TOKENS][WIDTH];
    const uint id = get_local_id(0), lane = id % 32, warp = id / 32;
    const uint t0 = get_group_id(1) * TOKENS, e0 = get_group_id(0) * WIDTH;
    const ulong row = first + t0;
    float acc[M_TILES][OCTETS][4] = {{{0.0f}}};

    sum_columns(acc, x + x_at + row * H, gamma + gamma_at,
                matrix_of(w, w_at, (ulong)LOGITS * H), e0,
                min(n - t0, (uint)TOKENS) - 1);
    #pragma unroll
    for (uint i = 0; i < M_TILES; i++) {
        #pragma unroll
        for (uint o = 0; o < OCTETS; o++) {
            #pragma unroll
            for (uint d = 0; d < 4; d++) {
                part[warp][i * 16 + d / 2 * 8 + lane / 4]
                    [o * 8 + lane % 4 * 2 + d % 2] = acc[i][o][d];
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = id; i < TOKENS * WIDTH; i += ITEMS) {
        const uint t = i / WIDTH, j = i % WIDTH, e = e0 + j;
        float l = 0.0f;

        if (t0 + t < n && e < LOGITS) {
            #pragma unroll
            for (uint s = 0; s < WARPS; s++) {
                l += part[s][t][j];
            }
            l *= 1.0f /
                 sqrt(ss[ss_at + (row + t) * SS_LD] / (float)H + EPS);
            logits[logits_at + (row + t) * LOGITS + e] =
                bias_at != ABSENT && e < N_EXPERTS ? l + bias[bias_at + e] : l;
        }
    }
}

/* ---- choice ---- */

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
experts_choose(__global uint *ids, ulong ids_at, __global float *weights,
               ulong weights_at, __global uint *counts, ulong counts_at,
               __global const float *logits, ulong logits_at, uint first,
               uint n)
{
    const uint lane = get_local_id(0) % 32;
    const uint i = get_group_id(0) * WARPS + get_local_id(0) / 32;
    const ulong t = first + i;

    if (i < n) {
        ids += ids_at + t * PAIRS;
        choose(ids, weights + weights_at + t * (TOP_K + 1),
               logits + logits_at + t * LOGITS, lane);
        if (lane < TOP_K) { /* what this lane wrote */
            atomic_inc(counts + counts_at + ids[lane]);
        }
    }
}

/* ---- groups ---- */

#define GRAIN 32 /* pairs that a tile multiplies at once */
#define EACH  ((N_ALL + WG - 1) / WG) /* experts of a work-item */

/* Returns the sum of v over the work-items before this one; *all: over all. */
INLINE uint sum_before(__local uint *sums, uint v, uint *all)
{
    const uint id = get_local_id(0);
    uint before;

    sums[id] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < WG; step *= 2) {
        before = id >= step ? sums[id - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[id] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *all = sums[WG - 1];
    before = sums[id] - v;
    barrier(CLK_LOCAL_MEM_FENCE);
    return before;
}

/* Returns the pairs of each tile but an expert's last: the fewest tiles, about
 * equal. */
INLINE uint tile_size(uint pairs, uint tile)
{
    const uint n = max((pairs + tile - 1) / tile, 1u);

    return ((pairs + n - 1) / n + GRAIN - 1) / GRAIN * GRAIN;
}

/* Returns the pairs of an expert. */
INLINE uint count_of(__global const uint *counts, uint e, uint n)
{
    return e < N_EXPERTS ? counts[e] : n / PAIRS;
}

/* Writes the tiles of this work-item's experts, the first of which has its
 * pairs from `at` on. */
INLINE void write_tiles(__global uint *tiles, __local uint *sums,
                        __global const uint *counts, uint at, uint n,
                        uint n_tiles, uint tile)
{
    const uint from = get_local_id(0) * EACH;
    const uint to = min(from + EACH, (uint)N_ALL);
    uint used = 0, i, all;

    for (uint e = from; e < to; e++) {
        used += (count_of(counts, e, n) + tile - 1) / tile;
    }
    i = sum_before(sums, used, &all);
    for (uint e = from; e < to; e++) {
        const uint count = count_of(counts, e, n);
        const uint size = tile_size(count, tile);

        for (uint p = 0; p < count; p += size, i++) {
            tiles[i * 3] = e;
            tiles[i * 3 + 1] = at + p;
            tiles[i * 3 + 2] = min(count - p, size);
        }
        at += count;
    }
    for (i = all + get_local_id(0); i < n_tiles; i += WG) {
        tiles[i * 3 + 2] = 0;
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
experts_group(__global uint *order, ulong order_at, __global uint *tiles,
              ulong tiles_at, __global uint *counts, ulong counts_at,
              __global const uint *ids, ulong ids_at, uint first, uint n,
              uint n_tiles, uint tile)
{
    /* Places of each expert: the first, then the first of this work-group; and
     * the pairs of this work-group. */
    __local uint place[N_ALL], mine[N_ALL], sums[WG], turn;
    const uint id = get_local_id(0), p = get_group_id(0) * WG + id;
    const uint from = id * EACH, to = min(from + EACH, (uint)N_ALL);
    const uint e = p < n ? ids[ids_at + first + p] : 0;
    uint at, all, rank = 0, pairs = 0;

    counts += counts_at;
    for (uint i = from; i < to; i++) {
        mine[i] = 0;
        pairs += count_of(counts, i, n);
    }
    at = sum_before(sums, pairs, &all);
    if (get_group_id(0) == 0) {
        write_tiles(tiles + tiles_at, sums, counts, at, n, n_tiles, tile);
    }
    for (uint i = from; i < to; i++) {
        place[i] = at;
        at += count_of(counts, i, n);
    }
    if (e < N_EXPERTS && p < n) {
        rank = atomic_inc(&mine[e]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = id; i < N_EXPERTS; i += WG) {
        if (mine[i] > 0) {
            place[i] += atomic_add(counts + N_ALL + i, mine[i]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (p < n) {
        order[order_at + place[e] + (e < N_EXPERTS ? rank : p / PAIRS)] =
            first + p;
    }
    if (id == 0) {
        turn = ticket_take(counts + 2 * N_ALL);
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (turn + 1 == get_num_groups(0)) {
        for (uint i = id; i < 2 * N_ALL + 1; i += WG) {
            counts[i] = 0;
        }
    }
}
