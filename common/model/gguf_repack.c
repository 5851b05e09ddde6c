#include "common/model/gguf_repack.h"

#include <math.h>
#include <string.h>

#include "common/model/half.h"
#include "common/model/weight_format.h"

#define BLOCK_MAX 256 /* columns */
#define SUB_BLOCK 32  /* of Q4_K */
#define NO_ROW    UINT32_MAX

const char *gguf_repack_supported(void)
{
    return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, "
           "IQ4_NL, IQ4_XS and MXFP4";
}

/* What a type becomes. */
static const struct target {
    enum gguf_tensor_type type;
    enum weight_format format;
    enum dtype dtype; /* plain and affine */
    uint32_t bits;    /* affine */
} targets[] = {
    {GGUF_F32, WEIGHT_PLAIN, DTYPE_F32, 0},
    {GGUF_F16, WEIGHT_PLAIN, DTYPE_F16, 0},
    {GGUF_BF16, WEIGHT_PLAIN, DTYPE_BF16, 0},
    {GGUF_Q8_0, WEIGHT_Q8, DTYPE_F32, 0},
    {GGUF_Q4_0, WEIGHT_Q4, DTYPE_F32, 0},
    {GGUF_Q5_0, WEIGHT_Q8, DTYPE_F32, 0},
    {GGUF_IQ4_NL, WEIGHT_Q8, DTYPE_F32, 0},
    {GGUF_MXFP4, WEIGHT_MXFP4, DTYPE_F32, 0},
    {GGUF_Q4_1, WEIGHT_AFFINE, DTYPE_F16, 4},
    {GGUF_Q5_1, WEIGHT_AFFINE, DTYPE_F16, 8},
    {GGUF_Q4_K, WEIGHT_K4, DTYPE_F32, 4},
    {GGUF_Q5_K, WEIGHT_AFFINE, DTYPE_F32, 8},
    {GGUF_IQ4_XS, WEIGHT_AFFINE, DTYPE_F32, 8},
    {GGUF_Q6_K, WEIGHT_K6, DTYPE_F32, 0},
};

static const struct target *target_of(enum gguf_tensor_type type)
{
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        if (targets[i].type == type) {
            return &targets[i];
        }
    }
    return NULL;
}

/* Returns whether heads of columns move that are no multiples of n. */
static bool cuts(const struct gguf_form *f, uint32_t n)
{
    return f->order == GGUF_TILED_COLS && f->dim % n != 0;
}

/* A block whose sub-blocks part stays exact as affine only with scales of
 * sub-blocks of 32, which Q6_K does not have. */
static enum weight_format format_of(const struct target *t,
                                    const struct gguf_form *f)
{
    if (t->format == WEIGHT_PLAIN || !cuts(f, gguf_type(f->type)->block)) {
        return t->format;
    }
    return t->bits == 0 || cuts(f, SUB_BLOCK) ? WEIGHT_PLAIN : WEIGHT_AFFINE;
}

bool gguf_repack_shape(struct tensor *t, const struct gguf_form *form)
{
    const struct target *to = target_of(form->type);

    if (to == NULL) {
        return false;
    }
    t->format = format_of(to, form);
    t->dtype = t->format == to->format || t->format == WEIGHT_AFFINE
                   ? to->dtype
                   : DTYPE_F32;
    t->bits = weight_format_bits(t->format);
    t->group = weight_format_group(t->format);
    if (t->format == WEIGHT_AFFINE) {
        t->bits = to->bits;
        t->group = SUB_BLOCK;
    }
    return true;
}

/* ---- where rows and columns belong ---- */

/* Tiled head t is value head t / Hk of key head t % Hk. */
static uint32_t untiled(const struct gguf_form *f, uint32_t i)
{
    uint32_t t = i / f->dim;

    return (t % f->heads * f->per + t / f->heads) * f->dim + i % f->dim;
}

/* Half of a group's 2 * per rows. */
static uint32_t of_group(const struct gguf_form *f, uint32_t row)
{
    uint32_t i = row % (2 * f->per), first = 0;

    first = f->order == GGUF_GROUPS_SECOND ? f->per : 0;
    return i < first || i >= first + f->per
               ? NO_ROW
               : row / (2 * f->per) * f->per + i - first;
}

static uint32_t row_of(const struct gguf_repack *r, uint32_t row)
{
    const struct gguf_form *f = r->form;
    const struct gguf_rows *to = &r->rows;

    switch (f->order) {
    case GGUF_ROTARY_ROWS: {
        uint32_t i = row % f->dim;

        row = row - i + i % 2 * (f->dim / 2) + i / 2;
        break;
    }
    case GGUF_TILED_ROWS:
        row = row < f->first ? row : f->first + untiled(f, row - f->first);
        break;
    case GGUF_GROUPS_FIRST:
    case GGUF_GROUPS_SECOND:
        row = of_group(f, row);
        break;
    default:
        break;
    }
    if (row == NO_ROW || row - r->from >= r->shape.rows) {
        return NO_ROW;
    }
    row -= r->from;
    return to->run == 0
               ? to->to + row
               : to->to + row / to->run * to->stride + row % to->run * to->step;
}

static uint32_t col_of(const struct gguf_form *f, uint32_t col)
{
    return f->order == GGUF_TILED_COLS ? untiled(f, col) : col;
}

/* ---- blocks ---- */

/* A block taken apart: w = scales q + biases if it becomes affine. */
struct block {
    uint32_t n;               /* columns */
    uint8_t codes[BLOCK_MAX]; /* as weights.h counts them */
    const uint8_t *scale;     /* of blocks with one: f16, or E8M0 */
    uint8_t record[20];       /* of k4 and k6 */
    float scales[BLOCK_MAX / SUB_BLOCK], biases[BLOCK_MAX / SUB_BLOCK];
};

static uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float half_at(const uint8_t *p)
{
    return half_from_f16(u16_at(p));
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
static void scales_of_k(struct block *b, const uint8_t *p)
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
    for (uint8_t *to = codes; to < codes + BLOCK_MAX; to += 64, p += 32) {
        for (int l = 0; l < 32; l++) {
            to[l] = p[l] & 15;
            to[l + 32] = p[l] >> 4;
        }
    }
}

/* Bit j of byte l belongs to column l of sub-block j. */
static void take_q5_k(struct block *b, const uint8_t *p)
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
static void take_iq4_xs(struct block *b, const uint8_t *p)
{
    uint32_t high = u16_at(p + 2);

    for (uint32_t j = 0; j < 8; j++) {
        int s = (p[4 + j / 2] >> (j % 2 * 4) & 15) | (int)(high >> (2 * j) & 3)
                                                         << 4;

        b->scales[j] = half_at(p) * (float)(s - 32);
        b->biases[j] = -128 * b->scales[j];
        take_iq4(b->codes + (size_t)32 * j, p + 8 + (size_t)16 * j);
    }
}

/* Halves of 128 columns: 64 bytes of lower bits, 32 of upper ones. */
static void take_q6_k(struct block *b, const uint8_t *p)
{
    const uint8_t *low = p, *high = p + 128;

    memcpy(b->record, p + 192, 18);
    for (uint8_t *to = b->codes; to < b->codes + BLOCK_MAX; to += 128) {
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

static void take_q8_0(struct block *b, const uint8_t *p)
{
    for (uint32_t i = 0; i < 32; i++) {
        b->codes[i] = (uint8_t)(p[2 + i] ^ 0x80); /* q + 128 */
    }
}

/* q - 16 + 128 */
static void take_q5_0(struct block *b, const uint8_t *p)
{
    nibbles(b->codes, p + 6);
    fifth_bits(b->codes, p + 2);
    for (uint32_t i = 0; i < 32; i++) {
        b->codes[i] = (uint8_t)(b->codes[i] + 112);
    }
}

static void take_block(struct block *b, enum gguf_tensor_type type,
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

/* Packs codes as a bit stream, from a column at a whole byte; n is a multiple
 * of 32. */
static void put_codes(uint8_t *to, const uint8_t *codes, uint32_t n,
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

static float value_of(const struct block *b, enum gguf_tensor_type type,
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
        return fmaf(b->scales[i / SUB_BLOCK], (float)b->codes[i],
                    b->biases[i / SUB_BLOCK]);
    }
}

/* ---- planes ---- */

struct sink {
    const struct gguf_repack *r;
    char *memory;
    uint64_t row_bytes, scale_bytes;
};

static uint8_t *plane_at(const struct sink *k, uint32_t plane, uint32_t row)
{
    uint64_t bytes = plane == 0 ? k->row_bytes : k->scale_bytes;

    return (uint8_t *)k->memory + k->r->places[plane] + row * bytes;
}

/* A block that stays whole. */
static void put_block(const struct sink *k, const struct block *b, uint32_t row,
                      uint32_t col)
{
    const struct tensor *t = &k->r->shape;
    uint8_t *scales = plane_at(k, 1, row);

    put_codes(plane_at(k, 0, row) + (uint64_t)col * t->bits / 8, b->codes, b->n,
              t->bits);
    switch (t->format) {
    case WEIGHT_MXFP4:
        scales[col / 32] = b->scale[0];
        break;
    case WEIGHT_K4:
        memcpy(scales + (size_t)col / 256 * 20, b->record, 20);
        break;
    case WEIGHT_K6:
        memcpy(scales + (size_t)col / 256 * 18, b->record, 18);
        break;
    default:
        memcpy(scales + (size_t)col / 32 * 2, b->scale, 2);
        break;
    }
}

/* Writes element i of a plane of scales or biases. */
static void put_scale(uint8_t *plane, uint32_t i, float v, enum dtype dtype)
{
    uint16_t half = half_to_f16(v); /* exact: it comes from one */

    if (dtype == DTYPE_F32) {
        memcpy(plane + (size_t)i * sizeof v, &v, sizeof v);
    } else {
        memcpy(plane + (size_t)i * sizeof half, &half, sizeof half);
    }
}

/* Sub-blocks, each to its place. */
static void put_affine(const struct sink *k, const struct block *b,
                       uint32_t row, uint32_t col)
{
    const struct tensor *t = &k->r->shape;

    for (uint32_t s = 0; s < b->n / SUB_BLOCK; s++) {
        uint32_t to = col_of(k->r->form, col + s * SUB_BLOCK);

        put_codes(plane_at(k, 0, row) + (uint64_t)to * t->bits / 8,
                  b->codes + (size_t)s * SUB_BLOCK, SUB_BLOCK, t->bits);
        put_scale(plane_at(k, 1, row), to / SUB_BLOCK, b->scales[s], t->dtype);
        put_scale(plane_at(k, 2, row), to / SUB_BLOCK, b->biases[s], t->dtype);
    }
}

static void put_values(const struct sink *k, const struct block *b,
                       uint32_t row, uint32_t col)
{
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t to = col_of(k->r->form, col + i);
        float v = value_of(b, k->r->form->type, i);

        memcpy(plane_at(k, 0, row) + (size_t)to * sizeof v, &v, sizeof v);
    }
}

/* A_log is often a bfloat16, which exp and log would move by a few units in
 * the last place: the nearest bfloat16 counts if it stands for the same
 * number. */
static float minus_log(float v)
{
    float exact = (float)log(-(double)v);
    float near = half_from_bf16(half_to_bf16(exact));

    return fabs(exp((double)near) + (double)v) <= 1e-7 * fabs((double)v)
               ? near
               : exact;
}

/* An element that moves in its row, or changes. */
static void put_plain(const struct sink *k, const uint8_t *p, uint32_t row,
                      uint32_t col)
{
    const struct gguf_repack *r = k->r;
    size_t size = dtype_bytes(r->shape.dtype);
    float f;

    col = col_of(r->form, col);
    if (r->shape.dtype != DTYPE_F32) {
        memcpy(plane_at(k, 0, row) + col * size, p, size);
        return;
    }
    if (r->form->type == GGUF_F32) {
        memcpy(&f, p, sizeof f);
    } else {
        f = r->form->type == GGUF_BF16 ? half_from_bf16(u16_at(p))
                                       : half_from_f16(u16_at(p));
    }
    f = r->form->minus_log ? minus_log(f) : f;
    memcpy(plane_at(k, 0, row) + col * size, &f, sizeof f);
}

static void put_whole(const struct sink *k, struct block *b, const uint8_t *p,
                      uint32_t row, uint32_t col)
{
    const struct gguf_form *f = k->r->form;

    take_block(b, f->type, p);
    if (k->r->shape.format == WEIGHT_PLAIN) {
        put_values(k, b, row, col);
    } else if (k->r->shape.format == WEIGHT_AFFINE) {
        put_affine(k, b, row, col);
    } else {
        put_block(k, b, row, col_of(f, col));
    }
}

/* Blocks of plain elements that stay in their row, one after another. */
static bool is_copy(const struct gguf_repack *r)
{
    const struct gguf_form *f = r->form;

    return gguf_type(f->type)->block == 1 && !f->minus_log &&
           f->order != GGUF_TILED_COLS &&
           dtype_bytes(r->shape.dtype) == gguf_type(f->type)->bytes;
}

/* Puts n blocks of one row, the first of which is block `first` of it. */
static void put_row(const struct sink *k, const uint8_t *p, uint32_t row,
                    uint64_t first, uint64_t n)
{
    const struct gguf_type_shape *type = gguf_type(k->r->form->type);
    struct block b = {.n = type->block};
    uint32_t col = (uint32_t)first * type->block;

    if (is_copy(k->r)) {
        memcpy(plane_at(k, 0, row) + first * type->bytes, p,
               (size_t)(n * type->bytes));
        return;
    }
    for (; n > 0; n--, p += type->bytes, col += type->block) {
        if (type->block == 1) {
            put_plain(k, p, row, col);
        } else {
            put_whole(k, &b, p, row, col);
        }
    }
}

static bool has_nan(const struct gguf_repack *r, const uint8_t *p, uint64_t n)
{
    const uint32_t bytes = gguf_type(GGUF_MXFP4)->bytes;

    for (uint64_t i = 0; r->form->type == GGUF_MXFP4 && i < n; i++) {
        if (p[i * bytes] == 255) {
            return true;
        }
    }
    return false;
}

bool gguf_repack_run(const struct gguf_repack *r, const void *blocks,
                     uint64_t first, uint64_t n, void *memory)
{
    const struct gguf_type_shape *type = gguf_type(r->form->type);
    const uint64_t per_row = r->shape.cols / type->block;
    const struct sink k = {.r = r,
                           .memory = memory,
                           .row_bytes = tensor_row_bytes(&r->shape),
                           .scale_bytes = tensor_scale_bytes(&r->shape)};
    const uint8_t *p = blocks;

    if (has_nan(r, p, n)) {
        return false;
    }
    while (n > 0) {
        uint64_t at = first % per_row;
        uint64_t m = per_row - at < n ? per_row - at : n;
        uint32_t row = row_of(r, r->from + (uint32_t)(first / per_row));

        if (row != NO_ROW) {
            put_row(&k, p, row, at, m);
        }
        first += m;
        n -= m;
        p += m * type->bytes;
    }
    return true;
}
