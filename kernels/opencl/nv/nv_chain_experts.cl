/* nv_chain_experts.cl - one token's products between two mixers, in one launch,
 * in a layer with experts.
 *
 *     x      += y w_out^T + out_bias                  the mixer's output
 *     (e, a)  = route(norm(x) w_router^T)             nv_route.cl
 *     gated_p = silu(g) u, (g, u) = norm(x) w_gate_up[e_p]^T, p < PAIRS
 *     x      += sum of a_p gated_p w_down[e_p]^T, in order of p
 *     in      = norm(x) w_in^T + in_bias              the next layer's first
 *
 *   router   [LOGITS, H]                 bf16
 *   gate_up  [N_ALL, 2 EXPERT_DIM, H]    as the other matrices
 *   down     [N_ALL, H, EXPERT_DIM]
 *   posts    [H + SS_LD, LOGITS, PAIRS * EXPERT_DIM / 2, H / 2 + SS_LD] u64;
 *            LOGITS rounded up to an even number
 *
 * This file follows nv_chain_decode.cl in the program, which describes the other
 * tensors, how work-groups exchange values, and how a warp multiplies.
 *
 * Route.  A work-group has ROUTES logits, whose weights it copies to local
 * memory when the kernel begins.  The operand of the norm is posted in float32,
 * which the router needs; each work-group rounds it for gate_up.  Each
 * work-group reads all logits and chooses the experts itself.
 *
 * Tasks.  A product of experts is cut into blocks of 8 rows for one pair, and
 * each block into `split` tasks for one warp: task s has the chunks s, s +
 * split, ..  A work-group has adjacent blocks of gate_up of all pairs, counted
 * pair by pair; of down it has, for each pair, the rows that it has of out, so x
 * stays with its work-item.  Tasks go to warps in turn.  A warp requests the
 * first chunks of a task before it has finished the one before.
 *
 * Launch    as nv_chain_decode.cl
 * Defines   those of nv_chain_decode.cl, where groups and split of gate_up and
 *           down describe the tasks of a work-group (down: of a pair), and tiles
 *           is 1; those of route.cl; EXPERT_DIM; ROUTED __local; ROUTES; TASKS,
 *           the most of a product
 * Needs     as nv_chain_decode.cl, EXPERT_DIM as I there; TOP_K at most 32;
 *           depth of gate_up and down a multiple or a divisor of the steps of a
 *           task; outputs of a work-group at most ITEMS
 * Numerics  as nv_chain_decode.cl, nv_route.cl, and experts_sum of route.cl */
#define GATE_UP ((struct cut){SILU, GATED, H, GATE_UP_CUT})
#define DOWN    ((struct cut){ADD, H, EXPERT_DIM, DOWN_CUT})
#define SLOTS   (ITEMS / 32) /* warps */

#define LOGIT_POSTS (OUT_POSTS + H + SS_LD)
#define GATED_POSTS (LOGIT_POSTS + LOGITS + LOGITS % 2)
#define DOWN_POSTS  (GATED_POSTS + GATED / 2)

/* ---- route ---- */

/* The operand of out's norm, not rounded. */
INLINE __local float *wide_of(__local struct shared *s)
{
    return (__local float *)(s->held + H / 8) + SS_LD;
}

/* Starts the copies of this work-group's rows of the router. */
INLINE void copy_router(__local struct shared *s, __global const ushort *router)
{
    const uint first = get_group_id(0) * ROUTES;
    const uint all = first < LOGITS ? min(LOGITS - first, (uint)ROUTES) : 0;

    for (uint i = get_local_id(0); i < all * (H / 8); i += ITEMS) {
        copy_async(s->router + i * 8, router + (ulong)first * H + i * 8, 16);
    }
    copy_commit();
}

/* Copies the operand of out's norm, rounded and not, and its squares. */
INLINE void hold_wide(__local struct shared *s, __global const ulong *posts,
                      const uint number)
{
    const uint all = (H + SS_LD) / 2, each = EACH(all);
    __local uint *rounded = (__local uint *)s->held;
    __local float *ss = (__local float *)(s->held + H / 8);
    uint4 got[EACH((H + SS_LD) / 2)];

    collect(got, all, posts, number);
    #pragma unroll
    for (uint j = 0; j < each; j++) {
        const uint i = unit_of(j, each); /* 2 columns, or 2 squares */
        const float a = as_float(got[j].x), b = as_float(got[j].z);

        if (i < H / 2) {
            rounded[place(i / 4) * 4 + i % 4] =
                to_bf16(a) | (uint)to_bf16(b) << 16;
            wide_of(s)[2 * i] = a;
            wide_of(s)[2 * i + 1] = b;
        } else if (i < all) {
            ss[2 * i - H] = a;
            ss[2 * i + 1 - H] = b;
        }
    }
}

/* A logit, by a warp; w: in local memory. */
INLINE float logit_of(__local const float *normed, __local const ushort *w,
                      const float scale, const uint lane)
{
    float a[4] = {0.0f};

    for (uint i = lane * 16; i < H; i += 512) {
        #pragma unroll
        for (uint j = 0; j < 16; j++) {
            a[j % 4] = fma(normed[i + j], from_bf16(w[i + j]), a[j % 4]);
        }
    }
    return scale * fold_lanes((a[0] + a[1]) + (a[2] + a[3]));
}

/* Posts the logits of this work-group; the last one also fills up the last two
 * posts. */
INLINE void post_logits(__local struct shared *s, __global ulong *posts,
                        const uint lane, const uint warp, const uint number)
{
    for (uint r = warp; r < ROUTES; r += SLOTS) {
        const uint e = get_group_id(0) * ROUTES + r;

        if (e < LOGITS) {
            const uint n = e + 1 == LOGITS ? 1 + LOGITS % 2 : 1;
            const float l = logit_of(wide_of(s), s->router + r * H,
                                     find_scale(s, lane), lane);

            if (lane < n) {
                post(posts + e + lane, as_uint(l), number);
            }
        }
    }
}

/* Chooses the experts, when all logits have arrived. */
INLINE void find_experts(__local struct shared *s, __global const ulong *posts,
                         const uint lane, const uint warp, const uint number)
{
    const uint all = (LOGITS + 1) / 2, each = EACH(all);
    uint4 got[EACH((LOGITS + 1) / 2)];

    collect(got, all, posts, number);
    #pragma unroll
    for (uint j = 0; j < each; j++) {
        const uint i = unit_of(j, each);

        if (i < all) {
            s->logits[2 * i] = as_float(got[j].x);
            s->logits[2 * i + 1] = as_float(got[j].z);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (warp == 0) {
        choose(s->ids, s->weights, s->logits, lane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* ---- tasks ---- */

/* Returns the tasks of a work-group for one pair; for silu, for all. */
INLINE uint tasks_of_one(const struct cut c)
{
    return c.groups * c.split;
}

INLINE uint tasks_of(const struct cut c)
{
    return (c.kind == ADD ? PAIRS : 1) * tasks_of_one(c);
}

/* Returns the first row of a task's block: of the output. */
INLINE uint block_of(const struct cut c, const uint task)
{
    return (get_group_id(0) * c.groups + task % tasks_of_one(c) / c.split) *
           (8 / parts_of(c));
}

INLINE bool has_task(const struct cut c, const uint task)
{
    return task < tasks_of(c) && block_of(c, task) < c.n;
}

/* Finds the rows of w of a task, and the lane's columns, as find_rows(). */
INLINE struct rows find_task(const struct cut c, __local const struct shared *s,
                             __global const weight_t *w, const uint task,
                             const uint lane)
{
    const uint n = 8 / parts_of(c), g = lane / 4, block = block_of(c, task);
    struct rows r = {0};

    if (has_task(c, task)) {
        const uint per_pair = c.kind == ADD ? H : EXPERT_DIM;
        const uint pair =
            c.kind == ADD ? task / tasks_of_one(c) : block / EXPERT_DIM;
        const uint row = (c.kind == ADD ? block : block % EXPERT_DIM) +
                         (g < n ? g : g - n + per_pair);
        const ulong at =
            ((ulong)s->ids[pair] * (per_pair * parts_of(c)) + row) * c.k +
            task % c.split * CHUNK + lane % 4 * (8 * SPAN);

#if SPAN == 1
        r.of = w + at;
#else
        const matrix_t m =
            matrix_of(w, 0, (ulong)N_ALL * per_pair * parts_of(c) * c.k);

        r.of = w + at * W_BITS / 8;
        r.pairs = (__global const scales_t *)m.pairs + at / W_GROUP;
#endif
        r.steps = steps_of(c);
    }
    return r;
}

/* Requests the chunk that is `step` steps from the first one of a warp. */
INLINE void load_task(struct load *v, const struct cut c,
                      __local const struct shared *s,
                      __global const weight_t *w, struct rows *rows,
                      const uint step)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint within = step % steps_of(c);

    if (within == 0) {
        *rows = find_task(c, s, w, step / steps_of(c) * SLOTS + warp, lane);
    }
    if (rows->steps > 0) {
        load(v, c, rows, within);
    }
}

/* Requests a warp's first chunks of a product of experts. */
INLINE void start_tasks(struct load v[DEPTH][2], const struct cut c,
                        __local const struct shared *s,
                        __global const weight_t *w, struct rows *rows)
{
    #pragma unroll
    for (uint d = 0; d < c.depth; d++) {
        load_task(v[d], c, s, w, rows, d);
    }
}

/* Returns the operands of a task. */
INLINE __local const uint4 *held_of(const struct cut c,
                                    __local const struct shared *s,
                                    const uint task, const uint lane)
{
    const uint pair = c.kind == ADD ? task / tasks_of_one(c) : 0;

    return s->held + pair * (EXPERT_DIM / 8) + task % c.split * (CHUNK / 8) +
           lane % KEPT;
}

/* Stores the sums of a task. */
INLINE void leave_task(__local struct shared *s, const struct cut c,
                       const float *acc, const uint task, const uint lane)
{
    const uint pair = c.kind == ADD ? task / tasks_of_one(c) : 0;

    leave(s->sums + pair * (tasks_of_one(c) * 8), c, acc, 0,
          task % tasks_of_one(c), lane);
}

/* Computes a warp's tasks, whose first chunks have been requested. */
INLINE void run_tasks(struct load v[DEPTH][2], const struct cut c,
                      __local struct shared *s, __global const weight_t *w,
                      struct rows *rows)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint steps = steps_of(c);
    const uint all = (tasks_of(c) + SLOTS - 1) / SLOTS * steps;
    float acc[4];

    #pragma unroll 1
    for (uint from = 0; from < all; from += c.depth) {
        #pragma unroll
        for (uint d = 0; d < c.depth; d++) {
            /* `from` is a multiple of depth. */
            const uint within = c.depth % steps == 0 ? d % steps
                                                     : (from + d) % steps;
            const uint task = (from + d) / steps * SLOTS + warp;
            const bool some = has_task(c, task);

            if (within == 0) {
                acc[0] = acc[1] = acc[2] = acc[3] = 0.0f;
            }
            if (some) {
                multiply(acc, v[d],
                         held_of(c, s, task, lane) +
                             within * (c.split * CHUNK / 8));
            }
            load_task(v[d], c, s, w, rows, from + d + c.depth);
            if (some && within + 1 == steps) {
                leave_task(s, c, acc, task, lane);
            }
        }
    }
}

/* ---- products of experts ---- */

/* Computes gate_up, whose first weights have been requested, and requests those
 * of down. */
INLINE void run_gate_up(const struct io *io, __global const weight_t *w,
                        __global const weight_t *w_down, struct rows *rows,
                        struct load v[DEPTH][2], __local struct shared *s,
                        const uint number)
{
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const struct output o = find_output(GATE_UP, io);
    float scale = 1.0f, unused = 0.0f;

    run_tasks(v, GATE_UP, s, w, rows);
    start_tasks(v, DOWN, s, w_down, rows);
    if (warp * 32 < cols_of(GATE_UP)) {
        scale = find_scale(s, lane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    finish(GATE_UP, io, &o, s, scale, &unused, number);
}

/* Computes down, whose first weights have been requested, and requests those of
 * `then`; x: of this work-item. */
INLINE void run_down(const struct io *io, float x, __global const weight_t *w,
                     const struct cut then, __global const weight_t *then_w,
                     struct rows *rows, struct load v[DEPTH][2],
                     __local struct shared *s, const uint number)
{
    const struct cut gated = {ADD, H, GATED, 1, 1, 1, 1};
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const struct output o = find_output(DOWN, io);
    float sum = 0.0f;

    hold_posts((__local uint2 *)s->held, gated, io->waited, number);
    barrier(CLK_LOCAL_MEM_FENCE);
    run_tasks(v, DOWN, s, w, rows);
    if (then_w) {
        *rows = find_rows(then, then_w, warp, lane);
        start(v, then, rows);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (o.mine) {
        #pragma unroll
        for (uint p = 0; p < PAIRS; p++) {
            sum = fma(s->weights[p],
                      total(s->sums + p * (tasks_of_one(DOWN) * 8), DOWN, 0,
                            get_local_id(0)),
                      sum);
        }
        sum += x;
    }
    finish_add(io, &o, sum, number);
}

/* ---- the kernel ---- */

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
chain_experts(__global float *x, ulong x_at, __global ushort *next,
              ulong next_at, __global float *ss, ulong ss_at,
              __global float *in, ulong in_at, __global ulong *posts,
              ulong posts_at, __global const ushort *y, ulong y_at,
              __global const weight_t *w_out, ulong w_out_at,
              __global const float *out_bias, ulong out_bias_at,
              __global const float *gamma_post, ulong gamma_post_at,
              __global const ushort *router, ulong router_at,
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
    copy_router(&s, router + router_at);
    posts += posts_at;
    w_gate_up += w_gate_up_at;
    w_down += w_down_at;

    const struct io out = {
        .y = y + y_at,
        .wide = posts + OUT_POSTS,
        .bias = out_bias_at == ABSENT ? 0 : out_bias + out_bias_at,
        .gamma = gamma_post + gamma_post_at};
    const struct io gate_up = {.posts = posts + GATED_POSTS};
    const struct io down = {.waited = posts + GATED_POSTS,
                            .posts = IN_N ? posts + DOWN_POSTS : 0,
                            .out = x + x_at,
                            .next = next + next_at,
                            .ss = ss + ss_at,
                            .gamma = gamma_next + gamma_next_at};

    first = find_output(OUT, &out);
    mine = first.mine ? x[x_at + first.col] : 0.0f;
    run(OUT, &out, &mine, OUT, 0, &rows, v, &s, number);
    hold_wide(&s, posts + OUT_POSTS, number);
    copy_wait(0); /* a work-group without rows of out has not waited */
    barrier(CLK_LOCAL_MEM_FENCE);
    post_logits(&s, posts + LOGIT_POSTS, lane, warp, number);
    find_experts(&s, posts + LOGIT_POSTS, lane, warp, number);
    start_tasks(v, GATE_UP, &s, w_gate_up, &rows);
    run_gate_up(&gate_up, w_gate_up, w_down, &rows, v, &s, number);
#if IN_N
    const struct io store = {
        .waited = posts + DOWN_POSTS,
        .out = in + in_at,
        .bias = in_bias_at == ABSENT ? 0 : in_bias + in_bias_at};

    run_down(&down, mine, w_down, IN, w_in + w_in_at, &rows, v, &s, number);
    run(IN, &store, &mine, IN, 0, &rows, v, &s, number);
#else
    run_down(&down, mine, w_down, OUT, 0, &rows, v, &s, number);
#endif
}
