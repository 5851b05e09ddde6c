/* maker_matrix.c - A matrix in each form that checkpoints have. */
#include <stdio.h>

#include "common/base/quote.h"
#include "common/model/maker.h"
#include "common/model/weight_format.h"

/* Writes the dimensions of a plane of f with other columns.  Returns their
 * number. */
static uint32_t dims_of(uint64_t dims[3], const struct maker_form *f,
                        uint64_t rows, uint64_t cols)
{
    uint32_t n = 0;

    if (f->n > 0) {
        dims[n++] = f->n;
    }
    dims[n++] = rows;
    dims[n++] = cols;
    return n;
}

static bool is_plane(const struct checkpoint_tensor *t,
                     const struct maker_form *f, uint64_t rows, uint64_t cols)
{
    uint64_t dims[3];
    uint32_t n = dims_of(dims, f, rows, cols);

    return maker_is(t, n, dims);
}

/* Returns the last dimension, or 0. */
static uint64_t width(const struct checkpoint_tensor *t)
{
    return t->info->rank > 0 ? t->info->dims[t->info->rank - 1] : 0;
}

static void add_plane(struct maker *m, struct maker_stored *s,
                      const struct checkpoint_tensor *t)
{
    s->planes[s->n].row_bytes = tensor_scale_bytes(&s->shape);
    s->planes[s->n++].source = t;
    maker_use(m, t);
}

/* ---- affine ---- */

/* Returns the bits of a value if a row of cols values fills that many words,
 * else 0. */
static uint32_t bits_of(uint64_t words, uint32_t cols)
{
    return words * 8 == cols ? 4 : words * 4 == cols ? 8 : 0;
}

/* A checkpoint may mix groups, so the configuration does not decide. */
static uint32_t group_of(uint64_t groups, uint32_t cols)
{
    for (uint32_t g = MODEL_GROUP_MIN; g <= MODEL_GROUP_MAX; g *= 2) {
        if (groups * g == cols) {
            return g;
        }
    }
    return 0;
}

/* One message for every fault of the three planes: any of them may be the
 * wrong one. */
static void affine_fault(struct maker *m, const struct checkpoint_tensor *t,
                         const struct maker_form *f)
{
    MAKER_FAULT(
        m, ST_INVALID_ARGUMENT,
        "%s: tensor %s, its scales and its biases are no [%u, %u] matrix: "
        "U32 of 4 or 8 bits a column is supported, with a scale and a bias "
        "of one dtype for each 32, 64 or 128 columns",
        quote(m->checkpoint->files[t->file].name).text,
        quote(t->info->name).text, f->rows, f->cols);
}

/* Reads the three planes of an affine matrix; their shapes give bits and
 * group. */
static bool find_affine(struct maker *m, struct maker_stored *s,
                        const struct checkpoint_tensor *scales,
                        const struct maker_form *f)
{
    const struct checkpoint_tensor *words = s->planes[0].source;
    const struct checkpoint_tensor *biases =
        maker_beside(m, words, ".weight", ".biases");
    struct tensor *t = &s->shape;

    if (biases == NULL) {
        MAKER_FAULT(m, ST_NOT_FOUND, "tensor %s has scales and no biases",
                    quote(words->info->name).text);
        return false;
    }
    if (!maker_dtype(m, scales, &t->dtype)) {
        return false;
    }
    t->format = WEIGHT_AFFINE;
    t->bits = bits_of(width(words), t->cols);
    t->group = group_of(width(scales), t->cols);
    if (words->info->dtype != SAFETENSORS_U32 || t->bits == 0 ||
        t->group == 0 || !is_plane(words, f, f->rows, width(words)) ||
        !is_plane(scales, f, f->rows, t->cols / t->group) ||
        !is_plane(biases, f, f->rows, t->cols / t->group) ||
        biases->info->dtype != scales->info->dtype) {
        affine_fault(m, words, f);
        return false;
    }
    add_plane(m, s, scales);
    add_plane(m, s, biases);
    return true;
}

/* ---- fp8 ---- */

static uint64_t blocks(uint32_t n)
{
    return ((uint64_t)n + WEIGHT_FP8_BLOCK - 1) / WEIGHT_FP8_BLOCK;
}

/* Reads the scales of blocks to the scratch, in float32; rows get theirs from
 * there. */
static bool add_blocks(struct maker *m, struct maker_stored *s,
                       const struct checkpoint_tensor *t,
                       const struct maker_form *f)
{
    uint64_t n = blocks(f->rows) * blocks(f->cols) * (f->n > 0 ? f->n : 1);
    struct slice slice = {.source = t, .scratch = true, .widen = true};

    if (!is_plane(t, f, blocks(f->rows), blocks(f->cols))) {
        uint64_t dims[3];
        uint32_t rank = dims_of(dims, f, blocks(f->rows), blocks(f->cols));

        maker_shape_fault(m, t, rank, dims);
        return false;
    }
    if (t->info->dtype != SAFETENSORS_F32 &&
        t->info->dtype != SAFETENSORS_BF16) {
        MAKER_FAULT(m, ST_INVALID_ARGUMENT,
                    "%s: scales %s are %s; F32 and BF16 are supported",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text,
                    safetensors_dtype_name(t->info->dtype));
        return false;
    }
    slice.dtype = t->info->dtype == SAFETENSORS_F32 ? DTYPE_F32 : DTYPE_BF16;
    slice.bytes = n * dtype_bytes(slice.dtype);
    slice.place = s->blocks = maker_reserve_scratch(m, n * sizeof(float));
    add_plane(m, s, t);
    maker_add_slice(m, &slice);
    return true;
}

static bool find_fp8(struct maker *m, struct maker_stored *s,
                     const struct maker_form *f)
{
    const struct checkpoint_tensor *codes = s->planes[0].source;
    const struct checkpoint_tensor *scales =
        maker_beside(m, codes, "", "_scale_inv");
    uint64_t dims[3];
    uint32_t rank = dims_of(dims, f, f->rows, f->cols);

    if (scales == NULL) {
        MAKER_FAULT(m, ST_NOT_FOUND,
                    "%s: tensor %s is F8_E4M3 and has no %s_scale_inv, the "
                    "scales of its blocks of 128 x 128",
                    quote(m->checkpoint->files[codes->file].name).text,
                    quote(codes->info->name).text, codes->key);
        return false;
    }
    if (!maker_is(codes, rank, dims)) {
        maker_shape_fault(m, codes, rank, dims);
        return false;
    }
    s->shape.format = WEIGHT_FP8;
    s->shape.bits = weight_format_bits(WEIGHT_FP8);
    s->shape.group = weight_format_group(WEIGHT_FP8);
    s->checks[0] = SLICE_E4M3;
    return add_blocks(m, s, scales, f);
}

/* ---- mxfp4 ---- */

static bool is_bytes(struct maker *m, const struct checkpoint_tensor *t,
                     uint32_t rank, const uint64_t *dims)
{
    if (t->info->dtype != SAFETENSORS_U8) {
        MAKER_FAULT(m, ST_INVALID_ARGUMENT, "%s: tensor %s is %s, not U8",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text,
                    safetensors_dtype_name(t->info->dtype));
        return false;
    }
    if (!maker_is(t, rank, dims)) {
        maker_shape_fault(m, t, rank, dims);
        return false;
    }
    return true;
}

bool maker_find_mxfp4(struct maker *m, struct maker_stored *s,
                      const struct checkpoint_tensor *t,
                      const struct maker_form *f)
{
    const uint64_t dims[] = {f->n, f->rows, f->cols / 32, 16};
    const struct checkpoint_tensor *scales;

    *s = (struct maker_stored){
        .n = 1, .each = f->rows, .checks = {SLICE_ANY, SLICE_E8M0}};
    s->shape = (struct tensor){.format = WEIGHT_MXFP4,
                               .rows = f->n * f->rows,
                               .cols = f->cols,
                               .bits = weight_format_bits(WEIGHT_MXFP4),
                               .group = weight_format_group(WEIGHT_MXFP4)};
    if (t == NULL) {
        return false;
    }
    scales = maker_beside(m, t, "_blocks", "_scales");
    if (scales == NULL) {
        MAKER_FAULT(m, ST_NOT_FOUND, "tensor %s has no scales beside it",
                    quote(t->info->name).text);
        return false;
    }
    if (m->config->quant.format != WEIGHT_MXFP4 || f->cols % 32 != 0) {
        MAKER_FAULT(m, ST_INVALID_ARGUMENT, "%s: tensor %s is MXFP4, and %s",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text,
                    f->cols % 32 != 0
                        ? "the configuration's rows are no multiples of 32"
                        : "config.json has no quantization_config of mxfp4");
        return false;
    }
    if (!is_bytes(m, t, 4, dims) || !is_bytes(m, scales, 3, dims)) {
        return false;
    }
    s->planes[0].source = t;
    s->planes[0].row_bytes = tensor_row_bytes(&s->shape);
    add_plane(m, s, scales);
    return true;
}

/* ---- all forms ---- */

static bool find_plain(struct maker *m, struct maker_stored *s,
                       const struct maker_form *f)
{
    const struct checkpoint_tensor *t = s->planes[0].source;
    uint64_t dims[3];
    uint32_t rank = dims_of(dims, f, f->rows, f->cols);

    if (!maker_dtype(m, t, &s->shape.dtype)) {
        return false;
    }
    if (!maker_is(t, rank, dims)) {
        maker_shape_fault(m, t, rank, dims);
        return false;
    }
    return true;
}

/* Without a quantisation in the configuration, scales are unknown tensors. */
bool maker_find_stored(struct maker *m, struct maker_stored *s,
                       const struct checkpoint_tensor *t,
                       const struct maker_form *f)
{
    const struct quantisation *q = &m->config->quant;
    const struct checkpoint_tensor *scales = NULL;
    uint32_t n = f->n > 0 ? f->n : 1;
    bool found;

    *s = (struct maker_stored){.n = 1,
                               .each = f->rows,
                               .shape = {.rows = n * f->rows, .cols = f->cols}};
    if (t == NULL || m->status != ST_OK) {
        return false;
    }
    s->planes[0].source = t;
    if (q->format == WEIGHT_AFFINE && q->bits > 0) {
        scales = maker_beside(m, t, ".weight", ".scales");
    }
    if (t->form != NULL) {
        found = maker_find_gguf(m, s, t, f);
    } else if (scales != NULL) {
        found = find_affine(m, s, scales, f);
    } else if (t->info->dtype == SAFETENSORS_F8_E4M3 &&
               q->format == WEIGHT_FP8) {
        found = find_fp8(m, s, f);
    } else {
        found = find_plain(m, s, f);
    }
    s->planes[0].row_bytes = tensor_row_bytes(&s->shape);
    return found;
}

/* Returns the pointer to plane i of a matrix. */
static const void **plane_of(struct tensor *t, uint32_t i)
{
    return i == 0 ? &t->data : i == 1 ? &t->scales : &t->biases;
}

void maker_begin(struct maker *m, struct maker_target *t, struct tensor *out,
                 const struct maker_stored *s, uint32_t rows)
{
    *out = s->shape;
    out->rows = rows;
    *t = (struct maker_target){.out = out};
    for (uint32_t i = 0; i < s->n; i++) {
        t->places[i] = maker_reserve(m, rows * s->planes[i].row_bytes);
        maker_add_anchor(m, &(struct anchor){.place = t->places[i],
                                             .matrix = plane_of(out, i)});
    }
}

/* Blocks begin anew with each matrix of a tensor. */
static void put_blocks(struct maker *m, uint64_t place,
                       const struct maker_stored *s, struct maker_rows r)
{
    uint64_t bytes = tensor_scale_bytes(&s->shape);

    while (r.n > 0) {
        uint32_t at = r.from % s->each;
        uint32_t n = s->each - at < r.n ? s->each - at : r.n;

        maker_add_spread(
            m, &(struct spread){.from = s->blocks + r.from / s->each *
                                                        blocks(s->each) * bytes,
                                .to = place + r.to * bytes,
                                .row_bytes = bytes,
                                .rows = n,
                                .first = at});
        r = (struct maker_rows){r.from + n, r.to + n, r.n - n};
    }
}

void maker_put_plane(struct maker *m, const struct maker_target *t,
                     const struct maker_stored *s, uint32_t plane,
                     struct maker_rows r)
{
    uint64_t bytes = s->planes[plane].row_bytes;

    if (s->planes[0].source->form != NULL) {
        if (plane == 0) { /* its blocks have the other planes, too */
            maker_put_gguf(m, t, s, r, &(struct gguf_rows){.to = r.to});
        }
        return;
    }
    if (plane == 1 && s->shape.format == WEIGHT_FP8) {
        put_blocks(m, t->places[plane], s, r);
        return;
    }
    maker_add_slice(m,
                    &(struct slice){.source = s->planes[plane].source,
                                    .check = s->checks[plane],
                                    .offset = r.from * bytes,
                                    .bytes = r.n * bytes,
                                    .place = t->places[plane] + r.to * bytes});
}

void maker_put(struct maker *m, const struct maker_target *t,
               const struct maker_stored *s, struct maker_rows r)
{
    for (uint32_t i = 0; i < s->n; i++) {
        maker_put_plane(m, t, s, i, r);
    }
}

void maker_whole(struct maker *m, struct tensor *out,
                 const struct checkpoint_tensor *t, uint32_t rows,
                 uint32_t cols)
{
    struct maker_stored s;
    struct maker_target to;

    if (maker_find_stored(m, &s, t,
                          &(struct maker_form){.rows = rows, .cols = cols})) {
        maker_begin(m, &to, out, &s, rows);
        maker_put(m, &to, &s, (struct maker_rows){0, 0, rows});
    }
}

void maker_matrix(struct maker *m, struct tensor *out, const char *name,
                  uint32_t rows, uint32_t cols)
{
    char full[MAKER_KEY_MAX];

    snprintf(full, sizeof full, "%s.weight", name);
    maker_whole(m, out, maker_find_in_layer(m, full), rows, cols);
}

void maker_parts(struct maker *m, const struct maker_part *parts, uint32_t n,
                 const char *name, uint32_t cols)
{
    struct maker_form f = {.cols = cols};
    struct maker_target to[MAKER_PARTS];
    struct maker_stored s;
    char full[MAKER_KEY_MAX];

    for (uint32_t i = 0; i < n; i++) {
        f.rows += parts[i].rows;
    }
    snprintf(full, sizeof full, "%s.weight", name);
    if (!maker_find_stored(m, &s, maker_find_in_layer(m, full), &f)) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        maker_begin(m, &to[i], parts[i].out, &s, parts[i].rows);
    }
    /* Slices of a tensor follow each other, so plane by plane. */
    for (uint32_t plane = 0; plane < s.n; plane++) {
        for (uint32_t i = 0, at = 0; i < n; at += parts[i++].rows) {
            maker_put_plane(m, &to[i], &s, plane,
                            (struct maker_rows){at, 0, parts[i].rows});
        }
    }
}
