/* weights.cl - matrices in formats other than plain and affine ones: how a
 * value is made of a code.  Follows common.cl in every program.
 *
 *     W_FORMAT    W_BITS  W_GROUP  behind the codes, for each row
 *     2  fp8      8       128      f32 [ceil(k / 128)]
 *     3  mxfp4    4       32       E8M0 [k / 32]
 *     4  q8       8       32       f16 [k / 32]
 *     5  q4       4       32       f16 [k / 32]
 *     6  k4       4       32       records of 20 bytes [k / 256]
 *     7  k6       6       16       records of 18 bytes [k / 256]
 *
 * common/model/weights.h has the formulas and the records.
 *
 * Defines   W_FORMAT, W_BITS, W_GROUP
 * Needs     little-endian; k a multiple of W_GROUP, fp8: any
 * Numerics  each value is rounded to float32 once, as weight_format.h does */
#if defined(W_FORMAT) && W_FORMAT > 1

#if W_FORMAT == 2
#define SCALE_BYTES(k) (((k) + 127) / 128 * 4)
#elif W_FORMAT == 3
#define SCALE_BYTES(k) ((k) / 32)
#elif W_FORMAT == 4 || W_FORMAT == 5
#define SCALE_BYTES(k) ((k) / 32 * 2)
#elif W_FORMAT == 6
#define SCALE_BYTES(k) ((k) / 256 * 20)
#else
#define SCALE_BYTES(k) ((k) / 256 * 18)
#endif

static row_t row_of(matrix_t m, ulong row, uint k)
{
    const row_t r = {m.w + row * k * W_BITS / 8,
                     (__global const scale_t *)((__global const uchar *)m.pairs +
                                                row * SCALE_BYTES(k))};

    return r;
}

/* ---- codes ---- */

/* Codes i .. i + 15; i is a multiple of 16. */
static uint16 codes_of(row_t r, uint i)
{
#if W_BITS == 8
    return convert_uint16(vload16(0, r.w + i));
#elif W_BITS == 4
    const uchar8 two = vload8(0, r.w + i / 2);
    uint16 q;

    q.even = convert_uint8(two) & 15;
    q.odd = convert_uint8(two) >> 4;
    return q;
#else
    /* 96 bits: four codes in each three bytes. */
    const uint3 all = vload3(0, (__global const uint *)(r.w + i / 4 * 3));
    const uint4 four = (uint4)(all.s0, all.s0 >> 24 | all.s1 << 8,
                               all.s1 >> 16 | all.s2 << 16, all.s2 >> 8);
    uint16 q;

    q.s048c = four & 63;
    q.s159d = four >> 6 & 63;
    q.s26ae = four >> 12 & 63;
    q.s37bf = four >> 18 & 63;
    return q;
#endif
}

static uint code_of(row_t r, uint i)
{
#if W_BITS == 8
    return r.w[i];
#elif W_BITS == 4
    return r.w[i / 2] >> i % 2 * 4 & 15;
#else
    __global const uchar *three = r.w + i / 4 * 3;

    return (three[0] | (uint)three[1] << 8 | (uint)three[2] << 16) >>
               i % 4 * 6 & 63;
#endif
}

/* ---- scales ---- */

/* A value is factor times level(code) plus addend. */
typedef struct {
    float factor, addend;
} group_t;

static float half_at(__global const uchar *p)
{
    return from_f16(*(__global const ushort *)p);
}

/* The group of column i. */
static group_t group_of(row_t r, uint i)
{
    __global const uchar *s = (__global const uchar *)r.pairs;
    group_t g = {0.0f, -0.0f}; /* x + -0 is x, also if x is -0 */

#if W_FORMAT == 2
    g.factor = ((__global const float *)s)[i / 128];
#elif W_FORMAT == 3
    const uint e = s[i / 32];

    g.factor = e == 0 ? 0x1p-127f : e == 255 ? NAN : as_float(e << 23);
#elif W_FORMAT == 4 || W_FORMAT == 5
    g.factor = half_at(s + i / 32 * 2);
#elif W_FORMAT == 6
    __global const uchar *record = s + i / 256 * 20;
    const uint j = i % 256 / 32 * 2;

    /* Both products are exact. */
    g.factor = half_at(record + 16) * (float)record[j];
    g.addend = -(half_at(record + 18) * (float)record[j + 1]);
#else
    __global const uchar *record = s + i / 256 * 18;

    g.factor = half_at(record + 16) * (float)(char)record[i % 256 / 16];
#endif
    return g;
}

/* ---- values ---- */

/* The value of a code before it is scaled; exact.  A table of mxfp4's would be
 * slower. */
#if W_FORMAT == 2

/* As f16, an E4M3 code is 2^-8 of its value; 127 is NaN. */
static float level_of(uint q)
{
    const float f = from_f16((ushort)((q & 127) << 7 | (q & 128) << 8));

    return (q & 127) == 127 ? NAN : f * 256.0f;
}

static float16 levels_of(uint16 q)
{
    const ushort16 h = convert_ushort16((q & 127) << 7 | (q & 128) << 8);
    const float16 f = vload_half16(0, (const __private half *)&h) * 256.0f;

    return select(f, (float16)NAN, (q & 127) == 127);
}

#elif W_FORMAT == 3

/* As f16, an E2M1 code is 2^-14 of its value. */
static float level_of(uint q)
{
    return from_f16((ushort)((q & 7) << 9 | (q & 8) << 12)) * 16384.0f;
}

static float16 levels_of(uint16 q)
{
    const ushort16 h = convert_ushort16((q & 7) << 9 | (q & 8) << 12);

    return vload_half16(0, (const __private half *)&h) * 16384.0f;
}

#else

#if W_FORMAT == 4
#define ZERO 128
#elif W_FORMAT == 5
#define ZERO 8
#elif W_FORMAT == 6
#define ZERO 0
#else
#define ZERO 32
#endif

static float level_of(uint q)
{
    return (float)((int)q - ZERO);
}

static float16 levels_of(uint16 q)
{
    return convert_float16(as_int16(q) - ZERO);
}

#endif

static float weight_get(row_t r, uint i)
{
    const group_t g = group_of(r, i);

    return fma(level_of(code_of(r, i)), g.factor, g.addend);
}

/* i must be a multiple of 16. */
static float16 weight_get16(row_t r, uint i)
{
    const group_t g = group_of(r, i);

    return fma(levels_of(codes_of(r, i)), (float16)g.factor,
               (float16)g.addend);
}

#endif
