/* nv_attention_few.cl - nv_attention_prefill.cl for few prompt tokens, which
 * may follow a long context: the same formulas, arguments and bits.
 *
 * A work-group has TILE tokens with the GROUP query heads of one kv head: 16
 * rows, ordered by (token, head).  All its warps share these rows, so that a
 * turn of 64 positions takes little time: in S = Q K^T warp w has positions 8 w
 * .. 8 w + 7 of the turn, in Y += W V columns w HD / 8 .. of Y, each on the
 * tensor cores, in the order of nv_attention_prefill.cl.  Warps exchange the
 * maxima of their positions, then the weights.  While a turn is added to Y, the
 * next one is scored, and keys and values of DEPTH turns are on their way.
 *
 * Launch    256 work-items; groups ((n_tokens + TILE - 1) / TILE, NKV),
 *           TILE = 16 / GROUP
 * Defines   HD 128 or 256; NH / NKV <= 16; DEPTH 2..4
 * Needs     sm_80; KV_DTYPE 1; kv 16-byte aligned; local memory
 *           (DEPTH * 256 + 32) * HD bytes and 8 KiB
 * Numerics  those of nv_attention_prefill.cl, bit for bit */
#define GROUP  (NH / NKV)
#define WARPS  8
#define LANES  (WARPS * 32)
#define M      16
#define TILE   (M / GROUP)
#define TURN   64
#define IN_LD  ((GATED ? 2 : 1) * NH * HD + 2 * NKV * HD)
#define PLANE  (NKV * BLOCK_TOKENS * HD) /* k or v of a block */
#define WIDE   (HD / 8)                  /* 16-byte pieces of a row */
#define PLANES (TURN * WIDE)             /* pieces of a turn's k or v */
#define COPIES (PLANES / LANES)          /* a work-item's share of them */
#define PAIRS  (HD / 16 / WARPS) /* a warp's columns of Y, by 16 */
#define EXP_LD (TURN + 8)        /* without bank conflicts */
#define SCALE  LOG2_SCALE

/* Place of piece i of row r, for rows of HD bf16 in local memory.  Swizzled, so
 * that eight rows of one piece are in different banks. */
INLINE uint piece_at(const uint r, const uint i)
{
    return r * WIDE + (i ^ (r & 7));
}

/* What the warps of a work-group exchange. */
struct exchange {
    __local float *tops; /* [M][WARPS] maxima of each warp's positions */
    __local float *exps; /* [M][EXP_LD] weights */
    __local uint4 *w;    /* [M][TURN / 8] the same as bf16, swizzled */
};

/* A walk over the context of one row of the step. */
struct walk {
    __global const int *blocks;
    __global const ushort *keys; /* of block 0, this kv head */
    __local uint4 *k, *v;        /* [DEPTH] turns */
    uint page, last;             /* elements of a page; the last position */
};

/* A work-item copies piece id % WIDE of row id / WIDE and of every AT_ONCE-th
 * behind it.  Where WHOLE, AT_ONCE rows are of one block. */
#define AT_ONCE  (LANES / WIDE)
#define BLOCKS   (BLOCK_TOKENS < TURN ? TURN / BLOCK_TOKENS : 1) /* of a turn */
#define OF_BLOCK (COPIES > BLOCKS ? COPIES / BLOCKS : 1)
#define WHOLE                         \
    (BLOCK_TOKENS % AT_ONCE == 0 &&   \
     (TURN % BLOCK_TOKENS == 0 || BLOCK_TOKENS % TURN == 0))

struct source {
    uint block[BLOCKS];                 /* of the turn whose k comes next */
    __global const ushort *row[BLOCKS]; /* k of the turn whose v comes next */
};

/* Reads which blocks have a turn. */
INLINE void find_blocks(struct source *s, const struct walk *w,
                        const uint turn)
{
#pragma unroll
    for (uint n = 0; n < BLOCKS; n++) {
        s->block[n] = (uint)w->blocks[min(turn * TURN + n * BLOCK_TOKENS,
                                          w->last) /
                                      BLOCK_TOKENS];
    }
}

/* Requests k or v of a turn that ends before the last position; plane 0 or
 * PLANE. */
INLINE void load_turn(__local uint4 *to, const struct source *s,
                      const uint plane)
{
    const uint row = get_local_id(0) / WIDE, i = get_local_id(0) % WIDE;

#pragma unroll
    for (uint n = 0; n < COPIES; n++) {
        copy_async(to + piece_at(n * AT_ONCE + row, i),
                   s->row[n / OF_BLOCK] + plane + n % OF_BLOCK * AT_ONCE * HD,
                   16);
    }
}

/* The same for any turn, at more cost; past the last position, that one. */
INLINE void load_any(__local uint4 *to, const struct walk *w, const uint turn,
                     const uint plane)
{
    const uint row = get_local_id(0) / WIDE, i = get_local_id(0) % WIDE;

#pragma unroll
    for (uint n = 0; n < COPIES; n++) {
        const uint p = min(turn * TURN + n * AT_ONCE + row, w->last);
        const uint block = (uint)w->blocks[p / BLOCK_TOKENS];

        copy_async(to + piece_at(n * AT_ONCE + row, i),
                   w->keys + (ulong)block * w->page + plane +
                       p % BLOCK_TOKENS * HD + i * 8,
                   16);
    }
}

INLINE bool is_whole(const struct walk *w, const uint turn)
{
    return WHOLE && turn < w->last / TURN;
}

/* Requests k of a turn, whose blocks have been read, and reads the next
 * one's. */
INLINE void load_keys(struct source *s, const struct walk *w, const uint turn)
{
    const uint row = get_local_id(0) / WIDE, i = get_local_id(0) % WIDE;
    __local uint4 *to = w->k + turn % DEPTH * PLANES;

    if (!is_whole(w, turn)) {
        load_any(to, w, turn, 0);
        return;
    }
#pragma unroll
    for (uint n = 0; n < BLOCKS; n++) {
        s->row[n] = w->keys + (ulong)s->block[n] * w->page +
                    (turn * TURN % BLOCK_TOKENS + row) * HD + i * 8;
    }
    find_blocks(s, w, turn + 1);
    load_turn(to, s, 0);
}

/* Requests v of the turn before, then k of a turn. */
INLINE void load_ahead(struct source *s, const struct walk *w, const uint turn)
{
    const uint turns = w->last / TURN + 1;

    if (turn <= turns) {
        __local uint4 *to = w->v + (turn - 1) % DEPTH * PLANES;

        if (is_whole(w, turn - 1)) {
            load_turn(to, s, PLANE);
        } else {
            load_any(to, w, turn - 1, PLANE);
        }
    }
    if (turn < turns) {
        load_keys(s, w, turn);
    }
    copy_commit();
}

/* Loads this warp's 8 positions of a turn's k. */
INLINE void load_scored(uint b[HD / 32][4], __local const uint4 *k)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    __local const uint4 *row = k + (warp * 8 + lane % 8) * WIDE;
    const uint even = lane / 8 ^ lane % 8, odd = even ^ 4;

#pragma unroll
    for (uint d = 0; d < HD / 32; d++) {
        ldmatrix(b[d], row + (d % 2 ? odd : even) + d / 2 * 8);
    }
}

/* s += Q K^T, of columns 16 d .. */
INLINE void add_scores(float *s, uint q[HD / 16][4], uint b[HD / 32][4],
                       const uint d)
{
    mma_bf16(s, q[d][0], q[d][1], q[d][2], q[d][3], b[d / 2][d % 2 * 2],
             b[d / 2][d % 2 * 2 + 1]);
}

/* s = Q K^T of this warp's 8 positions. */
INLINE void scores(float *s, uint q[HD / 16][4], __local const uint4 *k)
{
    uint b[HD / 32][4];

    load_scored(b, k);
    s[0] = s[1] = s[2] = s[3] = 0.0f;
#pragma unroll
    for (uint d = 0; d < HD / 16; d++) {
        add_scores(s, q, b, d);
    }
}

/* Masks scores past the rows' positions p0 and p1. */
INLINE void mask(float *s, const uint from, const uint p0, const uint p1)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;

#pragma unroll
    for (uint i = 0; i < 2; i++) {
        const uint at = from + warp * 8 + lane % 4 * 2 + i;

        s[i] = at <= p0 ? s[i] : -INFINITY;
        s[i + 2] = at <= p1 ? s[i + 2] : -INFINITY;
    }
}

/* Shares with the other warps the maxima of this warp's positions. */
INLINE void post_tops(const struct exchange *x, const float *s)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;

#pragma unroll
    for (uint h = 0; h < 2; h++) {
        float top = fmax(s[2 * h], s[2 * h + 1]);

        top = fmax(top, shfl_xor(top, 1));
        top = fmax(top, shfl_xor(top, 2));
        if (lane % 4 == 0) {
            x->tops[(lane / 4 + h * 8) * WARPS + warp] = top;
        }
    }
}

/* Raises a row's maximum, and returns the factor that scales earlier sums. */
INLINE float raise(float *top, const struct exchange *x, const uint row)
{
    __local const float4 *of = (__local const float4 *)(x->tops + row * WARPS);
    const float4 a = of[0], b = of[1];
    float now = *top, shrink;

    now = fmax(fmax(now, fmax(fmax(a.x, a.y), fmax(a.z, a.w))),
               fmax(fmax(b.x, b.y), fmax(b.z, b.w)));
    shrink = exp2_fast((*top - now) * SCALE);
    *top = now;
    return shrink;
}

/* Turns this warp's scores of row g or g + 8 (h) into weights, and posts
 * them. */
INLINE void post_weights(const struct exchange *x, const float *s,
                         const float now, const uint h)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint g = lane / 4, c = lane % 4, r = g + h * 8;
    const float a = exp2_fast(fma(s[2 * h], SCALE, -now * SCALE));
    const float b = exp2_fast(fma(s[2 * h + 1], SCALE, -now * SCALE));
    __local uint *w = (__local uint *)(x->w + r * (TURN / 8) + (warp ^ g));

    *(__local float2 *)(x->exps + r * EXP_LD + warp * 8 + 2 * c) =
        (float2)(a, b);
    w[c] = pack_bf16(a, b);
}

/* Returns the sum of a row's weights, in the order of nv_attention_prefill.cl:
 * those of lane c first. */
INLINE float total_of(const struct exchange *x, const uint row)
{
    __local const float *of =
        x->exps + row * EXP_LD + get_local_id(0) % 4 * 2;
    float total = 0.0f;

#pragma unroll
    for (uint n = 0; n < TURN / 8; n++) {
        const float2 v = *(__local const float2 *)(of + n * 8);

        total += v.x;
        total += v.y;
    }
    total += shfl_xor(total, 1);
    total += shfl_xor(total, 2);
    return total;
}

/* acc += W V in this warp's columns, and s = Q K^T of the next turn: two chains
 * at a time.  All fragments are loaded first. */
INLINE void add_values(float acc[PAIRS * 2][4], float *s, uint q[HD / 16][4],
                       const struct exchange *x, __local const uint4 *v,
                       __local const uint4 *next)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint r = lane % 16, unit = lane / 16;
    uint a[TURN / 16][4], b[TURN / 16][PAIRS][4], k[HD / 32][4];

    load_scored(k, next);
#pragma unroll
    for (uint n = 0; n < TURN / 16; n++) {
        ldmatrix(a[n], x->w + r * (TURN / 8) + (2 * n + unit ^ (r & 7)));
#pragma unroll
        for (uint i = 0; i < PAIRS; i++) {
            ldmatrix_trans(b[n][i],
                           v + n * 16 * WIDE +
                               piece_at(r, 2 * (warp * PAIRS + i) + unit));
        }
    }
    s[0] = s[1] = s[2] = s[3] = 0.0f;
#pragma unroll
    for (uint d = 0; d < HD / 16; d++) {
        const uint n = d / (PAIRS * 2), i = d / 2 % PAIRS, h = d % 2;

        add_scores(s, q, k, d);
        mma_bf16(acc[2 * i + h], a[n][0], a[n][1], a[n][2], a[n][3],
                 b[n][i][2 * h], b[n][i][2 * h + 1]);
    }
}

/* Writes this warp's columns of y [HD], for row g or g + 8 (h). */
INLINE void store(__global operand_t *y, __global const float *in,
                  float acc[PAIRS * 2][4], const float sum, const uint head,
                  const uint h)
{
    const uint c = get_local_id(0) % 4, warp = get_local_id(0) / 32;
    const float scale = 1.0f / sum;

#pragma unroll
    for (uint n = 0; n < PAIRS * 2; n++) {
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const uint d = (warp * PAIRS * 2 + n) * 8 + 2 * c + i;
            float v = acc[n][2 * h + i] * scale;

#if GATED
            v *= sigmoid_of(in[head * 2 * HD + HD + d]);
#endif
            y[head * HD + d] = operand_of(v);
        }
    }
}

/* Loads the queries of tokens [token0, token0 + TILE), past the end the last;
 * `to` has room for M rows. */
INLINE void load_queries(uint q[HD / 16][4], __local uint4 *to,
                         __global const float *query, const uint token0,
                         const uint end, const uint kv_head)
{
    const uint lane = get_local_id(0) % 32;

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
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint d = 0; d < HD / 16; d++) {
        ldmatrix(q[d], to + piece_at(lane % 16, 2 * d + lane / 16));
    }
}

/* The rows of a lane: positions of g and g + 8, sums of row `mine`. */
struct rows {
    uint p, p0, p1; /* the first token's position, those of the rows */
    uint mine;      /* one of two rows of this warp */
    float sum;
};

/* Walks the context: acc becomes the sums of this warp's columns. */
INLINE void walk_turns(float acc[PAIRS * 2][4], struct rows *of,
                       const struct walk *w, const struct exchange *x,
                       uint q[HD / 16][4])
{
    const uint g = get_local_id(0) % 32 / 4, turns = w->last / TURN + 1;
    float top[3] = {-INFINITY, -INFINITY, -INFINITY}, s[4];
    struct source source;

    find_blocks(&source, w, 0);
    load_keys(&source, w, 0);
    copy_commit();
#pragma unroll
    for (uint i = 1; i < DEPTH; i++) {
        load_ahead(&source, w, i);
    }
    copy_wait(DEPTH - 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    scores(s, q, w->k);
#pragma unroll 1
    for (uint turn = 0; turn < turns; turn++) {
        float shrink[3];

        if (turn * TURN + TURN > of->p) {
            mask(s, turn * TURN, of->p0, of->p1);
        }
        post_tops(x, s);
        barrier(CLK_LOCAL_MEM_FENCE); /* all are done with k of this turn */
        shrink[0] = raise(&top[0], x, g);
        shrink[1] = raise(&top[1], x, g + 8);
        shrink[2] = raise(&top[2], x, of->mine);
        post_weights(x, s, top[0], 0);
        post_weights(x, s, top[1], 1);
        copy_wait(DEPTH - 2);
        barrier(CLK_LOCAL_MEM_FENCE); /* v of this turn, k of the next */
        load_ahead(&source, w, turn + DEPTH);
#pragma unroll
        for (uint n = 0; n < PAIRS * 2; n++) {
            acc[n][0] *= shrink[0];
            acc[n][1] *= shrink[0];
            acc[n][2] *= shrink[1];
            acc[n][3] *= shrink[1];
        }
        /* At last the scores are of nothing, and unused. */
        add_values(acc, s, q, x, w->v + turn % DEPTH * PLANES,
                   w->k + (turn + 1) % DEPTH * PLANES);
        of->sum = fma(of->sum, shrink[2], total_of(x, of->mine));
    }
    copy_wait(0);
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
attention_few(__global operand_t *y, const ulong y_at, __global float *part,
              const ulong part_at, __global uint *tickets,
              const ulong tickets_at, __global const float *query,
              const ulong query_at, __global const float *in,
              const ulong in_at, __global const ushort *kv, const ulong kv_at,
              const uint page, __global const int *meta,
              const uint first_token, const uint n_tokens, const uint n_splits, __global const float *sinks,
              const ulong sinks_at, const uint window_table)
{
    __local uint4 keys[DEPTH * PLANES], values[DEPTH * PLANES], rows[M * WIDE];
    __local uint4 weights[M * TURN / 8];
    __local float exps[M * EXP_LD], sums[M];
    __local float tops[M * WARPS] __attribute__((aligned(16)));
    const struct exchange x = {tops, exps, weights};
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint g = lane / 4, kv_head = get_group_id(1);
    const uint token0 = first_token + get_group_id(0) * TILE;
    const uint end = min(token0 + TILE, first_token + n_tokens);
    uint from = token0, q[HD / 16][4];

    load_queries(q, rows, query + query_at, token0, end, kv_head);
    while (from < end) { /* the tokens of one row of the step */
        __global const int *row = ROW(meta, TOKEN(meta, from)[TOKEN_ROW]);
        const uint until =
            min(end, (uint)row[ROW_FIRST] + (uint)row[ROW_TOKENS]);
        const uint p = (uint)TOKEN(meta, from)[TOKEN_POSITION];
        const uint last = p + until - 1 - from;
        const struct walk w = {meta + META_BLOCKS + row[ROW_BLOCKS],
                               kv + kv_at + (ulong)kv_head * BLOCK_TOKENS * HD,
                               keys,
                               values,
                               page,
                               last};
        const uint t0 = token0 + g / GROUP, t1 = token0 + (g + 8) / GROUP;
        const bool has0 = g < TILE * GROUP && t0 >= from && t0 < until;
        const bool has1 = g + 8 < TILE * GROUP && t1 >= from && t1 < until;
        struct rows of = {p, has0 ? p + t0 - from : last,
                          has1 ? p + t1 - from : last,
                          warp * 2 + lane / 4 % 2, 0.0f};
        float acc[PAIRS * 2][4] = {{0.0f}};

        walk_turns(acc, &of, &w, &x, q);
        sums[of.mine] = of.sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (has0) {
            store(y + y_at + (ulong)t0 * NH * HD,
                  in + in_at + (ulong)t0 * IN_LD, acc, sums[g],
                  kv_head * GROUP + g % GROUP, 0);
        }
        if (has1) {
            store(y + y_at + (ulong)t1 * NH * HD,
                  in + in_at + (ulong)t1 * IN_LD, acc, sums[g + 8],
                  kv_head * GROUP + (g + 8) % GROUP, 1);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        from = until;
    }
}
