#include "tests/unit/common/model/gguf_writer.h"

#include <math.h>
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
        {WRITE_F32, 1, 4},      {WRITE_F16, 1, 2},      {WRITE_BF16, 1, 2},
        {WRITE_Q4_0, 32, 18},   {WRITE_Q8_0, 32, 34},   {WRITE_MXFP4, 32, 17},
        {WRITE_Q4_K, 256, 144}, {WRITE_Q6_K, 256, 210},
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

static void make_q4_k(const float *v, unsigned char *out)
{
    float scale[8], min[8], d, dmin;
    int s[8], m[8];

    for (int j = 0; j < 8; j++) {
        float low = 0, high = 0;

        for (int i = 0; i < 32; i++) {
            low = fminf(low, v[32 * j + i]);
            high = fmaxf(high, v[32 * j + i]);
        }
        scale[j] = (high - low) / 15;
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
    for (int i = 0; i < 256; i++) {
        float step = d * (float)s[i / 32], low = dmin * (float)m[i / 32];
        int q = step > 0 ? clamped((v[i] + low) / step, 0, 15) : 0;
        unsigned char *at = out + 16 + i / 64 * 32 + i % 32;

        *at = (unsigned char)(i % 64 < 32 ? q : *at | q << 4);
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
    case WRITE_Q4_K:
        make_q4_k(v, out);
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

static void read_32(uint32_t type, const unsigned char *in, float *out)
{
    float d = half_from_f16(half_at(in));
    int codes[32];

    read_nibbles(in + (type == WRITE_MXFP4 ? 1 : 2), codes);
    for (int i = 0; i < 32; i++) {
        switch (type) {
        case WRITE_Q8_0:
            out[i] = d * (float)(int8_t)in[2 + i];
            break;
        case WRITE_Q4_0:
            out[i] = d * (float)(codes[i] - 8);
            break;
        default:
            out[i] = ldexpf(e2m1[codes[i] & 7], in[0] - 127);
            out[i] = codes[i] & 8 ? -out[i] : out[i];
            break;
        }
    }
}

static void read_q4_k(const unsigned char *in, float *out)
{
    float d = half_from_f16(half_at(in)), min = half_from_f16(half_at(in + 2));
    const unsigned char *p = in + 4;

    for (int i = 0; i < 256; i++) {
        int j = i / 32;
        int s = j < 4 ? p[j] & 63 : (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
        int m = j < 4 ? p[j + 4] & 63 : p[j + 4] >> 4 | p[j] >> 6 << 4;
        int byte = in[16 + i / 64 * 32 + i % 32];
        int q = i % 64 < 32 ? byte & 15 : byte >> 4;

        out[i] = d * (float)s * (float)q - min * (float)m;
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
            read_q4_k(in, to);
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
