/* experts.c - the feed-forward of a layer with experts; the formulas are in
 * docs/model.md.
 *
 * Rows are a token's inputs of its experts, grouped by expert, so that the
 * matrices of an expert stream once for all its rows.  The outputs of a token
 * are added in order of rank.  A token's bits therefore never depend on the
 * rest of the step. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/mixer.h"

static bool has_experts(const struct cpu *c)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        if (cpu_weights(c, i)->ffn == FFN_EXPERTS) {
            return true;
        }
    }
    return false;
}

static void cut(struct cutter *k, struct cpu *c, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    struct cpu_expert_scratch *e = &c->of[CPU_EXPERTS].experts;
    size_t rows;

    if (!has_experts(c)) {
        return;
    }
    n = n < CPU_EXPERT_TOKENS ? n : CPU_EXPERT_TOKENS;
    rows = n * s->top_k;
    e->shared.gate = cutter_floats(k, n, s->shared_dim);
    e->shared.up = cutter_floats(k, n, s->shared_dim);
    e->out = cutter_floats(k, s->shared_dim > 0 ? n : 0, s->hidden);
    e->share = cutter_floats(k, n, 1);
    e->logits = cutter_floats(k, n, s->n_experts);
    e->weights = cutter_floats(k, n, s->top_k);
    e->chosen = cutter_piece(k, rows, sizeof *e->chosen);
    e->row_of = cutter_piece(k, rows, sizeof *e->row_of);
    e->token_of = cutter_piece(k, rows, sizeof *e->token_of);
    e->begin = cutter_piece(k, s->n_experts + 1, sizeof *e->begin);
    e->x = cutter_floats(k, rows, s->hidden);
    e->both = cutter_floats(k, rows, 2 * (size_t)s->expert_dim);
    e->views = cutter_piece(k, s->n_experts, sizeof *e->views);
    e->products = cutter_piece(k, s->n_experts + 1, sizeof *e->products);
}

/* Some tokens of a step, [first, first + n). */
struct expert_job {
    struct cpu *c;
    const struct layer_weights *layer;
    const struct expert_weights *w;
    const struct model_shape *m;
    const struct cpu_expert_scratch *s;
    uint32_t first, n;
};

static bool has_shared(const struct expert_job *j)
{
    return j->m->shared_dim > 0;
}

/* Returns the normed token i of the job. */
static const float *input_of(const struct expert_job *j, uint32_t i)
{
    return j->c->n + ((size_t)j->first + i) * j->m->hidden;
}

/* Computes the router, and the gate and up of the shared expert. */
static void project_all(const struct expert_job *j)
{
    const struct expert_weights *w = j->w;
    const struct cpu_expert_scratch *s = j->s;
    const float *x = input_of(j, 0);
    struct cpu_product p[4];
    uint32_t n = 0;

    p[n] = cpu_product_of(&w->router, w->router_bias, x, j->n, s->logits);
    p[n++].whole = true;
    if (has_shared(j)) {
        p[n++] = cpu_product_of(&w->shared.gate, NULL, x, j->n, s->shared.gate);
        p[n++] = cpu_product_of(&w->shared.up, NULL, x, j->n, s->shared.up);
    }
    if (w->shared_gate.data) {
        p[n] = cpu_product_of(&w->shared_gate, NULL, x, j->n, s->share);
        p[n++].whole = true;
    }
    cpu_matmul(j->c, p, n);
}

/* ---- routing ---- */

/* Finds the k greatest logits, in order; equal ones by lower index. */
static void choose(const float *l, uint32_t n, uint32_t k, uint32_t *chosen)
{
    uint32_t have = 0;

    for (uint32_t e = 0; e < n; e++) {
        uint32_t at;

        if (have == k && !(l[e] > l[chosen[k - 1]])) {
            continue;
        }
        have += have < k;
        at = have - 1;
        for (; at > 0 && l[e] > l[chosen[at - 1]]; at--) {
            chosen[at] = chosen[at - 1];
        }
        chosen[at] = e;
    }
}

/* Computes in double, so that every libm gives the same float32. */
static void weigh(const struct expert_job *j, const float *l,
                  const uint32_t *chosen, float *weights)
{
    const struct model_shape *m = j->m;
    double sum = 0.0;
    float top = l[chosen[0]];

    for (uint32_t i = 0; m->top_k_normed && i < m->top_k; i++) {
        sum += exp((double)l[chosen[i]] - (double)top);
    }
    for (uint32_t e = 0; !m->top_k_normed && e < m->n_experts; e++) {
        sum += exp((double)l[e] - (double)top);
    }
    for (uint32_t i = 0; i < m->top_k; i++) {
        weights[i] = (float)(exp((double)l[chosen[i]] - (double)top) / sum);
    }
}

static void route_task(void *arg, uint32_t i, uint32_t thread)
{
    const struct expert_job *j = arg;
    const struct cpu_expert_scratch *s = j->s;
    const float *l = s->logits + (size_t)i * j->m->n_experts;
    size_t at = (size_t)i * j->m->top_k;

    (void)thread;
    choose(l, j->m->n_experts, j->m->top_k, s->chosen + at);
    weigh(j, l, s->chosen + at, s->weights + at);
    if (has_shared(j)) {
        s->share[i] = j->w->shared_gate.data
                          ? (float)(1.0 / (1.0 + exp(-(double)s->share[i])))
                          : 1.0f;
    }
}

/* Numbers the rows: those of an expert one after another, in order of their
 * tokens. */
static void group_rows(const struct expert_job *j)
{
    const struct cpu_expert_scratch *s = j->s;
    uint32_t n = j->n * j->m->top_k, experts = j->m->n_experts, sum = 0;

    memset(s->begin, 0, (experts + 1) * sizeof *s->begin);
    for (uint32_t i = 0; i < n; i++) {
        s->begin[s->chosen[i]]++;
    }
    for (uint32_t e = 0; e <= experts; e++) {
        sum += s->begin[e];
        s->begin[e] = sum; /* the end; the loop below makes it the begin */
    }
    for (uint32_t i = n; i-- > 0;) {
        uint32_t row = --s->begin[s->chosen[i]];

        s->row_of[i] = row;
        s->token_of[row] = i / j->m->top_k;
    }
}

/* ---- products ---- */

static uint32_t rows_of(const struct expert_job *j, uint32_t e)
{
    return j->s->begin[e + 1] - j->s->begin[e];
}

static void gather_task(void *arg, uint32_t row, uint32_t thread)
{
    const struct expert_job *j = arg;
    size_t h = j->m->hidden;

    (void)thread;
    memcpy(j->s->x + row * h, input_of(j, j->s->token_of[row]),
           h * sizeof(float));
}

/* Returns the rows of expert e of a matrix of all experts. */
static struct tensor view_of(const struct expert_job *j, const struct tensor *t,
                             uint32_t e)
{
    struct tensor v = *t;
    size_t first;

    v.rows = t->rows / j->m->n_experts;
    first = (size_t)e * v.rows;
    v.data = (const char *)t->data + first * tensor_row_bytes(t);
    if (t->scales) {
        v.scales = (const char *)t->scales + first * tensor_scale_bytes(t);
    }
    if (t->biases) {
        v.biases = (const char *)t->biases + first * tensor_scale_bytes(t);
    }
    return v;
}

/* Lists the products of all experts that have rows, and returns how many. */
static uint32_t list_products(const struct expert_job *j,
                              const struct tensor *t, const float *bias)
{
    const struct cpu_expert_scratch *s = j->s;
    uint32_t n = 0;

    for (uint32_t e = 0; e < j->m->n_experts; e++) {
        struct cpu_product *p = &s->products[n];
        struct tensor *v = &s->views[n];

        if (rows_of(j, e) == 0) {
            continue;
        }
        *v = view_of(j, t, e);
        *p = cpu_product_of(v, bias ? bias + (size_t)e * v->rows : NULL, NULL,
                            rows_of(j, e), NULL);
        n++;
    }
    return n;
}

/* both = gate and up of each row. */
static void run_gate_up(const struct expert_job *j)
{
    const struct cpu_expert_scratch *s = j->s;
    const size_t h = j->m->hidden, wide = 2 * (size_t)j->m->expert_dim;
    uint32_t n = list_products(j, &j->w->gate_up, j->w->gate_up_bias), row = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct cpu_product *p = &s->products[i];

        /* A single token needs no copy of its input for each expert. */
        p->x = j->n == 1 ? input_of(j, 0) : s->x + row * h;
        p->out = s->both + row * wide;
        row += p->n_x;
    }
    cpu_matmul(j->c, s->products, n);
}

/* Turns gate and up of a row into [Im] values, in place. */
static void activate_pair(const struct expert_job *j, float *both, float *pair)
{
    uint32_t n = j->m->expert_dim;

    if (!j->m->gate_up_alternate) {
        cpu_activate(j->c, both, both + n, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        pair[i] = both[2 * i];
        pair[n + i] = both[2 * i + 1];
    }
    cpu_activate(j->c, pair, pair + n, n);
    memcpy(both, pair, n * sizeof *both);
}

/* Activates a row, or after the rows a token's shared expert. */
static void activate_task(void *arg, uint32_t i, uint32_t thread)
{
    const struct expert_job *j = arg;
    const struct cpu_expert_scratch *s = j->s;
    uint32_t rows = j->n * j->m->top_k;
    size_t wide = 2 * (size_t)j->m->expert_dim, shared = j->m->shared_dim;

    if (i < rows) {
        activate_pair(j, s->both + i * wide, j->c->lanes[thread].pair);
    } else {
        cpu_activate(j->c, s->shared.gate + (i - rows) * shared,
                     s->shared.up + (i - rows) * shared, shared);
    }
}

/* x = down of each row; the inputs there are no longer needed. */
static void run_down(const struct expert_job *j)
{
    const struct cpu_expert_scratch *s = j->s;
    const size_t h = j->m->hidden, wide = 2 * (size_t)j->m->expert_dim;
    uint32_t n = list_products(j, &j->w->down, j->w->down_bias), row = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct cpu_product *p = &s->products[i];

        p->x = s->both + row * wide;
        p->ld_x = wide;
        p->out = s->x + row * h;
        row += p->n_x;
    }
    if (has_shared(j)) {
        s->products[n++] = cpu_product_of(&j->w->shared.down, NULL,
                                          s->shared.gate, j->n, s->out);
    }
    cpu_matmul(j->c, s->products, n);
}

/* ---- sums ---- */

/* Adds a token's experts in order of rank, then its shared expert. */
static void sum_task(void *arg, uint32_t i, uint32_t thread)
{
    const struct expert_job *j = arg;
    const struct cpu_expert_scratch *s = j->s;
    const size_t h = j->m->hidden;
    uint32_t t = j->first + i, k = j->m->top_k;
    float *y = j->c->y + t * h;

    (void)thread;
    memset(y, 0, h * sizeof *y);
    for (uint32_t rank = 0; rank < k; rank++) {
        size_t at = (size_t)i * k + rank;

        j->c->isa->accumulate(y, s->x + s->row_of[at] * h, s->weights[at], h);
    }
    if (has_shared(j)) {
        j->c->isa->accumulate(y, s->out + i * h, s->share[i], h);
    }
    cpu_add_row(j->c, t, y, j->layer->ffn_norm);
}

static void run_tokens(struct expert_job *j)
{
    struct cpu *c = j->c;
    const struct model_shape *m = j->m;
    uint32_t rows = j->n * m->top_k;
    size_t wide = (size_t)rows * m->expert_dim + (size_t)j->n * m->shared_dim;

    project_all(j);
    cpu_run(c, route_task, j, j->n, (size_t)j->n * m->n_experts * 8);
    group_rows(j);
    if (j->n > 1) {
        cpu_run(c, gather_task, j, rows, (size_t)rows * m->hidden);
    }
    run_gate_up(j);
    cpu_run(c, activate_task, j, rows + (has_shared(j) ? j->n : 0), wide * 8);
    run_down(j);
    cpu_run(c, sum_task, j, j->n, (size_t)rows * m->hidden * 2);
}

static void run(struct cpu *c, const struct layer_weights *w)
{
    struct expert_job j = {.c = c,
                           .layer = w,
                           .w = &w->experts,
                           .m = &c->w->shape,
                           .s = &c->of[CPU_EXPERTS].experts};

    for (; j.first < c->step->n_tokens; j.first += j.n) {
        uint32_t left = c->step->n_tokens - j.first;

        j.n = left < CPU_EXPERT_TOKENS ? left : CPU_EXPERT_TOKENS;
        run_tokens(&j);
    }
}

static void matrices(const struct layer_weights *w, cpu_matrix_fn fn, void *arg)
{
    const struct expert_weights *e = &w->experts;

    fn(arg, &e->router, CPU_FLOAT_ONLY);
    fn(arg, &e->shared_gate, CPU_FLOAT_ONLY);
    fn(arg, &e->gate_up, e->router.rows);
    fn(arg, &e->down, e->router.rows);
    cpu_mlp_matrices(&e->shared, fn, arg);
}

const struct cpu_ffn cpu_ffn_experts = {
    .cut = cut,
    .matrices = matrices,
    .run = run,
    .sums = true,
};
