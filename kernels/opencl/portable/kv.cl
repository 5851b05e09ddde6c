/* kv.cl - keys and values in the cache of an attention layer: their places,
 * reading and writing them.  Precedes the files that use it (program.h).
 *
 *   plain       block b is [2, NKV, BLOCK_TOKENS, HD] KV_DTYPE at b * page
 *   quantised   block b is the bytes of struct kv_block (common/model/
 *               kv_format.h) at b * page; kernels/kv_codec.h has the formulas.
 *               Affine keys and values read as s q + b.  TurboQuant's read as
 *               centroids of a rotated vector, and their norm is a factor of
 *               the score or the weight
 *
 *   page   elements from page to page: of KV_DTYPE, bytes if quantised
 *   book   [2, BOOK] f32 in local memory: centroids of keys, then of values
 *
 * Defines   KV_SCHEME 0 plain, 1 affine, 2 turboquant; if quantised K_BITS,
 *           V_BITS 2..4 or 8, K_BYTES, V_BYTES (codes of a vector), K_PARAM,
 *           V_PARAM (bytes of its parameters), V_CODES, K_PARAMS, V_PARAMS
 *           (places in a block); affine KV_GROUP 32, 64 or 128; turboquant
 *           K_BOOK, V_BOOK (bits of the centroids, ascending), UNIT (bits of
 *           1 / sqrt(HD)), K_SIGNS, V_SIGNS (words; bit d is 1 where
 *           dimension d changes its sign)
 * Needs     little-endian; WG work-items, at least HD / 8; if quantised HD a
 *           multiple of 16
 * Numerics  float32; codes and parameters equal those of the cpu backend where
 *           division and square root are rounded correctly */
#ifndef KV_SCHEME
#define KV_SCHEME 0
#endif

#define BOOK 16

/* For functions with barriers that other functions call: PoCL inlines them too
 * late. */
#define TOGETHER static inline __attribute__((always_inline))

/* Places of a vector, from the begin of the layer's cache. */
typedef struct {
    ulong codes;  /* plain: the values */
    ulong params; /* quantised: scales and biases, or the norm */
} place_t;

/* ---- plain ---- */

#if KV_SCHEME == 0

typedef kv_t cache_t;

#define PLANE ((ulong)BLOCK_TOKENS * HD) /* k or v of a head in a block */

static place_t key_place(__global const int *table, uint page, uint p, uint h)
{
    const ulong block = (uint)table[p / BLOCK_TOKENS];
    const place_t at = {
        block * page + h * PLANE + (ulong)(p % BLOCK_TOKENS) * HD, 0};

    return at;
}

static place_t value_place(__global const int *table, uint page, uint p, uint h)
{
    place_t at = key_place(table, page, p, h);

    at.codes += NKV * PLANE;
    return at;
}

#define key_get(kv, at, d, book)     kv_get(kv, (at).codes + (d))
#define key_get16(kv, at, d, book)   kv_get16(kv, (at).codes + (d))
#define key_factor(kv, at)           1.0f
#define value_get(kv, at, d, book)   kv_get(kv, (at).codes + (d))
#define value_get16(kv, at, d, book) kv_get16(kv, (at).codes + (d))
#define value_factor(kv, at)         1.0f

#else

/* ---- quantised: places and codes ---- */

typedef uchar cache_t;

/* HD is a multiple of 16. */
#define key_get(kv, at, d, book)   0.0f
#define value_get(kv, at, d, book) 0.0f

static place_t key_place(__global const int *table, uint page, uint p, uint h)
{
    const ulong block = (ulong)(uint)table[p / BLOCK_TOKENS] * page;
    const uint i = h * BLOCK_TOKENS + p % BLOCK_TOKENS;
    const place_t at = {block + i * K_BYTES, block + K_PARAMS + i * K_PARAM};

    return at;
}

static place_t value_place(__global const int *table, uint page, uint p, uint h)
{
    const ulong block = (ulong)(uint)table[p / BLOCK_TOKENS] * page;
    const uint i = h * BLOCK_TOKENS + p % BLOCK_TOKENS;
    const place_t at = {block + V_CODES + i * V_BYTES,
                        block + V_PARAMS + i * V_PARAM};

    return at;
}

/* Codes d .. d + 15 as a bit stream of 2 to 4 bits each; d is a multiple of
 * 16. */
static ulong codes_get16(__global const uchar *codes, uint d, uint bits)
{
    __global const ushort *from =
        (__global const ushort *)(codes + d / 8 * bits);
    ulong all = 0;

    for (uint i = 0; i < bits; i++) {
        all |= (ulong)from[i] << i * 16;
    }
    return all;
}

/* Writes codes 8 i .. 8 i + 7, and zeros behind the last of HD. */
static void codes_put8(__global uchar *codes, uint i, const uint *q, uint bits,
                       uint code_bytes)
{
    const uint end = i + 1 == HD / 8 ? code_bytes : (i + 1) * bits;
    ulong all = 0;

    for (uint j = 0; j < 8; j++) {
        all |= (ulong)q[j] << j * bits;
    }
    for (uint at = i * bits; at < end; at++) {
        codes[at] = (uchar)all;
        all >>= 8;
    }
}

#endif

/* ---- affine ---- */

#if KV_SCHEME == 1

static float16 affine16(__global const uchar *codes, uint d, uint bits, float s,
                        float b)
{
    uchar16 q;

    if (bits == 8) {
        q = vload16(0, codes + d);
    } else {
        const uchar8 two = vload8(0, codes + d / 2);

        q.even = two & (uchar8)15;
        q.odd = two >> (uchar8)4;
    }
    return fma(convert_float16(q), (float16)s, (float16)b);
}

static float16 affine_get16(__global const uchar *kv, place_t at, uint d,
                            uint bits)
{
    __global const kv_t *pair =
        (__global const kv_t *)(kv + at.params) + d / KV_GROUP * 2;

    return affine16(kv + at.codes, d, bits, kv_get(pair, 0), kv_get(pair, 1));
}

#define key_get16(kv, at, d, book)   affine_get16(kv, at, d, K_BITS)
#define key_factor(kv, at)           1.0f
#define value_get16(kv, at, d, book) affine_get16(kv, at, d, V_BITS)
#define value_factor(kv, at)         1.0f

/* Scale and bias of a group with values from low to high. */
static float2 affine_fit(float low, float high, uint bits)
{
    float s = fmax((high - low) / (float)((1u << bits) - 1), 1e-7f);
    float edge = low, b = 0.0f, q0;

    if (!(fabs(low) > fabs(high))) {
        s = -s;
        edge = high;
    }
    q0 = rint(edge / s);
    if (q0 != 0.0f) {
        s = edge / q0;
        b = edge;
    }
    return (float2)(kv_rounded(s), kv_rounded(b));
}

/* Writes x [HD], if `on`, by all work-items, each 8 values; part [2 WG]. */
TOGETHER void vector_put(__global uchar *kv, place_t at, bool on,
                         __local float *x, __local float *part, uint bits,
                         uint code_bytes)
{
    const uint lane = get_local_id(0), of_group = KV_GROUP / 8;
    const uint first = lane / of_group * of_group;
    float low = INFINITY, high = -INFINITY, finite = 0.0f;

    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < HD / 8) {
        for (uint i = lane * 8; i < lane * 8 + 8; i++) {
            low = fmin(low, x[i]);
            high = fmax(high, x[i]);
            finite += x[i] * 0.0f; /* NaN if a value is not finite */
        }
        part[lane] = low + finite;
        part[WG + lane] = high + finite;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < HD / 8 && on) {
        __global kv_t *pair =
            (__global kv_t *)(kv + at.params) + lane / of_group * 2;
        float2 of;
        uint q[8];

        for (uint i = first; i < first + of_group; i++) {
            low = fmin(low, part[i]);
            high = fmax(high, part[WG + i]);
            finite += part[i] * 0.0f;
        }
        of = affine_fit(low, high, bits) + finite;
        for (uint i = 0; i < 8; i++) {
            const float most = (float)((1u << bits) - 1);
            const float code = rint((x[lane * 8 + i] - of.s1) / of.s0);

            q[i] = code > 0.0f ? (uint)fmin(code, most) : 0;
        }
        if (lane == first) {
            pair[0] = kv_of(of.s0);
            pair[1] = kv_of(of.s1);
        }
        codes_put8(kv + at.codes, lane, q, bits, code_bytes);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#define key_put(kv, at, on, x, part, book) \
    vector_put(kv, at, on, x, part, K_BITS, K_BYTES)
#define value_put(kv, at, on, x, part, book) \
    vector_put(kv, at, on, x, part, V_BITS, V_BYTES)

#endif

#if KV_SCHEME != 2
#define book_load(book) (void)(book)
#endif

/* ---- turboquant ---- */

#if KV_SCHEME == 2

__constant uint centroids_k[] = {K_BOOK}, centroids_v[] = {V_BOOK};
__constant uint signs_k[] = {K_SIGNS}, signs_v[] = {V_SIGNS};

#define TURBO_UNIT as_float(UNIT)

static float sign_of(__constant uint *signs, uint d)
{
    return signs[d / 32] >> d % 32 & 1 ? -1.0f : 1.0f;
}

static void book_load(__local float *book)
{
    const uint lane = get_local_id(0);

    if (lane < 1u << K_BITS) {
        book[lane] = as_float(centroids_k[lane]);
    }
    if (lane < 1u << V_BITS) {
        book[BOOK + lane] = as_float(centroids_v[lane]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* x [n, HD] := H x, each row, by all work-items. */
TOGETHER void hadamard(__local float *x, uint n)
{
    for (uint stride = 1; stride < HD; stride *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = get_local_id(0); i < n * (HD / 2); i += WG) {
            const uint at = i / stride * stride * 2 + i % stride;
            const float a = x[at], b = x[at + stride];

            x[at] = a + b;
            x[at + stride] = a - b;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* x [HD] := H D x / sqrt(HD). */
TOGETHER void rotate(__local float *x, __constant uint *signs)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = get_local_id(0); d < HD; d += WG) {
        x[d] *= sign_of(signs, d);
    }
    hadamard(x, 1);
    for (uint d = get_local_id(0); d < HD; d += WG) {
        x[d] *= TURBO_UNIT;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static float16 turbo_get16(__global const uchar *kv, place_t at, uint d,
                           uint bits, __local const float *book)
{
    const ulong all = codes_get16(kv + at.codes, d, bits);
    float part[16];

    for (uint i = 0; i < 16; i++) {
        part[i] = book[(uint)(all >> i * bits) & ((1u << bits) - 1)];
    }
    return vload16(0, part);
}

static float norm_get(__global const uchar *kv, place_t at)
{
    return from_f16(*(__global const ushort *)(kv + at.params));
}

#define key_get16(kv, at, d, book) turbo_get16(kv, at, d, K_BITS, book)
#define key_factor(kv, at)         norm_get(kv, at)
#define value_get16(kv, at, d, book) \
    turbo_get16(kv, at, d, V_BITS, (book) + BOOK)
#define value_factor(kv, at) norm_get(kv, at)

/* Returns the length of x [HD], NaN unless the sum of squares is finite. */
static float length_of(__local const float *x)
{
    float sum = 0.0f;

    /* In the order of the cpu backend, for the same bytes. */
    for (uint d = 0; d < HD; d++) {
        sum += x[d] * x[d];
    }
    return isfinite(sum) ? sqrt(sum) : NAN;
}

/* Rotates x [HD] by all work-items, and writes it, if `on`. */
TOGETHER void vector_put(__global uchar *kv, place_t at, bool on,
                         __local float *x, __constant uint *signs,
                         __local const float *book, uint bits, uint code_bytes)
{
    const uint lane = get_local_id(0);
    float norm;

    barrier(CLK_LOCAL_MEM_FENCE);
    norm = on ? length_of(x) : 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = lane; d < HD; d += WG) {
        x[d] = norm > 0.0f ? x[d] / norm : 0.0f;
    }
    rotate(x, signs);
    if (lane < HD / 8 && on) {
        uint q[8];

        for (uint i = 0; i < 8; i++) {
            q[i] = 0;
            for (uint j = 1; j < 1u << bits; j++) {
                q[i] += x[lane * 8 + i] > 0.5f * (book[j - 1] + book[j]);
            }
        }
        codes_put8(kv + at.codes, lane, q, bits, code_bytes);
    }
    if (lane == 0 && on) {
        *(__global ushort *)(kv + at.params) =
            to_f16(norm > 65504.0f ? 65504.0f : norm);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#define key_put(kv, at, on, x, part, book) \
    vector_put(kv, at, on, x, signs_k, book, K_BITS, K_BYTES)
#define value_put(kv, at, on, x, part, book) \
    vector_put(kv, at, on, x, signs_v, (book) + BOOK, V_BITS, V_BYTES)

#endif
