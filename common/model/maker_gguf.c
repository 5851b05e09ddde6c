/* maker_gguf.c - Tensors of a GGUF file, whose blocks are repacked when they
 * are read. */
#include "common/base/quote.h"
#include "common/model/gguf_repack.h"
#include "common/model/maker.h"

static uint64_t block_bytes(const struct gguf_form *f)
{
    return gguf_type(f->type)->bytes;
}

/* Bytes of a stored row of cols values. */
static uint64_t stored_bytes(const struct gguf_form *f, uint32_t cols)
{
    return cols / gguf_type(f->type)->block * block_bytes(f);
}

bool maker_find_gguf(struct maker *m, struct maker_stored *s,
                     const struct checkpoint_tensor *t,
                     const struct maker_form *f)
{
    const uint64_t all[] = {f->n, f->rows, f->cols};
    const uint64_t *dims = f->n > 0 ? all : all + 1;
    uint32_t rank = f->n > 0 ? 3 : 2;

    if (!gguf_repack_shape(&s->shape, t->form)) {
        MAKER_FAULT(m, ST_UNIMPLEMENTED,
                    "%s: tensor %s is %s, which is not supported; %s are",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text, checkpoint_dtype_name(t),
                    gguf_repack_supported());
        return false;
    }
    if (!maker_is(t, rank, dims)) {
        maker_shape_fault(m, t, rank, dims);
        return false;
    }
    s->n = s->shape.format == WEIGHT_PLAIN    ? 1
           : s->shape.format == WEIGHT_AFFINE ? 3
                                              : 2;
    for (uint32_t i = 0; i < s->n; i++) {
        s->planes[i].source = t;
        s->planes[i].row_bytes = tensor_scale_bytes(&s->shape);
    }
    return true;
}

void maker_put_gguf(struct maker *m, const struct maker_target *t,
                    const struct maker_stored *s, struct maker_rows r,
                    const struct gguf_rows *rows)
{
    const struct checkpoint_tensor *source = s->planes[0].source;
    uint64_t row_bytes = stored_bytes(source->form, s->shape.cols);
    struct slice slice = {
        .source = source,
        .offset = r.from * row_bytes,
        .bytes = r.n * row_bytes,
        .place = t->places[0],
        .repack = {.form = source->form,
                   .shape = s->shape,
                   .from = r.from,
                   .rows = *rows,
                   .places = {t->places[0], t->places[1], t->places[2]}}};

    slice.repack.shape.rows = r.n;
    /* Rows that move leave the range, so these tensors are put whole. */
    if (source->form->order != GGUF_AS_STORED) {
        slice.offset = 0;
        slice.bytes = source->bytes;
    }
    maker_add_slice(m, &slice);
}

/* Elements to float32, as rows of one column: only the convolution, [C, 1, K],
 * has more. */
static void put_elements(struct maker *m, uint64_t place,
                         const struct checkpoint_tensor *t, uint32_t n,
                         const struct gguf_rows *rows)
{
    uint32_t cols =
        t->info->rank == 3 ? (uint32_t)t->info->dims[t->info->rank - 1] : 1;

    maker_add_slice(m,
                    &(struct slice){.source = t,
                                    .bytes = t->bytes,
                                    .place = place,
                                    .repack = {.form = t->form,
                                               .shape = {.rows = n / cols,
                                                         .cols = cols,
                                                         .format = WEIGHT_PLAIN,
                                                         .dtype = DTYPE_F32},
                                               .rows = *rows,
                                               .places = {place}}});
}

void maker_elements_gguf(struct maker *m, const float **out,
                         const struct checkpoint_tensor *t, uint32_t n)
{
    uint64_t place = maker_reserve(m, (uint64_t)n * sizeof **out);

    put_elements(m, place, t, n, &(struct gguf_rows){.to = 0});
    maker_add_anchor(m, &(struct anchor){.place = place, .vector = out});
}

/* ---- experts ---- */

/* Where gate (0) and up (1) go among the 2 * Im rows of an expert. */
static struct gguf_rows rows_of(const struct model_shape *s, uint32_t second)
{
    if (s->gate_up_alternate) {
        return (struct gguf_rows){second, s->expert_dim, 2 * s->expert_dim, 2};
    }
    return (struct gguf_rows){second * s->expert_dim, s->expert_dim,
                              2 * s->expert_dim, 1};
}

/* Newer files have gate and up of an expert in one tensor, one after the
 * other; gpt-oss, whose rows alternate in memory, has them apart. */
static void joined(struct maker *m, struct tensor *out)
{
    const struct model_shape *shape = &m->config->shape;
    const struct maker_form form = {shape->n_experts, 2 * shape->expert_dim,
                                    shape->hidden};
    const struct checkpoint_tensor *t =
        maker_find_in_layer(m, "mlp.switch_mlp.gate_up_proj.weight");
    struct maker_target to;
    struct maker_stored s;

    if (t != NULL && shape->gate_up_alternate) {
        MAKER_FAULT(m, ST_UNIMPLEMENTED,
                    "%s: tensor %s joins gate and up, which is not supported "
                    "in gpt-oss",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text);
    } else if (maker_find_stored(m, &s, t, &form)) {
        maker_begin(m, &to, out, &s, s.shape.rows);
        maker_put(m, &to, &s, (struct maker_rows){0, 0, s.shape.rows});
    }
}

static void gate_up(struct maker *m, struct tensor *out)
{
    static const char *const names[] = {"mlp.switch_mlp.gate_proj.weight",
                                        "mlp.switch_mlp.up_proj.weight"};
    const struct model_shape *shape = &m->config->shape;
    const struct maker_form form = {shape->n_experts, shape->expert_dim,
                                    shape->hidden};
    struct maker_target to = {.out = out};
    struct maker_stored s;

    for (uint32_t i = 0; i < 2; i++) {
        const struct checkpoint_tensor *t = maker_find_in_layer(m, names[i]);
        const struct gguf_rows rows = rows_of(shape, i);

        if (!maker_find_stored(m, &s, t, &form)) {
            return;
        }
        if (i == 0) {
            maker_begin(m, &to, out, &s, 2 * s.shape.rows);
        } else if (s.shape.format != out->format ||
                   s.shape.dtype != out->dtype) {
            MAKER_FAULT(m, ST_UNIMPLEMENTED,
                        "%s: tensor %s is %s, and the gate of its experts is "
                        "not; this is not supported",
                        quote(m->checkpoint->files[t->file].name).text,
                        quote(t->info->name).text, checkpoint_dtype_name(t));
        }
        maker_put_gguf(m, &to, &s, (struct maker_rows){0, 0, s.shape.rows},
                       &rows);
    }
}

static void gate_up_bias(struct maker *m, const float **out)
{
    static const char *const names[] = {"mlp.switch_mlp.gate_proj.bias",
                                        "mlp.switch_mlp.up_proj.bias"};
    const struct model_shape *shape = &m->config->shape;
    const uint64_t dims[] = {shape->n_experts, shape->expert_dim};
    uint32_t n = shape->n_experts * shape->expert_dim;
    uint64_t place = maker_reserve(m, (uint64_t)2 * n * sizeof **out);
    enum dtype dtype;

    for (uint32_t i = 0; i < 2; i++) {
        const struct checkpoint_tensor *t = maker_find_in_layer(m, names[i]);
        const struct gguf_rows rows = rows_of(shape, i);

        if (t == NULL || !maker_dtype(m, t, &dtype)) {
            return;
        }
        if (!maker_is(t, 2, dims)) {
            maker_shape_fault(m, t, 2, dims);
            return;
        }
        put_elements(m, place, t, n, &rows);
    }
    maker_add_anchor(m, &(struct anchor){.place = place, .vector = out});
}

void maker_experts_gguf(struct maker *m, struct expert_weights *w)
{
    const struct model_shape *shape = &m->config->shape;
    const struct maker_form down = {shape->n_experts, shape->hidden,
                                    shape->expert_dim};
    struct maker_target to;
    struct maker_stored s;

    if (maker_has(m, "mlp.switch_mlp.gate_up_proj.weight")) {
        joined(m, &w->gate_up);
    } else {
        gate_up(m, &w->gate_up);
    }
    if (maker_find_stored(
            m, &s, maker_find_in_layer(m, "mlp.switch_mlp.down_proj.weight"),
            &down)) {
        maker_begin(m, &to, &w->down, &s, s.shape.rows);
        maker_put(m, &to, &s, (struct maker_rows){0, 0, s.shape.rows});
    }
    if (m->config->expert_bias) {
        gate_up_bias(m, &w->gate_up_bias);
    }
}
