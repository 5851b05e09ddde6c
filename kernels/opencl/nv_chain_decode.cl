/* nv_chain_decode.cl - a token's products between two mixers, in one launch.
 *
 *     x    += y w_out^T + out_bias                    the mixer's output
 *     gated = silu(g) u, (g, u) = norm(x) w_gate_up^T
 *     x    += gated w_down^T
 *     in    = norm(x) w_in^T + in_bias                the next layer's first
 *
 *   y      [OUT_K]  bf16     w_out      [H, OUT_K]  bf16
 *   gated  [I]      bf16     w_gate_up  [2 I, H]    bf16
 *   in     [IN_N]   f32      w_down     [H, I]      bf16
 *   x      [H]      f32      w_in       [IN_N, H]   bf16
 *   next   [H] bf16, ss [SS_LD] f32: what a norm leaves (common.cl);
 *          behind out by gamma_post [H], behind down by gamma_next [H]
 *   met    u32, counts the work-groups that came to a meeting
 *
 * nv_matmul_decode.cl computes each of the four, with the same bits; what is
 * gained here is what lies between two launches.  Work-groups meet after each
 * product, and before they do each has asked for its first weights of the next
 * one, so memory has work all the while.  A work-group has one tile of each
 * product: groups of `split` warps, a group with 8 rows of w, a warp every
 * split-th chunk of 64 columns; how a warp multiplies is told there.
 *
 * Launch    ITEMS + 32 items; as many work-groups as the device has compute
 *           units, for all must run at the same time: one a unit does, unless
 *           another process has units to itself (NVIDIA's MPS).  Who waits for
 *           the others longer than any work takes ends the kernel with a fault.
 * Defines   OUT_K; IN_N: 0 if the last layer, then there is no such product;
 *           ITEMS a multiple of 32; DEPTH, chunks on their way, at most; of
 *           each product _CUT: groups, split, depth
 * Needs     sm_80; H, I and OUT_K multiples of 64, IN_N of 8; of a product
 *           groups * split * 32 <= ITEMS, chunks of 64 a multiple of split
 * Numerics  of nv_matmul_decode.cl: of the defines only split changes bits */
#define CHUNK    64
#define KEPT     4          /* lanes whose operands differ */
#define PATIENCE (1u << 24) /* looks at `met`, each over 300 ns */

/* The last warp has no weights: it meets the others.  Who has some on their
 * way would wait for them before it is heard. */
#define LANES   (ITEMS + 32)
#define MEETING (ITEMS / 32)

/* A product and how it is cut: a constant wherever it is used. */
enum kind { STORE, SILU, ADD };
struct cut {
    enum kind kind;
    uint n, k; /* columns of what comes out, and of the operands */
    uint groups, split, depth;
};
#define OUT     ((struct cut){ADD, H, OUT_K, OUT_CUT})
#define GATE_UP ((struct cut){SILU, I, H, GATE_UP_CUT})
#define DOWN    ((struct cut){ADD, H, I, DOWN_CUT})
#if IN_N
#define IN ((struct cut){STORE, IN_N, H, IN_CUT})
#endif

#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define MOST_K     MOST(H, MOST(I, OUT_K))

struct shared {
    uint4 held[MOST_K / 8]; /* operands */
    float ss[SS_LD];
    float scale;
    float sums[ITEMS / 32 * 8]; /* [split][part][column] */
};

INLINE uint parts_of(const struct cut c)
{
    return c.kind == SILU ? 2 : 1;
}

/* Of what comes out, a work-group's. */
INLINE uint cols_of(const struct cut c)
{
    return c.groups * 8 / parts_of(c);
}

/* ---- meetings ---- */

/* When all work-groups have come: what they wrote before is read after. */
INLINE void meet(__global uint *met, const uint all)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == ITEMS) {
        count_in(met);
        for (uint i = 0; (int)(count_seen(met) - all) < 0; i++) {
            if (i == PATIENCE) {
                give_up();
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* ---- operands ---- */

/* Starts copies, of the sums of squares too.  Work-groups start at different
 * places, so as not to ask for the same at the same time. */
INLINE void hold(__local struct shared *s, const struct cut c,
                 __global const ushort *in, __global const float *ss)
{
    const uint all = c.k / 8; /* of 8 columns */
    const uint start = (uint)get_group_id(0) % 16 * (all / 16);

    for (uint n = get_local_id(0); n < all; n += LANES) {
        const uint i = n + start < all ? n + start : n + start - all;

        copy_async(s->held + i, in + i * 8, 16);
    }
    for (uint i = get_local_id(0); c.kind != ADD && i < SS_LD / 4;
         i += LANES) {
        copy_async(s->ss + i * 4, ss + i * 4, 16);
    }
    copy_commit();
}

/* scale = 1 / sqrt(mean of squares + eps), by a warp. */
INLINE void find_scale(__local struct shared *s, const uint lane)
{
    float sum = 0.0f;

    #pragma unroll 4
    for (uint i = lane; i < SS_LD; i += 32) {
        sum += s->ss[i];
    }
    #pragma unroll
    for (uint m = 16; m > 0; m /= 2) {
        sum += shfl_xor(sum, m);
    }
    if (lane == 0) {
        s->scale = 1.0f / sqrt(sum / (float)H + EPS);
    }
}

/* ---- weights ---- */

/* A warp's 8 rows of w (silu: 4 of gate, 4 of up), at this lane's row and
 * columns of the warp's first chunk; as many are 32 columns on. */
struct rows {
    __global const ushort *of;
    bool some; /* or this warp has none */
};

INLINE struct rows find_rows(const struct cut c, __global const ushort *w,
                             const uint warp, const uint lane)
{
    const uint n = 8 / parts_of(c), g = lane / 4;
    const uint group = (uint)get_group_id(0) * c.groups + warp / c.split;
    const ulong row = group * n + (g < n ? g : g - n + c.n);
    struct rows r;

    r.of = w + row * c.k + warp % c.split * CHUNK + lane % 4 * 8;
    r.some = warp < c.groups * c.split && group * n < c.n;
    return r;
}

INLINE uint steps_of(const struct cut c)
{
    return c.k / CHUNK / c.split;
}

INLINE void load(uint4 *v, const struct cut c, const struct rows *r,
                 const uint step)
{
    if (step < steps_of(c)) {
        v[0] = load_once(r->of + step * (c.split * CHUNK));
        v[1] = load_once(r->of + step * (c.split * CHUNK) + CHUNK / 2);
    }
}

/* Asks for the first chunks of a product. */
INLINE void start(uint4 v[DEPTH][2], const struct cut c, const struct rows *r)
{
    if (r->some) {
        #pragma unroll
        for (uint d = 0; d < c.depth; d++) {
            load(v[d], c, r, d);
        }
    }
}

INLINE void multiply(float *acc, const uint4 *v, __local const uint4 *held)
{
    const uint4 p = held[0], q = held[KEPT];

    mma_bf16(acc, v[0].x, 0, v[1].x, 0, p.x, q.x);
    mma_bf16(acc, v[0].y, 0, v[1].y, 0, p.y, q.y);
    mma_bf16(acc, v[0].z, 0, v[1].z, 0, p.z, q.z);
    mma_bf16(acc, v[0].w, 0, v[1].w, 0, p.w, q.w);
}

/* acc of a warp; the first chunks are in v, or on their way. */
INLINE void products(float *acc, uint4 v[DEPTH][2], const struct cut c,
                     const struct rows *r, __local const uint4 *held)
{
    #pragma unroll 1
    for (uint step = 0; step < steps_of(c); step += c.depth) {
        #pragma unroll
        for (uint d = 0; d < c.depth; d++) {
            if (step + d < steps_of(c)) {
                multiply(acc, v[d],
                         held + (step + d) * (c.split * CHUNK / 8));
            }
            load(v[d], c, r, step + d + c.depth);
        }
    }
}

/* ---- sums ---- */

INLINE uint sum_at(const struct cut c, const uint split, const uint part,
                   const uint j)
{
    return (split * parts_of(c) + part) * cols_of(c) + j;
}

/* A warp's sums: lane i has those of row i / 4, the first is the token's. */
INLINE void leave(__local float *to, const struct cut c, const float *acc,
                  const uint warp, const uint lane)
{
    const uint n = 8 / parts_of(c), g = lane / 4;

    if (lane % 4 == 0) {
        to[sum_at(c, warp % c.split, g / n, warp / c.split * n + g % n)] =
            acc[0];
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

/* ---- what becomes of them ---- */

/* Tensors of a product, from element 0; each may be NULL where its kind has
 * no use for it. */
struct io {
    __global const ushort *in;
    __global float *x; /* or what store writes */
    __global ushort *next;
    __global float *ss;
    __global const float *bias, *gamma; /* bias NULL: none */
};

/* The output of this work-item; x, bias and gamma of it are read early. */
struct output {
    uint col;
    bool mine;
    float x, bias, gamma;
};

INLINE struct output find_output(const struct cut c, const struct io *io)
{
    const uint j = get_local_id(0), cols = cols_of(c);
    struct output o = {
        (uint)get_group_id(0) * cols + j, false, 0.0f, 0.0f, 0.0f};

    o.mine = j < cols && o.col < c.n;
    if (o.mine && io->bias) {
        o.bias = io->bias[o.col];
    }
    if (o.mine && c.kind == ADD) {
        o.x = io->x[o.col];
        o.gamma = io->gamma[o.col];
    }
    return o;
}

INLINE void finish_add(const struct io *io, const struct output *o,
                       const float v)
{
    float square = v * v;

    square += shfl_xor(square, 4);
    square += shfl_xor(square, 2);
    square += shfl_xor(square, 1);
    if (o->mine) {
        io->x[o->col] = v;
        io->next[o->col] = to_bf16(v * o->gamma);
        if (o->col % NORM_PART == 0) {
            io->ss[o->col / NORM_PART] = square;
        }
    }
}

INLINE void finish(const struct cut c, const struct io *io,
                   const struct output *o, __local const struct shared *s)
{
    const uint j = get_local_id(0);
    float v = o->mine ? total(s->sums, c, 0, j) : 0.0f;

    if (c.kind == ADD) {
        v = io->bias ? v + o->bias : v;
        finish_add(io, o, o->mine ? v + o->x : 0.0f);
    } else if (o->mine && c.kind == SILU) {
        const float up = s->scale * total(s->sums, c, 1, j);

        io->next[o->col] = to_bf16(silu_of(s->scale * v) * up);
    } else if (o->mine) {
        v *= s->scale;
        io->x[o->col] = io->bias ? v + o->bias : v;
    }
}

/* ---- the whole ---- */

/* A product, whose first weights have been asked for; before its end those of
 * the next are, from then. */
INLINE void run(const struct cut c, const struct io *io,
                const struct cut then, __global const ushort *then_w,
                struct rows *rows, uint4 v[DEPTH][2],
                __local struct shared *s)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const bool some = rows->some;
    struct output o;

    hold(s, c, io->in, io->ss);
    o = find_output(c, io);
    copy_wait(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (c.kind != ADD && warp == MEETING) {
        find_scale(s, lane);
    }
    if (some) {
        products(acc, v, c, rows,
                 s->held + warp % c.split * (CHUNK / 8) + lane % KEPT);
    }
    if (then_w) {
        *rows = find_rows(then, then_w, warp, lane);
        start(v, then, rows);
    }
    if (some) {
        leave(s->sums, c, acc, warp, lane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    finish(c, io, &o, s);
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
chain_decode(__global float *x, ulong x_at, __global ushort *next,
             ulong next_at, __global float *ss, ulong ss_at,
             __global ushort *gated, ulong gated_at, __global float *in,
             ulong in_at, __global uint *met, ulong met_at,
             __global const ushort *y, ulong y_at,
             __global const ushort *w_out, ulong w_out_at,
             __global const float *out_bias, ulong out_bias_at,
             __global const float *gamma_post, ulong gamma_post_at,
             __global const ushort *w_gate_up, ulong w_gate_up_at,
             __global const ushort *w_down, ulong w_down_at,
             __global const float *gamma_next, ulong gamma_next_at,
             __global const ushort *w_in, ulong w_in_at,
             __global const float *in_bias, ulong in_bias_at, uint first)
{
    __local struct shared s;
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint groups = get_num_groups(0);
    uint4 v[DEPTH][2];
    struct rows rows = find_rows(OUT, w_out + w_out_at, warp, lane);

    start(v, OUT, &rows);
    x += x_at;
    next += next_at;
    ss += ss_at;
    gated += gated_at;
    met += met_at;
    w_gate_up += w_gate_up_at;
    w_down += w_down_at;

    const struct io out = {
        y + y_at, x, next, ss,
        out_bias_at == ABSENT ? 0 : out_bias + out_bias_at,
        gamma_post + gamma_post_at};
    const struct io gate_up = {next, 0, gated, ss, 0, 0};
    const struct io down = {
        gated, x, next, ss, 0, gamma_next + gamma_next_at};

    run(OUT, &out, GATE_UP, w_gate_up, &rows, v, &s);
    meet(met, first + groups);
    run(GATE_UP, &gate_up, DOWN, w_down, &rows, v, &s);
    meet(met, first + 2 * groups);
#if IN_N
    const struct io store = {
        next, in + in_at, 0, ss,
        in_bias_at == ABSENT ? 0 : in_bias + in_bias_at, 0};

    run(DOWN, &down, IN, w_in + w_in_at, &rows, v, &s);
    meet(met, first + 3 * groups);
    run(IN, &store, IN, 0, &rows, v, &s);
#else
    run(DOWN, &down, DOWN, 0, &rows, v, &s);
#endif
}
