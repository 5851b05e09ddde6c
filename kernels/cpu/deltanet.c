/* deltanet.c - the Gated DeltaNet mixer; the formulas are in docs/model.md. */
#include "kernels/cpu/mixer.h"

#include <math.h>
#include <string.h>

static size_t channels(const struct model_shape *s)
{
    return (size_t)2 * s->n_k_heads * s->k_dim +
           (size_t)s->n_v_heads * s->v_dim;
}

static void cut(struct cutter *k, struct cpu *c, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    struct cpu_delta_scratch *d = &c->of[CPU_DELTA].delta;
    size_t values = (size_t)s->n_v_heads * s->v_dim;

    d->qkv = cutter_floats(k, n, channels(s));
    d->u = cutter_floats(k, n, channels(s));
    d->z = cutter_floats(k, n, values);
    d->b = cutter_floats(k, n, s->n_v_heads);
    d->a = cutter_floats(k, n, s->n_v_heads);
    d->y = cutter_floats(k, n, values);
}

static void cut_layer(struct cutter *k, const struct cpu *c,
                      struct cpu_layer *l)
{
    const struct model_shape *s = &c->w->shape;
    size_t keys = (size_t)s->n_k_heads * s->k_dim, n = c->replays.n_tokens;
    float *conv = cutter_floats(k, s->conv, channels(s));
    struct cpu_kept kept = {
        .q = cutter_piece(k, n * keys, dtype_bytes(c->kv.dtype)),
        .kv = cutter_floats(k, n, channels(s) - keys),
        .beta = cutter_floats(k, n, s->n_v_heads),
        .decay = cutter_floats(k, n, s->n_v_heads),
    };

    if (l != NULL) {
        l->conv = conv;
        l->kept = kept;
    }
}

/* Transposes [C, K] as stored to [K, C], so that channels fill a register. */
static void load(struct cpu *c, uint32_t layer)
{
    const float *conv = cpu_weights(c, layer)->mixer.deltanet.conv;
    size_t n = channels(&c->w->shape), taps = c->w->shape.conv;

    for (size_t at = 0; at < n * taps; at++) {
        c->layers[layer].conv[at % taps * n + at / taps] = conv[at];
    }
}

static void matrices(const struct layer_weights *w, cpu_matrix_fn fn, void *arg)
{
    const struct deltanet_weights *d = &w->mixer.deltanet;

    fn(arg, &d->qkv, 1);
    fn(arg, &d->z, 1);
    fn(arg, &d->b, 1);
    fn(arg, &d->a, 1);
    fn(arg, &d->out, 1);
}

struct delta_job {
    struct cpu *c;
    const struct deltanet_weights *w;
    uint32_t layer;
    const struct cpu_delta_scratch *s;
    const struct model_shape *m;
    uint32_t channels; /* C */
    uint32_t groups;   /* tasks of a row: groups of channels or of columns */
};

/* A row runs in parts, each up to the next checkpoint or the row's end.  How a
 * row is divided changes no bit. */
struct part {
    uint32_t first, n;              /* tokens of the row */
    const struct kernel_save *save; /* at its end; NULL: none */
};

static struct part row_part(const struct kernel_row *row, uint32_t i)
{
    struct part p = {
        .first = i == 0 ? 0 : row->saves[i - 1].position - row->position,
        .n = row->n_tokens,
        .save = i < row->n_saves ? &row->saves[i] : NULL};

    if (p.save) {
        p.n = p.save->position - row->position;
    }
    p.n -= p.first;
    return p;
}

/* Copies a part of a state or tail: `rows` rows of `bytes`, ld bytes apart. */
static void copy_rows(char *to, const char *from, size_t rows, size_t bytes,
                      size_t ld)
{
    for (size_t i = 0; i < rows; i++) {
        memcpy(to + i * ld, from + i * ld, bytes);
    }
}

/* Copies the channels of a task to the tail of a checkpoint. */
static void save_tail(const struct delta_job *j, const struct conv_task *t,
                      uint32_t first, uint32_t page)
{
    size_t item = dtype_bytes(t->dtype);

    if (t->tail != NULL) {
        copy_rows(cpu_tail(j->c, j->layer, page) + first * item, t->tail,
                  t->k - 1, t->n * item, t->ld_w * item);
    }
}

static void conv_job(void *arg, uint32_t task, uint32_t thread)
{
    const struct delta_job *j = arg;
    const struct kernel_row *row = &j->c->step->rows[task / j->groups];
    uint32_t first = task % j->groups * CONV_CHANNELS;
    uint32_t left = j->channels - first;
    size_t from = (size_t)row->first * j->channels + first;
    char *tail = cpu_tail(j->c, j->layer, row->slot);
    struct conv_task t = {
        .w = j->c->layers[j->layer].conv + first,
        .tail =
            tail == NULL ? NULL : tail + first * dtype_bytes(j->c->kv.dtype),
        .ld = j->channels,
        .ld_out = j->channels,
        .ld_w = j->channels,
        .n = left < CONV_CHANNELS ? left : CONV_CHANNELS,
        .k = j->m->conv,
        .dtype = j->c->kv.dtype,
        .hold = row->keep,
    };

    (void)thread;
    cpu_early_conv(j->c, j->layer, task / j->groups, first, t.n);
    for (uint32_t i = 0; i <= row->n_saves; i++) {
        struct part p = row_part(row, i);

        t.in = j->s->qkv + from + (size_t)p.first * j->channels;
        t.out = j->s->u + from + (size_t)p.first * j->channels;
        t.n_tokens = p.n;
        if (p.n > 0) {
            j->c->isa->conv(&t);
        }
        if (p.save) {
            save_tail(j, &t, first, p.save->page);
        }
    }
}

/* Computes in double, so that every libm gives the same float32. */
static float delta_decay(const struct deltanet_weights *w, uint32_t head,
                         float a)
{
    double x = (double)a + (double)w->dt_bias[head];
    /* Past 20, log1p(exp(x)) equals x to float32 and exp may overflow. */
    double soft = x > 20.0 ? x : log1p(exp(x));

    return (float)exp(-exp((double)w->a_log[head]) * soft);
}

static float delta_beta(float b)
{
    return (float)(1.0 / (1.0 + exp(-(double)b)));
}

static void compute_gates(const struct delta_job *j, uint32_t t)
{
    float *b = j->s->b + (size_t)t * j->m->n_v_heads;
    float *a = j->s->a + (size_t)t * j->m->n_v_heads;

    for (uint32_t h = 0; h < j->m->n_v_heads; h++) {
        a[h] = delta_decay(j->w, h, a[h]);
        b[h] = delta_beta(b[h]);
    }
}

/* Per token, since the norms of q and k span the channels of a head. */
static void unit_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct delta_job *j = arg;
    uint32_t dk = j->m->k_dim, hk = j->m->n_k_heads;
    float *q = j->s->u + (size_t)t * j->channels;
    float *k = q + (size_t)hk * dk;
    float scale = 1.0f / sqrtf((float)dk);

    (void)thread;
    for (uint32_t h = 0; h < hk; h++) {
        j->c->isa->l2_norm(q + (size_t)h * dk, dk, CPU_L2_EPS, scale);
        j->c->isa->l2_norm(k + (size_t)h * dk, dk, CPU_L2_EPS, 1.0f);
    }
    compute_gates(j, t);
}

static void early_task(void *arg, uint32_t row, uint32_t thread)
{
    const struct delta_job *j = arg;

    (void)thread;
    cpu_early_norm(j->c, j->layer, row);
}

/* Sets what the tokens of a part read and write. */
static void take_part(const struct delta_job *j, const struct kernel_row *row,
                      const struct part *p, uint32_t head, uint32_t column,
                      struct delta_task *t)
{
    const struct model_shape *m = j->m;
    size_t at = (size_t)row->first + p->first, hv = m->n_v_heads;
    uint32_t k_head = head / (m->n_v_heads / m->n_k_heads);
    size_t keys = (size_t)m->n_k_heads * m->k_dim;
    size_t value = (size_t)head * m->v_dim + column;
    const float *u = j->s->u + at * j->channels;

    t->q = u + (size_t)k_head * m->k_dim;
    t->k = u + keys + (size_t)k_head * m->k_dim;
    t->v = u + 2 * keys + value;
    t->decay = j->s->a + at * hv + head;
    t->beta = j->s->b + at * hv + head;
    t->o = j->s->y + at * hv * m->v_dim + value;
    t->n_tokens = p->n;
}

/* Takes some columns of one value head's state through all tokens of a row.
 * Columns of the state are independent, so they can be separate tasks. */
static void state_job(void *arg, uint32_t task, uint32_t thread)
{
    const struct delta_job *j = arg;
    const struct model_shape *m = j->m;
    uint32_t hv = m->n_v_heads, dk = m->k_dim, dv = m->v_dim;
    const struct kernel_row *row = &j->c->step->rows[task / (j->groups * hv)];
    uint32_t head = task / j->groups % hv;
    uint32_t first = task % j->groups * STATE_COLUMNS, left = dv - first;
    size_t at = (size_t)head * dk * dv + first;
    struct delta_task t = {
        .state = cpu_state(j->c, j->layer, row->slot) + at,
        .block = j->c->lanes[thread].state,
        .ld_state = dv,
        .ld_qk = j->channels,
        .ld_v = j->channels,
        .ld_gate = hv,
        .ld_o = (size_t)hv * dv,
        .dk = dk,
        .n = left < STATE_COLUMNS ? left : STATE_COLUMNS,
        .hold = row->keep,
    };

    cpu_early_state(j->c, j->layer, (uint32_t)(row - j->c->step->rows), head,
                    first, t.n, t.block);
    for (uint32_t i = 0; i <= row->n_saves; i++) {
        struct part p = row_part(row, i);

        take_part(j, row, &p, head, first, &t);
        if (p.n > 0) {
            j->c->isa->delta(&t);
        }
        if (p.save) {
            float *to = cpu_state(j->c, j->layer, p.save->page) + at;

            copy_rows((char *)to, (const char *)t.state, dk,
                      t.n * sizeof(float), dv * sizeof(float));
        }
    }
    cpu_tick(j->c);
}

/* Keeps the inputs of a token.  Not before the state: a replay may have read
 * the same place. */
static void keep_token(const struct delta_job *j, uint32_t t)
{
    const struct kernel_row *row = &j->c->step->rows[j->c->row_of[t]];
    const struct cpu_kept *kept = &j->c->layers[j->layer].kept;
    size_t keys = (size_t)j->m->n_k_heads * j->m->k_dim;
    size_t rest = j->channels - keys, hv = j->m->n_v_heads;
    size_t at = (size_t)row->keep_at + t - row->first;
    const float *in = j->s->qkv + (size_t)t * j->channels;

    if (row->keep) {
        j->c->isa->narrow(kept->q + at * keys * dtype_bytes(j->c->kv.dtype), in,
                          j->c->kv.dtype, keys);
        memcpy(kept->kv + at * rest, in + keys, rest * sizeof *in);
        memcpy(kept->beta + at * hv, j->s->b + t * hv, hv * sizeof *in);
        memcpy(kept->decay + at * hv, j->s->a + t * hv, hv * sizeof *in);
    }
}

/* y = norm(o) * gamma * silu(z), head by head; overwrites z. */
static void gate_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct delta_job *j = arg;
    size_t hv = j->m->n_v_heads, dv = j->m->v_dim;
    float *y = j->s->y + t * hv * dv, *z = j->s->z + t * hv * dv;

    (void)thread;
    keep_token(j, t);
    for (size_t h = 0; h < hv; h++) {
        j->c->isa->rms_norm(y + h * dv, y + h * dv, j->w->norm, (uint32_t)dv,
                            j->m->norm_eps);
    }
    /* SiLU, whatever the activation of the MLPs. */
    j->c->isa->activate(&(struct activation_task){
        .gate = z, .up = y, .n = hv * dv, .kind = ACTIVATION_SILU});
}

static void project_inputs(const struct delta_job *j)
{
    const struct deltanet_weights *w = j->w;
    const float *x = j->c->n;
    uint32_t n = j->c->step->n_tokens;
    const struct cpu_product in[] = {
        cpu_product_of(&w->qkv, NULL, x, n, j->s->qkv),
        cpu_product_of(&w->z, NULL, x, n, j->s->z),
        cpu_product_of(&w->b, NULL, x, n, j->s->b),
        cpu_product_of(&w->a, NULL, x, n, j->s->a),
    };

    cpu_matmul(j->c, in, 4);
}

/* Each pass needs all channels of the one before, so the passes are
 * separate. */
static void mix_rows(struct delta_job *j)
{
    struct cpu *c = j->c;
    uint32_t rows = c->step->n_rows, n = c->step->n_tokens;
    size_t wide = (size_t)n * j->channels;
    size_t state = cpu_state_floats(c) * n;

    j->groups = (j->channels + CONV_CHANNELS - 1) / CONV_CHANNELS;
    cpu_run(c, conv_job, j, rows * j->groups, wide * 16);
    cpu_run(c, unit_task, j, n, wide * 4);
    if (c->layers[j->layer].waits) {
        cpu_run(c, early_task, j, rows, rows * (size_t)j->channels * 4);
    }
    j->groups = (j->m->v_dim + STATE_COLUMNS - 1) / STATE_COLUMNS;
    cpu_run(c, state_job, j, rows * j->m->n_v_heads * j->groups, state * 4);
    cpu_run(c, gate_task, j, n, wide * 8);
    c->layers[j->layer].waits = false;
}

static void run(struct cpu *c, uint32_t layer)
{
    const struct layer_weights *w = cpu_weights(c, layer);
    const struct model_shape *m = &c->w->shape;
    struct delta_job j = {
        .c = c,
        .w = &w->mixer.deltanet,
        .layer = layer,
        .s = &c->of[CPU_DELTA].delta,
        .m = m,
        .channels = (uint32_t)channels(m),
    };

    project_inputs(&j);
    mix_rows(&j);
    cpu_add_product(c, &j.w->out, NULL, j.s->z, w->mixer_norm);
}

const struct cpu_mixer cpu_mixer_deltanet = {
    .cut = cut,
    .cut_layer = cut_layer,
    .load = load,
    .matrices = matrices,
    .run = run,
    .waits = true,
};
