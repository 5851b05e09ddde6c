#include "kernels/opencl/upload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/weight_format.h"
#include "kernels/isa/isa.h"
#include "kernels/opencl/host/queue.h"
#include "kernels/opencl/noise.h"
#include "kernels/rope.h"

#define PARTS_MAX   4
#define WIDEN_ITEMS 16384 /* values of a matrix, at a time */
#define PAIRS_BYTES 65536 /* bytes of scales and biases, at a time */

/* A matrix fused from the rows of several, one after the other. */
struct fused {
    const struct tensor *part[PARTS_MAX];
    uint32_t n;
};

/* A walk over the weights.  The first walk requests room; the second fills
 * it. */
struct walk {
    struct opencl *c;
    struct opencl_arena *arena;
    bool fill;
    uint64_t seed; /* next seed, for matrices made on the device */
};

/* Returns the dtype of a matrix on the device. */
static enum dtype dtype_of(const struct tensor *t)
{
    return t->format == WEIGHT_PLAIN || t->format == WEIGHT_AFFINE ? t->dtype
                                                                   : DTYPE_BF16;
}

/* Returns whether two parts are stored in the same form. */
static bool are_alike(const struct tensor *a, const struct tensor *b)
{
    return a->format == b->format && dtype_of(a) == dtype_of(b) &&
           a->bits == b->bits && a->group == b->group;
}

static bool is_uniform(const struct fused *f)
{
    bool all = true;

    for (uint32_t i = 1; i < f->n; i++) {
        all = all && are_alike(f->part[0], f->part[i]);
    }
    return all;
}

/* Returns the shape and form of the fused matrix. */
static struct tensor shape_of(const struct fused *f)
{
    struct tensor t = *f->part[0];

    if (!is_uniform(f)) {
        t = (struct tensor){.dtype = DTYPE_F32, .cols = t.cols};
    }
    t.dtype = dtype_of(&t);
    t.rows = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        t.rows += f->part[i]->rows;
    }
    return t;
}

/* Widens a matrix of another dtype to float32. */
static void widen_matrix(struct walk *w, const struct opencl_tensor *to,
                         size_t at, const struct tensor *from)
{
    /* Static, as it is too large for a stack and only one caller uploads. */
    static float wide[WIDEN_ITEMS];
    const struct cpu_isa *isa = isa_find(NULL);
    size_t n = (size_t)from->rows * from->cols, item = dtype_bytes(from->dtype);

    for (size_t i = 0; i < n; i += WIDEN_ITEMS) {
        size_t run = n - i < WIDEN_ITEMS ? n - i : WIDEN_ITEMS;

        isa->widen(wide, (const char *)from->data + i * item, from->dtype,
                   (uint32_t)run);
        opencl_upload(w->c, to, at + i * sizeof *wide, wide,
                      run * sizeof *wide);
    }
}

/* Widens a quantised matrix to float32, row by row. */
static void dequantise_matrix(struct walk *w, const struct opencl_tensor *to,
                              size_t at, const struct tensor *from)
{
    float *wide = malloc(from->cols * sizeof *wide);

    if (wide == NULL) {
        opencl_fail(w->c, ST_RESOURCE_EXHAUSTED, "not enough memory for a row");
        return;
    }
    for (uint32_t i = 0; i < from->rows; i++) {
        weight_format_decode(wide, from, i, 0, from->cols);
        opencl_upload(w->c, to, at + (size_t)i * from->cols * sizeof *wide,
                      wide, from->cols * sizeof *wide);
    }
    free(wide);
}

/* Uploads scales and biases as interleaved pairs. */
static void pair_up(struct walk *w, const struct opencl_tensor *to, size_t at,
                    const struct tensor *from)
{
    static char pairs[PAIRS_BYTES];
    const size_t item = dtype_bytes(from->dtype);
    const size_t n = (size_t)from->rows * (from->cols / from->group);
    const char *scales = from->scales, *biases = from->biases;

    for (size_t i = 0, run; i < n; i += run) {
        run = PAIRS_BYTES / (2 * item);
        run = n - i < run ? n - i : run;
        for (size_t g = 0; g < run; g++) {
            memcpy(pairs + 2 * g * item, scales + (i + g) * item, item);
            memcpy(pairs + (2 * g + 1) * item, biases + (i + g) * item, item);
        }
        opencl_upload(w->c, to, at + 2 * i * item, pairs, 2 * run * item);
    }
}

/* Uploads the codes and the scales of a part, which are in separate areas of
 * the tensor. */
static void fill_codes(struct walk *w, const struct opencl_tensor *out,
                       const struct tensor *t, uint32_t first)
{
    const uint64_t row = tensor_scale_bytes(t);
    const size_t at = opencl_scales_at(out);

    opencl_upload(w->c, out, first * tensor_row_bytes(t), t->data,
                  t->rows * tensor_row_bytes(t));
    if (t->format == WEIGHT_AFFINE) {
        pair_up(w, out, at + first * 2 * row, t);
    } else {
        opencl_upload(w->c, out, at + first * row, t->scales, t->rows * row);
    }
}

/* Uploads a part to rows `first` and on of the fused matrix. */
static void fill_part(struct walk *w, const struct opencl_tensor *out,
                      const struct tensor *whole, const struct tensor *t,
                      uint32_t first)
{
    const size_t at = first * tensor_row_bytes(whole);

    if (t->bits > 0 && whole->bits > 0) {
        fill_codes(w, out, t, first);
    } else if (t->bits > 0) {
        dequantise_matrix(w, out, at, t);
    } else if (t->dtype == whole->dtype) {
        opencl_upload(w->c, out, at, t->data, tensor_bytes(t));
    } else {
        widen_matrix(w, out, at, t);
    }
}

static void request_matrix(struct walk *w, struct opencl_tensor *out,
                           const struct tensor *t)
{
    struct opencl_tensor of = {.item = 1,
                               .dtype = t->dtype,
                               .rows = t->rows,
                               .cols = t->cols,
                               .format = t->format,
                               .bits = t->bits,
                               .group = t->group};

    if (t->bits > 0) {
        opencl_arena_add(w->arena, out, 1, opencl_tensor_bytes(&of), 1);
        *out = of;
    } else {
        opencl_arena_add(w->arena, out, t->rows, t->cols,
                         dtype_bytes(t->dtype));
        out->dtype = t->dtype;
    }
}

static void place_fused(struct walk *w, struct opencl_tensor *out,
                        const struct fused *f)
{
    const struct tensor whole = shape_of(f);
    uint32_t rows = 0;

    if (!w->fill) {
        request_matrix(w, out, &whole);
        return;
    }
    if (opencl_is_noise(f->part[0]->data)) {
        /* A sum over cols then has a variance near 1. */
        opencl_noise(w->c, out, sqrtf(3.0f / (float)out->cols), w->seed++);
        return;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        fill_part(w, out, &whole, f->part[i], rows);
        rows += f->part[i]->rows;
    }
}

/* Places the matrix before a mixer: runs of parts that are alike. */
static void place_in(struct walk *w, struct opencl_tensor *in,
                     struct opencl_tensor rest[OPENCL_REST_MAX],
                     const struct fused *f)
{
    uint32_t n_rest = 0;

    for (uint32_t i = 0, end; i < f->n; i = end) {
        struct fused run = {.n = 0};

        for (end = i; end < f->n && are_alike(f->part[i], f->part[end]);
             end++) {
            run.part[run.n++] = f->part[end];
        }
        place_fused(w, i == 0 ? in : &rest[n_rest++], &run);
    }
}

static void place_matrix(struct walk *w, struct opencl_tensor *out,
                         const struct tensor *t)
{
    place_fused(w, out, &(struct fused){{t}, 1});
}

/* Places [rows, cols] float32; absent if from is NULL. */
static void place_floats(struct walk *w, struct opencl_tensor *out,
                         const float *from, uint32_t rows, uint32_t cols)
{
    if (from == NULL) {
        return;
    }
    if (w->fill) {
        opencl_upload(w->c, out, 0, from, (size_t)rows * cols * sizeof *from);
    } else {
        opencl_arena_add(w->arena, out, rows, cols, sizeof *from);
    }
}

/* Fuses the biases, with zeros for parts that have none. */
static void place_bias(struct walk *w, struct opencl_tensor *out,
                       const struct attention_weights *a)
{
    const float *from[] = {a->q_bias, a->k_bias, a->v_bias};
    uint32_t rows[] = {a->q.rows, a->k.rows, a->v.rows};
    size_t at = 0;

    if (!from[0] && !from[1] && !from[2]) {
        return;
    }
    if (!w->fill) {
        opencl_arena_add(w->arena, out, 1, rows[0] + rows[1] + rows[2],
                         sizeof(float));
        return;
    }
    opencl_zero(w->c, out, 0, out->cols * sizeof(float));
    for (int i = 0; i < 3; i++) {
        if (from[i] != NULL) {
            opencl_upload(w->c, out, at, from[i], rows[i] * sizeof(float));
        }
        at += rows[i] * sizeof(float);
    }
}

static void place_attention(struct walk *w, struct opencl_layer *layer,
                            const struct layer_weights *l)
{
    struct opencl_attention_weights *out = &layer->attention;
    const struct attention_weights *a = &l->mixer.attention;
    const struct model_shape *s = &w->c->w->shape;
    const bool whole = s->attention.whole_norm;

    place_in(w, &out->in, out->rest, &(struct fused){{&a->q, &a->k, &a->v}, 3});
    place_bias(w, &out->in_bias, a);
    place_matrix(w, &out->o, &a->o);
    place_floats(w, &out->o_bias, a->o_bias, 1, s->hidden);
    place_floats(w, &out->q_norm, a->q_norm, whole ? s->n_heads : 1,
                 s->head_dim);
    place_floats(w, &out->k_norm, a->k_norm, whole ? s->n_kv_heads : 1,
                 s->head_dim);
    place_floats(w, &out->sinks, a->sinks, 1, s->n_heads);
}

static void place_deltanet(struct walk *w, struct opencl_layer *layer,
                           const struct layer_weights *l)
{
    struct opencl_deltanet_weights *out = &layer->deltanet;
    const struct deltanet_weights *d = &l->mixer.deltanet;
    const struct model_shape *s = &w->c->w->shape;

    place_in(w, &out->in, out->rest,
             &(struct fused){{&d->qkv, &d->z, &d->b, &d->a}, 4});
    place_matrix(w, &out->out, &d->out);
    place_floats(w, &out->conv, d->conv, d->qkv.rows, s->conv);
    place_floats(w, &out->a_log, d->a_log, 1, s->n_v_heads);
    place_floats(w, &out->dt_bias, d->dt_bias, 1, s->n_v_heads);
    place_floats(w, &out->norm, d->norm, 1, s->v_dim);
}

static void place_mlp(struct walk *w, struct opencl_layer *out,
                      const struct mlp_weights *m)
{
    place_fused(w, &out->gate_up, &(struct fused){{&m->gate, &m->up}, 2});
    place_matrix(w, &out->down, &m->down);
}

/* Returns whether the shared expert is stored as the others are: then it is one
 * more behind them. */
static bool is_like_experts(const struct walk *w,
                            const struct expert_weights *x)
{
    const struct model_shape *s = &w->c->w->shape;

    return s->shared_dim == s->expert_dim && !s->gate_up_alternate &&
           x->gate_up_bias == NULL && x->down_bias == NULL &&
           is_uniform(&(struct fused){
               {&x->gate_up, &x->shared.gate, &x->shared.up}, 3}) &&
           is_uniform(&(struct fused){{&x->down, &x->shared.down}, 2});
}

static void place_experts(struct walk *w, struct opencl_layer *out,
                          const struct layer_weights *l)
{
    struct opencl_expert_weights *of = &out->experts;
    const struct expert_weights *x = &l->experts;
    const struct model_shape *s = &w->c->w->shape;

    place_fused(w, &of->router,
                &(struct fused){{&x->router, &x->shared_gate},
                                x->shared_gate.data ? 2 : 1});
    place_floats(w, &of->router_bias, x->router_bias, 1, s->n_experts);
    if (is_like_experts(w, x)) {
        place_fused(
            w, &of->gate_up,
            &(struct fused){{&x->gate_up, &x->shared.gate, &x->shared.up}, 3});
        place_fused(w, &of->down,
                    &(struct fused){{&x->down, &x->shared.down}, 2});
    } else {
        place_matrix(w, &of->gate_up, &x->gate_up);
        place_matrix(w, &of->down, &x->down);
    }
    place_floats(w, &of->gate_up_bias, x->gate_up_bias, s->n_experts,
                 2 * s->expert_dim);
    place_floats(w, &of->down_bias, x->down_bias, s->n_experts, s->hidden);
    if (s->shared_dim > 0 && !is_like_experts(w, x)) {
        place_mlp(w, out, &x->shared);
    }
}

static void place_dense(struct walk *w, struct opencl_layer *out,
                        const struct layer_weights *l)
{
    place_mlp(w, out, &l->mlp);
}

typedef void (*place_fn)(struct walk *w, struct opencl_layer *out,
                         const struct layer_weights *l);

/* By kind; opencl_mixers_check() refuses the others. */
static const place_fn place_mixers[MIXER_KINDS] = {
    [MIXER_ATTENTION] = place_attention,
    [MIXER_DELTANET] = place_deltanet,
    [MIXER_WINDOW] = place_attention,
    [MIXER_NOPE] = place_attention,
};

static const place_fn place_ffns[FFN_KINDS] = {
    [FFN_DENSE] = place_dense,
    [FFN_EXPERTS] = place_experts,
};

static void place_layer(struct walk *w, struct opencl_layer *out,
                        const struct layer_weights *l)
{
    uint32_t h = w->c->w->shape.hidden;

    out->kind = l->kind;
    out->ffn = l->ffn;
    place_floats(w, &out->input_norm, l->input_norm, 1, h);
    place_floats(w, &out->mixer_norm, l->mixer_norm, 1, h);
    place_floats(w, &out->post_norm, l->post_norm, 1, h);
    place_floats(w, &out->ffn_norm, l->ffn_norm, 1, h);
    place_mixers[l->kind](w, out, l);
    place_ffns[l->ffn](w, out, l);
}

static void place_mtp(struct walk *w, struct opencl_mtp_weights *out,
                      const struct mtp_weights *m)
{
    const uint32_t h = w->c->w->shape.hidden;

    place_matrix(w, &out->fc, &m->fc);
    place_floats(w, &out->embed_norm, m->embed_norm, 1, h);
    place_floats(w, &out->hidden_norm, m->hidden_norm, 1, h);
    place_floats(w, &out->norm, m->norm, 1, h);
}

/* Makes a rope table [context, R/2, 2]. */
static void place_rope(struct walk *w, struct opencl_tensor *out,
                       const struct rope_shape *of)
{
    struct opencl *c = w->c;
    const struct model_shape *s = &c->w->shape;
    uint32_t half = s->n_heads > 0 ? of->dim / 2 : 0;
    float freq[KERNELS_HEAD_DIM_MAX / 2], cosine[KERNELS_HEAD_DIM_MAX / 2];
    float sine[KERNELS_HEAD_DIM_MAX / 2], row[KERNELS_HEAD_DIM_MAX];
    size_t bytes = 2 * half * sizeof *row;

    if (!w->fill) {
        opencl_arena_add(w->arena, out, s->context, 2 * half, sizeof *row);
        return;
    }
    /* On the host, since OpenCL 1.2 devices need not support double. */
    rope_frequencies(of, freq);
    for (uint32_t p = 0; half > 0 && p < s->context; p++) {
        rope_angles(freq, half, p, rope_scale(of), cosine, sine);
        for (uint32_t i = 0; i < half; i++) {
            row[2 * i] = cosine[i];
            row[2 * i + 1] = sine[i];
        }
        opencl_upload(c, out, p * bytes, row, bytes);
    }
}

/* Makes a table of the factors of queries [context]. */
static void place_query_scale(struct walk *w, struct opencl_tensor *out)
{
    const struct model_shape *s = &w->c->w->shape;

    if (!w->fill) {
        opencl_arena_add(w->arena, out, 1, s->context, sizeof(float));
        return;
    }
    for (uint32_t p = 0; p < s->context; p++) {
        const float scale = rope_query_scale(&s->attention, p);

        opencl_upload(w->c, out, p * sizeof scale, &scale, sizeof scale);
    }
}

static bool is_tied(const struct shard_weights *s)
{
    return s->head.data != NULL && s->head.data == s->embed.data;
}

/* Both walks must visit the same tensors in the same order. */
static void walk_shard(struct walk *w)
{
    struct opencl *c = w->c;
    const struct shard_weights *s = c->w;

    if (s->embed.data != NULL) {
        place_matrix(w, &c->model.embed, &s->embed);
    }
    if (s->head.data != NULL && !is_tied(s)) {
        place_matrix(w, &c->model.head, &s->head);
    }
    place_floats(w, &c->model.final_norm, s->final_norm, 1, s->shape.hidden);
    for (uint32_t i = 0; i < shard_layers(s); i++) {
        place_layer(w, &c->model.layers[i], &s->layers[i]);
    }
    if (s->mtp != NULL) {
        place_mtp(w, &c->model.mtp, s->mtp);
    }
    place_rope(w, &c->model.rope, &s->shape.rope);
    if (s->shape.window > 0) {
        place_rope(w, &c->model.window_rope, &s->shape.window_rope);
    }
    if (s->shape.attention.query_original > 0) {
        place_query_scale(w, &c->model.query_scale);
    }
}

enum status opencl_weights_new(struct opencl *c, struct opencl_arena **out,
                               struct error *e)
{
    struct walk w = {.c = c};
    enum status st;

    /* The caller frees the arena, also after an error. */
    *out = w.arena = opencl_arena_new("weights");
    c->model.layers = calloc(shard_layers(c->w), sizeof *c->model.layers);
    if (w.arena == NULL || c->model.layers == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    walk_shard(&w);
    st = opencl_arena_make(c, w.arena, e);
    if (st != ST_OK) {
        return st;
    }
    w.fill = true;
    walk_shard(&w);
    opencl_settle(c);
    /* A tied head shares the embedding's memory instead of a second copy. */
    if (is_tied(c->w)) {
        c->model.head = c->model.embed;
    }
    *e = c->health.failed;
    return e->code == ST_OK ? ST_OK : error_wrap(e, "upload the weights");
}
