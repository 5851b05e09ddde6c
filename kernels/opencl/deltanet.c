#include "kernels/opencl/deltanet.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/mixer.h"
#include "kernels/opencl/nv/deltanet_nv.h"
#include "kernels/opencl/operators.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/rows.h"

#define WG_TAIL 64

/* A linear layer's places, as PLACES of common.cl. */
struct places {
    uint64_t state, tail, conv, a_log, dt_bias, page;
};

/* As ASK of common.cl. */
struct ask {
    uint32_t slot, kept, n_tokens;
};

struct opencl_deltanet {
    struct opencl_deltanet_nv *nv; /* NVIDIA's kernels; NULL: the portable
                                    * ones */
    struct opencl_kernel *decode, *prefill, *replay, *tail;
    struct opencl_tensor in; /* [T, C + Hv*Dv + 2*Hv] f32: u, z, b, a */
    struct opencl_tensor y;  /* [T, Hv*Dv] operand dtype */
    /* Kept inputs, as in deltanet.cl, a row for each linear layer: k, v, b, a
     * [keep_tokens, ..] f32, and q [keep_tokens, Hk*Dk] kv_dtype. */
    struct opencl_tensor kept, kept_q;
    struct opencl_tensor places; /* [linear layers] struct places */
    struct opencl_tensor asks;   /* [max_rows] struct ask */
    struct ask *asks_host;       /* [max_rows] */
    uint32_t n_linear;
};

#define DELTANET                                                        \
    {                                                                   \
        .file = "deltanet_row+deltanet", .kernel = "deltanet", .wg = 64 \
    }

static const struct opencl_variant decode[] = {DELTANET};
static const struct opencl_variant prefill[] = {DELTANET};
static const struct opencl_variant replay[] = {
    {.file = "deltanet_row+deltanet_replay",
     .kernel = "deltanet_replay",
     .wg = 64},
};
static const struct opencl_variant tail[] = {
    {.file = "deltanet_tail", .kernel = "deltanet_tail", .wg = WG_TAIL},
};

/* All layers of a kind have the same shape, so the first stands for all. */
static const struct opencl_layer *first_of(const struct opencl *c)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        if (c->model.layers[i].kind == MIXER_DELTANET) {
            return &c->model.layers[i];
        }
    }
    return NULL;
}

/* Returns the linear layers before layer `end`. */
static uint32_t linear_before(const struct opencl *c, uint32_t end)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < end; i++) {
        n += c->model.layers[i].kind == MIXER_DELTANET;
    }
    return n;
}

static void request_scratch(struct opencl *c, const struct opencl_layer *l)
{
    struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    const struct model_shape *s = &c->w->shape;
    const size_t keys = (size_t)s->n_k_heads * s->k_dim;
    const size_t values = (size_t)s->n_v_heads * s->v_dim;

    opencl_scratch(c, OPENCL_IN_DELTANET, &d->in, c->sizes.max_tokens,
                   opencl_rows_of(&l->deltanet.in, l->deltanet.rest),
                   sizeof(float));
    opencl_scratch(c, OPENCL_IN_DELTANET, &d->y, c->sizes.max_tokens,
                   l->deltanet.out.cols,
                   dtype_bytes(opencl_operators(c)->matmul->operand));
    if (c->keep_tokens > 0) {
        opencl_scratch(c, OPENCL_KEEP, &d->kept, d->n_linear,
                       c->keep_tokens * (keys + values + 2 * s->n_v_heads),
                       sizeof(float));
        opencl_scratch(c, OPENCL_KEEP, &d->kept_q, d->n_linear,
                       c->keep_tokens * keys, dtype_bytes(c->kv_dtype));
        opencl_scratch(c, OPENCL_KEEP, &d->places, d->n_linear,
                       sizeof(struct places) / sizeof(uint64_t),
                       sizeof(uint64_t));
        opencl_scratch(c, OPENCL_KEEP, &d->asks, c->sizes.max_rows,
                       sizeof(struct ask) / sizeof(uint32_t), sizeof(uint32_t));
    }
}

static enum status choose_kernels(struct opencl *c, const char *defines,
                                  struct error *e)
{
    struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    const bool keeps = c->keep_tokens > 0;
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *v;
        bool wanted;
    } of[] = {{&d->decode, decode, true},
              {&d->prefill, prefill, true},
              {&d->replay, replay, keeps && !d->nv},
              {&d->tail, tail, keeps}};
    enum status st = ST_OK;

    for (size_t i = 0; i < sizeof of / sizeof *of && st == ST_OK; i++) {
        if (of[i].wanted) {
            st = opencl_choose(c, of[i].out, of[i].v, 1, NULL, defines, e);
        }
    }
    return st;
}

enum status opencl_deltanet_setup(struct opencl *c, struct error *e)
{
    const struct opencl_layer *l = first_of(c);
    struct opencl_deltanet *d = calloc(1, sizeof *d);
    char defines[64];
    enum status st;

    opencl_operators(c)->deltanet = d;
    if (d) {
        d->asks_host = calloc(c->sizes.max_rows, sizeof *d->asks_host);
    }
    if (!d || !d->asks_host) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    if (!l) {
        return ST_OK;
    }
    d->n_linear = linear_before(c, shard_layers(c->w));
    (void)snprintf(defines, sizeof defines, "-DOPERAND_DTYPE=%d -DKEEP=%d",
                   (int)opencl_operators(c)->matmul->operand,
                   c->keep_tokens > 0 ? KERNELS_KEEP_MAX : 1);
    request_scratch(c, l);
    st = opencl_deltanet_nv_setup(c, &d->nv, defines, e);
    return st == ST_OK ? choose_kernels(c, defines, e) : st;
}

static const struct opencl_tensor *input(const struct opencl *c)
{
    return &opencl_operators(c)->deltanet->in;
}

void opencl_deltanet_free(struct opencl *c)
{
    if (opencl_operators(c)->deltanet) {
        opencl_deltanet_nv_free(&opencl_operators(c)->deltanet->nv);
        free(opencl_operators(c)->deltanet->asks_host);
    }
    free(opencl_operators(c)->deltanet);
    opencl_operators(c)->deltanet = NULL;
}

/* Returns the part of t that is the linear layer's. */
static struct opencl_tensor
kept_of(const struct opencl *c, const struct opencl_tensor *t, uint32_t layer)
{
    struct opencl_tensor of = *t;

    of.at += linear_before(c, layer) * t->cols * t->item;
    return of;
}

/* Runs rows first .. first + n of the step. */
static void run_rows(struct opencl *c, uint32_t layer,
                     struct opencl_kernel *kernel, uint32_t first, uint32_t n)
{
    const struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_deltanet_weights *w = &l->deltanet;
    const struct opencl_tensor kept = kept_of(c, &d->kept, layer);
    const struct opencl_tensor kept_q = kept_of(c, &d->kept_q, layer);
    struct opencl_call a = opencl_call(c, kernel);
    const size_t local[2] = {kernel->variant->wg, 1};
    const size_t global[2] = {c->w->shape.n_k_heads * local[0], n};

    opencl_arg_tensor(&a, &d->y);
    opencl_arg_tensor(&a, &kept);
    opencl_arg_tensor(&a, &kept_q);
    opencl_arg_tensor(&a, &l->state);
    opencl_arg_tensor(&a, &l->tail);
    opencl_arg_u32(&a, l->state.cols);
    opencl_arg_tensor(&a, &d->in);
    opencl_arg_tensor(&a, &w->conv);
    opencl_arg_tensor(&a, &w->a_log);
    opencl_arg_tensor(&a, &w->dt_bias);
    opencl_arg_tensor(&a, &w->norm);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, first);
    opencl_arg_u32(&a, n);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)n * opencl_state_bytes(c) * 2);
}

static void run(struct kernels *k, uint32_t layer)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_step *s = &c->step;
    const struct opencl_tensor absent = {0};

    /* The MLP before may have computed this layer's first product already. */
    if (!opencl_chain_began(c, layer)) {
        opencl_rows_ready(c, &l->input_norm);
        opencl_project_in(c, &l->deltanet.in, l->deltanet.rest, &absent,
                          &d->in);
    }
    if (d->nv) {
        const struct opencl_deltanet_io io = {&d->y, &d->in,
                                              kept_of(c, &d->kept, layer),
                                              kept_of(c, &d->kept_q, layer)};

        opencl_deltanet_nv(c, d->nv, l, &io);
    } else {
        run_rows(c, layer, d->decode, 0, s->n_gen_rows);
        run_rows(c, layer, d->prefill, s->n_gen_rows,
                 s->n_rows - s->n_gen_rows);
    }
    /* If deferred, the product runs in one launch with the MLP's. */
    if (!opencl_chain_takes(c, layer, &d->y)) {
        opencl_rows_add(c, &d->y, &l->deltanet.out, &absent, &l->mixer_norm,
                        &l->post_norm);
    }
    opencl_operator_end(c);
}

/* ---- replay ---- */

static struct places places_of(const struct opencl_layer *l)
{
    const struct opencl_deltanet_weights *w = &l->deltanet;

    return (struct places){.state = l->state.at / l->state.item,
                           .tail = l->tail.at / l->tail.item,
                           .conv = w->conv.at / w->conv.item,
                           .a_log = w->a_log.at / w->a_log.item,
                           .dt_bias = w->dt_bias.at / w->dt_bias.item,
                           .page = l->state.cols};
}

static void upload_places(struct opencl *c)
{
    struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    uint32_t n = 0;

    if (!c->cache.moved) {
        return;
    }
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        if (c->model.layers[i].kind == MIXER_DELTANET) {
            const struct places p = places_of(&c->model.layers[i]);

            opencl_upload(c, &d->places, n++ * sizeof p, &p, sizeof p);
        }
    }
    c->cache.moved = false;
}

/* Linear layers in one launch, the first by its number among them. */
struct run {
    const struct opencl_layer *of; /* each stands for all */
    uint32_t first, n;
};

static bool shares_memory(const struct opencl_layer *a,
                          const struct opencl_layer *b)
{
    return a->state.mem == b->state.mem &&
           a->deltanet.conv.mem == b->deltanet.conv.mem &&
           a->deltanet.a_log.mem == b->deltanet.a_log.mem &&
           a->deltanet.dt_bias.mem == b->deltanet.dt_bias.mem;
}

static void arg_asks(struct opencl_call *a, const struct run *r)
{
    const struct opencl_deltanet *d = opencl_operators(a->c)->deltanet;

    opencl_arg_tensor(a, &d->places);
    opencl_arg_tensor(a, &d->asks);
    opencl_arg_u32(a, r->first);
    opencl_arg_u32(a, a->c->keep_tokens);
}

static void replay_states(struct opencl *c, const struct run *r, uint32_t n)
{
    const struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    const struct opencl_deltanet_weights *w = &r->of->deltanet;
    struct opencl_kernel *k =
        d->nv ? opencl_deltanet_nv_replay(d->nv) : d->replay;
    struct opencl_call a = opencl_call(c, k);
    const uint32_t heads =
        d->nv ? c->w->shape.n_v_heads : c->w->shape.n_k_heads;
    const size_t local[3] = {k->variant->wg, 1, 1};
    const size_t global[3] = {heads * local[0], r->n, n};

    opencl_arg_memory(&a, &r->of->state);
    opencl_arg_memory(&a, &r->of->tail);
    opencl_arg_memory(&a, &w->conv);
    opencl_arg_memory(&a, &w->a_log);
    opencl_arg_memory(&a, &w->dt_bias);
    opencl_arg_tensor(&a, &d->kept);
    arg_asks(&a, r);
    opencl_launch(&a, 3, global, local,
                  (uint64_t)n * r->n * opencl_state_bytes(c) * 2);
}

/* Behind all states of its slots, which read the old tails. */
static void replay_tails(struct opencl *c, const struct run *r, uint32_t n)
{
    const struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    const size_t channels = r->of->deltanet.conv.rows;
    struct opencl_call a = opencl_call(c, d->tail);
    const size_t local[3] = {WG_TAIL, 1, 1};
    const size_t global[3] = {(channels + WG_TAIL - 1) / WG_TAIL * WG_TAIL,
                              r->n, n};

    opencl_arg_memory(&a, &r->of->tail);
    opencl_arg_tensor(&a, &d->kept);
    opencl_arg_tensor(&a, &d->kept_q);
    arg_asks(&a, r);
    opencl_launch(&a, 3, global, local,
                  (uint64_t)n * r->n * opencl_tail_bytes(c) * 2);
}

static void replay_run(struct opencl *c, const struct run *r, uint32_t n)
{
    if (r->n > 0) {
        replay_states(c, r, n);
        replay_tails(c, r, n);
    }
}

void opencl_replay(struct kernels *k, const struct kernel_replay *r, uint32_t n)
{
    struct opencl *c = opencl_of(k);
    struct opencl_deltanet *d = opencl_operators(c)->deltanet;
    struct run run = {0};

    assert(n <= c->sizes.max_rows);
    if (d->n_linear == 0 || n == 0) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        assert(r[i].keep_at <= c->keep_tokens &&
               r[i].n_tokens <= c->keep_tokens - r[i].keep_at);
        opencl_copies_use(c, r[i].slot, c->cache.pages.pages_per_slot);
        d->asks_host[i] = (struct ask){r[i].slot, r[i].keep_at, r[i].n_tokens};
    }
    opencl_copies_order(c);
    upload_places(c);
    opencl_upload(c, &d->asks, 0, d->asks_host, n * sizeof *d->asks_host);
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        const struct opencl_layer *l = &c->model.layers[i];

        if (l->kind != MIXER_DELTANET) {
            continue;
        }
        if (run.n > 0 && !shares_memory(run.of, l)) {
            replay_run(c, &run, n);
            run = (struct run){.first = run.first + run.n};
        }
        run.of = run.n == 0 ? l : run.of;
        run.n++;
    }
    replay_run(c, &run, n);
    opencl_operator_end(c);
}

static struct opencl_products products(const struct opencl_layer *l)
{
    static const struct opencl_tensor absent;
    const struct opencl_deltanet_weights *w = &l->deltanet;

    return (struct opencl_products){.in = &w->in,
                                    .in_bias = &absent,
                                    .rest = w->rest,
                                    .out = &w->out,
                                    .out_bias = &absent};
}

const struct opencl_mixer opencl_mixer_deltanet = {
    .products = products,
    .input = input,
    .run = run,
};
