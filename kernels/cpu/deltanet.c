/* deltanet.c - the Gated DeltaNet mixer; the formulas are in docs/model.md. */
#include "kernels/cpu/cpu.h"

#include <math.h>

#define L2_EPS 1e-6f

struct delta_job {
    struct cpu *c;
    const struct deltanet_weights *w;
    const struct cpu_layer *layer;
    const struct cpu_delta_scratch *s;
    const struct model_shape *m;
    uint32_t channels; /* C */
    uint32_t groups;   /* tasks of a row: groups of channels or of columns */
};

static void conv_job(void *arg, uint32_t task, uint32_t thread)
{
    const struct delta_job *j = arg;
    const struct kernel_row *row = &j->c->step->rows[task / j->groups];
    uint32_t first = task % j->groups * CONV_CHANNELS;
    uint32_t left = j->channels - first;
    size_t from = (size_t)row->first * j->channels + first;
    size_t tail = cpu_tail_bytes(j->c); /* 0 for a convolution of width 1 */
    struct conv_task t = {
        .in = j->s->qkv + from,
        .out = j->s->u + from,
        .w = j->layer->conv + first,
        .tail = tail == 0 ? NULL
                          : j->layer->tail + row->slot * tail +
                                first * dtype_bytes(j->c->kv_dtype),
        .ld = j->channels,
        .ld_w = j->channels,
        .n_tokens = row->n_tokens,
        .n = left < CONV_CHANNELS ? left : CONV_CHANNELS,
        .k = j->m->conv,
        .dtype = j->c->kv_dtype,
    };

    (void)thread;
    j->c->isa->conv(&t);
}

/* Computes in double, so that every libm gives the same float32: beta =
 * sigmoid(b), g = exp(-exp(A_log) softplus(a + dt_bias)). */
static void compute_gates(const struct delta_job *j, uint32_t t)
{
    float *b = j->s->b + (size_t)t * j->m->n_v_heads;
    float *a = j->s->a + (size_t)t * j->m->n_v_heads;

    for (uint32_t h = 0; h < j->m->n_v_heads; h++) {
        double x = (double)a[h] + (double)j->w->dt_bias[h];
        /* Past 20, log1p(exp(x)) equals x to float32 and exp may overflow. */
        double soft = x > 20.0 ? x : log1p(exp(x));

        a[h] = (float)exp(-exp((double)j->w->a_log[h]) * soft);
        b[h] = (float)(1.0 / (1.0 + exp(-(double)b[h])));
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
        j->c->isa->l2_norm(q + (size_t)h * dk, dk, L2_EPS, scale);
        j->c->isa->l2_norm(k + (size_t)h * dk, dk, L2_EPS, 1.0f);
    }
    compute_gates(j, t);
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
    uint32_t k_head = head / (hv / m->n_k_heads);
    const float *u = j->s->u + (size_t)row->first * j->channels;
    size_t value = (size_t)head * dv + first;
    size_t keys = (size_t)m->n_k_heads * dk;
    struct delta_task t = {
        .state = j->layer->state + row->slot * cpu_state_floats(j->c) +
                 (size_t)head * dk * dv + first,
        .q = u + (size_t)k_head * dk,
        .k = u + keys + (size_t)k_head * dk,
        .v = u + 2 * keys + value,
        .decay = j->s->a + (size_t)row->first * hv + head,
        .beta = j->s->b + (size_t)row->first * hv + head,
        .o = j->s->y + (size_t)row->first * hv * dv + value,
        .ld_state = dv,
        .ld_qk = j->channels,
        .ld_v = j->channels,
        .ld_gate = hv,
        .ld_o = (size_t)hv * dv,
        .n_tokens = row->n_tokens,
        .dk = dk,
        .n = left < STATE_COLUMNS ? left : STATE_COLUMNS,
    };

    (void)thread;
    j->c->isa->delta(&t);
    cpu_tick(j->c);
}

/* y = norm(o) * gamma * silu(z), head by head; overwrites z. */
static void gate_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct delta_job *j = arg;
    size_t hv = j->m->n_v_heads, dv = j->m->v_dim;
    float *y = j->s->y + t * hv * dv, *z = j->s->z + t * hv * dv;

    (void)thread;
    for (size_t h = 0; h < hv; h++) {
        j->c->isa->rms_norm(y + h * dv, y + h * dv, j->w->norm, (uint32_t)dv,
                            j->m->norm_eps);
    }
    j->c->isa->silu_mul(z, y, hv * dv);
}

static void project_inputs(const struct delta_job *j)
{
    const struct deltanet_weights *w = j->w;
    uint32_t hv = j->m->n_v_heads;
    const struct cpu_product in[] = {
        {&w->qkv, NULL, j->s->qkv, j->channels, false},
        {&w->z, NULL, j->s->z, w->z.rows, false},
        {&w->b, NULL, j->s->b, hv, false},
        {&w->a, NULL, j->s->a, hv, false},
    };

    cpu_matmul(j->c, j->c->n, j->c->step->n_tokens, in, 4);
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
    j->groups = (j->m->v_dim + STATE_COLUMNS - 1) / STATE_COLUMNS;
    cpu_run(c, state_job, j, rows * j->m->n_v_heads * j->groups, state * 4);
    cpu_run(c, gate_task, j, n, wide * 8);
}

void cpu_deltanet(struct kernels *k, uint32_t layer)
{
    struct cpu *c = cpu_of(k);
    const struct layer_weights *w = cpu_weights(c, layer);
    const struct model_shape *m = &c->w->shape;
    struct delta_job j = {
        .c = c,
        .w = &w->mixer.deltanet,
        .layer = &c->layers[layer],
        .s = &c->of[CPU_DELTA].delta,
        .m = m,
        .channels = 2 * m->n_k_heads * m->k_dim + m->n_v_heads * m->v_dim,
    };
    const struct cpu_product out = {&j.w->out, NULL, c->x, m->hidden, true};

    cpu_norm(c, c->n, c->x, c->step->n_tokens, w->input_norm);
    project_inputs(&j);
    mix_rows(&j);
    cpu_matmul(c, j.s->z, c->step->n_tokens, &out, 1);
    cpu_tick(c);
}
