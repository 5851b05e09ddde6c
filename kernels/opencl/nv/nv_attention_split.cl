/* nv_attention_split.cl - what the kernels for generated tokens share: the
 * parts of a context, and their sum.  Precedes nv_attention_decode.cl and
 * nv_attention_quantised.cl.
 *
 *   y        [T, NH, HD]        operand dtype
 *   part     [n_tokens, NH, n_splits, HD] f32, then [.., n_splits, 2]: results
 *            of a split: sum of w v, max of s, sum of w; scratch
 *   tickets  [n_tokens, NKV, CHUNKS] u32; 0 before and after
 *   in       [T, IN_LD]         f32; only the gates are read
 *   n_splits at least min(SPLITS, (longest context + SPLIT - 1) / SPLIT), or
 *            with WINDOW: min(that, WINDOW / SPLIT + 2)
 *   sinks    [NH] f32 or absent: a score of each head without a value
 *   table    the row's window table, with WINDOW
 *
 * The context of a token at p is cut at multiples of L, the least power of two
 * times SPLIT with L * SPLITS > p.  A work-group handles one part for up to 8
 * query heads of a kv head; its WARPS warps take turns of 16 positions.  The
 * last work-group of a token to arrive adds up the parts, in order.
 *
 * Values of TurboQuant are summed in their rotated basis; the sum is rotated
 * back once, at the end.
 *
 * Launch    WG = 128; groups (n_splits, NKV * CHUNKS, n_tokens),
 *           CHUNKS = (NH / NKV + 7) / 8
 * Defines   VALUE_DIM(u, g): the first of the 8 dimensions that lane g has of
 *           64; with TurboQuant those of kv.cl
 * Needs     sm_80
 * Numerics  sums are f32.  Splits begin at absolute positions, so a token's
 *           bits depend on its own sequence only */
#ifndef KV_SCHEME
#define KV_SCHEME 0
#endif
#if KV_SCHEME == 2
#define VALUE_DIM(u, g) ((g) * (HD / 8) + (u)*8)
#else
#define VALUE_DIM(u, g) ((u)*64 + (g)*8)
#endif
#define GROUP      (NH / NKV)
#define CHUNKS     ((GROUP + 7) / 8)
#define GROUP_MOST (GROUP < 8 ? GROUP : 8)
#ifndef SPLIT
#define SPLIT 128
#endif
/* Quantised positions are fewer bytes, so their parts are longer. */
#ifndef SPLITS
#define SPLITS (KV_SCHEME == 0 ? 32 : 16)
#endif
#define WARPS 4
#define LANES (32 * WARPS)
#define IN_LD ((GATED ? 2 : 1) * NH * HD + 2 * NKV * HD)

/* Sums that the warps exchange.  A head's row is one longer than HD, to avoid
 * bank conflicts. */
#define SUM_LD (HD + 1)
#define SUMS   (WARPS * GROUP_MOST * SUM_LD)

/* The results of a work-group: a token's, for `heads` heads from `head`. */
struct result {
    __global operand_t *y;    /* [heads, HD] */
    __global const float *in; /* the token's */
    __global float *part;     /* [heads, n_splits, HD] */
    __global float *ml;       /* [heads, n_splits, 2] */
    __global uint *ticket;
    __global const float *sinks; /* [heads], or NULL */
    uint head, heads, split, splits, n_splits;
    uint low; /* the first part that the token sees */
};

/* Returns the gate of a token's head and dimension. */
INLINE float gate_of(__global const float *in, const uint head, const uint d)
{
#if GATED
    return sigmoid_of(in[head * 2 * HD + HD + d]);
#else
    return 1.0f;
#endif
}

/* Writes y of a head and dimension from a sum of values. */
INLINE void put(const struct result *r, __local float *sums, const uint h,
                const uint d, const float sum)
{
#if KV_SCHEME == 2
    sums[h * SUM_LD + d] = sum;
#else
    r->y[h * HD + d] = operand_of(sum * gate_of(r->in, r->head + h, d));
#endif
}

#if KV_SCHEME == 2

__constant uint signs_v[] = {V_SIGNS};

/* Rotates the sums of put() back, and writes y. */
INLINE void put_rotated(const struct result *r, __local float *sums)
{
    for (uint stride = 1; stride < HD; stride *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = get_local_id(0); i < r->heads * (HD / 2); i += LANES) {
            const uint h = i / (HD / 2), j = i % (HD / 2);
            __local float *x =
                sums + h * SUM_LD + j / stride * stride * 2 + j % stride;
            const float a = x[0], b = x[stride];

            x[0] = a + b;
            x[stride] = a - b;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < r->heads * HD; i += LANES) {
        const uint h = i / HD, d = i % HD;
        const bool minus = signs_v[d / 32] >> d % 32 & 1;
        const float v = sums[h * SUM_LD + d] * as_float(UNIT);

        r->y[i] = operand_of((minus ? -v : v) * gate_of(r->in, r->head + h, d));
    }
}

#else
#define put_rotated(r, sums) (void)(sums)
#endif

/* Adds up the parts of a token; weight: 8 * SPLITS floats of local memory. */
INLINE void combine(const struct result *r, __local float *sums,
                    __local float *weight)
{
    const uint lane = get_local_id(0) % 32;

    for (uint h = get_local_id(0) / 32; h < r->heads; h += WARPS) {
        __global const float *from = r->ml + (h * r->n_splits + lane) * 2;
        const float m = lane < r->splits ? from[0] : -INFINITY;
        const float sum = lane < r->splits ? from[1] : 0.0f;
        float top = m, w, total;

        for (uint i = 16; i > 0; i /= 2) {
            top = fmax(top, shfl_xor(top, i));
        }
        w = exp2_fast(m - top);
        total = w * sum;
        for (uint i = 16; i > 0; i /= 2) {
            total += shfl_xor(total, i);
        }
        const float factor =
            value_factor(top, total, r->sinks ? r->sinks + h : 0);

        if (lane < SPLITS) {
            weight[h * SPLITS + lane] = w * factor;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < r->heads * (HD / 4); i += LANES) {
        const uint h = i / (HD / 4), d = i % (HD / 4) * 4;
        __global const float *from = r->part + (ulong)h * r->n_splits * HD + d;
        float4 acc = 0.0f;

#pragma unroll 8
        for (uint s = 0; s < r->splits; s++) {
            acc += weight[h * SPLITS + s] *
                   *(__global const float4 *)(from + s * HD);
        }
        put(r, sums, h, d, acc.s0);
        put(r, sums, h, d + 1, acc.s1);
        put(r, sums, h, d + 2, acc.s2);
        put(r, sums, h, d + 3, acc.s3);
    }
    put_rotated(r, sums);
}

/* Leaves a warp's sums of its positions: acc [HD / 16][4], where lane g, c has
 * of each 64 dimensions VALUE_DIM + 2j (+ 1 in the upper half) of heads 2c and
 * 2c + 1; maxima m and sums of weights. */
INLINE void leave(__local float *sums, __local float *tops, const float *acc,
                  const float *m, const float *sum, const uint heads,
                  const uint warp, const uint lane)
{
    const uint g = lane / 4, c = lane % 4;

#pragma unroll
    for (uint h = 0; h < 2; h++) {
        const uint head = 2 * c + h;

        if (g == 0) {
            tops[(warp * 8 + head) * 2] = m[h];
            tops[(warp * 8 + head) * 2 + 1] = sum[h];
        }
        if (head < heads) {
            __local float *to = sums + (warp * GROUP_MOST + head) * SUM_LD;

#pragma unroll
            for (uint i = 0; i < HD / 16; i++) {
                const uint d = VALUE_DIM(i / 4, g) + i % 4 * 2;

                to[d] = acc[i * 4 + h];
                to[d + 1] = acc[i * 4 + h + 2];
            }
        }
    }
}

/* Returns L of a token at p. */
INLINE uint length_at(const uint p)
{
    uint length = SPLIT;

    while (length * SPLITS <= p) {
        length *= 2;
    }
    return length;
}

/* Adds up what the warps left, and in the token's last work-group the parts.
 * turn: local memory. */
INLINE void finish(const struct result *r, __local float *sums,
                   __local const float *tops, __local float *weight,
                   __local uint *turn)
{
    const uint lane = get_local_id(0);

    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lane; i < r->heads * HD; i += LANES) {
        const uint h = i / HD, d = i % HD;
        float top = -INFINITY, acc = 0.0f, total = 0.0f;

        for (uint w = 0; w < WARPS; w++) {
            top = fmax(top, tops[(w * 8 + h) * 2]);
        }
        for (uint w = 0; w < WARPS; w++) {
            const float f = exp2_fast(tops[(w * 8 + h) * 2] - top);

            acc = fma(f, sums[(w * GROUP_MOST + h) * SUM_LD + d], acc);
            total = fma(f, tops[(w * 8 + h) * 2 + 1], total);
        }
        if (r->splits == 1) {
            put(r, sums, h, d,
                acc * value_factor(top, total, r->sinks ? r->sinks + h : 0));
        } else {
            r->part[((ulong)h * r->n_splits + r->split) * HD + d] = acc;
            if (d == 0) {
                r->ml[(h * r->n_splits + r->split) * 2] = top;
                r->ml[(h * r->n_splits + r->split) * 2 + 1] = total;
            }
        }
    }
    if (r->splits == 1) {
        put_rotated(r, sums);
        return;
    }

    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        *turn = ticket_take(r->ticket);
        if (*turn + 1 == r->splits) {
            *r->ticket = 0;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (*turn + 1 == r->splits) {
        fence_device();
        combine(r, sums, weight);
    }
}

/* Returns where the results of a work-group go; the arguments of the kernel. */
INLINE struct result result_of(__global operand_t *y, __global float *part,
                               __global uint *tickets, __global const float *in,
                               __global const float *sinks,
                               const uint first_token, const uint n_tokens,
                               const uint n_splits, const uint p)
{
    const uint index = get_group_id(2), chunk = get_group_id(1) % CHUNKS;
    const uint kv_head = get_group_id(1) / CHUNKS;
    struct result r;
    ulong at;

    r.head = kv_head * GROUP + chunk * 8;
    r.heads = min((uint)GROUP - chunk * 8, 8u);
    at = (ulong)index * NH + r.head;
    r.y = y + ((ulong)(first_token + index) * NH + r.head) * HD;
    r.in = in + (ulong)(first_token + index) * IN_LD;
    r.part = part + at * n_splits * HD;
    r.ml = part + (ulong)n_tokens * NH * n_splits * HD + at * n_splits * 2;
    r.ticket = tickets + (ulong)index * NKV * CHUNKS + get_group_id(1);
    r.sinks = sinks ? sinks + r.head : 0;
    r.split = get_group_id(0);
    r.low = first_seen(p) / length_at(p);
    r.splits = p / length_at(p) - r.low + 1;
    r.n_splits = n_splits;
    return r;
}
