/* nv_attention_decode.cl - attention of generated tokens over the paged cache
 * of bf16, split over the context (nv_attention_split.cl).
 *
 *     s_j = query . k_j / sqrt(HD)           j = 0 .. p, p the token's position
 *     y   = sum_j softmax(s)_j v_j * sigmoid(gate)           the gate if GATED
 *
 *   y, part, tickets, in, n_splits: nv_attention_split.cl
 *   query    [T, NH, HD]        f32: normed and rotated
 *   kv       of the layer: block b is [2][NKV, BLOCK_TOKENS, HD] bf16 at
 *            b * page
 *
 * A work-group takes STEP positions at a time.  The tensor cores compute both
 * products with the heads as columns: s = K query^T, y^T = V^T w^T.  Keys and
 * values are loaded from memory straight into the registers of the fragments,
 * 16 bytes a load.  That is possible because the order of HD in the first
 * product is free, if query has the same order, and so is the order of the rows
 * of a fragment of V.
 *
 * Launch    nv_attention_split.cl
 * Defines   HD 64, 128 or 256; STEP a multiple of 64, at most 256; SPLIT a
 *           multiple of STEP
 * Needs     sm_80; KV_DTYPE 1; kv 16-byte aligned
 * Numerics  query and w are rounded to bf16, sums are f32.  Turns begin at
 *           absolute positions.  Positions past p are never used: where a turn
 *           reaches past p, position p is read instead, with weight 0. */
#ifndef STEP
#define STEP 64
#endif
#define TURNS  (STEP / (16 * WARPS)) /* turns of a warp, in a step */
#define PLANE  (NKV * BLOCK_TOKENS * HD) /* k or v of a block */
#define PIECE  (HD < 128 ? HD : 128)     /* dimensions loaded at a time */
#define PIECES (HD / PIECE)

/* A block table, and the elements of a page. */
struct table {
    __global const int *blocks;
    uint page;
};

/* Row of the j-th of the STEP positions from `from`, or of the last one. */
INLINE ulong kv_row(const struct table t, const uint from, const uint j,
                    const uint last)
{
    const uint p = from + min(j, last);

    return (ulong)(uint)t.blocks[p / BLOCK_TOKENS] * t.page +
           p % BLOCK_TOKENS * HD;
}

/* Loads 16 positions of PIECE dimensions: lane g, c gets 8 of each 32
 * dimensions of positions g and g + 8. */
INLINE void load_keys(uint4 *to, __global const ushort *row0,
                      __global const ushort *row1, const uint c)
{
#pragma unroll
    for (uint i = 0; i < PIECE / 32; i++) {
        to[2 * i] = *(__global const uint4 *)(row0 + i * 32 + c * 8);
        to[2 * i + 1] = *(__global const uint4 *)(row1 + i * 32 + c * 8);
    }
}

/* Lane g, c gets dimensions 8g.. of each 64, of positions 2c, 2c + 1, 2c + 8,
 * 2c + 9. */
INLINE void load_values(uint4 *to, __global const ushort *base,
                        const ulong *row, const uint g)
{
#pragma unroll
    for (uint i = 0; i < PIECE / 64; i++) {
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            to[4 * i + j] =
                *(__global const uint4 *)(base + row[j] + i * 64 + g * 8);
        }
    }
}

/* acc [PIECE / 64][4][4] += V^T w^T. */
INLINE void add_values(float *acc, const uint4 *v, const uint w0, const uint w1)
{
#pragma unroll
    for (uint i = 0; i < PIECE / 64; i++) {
        const uint4 a = v[4 * i], b = v[4 * i + 1];
        const uint4 d = v[4 * i + 2], e = v[4 * i + 3];

#define VALUE_STEP(j, x)                                               \
    mma_bf16(acc + (i * 4 + j) * 4, byte_perm(a.x, b.x, 0x5410),       \
             byte_perm(a.x, b.x, 0x7632), byte_perm(d.x, e.x, 0x5410), \
             byte_perm(d.x, e.x, 0x7632), w0, w1)
        VALUE_STEP(0, s0);
        VALUE_STEP(1, s1);
        VALUE_STEP(2, s2);
        VALUE_STEP(3, s3);
#undef VALUE_STEP
    }
}

/* Writes the query as fragments to [HD / 32][32]: lane g, c has 8 of each 32
 * dimensions of head g. */
INLINE void load_query(__local uint4 *to, __global const float *query,
                       const uint heads)
{
    for (uint i = get_local_id(0); i < HD; i += LANES) {
        const uint g = i % 32 / 4, d = i / 32 * 32 + i % 4 * 8;
        float4 a = 0.0f, b = 0.0f;

        if (g < heads) {
            a = *(__global const float4 *)(query + g * HD + d);
            b = *(__global const float4 *)(query + g * HD + d + 4);
        }
        to[i] = (uint4)(pack_bf16(a.s0, a.s1), pack_bf16(a.s2, a.s3),
                        pack_bf16(b.s0, b.s1), pack_bf16(b.s2, b.s3));
    }
}

/* s [TURNS][4] of this warp's turns: s[i] is for positions g, g, g + 8, g + 8
 * and heads 2c, 2c + 1, 2c, 2c + 1, as base-2 logarithms. */
INLINE void scores(float (*s)[4], __local const uint4 *query,
                   __global const ushort *keys, const struct table t,
                   const uint from, const uint last, const uint warp,
                   const uint lane)
{
    const uint g = lane / 4, c = lane % 4;
    const float scale = LOG2_SCALE;
    uint4 ahead[2][PIECE / 16];
    ulong row0 = kv_row(t, from, warp * 16 + g, last);
    ulong row1 = kv_row(t, from, warp * 16 + g + 8, last);

    load_keys(ahead[0], keys + row0, keys + row1, c);
#pragma unroll
    for (uint n = 0; n < TURNS * PIECES; n++) {
        const uint turn = n / PIECES, piece = n % PIECES;
        const uint at = (turn * WARPS + warp) * 16 + g;
        const uint4 *k = ahead[n % 2];

        if (n + 1 < TURNS * PIECES) {
            const uint next = ((n + 1) / PIECES * WARPS + warp) * 16 + g;
            const uint part = (n + 1) % PIECES * PIECE;

            if (part == 0) {
                row0 = kv_row(t, from, next, last);
                row1 = kv_row(t, from, next + 8, last);
            }
            load_keys(ahead[(n + 1) % 2], keys + row0 + part,
                      keys + row1 + part, c);
        }
        if (piece == 0) {
            s[turn][0] = s[turn][1] = s[turn][2] = s[turn][3] = 0.0f;
        }
#pragma unroll
        for (uint i = 0; i < PIECE / 32; i++) {
            const uint4 q = query[(piece * (PIECE / 32) + i) * 32 + lane];
            const uint4 a = k[2 * i], b = k[2 * i + 1];

            mma_bf16(s[turn], a.s0, b.s0, a.s1, b.s1, q.s0, q.s1);
            mma_bf16(s[turn], a.s2, b.s2, a.s3, b.s3, q.s2, q.s3);
        }
        if (piece + 1 == PIECES) {
            s[turn][0] = at <= last ? s[turn][0] * scale : -INFINITY;
            s[turn][1] = at <= last ? s[turn][1] * scale : -INFINITY;
            s[turn][2] = at + 8 <= last ? s[turn][2] * scale : -INFINITY;
            s[turn][3] = at + 8 <= last ? s[turn][3] * scale : -INFINITY;
        }
    }
}

/* Turns s into weights, as fragments in w, and updates m and sum [2] of heads
 * 2c and 2c + 1 over this warp's positions.  Scales acc, the earlier sums, to
 * the new maxima. */
INLINE void weigh(uint (*w)[2], float *m, float *sum, float *acc, float (*s)[4],
                  const bool first)
{
#pragma unroll
    for (uint h = 0; h < 2; h++) {
        float top = m[h], total = 0.0f, base;

#pragma unroll
        for (uint i = 0; i < TURNS; i++) {
            top = fmax(top, fmax(s[i][h], s[i][h + 2]));
        }
        top = fmax(top, shfl_xor(top, 4));
        top = fmax(top, shfl_xor(top, 8));
        top = fmax(top, shfl_xor(top, 16));
        base = top == -INFINITY ? 0.0f : top;
#pragma unroll
        for (uint i = 0; i < TURNS; i++) {
            s[i][h] = exp2_fast(s[i][h] - base);
            s[i][h + 2] = exp2_fast(s[i][h + 2] - base);
            total += s[i][h] + s[i][h + 2];
        }
        total += shfl_xor(total, 4);
        total += shfl_xor(total, 8);
        total += shfl_xor(total, 16);
        if (!first) {
            const float shrink = exp2_fast(m[h] - base);

            total = fma(sum[h], shrink, total);
#pragma unroll
            for (uint i = 0; i < HD / 16; i++) {
                acc[i * 4 + h] *= shrink;
                acc[i * 4 + h + 2] *= shrink;
            }
        }
        m[h] = top;
        sum[h] = total;
    }
#pragma unroll
    for (uint i = 0; i < TURNS; i++) {
        w[i][0] = movmatrix(pack_bf16(s[i][0], s[i][1]));
        w[i][1] = movmatrix(pack_bf16(s[i][2], s[i][3]));
    }
}

INLINE void value_rows(ulong *row, const struct table t, const uint from,
                       const uint turn, const uint warp, const uint c,
                       const uint last)
{
    const uint at = (turn * WARPS + warp) * 16 + 2 * c;

    row[0] = kv_row(t, from, at, last);
    row[1] = kv_row(t, from, at + 1, last);
    row[2] = kv_row(t, from, at + 8, last);
    row[3] = kv_row(t, from, at + 9, last);
}

/* Adds to acc [HD / 64][4][4]: of each 64 dimensions, lane g, c has 8g + 2j (+
 * 1 in the upper half) of heads 2c and 2c + 1.  ahead[0] is already loaded,
 * from the rows `row`. */
INLINE void values(float *acc, uint (*w)[2], uint4 (*ahead)[PIECE / 16],
                   ulong *row, __global const ushort *base,
                   const struct table t, const uint from, const uint last,
                   const uint warp, const uint lane)
{
    const uint g = lane / 4, c = lane % 4;

#pragma unroll
    for (uint n = 0; n < TURNS * PIECES; n++) {
        if (n + 1 < TURNS * PIECES) {
            const uint part = (n + 1) % PIECES * PIECE;

            if (part == 0) {
                value_rows(row, t, from, (n + 1) / PIECES, warp, c, last);
            }
            load_values(ahead[(n + 1) % 2], base + part, row, g);
        }
        add_values(acc + n % PIECES * (PIECE / 4), ahead[n % 2],
                   w[n / PIECES][0], w[n / PIECES][1]);
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
attention_decode(__global operand_t *y, const ulong y_at, __global float *part,
                 const ulong part_at, __global uint *tickets,
                 const ulong tickets_at, __global const float *query,
                 const ulong query_at, __global const float *in,
                 const ulong in_at, __global const ushort *kv,
                 const ulong kv_at, const uint page, __global const int *meta,
                 const uint first_token, const uint n_tokens,
                 const uint n_splits, __global const float *sinks,
                 const ulong sinks_at, const uint table)
{
    __local uint4 q[HD];
    __local float sums[SUMS], tops[WARPS * 8 * 2], weight[8 * SPLITS];
    __local uint turn;
    const uint lane = get_local_id(0), warp = lane / 32;
    const uint token = first_token + get_group_id(2);
    const uint p = (uint)TOKEN(meta, token)[TOKEN_POSITION];
    const uint length = length_at(p);
    const struct result r =
        result_of(y + y_at, part + part_at, tickets + tickets_at, in + in_at,
                  sinks_at == ABSENT ? 0 : sinks + sinks_at, first_token,
                  n_tokens, n_splits, p);

    if (r.split >= r.splits) {
        return;
    }

    const uint here = (r.low + r.split) * length;
    const uint begin = max(here, first_seen(p));
    const uint end = min(p + 1, here + length);
    const struct table t = {
        blocks_of(meta, ROW(meta, TOKEN(meta, token)[TOKEN_ROW]), table), page};
    __global const ushort *keys =
        kv + kv_at + (ulong)(r.head / GROUP) * BLOCK_TOKENS * HD;

    load_query(q, query + query_at + ((ulong)token * NH + r.head) * HD,
               r.heads);
    barrier(CLK_LOCAL_MEM_FENCE);
    {
        float acc[HD / 4], m[2] = {-INFINITY, -INFINITY};
        float sum[2] = {0.0f, 0.0f};

#pragma unroll
        for (uint i = 0; i < HD / 4; i++) {
            acc[i] = 0.0f;
        }
        for (uint from = begin; from < end; from += STEP) {
            const uint last = min(end - from, (uint)STEP) - 1;
            uint4 ahead[2][PIECE / 16];
            float s[TURNS][4];
            uint w[TURNS][2];
            ulong row[4];

            /* These loads are in flight while the keys are multiplied. */
            value_rows(row, t, from, 0, warp, lane % 4, last);
            load_values(ahead[0], keys + PLANE, row, lane % 32 / 4);
            scores(s, q, keys, t, from, last, warp, lane % 32);
            weigh(w, m, sum, acc, s, from == begin);
            values(acc, w, ahead, row, keys + PLANE, t, from, last, warp,
                   lane % 32);
        }
        leave(sums, tops, acc, m, sum, r.heads, warp, lane % 32);
    }
    finish(&r, sums, tops, weight, &turn);
}
