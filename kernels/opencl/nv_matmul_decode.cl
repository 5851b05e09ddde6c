/* nv_matmul_decode.cl - products of few tokens, on NVIDIA's matrix units.
 *
 * What matmul.cl computes, with its argument lists: EPILOGUE says which of
 * matmul_store (0), matmul_silu (1) and matmul_add (2) this program holds.
 *
 *   in     [T, K]  bf16
 *   w      [N, K], silu [2 N, K]  bf16, or quantised (common.cl)
 *   out    [T, ld_out] f32; silu: [T, N] bf16
 *   x      [T, N] f32;  next [T, N] bf16;  ss [T, SS_LD] f32
 *
 * Each weight is read once, straight to registers: that is the fastest way
 * from memory, if enough is asked for at a time (64 KiB a compute unit) and
 * a warp asks for whole lines.  So a load of a warp is 4 rows of w by 64
 * columns: lane i has row i / 8 and 8 columns from i % 8 * 8.  For the matrix
 * unit row i / 4 of its left operand belongs to lane i: a row of w is two of
 * them, one for the first 32 columns, one for the others, each with zeros
 * where the other has products.
 *
 * Of 8 bits 16 bytes are 16 columns of a lane, of 4 bits 32: a chunk is SPAN
 * times 64 columns, and its columns meet the matrix unit in SPAN parts, part s
 * being columns 8 s .. 8 s + 7 of each lane.  A lane's columns lie in one
 * group; they become bf16 as they go to the matrix unit.
 *
 * A work-group has GROUPS groups of SPLIT warps.  A group has a tile of
 * BLOCKS blocks of 8 rows (silu: 4 of gate, 4 of up); warp s of it takes the
 * chunks s, s + SPLIT, ...  The operands pass through local
 * memory in slabs of SLAB columns, two slabs at a time.
 *
 * Launch    ITEMS = 32 * GROUPS * SPLIT items; dim 0: ceil(N / COLS) groups,
 *           COLS = GROUPS * BLOCKS * 8 (silu: * 4); dim 1:
 *           ceil(n_rows / TOKENS)
 * Defines   N, K of the matrix (N: columns of out); EPILOGUE 0..2; TOKENS of
 *           a tile at most: 1 or a multiple of 8; BLOCKS 1..; GROUPS, SPLIT
 *           1..32; DEPTH 1..: chunks on their way; SLAB: K or more, else a
 *           multiple of 64 * SPAN * SPLIT * DEPTH
 * Needs     sm_80; K a multiple of 64 * SPAN, N of 8; local memory for the
 *           slabs and for SPLIT sums of each output, whatever the device admits
 * Numerics  float32.  Sum s of SPLIT is over the chunks c = s mod SPLIT in
 *           order, columns 0..31 and 32..63 of each apart; the two are added,
 *           then the sums in order of s.  Of the defines only K, SPLIT and
 *           SPAN change any bit.  A quantised weight is rounded to bf16. */
#if defined(W_BITS) && W_BITS > 0
#define SPAN   (16 / W_BITS)
#else
#define SPAN   1
#endif
#define CHUNK  (64 * SPAN) /* columns that a warp takes at a time */
#define CHUNKS (K / CHUNK)
#define ITEMS  (GROUPS * SPLIT * 32)
#define STEPS  ((CHUNKS + SPLIT - 1) / SPLIT) /* chunks of a warp, at most */
#define WHOLE  (CHUNKS % (SPLIT * DEPTH) == 0)

#define OCTETS  ((TOKENS + 7) / 8)
#define PARTS   (EPILOGUE == 1 ? 2 : 1)
#define COLS    (GROUPS * BLOCKS * 8 / PARTS) /* of out, of a work-group */
#define OUTPUTS ((TOKENS * COLS + ITEMS - 1) / ITEMS) /* of a work-item */

#define SLABS       ((K + SLAB - 1) / SLAB)
#define SLAB_CHUNKS (SLABS == 1 ? CHUNKS : SLAB / CHUNK)
#define SLAB_STEPS  ((SLAB_CHUNKS + SPLIT - 1) / SPLIT)
#define KEPT        (TOKENS == 1 ? 4 : 32) /* lanes whose operands differ */
#define PART        (OCTETS * 2 * KEPT) /* of a chunk; 16 bytes each */
#define HELD        (SLAB_CHUNKS * SPAN * PART)

/* ---- operands ---- */

/* Starts copies of a slab, in the order in which lanes want it: [chunk][part]
 * [octet of tokens][half of the lanes][token, 8 columns].  Work-groups start at
 * different places, so as not to ask for the same at the same time. */
INLINE void hold(__local uint4 *held, __global const ushort *in, uint slab,
                 uint n_rows)
{
    const uint units = SLAB_CHUNKS * SPAN * 8; /* of 8 columns, of a token */
    const uint all = min(n_rows, (uint)TOKENS) * units;
    const uint start = (uint)get_group_id(0) % 16 * (all / 16);

    for (uint n = get_local_id(0); n < all; n += ITEMS) {
        uint i = n + start < all ? n + start : n + start - all;
        uint t = i / units, u = i % units, c = slab * units + u;
        uint part = u / (8 * SPAN) * SPAN + u % SPAN, lane = u / SPAN % 8;
        uint to = ((part * OCTETS + t / 8) * 2 + lane / 4) * KEPT +
                  t % 8 * 4 + lane % 4;

        if (SLABS == 1 || c < K / 8) {
            copy_async(held + to, in + (ulong)t * K + c * 8, 16);
        }
    }
}

/* scale[t] = 1 / sqrt(mean of squares + eps): lane i of a warp sums ss i,
 * i + 32, .., then lanes are folded. */
INLINE void find_scales(__local float *scale, __global const float *ss,
                        uint n_rows)
{
    const uint lane = get_local_id(0) % 32;

    for (uint t = get_local_id(0) / 32; t < min(n_rows, (uint)TOKENS);
         t += ITEMS / 32) {
        float sum = 0.0f;

        #pragma unroll 4
        for (uint i = lane; i < SS_LD; i += 32) {
            sum += ss[(ulong)t * SS_LD + i];
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

/* A warp's rows of w: of block b the rows 0..3 and 4..7, at this lane's row
 * and columns of the warp's first chunk.  Past the last row, the last again. */
struct rows {
    __global const weight_t *of[BLOCKS][2];
#if SPAN > 1
    __global const uint *pairs[BLOCKS][2]; /* scale and bias */
#endif
};

/* What a lane loads of a row of a chunk. */
struct load {
    uint4 v;
#if SPAN > 1
    uint pair;
#endif
};

INLINE struct rows find_rows(__global const weight_t *w, uint group, uint split,
                             uint lane)
{
    const uint c = split * CHUNK + lane % 8 * (8 * SPAN);
    struct rows r;

    #pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        #pragma unroll
        for (uint i = 0; i < 2; i++) {
            uint j = (group * BLOCKS + b) * (8 / PARTS);
            uint row = PARTS == 2 ? min(j, (uint)N - 4) + i * N
                                  : min(j, (uint)N - 8) + i * 4;

#if SPAN == 1
            r.of[b][i] = w + (ulong)(row + lane / 8) * K + c;
#else
            const ulong at = (ulong)(row + lane / 8) * K + c;
            const matrix_t m = matrix_of(w, 0, (ulong)N * PARTS * K);

            r.of[b][i] = w + at * W_BITS / 8;
            r.pairs[b][i] = (__global const uint *)m.pairs + at / W_GROUP;
#endif
        }
    }
    return r;
}

/* The chunk of a step; a warp whose chunks are used up gets nothing. */
INLINE void load(struct load v[BLOCKS][2], const struct rows *r, uint step,
                 uint split)
{
    if (WHOLE ? step < STEPS : step * SPLIT + split < CHUNKS) {
        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            #pragma unroll
            for (uint i = 0; i < 2; i++) {
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

/* Part s of what a lane has of a row, as bf16. */
INLINE uint4 widen(const struct load *l, const uint s)
{
#if SPAN == 1
    return l->v;
#elif W_BITS == 8
    const float scale = bf16_low(l->pair), bias = bf16_high(l->pair);
    const uint words[2] = {s == 0 ? l->v.x : l->v.z, s == 0 ? l->v.y : l->v.w};
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        float f[2];

        #pragma unroll
        for (uint j = 0; j < 2; j++) {
            /* 2^23 + q */
            f[j] = as_float(byte_perm(words[i / 2], 0x4b000000,
                                      0x7540 | (i % 2 * 2 + j)));
            f[j] = fma(f[j] - 8388608.0f, scale, bias);
        }
        r[i] = pack_bf16(f[0], f[1]);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#else
    const uint scale = byte_perm(l->pair, 0, 0x1010);
    const uint bias = byte_perm(l->pair, 0, 0x3232);
    const uint word = s == 0 ? l->v.x : s == 1 ? l->v.y : s == 2 ? l->v.z
                                                                 : l->v.w;
    uint r[4];

    #pragma unroll
    for (uint i = 0; i < 4; i++) {
        const uint two = word >> i * 8;
        /* 128 + q, less 128 */
        const uint q = (two & 0xf) | (two << 12 & 0xf0000) | 0x43004300;

        r[i] = fma_bf16x2(fma_bf16x2(q, 0x3f803f80, 0xc300c300), scale, bias);
    }
    return (uint4)(r[0], r[1], r[2], r[3]);
#endif
}

/* acc += part times operands; d[0..1] of rows 0..3, d[2..3] of 4..7. */
INLINE void multiply(float acc[BLOCKS][OCTETS][4], uint4 v[BLOCKS][2],
                     __local const uint4 *held, uint first_half)
{
    const uint other_half = ~first_half;

    #pragma unroll
    for (uint o = 0; o < OCTETS; o++) {
        const uint4 p = held[o * 2 * KEPT], q = held[(o * 2 + 1) * KEPT];

        #define MULTIPLY(e)                                                   \
            mma_bf16(acc[b][o], v[b][0].e & first_half,                       \
                     v[b][1].e & first_half, v[b][0].e & other_half,          \
                     v[b][1].e & other_half, p.e, q.e);
        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            MULTIPLY(x)
        }
        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            MULTIPLY(y)
        }
        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            MULTIPLY(z)
        }
        #pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            MULTIPLY(w)
        }
    }
}

/* ---- sums ---- */

struct sums {
    float v[SPLIT][PARTS][TOKENS][COLS];
};

/* A warp's sums, the two halves of each row added.  Lanes that differ in bit
 * 2 have the halves of one row, each for two tokens: each finishes one. */
INLINE void leave(__local struct sums *to, float acc[BLOCKS][OCTETS][4],
                  uint group, uint split, uint lane)
{
    const bool odd = lane & 4;

    #pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        #pragma unroll
        for (uint o = 0; o < OCTETS; o++) {
            const uint t = o * 8 + lane % 4 * 2 + odd;

            #pragma unroll
            for (uint i = 0; i < 2; i++) {
                const float *d = acc[b][o] + 2 * i;
                const float v = (odd ? d[1] : d[0]) +
                                shfl_xor(odd ? d[0] : d[1], 4);
                const uint part = PARTS == 2 ? i : 0;
                const uint j = PARTS == 2 ? 0 : i * 4;

                if (t < TOKENS) {
                    to->v[split][part][t]
                         [(group * BLOCKS + b) * (8 / PARTS) + j + lane / 8] =
                        v;
                }
            }
        }
    }
}

INLINE float total(__local const struct sums *s, uint part, uint t, uint j)
{
    float sum = 0.0f;

    #pragma unroll
    for (uint i = 0; i < SPLIT; i++) {
        sum += s->v[i][part][t][j];
    }
    return sum;
}

/* ---- what becomes of them ---- */

/* Tensors at the first token and column of the work-group. */
struct target {
    __global float *out; /* x of add */
    __global ushort *next;
    __global float *ss;
    __global const float *bias, *gamma; /* bias NULL: none */
    uint ld, n_rows, n_cols;            /* of the tile that there are */
};

/* What an output of add needs besides its sum, read long before it. */
struct beside {
    float x, bias, gamma;
};

INLINE void read_beside(struct beside *b, const struct target *g)
{
    #pragma unroll
    for (uint i = 0; i < OUTPUTS; i++) {
        const uint e = i * ITEMS + get_local_id(0), t = e / COLS, j = e % COLS;

        if (t < g->n_rows && j < g->n_cols) {
            b[i].x = g->out[(ulong)t * g->ld + j];
            b[i].bias = g->bias ? g->bias[j] : 0.0f;
            b[i].gamma = g->gamma[j];
        }
    }
}

INLINE void finish_add(const struct target *g, const struct beside *b,
                       __local const struct sums *s, uint t, uint j, bool mine)
{
    float v = 0.0f, square;

    if (mine) {
        v = total(s, 0, t, j);
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

INLINE void finish(const struct target *g, const struct beside *b,
                   __local const struct sums *s, __local const float *scale)
{
    #pragma unroll
    for (uint i = 0; i < OUTPUTS; i++) {
        const uint e = i * ITEMS + get_local_id(0), t = e / COLS, j = e % COLS;
        const bool mine = t < g->n_rows && j < g->n_cols;

        if (EPILOGUE == 2) {
            finish_add(g, b + i, s, t, j, mine);
        } else if (mine && EPILOGUE == 1) {
            float gate = scale[t] * total(s, 0, t, j);
            float up = scale[t] * total(s, PARTS - 1, t, j);

            g->next[(ulong)t * g->ld + j] = to_bf16(silu_of(gate) * up);
        } else if (mine) {
            float v = scale[t] * total(s, 0, t, j);

            g->out[(ulong)t * g->ld + j] = g->bias ? v + g->bias[j] : v;
        }
    }
}

/* ---- the whole ---- */

INLINE void products(const struct target *g, __global const weight_t *w,
                     __global const ushort *in, __global const float *ss,
                     __local uint4 *held, __local struct sums *sums,
                     __local float *scale)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint split = warp % SPLIT, group = warp / SPLIT;
    const struct rows rows =
        find_rows(w, get_group_id(0) * GROUPS + group, split, lane);
    const uint first_half = lane & 4 ? 0 : 0xffffffff;
    struct load v[DEPTH][BLOCKS][2];
    float acc[BLOCKS][OCTETS][4] = {{{0.0f}}};
    struct beside beside[EPILOGUE == 2 ? OUTPUTS : 1];

    #pragma unroll
    for (uint d = 0; d < DEPTH; d++) {
        load(v[d], &rows, d, split);
    }
    hold(held, in, 0, g->n_rows);
    copy_commit();
    if (EPILOGUE == 2) {
        read_beside(beside, g);
    } else {
        find_scales(scale, ss, g->n_rows);
    }
    #pragma unroll 1
    for (uint step = 0; step < STEPS; step += DEPTH) {
        const uint slab = step / SLAB_STEPS;

        if (step % SLAB_STEPS == 0) {
            copy_wait(0);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (slab + 1 < SLABS) {
                hold(held + (slab + 1) % 2 * HELD, in, slab + 1, g->n_rows);
                copy_commit();
            }
        }
        #pragma unroll
        for (uint d = 0; d < DEPTH; d++) {
            uint c = (step + d) * SPLIT + split;

            if (WHOLE || c < CHUNKS) {
                __local const uint4 *at =
                    held + slab % 2 * HELD + lane % KEPT +
                    (c - slab * SLAB_CHUNKS) * (SPAN * PART);

                #pragma unroll
                for (uint s = 0; s < SPAN; s++) {
                    uint4 w16[BLOCKS][2];

                    #pragma unroll
                    for (uint b = 0; b < BLOCKS; b++) {
                        w16[b][0] = widen(&v[d][b][0], s);
                        w16[b][1] = widen(&v[d][b][1], s);
                    }
                    multiply(acc, w16, at + s * PART, first_half);
                }
            }
            load(v[d], &rows, step + d + DEPTH, split);
        }
    }
    leave(sums, acc, group, split, lane);
    barrier(CLK_LOCAL_MEM_FENCE);
    finish(g, beside, sums, scale);
}

#define WORK_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#define LOCALS                                                                \
    __local uint4 held[(SLABS > 1 ? 2 : 1) * HELD];                           \
    __local struct sums sums;                                                 \
    __local float scale[TOKENS];

/* First token and column of the work-group, and how many there are. */
#define HERE_ROW  (first + get_group_id(1) * TOKENS)
#define HERE_ROWS min(n_rows - (uint)get_group_id(1) * TOKENS, (uint)TOKENS)
#define HERE_COL  ((uint)get_group_id(0) * COLS)
#define HERE_COLS min(N - HERE_COL, (uint)COLS)

#if EPILOGUE == 0
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
        HERE_COLS};

    products(&g, w + w_at, in + in_at + HERE_ROW * K,
             ss + ss_at + HERE_ROW * SS_LD, held, &sums, scale);
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
        N, HERE_ROWS, HERE_COLS};

    products(&g, w + w_at, in + in_at + HERE_ROW * K,
             ss + ss_at + HERE_ROW * SS_LD, held, &sums, scale);
}
#else
__kernel WORK_GROUP void
matmul_add(__global float *x, ulong x_at, __global ushort *next, ulong next_at,
           __global float *ss, ulong ss_at, __global const ushort *in,
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
        HERE_COLS};

    products(&g, w + w_at, in + in_at + HERE_ROW * K, 0, held, &sums, scale);
}
#endif
