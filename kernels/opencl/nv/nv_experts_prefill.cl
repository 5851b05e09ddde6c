/* nv_experts_prefill.cl - products of prompt tokens with their experts, on
 * NVIDIA's matrix units.
 *
 * The formulas and argument lists are those of experts.cl.  EPILOGUE selects
 * the kernel in this program: experts_down (0), experts_gate_up (1).
 *
 *   in     [T, K] bf16; down: [T * PAIRS, K]
 *   w      [N_ALL * N, K], gate_up [N_ALL * 2 N, K]  bf16, or quantised
 *          (common.cl)
 *   out    [T * PAIRS, N] bf16;  down: y [T * PAIRS, N] f32
 *   ss     [T, SS_LD] f32: nv_norm_fold.cl runs before gate_up, which reads
 *          only the first of each token
 *
 * A work-group has a tile of TILE_W rows of one expert's w by up to TILE_P of
 * its pairs.  Rows of w are the left operand of wgmma and pairs the right one,
 * since a right operand may have any multiple of 8 rows: a tile multiplies as
 * many pairs as it has, rounded up to 32.  Of each 16 rows of w, a work-item
 * has the sums of rows i and i + 8.  These are gate and up of column i, or, for
 * down, adjacent columns 2 i and 2 i + 1.
 *
 * Columns of w and in arrive in local memory in stages of 64, in the layout of
 * nv_matmul_prefill.cl.  A stage is copied while the two before it are
 * multiplied.  Quantised weights are loaded one stage earlier into registers,
 * and become bf16 on the way to local memory, beside the products.
 *
 * Launch    ITEMS = 2 * TILE_W work-items; dim 0: ceil(N / COLS), COLS = TILE_W
 *           (gate_up: / 2); dim 1: tiles of pairs.  Tiles without pairs end at
 *           once
 * Defines   N, K of an expert's matrix (N: columns of out); EPILOGUE 0, 1;
 *           TILE_W 64 * 1..4; TILE_P 32 * 1..8; STAGES 3..; PAIRS, N_ALL,
 *           ALTERNATE as experts.cl
 * Needs     sm_90a; K a multiple of 64 and of W_GROUP, N of 8; 128 * STAGES *
 *           (TILE_W + TILE_P) bytes of local memory and 8 * TILE_P, even beyond
 *           what the device reports
 * Numerics  one sum in float32, by 16 columns at a time in their order.  Of the
 *           defines only K changes any bit.  A quantised weight is rounded to
 *           bf16.  A pair's bits depend on no other pair */
#define STEP   64 /* columns of a stage */
#define STEPS  (K / STEP)
#define AHEAD  (STAGES - 2) /* stages in flight */
#define PARTS  (EPILOGUE == 1 ? 2 : 1)
#define COLS   (TILE_W / PARTS) /* columns of out */
#define ITEMS  (TILE_W * 2)
#define UNITS  8           /* of 16 bytes, of a row in a stage */
#define PASS   (ITEMS / 8) /* rows that all work-items copy at once */
#define STAGE  ((TILE_W + TILE_P) * UNITS)
#define COPIES ((TILE_P + PASS - 1) / PASS) /* of in, by a work-item */
#define GRAIN  32 /* pairs */

/* ---- rows of w ---- */

/* Returns the column of row r of the tile that begins at column j0. */
INLINE uint column_of(uint j0, uint r)
{
    return EPILOGUE == 1 ? j0 + r / 16 * 8 + r % 8
                         : j0 + r / 16 * 16 + r % 8 * 2 + r / 8 % 2;
}

/* Returns the row of the expert's matrix for column j; r: row of the tile. */
INLINE uint row_at(uint j, uint r)
{
    if (EPILOGUE == 0) {
        return j;
    }
    return ALTERNATE ? 2 * j + r / 8 % 2 : r / 8 % 2 * N + j;
}

#if SPAN > 1
/* A load of 16 bytes is 8 * SPAN columns of a row. */
#define PER_ROW (STEP / (8 * SPAN)) /* loads */
#define AT_ONCE (ITEMS / PER_ROW)   /* rows */
#define LOADS   (TILE_W / AT_ONCE)  /* of a work-item */

struct weights {
    __global const weight_t *of[LOADS];
    __global const scales_t *scales[LOADS]; /* of the row */
    struct load held[LOADS];
};

INLINE void find_weights(struct weights *s, __global const weight_t *w,
                         uint expert, uint j0)
{
    const matrix_t m = matrix_of(w, 0, (ulong)N_ALL * N * PARTS * K);
    const uint c = get_local_id(0) % PER_ROW * (8 * SPAN);

    #pragma unroll
    for (uint i = 0; i < LOADS; i++) {
        const uint r = get_local_id(0) / PER_ROW + i * AT_ONCE;
        const uint j = min(column_of(j0, r), (uint)N - 1);
        const ulong row = (ulong)expert * N * PARTS + row_at(j, r);

        s->of[i] = w + (row * K + c) * W_BITS / 8;
        s->scales[i] =
            (__global const scales_t *)m.pairs + row * (K / W_GROUP);
    }
}

/* Loads a stage into registers. */
INLINE void load_weights(struct weights *s, uint step)
{
    const uint c = step * STEP + get_local_id(0) % PER_ROW * (8 * SPAN);

    if (step < STEPS) {
        #pragma unroll
        for (uint i = 0; i < LOADS; i++) {
            s->held[i].v = load_once((__global const ushort *)(
                s->of[i] + step * (STEP * W_BITS / 8)));
            s->held[i].pair = s->scales[i][c / W_GROUP];
        }
    }
}

/* Widens the loaded stage, and loads the next one. */
INLINE void fetch_weights(__local uint4 *stage, struct weights *s, uint step)
{
    const uint unit = get_local_id(0) % PER_ROW * SPAN;

    #pragma unroll
    for (uint i = 0; i < LOADS; i++) {
        const uint r = get_local_id(0) / PER_ROW + i * AT_ONCE;

        #pragma unroll
        for (uint p = 0; p < SPAN; p++) {
            stage[r * UNITS + ((unit + p) ^ r % 8)] = widen(&s->held[i], p);
        }
    }
    load_weights(s, step + 1);
}
#else
/* Rows of w between the copies of a work-item. */
#define PITCH (PASS / PARTS * (EPILOGUE == 1 && ALTERNATE ? 2 : 1))

struct weights {
    __global const weight_t *first;
    uint n; /* how many of the rows exist */
};

INLINE void find_weights(struct weights *s, __global const weight_t *w,
                         uint expert, uint j0)
{
    const uint r = get_local_id(0) / 8, c = get_local_id(0) % 8 * 8;
    const uint j = column_of(j0, r);

    s->first = w + ((ulong)expert * N * PARTS + row_at(j, r)) * K + c;
    s->n = j < N ? (N - j + PASS / PARTS - 1) / (PASS / PARTS) : 0;
}

INLINE void load_weights(struct weights *s, uint step)
{
}

INLINE void fetch_weights(__local uint4 *stage, struct weights *s, uint step)
{
    const uint id = get_local_id(0), row = id / 8;
    __local uint4 *to = stage + row * UNITS + (id % 8 ^ row % 8);

    #pragma unroll
    for (uint i = 0; i < TILE_W / PASS; i++) {
        copy_async(to + i * PASS * UNITS,
                   s->first + (ulong)i * PITCH * K + step * STEP,
                   i < s->n ? 16 : 0);
    }
}
#endif

/* ---- pairs ---- */

/* A work-item copies unit id % 8 of every PASS-th pair from id / 8. */
struct source {
    struct weights w;
    __global const ushort *in;
    uint at[COPIES]; /* of its pairs in `in`, in units of 8 columns */
    uint n;          /* pairs of the tile */
};

INLINE void find_pairs(struct source *s, __global const ushort *in,
                       __local const uint *pair, uint n)
{
    const uint id = get_local_id(0);

    s->in = in;
    s->n = n;
    #pragma unroll
    for (uint i = 0; i < COPIES; i++) {
        const uint p = pair[min(id / 8 + i * PASS, n - 1)];

        s->at[i] = (EPILOGUE == 1 ? p / PAIRS : p) * (K / 8) + id % 8;
    }
}

/* Rows behind the last pair keep what they have: no sum of a pair reads
 * them. */
INLINE void fetch_pairs(__local uint4 *stage, const struct source *s, uint step)
{
    const uint id = get_local_id(0), row = id / 8;
    __local uint4 *to =
        stage + (TILE_W + row) * UNITS + (id % 8 ^ row % 8);

    #pragma unroll
    for (uint i = 0; i < COPIES; i++) {
        if (i * PASS + row < s->n) {
            copy_async(to + i * PASS * UNITS,
                       s->in + (ulong)s->at[i] * 8 + step * STEP, 16);
        }
    }
}

/* ---- sums ---- */

/* acc += a step of 16 columns, for `width` pairs. */
INLINE void multiply(float *acc, const ulong a, const ulong b,
                     const uint width)
{
    if (width == 32) {
        wgmma_32(acc, a, b);
    }
#if TILE_P >= 64
    if (width == 64) {
        wgmma_64(acc, a, b);
    }
#endif
#if TILE_P >= 96
    if (width == 96) {
        wgmma_96(acc, a, b);
    }
#endif
#if TILE_P >= 128
    if (width == 128) {
        wgmma_128(acc, a, b);
    }
#endif
#if TILE_P >= 160
    if (width == 160) {
        wgmma_160(acc, a, b);
    }
#endif
#if TILE_P >= 192
    if (width == 192) {
        wgmma_192(acc, a, b);
    }
#endif
#if TILE_P >= 224
    if (width == 224) {
        wgmma_224(acc, a, b);
    }
#endif
#if TILE_P >= 256
    if (width == 256) {
        wgmma_256(acc, a, b);
    }
#endif
}

INLINE void sums(float *acc, struct source *s, __local uint4 *ring,
                 const uint width)
{
    const ulong stage0 = wgmma_rows(ring);
    const uint a = get_local_id(0) / 128 * 64 * UNITS, b = TILE_W * UNITS;

    #pragma unroll 1
    for (uint step = 0; step < STEPS; step++) {
        const ulong stage = stage0 + step % STAGES * STAGE;
        const uint next = step + AHEAD;

        copy_wait(AHEAD - 1);
        wgmma_publish();
        barrier(CLK_LOCAL_MEM_FENCE); /* all work-items are done with the stage
                                       * before the last */
        wgmma_begin();
        #pragma unroll
        for (uint k = 0; k < STEP / 16; k++) {
            multiply(acc, stage + a + k * 2, stage + b + k * 2, width);
        }
        wgmma_commit();
        if (next < STEPS) {
            fetch_pairs(ring + next % STAGES * STAGE, s, next);
            fetch_weights(ring + next % STAGES * STAGE, &s->w, next);
        }
        copy_commit();
        wgmma_wait(1);
    }
    wgmma_wait(0);
}

/* The width is a constant in each loop. */
INLINE void sums_of_pairs(float *acc, struct source *s, __local uint4 *ring)
{
    const uint grains = (s->n + GRAIN - 1) / GRAIN;

#define WIDTH(i)                              \
    if (TILE_P >= GRAIN * i && grains == i) { \
        sums(acc, s, ring, GRAIN * i);        \
    }
    WIDTH(1) else WIDTH(2) else WIDTH(3) else WIDTH(4)
    else WIDTH(5) else WIDTH(6) else WIDTH(7) else WIDTH(8)
}

/* ---- epilogues ---- */

/* The output, and this work-item's first column there. */
struct target {
    __global ushort *gated;
    __global float *y;
    __global const float *bias; /* of the expert; NULL: none */
    __local const uint *pair;
    __local const float *scale;
    uint j, n;
};

/* A lane has gate and up of column lane / 4, for two pairs.  It stores two
 * columns of pair lane / 4: four lanes store 16 bytes. */
INLINE void finish_gate_up(const struct target *g, const float *acc)
{
    const uint lane = get_local_id(0) % 32, j = g->j + lane / 4;
    const uint out = g->j + lane % 4 * 2;
    float gate_bias = 0.0f, up_bias = 0.0f;

    if (g->bias && j < N) {
        gate_bias = g->bias[ALTERNATE ? 2 * j : j];
        up_bias = g->bias[ALTERNATE ? 2 * j + 1 : j + N];
    }
    #pragma unroll
    for (uint o = 0; o < TILE_P / 8; o++) {
        const float *d = acc + o * 4;
        const uint t = o * 8 + lane % 4 * 2, to = o * 8 + lane / 4;

        if (o * 8 < g->n) {
            const float s = g->scale[t], r = g->scale[t + 1];
            float gate[2] = {s * d[0], r * d[1]};
            float up[2] = {s * d[2], r * d[3]};
            uint two;

            if (g->bias) {
                gate[0] += gate_bias;
                gate[1] += gate_bias;
                up[0] += up_bias;
                up[1] += up_bias;
            }
            two = movmatrix(pack_bf16(activated(gate[0], up[0]),
                                      activated(gate[1], up[1])));
            if (to < g->n && out < N) {
                *(__global uint *)(g->gated + (ulong)g->pair[to] * N + out) =
                    two;
            }
        }
    }
}

/* A lane has two columns, for two pairs. */
INLINE void finish_down(const struct target *g, const float *acc)
{
    const uint lane = get_local_id(0) % 32, j = g->j + lane / 4 * 2;
    float2 bias = 0.0f;

    if (g->bias && j < N) {
        bias = (float2)(g->bias[j], g->bias[j + 1]);
    }
    #pragma unroll
    for (uint o = 0; o < TILE_P / 8; o++) {
        if (o * 8 < g->n) {
            #pragma unroll
            for (uint i = 0; i < 2; i++) {
                const uint t = o * 8 + lane % 4 * 2 + i;
                float2 v = (float2)(acc[o * 4 + i], acc[o * 4 + 2 + i]);

                if (g->bias) {
                    v += bias;
                }
                if (t < g->n && j < N) {
                    *(__global float2 *)(g->y + (ulong)g->pair[t] * N + j) = v;
                }
            }
        }
    }
}

/* ---- the kernels ---- */

/* Starts the copies of the first stages.  Those of w need only the expert, so
 * they come before the pairs are read. */
INLINE void start(struct source *s, __local uint4 *ring, __local uint *pair,
                  __global const ushort *in, __global const uint *order, uint n)
{
    const uint t = get_local_id(0);

    load_weights(&s->w, 0);
    #pragma unroll
    for (uint i = 0; i < AHEAD; i++) {
        if (i < STEPS) {
            fetch_weights(ring + i * STAGE, &s->w, i);
        }
    }
    if (t < n) {
        pair[t] = order[t];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    find_pairs(s, in, pair, n);
    #pragma unroll
    for (uint i = 0; i < AHEAD; i++) {
        if (i < STEPS) {
            fetch_pairs(ring + i * STAGE, s, i);
        }
        copy_commit();
    }
}

/* scale: of the pairs' tokens; the barriers of the sums follow. */
INLINE void read_scales(__local float *scale, __local const uint *pair,
                        __global const float *ss, uint n)
{
    const uint t = get_local_id(0);

    if (t < TILE_P) {
        scale[t] = t < n ? 1.0f / sqrt(ss[(ulong)(pair[t] / PAIRS) * SS_LD] /
                                           (float)H +
                                       EPS)
                         : 0.0f;
    }
}

#define WORK_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#define LOCALS                                                                \
    __local uint4 ring[STAGES * STAGE] __attribute__((aligned(1024)));        \
    __local float scale[TILE_P];                                              \
    __local uint pair[TILE_P];                                                \
    __global const uint *tile = tiles + tiles_at + get_group_id(1) * 3;       \
    const uint expert = tile[0], n_pairs = tile[2];                           \
    const uint j0 = get_group_id(0) * COLS;                                   \
    const uint warp = get_local_id(0) / 32;                                   \
    float acc[TILE_P / 2] = {0.0f};                                           \
    struct source s;

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
    const struct target g = {
        .gated = out + out_at,
        .bias = bias_at == ABSENT ? 0 : bias + bias_at + expert * 2 * N,
        .pair = pair,
        .scale = scale,
        .j = j0 + warp * 8,
        .n = n_pairs};

    if (n_pairs > 0) {
        find_weights(&s.w, w + w_at, expert, j0);
        start(&s, ring, pair, in + in_at, order + order_at + tile[1], n_pairs);
        read_scales(scale, pair, ss + ss_at, n_pairs);
        sums_of_pairs(acc, &s, ring);
        finish_gate_up(&g, acc);
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
    const struct target g = {
        .y = y + y_at,
        .bias = bias_at == ABSENT ? 0 : bias + bias_at + expert * N,
        .pair = pair,
        .scale = scale,
        .j = j0 + warp * 16,
        .n = n_pairs};

    if (n_pairs > 0) {
        find_weights(&s.w, w + w_at, expert, j0);
        start(&s, ring, pair, in + in_at, order + order_at + tile[1], n_pairs);
        sums_of_pairs(acc, &s, ring);
        finish_down(&g, acc);
    }
}
#endif
