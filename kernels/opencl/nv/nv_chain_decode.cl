/* nv_chain_decode.cl - one token's products between two mixers, in one launch.
 *
 *     x    += y w_out^T + out_bias                    the mixer's output
 *     gated = silu(g) u, (g, u) = norm(x) w_gate_up^T
 *     x    += gated w_down^T
 *     in    = norm(x) w_in^T + in_bias                the next layer's first
 *
 *   y      [OUT_K]  bf16     w_out      [H, OUT_K]  bf16, or all four
 *   in     [IN_N]   f32      w_gate_up  [2 I, H]    quantised (common.cl)
 *   x      [H]      f32      w_down     [H, I]
 *                            w_in       [IN_N, H]
 *   next   [H] bf16, ss [SS_LD] f32: operand of down's norm (common.cl);
 *          norms behind out by gamma_post [H], behind down by gamma_next [H]
 *   posts  [H + 2 SS_LD + I / 2] u64, for the exchange between work-groups
 *
 * With PAIRS this file has the functions of nv_chain_experts.cl, which follows
 * it, and no kernel.
 *
 * nv_matmul_decode.cl computes each of the four products with the same bits;
 * this kernel saves the time between launches.  Before a work-group waits for
 * the operands of its next product, it requests the first weights of that
 * product, so memory stays busy.
 *
 * A work-group has rows of each product, in `tiles` one after the other.  A
 * tile is groups of `split` warps; a group has 8 rows, and a warp every
 * split-th chunk of them.  nv_matmul_decode.cl describes how a warp multiplies.
 * The same work-group has the same rows of out and down, so x stays with its
 * work-item between the two.
 *
 * Work-groups do not count arrivals.  A post carries two bf16 or a float, and
 * the launch's number; a reader polls it until that number appears.  A post is
 * stored and read as one word, so no fence is needed.  Each product has its own
 * posts, so none is overwritten before the next launch.
 *
 * Launch    ITEMS work-items; as many work-groups as the device has compute
 *           units, since all must run at the same time.  They do, one per unit,
 *           unless another process holds units (NVIDIA's MPS).  A work-group
 *           that waits for a post longer than any work takes ends the kernel
 *           with a fault.
 * Defines   OUT_K; IN_N: 0 if the last layer, which has no such product;
 *           ITEMS a multiple of 32; DEPTH, most chunks in flight; of
 *           each product _CUT: groups, split, depth, tiles; TILES, the most
 * Needs     sm_80; H, I and OUT_K multiples of 64, IN_N of 8; of a product
 *           groups * split * 32 <= ITEMS, columns a multiple of split chunks,
 *           and of split * depth if it has several tiles, at most 4
 * Numerics  as nv_matmul_decode.cl: of the defines only split changes bits */
#ifndef PAIRS
#define PAIRS 0
#endif
#define KEPT     4          /* lanes whose operands differ */
#define PART     (2 * KEPT) /* of a chunk's operands, per SPAN; 16 bytes each */
#define PATIENCE (1u << 24) /* polls of a post, each over 300 ns */

/* A product and its cut: a constant wherever it is used. */
enum kind { STORE, SILU, ADD };
struct cut {
    enum kind kind;
    uint n, k; /* columns of the output, and of the operands */
    uint groups, split, depth, tiles;
};
#define OUT ((struct cut){ADD, H, OUT_K, OUT_CUT})
#if !PAIRS
#define GATE_UP ((struct cut){SILU, I, H, GATE_UP_CUT})
#define DOWN    ((struct cut){ADD, H, I, DOWN_CUT})
#endif
#if IN_N
#define IN ((struct cut){STORE, IN_N, H, IN_CUT})
#endif

#define MOST(a, b) ((a) > (b) ? (a) : (b))

#if PAIRS
/* Behind the operands and squares of out's norm: x gamma, not rounded. */
#define GATED     (PAIRS * EXPERT_DIM)
#define NORM_HELD (3 * H + 2 * SS_LD)
#define SUMS      MOST(TILES * ITEMS / 32 * 8, TASKS * 8)
#else
#define GATED     I
#define NORM_HELD (H + 2 * SS_LD)
#define SUMS      (TILES * ITEMS / 32 * 8)
#endif
#define HELD_MOST MOST(NORM_HELD, MOST(GATED, OUT_K)) /* of 2 bytes */

struct shared {
    uint4 held[(HELD_MOST + 7) / 8]; /* operands; squares behind H of them */
    float sums[SUMS];                /* [split][part][column] */
#if PAIRS
    ushort router[ROUTES * H]; /* rows of this work-group */
    float logits[LOGITS + LOGITS % 2];
    float weights[TOP_K + 1];
    uint ids[PAIRS];
#endif
};

INLINE uint parts_of(const struct cut c)
{
    return c.kind == SILU ? 2 : 1;
}

/* Returns the columns of the output that a work-group has. */
INLINE uint cols_of(const struct cut c)
{
    return c.tiles * c.groups * 8 / parts_of(c);
}

INLINE bool has_rows(const struct cut c)
{
    return (uint)get_group_id(0) * cols_of(c) < c.n;
}

/* ---- posts ---- */

/* A post holds two elements of a bf16 vector.  A norm leaves H elements of next
 * and, behind them, each element of ss. */
#define NORM_POSTS (H / 2 + SS_LD)
#define OUT_POSTS  0
#if !PAIRS
#define GATED_POSTS NORM_POSTS
#define DOWN_POSTS  (GATED_POSTS + I / 2)
#endif

/* Returns the number of posts that a product waits for, if any. */
INLINE uint posts_of(const struct cut c)
{
    return c.kind == ADD ? c.k / 2 : NORM_POSTS;
}

INLINE bool is_posted(const uint4 two, const uint number)
{
    return two.y == number && two.w == number;
}

/* Posts column `col`, with all lanes of a warp together; lanes of even columns
 * post. */
INLINE void post_pair(__global ulong *to, const float v, const uint col,
                      const bool mine, const uint number)
{
    const float next = shfl_xor(v, 1);

    if (mine && col % 2 == 0) {
        post(to + col / 2, to_bf16(v) | (uint)to_bf16(next) << 16, number);
    }
}

/* ---- operands ---- */

/* Place of the n-th 8 columns, in the order in which lanes read them. */
INLINE uint place(const uint n)
{
    const uint u = n % (8 * SPAN);

    return n - u + u % SPAN * PART + u / SPAN;
}

/* Returns the j-th unit of a work-item that has `each`.  Work-groups use
 * different orders, so that they do not request the same unit at the same
 * time. */
INLINE uint unit_of(const uint j, const uint each)
{
    const uint i = j + (uint)get_group_id(0) % each;

    return (i < each ? i : i - each) * ITEMS + get_local_id(0);
}

#define EACH(all) (((all) + ITEMS - 1) / ITEMS)

INLINE void hold(__local uint4 *held, const struct cut c,
                 __global const ushort *in)
{
    const uint each = EACH(c.k / 8);

    #pragma unroll
    for (uint j = 0; j < each; j++) {
        const uint i = unit_of(j, each); /* 8 columns */

        if (i < c.k / 8) {
            copy_async(held + place(i), in + i * 8, 16);
        }
    }
    copy_commit();
    copy_wait(0);
}

/* Reads posts as they arrive, two at a time, until this work-item has all of
 * its units. */
INLINE void collect(uint4 *got, const uint all, __global const ulong *posts,
                    const uint number)
{
    const uint each = EACH(all);
    bool waits = true;

    #pragma unroll
    for (uint j = 0; j < each; j++) {
        got[j] = (uint4)(unit_of(j, each) < all ? ~number : number);
    }
    for (uint look = 0; waits; look++) {
        #pragma unroll
        for (uint j = 0; j < each; j++) {
            if (!is_posted(got[j], number)) {
                got[j] = posted(posts + 2 * unit_of(j, each));
            }
        }
        waits = false;
        #pragma unroll
        for (uint j = 0; j < each; j++) {
            waits = waits || !is_posted(got[j], number);
        }
        if (look == PATIENCE) {
            give_up();
        }
    }
}

INLINE void hold_posts(__local uint2 *held, const struct cut c,
                       __global const ulong *posts, const uint number)
{
    const uint all = posts_of(c) / 2, each = EACH(all);
    uint4 got[EACH(MOST(NORM_POSTS, GATED / 2) / 2)];

    collect(got, all, posts, number);
    #pragma unroll
    for (uint j = 0; j < each; j++) {
        const uint i = unit_of(j, each); /* 4 columns, or 2 squares */

        if (i < all) {
            held[i < c.k / 4 ? place(i / 2) * 2 + i % 2 : i] =
                (uint2)(got[j].x, got[j].z);
        }
    }
}

/* 1 / sqrt(mean of squares + eps), with one warp. */
INLINE float find_scale(__local const struct shared *s, const uint lane)
{
    __local const float *ss = (__local const float *)(s->held + H / 8);
    float sum = 0.0f;

    #pragma unroll 16
    for (uint i = lane; i < SS_LD; i += 32) {
        sum += ss[i];
    }
    #pragma unroll
    for (uint m = 16; m > 0; m /= 2) {
        sum += shfl_xor(sum, m);
    }
    return 1.0f / sqrt(sum / (float)H + EPS);
}

/* ---- weights ---- */

/* A warp's 8 rows of w (silu: 4 of gate, 4 of up), at this lane's row and
 * columns of the warp's first chunk.  The lane's other columns are half a chunk
 * further. */
struct rows {
    __global const weight_t *of;
#if SPAN > 1
    __global const scales_t *pairs;
#endif
    uint steps; /* steps of this warp, in all its tiles */
};

/* Returns the steps of a tile. */
INLINE uint steps_of(const struct cut c)
{
    return c.k / CHUNK / c.split;
}

INLINE struct rows find_rows(const struct cut c, __global const weight_t *w,
                             const uint warp, const uint lane)
{
    const uint n = 8 / parts_of(c), g = lane / 4;
    const uint group =
        (uint)get_group_id(0) * (c.tiles * c.groups) + warp / c.split;
    const ulong row = group * n + (g < n ? g : g - n + c.n);
    const ulong at =
        row * c.k + warp % c.split * CHUNK + lane % 4 * (8 * SPAN);
    struct rows r;

#if SPAN == 1
    r.of = w + at;
#else
    const matrix_t m = matrix_of(w, 0, (ulong)c.n * parts_of(c) * c.k);

    r.of = w + at * W_BITS / 8;
    r.pairs = (__global const scales_t *)m.pairs + at / W_GROUP;
#endif
    r.steps = 0;
    #pragma unroll
    for (uint t = 0; t < c.tiles; t++) {
        if (warp < c.groups * c.split && (group + t * c.groups) * n < c.n) {
            r.steps += steps_of(c);
        }
    }
    return r;
}

/* Returns whether the warp has this tile. */
INLINE bool has_tile(const struct cut c, const struct rows *r, const uint tile)
{
    return tile * steps_of(c) < r->steps;
}

INLINE void load(struct load *v, const struct cut c, const struct rows *r,
                 const uint step)
{
    if (c.tiles == 1 ? step < steps_of(c) : step < r->steps) {
        const uint tile = c.tiles == 1 ? 0 : step / steps_of(c);
        const uint row = tile * (c.groups * 8 / parts_of(c) - 1); /* rows to
                                                                   * skip */

        #pragma unroll
        for (uint i = 0; i < 2; i++) {
            const uint at =
                step * (c.split * CHUNK) + row * c.k + i * (CHUNK / 2);

#if SPAN == 1
            v[i].v = load_once(r->of + at);
#else
            v[i].v = load_once(
                (__global const ushort *)(r->of + at * W_BITS / 8));
            v[i].pair = r->pairs[at / W_GROUP];
#endif
        }
    }
}

/* Requests the first chunks of a product. */
INLINE void start(struct load v[DEPTH][2], const struct cut c,
                  const struct rows *r)
{
    if (r->steps > 0) {
        #pragma unroll
        for (uint d = 0; d < c.depth; d++) {
            load(v[d], c, r, d);
        }
    }
}

INLINE void multiply(float *acc, const struct load *v,
                     __local const uint4 *held)
{
    #pragma unroll
    for (uint s = 0; s < SPAN; s++) {
        const uint4 a = widen(v, s), b = widen(v + 1, s);
        const uint4 p = held[s * PART], q = held[s * PART + KEPT];

        mma_bf16(acc, a.x, 0, b.x, 0, p.x, q.x);
        mma_bf16(acc, a.y, 0, b.y, 0, p.y, q.y);
        mma_bf16(acc, a.z, 0, b.z, 0, p.z, q.z);
        mma_bf16(acc, a.w, 0, b.w, 0, p.w, q.w);
    }
}

/* Sums acc over a warp's tile; the first chunks are in v, or in flight. */
INLINE void products(float *acc, struct load v[DEPTH][2], const struct cut c,
                     const struct rows *r, const uint tile,
                     __local const uint4 *held)
{
    const uint first = tile * steps_of(c);

    #pragma unroll 1
    for (uint step = 0; step < steps_of(c); step += c.depth) {
        #pragma unroll
        for (uint d = 0; d < c.depth; d++) {
            if (step + d < steps_of(c)) {
                multiply(acc, v[d],
                         held + (step + d) * (c.split * CHUNK / 8));
            }
            load(v[d], c, r, first + step + d + c.depth);
        }
    }
}

/* ---- sums ---- */

INLINE uint sum_at(const struct cut c, const uint split, const uint part,
                   const uint j)
{
    return (split * parts_of(c) + part) * cols_of(c) + j;
}

/* Stores a warp's sums: lane i has those of row i / 4; the first is the
 * token's. */
INLINE void leave(__local float *to, const struct cut c, const float *acc,
                  const uint tile, const uint warp, const uint lane)
{
    const uint n = 8 / parts_of(c), g = lane / 4;
    const uint group = tile * c.groups + warp / c.split;

    if (lane % 4 == 0) {
        to[sum_at(c, warp % c.split, g / n, group * n + g % n)] = acc[0];
    }
}

INLINE float total(__local const float *sums, const struct cut c,
                   const uint part, const uint j)
{
    float sum = 0.0f;

    #pragma unroll
    for (uint i = 0; i < c.split; i++) {
        sum += sums[sum_at(c, i, part, j)];
    }
    return sum;
}

/* ---- epilogues ---- */

/* Tensors of a product, from element 0; NULL if absent. */
struct io {
    __global const ushort *y;     /* operands, or instead posts of them: */
    __global const ulong *waited;
    __global ulong *posts; /* posts of the output */
    __global ulong *wide;  /* for add, instead: float32, of the norm's operand,
                            * and behind H of them the squares */
    __global float *out;   /* for add: x */
    __global ushort *next;
    __global float *ss;
    __global const float *bias, *gamma;
};

/* The output of this work-item; its bias and gamma are read early. */
struct output {
    uint col;
    bool mine;
    float bias, gamma;
};

INLINE struct output find_output(const struct cut c, const struct io *io)
{
    const uint j = get_local_id(0), cols = cols_of(c);
    struct output o = {(uint)get_group_id(0) * cols + j, false, 0.0f, 0.0f};

    o.mine = j < cols && o.col < c.n;
    if (o.mine && io->bias) {
        o.bias = io->bias[o.col];
    }
    if (o.mine && io->gamma) {
        o.gamma = io->gamma[o.col];
    }
    return o;
}

/* v: x of this work-item's column. */
INLINE void finish_add(const struct io *io, const struct output *o,
                       const float v, const uint number)
{
    __global ulong *squares = io->wide ? io->wide + H : io->posts + H / 2;
    const float normed = v * o->gamma;
    float square = v * v;

    if (io->wide && o->mine) {
        post(io->wide + o->col, as_uint(normed), number);
    }
    if (io->posts) {
        post_pair(io->posts, normed, o->col, o->mine, number);
    }
    square += shfl_xor(square, 4);
    square += shfl_xor(square, 2);
    square += shfl_xor(square, 1);
    if ((io->wide || io->posts) && o->mine && o->col % NORM_PART == 0) {
        post(squares + o->col / NORM_PART, as_uint(square), number);
    }
    if (io->out && o->mine) {
        io->out[o->col] = v;
        io->next[o->col] = to_bf16(normed);
        if (o->col % NORM_PART == 0) {
            io->ss[o->col / NORM_PART] = square;
        }
    }
}

/* scale: of the norm before store and silu; x: of this work-item, passed from
 * out to down. */
INLINE void finish(const struct cut c, const struct io *io,
                   const struct output *o, __local const struct shared *s,
                   const float scale, float *x, const uint number)
{
    const uint j = get_local_id(0);
    float v = o->mine ? total(s->sums, c, 0, j) : 0.0f;

    if (c.kind == ADD) {
        v = io->bias ? v + o->bias : v;
        *x = o->mine ? v + *x : 0.0f;
        finish_add(io, o, *x, number);
    } else if (c.kind == SILU) {
        const float up = o->mine ? scale * total(s->sums, c, 1, j) : 0.0f;

        v = activated(scale * v, up);
        post_pair(io->posts, v, o->col, o->mine, number);
    } else if (o->mine) {
        v *= scale;
        io->out[o->col] = io->bias ? v + o->bias : v;
    }
}

/* ---- a product ---- */

/* Runs a product whose first weights have been requested.  Before it ends, it
 * requests the first weights of the next product, `then`. */
INLINE void run(const struct cut c, const struct io *io, float *x,
                const struct cut then, __global const weight_t *then_w,
                struct rows *rows, struct load v[DEPTH][2],
                __local struct shared *s, const uint number)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    struct output o = {0};
    float scale = 1.0f;

    if (has_rows(c)) {
        o = find_output(c, io);
        if (io->y) {
            hold(s->held, c, io->y);
        } else {
            hold_posts((__local uint2 *)s->held, c, io->waited, number);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll 1
    for (uint tile = 0; tile < c.tiles; tile++) {
        float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        const bool some = has_tile(c, rows, tile);

        if (some) {
            products(acc, v, c, rows, tile,
                     s->held + warp % c.split * (CHUNK / 8) + lane % KEPT);
        }
        if (then_w && tile + 1 == c.tiles) {
            *rows = find_rows(then, then_w, warp, lane);
            start(v, then, rows);
        }
        if (some) {
            leave(s->sums, c, acc, tile, warp, lane);
        }
    }
    if (has_rows(c)) {
        if (c.kind != ADD && warp * 32 < cols_of(c)) {
            scale = find_scale(s, lane);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        finish(c, io, &o, s, scale, x, number);
    }
}

/* ---- the kernel ---- */

#if !PAIRS
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
chain_decode(__global float *x, ulong x_at, __global ushort *next,
             ulong next_at, __global float *ss, ulong ss_at, __global float *in,
             ulong in_at, __global ulong *posts, ulong posts_at,
             __global const ushort *y, ulong y_at,
             __global const weight_t *w_out, ulong w_out_at,
             __global const float *out_bias, ulong out_bias_at,
             __global const float *gamma_post, ulong gamma_post_at,
             __global const weight_t *w_gate_up, ulong w_gate_up_at,
             __global const weight_t *w_down, ulong w_down_at,
             __global const float *gamma_next, ulong gamma_next_at,
             __global const weight_t *w_in, ulong w_in_at,
             __global const float *in_bias, ulong in_bias_at, uint number)
{
    __local struct shared s;
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    struct load v[DEPTH][2];
    struct rows rows = find_rows(OUT, w_out + w_out_at, warp, lane);
    struct output first;
    float mine;

    start(v, OUT, &rows);
    posts += posts_at;
    w_gate_up += w_gate_up_at;
    w_down += w_down_at;

    const struct io out = {
        .y = y + y_at,
        .posts = posts + OUT_POSTS,
        .bias = out_bias_at == ABSENT ? 0 : out_bias + out_bias_at,
        .gamma = gamma_post + gamma_post_at};
    const struct io gate_up = {.waited = posts + OUT_POSTS,
                               .posts = posts + GATED_POSTS};
    const struct io down = {.waited = posts + GATED_POSTS,
                            .posts = IN_N ? posts + DOWN_POSTS : 0,
                            .out = x + x_at,
                            .next = next + next_at,
                            .ss = ss + ss_at,
                            .gamma = gamma_next + gamma_next_at};

    first = find_output(OUT, &out);
    mine = first.mine ? x[x_at + first.col] : 0.0f;
    run(OUT, &out, &mine, GATE_UP, w_gate_up, &rows, v, &s, number);
    run(GATE_UP, &gate_up, &mine, DOWN, w_down, &rows, v, &s, number);
#if IN_N
    const struct io store = {
        .waited = posts + DOWN_POSTS,
        .out = in + in_at,
        .bias = in_bias_at == ABSENT ? 0 : in_bias + in_bias_at};

    run(DOWN, &down, &mine, IN, w_in + w_in_at, &rows, v, &s, number);
    run(IN, &store, &mine, IN, 0, &rows, v, &s, number);
#else
    run(DOWN, &down, &mine, DOWN, 0, &rows, v, &s, number);
#endif
}
#endif
