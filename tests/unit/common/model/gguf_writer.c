#include "tests/unit/common/model/gguf_writer.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/half.h"
#include "tests/unit/cmocka.h"

struct bytes {
    unsigned char *at;
    size_t n, room;
};

struct gguf_file {
    uint32_t version, alignment;
    uint64_t n_values, n_tensors;
    struct bytes values, tensors, data;
};

static void push(struct bytes *b, const void *bytes, size_t n)
{
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2 + 64;
        b->at = realloc(b->at, b->room);
        assert_non_null(b->at);
    }
    if (n > 0) {
        memcpy(b->at + b->n, bytes, n);
    }
    b->n += n;
}

static void push_number(struct bytes *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)(v >> (8 * i));

        push(b, &c, 1);
    }
}

static void push_text(struct bytes *b, const char *text)
{
    push_number(b, strlen(text), 8);
    push(b, text, strlen(text));
}

static void push_zeros(struct bytes *b, size_t to)
{
    while (b->n % to != 0) {
        push_number(b, 0, 1);
    }
}

struct gguf_file *gguf_file_new(uint32_t version, uint32_t alignment)
{
    struct gguf_file *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->version = version;
    f->alignment = alignment > 0 ? alignment : 32;
    if (alignment > 0) {
        gguf_put_u32(f, "general.alignment", alignment);
    }
    return f;
}

void gguf_file_free(struct gguf_file **f)
{
    free((*f)->values.at);
    free((*f)->tensors.at);
    free((*f)->data.at);
    free(*f);
    *f = NULL;
}

void gguf_put_raw(struct gguf_file *f, const char *key, uint32_t type,
                  const void *bytes, size_t n)
{
    f->n_values++;
    push_text(&f->values, key);
    push_number(&f->values, type, 4);
    push(&f->values, bytes, n);
}

void gguf_put_u32(struct gguf_file *f, const char *key, uint32_t v)
{
    gguf_put_raw(f, key, 4, NULL, 0);
    push_number(&f->values, v, 4);
}

void gguf_put_f32(struct gguf_file *f, const char *key, float v)
{
    gguf_put_raw(f, key, 6, NULL, 0);
    push_number(&f->values, half_bits(v), 4);
}

void gguf_put_bool(struct gguf_file *f, const char *key, int v)
{
    gguf_put_raw(f, key, 7, NULL, 0);
    push_number(&f->values, (uint64_t)v, 1);
}

void gguf_put_text(struct gguf_file *f, const char *key, const char *v)
{
    gguf_put_raw(f, key, 8, NULL, 0);
    push_text(&f->values, v);
}

static void begin_array(struct gguf_file *f, const char *key, uint32_t type,
                        size_t n)
{
    gguf_put_raw(f, key, 9, NULL, 0);
    push_number(&f->values, type, 4);
    push_number(&f->values, n, 8);
}

void gguf_put_texts(struct gguf_file *f, const char *key, size_t n,
                    const char *const *v)
{
    begin_array(f, key, 8, n);
    for (size_t i = 0; i < n; i++) {
        push_text(&f->values, v[i]);
    }
}

void gguf_put_i32s(struct gguf_file *f, const char *key, size_t n,
                   const int32_t *v)
{
    begin_array(f, key, 5, n);
    for (size_t i = 0; i < n; i++) {
        push_number(&f->values, (uint32_t)v[i], 4);
    }
}

void gguf_put_f32s(struct gguf_file *f, const char *key, size_t n,
                   const float *v)
{
    begin_array(f, key, 6, n);
    for (size_t i = 0; i < n; i++) {
        push_number(&f->values, half_bits(v[i]), 4);
    }
}

void gguf_add(struct gguf_file *f, const char *name, uint32_t type,
              uint32_t rank, const uint64_t *dims, const void *bytes, size_t n)
{
    f->n_tensors++;
    push_text(&f->tensors, name);
    push_number(&f->tensors, rank, 4);
    for (uint32_t i = 0; i < rank; i++) {
        push_number(&f->tensors, dims[i], 8);
    }
    push_number(&f->tensors, type, 4);
    push_number(&f->tensors, f->data.n, 8);
    push(&f->data, bytes, n);
    push_zeros(&f->data, f->alignment);
}

void gguf_add_values(struct gguf_file *f, const char *name, uint32_t type,
                     uint32_t rank, const uint64_t *dims, const float *values)
{
    uint64_t n = 1;
    size_t bytes;
    void *blocks;

    for (uint32_t i = 0; i < rank; i++) {
        n *= dims[i];
    }
    bytes = gguf_type_bytes(type, n);
    blocks = malloc(bytes);
    assert_non_null(blocks);
    gguf_quantise(type, values, n, blocks);
    gguf_add(f, name, type, rank, dims, blocks, bytes);
    free(blocks);
}

unsigned char *gguf_bytes(const struct gguf_file *f, size_t *len)
{
    struct bytes b = {0};

    push(&b, "GGUF", 4);
    push_number(&b, f->version, 4);
    push_number(&b, f->n_tensors, 8);
    push_number(&b, f->n_values, 8);
    push(&b, f->values.at, f->values.n);
    push(&b, f->tensors.at, f->tensors.n);
    push_zeros(&b, f->alignment);
    push(&b, f->data.at, f->data.n);
    *len = b.n;
    return b.at;
}

/* ---- blocks ---- */

struct block_type {
    uint32_t type, values, bytes;
};

static struct block_type block_of(uint32_t type)
{
    static const struct block_type types[] = {
        {WRITE_F32, 1, 4},      {WRITE_F16, 1, 2},
        {WRITE_BF16, 1, 2},     {WRITE_Q4_0, 32, 18},
        {WRITE_Q8_0, 32, 34},   {WRITE_MXFP4, 32, 17},
        {WRITE_Q4_K, 256, 144}, {WRITE_Q6_K, 256, 210},
        {WRITE_Q4_1, 32, 20},   {WRITE_Q5_0, 32, 22},
        {WRITE_Q5_1, 32, 24},   {WRITE_Q5_K, 256, 176},
        {WRITE_IQ4_NL, 32, 18}, {WRITE_IQ4_XS, 256, 136},
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].type == type) {
            return types[i];
        }
    }
    fail_msg("no type %u", type);
    return types[0];
}

size_t gguf_type_bytes(uint32_t type, uint64_t n)
{
    struct block_type b = block_of(type);

    assert_int_equal(n % b.values, 0);
    return n / b.values * b.bytes;
}

uint32_t gguf_type_block(uint32_t type)
{
    return block_of(type).values;
}

static void put_half(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static uint16_t half_at(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float largest(const float *v, int n)
{
    float most = 0;

    for (int i = 0; i < n; i++) {
        most = fabsf(v[i]) > fabsf(most) ? v[i] : most;
    }
    return most;
}

static int clamped(float v, int low, int high)
{
    int n = (int)lroundf(v);

    return n < low ? low : n > high ? high : n;
}

/* Values i and i + 16 share a byte. */
static void put_nibbles(unsigned char *out, const int *codes)
{
    for (int i = 0; i < 16; i++) {
        out[i] = (unsigned char)(codes[i] | codes[i + 16] << 4);
    }
}

static void make_q8_0(const float *v, unsigned char *out)
{
    float d = fabsf(largest(v, 32)) / 127;

    put_half(out, half_to_f16(d));
    for (int i = 0; i < 32; i++) {
        out[2 + i] = (unsigned char)(d > 0 ? clamped(v[i] / d, -127, 127) : 0);
    }
}

static void make_q4_0(const float *v, unsigned char *out)
{
    float d = largest(v, 32) / -8;
    int codes[32];

    put_half(out, half_to_f16(d));
    for (int i = 0; i < 32; i++) {
        codes[i] = d != 0 ? clamped(v[i] / d + 8, 0, 15) : 8;
    }
    put_nibbles(out + 2, codes);
}

static void put_fifth(unsigned char *out, const int *codes)
{
    uint32_t bits = 0;

    for (int i = 0; i < 32; i++) {
        bits |= (uint32_t)(codes[i] >> 4) << i;
    }
    for (int i = 0; i < 4; i++) {
        out[i] = (unsigned char)(bits >> (8 * i));
    }
}

static void make_q5_0(const float *v, unsigned char *out)
{
    float d = largest(v, 32) / -16;
    int codes[32], low[32];

    put_half(out, half_to_f16(d));
    for (int i = 0; i < 32; i++) {
        codes[i] = d != 0 ? clamped(v[i] / d + 16, 0, 31) : 16;
        low[i] = codes[i] & 15;
    }
    put_fifth(out + 2, codes);
    put_nibbles(out + 6, low);
}

/* Q4_1, and Q5_1 with `most` 31. */
static void make_affine(const float *v, unsigned char *out, int most)
{
    float low = v[0], high = v[0], d;
    int codes[32], halves[32];

    for (int i = 1; i < 32; i++) {
        low = fminf(low, v[i]);
        high = fmaxf(high, v[i]);
    }
    d = (high - low) / (float)most;
    put_half(out, half_to_f16(d));
    put_half(out + 2, half_to_f16(low));
    for (int i = 0; i < 32; i++) {
        codes[i] = d > 0 ? clamped((v[i] - low) / d, 0, most) : 0;
        halves[i] = codes[i] & 15;
    }
    if (most > 15) {
        put_fifth(out + 4, codes);
    }
    put_nibbles(out + (most > 15 ? 8 : 4), halves);
}

static const float iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};

static void nearest_iq4(const float *v, float d, int *codes)
{
    for (int i = 0; i < 32; i++) {
        codes[i] = 0;
        for (int c = 1; c < 16; c++) {
            codes[i] =
                fabsf(d * iq4[c] - v[i]) < fabsf(d * iq4[codes[i]] - v[i])
                    ? c
                    : codes[i];
        }
    }
}

static void make_iq4_nl(const float *v, unsigned char *out)
{
    float d = fabsf(largest(v, 32)) / 127;
    int codes[32];

    put_half(out, half_to_f16(d));
    nearest_iq4(v, d, codes);
    put_nibbles(out + 2, codes);
}

static const float e2m1[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

static void make_mxfp4(const float *v, unsigned char *out)
{
    float most = fabsf(largest(v, 32));
    int exponent = most > 0 ? ilogbf(most) - 2 : 0, codes[32];

    out[0] = (unsigned char)(exponent + 127);
    for (int i = 0; i < 32; i++) {
        float x = ldexpf(fabsf(v[i]), -exponent);
        int best = 0;

        for (int c = 1; c < 8; c++) {
            best = fabsf(e2m1[c] - x) < fabsf(e2m1[best] - x) ? c : best;
        }
        codes[i] = best | (v[i] < 0 ? 8 : 0);
    }
    put_nibbles(out + 1, codes);
}

/* Packs the 6-bit scales and minima of a Q4_K block into 12 bytes. */
static void pack_scales(unsigned char *out, const int *s, const int *m)
{
    for (int j = 0; j < 4; j++) {
        out[j] = (unsigned char)(s[j] | s[j + 4] >> 4 << 6);
        out[j + 4] = (unsigned char)(m[j] | m[j + 4] >> 4 << 6);
        out[j + 8] = (unsigned char)((s[j + 4] & 15) | (m[j + 4] & 15) << 4);
    }
}

/* Q4_K, and Q5_K with `most` 31, whose fifth bits come before the halves. */
static void make_k(const float *v, unsigned char *out, int most)
{
    float scale[8], min[8], d, dmin;
    int s[8], m[8];

    for (int j = 0; j < 8; j++) {
        float low = 0, high = 0;

        for (int i = 0; i < 32; i++) {
            low = fminf(low, v[32 * j + i]);
            high = fmaxf(high, v[32 * j + i]);
        }
        scale[j] = (high - low) / (float)most;
        min[j] = -low;
    }
    d = half_from_f16(half_to_f16(largest(scale, 8) / 63));
    dmin = half_from_f16(half_to_f16(largest(min, 8) / 63));
    put_half(out, half_to_f16(d));
    put_half(out + 2, half_to_f16(dmin));
    for (int j = 0; j < 8; j++) {
        s[j] = d > 0 ? clamped(scale[j] / d, 0, 63) : 0;
        m[j] = dmin > 0 ? clamped(min[j] / dmin, 0, 63) : 0;
    }
    pack_scales(out + 4, s, m);
    memset(out + 16, 0, most > 15 ? 160 : 128);
    for (int i = 0; i < 256; i++) {
        float step = d * (float)s[i / 32], low = dmin * (float)m[i / 32];
        int q = step > 0 ? clamped((v[i] + low) / step, 0, most) : 0;
        unsigned char *at = out + (most > 15 ? 48 : 16) + i / 64 * 32 + i % 32;

        *at |= (unsigned char)((q & 15) << (i % 64 < 32 ? 0 : 4));
        if (most > 15) {
            out[16 + i % 32] |= (unsigned char)(q >> 4 << (i / 32));
        }
    }
}

static void make_iq4_xs(const float *v, unsigned char *out)
{
    float d = half_from_f16(half_to_f16(fabsf(largest(v, 256)) / 127 / 31));
    int codes[32];

    memset(out, 0, 136);
    put_half(out, half_to_f16(d));
    for (int j = 0; j < 8; j++) {
        float own = fabsf(largest(v + 32 * j, 32)) / 127;
        /* Every other sub-block has a negative scale. */
        int s = d > 0 ? clamped(own / d, 0, 31) * (j % 2 ? -1 : 1) + 32 : 32;

        out[4 + j / 2] |= (unsigned char)((s & 15) << (j % 2 * 4));
        out[2 + j / 4] |= (unsigned char)(s >> 4 << (j % 4 * 2));
        nearest_iq4(v + 32 * j, d * (float)(s - 32), codes);
        put_nibbles(out + 8 + 16 * j, codes);
    }
}

static void make_q6_k(const float *v, unsigned char *out)
{
    unsigned char *low = out, *high = out + 128, *scales = out + 192;
    float d = fabsf(largest(v, 256)) / 31 / 127, most;

    memset(out, 0, 210);
    d = half_from_f16(half_to_f16(d));
    put_half(out + 208, half_to_f16(d));
    for (int j = 0; j < 16; j++) {
        most = fabsf(largest(v + 16 * j, 16)) / 31;
        scales[j] = (unsigned char)(d > 0 ? clamped(most / d, -128, 127) : 0);
    }
    for (int i = 0; i < 256; i++) {
        float step = d * (float)(int8_t)scales[i / 16];
        int q = (step > 0 ? clamped(v[i] / step, -32, 31) : 0) + 32;
        int half = i / 128, quarter = i % 128 / 32, l = i % 32;

        low[64 * half + 32 * (quarter % 2) + l] |=
            (unsigned char)((q & 15) << (quarter < 2 ? 0 : 4));
        high[32 * half + l] |= (unsigned char)(q >> 4 << (2 * quarter));
    }
}

static void make_block(uint32_t type, const float *v, unsigned char *out)
{
    switch (type) {
    case WRITE_F32:
        memcpy(out, v, 4);
        break;
    case WRITE_F16:
        put_half(out, half_to_f16(*v));
        break;
    case WRITE_BF16:
        put_half(out, half_to_bf16(*v));
        break;
    case WRITE_Q4_0:
        make_q4_0(v, out);
        break;
    case WRITE_Q8_0:
        make_q8_0(v, out);
        break;
    case WRITE_MXFP4:
        make_mxfp4(v, out);
        break;
    case WRITE_Q4_1:
        make_affine(v, out, 15);
        break;
    case WRITE_Q5_0:
        make_q5_0(v, out);
        break;
    case WRITE_Q5_1:
        make_affine(v, out, 31);
        break;
    case WRITE_IQ4_NL:
        make_iq4_nl(v, out);
        break;
    case WRITE_IQ4_XS:
        make_iq4_xs(v, out);
        break;
    case WRITE_Q4_K:
        make_k(v, out, 15);
        break;
    case WRITE_Q5_K:
        make_k(v, out, 31);
        break;
    default:
        make_q6_k(v, out);
        break;
    }
}

void gguf_quantise(uint32_t type, const float *values, uint64_t n, void *out)
{
    struct block_type b = block_of(type);

    for (uint64_t i = 0; i < n / b.values; i++) {
        make_block(type, values + i * b.values,
                   (unsigned char *)out + i * b.bytes);
    }
}

/* ---- what blocks stand for, as ggml-quants.c has it ---- */

static void read_nibbles(const unsigned char *in, int *codes)
{
    for (int i = 0; i < 16; i++) {
        codes[i] = in[i] & 15;
        codes[i + 16] = in[i] >> 4;
    }
}

static int fifth(const unsigned char *in, int i)
{
    return (in[i / 8] >> (i % 8) & 1) << 4;
}

static void read_32(uint32_t type, const unsigned char *in, float *out)
{
    static const int at[] = {
        [WRITE_Q4_0] = 2, [WRITE_Q4_1] = 4, [WRITE_Q5_0] = 6,
        [WRITE_Q5_1] = 8, [WRITE_Q8_0] = 2, [WRITE_IQ4_NL] = 2,
        [WRITE_MXFP4] = 1};
    float d = half_from_f16(half_at(in));
    int codes[32];

    read_nibbles(in + at[type], codes);
    for (int i = 0; i < 32; i++) {
        switch (type) {
        case WRITE_Q8_0:
            out[i] = d * (float)(int8_t)in[2 + i];
            break;
        case WRITE_Q4_0:
            out[i] = d * (float)(codes[i] - 8);
            break;
        case WRITE_Q5_0:
            out[i] = d * (float)((codes[i] | fifth(in + 2, i)) - 16);
            break;
        case WRITE_Q4_1:
            out[i] = (float)codes[i] * d + half_from_f16(half_at(in + 2));
            break;
        case WRITE_Q5_1:
            out[i] = (float)(codes[i] | fifth(in + 4, i)) * d +
                     half_from_f16(half_at(in + 2));
            break;
        case WRITE_IQ4_NL:
            out[i] = d * iq4[codes[i]];
            break;
        default:
            out[i] = ldexpf(e2m1[codes[i] & 7], in[0] - 127);
            out[i] = codes[i] & 8 ? -out[i] : out[i];
            break;
        }
    }
}

static void read_k(const unsigned char *in, float *out, bool five)
{
    float d = half_from_f16(half_at(in)), min = half_from_f16(half_at(in + 2));
    const unsigned char *p = in + 4;

    for (int i = 0; i < 256; i++) {
        int j = i / 32;
        int s = j < 4 ? p[j] & 63 : (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
        int m = j < 4 ? p[j + 4] & 63 : p[j + 4] >> 4 | p[j] >> 6 << 4;
        int byte = in[(five ? 48 : 16) + i / 64 * 32 + i % 32];
        int q = i % 64 < 32 ? byte & 15 : byte >> 4;

        q += five && in[16 + i % 32] & 1 << j ? 16 : 0;
        out[i] = d * (float)s * (float)q - min * (float)m;
    }
}

static void read_iq4_xs(const unsigned char *in, float *out)
{
    float d = half_from_f16(half_at(in));
    int high = in[2] | in[3] << 8;

    for (int j = 0; j < 8; j++, out += 32) {
        int s = (in[4 + j / 2] >> (4 * (j % 2)) & 15) |
                ((high >> (2 * j) & 3) << 4);
        int codes[32];

        read_nibbles(in + 8 + 16 * j, codes);
        for (int i = 0; i < 32; i++) {
            out[i] = d * (float)(s - 32) * iq4[codes[i]];
        }
    }
}

static void read_q6_k(const unsigned char *in, float *out)
{
    const unsigned char *low = in, *high = in + 128, *scales = in + 192;
    float d = half_from_f16(half_at(in + 208));

    for (int h = 0; h < 2;
         h++, low += 64, high += 32, scales += 8, out += 128) {
        for (int l = 0; l < 32; l++) {
            const int q[4] = {
                (low[l] & 15) | (high[l] & 3) << 4,
                (low[l + 32] & 15) | (high[l] >> 2 & 3) << 4,
                low[l] >> 4 | (high[l] >> 4 & 3) << 4,
                low[l + 32] >> 4 | (high[l] >> 6 & 3) << 4,
            };

            for (int k = 0; k < 4; k++) {
                out[l + 32 * k] = d * (float)(int8_t)scales[l / 16 + 2 * k] *
                                  (float)(q[k] - 32);
            }
        }
    }
}

void gguf_dequantise(uint32_t type, const void *blocks, uint64_t n, float *out)
{
    struct block_type b = block_of(type);

    for (uint64_t i = 0; i < n / b.values; i++) {
        const unsigned char *in = (const unsigned char *)blocks + i * b.bytes;
        float *to = out + i * b.values;

        switch (type) {
        case WRITE_F32:
            memcpy(to, in, 4);
            break;
        case WRITE_F16:
            *to = half_from_f16(half_at(in));
            break;
        case WRITE_BF16:
            *to = half_from_bf16(half_at(in));
            break;
        case WRITE_Q4_K:
        case WRITE_Q5_K:
            read_k(in, to, type == WRITE_Q5_K);
            break;
        case WRITE_IQ4_XS:
            read_iq4_xs(in, to);
            break;
        case WRITE_Q6_K:
            read_q6_k(in, to);
            break;
        default:
            read_32(type, in, to);
            break;
        }
    }
}
