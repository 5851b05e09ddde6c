/* nv_attention_prefill.cl - causal attention of prompt tokens over the paged
 * cache, which includes their own keys and values.
 *
 *     s_j = query . k_j / sqrt(HD)           j = 0 .. p, p the token's position;
 *                                            with WINDOW the last of these
 *     y   = sum_j softmax(s)_j v_j * sigmoid(gate)           the gate if GATED
 *
 *   y        [T, NH, HD]        operand dtype
 *   part, tickets               unused
 *   sinks    [NH] f32 or absent: a score of each head without a value
 *   window_table  the row's window table, with WINDOW
 *   query    [T, NH, HD]        f32: normed and rotated
 *   in       [T, IN_LD]         f32; only the gates are read
 *   kv       of the layer: block b is [2][NKV, BLOCK_TOKENS, HD] bf16 at
 *            b * page; of a quantised layer struct kv_block (common/model/
 *            kv_format.h) at b * page bytes
 *
 * A work-group has TILE tokens with the GROUP query heads of one kv head: M
 * rows, 16 a warp, ordered by (token, head).  Its warps walk the context
 * together in turns of 64 positions: S = Q K^T, the running softmax, Y += W V,
 * on the tensor cores.  Keys of the next turn are loaded during W V, values
 * during Q K^T.  If a work-group's tokens belong to several rows of the step,
 * it walks once for each row.
 *
 * Quantised keys and values are widened to bf16 on their way to local memory
 * (nv_attention_widen.cl).  The sums of TurboQuant's rotated values are rotated
 * back at the end.
 *
 * Launch    WG 128 or 256; groups ((n_tokens + TILE - 1) / TILE, NKV),
 *           TILE = WG / 2 / GROUP
 * Defines   HD 64, 128 or 256; NH / NKV <= 32; of a quantised layer also those
 *           of kv.cl
 * Needs     sm_80; KV_DTYPE 1; kv 16-byte aligned; local memory
 *           (M + 128) * HD * 2 bytes, 128 KiB at most
 * Numerics  query and w are rounded to bf16, sums are f32.  Turns begin at
 *           absolute multiples of 64 and the rows of a fragment are
 *           independent, so a token's bits depend on its own sequence only.
 *           Positions past a work-group's last one are never used: the last
 *           one is read instead, with weight 0. */
#ifndef KV_SCHEME
#define KV_SCHEME 0
typedef ushort cache_t;
#else
typedef uchar cache_t;
#endif
#if KV_SCHEME != 2
#define load_books(b)       (void)(b)
#define rotate_back(acc, c) (void)(c)
#endif
#define GROUP (NH / NKV)
#define WARPS (WG / 32)
#define LANES WG
#define M     (16 * WARPS)
#define TILE  (M / GROUP)
#define TURN  64
#define IN_LD ((GATED ? 2 : 1) * NH * HD + 2 * NKV * HD)
#define PLANE (NKV * BLOCK_TOKENS * HD) /* k or v of a block */
#define WIDE  (HD / 8)                  /* 16-byte pieces of a row */

/* Place of piece i of row r, for rows of HD bf16 in local memory.  Swizzled, so
 * that eight rows of one piece are in different banks. */
INLINE uint piece_at(const uint r, const uint i)
{
    return r * WIDE + (i ^ (r & 7));
}

/* A lane's offsets in matrices, for pieces 2 j and 2 j + 1; others are whole
 * rows, or 8 pieces, further. */
struct places {
    uint rows[4]; /* in 16 rows: for a (Q), and transposed for b (V) */
    uint keys[4]; /* in 16 positions, for b */
};

INLINE void refresh(struct places *at)
{
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        at->rows[j] = opaque(at->rows[j]);
        at->keys[j] = opaque(at->keys[j]);
    }
}

/* A block table, the elements of a page, and block 0 of the cache. */
struct table {
    __global const int *blocks;
    uint page, low; /* positions before low are not there */
    __global const cache_t *kv;
    uint kv_head;
    __local const float *books;
};

/* Loads keys, or values, of positions [from, from + TURN) of one kv head. */
INLINE void load_turn(__local uint4 *to, const struct table t, const bool value,
                      const uint from, const uint last)
{
#if KV_SCHEME == 0
    __global const ushort *base = t.kv +
                                  (ulong)t.kv_head * BLOCK_TOKENS * HD +
                                  (value ? PLANE : 0);
#endif
    const uint lane = opaque(get_local_id(0));

#pragma unroll
    for (uint n = 0; n < TURN * WIDE / LANES; n++) {
        const uint r = (n * LANES + lane) / WIDE;
        const uint i = (n * LANES + lane) % WIDE;
        const uint p = min(max(from + r, t.low), last);
        const ulong block = (ulong)(uint)t.blocks[p / BLOCK_TOKENS] * t.page;

#if KV_SCHEME == 0
        copy_async(to + piece_at(r, i),
                   base + block + p % BLOCK_TOKENS * HD + i * 8, 16);
#else
        to[piece_at(r, i)] =
            widen_piece(t.kv + block, t.kv_head * BLOCK_TOKENS +
                        p % BLOCK_TOKENS, i, value, t.books);
#endif
    }
    copy_commit();
}

/* s [TURN / 8][4] = Q K^T of this warp's rows, q the first of them.  Here and
 * in add_values(), fragments are loaded one step before their use. */
INLINE void scores(float (*s)[4], __local const uint4 *q,
                   __local const uint4 *k, const struct places *at)
{
    uint a[2][4], b[2][4];

#pragma unroll
    for (uint n = 0; n < TURN / 8; n++) {
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
    }
    ldmatrix(a[0], q + at->rows[0]);
    ldmatrix(b[0], k + at->keys[0]);
#pragma unroll
    for (uint i = 0; i < HD / 16 * (TURN / 16); i++) {
        const uint d = i / (TURN / 16), n = i % (TURN / 16);
        const uint next = i + 1, nd = next / (TURN / 16);
        const uint *x = a[d % 2], *y = b[i % 2];

        if (nd < HD / 16) {
            ldmatrix(b[next % 2], k + at->keys[nd % 4] + nd / 4 * 8 +
                                      next % (TURN / 16) * 16 * WIDE);
        }
        if (n == 0 && d + 1 < HD / 16) {
            ldmatrix(a[(d + 1) % 2],
                     q + at->rows[(d + 1) % 4] + (d + 1) / 4 * 8);
        }
        mma_bf16(s[2 * n], x[0], x[1], x[2], x[3], y[0], y[1]);
        mma_bf16(s[2 * n + 1], x[0], x[1], x[2], x[3], y[2], y[3]);
    }
}

/* For row g or g + 8 (h) of the warp: turns s into weights against the new
 * maximum, and returns the factor that scales the earlier sums. */
INLINE float weigh(float (*s)[4], float *top, float *sum, const uint h)
{
    const float scale = LOG2_SCALE;
    float now = *top, total = 0.0f, shrink, base;

#pragma unroll
    for (uint n = 0; n < TURN / 8; n++) {
        now = fmax(now, fmax(s[n][2 * h], s[n][2 * h + 1]));
    }
    now = fmax(now, shfl_xor(now, 1));
    now = fmax(now, shfl_xor(now, 2));
    /* A row of a window may see nothing of a turn. */
    base = WINDOW > 0 && now == -INFINITY ? 0.0f : now;
    shrink = exp2_fast((*top - base) * scale);
#pragma unroll
    for (uint n = 0; n < TURN / 8; n++) {
#pragma unroll
        for (uint i = 2 * h; i < 2 * h + 2; i++) {
            s[n][i] = exp2_fast(fma(s[n][i], scale, -base * scale));
            total += s[n][i];
        }
    }
    total += shfl_xor(total, 1);
    total += shfl_xor(total, 2);
    *sum = fma(*sum, shrink, total);
    *top = now;
    return shrink;
}

/* acc [HD / 8][4] += W V. */
INLINE void add_values(float (*acc)[4], float (*s)[4], __local const uint4 *v,
                       const struct places *at)
{
    uint a[4], b[2][4];

    ldmatrix_trans(b[0], v + at->rows[0]);
#pragma unroll
    for (uint i = 0; i < HD / 16 * (TURN / 16); i++) {
        const uint n = i / (HD / 16), d = i % (HD / 16);
        const uint next = i + 1, nd = next % (HD / 16);
        const uint *y = b[i % 2];

        if (d == 0) {
            a[0] = pack_bf16(s[2 * n][0], s[2 * n][1]);
            a[1] = pack_bf16(s[2 * n][2], s[2 * n][3]);
            a[2] = pack_bf16(s[2 * n + 1][0], s[2 * n + 1][1]);
            a[3] = pack_bf16(s[2 * n + 1][2], s[2 * n + 1][3]);
        }
        if (next < HD / 16 * (TURN / 16)) {
            ldmatrix_trans(b[next % 2], v + at->rows[nd % 4] + nd / 4 * 8 +
                                            next / (HD / 16) * 16 * WIDE);
        }
        mma_bf16(acc[2 * d], a[0], a[1], a[2], a[3], y[0], y[1]);
        mma_bf16(acc[2 * d + 1], a[0], a[1], a[2], a[3], y[2], y[3]);
    }
}

/* Masks scores past the rows' positions p0 and p1, or before their windows. */
INLINE void mask(float (*s)[4], const uint from, const uint p0, const uint p1,
                 const uint c)
{
#pragma unroll
    for (uint n = 0; n < TURN / 8; n++) {
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const uint at = from + n * 8 + 2 * c + i;

            s[n][i] =
                at <= p0 && at >= first_seen(p0) ? s[n][i] : -INFINITY;
            s[n][i + 2] =
                at <= p1 && at >= first_seen(p1) ? s[n][i + 2] : -INFINITY;
        }
    }
}

/* Writes y [HD] of a head, for row g or g + 8 (h) of the warp. */
INLINE void store(__global operand_t *y, __global const float *in,
                  float (*acc)[4], const float scale, const uint head,
                  const uint h, const uint c)
{
#pragma unroll
    for (uint n = 0; n < HD / 8; n++) {
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const uint d = n * 8 + 2 * c + i;
            float v = acc[n][2 * h + i] * scale;

#if GATED
            v *= sigmoid_of(in[head * 2 * HD + HD + d]);
#endif
            y[head * HD + d] = operand_of(v);
        }
    }
}

/* Loads the queries of tokens [token0, token0 + TILE); past the end, the
 * last. */
INLINE void load_queries(__local uint4 *to, __global const float *query,
                         const uint token0, const uint end, const uint kv_head)
{
    for (uint n = get_local_id(0); n < M * WIDE; n += LANES) {
        const uint r = n / WIDE, i = n % WIDE;
        const uint token = min(token0 + r / GROUP, end - 1);
        __global const float *from =
            query + ((ulong)token * NH + kv_head * GROUP + r % GROUP) * HD +
            i * 8;
        const float4 a = *(__global const float4 *)from;
        const float4 b = *(__global const float4 *)(from + 4);

        to[piece_at(r, i)] =
            (uint4)(pack_bf16(a.s0, a.s1), pack_bf16(a.s2, a.s3),
                    pack_bf16(b.s0, b.s1), pack_bf16(b.s2, b.s3));
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
attention_prefill(__global operand_t *y, const ulong y_at, __global float *part,
                  const ulong part_at, __global uint *tickets,
                  const ulong tickets_at, __global const float *query,
                  const ulong query_at, __global const float *in,
                  const ulong in_at, __global const cache_t *kv,
                  const ulong kv_at, const uint page,
                  __global const int *meta, const uint first_token,
                  const uint n_tokens, const uint n_splits,
                  __global const float *sinks, const ulong sinks_at,
                  const uint window_table)
{
    __local uint4 q[M * WIDE], k[TURN * WIDE], v[TURN * WIDE];
#if KV_SCHEME == 2
    __local float books[BOOKS];
#else
    __local const float *books = 0;
#endif
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint g = lane / 4, c = lane % 4, kv_head = get_group_id(1);
    const uint tile = get_num_groups(0) - 1 - get_group_id(0);
    const uint token0 = first_token + tile * TILE;
    const uint end = min(token0 + TILE, first_token + n_tokens);
    const uint r0 = warp * 16 + g, r1 = r0 + 8; /* this lane's rows */
    const uint h0 = kv_head * GROUP + r0 % GROUP;
    const uint h1 = kv_head * GROUP + r1 % GROUP;
    uint from = token0;
    struct places at;

    sinks = sinks_at == ABSENT ? 0 : sinks + sinks_at;

#pragma unroll
    for (uint j = 0; j < 4; j++) {
        at.rows[j] = piece_at(lane % 16, 2 * j + lane / 16);
        at.keys[j] = piece_at(lane % 8 + lane / 16 * 8, 2 * j + lane / 8 % 2);
    }
    load_queries(q, query + query_at, token0, end, kv_head);
    load_books(books);
    while (from < end) { /* the tokens of one row of the step */
        __global const int *row = ROW(meta, TOKEN(meta, from)[TOKEN_ROW]);
        const uint until =
            min(end, (uint)row[ROW_FIRST] + (uint)row[ROW_TOKENS]);
        const uint p = (uint)TOKEN(meta, from)[TOKEN_POSITION];
        const uint last = p + until - 1 - from;
        const struct table table = {blocks_of(meta, row, window_table),
                                    page,
                                    first_seen(p),
                                    kv + kv_at,
                                    kv_head,
                                    books};
        const uint begin = table.low / TURN * TURN;
        const uint t0 = token0 + r0 / GROUP, t1 = token0 + r1 / GROUP;
        const bool has0 = r0 < TILE * GROUP && t0 >= from && t0 < until;
        const bool has1 = r1 < TILE * GROUP && t1 >= from && t1 < until;
        const uint p0 = has0 ? p + t0 - from : last;
        const uint p1 = has1 ? p + t1 - from : last;
        float acc[HD / 8][4], s[TURN / 8][4];
        float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};

#pragma unroll
        for (uint n = 0; n < HD / 8; n++) {
            acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0.0f;
        }
        load_turn(k, table, false, begin, last);
        for (uint turn = begin; turn <= last; turn += TURN) {
            float shrink0, shrink1;

            refresh(&at);
            load_turn(v, table, true, turn, last);
            copy_wait(1);
            barrier(CLK_LOCAL_MEM_FENCE);
            scores(s, q + warp * 16 * WIDE, k, &at);
            barrier(CLK_LOCAL_MEM_FENCE);
            load_turn(k, table, false, turn + TURN, last);
            if (turn + TURN > p || turn < first_seen(last)) {
                mask(s, turn, p0, p1, opaque(c));
            }
            shrink0 = weigh(s, &top[0], &sum[0], 0);
            shrink1 = weigh(s, &top[1], &sum[1], 1);
#pragma unroll
            for (uint n = 0; n < HD / 8; n++) {
                acc[n][0] *= shrink0;
                acc[n][1] *= shrink0;
                acc[n][2] *= shrink1;
                acc[n][3] *= shrink1;
            }
            copy_wait(1);
            barrier(CLK_LOCAL_MEM_FENCE);
            add_values(acc, s, v, &at);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        copy_wait(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        rotate_back(acc, c);
        if (has0) {
            store(y + y_at + (ulong)t0 * NH * HD,
                  in + in_at + (ulong)t0 * IN_LD, acc,
                  value_factor(top[0] * LOG2_SCALE, sum[0],
                               sinks ? sinks + h0 : 0),
                  h0, 0, opaque(c));
        }
        if (has1) {
            store(y + y_at + (ulong)t1 * NH * HD,
                  in + in_at + (ulong)t1 * IN_LD, acc,
                  value_factor(top[1] * LOG2_SCALE, sum[1],
                               sinks ? sinks + h1 : 0),
                  h1, 1, opaque(c));
        }
        from = until;
    }
}
