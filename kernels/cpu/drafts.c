/* drafts.c - replay of kept inputs, and what the MTP layer has beside its
 * mixer and feed-forward. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* ---- replay ---- */

struct replay_job {
    struct cpu *c;
    const struct model_shape *m;
    const struct kernel_replay *replays;
    uint32_t n;
    size_t keys; /* Hk*Dk */
    size_t rest; /* Hk*Dk + Hv*Dv */
};

/* Kept inputs of one key head and its value heads. */
struct replay_part {
    uint32_t layer, slot, k_head;
    size_t at;  /* of the first in the kept inputs */
    uint32_t n; /* at most KERNELS_KEEP_MAX */
};

/* Convolves n channels from that of `channel`, counted from the first of k. */
static void convolve(const struct replay_job *j, const struct replay_part *p,
                     size_t channel, uint32_t n, float *out)
{
    const struct cpu_layer *l = &j->c->layers[p->layer];
    char *tail = cpu_tail(j->c, p->layer, p->slot);
    size_t at = j->keys + channel;
    const struct conv_task t = {
        .in = l->kept.kv + p->at * j->rest + channel,
        .out = out,
        .w = l->conv + at,
        .tail = tail == NULL ? NULL : tail + at * dtype_bytes(j->c->kv.dtype),
        .ld = j->rest,
        .ld_out = n,
        .ld_w = j->keys + j->rest,
        .n_tokens = p->n,
        .n = n,
        .k = j->m->conv,
        .dtype = j->c->kv.dtype,
    };

    j->c->isa->conv(&t);
}

/* Moves the queries of a key head, which are as the tail has them, into the
 * tail. */
static void shift_queries(const struct replay_job *j,
                          const struct replay_part *p)
{
    const struct cpu_layer *l = &j->c->layers[p->layer];
    size_t item = dtype_bytes(j->c->kv.dtype), bytes = j->m->k_dim * item;
    size_t column = p->k_head * bytes, row = (j->keys + j->rest) * item;
    char *tail = cpu_tail(j->c, p->layer, p->slot);
    uint32_t past = j->m->conv - 1;

    for (uint32_t i = 0; i < past; i++) {
        uint32_t from = i + p->n; /* of the tail, then the kept ones */
        const char *q =
            from < past ? tail + from * row
                        : l->kept.q + (p->at + from - past) * j->keys * item;

        memcpy(tail + i * row + column, q + column, bytes);
    }
}

/* Advances the state of one value head. */
static void advance(const struct replay_job *j, const struct replay_part *p,
                    uint32_t head, const struct cpu_lane *of)
{
    const struct model_shape *m = j->m;
    const struct cpu_draft_lane *lane = &of->draft;
    const struct cpu_layer *l = &j->c->layers[p->layer];
    const struct deltanet_weights *w =
        &cpu_weights(j->c, p->layer)->mixer.deltanet;
    struct delta_task t = {
        .block = of->state,
        .k = lane->k,
        .decay = lane->decay,
        .beta = lane->beta,
        .ld_state = m->v_dim,
        .ld_qk = m->k_dim,
        .ld_v = m->v_dim,
        .ld_gate = 1,
        .n_tokens = p->n,
        .dk = m->k_dim,
    };
    float *state =
        cpu_state(j->c, p->layer, p->slot) + (size_t)head * m->k_dim * m->v_dim;

    for (uint32_t i = 0; i < p->n; i++) {
        size_t at = (p->at + i) * m->n_v_heads + head;

        lane->decay[i] = cpu_delta_decay(w, head, l->kept.a[at]);
        lane->beta[i] = cpu_delta_beta(l->kept.b[at]);
    }
    convolve(j, p, j->keys + (size_t)head * m->v_dim, m->v_dim, lane->v);
    for (uint32_t first = 0; first < m->v_dim; first += STATE_COLUMNS) {
        uint32_t left = m->v_dim - first;

        t.n = left < STATE_COLUMNS ? left : STATE_COLUMNS;
        t.state = state + first;
        t.v = lane->v + first;
        j->c->isa->delta(&t);
    }
}

static void replay_part(const struct replay_job *j, const struct replay_part *p,
                        const struct cpu_lane *lane)
{
    const struct model_shape *m = j->m;
    float *k = lane->draft.k;
    uint32_t group = m->n_v_heads / m->n_k_heads;

    shift_queries(j, p);
    convolve(j, p, (size_t)p->k_head * m->k_dim, m->k_dim, k);
    for (uint32_t i = 0; i < p->n; i++) {
        j->c->isa->l2_norm(k + (size_t)i * m->k_dim, m->k_dim, CPU_L2_EPS,
                           1.0f);
    }
    for (uint32_t h = 0; h < group; h++) {
        advance(j, p, p->k_head * group + h, lane);
    }
}

static void replay_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct replay_job *j = arg;
    uint32_t hk = j->m->n_k_heads;
    const struct kernel_replay *r = &j->replays[task / hk % j->n];
    const struct replay_part p = {
        .layer = j->c->linear[task / hk / j->n],
        .slot = r->slot,
        .k_head = task % hk,
        .at = r->keep_at,
        .n = r->n_tokens,
    };

    replay_part(j, &p, &j->c->lanes[thread]);
    cpu_tick(j->c);
}

void cpu_replay(struct kernels *k, const struct kernel_replay *r, uint32_t n)
{
    struct cpu *c = cpu_of(k);
    const struct model_shape *m = &c->w->shape;
    struct replay_job j = {
        .c = c,
        .m = m,
        .replays = r,
        .n = n,
        .keys = (size_t)m->n_k_heads * m->k_dim,
        .rest =
            (size_t)m->n_k_heads * m->k_dim + (size_t)m->n_v_heads * m->v_dim,
    };
    size_t tokens = 0;

    for (uint32_t i = 0; i < n; i++) {
        assert(r[i].n_tokens <= KERNELS_KEEP_MAX &&
               r[i].n_tokens <= c->keep_tokens &&
               r[i].keep_at <= c->keep_tokens - r[i].n_tokens);
        tokens += r[i].n_tokens;
    }
    cpu_run(c, replay_task, &j, c->n_linear * n * m->n_k_heads,
            c->n_linear * tokens * cpu_state_floats(c) * 4);
}

/* ---- the MTP layer ---- */

struct input_job {
    struct cpu *c;
    const uint32_t *from; /* [n_tokens] rows of h */
};

/* Norms the embedding in place, and h beside it. */
static void pair_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct input_job *j = arg;
    const struct cpu *c = j->c;
    const struct mtp_weights *w = c->w->mtp;
    uint32_t hidden = c->w->shape.hidden;
    float eps = c->w->shape.norm_eps, *pair = c->pair + 2 * (size_t)t * hidden;

    (void)thread;
    c->isa->rms_norm(pair, pair, w->embed_norm, hidden, eps);
    c->isa->rms_norm(pair + hidden, c->h + (size_t)j->from[t] * hidden,
                     w->hidden_norm, hidden, eps);
}

void cpu_draft_input(struct kernels *k, const uint32_t *tokens,
                     const uint32_t *from)
{
    struct cpu *c = cpu_of(k);
    size_t hidden = c->w->shape.hidden;
    uint32_t n = c->step->n_tokens;
    struct input_job j = {c, from};
    const struct cpu_product out =
        cpu_product_of(&c->w->mtp->fc, NULL, c->pair, n, c->x);

    c->drafting = true;
    cpu_embed_rows(c, tokens, c->pair, 2 * hidden);
    cpu_run(c, pair_task, &j, n, n * hidden * 4);
    cpu_matmul(c, &out, 1);
    cpu_tick(c);
}

void cpu_keep_hidden(struct kernels *k)
{
    struct cpu *c = cpu_of(k);

    cpu_norm(c, c->h, c->x, c->step->n_tokens, cpu_last_norm(c));
    cpu_tick(c);
}
