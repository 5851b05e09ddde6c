/* common.cl - the text that precedes every kernel: dtypes, the step,
 * arithmetic.
 *
 * Defines   those of launch.h; in programs that read matrices or write their
 *           operands, also W_DTYPE 0 f32, 1 bf16, 2 f16, and OPERAND_DTYPE 0
 *           f32, 1 bf16; for quantised matrices also W_FORMAT (affine: 1, or
 *           none), W_BITS and W_GROUP; affine: 4 or 8, and 32, 64 or 128, with
 *           W_DTYPE the dtype of the scales and biases
 * Numerics  nothing is contracted: a product and a sum are rounded once only
 *           where fma() is written.  A value's bits therefore do not depend on
 *           vectorising, nor on the compiler, if it conforms to OpenCL 1.2
 *
 * A tensor is two arguments: a pointer, and the offset of its element 0.  An
 * absent tensor has the offset ABSENT. */
#pragma OPENCL FP_CONTRACT OFF

#define ABSENT ULONG_MAX

/* The step's meta buffer, see host/opencl.h. */
#define ROW_INTS        8
#define ROW(meta, r)    ((meta) + META_ROWS + (r) * ROW_INTS)
#define ROW_FIRST       0
#define ROW_TOKENS      1
#define ROW_POSITION    2
#define ROW_SLOT        3
#define ROW_BLOCKS      4
#define ROW_KEEP        5 /* 1 + place of the first kept input; 0: none */
#define ROW_SAVES       6
#define ROW_FIRST_SAVE  7
#define TOKEN(meta, t)  ((meta) + META_TOKENS + (t) * 2)
#define TOKEN_ROW       0
#define TOKEN_POSITION  1
/* Save i of a row, and the tokens of the row before it; 0: there is none. */
#define SAVE(meta, row, i) \
    ((meta) + META_BLOCKS + (row)[ROW_FIRST_SAVE] + (i) * 2)
#define SAVE_TOKENS(meta, row, i) \
    ((i) < (uint)(row)[ROW_SAVES] ? (uint)SAVE(meta, row, i)[0] : 0)
#define SAVE_PAGE(meta, row, i) ((ulong)(uint)SAVE(meta, row, i)[1])

/* Of a replay: a linear layer's places in the pool and in the weights, each in
 * elements from the start of its memory, and the floats of a page; and what to
 * replay. */
#define PLACES(p, layer) ((p) + (layer) * 6)
#define PLACE_STATE      0
#define PLACE_TAIL       1
#define PLACE_CONV       2
#define PLACE_A_LOG      3
#define PLACE_DT_BIAS    4
#define PLACE_PAGE       5
#define ASK(p, i)        ((p) + (i) * 3)
#define ASK_SLOT         0
#define ASK_KEPT         1 /* place of its first kept input */
#define ASK_TOKENS       2

/* ---- dtypes ---- */

#if KV_DTYPE == 0
typedef float kv_t;
#else
typedef ushort kv_t;
#endif

#if !defined(W_DTYPE) || W_DTYPE == 0
typedef float scale_t;
#else
typedef ushort scale_t;
#endif

#if !defined(W_BITS) || W_BITS == 0
typedef scale_t weight_t;
#else
typedef uchar weight_t;
#endif

#if !defined(OPERAND_DTYPE) || OPERAND_DTYPE == 0
typedef float operand_t;
#else
typedef ushort operand_t;
#endif

static float from_bf16(ushort h)
{
    return as_float((uint)h << 16);
}

static float16 from_bf16x16(ushort16 h)
{
    return as_float16(convert_uint16(h) << 16);
}

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
static ushort to_bf16(float f)
{
    uint bits = as_uint(f);

    return isnan(f) ? (ushort)(bits >> 16 | 0x40)
                    : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_f16(ushort h)
{
    return vload_half(0, (const __private half *)&h);
}

static ushort to_f16(float f)
{
    ushort h;

    vstore_half_rte(f, 0, (__private half *)&h);
    return h;
}

static float kv_get(__global const kv_t *p, ulong i)
{
#if KV_DTYPE == 0
    return p[i];
#elif KV_DTYPE == 1
    return from_bf16(p[i]);
#else
    return from_f16(p[i]);
#endif
}

static float16 kv_get16(__global const kv_t *p, ulong i)
{
#if KV_DTYPE == 0
    return vload16(0, p + i);
#elif KV_DTYPE == 1
    return from_bf16x16(vload16(0, p + i));
#else
    return vload_half16(0, (__global const half *)p + i);
#endif
}

static kv_t kv_of(float f)
{
#if KV_DTYPE == 0
    return f;
#elif KV_DTYPE == 1
    return to_bf16(f);
#else
    return to_f16(f);
#endif
}

/* Elements of KV_DTYPE in as many bytes as n floats; n is a multiple of 16. */
static ulong kv_per(uint n)
{
    return (ulong)n * sizeof(float) / sizeof(kv_t);
}

/* f as it is read back from the cache. */
static float kv_rounded(float f)
{
#if KV_DTYPE == 0
    return f;
#elif KV_DTYPE == 1
    return from_bf16(to_bf16(f));
#else
    return from_f16(to_f16(f));
#endif
}

/* Element i, of dtype W_DTYPE. */
static float scale_get(__global const scale_t *p, ulong i)
{
#if !defined(W_DTYPE) || W_DTYPE == 0
    return p[i];
#elif W_DTYPE == 1
    return from_bf16(p[i]);
#else
    return from_f16(p[i]);
#endif
}

/* A matrix [rows, k], and one of its rows.  Behind the elements, at a multiple
 * of 16 bytes, is what the format needs besides (weights.cl); affine: a scale
 * and a bias for each group. */
typedef struct {
    __global const weight_t *w;
    __global const scale_t *pairs; /* affine: [rows, k / W_GROUP][2] */
} matrix_t;

typedef struct {
    __global const weight_t *w;
    __global const scale_t *pairs; /* affine: [k / W_GROUP][2] */
} row_t;

#if !defined(W_BITS) || W_BITS == 0

/* at: offset in elements; n: all elements. */
static matrix_t matrix_of(__global const weight_t *w, ulong at, ulong n)
{
    const matrix_t m = {w + at, 0};

    return m;
}

static row_t row_of(matrix_t m, ulong row, uint k)
{
    const row_t r = {m.w + row * k, 0};

    return r;
}

static float weight_get(row_t r, uint i)
{
    return scale_get(r.w, i);
}

static float16 weight_get16(row_t r, uint i)
{
#if !defined(W_DTYPE) || W_DTYPE == 0
    return vload16(0, r.w + i);
#elif W_DTYPE == 1
    return from_bf16x16(vload16(0, r.w + i));
#else
    return vload_half16(0, (__global const half *)r.w + i);
#endif
}

#else

/* at: offset in bytes; n: all elements. */
static matrix_t matrix_of(__global const weight_t *w, ulong at, ulong n)
{
    const ulong bytes = (n * W_BITS / 8 + 15) / 16 * 16;
    const matrix_t m = {w + at, (__global const scale_t *)(w + at + bytes)};

    return m;
}

#if !defined(W_FORMAT) || W_FORMAT == 1

static row_t row_of(matrix_t m, ulong row, uint k)
{
    const row_t r = {m.w + row * k * W_BITS / 8,
                     m.pairs + row * (k / W_GROUP) * 2};

    return r;
}

static float weight_get(row_t r, uint i)
{
    const uint g = i / W_GROUP * 2;
#if W_BITS == 8
    const uint q = r.w[i];
#else
    const uint q = r.w[i / 2] >> i % 2 * 4 & 15;
#endif

    return fma((float)q, scale_get(r.pairs, g), scale_get(r.pairs, g + 1));
}

/* i must be a multiple of 16. */
static float16 weight_get16(row_t r, uint i)
{
    const uint g = i / W_GROUP * 2;
    const float16 s = scale_get(r.pairs, g), b = scale_get(r.pairs, g + 1);
#if W_BITS == 8
    const uchar16 q = vload16(0, r.w + i);
#else
    const uchar8 two = vload8(0, r.w + i / 2);
    uchar16 q;

    q.even = two & (uchar8)15;
    q.odd = two >> (uchar8)4;
#endif

    return fma(convert_float16(q), s, b);
}

#endif
#endif

static float operand_get(__global const operand_t *p, ulong i)
{
#if !defined(OPERAND_DTYPE) || OPERAND_DTYPE == 0
    return p[i];
#else
    return from_bf16(p[i]);
#endif
}

static float16 operand_get16(__global const operand_t *p, ulong i)
{
#if !defined(OPERAND_DTYPE) || OPERAND_DTYPE == 0
    return vload16(0, p + i);
#else
    return from_bf16x16(vload16(0, p + i));
#endif
}

static operand_t operand_of(float f)
{
#if !defined(OPERAND_DTYPE) || OPERAND_DTYPE == 0
    return f;
#else
    return to_bf16(f);
#endif
}

/* ---- arithmetic ---- */

/* exp(x) within 2 ulp, bit for bit that of kernels/isa/simd_math.h: 0 below
 * -87.3, saturates above 88.3, NaN stays NaN. */
static float exp_of(float in)
{
    float x = in < 88.3f ? in : in > 88.3f ? 88.3f : in;
    float t, n, r, y;

    x = x < -87.3f ? -87.3f : x;
    t = fma(x, 1.44269504f, 12582912.0f);
    n = t - 12582912.0f;
    r = fma(n, -0.693359375f, x);
    r = fma(n, 2.12194440e-4f, r);
    y = fma(1.9875691500e-4f, r, 1.3981999507e-3f);
    y = fma(y, r, 8.3334519073e-3f);
    y = fma(y, r, 4.1665795894e-2f);
    y = fma(y, r, 1.6666665459e-1f);
    y = fma(y, r, 5.0000001201e-1f);
    y = fma(y, r * r, r);
    y = (y + 1.0f) * as_float((as_uint(t) - 0x4b400000u + 127u) << 23);
    return in < -87.3f ? 0.0f : y;
}

static float sigmoid_of(float x)
{
    return 1.0f / (1.0f + exp_of(-x));
}

static float silu_of(float x)
{
    return x * sigmoid_of(x);
}

#ifndef ACTIVATION
#define ACTIVATION 0
#endif

/* What an MLP does between its products, by ACTIVATION: 0 silu(g) u; 1 gelu(g)
 * u, gelu by tanh; 2 g' sigmoid(CLAMP_ALPHA g') (u' + 1), g' = min(g,
 * CLAMP_LIMIT), u' = clamp(u, -CLAMP_LIMIT, CLAMP_LIMIT). */
static float activated(float g, float u)
{
#if ACTIVATION == 0
    return silu_of(g) * u;
#elif ACTIVATION == 1
    /* (1 + tanh(z)) / 2 = sigmoid(2 z) */
    const float z = 0.7978845608f * fma(0.044715f * g, g * g, g);

    return g * sigmoid_of(2.0f * z) * u;
#else
    /* A NaN stays a NaN, which fmin() would drop. */
    g = g > CLAMP_LIMIT ? CLAMP_LIMIT : g;
    u = u > CLAMP_LIMIT ? CLAMP_LIMIT : u < -CLAMP_LIMIT ? -CLAMP_LIMIT : u;
    return g * sigmoid_of(CLAMP_ALPHA * g) * (u + 1.0f);
#endif
}

/* cap tanh(x / cap) */
static float capped(float x, float cap)
{
    return cap * (1.0f - 2.0f / (1.0f + exp_of(2.0f * x / cap)));
}

/* Folds lanes i and i+8, then +4, +2, +1. */
static float fold8(float8 a)
{
    float4 b = a.lo + a.hi;
    float2 c = b.lo + b.hi;

    return c.lo + c.hi;
}

static float fold16(float16 a)
{
    return fold8(a.lo + a.hi);
}

/* ---- operands that a norm leaves for the product behind it ---- */

/* x [H] of a token becomes the operand of the next norm, in two parts:
 *
 *     next[c] = operand(x[c] gamma[c])            [T, H]
 *     ss[c / 8] = sum of x[c]^2 over 8 columns    [T, SS_LD]
 *
 * A kernel that multiplies with next scales its finished sums by norm_scale().
 * Rounding before the scale loses nothing, as bf16 has float32's range. */
#define NORM_PART 8
#define SS_LD     ((H + NORM_PART - 1) / NORM_PART)

/* 1 / sqrt(mean(x^2) + eps) of a token, from its ss [SS_LD]. */
static float norm_scale(__global const float *ss)
{
    float16 lanes = 0.0f;
    float rest = 0.0f;
    uint i = 0;

    for (; i + 16 <= SS_LD; i += 16) {
        lanes += vload16(0, ss + i);
    }
    for (; i < SS_LD; i++) {
        rest += ss[i];
    }
    return 1.0f / sqrt((fold16(lanes) + rest) / (float)H + EPS);
}
