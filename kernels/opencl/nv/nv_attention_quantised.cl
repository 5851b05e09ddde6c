/* nv_attention_quantised.cl - attention of generated tokens over quantised keys
 * and values, split over the context (nv_attention_split.cl).
 *
 *     s_j = query . k_j / sqrt(HD)           j = 0 .. p, p the token's position
 *     y   = sum_j softmax(s)_j v_j * sigmoid(gate)           the gate if GATED
 *
 *   y, part, tickets, in, n_splits: nv_attention_split.cl
 *   query    [T, NH, HD] f32: normed and rotated; with TurboQuant in the basis
 *            of the keys
 *   kv       of the layer: block b is struct kv_block (common/model/
 *            kv_format.h) at b * page bytes
 *
 * Codes are widened to bf16 in registers, exactly for affine ones:
 *
 *     affine      s q + b = 64 s c + r,  c = (q - MIDDLE) / 64,
 *                                        r = b + MIDDLE s
 *         score   sum over groups of  64 s (query . c) + r (sum of query)
 *         value   sum over positions of  bf16(64 w s) c, and of w r in f32
 *     turboquant  m c[q], c rounded to bf16
 *         score   m (query . c)
 *         value   sum over positions of  bf16(w m) c
 *
 * The tensor cores compute the products with the heads as columns, as in
 * nv_attention_decode.cl.  Each lane has 16 dimensions of a key in a unit of 64
 * and 8 of a value: neighbours in a group for affine codes, whose groups are
 * separate products, and neighbours in the vector for TurboQuant, whose codes
 * cross words.  A warp takes turns of 16 positions, which are in one block.  It
 * copies the codes of the next turns to its own part of local memory while it
 * computes.
 *
 * Launch    nv_attention_split.cl
 * Defines   those of kv.cl: affine with HD 64, 128 or 256 and KV_GROUP 64 or
 *           128; turboquant with HD 256.  DEPTH: turns in local memory
 * Needs     sm_80; KV_DTYPE 1; BLOCK_TOKENS a multiple of 16; kv 16-byte
 *           aligned
 * Numerics  query and weights are rounded to bf16, sums are f32.  Turns begin
 *           at absolute positions.  Positions past p are never used: their
 *           codes have weight 0, with the parameters of p. */
#define UNITS   (HD / 64)
#define K_WORDS (HD * K_BITS / 128) /* codes of a lane, for a key */
#define V_WORDS (HD * V_BITS / 256) /* for a value */
#define TURN    16                  /* positions */
#ifndef DEPTH
#define DEPTH 2
#endif
/* Bytes of a vector's codes in local memory: no two lanes of a load are in one
 * bank.  A turn is keys, values, their parameters. */
#define K_LD  (K_BYTES + (K_BITS == 8 ? 64 : 32))
#define V_LD  (V_BYTES + 16)
#define STAGE (TURN * (K_LD + V_LD + K_PARAM + V_PARAM))
#define RINGS (WARPS * DEPTH * STAGE)
#define ONES  0x3f803f80 /* two bf16 */

#if KV_SCHEME == 1
#define GROUPS       (HD / KV_GROUP)
#define GROUP_OF(u)  ((u)*64 / KV_GROUP)
#define K_DIM(u, c)  ((u)*64 + (c)*16)
#define MIDDLE(bits) ((float)(1 << ((bits)-1)))
#else
#define GROUPS      1
#define GROUP_OF(u) 0
#define K_DIM(u, c) ((c) * (HD / 4) + (u)*16)
#endif

/* ---- loads ---- */

/* Loads n words, with as few loads as their alignment allows. */
INLINE void load_words(uint *to, __local const uchar *from, const uint n)
{
#pragma unroll
    for (uint i = 0; i < n; i++) {
        if (n % 4 == 0 && i % 4 == 0) {
            const uint4 v = *(__local const uint4 *)(from + i * 4);

            to[i] = v.s0;
            to[i + 1] = v.s1;
            to[i + 2] = v.s2;
            to[i + 3] = v.s3;
        } else if (n % 4 == 2 && i % 2 == 0) {
            const uint2 v = *(__local const uint2 *)(from + i * 4);

            to[i] = v.s0;
            to[i + 1] = v.s1;
        } else if (n % 2 == 1) {
            to[i] = *(__local const uint *)(from + i * 4);
        }
    }
}

/* Loads a lane's codes of a key, or of a value. */
INLINE void load_key(uint *to, __local const uchar *from, const uint c)
{
#if KV_SCHEME == 1
#pragma unroll
    for (uint u = 0; u < UNITS; u++) {
        load_words(to + u * (K_BITS / 2),
                   from + u * 8 * K_BITS + c * 2 * K_BITS, K_BITS / 2);
    }
#else
    load_words(to, from + c * 4 * K_WORDS, K_WORDS);
#endif
}

INLINE void load_value(uint *to, __local const uchar *from, const uint g)
{
#if KV_SCHEME == 1
#pragma unroll
    for (uint u = 0; u < UNITS; u++) {
        load_words(to + u * (V_BITS / 4), from + u * 8 * V_BITS + g * V_BITS,
                   V_BITS / 4);
    }
#else
    load_words(to, from + g * 4 * V_WORDS, V_WORDS);
#endif
}

/* Loads the parameters of a vector: scale and bias of each group as a pair of
 * bf16, or the norm as float32. */
INLINE void load_params(uint *to, __local const uchar *from)
{
#if KV_SCHEME == 1
    load_words(to, from, GROUPS);
#else
    to[0] = as_uint(norm_of(*(__local const ushort *)from));
#endif
}

/* Copies TURN rows of `bytes` to rows ld apart. */
INLINE void copy_rows(__local uchar *to, __global const uchar *from,
                      const uint bytes, const uint ld, const uint lane)
{
#pragma unroll
    for (uint i = 0; i < TURN * bytes / 16; i += 32) {
        const uint n = i + lane;

        if (TURN * bytes / 16 % 32 == 0 || n < TURN * bytes / 16) {
            copy_async((__local void *)(to + n / (bytes / 16) * ld +
                                        n % (bytes / 16) * 16),
                       from + n * 16, 16);
        }
    }
}

/* Copies `bytes`. */
INLINE void copy_plain(__local uchar *to, __global const uchar *from,
                       const uint bytes, const uint lane)
{
    for (uint n = lane; n < bytes / 16; n += 32) {
        copy_async(to + n * 16, from + n * 16, 16);
    }
}

/* Starts the copies of the turn at `at`, as a group, which is empty past the
 * end. */
INLINE void copy_turn(__local uchar *to, __global const uchar *kv,
                      __global const int *blocks, const uint page,
                      const uint kv_head, const uint at, const uint end,
                      const uint lane)
{
    if (at < end) {
        __global const uchar *block =
            kv + (ulong)(uint)blocks[at / BLOCK_TOKENS] * page;
        const uint first = kv_head * BLOCK_TOKENS + at % BLOCK_TOKENS;

        copy_rows(to, block + first * K_BYTES, K_BYTES, K_LD, lane);
        to += TURN * K_LD;
        copy_rows(to, block + V_CODES + first * V_BYTES, V_BYTES, V_LD, lane);
        to += TURN * V_LD;
        copy_plain(to, block + K_PARAMS + first * K_PARAM, TURN * K_PARAM,
                   lane);
        to += TURN * K_PARAM;
        copy_plain(to, block + V_PARAMS + first * V_PARAM, TURN * V_PARAM,
                   lane);
    }
    copy_commit();
}

/* Loads keys at positions g and g + 8 of a turn. */
INLINE void load_keys(uint (*k)[K_WORDS], __local const uchar *turn,
                      const uint lane)
{
#pragma unroll
    for (uint i = 0; i < 2; i++) {
        load_key(k[i], turn + (lane / 4 + i * 8) * K_LD, lane % 4);
    }
}

/* Loads values at positions 2c, 2c + 1, 2c + 8, 2c + 9 of a turn. */
INLINE void load_values(uint (*v)[V_WORDS], __local const uchar *turn,
                        const uint lane)
{
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const uint j = lane % 4 * 2 + i % 2 + i / 2 * 8;

        load_value(v[i], turn + TURN * K_LD + j * V_LD, lane / 4);
    }
}

/* Loads the parameters of the vectors at g and g + 8, where the scores are;
 * last: the last position's place. */
INLINE void load_factors(uint (*params)[GROUPS], __local const uchar *from,
                         const uint bytes, const uint last, const uint lane)
{
#pragma unroll
    for (uint i = 0; i < 2; i++) {
        load_params(params[i], from + min(lane / 4 + i * 8, last) * bytes);
    }
}

/* ---- codes to bf16 ---- */

#if KV_SCHEME == 1

/* The bits of a code q < 256 are the bf16 q 2^-133: exponents 0 and 1 have the
 * same unit.  So one multiply-add makes (q - MIDDLE) / 64 of it, exactly; the
 * factor 64 is in the scale. */
#define CODE_UNIT 64.0f

/* Codes in bits 0..7 and 16..23, as a pair. */
INLINE uint pair_of_bytes(const uint x)
{
    return fma_bf16x2(x, 0x7f007f00, 0xc000c000); /* 2^127, -128 / 64 */
}

/* Bits 0..3 and 16..19, and bits 4..7 and 20..23, as pairs. */
INLINE uint2 pairs_of_nibbles(const uint x)
{
    const uint middle = 0xbe00be00; /* -8 / 64 */

    return (uint2)(fma_bf16x2(x & 0x000f000f, 0x7f007f00, middle),
                   fma_bf16x2(x & 0x00f000f0, 0x7d007d00, middle));
}

struct books {
    uint none;
};

#define books_of() ((struct books){0})

/* Four pairs of the 8 codes i of a key; 4-bit ones in the order 0 4, 1 5, 2 6,
 * 3 7. */
INLINE uint4 key_pairs(const uint *k, const uint i, const struct books *b)
{
#if K_BITS == 8
    const uint x = k[2 * i], y = k[2 * i + 1];

    return (uint4)(pair_of_bytes(byte_perm(x, 0, 0x4140)),
                   pair_of_bytes(byte_perm(x, 0, 0x4342)),
                   pair_of_bytes(byte_perm(y, 0, 0x4140)),
                   pair_of_bytes(byte_perm(y, 0, 0x4342)));
#else
    return (uint4)(pairs_of_nibbles(k[i]), pairs_of_nibbles(k[i] >> 8));
#endif
}

/* Pairs of adjacent positions, for each of the 8 dimensions i of a value. */
INLINE void value_pairs(uint *to, const uint *v, const uint *next, const uint i,
                        const struct books *b)
{
#pragma unroll
    for (uint j = 0; j < 2; j++) {
        const uint select = j == 0 ? 0x5410 : 0x7632;
#if V_BITS == 8
        const uint x = byte_perm(v[2 * i], next[2 * i], select);
        const uint y = byte_perm(v[2 * i + 1], next[2 * i + 1], select);

        to[2 * j] = pair_of_bytes(x & 0x00ff00ff);
        to[2 * j + 1] = pair_of_bytes(byte_perm(x, 0, 0x4341));
        to[4 + 2 * j] = pair_of_bytes(y & 0x00ff00ff);
        to[4 + 2 * j + 1] = pair_of_bytes(byte_perm(y, 0, 0x4341));
#else
        const uint x = byte_perm(v[i], next[i], select);
        const uint2 low = pairs_of_nibbles(x), high = pairs_of_nibbles(x >> 8);

        to[4 * j] = low.s0;
        to[4 * j + 1] = low.s1;
        to[4 * j + 2] = high.s0;
        to[4 * j + 3] = high.s1;
#endif
    }
}

#else

/* A codebook as bf16: the low and the high bytes of its centroids. */
struct book {
    uint low[4], high[4];
};

struct books {
    struct book k, v;
};

__constant uint centroids_k[] = {K_BOOK}, centroids_v[] = {V_BOOK};

INLINE void book_of(struct book *to, __constant const uint *from, const uint n)
{
#pragma unroll
    for (uint i = 0; i < 16; i++) {
        const uint c = i < n ? to_bf16(as_float(from[i])) : 0;

        to->low[i / 4] = (i % 4 ? to->low[i / 4] : 0) | (c & 255) << i % 4 * 8;
        to->high[i / 4] = (i % 4 ? to->high[i / 4] : 0) | c >> 8 << i % 4 * 8;
    }
}

INLINE struct books books_of(void)
{
    struct books b;

    book_of(&b.k, centroids_k, 1 << K_BITS);
    book_of(&b.v, centroids_v, 1 << V_BITS);
    return b;
}

/* Codes 8 i .. 8 i + 7 of a stream, one in each 4 bits. */
INLINE uint nibbles(const uint *codes, const uint i, const uint bits)
{
    uint x;

    if (bits == 4) {
        return codes[i];
    }
    if (bits == 2) {
        x = codes[i / 2] >> i % 2 * 16 & 0xffff;
        x = (x | x << 8) & 0x00ff00ff;
        x = (x | x << 4) & 0x0f0f0f0f;
        return (x | x << 2) & 0x33333333;
    }
    x = codes[i * 24 / 32] >> i * 24 % 32;
    if (i * 24 % 32 > 8) {
        x |= codes[i * 24 / 32 + 1] << (32 - i * 24 % 32);
    }
    x = (x & 0x00000fff) | (x & 0x00fff000) << 4;
    x = (x & 0x003f003f) | (x & 0x0fc00fc0) << 2;
    return (x & 0x07070707) | (x & 0x38383838) << 1;
}

/* Picks four bytes of 16; the lower 16 bits of x have their numbers. */
INLINE uint pick(const uint *bytes, const uint x, const uint bits)
{
    const uint low = byte_perm(bytes[0], bytes[1], x & 0x7777);
    uint upper;

    if (bits < 4) {
        return low;
    }
    upper = byte_perm(0xff00, 0, x >> 3 & 0x1111);
    return (low & ~upper) | (byte_perm(bytes[2], bytes[3], x & 0x7777) & upper);
}

/* Four pairs of adjacent centroids. */
INLINE uint4 look_up(const struct book *b, const uint x, const uint bits)
{
    const uint l0 = pick(b->low, x, bits), h0 = pick(b->high, x, bits);
    const uint l1 = pick(b->low, x >> 16, bits);
    const uint h1 = pick(b->high, x >> 16, bits);

    return (uint4)(byte_perm(l0, h0, 0x5140), byte_perm(l0, h0, 0x7362),
                   byte_perm(l1, h1, 0x5140), byte_perm(l1, h1, 0x7362));
}

INLINE uint4 key_pairs(const uint *k, const uint i, const struct books *b)
{
    return look_up(&b->k, nibbles(k, i, K_BITS), K_BITS);
}

INLINE void value_pairs(uint *to, const uint *v, const uint *next, const uint i,
                        const struct books *b)
{
    const uint4 x = look_up(&b->v, nibbles(v, i, V_BITS), V_BITS);
    const uint4 y = look_up(&b->v, nibbles(next, i, V_BITS), V_BITS);

#define VALUE_PAIRS(j, part)                       \
    to[2 * j] = byte_perm(x.part, y.part, 0x5410); \
    to[2 * j + 1] = byte_perm(x.part, y.part, 0x7632);
    VALUE_PAIRS(0, s0)
    VALUE_PAIRS(1, s1)
    VALUE_PAIRS(2, s2)
    VALUE_PAIRS(3, s3)
#undef VALUE_PAIRS
}

#endif

/* The factor of a vector's codes, and what is added in its group. */
INLINE float factor_of(const uint param)
{
#if KV_SCHEME == 1
    return CODE_UNIT * bf16_low(param);
#else
    return as_float(param);
#endif
}

#if KV_SCHEME == 1
INLINE float rest_of(const uint param, const uint bits)
{
    return fma(MIDDLE(bits), bf16_low(param), bf16_high(param));
}
#endif

/* ---- a turn ---- */

/* Writes the query as fragments to [HD / 32][32]: lane g, c has 8 dimensions of
 * head g, in the order of key_pairs(). */
INLINE void load_query(__local uint4 *to, __global const float *query,
                       const uint heads)
{
    for (uint i = get_local_id(0); i < HD; i += LANES) {
        const uint g = i % 32 / 4, d = K_DIM(i / 64, i % 4) + i / 32 % 2 * 8;
        float4 a = 0.0f, b = 0.0f;

        if (g < heads) {
            a = *(__global const float4 *)(query + g * HD + d);
            b = *(__global const float4 *)(query + g * HD + d + 4);
        }
#if KV_SCHEME == 1 && K_BITS == 4
        to[i] = (uint4)(pack_bf16(a.s0, b.s0), pack_bf16(a.s1, b.s1),
                        pack_bf16(a.s2, b.s2), pack_bf16(a.s3, b.s3));
#else
        to[i] = (uint4)(pack_bf16(a.s0, a.s1), pack_bf16(a.s2, a.s3),
                        pack_bf16(b.s0, b.s1), pack_bf16(b.s2, b.s3));
#endif
    }
}

/* Sums of the query over each group, for heads 2c and 2c + 1. */
INLINE void sum_query(float (*to)[2], __local const uint4 *query,
                      const uint lane)
{
    float acc[4];

#pragma unroll
    for (uint i = 0; i < HD / 32; i++) {
        const uint4 q = query[i * 32 + lane];

        if (i == 0 || GROUP_OF(i / 2) != GROUP_OF((i - 1) / 2)) {
            acc[0] = acc[1] = acc[2] = acc[3] = 0.0f;
        }
        mma_bf16(acc, ONES, ONES, ONES, ONES, q.s0, q.s1);
        mma_bf16(acc, ONES, ONES, ONES, ONES, q.s2, q.s3);
        to[GROUP_OF(i / 2)][0] = acc[0];
        to[GROUP_OF(i / 2)][1] = acc[1];
    }
}

/* s [4]: for positions g, g, g + 8, g + 8 and heads 2c, 2c + 1, 2c, 2c + 1, as
 * base-2 logarithms. */
INLINE void scores(float *s, __local const uint4 *query, float (*query_sum)[2],
                   uint (*k)[K_WORDS], uint (*params)[GROUPS],
                   const struct books *books, const uint last, const uint lane)
{
    const float scale = LOG2_SCALE;
    float acc[4];

    s[0] = s[1] = s[2] = s[3] = 0.0f;
#pragma unroll
    for (uint i = 0; i < HD / 32; i++) {
        const uint group = GROUP_OF(i / 2);
        const uint4 q = query[i * 32 + lane];
        const uint4 a = key_pairs(k[0], i, books);
        const uint4 b = key_pairs(k[1], i, books);

        if (i == 0 || group != GROUP_OF((i - 1) / 2)) {
            acc[0] = acc[1] = acc[2] = acc[3] = 0.0f;
        }
        mma_bf16(acc, a.s0, b.s0, a.s1, b.s1, q.s0, q.s1);
        mma_bf16(acc, a.s2, b.s2, a.s3, b.s3, q.s2, q.s3);
        if (i + 1 == HD / 32 || group != GROUP_OF((i + 1) / 2)) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const uint param = params[j / 2][group];

                s[j] = fma(acc[j], factor_of(param), s[j]);
#if KV_SCHEME == 1
                s[j] =
                    fma(query_sum[group][j % 2], rest_of(param, K_BITS), s[j]);
#endif
            }
        }
    }
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        s[j] = lane / 4 + j / 2 * 8 <= last ? s[j] * scale : -INFINITY;
    }
}

/* Sums of a warp's positions for heads 2c and 2c + 1. */
struct sums {
    float acc[HD / 4];     /* as leave() takes them */
    float rest[GROUPS][2]; /* this lane's part of what each group adds */
    float m[2], sum[2];    /* maxima, and sums of weights */
};

/* Turns s into weights, and scales the earlier sums to the new maxima. */
INLINE void weigh(struct sums *t, float *s)
{
#pragma unroll
    for (uint h = 0; h < 2; h++) {
        float top = fmax(t->m[h], fmax(s[h], s[h + 2])), base, shrink, total;

        top = fmax(top, shfl_xor(top, 4));
        top = fmax(top, shfl_xor(top, 8));
        top = fmax(top, shfl_xor(top, 16));
        base = top == -INFINITY ? 0.0f : top;
        s[h] = exp2_fast(s[h] - base);
        s[h + 2] = exp2_fast(s[h + 2] - base);
        total = s[h] + s[h + 2];
        total += shfl_xor(total, 4);
        total += shfl_xor(total, 8);
        total += shfl_xor(total, 16);
        shrink = exp2_fast(t->m[h] - base);
        t->m[h] = top;
        t->sum[h] = fma(t->sum[h], shrink, total);
        /* A product with 1 changes no bit. */
        if (shrink != 1.0f) {
#pragma unroll
            for (uint i = 0; i < HD / 16; i++) {
                t->acc[i * 4 + h] *= shrink;
                t->acc[i * 4 + h + 2] *= shrink;
            }
#pragma unroll
            for (uint i = 0; i < GROUPS; i++) {
                t->rest[i][h] *= shrink;
            }
        }
    }
}

/* Adds the values of a turn with weights w, as scores() has them. */
INLINE void add_values(struct sums *t, const float *w, uint (*v)[V_WORDS],
                       uint (*params)[GROUPS], const struct books *books)
{
    uint w0 = 0, w1 = 0;

#pragma unroll
    for (uint u = 0; u < UNITS; u++) {
        const uint group = GROUP_OF(u);
        uint x[8], y[8];

        if (u == 0 || group != GROUP_OF(u - 1)) {
            const float f = factor_of(params[0][group]);
            const float f8 = factor_of(params[1][group]);

            w0 = movmatrix(pack_bf16(w[0] * f, w[1] * f));
            w1 = movmatrix(pack_bf16(w[2] * f8, w[3] * f8));
#if KV_SCHEME == 1
            const float r = rest_of(params[0][group], V_BITS);
            const float r8 = rest_of(params[1][group], V_BITS);

            t->rest[group][0] += fma(w[0], r, w[2] * r8);
            t->rest[group][1] += fma(w[1], r, w[3] * r8);
#endif
        }
        value_pairs(x, v[0], v[1], u, books);
        value_pairs(y, v[2], v[3], u, books);
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            mma_bf16(t->acc + (u * 4 + j) * 4, x[2 * j], x[2 * j + 1], y[2 * j],
                     y[2 * j + 1], w0, w1);
        }
    }
}

/* Adds to the sums what their groups add. */
INLINE void add_rests(struct sums *t)
{
#if KV_SCHEME == 1
#pragma unroll
    for (uint h = 0; h < 2; h++) {
#pragma unroll
        for (uint i = 0; i < GROUPS; i++) {
            t->rest[i][h] += shfl_xor(t->rest[i][h], 4);
            t->rest[i][h] += shfl_xor(t->rest[i][h], 8);
            t->rest[i][h] += shfl_xor(t->rest[i][h], 16);
        }
#pragma unroll
        for (uint i = 0; i < HD / 16; i++) {
            t->acc[i * 4 + h] += t->rest[GROUP_OF(i / 4)][h];
            t->acc[i * 4 + h + 2] += t->rest[GROUP_OF(i / 4)][h];
        }
    }
#endif
}

INLINE void clear_sums(struct sums *t)
{
#pragma unroll
    for (uint i = 0; i < HD / 4; i++) {
        t->acc[i] = 0.0f;
    }
#pragma unroll
    for (uint i = 0; i < GROUPS; i++) {
        t->rest[i][0] = t->rest[i][1] = 0.0f;
    }
    t->m[0] = t->m[1] = -INFINITY;
    t->sum[0] = t->sum[1] = 0.0f;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
attention_quantised(__global operand_t *y, const ulong y_at,
                    __global float *part, const ulong part_at,
                    __global uint *tickets, const ulong tickets_at,
                    __global const float *query, const ulong query_at,
                    __global const float *in, const ulong in_at,
                    __global const uchar *kv, const ulong kv_at,
                    const uint page, __global const int *meta,
                    const uint first_token, const uint n_tokens,
                    const uint n_splits, __global const float *sinks,
                    const ulong sinks_at, const uint table)
{
    /* The rings of the warps, then their sums. */
    __local uint4 memory[RINGS > SUMS * 4 ? RINGS / 16 : (SUMS + 3) / 4];
    __local uint4 q[HD];
    __local float tops[WARPS * 8 * 2], weight[8 * SPLITS];
    __local uint turn;
    __local float *sums = (__local float *)memory;
    const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    const uint token = first_token + get_group_id(2);
    const uint p = (uint)TOKEN(meta, token)[TOKEN_POSITION];
    const uint length = length_at(p);
    const struct result r =
        result_of(y + y_at, part + part_at, tickets + tickets_at, in + in_at,
                  sinks_at == ABSENT ? 0 : sinks + sinks_at, first_token,
                  n_tokens, n_splits, p);

    if (r.split >= r.splits) {
        return;
    }

    const uint here = (r.low + r.split) * length;
    const uint begin = max(here, first_seen(p));
    const uint end = min(p + 1, here + length);
    __global const int *blocks =
        meta + META_BLOCKS +
        ROW(meta, TOKEN(meta, token)[TOKEN_ROW])[ROW_BLOCKS];

    kv += kv_at;
    {
        __local uchar *ring = (__local uchar *)memory + warp * DEPTH * STAGE;
        const uint kv_head = r.head / GROUP, step = TURN * WARPS;
        const struct books books = books_of();
        float query_sum[GROUPS][2];
        struct sums t;
        uint at = begin + warp * TURN, stage = 0;

#pragma unroll
        for (uint i = 0; i + 1 < DEPTH; i++) {
            copy_turn(ring + i * STAGE, kv, blocks, page, kv_head,
                      at + i * step, end, lane);
        }
        load_query(q, query + query_at + ((ulong)token * NH + r.head) * HD,
                   r.heads);
        barrier(CLK_LOCAL_MEM_FENCE);
        clear_sums(&t);
        sum_query(query_sum, q, lane);
        for (; at < end; at += step) {
            __local const uchar *from = ring + stage * STAGE;
            const uint last = end - 1 - at;
            uint k[2][K_WORDS], v[4][V_WORDS], params[2][GROUPS];
            float s[4];

            copy_wait(DEPTH - 2);
            warp_sync(); /* the turn has come, and all are done with the one
                          * before it, whose place is next */
            copy_turn(ring + (stage == 0 ? DEPTH - 1 : stage - 1) * STAGE, kv,
                      blocks, page, kv_head, at + (DEPTH - 1) * step, end,
                      lane);
            load_keys(k, from, lane);
            load_factors(params, from + TURN * (K_LD + V_LD), K_PARAM, last,
                         lane);
            scores(s, q, query_sum, k, params, &books, last, lane);
            weigh(&t, s);
            load_values(v, from, lane);
            load_factors(params, from + TURN * (K_LD + V_LD + K_PARAM), V_PARAM,
                         last, lane);
            add_values(&t, s, v, params, &books);
            stage = stage + 1 == DEPTH ? 0 : stage + 1;
        }
        add_rests(&t);
        copy_wait(0);
        barrier(CLK_LOCAL_MEM_FENCE); /* all are done with their rings */
        leave(sums, tops, t.acc, t.m, t.sum, r.heads, warp, lane);
    }
    finish(&r, sums, tops, weight, &turn);
}
