/* attention.c - the attention mixer; the formulas are in docs/model.md. */
#include "kernels/cpu/mixer.h"

#include <math.h>
#include <string.h>

#include "kernels/rope.h"

/* A gated model projects a gate beside each query: twice the width. */
static void cut(struct cutter *k, struct cpu *c, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    size_t wide = (size_t)s->n_heads * s->head_dim;
    size_t narrow = (size_t)s->n_kv_heads * s->head_dim;

    a->q = cutter_floats(k, n, s->attn_gated ? 2 * wide : wide);
    a->k = cutter_floats(k, n, narrow);
    a->v = cutter_floats(k, n, narrow);
    a->query = cutter_floats(k, n, wide);
    a->y = cutter_floats(k, n, wide);
    a->gate = cutter_floats(k, s->attn_gated ? n : 0, wide);
}

static void matrices(const struct layer_weights *w, cpu_matrix_fn fn, void *arg)
{
    const struct attention_weights *a = &w->mixer.attention;

    fn(arg, &a->q, 1);
    fn(arg, &a->k, 1);
    fn(arg, &a->v, 1);
    fn(arg, &a->o, 1);
}

struct attention_job {
    struct cpu *c;
    const struct attention_weights *w;
    const struct cpu_rope *rope;
    uint32_t layer;
    uint32_t half;       /* R/2 */
    uint32_t group;      /* query heads of a kv head */
    uint32_t span;       /* tokens of a row in one task */
    uint32_t tasks_head; /* tasks of one kv head */
};

/* Rotates the pairs (i, i + R/2) of the first R dimensions by the angle. */
static void rotate_head(float *head, uint32_t half, const float *cosine,
                        const float *sine)
{
    for (uint32_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];

        head[i] = a * cosine[i] - b * sine[i];
        head[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* Norms n heads of q or k of a token together where the model does so. */
static void norm_whole(const struct attention_job *j, const float *norm,
                       uint32_t n, float *heads)
{
    const struct cpu *c = j->c;
    const struct model_shape *s = &c->w->shape;

    if (norm && s->attention.whole_norm) {
        c->isa->rms_norm(heads, heads, norm, n * s->head_dim, s->norm_eps);
    }
}

/* Norms one head of token t where the model has that norm, and rotates it, or
 * the reverse. */
static void prepare_head(const struct attention_job *j, uint32_t t,
                         const float *norm, float *head)
{
    const struct cpu *c = j->c;
    const struct model_shape *s = &c->w->shape;
    bool norms = norm && !s->attention.whole_norm;
    size_t at = (size_t)t * j->half;

    if (norms && !s->attention.late_norm) {
        c->isa->rms_norm(head, head, norm, s->head_dim, s->norm_eps);
    }
    rotate_head(head, j->half, j->rope->cosine + at, j->rope->sine + at);
    if (norms && s->attention.late_norm) {
        c->isa->rms_norm(head, head, norm, s->head_dim, s->norm_eps);
    }
}

/* Scales one query of token t by its position. */
static void scale_query(const struct attention_job *j, uint32_t t, float *query)
{
    const struct model_shape *s = &j->c->w->shape;
    const struct kernel_row *row = &j->c->step->rows[j->c->row_of[t]];
    float scale;

    if (s->attention.query_original > 0) {
        scale = rope_query_scale(&s->attention, row->position + t - row->first);
        for (uint32_t d = 0; d < s->head_dim; d++) {
            query[d] *= scale;
        }
    }
}

/* Separates queries and gates, which a gated model projects head by head. */
static void prepare_queries(const struct attention_job *j, uint32_t t)
{
    const struct cpu *c = j->c;
    const struct model_shape *s = &c->w->shape;
    const struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    size_t hd = s->head_dim, bytes = hd * sizeof(float);
    size_t step = s->attn_gated ? 2 * hd : hd;

    norm_whole(j, j->w->q_norm, s->n_heads,
               a->q + (size_t)t * s->n_heads * step);
    for (uint32_t h = 0; h < s->n_heads; h++) {
        size_t at = (size_t)t * s->n_heads + h;
        float *query = a->query + at * hd;

        memcpy(query, a->q + at * step, bytes);
        if (s->attn_gated) {
            memcpy(a->gate + at * hd, a->q + at * step + hd, bytes);
        }
        prepare_head(j, t, j->w->q_norm, query);
        scale_query(j, t, query);
        cpu_kv_rotate(c, j->layer, query, 1);
    }
}

static void store_kv(const struct attention_job *j, uint32_t t)
{
    const struct cpu *c = j->c;
    const struct model_shape *s = &c->w->shape;
    const struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    const struct kernel_row *row = &c->step->rows[c->row_of[t]];
    size_t hd = s->head_dim, at = (size_t)t * s->n_kv_heads * hd;

    norm_whole(j, j->w->k_norm, s->n_kv_heads, a->k + at);
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
        prepare_head(j, t, j->w->k_norm, a->k + at + h * hd);
    }
    cpu_kv_store(c, j->layer, row, row->position + t - row->first, a->k + at,
                 a->v + at);
}

/* Stores all keys and values of the step before any query reads them. */
static void prepare_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct attention_job *j = arg;

    (void)thread;
    prepare_queries(j, t);
    store_kv(j, t);
}

/* Returns the row, and in *first its first token, that the task-th span
 * covers. */
static const struct kernel_row *find_span(const struct attention_job *j,
                                          uint32_t task, uint32_t *first)
{
    const struct kernel_row *row = j->c->step->rows;

    for (;; row++) {
        uint32_t n = (row->n_tokens + j->span - 1) / j->span;

        if (task < n) {
            *first = task * j->span;
            return row;
        }
        task -= n;
    }
}

/* Gathers n queries of a task, since queries that share keys lie n_heads apart
 * in `query`. */
static void gather_queries(const struct attention_job *j,
                           const struct kernel_row *row, uint32_t first,
                           uint32_t kv_head, const struct cpu_lane *lane,
                           uint32_t n)
{
    const struct model_shape *s = &j->c->w->shape;
    const struct cpu_attention_scratch *a = &j->c->of[CPU_ATTENTION].attention;
    size_t hd = s->head_dim;

    for (uint32_t i = 0; i < n; i++) {
        size_t token = row->first + first + i / j->group;
        size_t head = kv_head * j->group + i % j->group;

        lane->last[i] = row->position + first + i / j->group;
        lane->sinks[i] = j->w->sinks ? j->w->sinks[head] : 0.0f;
        memcpy(lane->q + i * hd, a->query + (token * s->n_heads + head) * hd,
               hd * sizeof(float));
    }
}

/* Attends for some tokens of a row, with the query heads of one kv head. */
static void attend_span(const struct attention_job *j,
                        const struct kernel_row *row, uint32_t first,
                        uint32_t kv_head, const struct cpu_lane *lane)
{
    const struct cpu *c = j->c;
    const struct model_shape *s = &c->w->shape;
    const struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    size_t hd = s->head_dim, bytes = hd * sizeof(float);
    uint32_t left = row->n_tokens - first;
    uint32_t n = (left < j->span ? left : j->span) * j->group;
    float scale = 1.0f / sqrtf((float)s->head_dim);
    struct attend_task t = {
        .q = lane->q,
        .y = lane->y,
        .last = lane->last,
        .n_q = n,
        .hd = s->head_dim,
        .block_tokens = c->block_tokens,
        .scale = s->attn_scale > 0.0f ? s->attn_scale : scale,
        .cap = s->attn_cap,
        .sinks = j->w->sinks ? lane->sinks : NULL,
        .s = lane->s,
    };

    gather_queries(j, row, first, kv_head, lane, n);
    cpu_kv_attend(j->c, j->layer, row, kv_head, &t);
    cpu_kv_rotate_back(c, j->layer, lane->y, n);
    for (uint32_t i = 0; i < n; i++) {
        size_t token = row->first + first + i / j->group;
        size_t head = kv_head * j->group + i % j->group;

        memcpy(a->y + (token * s->n_heads + head) * hd, lane->y + i * hd,
               bytes);
    }
}

static void attend_job(void *arg, uint32_t task, uint32_t thread)
{
    const struct attention_job *j = arg;
    uint32_t first;
    const struct kernel_row *row = find_span(j, task % j->tasks_head, &first);

    attend_span(j, row, first, task / j->tasks_head, &j->c->lanes[thread]);
}

/* Estimates the multiply-adds of a step's attention. */
static size_t attend_work(const struct cpu *c, uint32_t window)
{
    size_t work = 0;

    for (uint32_t i = 0; i < c->step->n_rows; i++) {
        const struct kernel_row *r = &c->step->rows[i];
        uint32_t most = window > 0 ? window : UINT32_MAX;
        uint32_t before = r->position < most ? r->position : most;

        work += (size_t)r->n_tokens * (before + r->n_tokens);
    }
    return work * c->w->shape.n_heads * c->w->shape.head_dim * 2;
}

static void gate_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct attention_job *j = arg;
    const struct model_shape *s = &j->c->w->shape;
    const struct cpu_attention_scratch *a = &j->c->of[CPU_ATTENTION].attention;
    size_t width = (size_t)s->n_heads * s->head_dim;

    (void)thread;
    j->c->isa->sigmoid_mul(a->y + t * width, a->gate + t * width, width);
}

static void project_inputs(struct cpu *c, const struct attention_weights *w)
{
    const struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    uint32_t n = c->step->n_tokens;
    const struct cpu_product in[] = {
        cpu_product_of(&w->q, w->q_bias, c->n, n, a->q),
        cpu_product_of(&w->k, w->k_bias, c->n, n, a->k),
        cpu_product_of(&w->v, w->v_bias, c->n, n, a->v),
    };

    cpu_matmul(c, in, 3);
}

static void run(struct cpu *c, uint32_t layer)
{
    const struct layer_weights *w = cpu_weights(c, layer);
    const struct model_shape *s = &c->w->shape;
    const struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    uint32_t n = c->step->n_tokens, window = shape_window(s, w->kind);
    size_t width = (size_t)n * s->n_heads * s->head_dim;
    struct attention_job j = {.c = c,
                              .w = &w->mixer.attention,
                              .rope = &c->ropes[window > 0],
                              .layer = layer,
                              .half = shape_rope(s, w->kind)->dim / 2,
                              .group = s->n_heads / s->n_kv_heads};

    /* Query heads of one kv head share its keys, so a task takes whole
     * groups. */
    j.span = ATTEND_QUERIES / j.group;
    for (uint32_t i = 0; i < c->step->n_rows; i++) {
        j.tasks_head += (c->step->rows[i].n_tokens + j.span - 1) / j.span;
    }
    project_inputs(c, j.w);
    cpu_run(c, prepare_task, &j, n, width * 8);
    cpu_run(c, attend_job, &j, j.tasks_head * s->n_kv_heads,
            attend_work(c, window));
    if (s->attn_gated) {
        cpu_run(c, gate_task, &j, n, width * 8);
    }
    cpu_add_product(c, &j.w->o, j.w->o_bias, a->y, w->mixer_norm);
}

const struct cpu_mixer cpu_mixer_attention = {
    .cut = cut,
    .matrices = matrices,
    .run = run,
};

/* cpu_kv_attend() finds the layer's window. */
const struct cpu_mixer cpu_mixer_window = {
    .cut = cut,
    .matrices = matrices,
    .run = run,
};

/* No dimension is rotated: shape_rope() is empty. */
const struct cpu_mixer cpu_mixer_nope = {
    .cut = cut,
    .matrices = matrices,
    .run = run,
};
