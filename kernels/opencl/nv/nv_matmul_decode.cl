/* nv_matmul_decode.cl - products of few tokens, on NVIDIA's matrix units.
 *
 * The formulas and argument lists are those of matmul.cl.  EPILOGUE selects the
 * kernel in this program: matmul_store (0), matmul_silu (1), matmul_add (2).
 *
 *   in     [T, K]  bf16
 *   w      [N, K], silu [2 N, K]  bf16, or quantised (common.cl)
 *   out    [T, ld_out] f32; silu: [T, N] bf16
 *   x      [T, N] f32;  next [T, N] bf16;  ss [T, SS_LD] f32
 *   part   [SPLIT, n_rows, N] f32;  tickets u32 for each tile, 0 before and
 *          after: for add, where work-groups share columns
 *
 * Loads.  Each weight is read once per tile, straight into registers.  That is
 * the fastest way from memory, provided that enough is requested at a time (64
 * KiB per compute unit) and that whole lines are.  In the matrix unit, row i /
 * 4 of the left operand belongs to lane i.
 *
 * - With one token, a load of a warp is 8 rows of w by 32 columns: lane i has 8
 *   columns from i % 4 * 8.  The next load is the other half of the lines.
 * - With more tokens, a load is 4 rows by 64 columns: lane i has row i / 8.
 *   Lanes of two such loads exchange halves (mma_rows() of nv.cl), which is
 *   faster there.
 *
 * Both give the matrix unit the same products.
 *
 * Quantised weights.  With 8 bits, 16 bytes are 16 columns of a lane; with 4
 * bits, 32.  A chunk is SPAN times 64 columns, and its columns reach the matrix
 * unit in SPAN parts: part s is columns 8 s .. 8 s + 7 of each lane.  A lane's
 * columns are in one group; they become bf16 on the way to the matrix unit.
 *
 * Tiles.  A tile has GROUPS groups of BLOCKS blocks of 8 rows (silu: 4 of gate,
 * 4 of up).  A group has SPLIT warps: warp s takes the chunks s, s + SPLIT, ...
 * The operands pass through local memory in slabs of SLAB columns, two at a
 * time.
 *
 * Experts.  With PAIRS, the rows of in are pairs of a token and one of its
 * experts (experts.cl).  Dimension 1 has a tile of pairs of one expert, as
 * tile_of() reads it; w has the matrices of all experts.
 *
 * Sharing.  All units of a device read all operands, which is much where
 * columns are many and rows few.  Then SHARES work-groups have one tile, with
 * SPLIT / SHARES warps of each group and the columns of these.  Each leaves its
 * sums in `part`; the last one, by ticket, adds them up.
 *
 * Launch    ITEMS = 32 * GROUPS * SPLIT / SHARES items; dim 0: ceil(N / COLS) *
 *           SHARES groups, COLS = GROUPS * BLOCKS * 8 (silu: * 4); dim 1:
 *           ceil(n_rows / TOKENS)
 * Defines   N, K of the matrix (N: columns of out); EPILOGUE 0..2; TOKENS, the
 *           most of a tile: 1 or a multiple of 8; BLOCKS 1, 2, 4..; GROUPS,
 *           SPLIT 1..32; SHARES: 1, or, for add, SPLIT; DEPTH 1..: chunks in
 *           flight; SLAB: K / SHARES or more, else a multiple of
 *           64 * SPAN * SPLIT / SHARES: of DEPTH of these, or of a divisor of
 *           DEPTH
 * Needs     sm_80; K a multiple of 64; chunks a multiple of SPLIT if shared; N
 *           of 8; local memory for the slabs and, unless shared, for SPLIT sums
 *           of each output, even beyond what the device reports
 * Numerics  float32.  Sum s of SPLIT is over the chunks c = s mod SPLIT in
 *           order, 16 columns of each at a time; then the sums are added in
 *           order of s.  Of the defines only K, SPLIT and SPAN change any bit.
 *           A quantised weight is rounded to bf16. */
#ifndef PAIRS
#define PAIRS 0 /* per token; 0: the rows of in are tokens */
#endif
#define CHUNKS ((K + CHUNK - 1) / CHUNK) /* the last one may have fewer columns */
#define WARPS  (SPLIT / SHARES) /* per group */
#define ITEMS  (GROUPS * WARPS * 32)
#define STEPS  ((CHUNKS + SPLIT - 1) / SPLIT) /* most chunks of a warp */
#define WHOLE  (CHUNKS % (SPLIT * DEPTH) == 0)

/* Whether a warp's loads are whole lines, and lanes exchange halves. */
#define EXCHANGE (TOKENS > 1)

#define OCTETS  ((TOKENS + 7) / 8)
#define TILES   ((BLOCKS + 1) / 2) /* of 16 rows */
#define PARTS   (EPILOGUE == 1 ? 2 : 1)
#define COLS    (GROUPS * BLOCKS * 8 / PARTS) /* columns of out, per
                                               * work-group */
#define OUTPUTS ((TOKENS * COLS + ITEMS - 1) / ITEMS) /* per work-item */
#define AT_ONCE (OUTPUTS < 8 ? OUTPUTS : 8)

#define SLABS       ((K / SHARES + SLAB - 1) / SLAB)
#define SLAB_CHUNKS (SLABS == 1 ? CHUNKS / SHARES : SLAB / CHUNK)
#define SLAB_STEPS  ((SLAB_CHUNKS + WARPS - 1) / WARPS)
#define BETWEEN     (SLAB_STEPS < DEPTH ? SLAB_STEPS : DEPTH) /* steps between
                                                               * slabs */
#define KEPT        (TOKENS == 1 ? 4 : 32) /* lanes whose operands differ */
#define PART        (OCTETS * 2 * KEPT) /* per chunk; 16 bytes each */
#define HELD        (SLAB_CHUNKS * SPAN * PART)

#if PAIRS
#define W_ROWS (N_ALL * N * PARTS)
#else
#define W_ROWS (N * PARTS)
#endif

/* ---- rows ---- */

/* Rows of a tile: row t of in, of ss, and of the output. */
struct tile {
    __local const uint *pair; /* [TOKENS] pairs, with PAIRS */
};

INLINE uint in_row(const struct tile tile, uint t)
{
#if PAIRS
    return EPILOGUE == 1 ? tile.pair[t] / PAIRS : tile.pair[t];
#else
    return t;
#endif
}

INLINE uint out_row(const struct tile tile, uint t)
{
#if PAIRS
    return tile.pair[t];
#else
    return t;
#endif
}

/* The row of w behind the first matrix's `first`, for row `row` of N, of gate
 * and then of up. */
INLINE uint w_row(uint first, uint row)
{
#if PAIRS && ALTERNATE
    if (EPILOGUE == 1) {
        return first + (row < N ? 2 * row : 2 * (row - N) + 1);
    }
#endif
    return first + row;
}

/* ---- operands ---- */

/* Starts the copies of a slab, in the order in which lanes read it: [chunk]
 * [part][octet of tokens][half of the lanes][token, 8 columns].  Work-groups
 * start at different places, so that they do not request the same bytes at the
 * same time. */
INLINE void hold(__local uint4 *held, __global const ushort *in,
                 const struct tile tile, uint share, uint slab, uint n_rows)
{
    const uint units = SLAB_CHUNKS * SPAN * 8; /* of 8 columns, per token */
    const uint all = min(n_rows, (uint)TOKENS) * units;
    const uint start = (uint)get_group_id(0) % 16 * (all / 16);

    for (uint n = get_local_id(0); n < all; n += ITEMS) {
        uint i = n + start < all ? n + start : n + start - all;
        uint t = i / units, u = i % units, c = slab * units + u;
        uint part = u / (8 * SPAN) * SPAN + u % SPAN, lane = u / SPAN % 8;
        uint chunk = c / (8 * SPAN);
        uint to = ((part * OCTETS + t / 8) * 2 + lane / 4) * KEPT +
                  t % 8 * 4 + lane % 4;

        if (SHARES > 1) { /* others have the chunks between */
            c += (chunk / WARPS * (SPLIT - WARPS) + share * WARPS) * 8 * SPAN;
        }
        if (SLABS == 1 || chunk < CHUNKS / SHARES) {
            const bool some = K % CHUNK == 0 || c * 8 < K;

            copy_async(held + to,
                       in + (ulong)in_row(tile, t) * K + (some ? c * 8 : 0),
                       some ? 16 : 0);
        }
    }
}

/* scale[t] = 1 / sqrt(mean of squares + eps): lane i of a warp sums ss i, i +
 * 32, .., then lanes are folded. */
INLINE void find_scales(__local float *scale, __global const float *ss,
                        const struct tile tile, uint n_rows)
{
    const uint lane = get_local_id(0) % 32;

    for (uint t = get_local_id(0) / 32; t < min(n_rows, (uint)TOKENS);
         t += ITEMS / 32) {
        float sum = 0.0f;

        #pragma unroll 16
        for (uint i = lane; i < SS_LD; i += 32) {
            sum += ss[(ulong)in_row(tile, t) * SS_LD + i];
        }
        #pragma unroll
        for (uint m = 16; m > 0; m /= 2) {
            sum += shfl_xor(sum, m);
        }
        if (lane == 0) {
            scale[t] = 1.0f / sqrt(sum / (float)H + EPS);
        }
    }
}

/* ---- weights ---- */

/* A warp's two loads of each block of w, at this lane's row and columns of the
 * warp's first chunk.  Rows past the last one repeat it. */
struct rows {
    __global const weight_t *of[BLOCKS][2];
#if SPAN > 1
    __global const scales_t *pairs[BLOCKS][2];
#endif
#if K % CHUNK != 0
    uint col; /* of the first load */
#endif
};

INLINE struct rows find_rows(__global const weight_t *w, uint first, uint group,
                             uint split, uint lane)
{
    const uint per_row = EXCHANGE ? 8 : 4;
    const uint c = split * CHUNK + lane % per_row * (8 * SPAN);
    const uint g = lane / per_row;
    struct rows r;

#if K % CHUNK != 0
    r.col = c;
#endif

    #pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        #pragma unroll
        for (uint i = 0; i < 2; i++) {
            const uint j = (group * BLOCKS + b) * (8 / PARTS);
            const uint upper = EXCHANGE ? i : g / 4;
            const uint row = PARTS == 2 ? min(j, (uint)N - 4) + upper * N
                                        : min(j, (uint)N - 8) + upper * 4;
            const ulong at = (ulong)w_row(first, row + g % 4) * K + c +
                             (EXCHANGE ? 0 : i * CHUNK / 2);

#if SPAN == 1
            r.of[b][i] = w + at;
#else
            const matrix_t m = matrix_of(w, 0, (ulong)W_ROWS * K);

            r.of[b][i] = w + at * W_BITS / 8;
            r.pairs[b][i] = (__global const scales_t *)m.pairs + at / W_GROUP;
#endif
        }
    }
    return r;
}

/* Loads the chunk of a step; a warp without chunks left loads nothing. */
INLINE void load(struct load v[BLOCKS][2], const struct rows *r, uint step,
                 uint split)
{
    if (WHOLE ? step < STEPS : step * SPLIT + split < CHUNKS) {
        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            #pragma unroll
            for (uint i = 0; i < 2; i++) {
#if K % CHUNK != 0
                if (r->col + step * (SPLIT * CHUNK) +
                        (EXCHANGE ? 0 : i * CHUNK / 2) >=
                    K) {
                    v[b][i] = (struct load){0};
                    continue;
                }
#endif
#if SPAN == 1
                v[b][i].v = load_once(r->of[b][i] + step * (SPLIT * CHUNK));
#else
                v[b][i].v = load_once((__global const ushort *)(
                    r->of[b][i] + step * (SPLIT * CHUNK * W_BITS / 8)));
                v[b][i].pair =
                    r->pairs[b][i][step * (SPLIT * CHUNK / W_GROUP)];
#endif
            }
        }
    }
}

/* acc += part times operands, for the rows of BLOCKS blocks; two blocks are the
 * 16 rows of a left operand. */
INLINE void multiply(float acc[TILES][OCTETS][4], uint4 w[2 * TILES][2],
                     __local const uint4 *held, uint n_rows)
{
    #pragma unroll
    for (uint o = 0; o < OCTETS; o++) {
        if (OCTETS <= 4 || o * 8 < n_rows) {
            const uint4 p = held[o * 2 * KEPT], q = held[(o * 2 + 1) * KEPT];

            #define MULTIPLY(e)                                               \
                mma_bf16(acc[i][o], w[2 * i][0].e, w[2 * i + 1][0].e,         \
                         w[2 * i][1].e, w[2 * i + 1][1].e, p.e, q.e);
            #pragma unroll
            for (uint i = 0; i < TILES; i++) {
                MULTIPLY(x)
            }
            #pragma unroll
            for (uint i = 0; i < TILES; i++) {
                MULTIPLY(y)
            }
            #pragma unroll
            for (uint i = 0; i < TILES; i++) {
                MULTIPLY(z)
            }
            #pragma unroll
            for (uint i = 0; i < TILES; i++) {
                MULTIPLY(w)
            }
        }
    }
}

/* acc += a chunk of the rows times operands. */
INLINE void chunk(float acc[TILES][OCTETS][4], struct load v[BLOCKS][2],
                  __local const uint4 *held, bool odd, uint n_rows)
{
    struct load r[BLOCKS][2];

    #pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
#if !EXCHANGE
        r[b][0] = v[b][0];
        r[b][1] = v[b][1];
#else
        mma_rows(&r[b][0].v, &r[b][1].v, v[b][0].v, v[b][1].v, odd);
#if SPAN > 1
        mma_pairs(&r[b][0].pair, &r[b][1].pair, v[b][0].pair, v[b][1].pair,
                  odd);
#endif
#endif
    }
    #pragma unroll
    for (uint s = 0; s < SPAN; s++) {
        uint4 w[2 * TILES][2] = {{0}};

        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            w[b][0] = widen(&r[b][0], s);
            w[b][1] = widen(&r[b][1], s);
        }
        multiply(acc, w, held + s * PART, n_rows);
    }
}

/* ---- sums ---- */

/* Tensors at the first token and column of the work-group. */
struct target {
    __global float *out; /* for add: x */
    __global ushort *next;
    __global float *ss;
    __global const float *bias, *gamma; /* bias NULL: none */
    uint ld, n_rows, n_cols;            /* rows and columns of the tile that
                                         * exist */
    struct tile tile;
    __global float *part;               /* shares: [SPLIT, apart], for add */
    __global uint *ticket;
    ulong apart;
};

struct sums {
    float v[WARPS][PARTS][SHARES > 1 ? 1 : TOKENS][COLS];
};

/* Stores a warp's sums: lane i has those of row i / 4 of each block, in the
 * matrix unit's order (mma_rows()), for two tokens. */
INLINE void leave(__local struct sums *to, const struct target *g,
                  float acc[TILES][OCTETS][4], uint group, uint split,
                  uint share, uint lane)
{
    const uint row = lane / 4, upper = EXCHANGE ? row % 2 : row / 4;
    const uint of_half = EXCHANGE ? row / 2 : row % 4;
    const uint part = PARTS == 2 ? upper : 0;
    const uint first = PARTS == 2 ? of_half : upper * 4 + of_half;

    #pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        const uint j = (group * BLOCKS + b) * (8 / PARTS) + first;

        #pragma unroll
        for (uint o = 0; o < OCTETS; o++) {
            #pragma unroll
            for (uint i = 0; i < 2; i++) {
                const uint t = o * 8 + lane % 4 * 2 + i;
                const float v = acc[b / 2][o][b % 2 * 2 + i];

                if (SHARES > 1) {
                    if (t < g->n_rows && j < g->n_cols) {
                        g->part[(share * WARPS + split) * g->apart +
                                (ulong)t * N + j] = v;
                    }
                } else if (t < TOKENS) {
                    to->v[split][part][t][j] = v;
                }
            }
        }
    }
}

/* Returns whether this work-group is the last of those that share columns, and
 * makes the sums of the others visible. */
INLINE bool is_last(const struct target *g, __local uint *turn)
{
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        *turn = ticket_take(g->ticket);
        if (*turn + 1 == SHARES) {
            *g->ticket = 0;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    fence_device();
    return *turn + 1 == SHARES;
}

INLINE float total(__local const struct sums *s, uint part, uint t, uint j)
{
    float sum = 0.0f;

    #pragma unroll
    for (uint i = 0; i < WARPS; i++) {
        sum += s->v[i][part][t][j];
    }
    return sum;
}

/* ---- epilogues ---- */

/* Values that an output of add needs besides its sum.  They are read before the
 * output is written; those of a work-item's first AT_ONCE outputs, long
 * before. */
struct beside {
    float x, bias, gamma;
    float sum; /* if shared */
};

INLINE void read_beside(struct beside *b, const struct target *g, uint from)
{
    #pragma unroll
    for (uint i = 0; i < AT_ONCE; i++) {
        const uint e = (from + i) * ITEMS + get_local_id(0);
        const uint t = e / COLS, j = e % COLS;

        if (t < g->n_rows && j < g->n_cols) {
            b[i].x = g->out[(ulong)t * g->ld + j];
            b[i].bias = g->bias ? g->bias[j] : 0.0f;
            b[i].gamma = g->gamma[j];
#if SHARES > 1
            b[i].sum = 0.0f;
            #pragma unroll
            for (uint s = 0; s < SPLIT; s++) {
                b[i].sum += g->part[s * g->apart + (ulong)t * N + j];
            }
#endif
        }
    }
}

INLINE void finish_add(const struct target *g, const struct beside *b,
                       __local const struct sums *s, uint t, uint j, bool mine)
{
    float v = 0.0f, square;

    if (mine) {
        v = SHARES > 1 ? b->sum : total(s, 0, t, j);
        v = g->bias ? v + b->bias : v;
        v += b->x;
        g->out[(ulong)t * g->ld + j] = v;
        g->next[(ulong)t * g->ld + j] = to_bf16(v * b->gamma);
    }
    square = v * v;
    square += shfl_xor(square, 4);
    square += shfl_xor(square, 2);
    square += shfl_xor(square, 1);
    if (mine && j % NORM_PART == 0) {
        g->ss[(ulong)t * SS_LD + j / NORM_PART] = square;
    }
}

INLINE void finish_some(const struct target *g, const struct beside *b,
                        __local const struct sums *s,
                        __local const float *scale, uint from)
{
    #pragma unroll
    for (uint i = 0; i < AT_ONCE; i++) {
        const uint e = (from + i) * ITEMS + get_local_id(0);
        const uint t = e / COLS, j = e % COLS;
        const bool mine = t < g->n_rows && j < g->n_cols;

        if (EPILOGUE == 2) {
            finish_add(g, b + i, s, t, j, mine);
        } else if (mine && EPILOGUE == 1) {
            float gate = scale[t] * total(s, 0, t, j);
            float up = scale[t] * total(s, PARTS - 1, t, j);

#if PAIRS
            if (g->bias) {
                gate += g->bias[ALTERNATE ? 2 * j : j];
                up += g->bias[ALTERNATE ? 2 * j + 1 : j + N];
            }
#endif
            g->next[(ulong)out_row(g->tile, t) * g->ld + j] =
                to_bf16(activated(gate, up));
        } else if (mine) {
            float v = PAIRS ? total(s, 0, t, j) : scale[t] * total(s, 0, t, j);

            g->out[(ulong)out_row(g->tile, t) * g->ld + j] =
                g->bias ? v + g->bias[j] : v;
        }
    }
}

INLINE void finish(const struct target *g, struct beside *b,
                   __local const struct sums *s, __local const float *scale)
{
    finish_some(g, b, s, scale, 0);
    #pragma unroll 1
    for (uint from = AT_ONCE; from < OUTPUTS; from += AT_ONCE) {
        if (EPILOGUE == 2) {
            read_beside(b, g, from);
        }
        finish_some(g, b, s, scale, from);
    }
}

/* ---- the kernels ---- */

INLINE void products(const struct target *g, __global const weight_t *w,
                     uint first_row, __global const ushort *in,
                     __global const float *ss, __local uint4 *held, __local struct sums *sums,
                     __local float *scale, __local uint *turn)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint share = get_group_id(0) % SHARES;
    const uint split = warp % WARPS, group = warp / WARPS;
    const uint first = share * WARPS + split; /* chunk */
    const struct rows rows = find_rows(
        w, first_row, get_group_id(0) / SHARES * GROUPS + group, first, lane);
    struct load v[DEPTH][BLOCKS][2];
    float acc[TILES][OCTETS][4] = {{{0.0f}}};
    struct beside beside[EPILOGUE == 2 ? AT_ONCE : 1];

    #pragma unroll
    for (uint d = 0; d < DEPTH; d++) {
        load(v[d], &rows, d, first);
    }
    hold(held, in, g->tile, share, 0, g->n_rows);
    copy_commit();
    if (EPILOGUE != 2) {
        if (!PAIRS || EPILOGUE == 1) {
            find_scales(scale, ss, g->tile, g->n_rows);
        }
    } else if (SHARES == 1) {
        read_beside(beside, g, 0);
    }
    #pragma unroll 1
    for (uint step = 0; step < STEPS; step += DEPTH) {
        #pragma unroll
        for (uint d = 0; d < DEPTH; d++) {
            const uint slab = (step + d) / SLAB_STEPS;
            const uint c = (step + d) * WARPS + split; /* within the share */

            if (d % BETWEEN == 0 && (step + d) % SLAB_STEPS == 0 &&
                step + d < STEPS) {
                copy_wait(0);
                barrier(CLK_LOCAL_MEM_FENCE);
                if (slab + 1 < SLABS) {
                    hold(held + (slab + 1) % 2 * HELD, in, g->tile, share,
                         slab + 1, g->n_rows);
                    copy_commit();
                }
            }
            if (WHOLE || c < CHUNKS / SHARES) {
                chunk(acc, v[d],
                      held + slab % 2 * HELD + lane % KEPT +
                          (c - slab * SLAB_CHUNKS) * (SPAN * PART),
                      lane & 4, g->n_rows);
            }
            load(v[d], &rows, step + d + DEPTH, first);
        }
    }
    leave(sums, g, acc, group, split, share, lane);
    if (SHARES > 1) {
        if (!is_last(g, turn)) {
            return;
        }
        read_beside(beside, g, 0);
    } else {
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    finish(g, beside, sums, scale);
}

#define WORK_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#define LOCALS                                                                \
    __local uint4 held[(SLABS > 1 ? 2 : 1) * HELD];                           \
    __local struct sums sums;                                                 \
    __local float scale[TOKENS];                                              \
    __local uint turn;

/* First token and column of the work-group, and how many there are. */
#define HERE_ROW  (first + get_group_id(1) * TOKENS)
#define HERE_ROWS min(n_rows - (uint)get_group_id(1) * TOKENS, (uint)TOKENS)
#define HERE_COL  ((uint)get_group_id(0) / SHARES * COLS)
#define HERE_COLS min(N - HERE_COL, (uint)COLS)

#if PAIRS

/* Finds the expert of a tile, and the pairs, to [TOKENS]; returns their number.
 * One pair is its own tile if TOKENS is 1. */
INLINE uint find_pairs(__local uint *pair, uint *expert,
                       __global const uint *ids, __global const uint *order,
                       __global const uint *tiles, uint first)
{
    const uint i = get_group_id(1);
#if TOKENS == 1
    const uint n = 1;

    *expert = ids[first + i];
    if (get_local_id(0) == 0) {
        *pair = first + i;
    }
#else
    const uint n = tiles[i * 3 + 2];

    *expert = tiles[i * 3];
    for (uint t = get_local_id(0); t < n; t += ITEMS) {
        pair[t] = order[tiles[i * 3 + 1] + t];
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    return n;
}

#if EPILOGUE == 1
__kernel WORK_GROUP void experts_gate_up(
    __global ushort *out, ulong out_at, __global const ushort *in, ulong in_at,
    __global const float *ss, ulong ss_at, __global const weight_t *w,
    ulong w_at, __global const float *bias, ulong bias_at,
    __global const uint *ids, ulong ids_at, __global const uint *order,
    ulong order_at, __global const uint *tiles, ulong tiles_at, uint first,
    uint n)
{
    LOCALS
    __local uint pair[TOKENS];
    uint expert;
    const uint n_rows = find_pairs(pair, &expert, ids + ids_at,
                                   order + order_at, tiles + tiles_at, first);
    const uint first_bias = expert * 2 * N + (ALTERNATE ? 2 : 1) * HERE_COL;
    const struct target g = {.next = out + out_at + HERE_COL,
                             .bias = bias_at == ABSENT
                                         ? 0
                                         : bias + bias_at + first_bias,
                             .ld = N,
                             .n_rows = n_rows,
                             .n_cols = HERE_COLS,
                             .tile = {pair}};

    if (n_rows > 0) {
        products(&g, w + w_at, expert * 2 * N, in + in_at, ss + ss_at, held,
                 &sums, scale, &turn);
    }
}
#else
__kernel WORK_GROUP void
experts_down(__global float *y, ulong y_at, __global const ushort *in,
             ulong in_at, __global const weight_t *w, ulong w_at,
             __global const float *bias, ulong bias_at,
             __global const uint *ids, ulong ids_at, __global const uint *order,
             ulong order_at, __global const uint *tiles, ulong tiles_at,
             uint first, uint n)
{
    LOCALS
    __local uint pair[TOKENS];
    uint expert;
    const uint n_rows = find_pairs(pair, &expert, ids + ids_at,
                                   order + order_at, tiles + tiles_at, first);
    const struct target g = {.out = y + y_at + HERE_COL,
                             .bias = bias_at == ABSENT ? 0
                                                       : bias + bias_at +
                                                             expert * N +
                                                             HERE_COL,
                             .ld = N,
                             .n_rows = n_rows,
                             .n_cols = HERE_COLS,
                             .tile = {pair}};

    if (n_rows > 0) {
        products(&g, w + w_at, expert * N, in + in_at, 0, held, &sums, scale,
                 &turn);
    }
}
#endif
#elif EPILOGUE == 0
__kernel WORK_GROUP void
matmul_store(__global float *out, ulong out_at, __global const ushort *in,
             ulong in_at, __global const float *ss, ulong ss_at,
             __global const weight_t *w, ulong w_at, __global const float *bias,
             ulong bias_at, uint first, uint n_rows, uint n, uint k,
             uint ld_out)
{
    LOCALS
    const struct target g = {
        out + out_at + HERE_ROW * ld_out + HERE_COL,
        0,
        0,
        bias_at == ABSENT ? 0 : bias + bias_at + HERE_COL,
        0,
        ld_out,
        HERE_ROWS,
        HERE_COLS,
        {0},
        0,
        0,
        0};

    products(&g, w + w_at, 0, in + in_at + HERE_ROW * K,
             ss + ss_at + HERE_ROW * SS_LD, held, &sums, scale, &turn);
}
#elif EPILOGUE == 1
__kernel WORK_GROUP void
matmul_silu(__global ushort *out, ulong out_at, __global const ushort *in,
            ulong in_at, __global const float *ss, ulong ss_at,
            __global const weight_t *w, ulong w_at, uint first, uint n_rows,
            uint n, uint k)
{
    LOCALS
    const struct target g = {
        0, out + out_at + HERE_ROW * N + HERE_COL, 0, 0, 0,
        N, HERE_ROWS, HERE_COLS, {0}, 0, 0, 0};

    products(&g, w + w_at, 0, in + in_at + HERE_ROW * K,
             ss + ss_at + HERE_ROW * SS_LD, held, &sums, scale, &turn);
}
#else
__kernel WORK_GROUP void
matmul_add(__global float *x, ulong x_at, __global ushort *next, ulong next_at,
           __global float *ss, ulong ss_at, __global float *part, ulong part_at,
           __global uint *tickets, ulong tickets_at, __global const ushort *in,
           ulong in_at, __global const weight_t *w, ulong w_at,
           __global const float *bias, ulong bias_at,
           __global const float *gamma, ulong gamma_at, uint first,
           uint n_rows, uint n, uint k)
{
    LOCALS
    const struct target g = {
        x + x_at + HERE_ROW * N + HERE_COL,
        next + next_at + HERE_ROW * N + HERE_COL,
        ss + ss_at + HERE_ROW * SS_LD + HERE_COL / NORM_PART,
        bias_at == ABSENT ? 0 : bias + bias_at + HERE_COL,
        gamma + gamma_at + HERE_COL,
        N,
        HERE_ROWS,
        HERE_COLS,
        {0},
        part + part_at + (ulong)get_group_id(1) * TOKENS * N + HERE_COL,
        tickets + tickets_at +
            (get_group_id(1) * get_num_groups(0) + get_group_id(0)) / SHARES,
        (ulong)n_rows * N};

    products(&g, w + w_at, 0, in + in_at + HERE_ROW * K, 0, held, &sums, scale, &turn);
}
#endif
