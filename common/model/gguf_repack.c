#include "common/model/gguf_repack.h"

#include <math.h>
#include <string.h>

#include "common/model/gguf_blocks.h"
#include "common/model/gguf_bytes.h"
#include "common/model/half.h"
#include "common/model/weight_format.h"

#define NO_ROW UINT32_MAX

const char *gguf_repack_supported(void)
{
    return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, "
           "IQ4_NL, IQ4_XS and MXFP4";
}

/* The format of each type. */
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
    return t->bits == 0 || cuts(f, GGUF_SUB_BLOCK) ? WEIGHT_PLAIN
                                                   : WEIGHT_AFFINE;
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
        t->group = GGUF_SUB_BLOCK;
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
static void put_block(const struct sink *k, const struct gguf_block *b,
                      uint32_t row, uint32_t col)
{
    const struct tensor *t = &k->r->shape;
    uint8_t *scales = plane_at(k, 1, row);

    gguf_block_pack(plane_at(k, 0, row) + (uint64_t)col * t->bits / 8, b->codes,
                    b->n, t->bits);
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
static void put_affine(const struct sink *k, const struct gguf_block *b,
                       uint32_t row, uint32_t col)
{
    const struct tensor *t = &k->r->shape;

    for (uint32_t s = 0; s < b->n / GGUF_SUB_BLOCK; s++) {
        uint32_t to = col_of(k->r->form, col + s * GGUF_SUB_BLOCK);

        gguf_block_pack(plane_at(k, 0, row) + (uint64_t)to * t->bits / 8,
                        b->codes + (size_t)s * GGUF_SUB_BLOCK, GGUF_SUB_BLOCK,
                        t->bits);
        put_scale(plane_at(k, 1, row), to / GGUF_SUB_BLOCK, b->scales[s],
                  t->dtype);
        put_scale(plane_at(k, 2, row), to / GGUF_SUB_BLOCK, b->biases[s],
                  t->dtype);
    }
}

static void put_values(const struct sink *k, const struct gguf_block *b,
                       uint32_t row, uint32_t col)
{
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t to = col_of(k->r->form, col + i);
        float v = gguf_block_value(b, k->r->form->type, i);

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
        f = r->form->type == GGUF_BF16
                ? half_from_bf16((uint16_t)gguf_little(p, 2))
                : half_from_f16((uint16_t)gguf_little(p, 2));
    }
    f = r->form->minus_log ? minus_log(f) : f;
    memcpy(plane_at(k, 0, row) + col * size, &f, sizeof f);
}

static void put_whole(const struct sink *k, struct gguf_block *b,
                      const uint8_t *p, uint32_t row, uint32_t col)
{
    const struct gguf_form *f = k->r->form;

    gguf_block_take(b, f->type, p);
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
    struct gguf_block b = {.n = type->block};
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
