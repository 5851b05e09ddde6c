#include "client/ctl/quantise_data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/model/document.h"
#include "common/model/half.h"
#include "common/model/quantise.h"
#include "common/model/weight_format.h"

#define STEP 1048576 /* bytes of a tensor copied at a time */

/* Buffers: one row as stored, as float32 and in the new form; the scales of
 * the part's blocks; and the scales and biases of all rows, because the file
 * has them after the words. */
struct buffers {
    char *stored;
    float *wide;
    uint8_t *made;
    float *blocks;
    char *scales, *biases;
};

enum status quantise_data_cannot_write(struct error *e)
{
    return error_set(e, ST_UNAVAILABLE, "cannot write: %s", strerror(errno));
}

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

struct tensor quantise_data_shape(const struct quantise_reader *r,
                                  const struct quantise_tensor *t)
{
    struct tensor s = {.dtype = t->dtype,
                       .cols = (uint32_t)t->dims[t->rank - 1]};

    for (uint32_t i = 0; i < t->n_parts; i++) {
        s.rows += t->parts[i].rows;
    }
    if (t->form == QUANTISE_AFFINE) {
        s.format = WEIGHT_AFFINE;
        s.bits = r->bits;
        s.group = r->group;
    }
    return s;
}

static enum status copy(const struct quantise_reader *r,
                        const struct quantise_tensor *t, FILE *to)
{
    uint64_t from = r->files->files[t->file].header.data + t->info->begin;
    uint64_t bytes = t->info->end - t->info->begin;
    char *part = malloc(STEP);
    enum status st = part == NULL ? no_memory(r->error) : ST_OK;

    for (uint64_t at = 0; at < bytes && st == ST_OK; at += STEP) {
        size_t n = bytes - at < STEP ? (size_t)(bytes - at) : STEP;

        st = document_pread(r->fds[t->file], part, n, from + at, r->error);
        if (st == ST_OK && fwrite(part, 1, n, to) != n) {
            st = quantise_data_cannot_write(r->error);
        }
        r->read(r->ctx, n);
    }
    free(part);
    return st;
}

/* ---- reading a part ---- */

static uint64_t blocks(uint64_t n)
{
    return (n + WEIGHT_FP8_BLOCK - 1) / WEIGHT_FP8_BLOCK;
}

/* Returns the form of a stored row. */
static struct tensor row_of(const struct quantise_part *p, uint32_t cols)
{
    enum safetensors_dtype d = p->source->info->dtype;
    struct tensor t = {.rows = 1, .cols = cols};

    if (p->scales != NULL) {
        t.format = WEIGHT_FP8;
        t.bits = weight_format_bits(WEIGHT_FP8);
        t.group = weight_format_group(WEIGHT_FP8);
    } else {
        t.dtype = d == SAFETENSORS_F32    ? DTYPE_F32
                  : d == SAFETENSORS_BF16 ? DTYPE_BF16
                                          : DTYPE_F16;
    }
    return t;
}

/* Reads the scales of all blocks of a part's tensor as float32. */
static enum status read_blocks(const struct quantise_reader *r,
                               const struct quantise_part *p, float **out)
{
    const struct checkpoint_tensor *t = p->scales;
    bool wide = t->info->dtype == SAFETENSORS_F32;
    uint64_t n = t->bytes / (wide ? sizeof(float) : sizeof(uint16_t));
    char *stored = malloc((size_t)t->bytes + 1);
    enum status st;

    *out = malloc((size_t)n * sizeof **out + 1);
    if (stored == NULL || *out == NULL) {
        free(stored);
        return no_memory(r->error);
    }
    st = document_pread(r->fds[t->file], stored, (size_t)t->bytes, t->offset,
                        r->error);
    for (uint64_t i = 0; i < n && st == ST_OK; i++) {
        uint16_t half;

        if (wide) {
            memcpy(&(*out)[i], stored + i * sizeof **out, sizeof **out);
        } else {
            memcpy(&half, stored + i * sizeof half, sizeof half);
            (*out)[i] = half_from_bf16(half);
        }
    }
    free(stored);
    return st;
}

/* Returns the scales of a row; blocks begin anew in each matrix of a tensor. */
static const float *scales_of(const struct quantise_part *p,
                              const struct buffers *b, uint64_t row,
                              uint32_t cols)
{
    const struct safetensors_tensor *info = p->source->info;
    uint64_t each = info->dims[info->rank - 2];
    uint64_t block = row / each * blocks(each) + row % each / WEIGHT_FP8_BLOCK;

    return b->blocks + block * blocks(cols);
}

/* ---- writing a row ---- */

static void store(uint8_t *to, const float *row, const struct tensor *s)
{
    for (uint32_t i = 0; i < s->cols; i++) {
        uint16_t half =
            s->dtype == DTYPE_BF16 ? half_to_bf16(row[i]) : half_to_f16(row[i]);

        if (s->dtype == DTYPE_F32) {
            memcpy(to + i * sizeof *row, &row[i], sizeof *row);
        } else {
            memcpy(to + i * sizeof half, &half, sizeof half);
        }
    }
}

/* Puts a decoded row into b->made, and its scales to place `row`.  Returns
 * false if a value is not finite. */
static bool make_row(struct buffers *b, const struct tensor *s, uint64_t row)
{
    const struct quantised_groups out = {
        .data = b->made,
        .scales = b->scales + row * tensor_scale_bytes(s),
        .biases = b->biases + row * tensor_scale_bytes(s),
        .dtype = s->dtype,
        .bits = s->bits,
        .group = s->group};

    if (s->format == WEIGHT_AFFINE) {
        return quantise(&out, b->wide, s->cols);
    }
    store(b->made, b->wide, s);
    return quantise_all_finite(b->wide, s->cols);
}

/* Writes the rows of a part, which are rows [at, ..) of the tensor. */
static enum status write_part(const struct quantise_reader *r,
                              const struct quantise_part *p, struct buffers *b,
                              const struct tensor *s, uint64_t at, FILE *to)
{
    struct tensor row = row_of(p, s->cols);
    const size_t stored = (size_t)tensor_row_bytes(&row);
    const size_t made = (size_t)tensor_row_bytes(s);
    enum status st = ST_OK;

    row.data = b->stored;
    for (uint32_t i = 0; i < p->rows && st == ST_OK; i++) {
        st = document_pread(r->fds[p->source->file], b->stored, stored,
                            p->source->offset + (p->first + i) * stored,
                            r->error);
        if (st != ST_OK) {
            break;
        }
        if (p->scales != NULL) {
            row.scales = scales_of(p, b, p->first + i, s->cols);
        }
        weight_format_decode(b->wide, &row, 0, 0, s->cols);
        if (!make_row(b, s, at + i)) {
            st = error_set(r->error, ST_INVALID_ARGUMENT,
                           "row %llu of %s has a value that is not finite",
                           (unsigned long long)(p->first + i),
                           quote(p->source->info->name).text);
        } else if (fwrite(b->made, 1, made, to) != made) {
            st = quantise_data_cannot_write(r->error);
        }
        r->read(r->ctx, stored);
    }
    return st;
}

/* ---- a tensor ---- */

static bool make_buffers(struct buffers *b, const struct tensor *s)
{
    size_t row = (size_t)s->cols * sizeof(float);
    size_t scales = (size_t)(s->rows * tensor_scale_bytes(s)) + 1;

    *b = (struct buffers){.stored = malloc(row),
                          .wide = malloc(row),
                          .made = malloc(row),
                          .scales = malloc(scales),
                          .biases = malloc(scales)};
    return b->stored != NULL && b->wide != NULL && b->made != NULL &&
           b->scales != NULL && b->biases != NULL;
}

static void free_buffers(struct buffers *b)
{
    free(b->stored);
    free(b->wide);
    free(b->made);
    free(b->blocks);
    free(b->scales);
    free(b->biases);
}

/* Scales are read once for all parts of a tensor. */
static enum status write_parts(const struct quantise_reader *r,
                               const struct quantise_tensor *t,
                               struct buffers *b, const struct tensor *s,
                               FILE *to)
{
    const struct checkpoint_tensor *have = NULL;
    enum status st = ST_OK;
    uint64_t at = 0;

    for (uint32_t i = 0; i < t->n_parts && st == ST_OK; i++) {
        const struct quantise_part *p = &t->parts[i];

        if (p->scales != NULL && p->scales != have) {
            free(b->blocks);
            st = read_blocks(r, p, &b->blocks);
            have = p->scales;
        }
        if (st == ST_OK) {
            st = write_part(r, p, b, s, at, to);
        }
        at += p->rows;
    }
    return st;
}

enum status quantise_data_write(const struct quantise_reader *r,
                                const struct quantise_tensor *t, FILE *to)
{
    struct tensor s;
    size_t scales;
    struct buffers b;
    enum status st;

    if (t->form == QUANTISE_COPY) {
        return copy(r, t, to);
    }
    s = quantise_data_shape(r, t);
    scales = (size_t)(s.rows * tensor_scale_bytes(&s));
    st = make_buffers(&b, &s) ? ST_OK : no_memory(r->error);
    if (st == ST_OK) {
        st = write_parts(r, t, &b, &s, to);
    }
    if (st == ST_OK && (fwrite(b.scales, 1, scales, to) != scales ||
                        fwrite(b.biases, 1, scales, to) != scales)) {
        st = quantise_data_cannot_write(r->error);
    }
    free_buffers(&b);
    return st;
}
