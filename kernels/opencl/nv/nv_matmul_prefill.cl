/* nv_matmul_prefill.cl - products of many tokens, on NVIDIA's matrix units.
 *
 * The formulas and argument lists are those of matmul.cl.  EPILOGUE selects the
 * kernel in this program: matmul_store (0), matmul_silu (1), matmul_add (2).
 *
 *   in     [T, K]  bf16
 *   w      [N, K], silu [2 N, K]  bf16
 *   out    [T, ld_out] f32; silu: [T, N] bf16
 *   x      [T, N] f32;  next [T, N] bf16;  ss [T, SS_LD] f32: store and silu
 *          read only the first of each token: nv_norm_fold.cl runs before
 *
 * A work-group has a tile of TILE_T tokens by TILE_W rows of w (silu: of each
 * 16 rows, 8 of gate and the same 8 of up).  Columns arrive in local memory in
 * stages of 64.  A row of a stage is 8 units of 16 bytes, with unit u of row r
 * at u ^ r % 8.  So neither copies nor ldmatrix have bank conflicts, and wgmma
 * requires this layout.
 *
 * - WGMMA 1: a warpgroup of four warps multiplies 64 tokens by all of TILE_W,
 *   straight from local memory.  A round of ROUND stages is copied while the
 *   two before it are multiplied.
 * - WGMMA 0: a warp multiplies 64 by 64.
 *
 * Launch    ITEMS work-items; dim 0: ceil(rows of w / TILE_W), dim 1:
 *           ceil(n_rows / TILE_T).  Tiles are taken in bands of BAND tiles of
 *           tokens, to reuse the cache
 * Defines   N, K of the matrix (N: columns of out); EPILOGUE 0..2; WGMMA 0, 1;
 *           STAGES 3..; BAND 1..; TILE_T a multiple of 64; TILE_W 128 or 256,
 *           WGMMA: a multiple of 32 up to 256; ITEMS, 128 for each 64 of TILE_T
 *           or (WGMMA 0) 32 for each 64 by 64, is 128..512.  WGMMA: ROUND
 *           divides STAGES, three times or more, and K / 64
 * Needs     sm_80; WGMMA: sm_90a.  K a multiple of 64, N of 8; 128 * STAGES *
 *           (TILE_T + TILE_W) bytes of local memory and 4 * TILE_T, even beyond
 *           what the device reports
 * Numerics  one sum in float32, by 16 columns at a time in their order.  Of
 *           the defines only K, and WGMMA maybe, change any bit. */
#define STEP   64 /* columns of a stage */
#define STEPS  (K / STEP)
#define PARTS  (EPILOGUE == 1 ? 2 : 1)
#define TILE_N (TILE_W / PARTS) /* columns of out */

/* The sums of a warp: M_TILES times 16 tokens, N_TILES times 8 rows of w;
 * WARPS_T warps cover the tokens of a tile. */
#if WGMMA
#define WGMMA_2(w) wgmma_##w
#define WGMMA_1(w) WGMMA_2(w)
#define WGMMA_W WGMMA_1(TILE_W)
#define M_TILES 1
#define N_TILES (TILE_W / 8)
#define ITEMS   (TILE_T * 2)
#else
#define M_TILES 4
#define N_TILES 8
#define ITEMS   (TILE_T * TILE_W / 128)
#endif
#define WARPS_T (TILE_T / (M_TILES * 16))
/* Tiles of 8 columns finished at a time: as many as registers hold. */
#define BATCH \
    (N_TILES % 8 || (EPILOGUE == 2 && (!WGMMA || ITEMS > 256)) ? 4 : 8)
#define BATCHES (M_TILES * 2 * N_TILES / BATCH)

#define UNITS  8            /* of 16 bytes, of a row in a stage */
#define PASS   (ITEMS / 8)  /* rows that all work-items copy at once */
#define STAGE  ((TILE_T + TILE_W) * UNITS)

/* ---- copies ---- */

/* The source of a work-item's copies: unit id % 8 of every PASS-th row from id
 * / 8. */
struct source {
    __global const ushort *in, *w;
    uint n_in, n_w; /* how many of these rows exist */
};

/* Rows of w in a tile are consecutive; silu: 8 of gate, then 8 of up, so PASS
 * rows of the tile are PASS / 2 of either. */
INLINE struct source find_source(__global const ushort *in,
                                 __global const ushort *w, uint t0, uint j0,
                                 uint n_rows)
{
    const uint id = get_local_id(0), row = id / 8, c = id % 8 * 8;
    const uint j = j0 + (PARTS == 2 ? row / 16 * 8 + row % 8 : row);
    const uint part = PARTS == 2 ? row / 8 % 2 : 0;
    struct source s;

    s.in = in + (ulong)(t0 + row) * K + c;
    s.w = w + (ulong)(part * N + j) * K + c;
    s.n_in = t0 + row < n_rows ? (n_rows - t0 - row + PASS - 1) / PASS : 0;
    s.n_w = j < N ? (N - j + PASS / PARTS - 1) / (PASS / PARTS) : 0;
    return s;
}

/* Copies rows; a row that does not exist becomes zeros. */
INLINE void fetch_rows(__local uint4 *to, __global const ushort *from,
                       const uint n_tile, const uint pitch, const uint n)
{
    const uint row = get_local_id(0) / 8;

    #pragma unroll
    for (uint i = 0; i < (n_tile + PASS - 1) / PASS; i++) {
        if (n_tile % PASS == 0 || i * PASS + row < n_tile) {
            copy_async(to + i * PASS * UNITS, from + (ulong)i * pitch * K,
                       i < n ? 16 : 0);
        }
    }
}

INLINE void fetch(__local uint4 *stage, const struct source *s, uint step)
{
    const uint id = get_local_id(0), row = id / 8;
    __local uint4 *to = stage + row * UNITS + (id % 8 ^ row % 8);

    fetch_rows(to, s->in + step * STEP, TILE_T, PASS, s->n_in);
    fetch_rows(to + TILE_T * UNITS, s->w + step * STEP, TILE_W, PASS / PARTS,
               s->n_w);
}

/* ---- sums ---- */

#if WGMMA
#define ROUNDS (STAGES / ROUND) /* in the ring */

/* Requests a round: stages from `step` on. */
INLINE void fetch_round(__local uint4 *ring, const struct source *s, uint step)
{
    #pragma unroll
    for (uint i = 0; i < ROUND; i++) {
        if (step < STEPS) {
            fetch(ring + (step % STAGES + i) * STAGE, s, step + i);
        }
    }
    copy_commit();
}

INLINE void sums(float acc[M_TILES][N_TILES][4], const struct source *s,
                 __local uint4 *ring)
{
    const ulong stage0 = wgmma_rows(ring);
    const uint a = get_local_id(0) / 128 * 64 * UNITS, b = TILE_T * UNITS;

    #pragma unroll
    for (uint i = 0; i < ROUNDS - 2; i++) {
        fetch_round(ring, s, i * ROUND);
    }
    #pragma unroll 1
    for (uint step = 0; step < STEPS; step += ROUND) {
        const ulong stage = stage0 + step % STAGES * STAGE;

        copy_wait(ROUNDS - 3);
        wgmma_publish();
        barrier(CLK_LOCAL_MEM_FENCE); /* all work-items are done with the round
                                       * before the last */
        wgmma_begin();
        #pragma unroll
        for (uint k = 0; k < ROUND * STEP / 16; k++) {
            const ulong at =
                stage + k / (STEP / 16) * STAGE + k % (STEP / 16) * 2;

            WGMMA_W(acc[0][0], at + a, at + b);
        }
        wgmma_commit();
        fetch_round(ring, s, step + (ROUNDS - 2) * ROUND);
        wgmma_wait(1);
    }
    wgmma_wait(0);
}
#else
/* acc += a stage.  Lane i of 32 gives ldmatrix the address of a row.  For 16
 * tokens: row i % 16, unit i / 16; for 16 rows of w: row i % 8 plus 8 times i /
 * 16, unit i / 8 % 2.  a, b: this lane's unit of the first 16 columns. */
INLINE void multiply(float acc[M_TILES][N_TILES][4], __local const uint4 *stage,
                     uint a, uint b)
{
    #pragma unroll
    for (uint k = 0; k < STEP / 16; k++) {
        uint p[M_TILES][4], q[N_TILES / 2][4];

        #pragma unroll
        for (uint m = 0; m < M_TILES; m++) {
            ldmatrix(p[m], stage + (a ^ k * 2) + m * 16 * UNITS);
        }
        #pragma unroll
        for (uint n = 0; n < N_TILES / 2; n++) {
            ldmatrix(q[n], stage + (b ^ k * 2) + n * 16 * UNITS);
        }
        #pragma unroll
        for (uint n = 0; n < N_TILES; n++) {
            #pragma unroll
            for (uint m = 0; m < M_TILES; m++) {
                mma_bf16(acc[m][n], p[m][0], p[m][1], p[m][2], p[m][3],
                         q[n / 2][n % 2 * 2], q[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
}

INLINE void sums(float acc[M_TILES][N_TILES][4], const struct source *s,
                 __local uint4 *ring)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint warp_t = warp % WARPS_T, warp_n = warp / WARPS_T;
    const uint a = (warp_t * 64 + lane % 16) * UNITS + (lane / 16 ^ lane % 8);
    const uint b = (TILE_T + warp_n * 64 + lane / 16 * 8 + lane % 8) * UNITS +
                   (lane / 8 % 2 ^ lane % 8);

    #pragma unroll
    for (uint i = 0; i < STAGES - 1; i++) {
        if (i < STEPS) {
            fetch(ring + i * STAGE, s, i);
        }
        copy_commit();
    }
    #pragma unroll 1
    for (uint step = 0; step < STEPS; step++) {
        const uint ahead = step + STAGES - 1;

        copy_wait(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (ahead < STEPS) {
            fetch(ring + ahead % STAGES * STAGE, s, ahead);
        }
        copy_commit();
        multiply(acc, ring + step % STAGES * STAGE, a, b);
    }
}
#endif

/* ---- epilogues ---- */

/* Tensors at the tile's first token and column. */
struct target {
    __global float *out; /* for add: x */
    __global ushort *next;
    __global float *ss;
    __global const float *bias, *gamma; /* bias NULL: none */
    uint ld, n_rows, n_cols;            /* rows and columns of the tile that
                                         * exist */
};

INLINE void finish_store(const struct target *g, const float *d, uint t, uint j,
                         float scale)
{
    __global float *out = g->out + (ulong)t * g->ld + j;
    float2 v = (float2)(scale * d[0], scale * d[1]);

    if (t < g->n_rows && j < g->n_cols) {
        if (g->bias) {
            v += vload2(0, g->bias + j);
        }
        if (g->ld % 2 == 0) {
            *(__global float2 *)out = v;
        } else {
            vstore2(v, 0, out);
        }
    }
}

INLINE void finish_silu(const struct target *g, const float *gate,
                        const float *up, uint t, uint j, float scale)
{
    if (t < g->n_rows && j < g->n_cols) {
        const float u = activated(scale * gate[0], scale * up[0]);
        const float v = activated(scale * gate[1], scale * up[1]);

        *(__global uint *)(g->next + (ulong)t * g->ld + j) = pack_bf16(u, v);
    }
}

/* x: the value to add to; gamma: that of these columns.  Four lanes together
 * have the 8 columns of a part of ss. */
INLINE void finish_add(const struct target *g, const float *d, uint t, uint j,
                       float2 x, float2 gamma)
{
    const bool mine = t < g->n_rows && j < g->n_cols;
    const ulong at = (ulong)t * g->ld + j;
    float2 v = 0.0f, square;

    if (mine) {
        v = (float2)(d[0], d[1]);
        if (g->bias) {
            v += vload2(0, g->bias + j);
        }
        v += x;
        *(__global float2 *)(g->out + at) = v;
        *(__global uint *)(g->next + at) =
            pack_bf16(v.x * gamma.x, v.y * gamma.y);
    }
    square = v * v;
    square.x += shfl_xor(square.x, 2);
    square.y += shfl_xor(square.y, 2);
    square.x += shfl_xor(square.x, 1);
    square.y += shfl_xor(square.y, 1);
    if (mine && j % NORM_PART == 0) {
        g->ss[(ulong)t * SS_LD + j / NORM_PART] = square.x + square.y;
    }
}

/* Returns where batch b of this lane begins: token and column of the tile. */
INLINE uint2 find_batch(uint b)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint m = b / (2 * N_TILES / BATCH), i = b / (N_TILES / BATCH) % 2;
    const uint n = b % (N_TILES / BATCH) * BATCH + warp / WARPS_T * N_TILES;

    return (uint2)((warp % WARPS_T * M_TILES + m) * 16 + i * 8 + lane / 4,
                   opaque(n * 8 / PARTS + lane % 4 * 2));
}

INLINE void load_batch(float2 *x, const struct target *g, uint2 at)
{
    __global const float *from = g->out + (ulong)at.x * g->ld + at.y;

    #pragma unroll
    for (uint n = 0; n < BATCH; n++) {
        x[n] = at.x < g->n_rows && at.y + n * 8 < g->n_cols
                   ? *(__global const float2 *)(from + n * 8)
                   : 0.0f;
    }
}

/* d: sums of this row, in the batch's BATCH tiles. */
INLINE void finish_batch(const struct target *g, float d[][4], uint i, uint2 at,
                         float scale, const float2 *x)
{
    float2 gamma[BATCH];

    #pragma unroll
    for (uint n = 0; n < (EPILOGUE == 2 ? BATCH : 0); n++) {
        gamma[n] = at.y + n * 8 < g->n_cols ? vload2(0, g->gamma + at.y + n * 8)
                                            : 0.0f;
    }
    #pragma unroll
    for (uint n = 0; n < BATCH; n += PARTS) {
        const uint j = at.y + n * 8 / PARTS;

        if (EPILOGUE == 0) {
            finish_store(g, d[n] + 2 * i, at.x, j, scale);
        } else if (EPILOGUE == 1) {
            finish_silu(g, d[n] + 2 * i, d[n + PARTS - 1] + 2 * i, at.x, j,
                        scale);
        } else {
            finish_add(g, d[n] + 2 * i, at.x, j, x[n], gamma[n]);
        }
    }
}

/* For add, x of a batch is requested before the previous batch is finished, and
 * all gamma of a batch before any of its outputs is stored. */
INLINE void finish(const struct target *g, float acc[M_TILES][N_TILES][4],
                   __local const float *scale)
{
    float2 x[2][BATCH];

    if (EPILOGUE == 2) {
        load_batch(x[0], g, find_batch(0));
    }
    #pragma unroll
    for (uint b = 0; b < BATCHES; b++) {
        const uint2 at = find_batch(b);
        const uint m = b / (2 * N_TILES / BATCH), i = b / (N_TILES / BATCH) % 2;
        const uint n = b % (N_TILES / BATCH) * BATCH;

        if (EPILOGUE == 2 && b + 1 < BATCHES) {
            load_batch(x[(b + 1) % 2], g, find_batch(b + 1));
        }
        finish_batch(g, acc[m] + n, i, at, EPILOGUE == 2 ? 1.0f : scale[at.x],
                     x[b % 2]);
    }
}

/* ---- the kernels ---- */

/* Returns the tile of a work-group: bands of BAND tiles of tokens, and in each
 * band one column of tiles after the other. */
INLINE uint2 find_tile(void)
{
    const uint n_n = get_num_groups(0), n_t = get_num_groups(1);
    const uint i = get_group_id(1) * n_n + get_group_id(0);
    const uint band = i / (BAND * n_n), in_band = i % (BAND * n_n);
    const uint high = min(n_t - band * BAND, (uint)BAND);

    return (uint2)(band * BAND + in_band % high, in_band / high);
}

INLINE void products(const struct target *g, const struct source *s,
                     __global const float *ss, __local uint4 *ring,
                     __local float *scale)
{
    const uint id = get_local_id(0);
    float acc[M_TILES][N_TILES][4] = {{{0.0f}}};

    if (EPILOGUE != 2 && id < TILE_T) {
        const uint t = min(id, g->n_rows - 1);

        scale[id] = 1.0f / sqrt(ss[(ulong)t * SS_LD] / (float)H + EPS);
    }
    sums(acc, s, ring);
    finish(g, acc, scale);
}

#define WORK_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#define LOCALS                                                                \
    __local uint4 ring[STAGES * STAGE] __attribute__((aligned(1024)));        \
    __local float scale[TILE_T];                                              \
    const uint2 tile = find_tile();                                           \
    const uint t0 = tile.x * TILE_T, j0 = tile.y * TILE_N;                    \
    const ulong row = first + t0;                                             \
    const struct source s = find_source(in + in_at + (ulong)first * K,        \
                                        w + w_at, t0, j0, n_rows);

#if EPILOGUE == 0
__kernel WORK_GROUP void
matmul_store(__global float *out, ulong out_at, __global const ushort *in,
             ulong in_at, __global const float *ss, ulong ss_at,
             __global const ushort *w, ulong w_at, __global const float *bias,
             ulong bias_at, uint first, uint n_rows, uint n, uint k,
             uint ld_out)
{
    LOCALS
    const struct target g = {out + out_at + row * ld_out + j0,
                             0,
                             0,
                             bias_at == ABSENT ? 0 : bias + bias_at + j0,
                             0,
                             ld_out,
                             n_rows - t0,
                             N - j0};

    products(&g, &s, ss + ss_at + row * SS_LD, ring, scale);
}
#elif EPILOGUE == 1
__kernel WORK_GROUP void
matmul_silu(__global ushort *out, ulong out_at, __global const ushort *in,
            ulong in_at, __global const float *ss, ulong ss_at,
            __global const ushort *w, ulong w_at, uint first, uint n_rows,
            uint n, uint k)
{
    LOCALS
    const struct target g = {
        0, out + out_at + row * N + j0, 0, 0, 0, N, n_rows - t0, N - j0};

    products(&g, &s, ss + ss_at + row * SS_LD, ring, scale);
}
#else
__kernel WORK_GROUP void
matmul_add(__global float *x, ulong x_at, __global ushort *next, ulong next_at,
           __global float *ss, ulong ss_at, __global float *part, ulong part_at,
           __global uint *tickets, ulong tickets_at, __global const ushort *in,
           ulong in_at, __global const ushort *w, ulong w_at,
           __global const float *bias, ulong bias_at,
           __global const float *gamma, ulong gamma_at, uint first,
           uint n_rows, uint n, uint k)
{
    LOCALS
    const struct target g = {x + x_at + row * N + j0,
                             next + next_at + row * N + j0,
                             ss + ss_at + row * SS_LD + j0 / NORM_PART,
                             bias_at == ABSENT ? 0 : bias + bias_at + j0,
                             gamma + gamma_at + j0,
                             N,
                             n_rows - t0,
                             N - j0};

    products(&g, &s, 0, ring, scale);
}
#endif
