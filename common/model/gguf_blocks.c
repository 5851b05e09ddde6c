#include "common/model/gguf_blocks.h"

#include <math.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/model/half.h"
#include "common/model/weight_format.h"

static float half_at(const uint8_t *p)
{
    return half_from_f16(get_u16(p));
}

/* Values i and i + 16 share a byte. */
static void nibbles(uint8_t *codes, const uint8_t *p)
{
    for (uint32_t i = 0; i < 16; i++) {
        codes[i] = p[i] & 15;
        codes[i + 16] = p[i] >> 4;
    }
}

/* Adds bit i of 32 as the fifth bit of code i. */
static void fifth_bits(uint8_t *codes, const uint8_t *p)
{
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] |= (uint8_t)((p[i / 8] >> (i % 8) & 1) << 4);
    }
}

/* Codes of Q8_0 for those of IQ4_NL: a table of ggml, and 128. */
static const uint8_t iq4_codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                      129, 141, 153, 166, 181, 197, 217, 241};

static void take_iq4(uint8_t *codes, const uint8_t *p)
{
    nibbles(codes, p);
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = iq4_codes[codes[i]];
    }
}

/* Six bits each of 8 scales and 8 minima in 12 bytes. */
static void scales_of_k(struct gguf_block *b, const uint8_t *p)
{
    uint8_t *record = b->record;
    float d = half_at(p), min = half_at(p + 2);

    memcpy(record + 16, p, 4);
    p += 4;
    for (uint32_t j = 0; j < 4; j++) {
        record[2 * j] = p[j] & 63;
        record[2 * j + 1] = p[j + 4] & 63;
        record[2 * j + 8] = (uint8_t)((p[j + 8] & 15) | p[j] >> 6 << 4);
        record[2 * j + 9] = (uint8_t)(p[j + 8] >> 4 | p[j + 4] >> 6 << 4);
    }
    for (uint32_t j = 0; j < 8; j++) { /* both products are exact */
        b->scales[j] = d * (float)record[2 * j];
        b->biases[j] = -(min * (float)record[2 * j + 1]);
    }
}

/* Parts of 64 columns: 32 bytes, lower halves first. */
static void nibbles_of_k(uint8_t *codes, const uint8_t *p)
{
    for (uint8_t *to = codes; to < codes + GGUF_BLOCK_MAX; to += 64, p += 32) {
        for (int l = 0; l < 32; l++) {
            to[l] = p[l] & 15;
            to[l + 32] = p[l] >> 4;
        }
    }
}

/* Bit j of byte l belongs to column l of sub-block j. */
static void take_q5_k(struct gguf_block *b, const uint8_t *p)
{
    const uint8_t *high = p + 16;

    scales_of_k(b, p);
    nibbles_of_k(b->codes, p + 48);
    for (uint32_t j = 0; j < 8; j++) {
        for (uint32_t l = 0; l < 32; l++) {
            b->codes[32 * j + l] |= (uint8_t)((high[l] >> j & 1) << 4);
        }
    }
}

/* Six bits of a scale: four in p[4..8), two in p[2..4). */
static void take_iq4_xs(struct gguf_block *b, const uint8_t *p)
{
    uint32_t high = get_u16(p + 2);

    for (uint32_t j = 0; j < 8; j++) {
        int s = (p[4 + j / 2] >> (j % 2 * 4) & 15) | (int)(high >> (2 * j) & 3)
                                                         << 4;

        b->scales[j] = half_at(p) * (float)(s - 32);
        b->biases[j] = -128 * b->scales[j];
        take_iq4(b->codes + (size_t)32 * j, p + 8 + (size_t)16 * j);
    }
}

/* Halves of 128 columns: 64 bytes of lower bits, 32 of upper ones. */
static void take_q6_k(struct gguf_block *b, const uint8_t *p)
{
    const uint8_t *low = p, *high = p + 128;

    memcpy(b->record, p + 192, 18);
    for (uint8_t *to = b->codes; to < b->codes + GGUF_BLOCK_MAX; to += 128) {
        for (int l = 0; l < 32; l++) {
            to[l] = (uint8_t)((low[l] & 15) | (high[l] & 3) << 4);
            to[l + 32] = (uint8_t)((low[l + 32] & 15) | (high[l] & 12) << 2);
            to[l + 64] = (uint8_t)(low[l] >> 4 | (high[l] & 48));
            to[l + 96] = (uint8_t)(low[l + 32] >> 4 | (high[l] & 192) >> 2);
        }
        low += 64;
        high += 32;
    }
}

static void take_q8_0(struct gguf_block *b, const uint8_t *p)
{
    for (uint32_t i = 0; i < 32; i++) {
        b->codes[i] = (uint8_t)(p[2 + i] ^ 0x80); /* q + 128 */
    }
}

/* q - 16 + 128 */
static void take_q5_0(struct gguf_block *b, const uint8_t *p)
{
    nibbles(b->codes, p + 6);
    fifth_bits(b->codes, p + 2);
    for (uint32_t i = 0; i < 32; i++) {
        b->codes[i] = (uint8_t)(b->codes[i] + 112);
    }
}

void gguf_block_take(struct gguf_block *b, enum gguf_tensor_type type,
                     const uint8_t *p)
{
    b->scale = p;
    switch (type) {
    case GGUF_Q8_0:
        take_q8_0(b, p);
        break;
    case GGUF_Q4_0:
        nibbles(b->codes, p + 2);
        break;
    case GGUF_Q5_0:
        take_q5_0(b, p);
        break;
    case GGUF_IQ4_NL:
        take_iq4(b->codes, p + 2);
        break;
    case GGUF_MXFP4:
        nibbles(b->codes, p + 1);
        break;
    case GGUF_Q4_1:
    case GGUF_Q5_1:
        b->scales[0] = half_at(p);
        b->biases[0] = half_at(p + 2);
        nibbles(b->codes, p + (type == GGUF_Q4_1 ? 4 : 8));
        if (type == GGUF_Q5_1) {
            fifth_bits(b->codes, p + 4);
        }
        break;
    case GGUF_Q4_K:
        scales_of_k(b, p);
        nibbles_of_k(b->codes, p + 16);
        break;
    case GGUF_Q5_K:
        take_q5_k(b, p);
        break;
    case GGUF_IQ4_XS:
        take_iq4_xs(b, p);
        break;
    default:
        take_q6_k(b, p);
        break;
    }
}

void gguf_block_pack(uint8_t *to, const uint8_t *codes, uint32_t n,
                     uint32_t bits)
{
    if (bits == 8) {
        memcpy(to, codes, n);
        return;
    }
    for (uint32_t i = 0; bits == 4 && i < n / 2; i++) {
        to[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
    }
    for (uint32_t i = 0; bits == 6 && i < n / 4; i++) {
        const uint8_t *c = codes + (size_t)4 * i;
        uint32_t v = (uint32_t)(c[0] | c[1] << 6 | c[2] << 12 | c[3] << 18);

        to[3 * i] = (uint8_t)v;
        to[3 * i + 1] = (uint8_t)(v >> 8);
        to[3 * i + 2] = (uint8_t)(v >> 16);
    }
}

float gguf_block_value(const struct gguf_block *b, enum gguf_tensor_type type,
                       uint32_t i)
{
    switch (type) {
    case GGUF_Q8_0:
    case GGUF_Q5_0:
    case GGUF_IQ4_NL:
        return half_at(b->scale) * (float)(b->codes[i] - 128);
    case GGUF_Q4_0:
        return half_at(b->scale) * (float)(b->codes[i] - 8);
    case GGUF_MXFP4:
        return weight_format_e8m0(b->scale[0]) *
               weight_format_e2m1(b->codes[i]);
    case GGUF_Q6_K:
        return half_at(b->record + 16) * (float)(int8_t)b->record[i / 16] *
               (float)(b->codes[i] - 32);
    default:
        return fmaf(b->scales[i / GGUF_SUB_BLOCK], (float)b->codes[i],
                    b->biases[i / GGUF_SUB_BLOCK]);
    }
}
