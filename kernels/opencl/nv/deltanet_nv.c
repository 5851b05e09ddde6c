#include "kernels/opencl/nv/deltanet_nv.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"

#define DIM  128u /* Dk and Dv */
#define LEN  64u  /* tokens of a chunk */
#define COLS 32u  /* columns of the state per work-group of the scan */
#define WG   256u
#define FEW  64u /* work-groups of chunks that leave most units idle */

struct opencl_deltanet_nv {
    struct opencl_kernel *decode;       /* of rows that neither save nor keep */
    struct opencl_kernel *decode_keeps; /* of rows that do not save */
    struct opencl_kernel *decode_saves, *replay;
    struct opencl_kernel *chunks, *chunks_few; /* in a launch of few */
    struct opencl_kernel *scan, *norm;
    struct opencl_tensor kq;      /* [T, Hk*4*Dk] bf16 */
    struct opencl_tensor v;       /* [T, Hv*Dv] f32: v, then o */
    struct opencl_tensor tp;      /* [T, Hv*4*LEN] bf16 */
    struct opencl_tensor gates;   /* [T, Hv*4] f32 */
    struct opencl_tensor tickets; /* [max_rows, Hk] u32, 0 between steps */
    bool zeroed;
};

static const struct opencl_variant decode = {
    .file = "nv_deltanet_row+nv_deltanet_decode",
    .kernel = "deltanet_decode",
    .wg = WG};
static const struct opencl_variant replay = {
    .file = "nv_deltanet_row+nv_deltanet_replay",
    .kernel = "deltanet_replay",
    .wg = WG};
static const struct opencl_variant chunks = {
    .file = "nv_deltanet_chunks", .kernel = "deltanet_chunks", .wg = WG};
static const struct opencl_variant scan = {
    .file = "nv_deltanet_scan", .kernel = "deltanet_scan", .wg = WG};
static const struct opencl_variant norm = {
    .file = "nv_deltanet_norm", .kernel = "deltanet_norm", .wg = WG};

/* The conditions are those of the .cl files ("Defines", "Needs"). */
static bool fits_model(const struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    return !c->portable && c->device.nvidia >= 80 && s->k_dim == DIM &&
           s->v_dim == DIM && s->n_v_heads % 2 == 0 && s->conv >= 2;
}

static void request_scratch(struct opencl *c, struct opencl_deltanet_nv *nv)
{
    const struct model_shape *s = &c->w->shape;
    const enum opencl_part part = OPENCL_IN_DELTANET;
    const size_t n = c->sizes.max_tokens, hk = s->n_k_heads;
    const size_t hv = s->n_v_heads;

    opencl_scratch(c, part, &nv->kq, n, hk * 4 * DIM, 2);
    opencl_scratch(c, part, &nv->v, n, hv * DIM, sizeof(float));
    opencl_scratch(c, part, &nv->tp, n, hv * 4 * LEN, 2);
    opencl_scratch(c, part, &nv->gates, n, hv * 4, sizeof(float));
    opencl_scratch(c, OPENCL_KEEP, &nv->tickets, c->sizes.max_rows, hk,
                   sizeof(uint32_t));
}

static enum status choose_kernels(struct opencl *c,
                                  struct opencl_deltanet_nv *nv,
                                  const char *defines, struct error *e)
{
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *of;
        const char *define;
    } all[] = {{&nv->decode, &decode, "-DSAVES=0 -DKEEPS=0 -DAHEAD=1"},
               {&nv->decode_keeps, &decode, "-DSAVES=0 -DKEEPS=1 -DAHEAD=4"},
               {&nv->decode_saves, &decode, "-DSAVES=1 -DKEEPS=1 -DAHEAD=1"},
               {&nv->replay, &replay, "-DAHEAD=4"},
               {&nv->chunks, &chunks, "-DAPART=0 -DAHEAD=8"},
               {&nv->chunks_few, &chunks, "-DAPART=1 -DAHEAD=32"},
               {&nv->scan, &scan, ""},
               {&nv->norm, &norm, ""}};
    enum status st = ST_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all && st == ST_OK; i++) {
        char both[128];

        (void)snprintf(both, sizeof both, "%s %s", defines, all[i].define);
        st = opencl_choose(c, all[i].out, all[i].of, 1, NULL, both, e);
    }
    return st;
}

enum status opencl_deltanet_nv_setup(struct opencl *c,
                                     struct opencl_deltanet_nv **out,
                                     const char *defines, struct error *e)
{
    struct error why = {0};

    *out = NULL;
    if (!fits_model(c)) {
        return ST_OK;
    }
    *out = calloc(1, sizeof **out);
    if (!*out) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    if (choose_kernels(c, *out, defines, &why) != ST_OK) {
        /* Not an error: the portable kernels compute the same operator. */
        log_warn("kernel-refused", "kernel=nv_deltanet text=\"%s\"", why.text);
        opencl_deltanet_nv_free(out);
        return ST_OK;
    }
    request_scratch(c, *out);
    return ST_OK;
}

void opencl_deltanet_nv_free(struct opencl_deltanet_nv **nv)
{
    free(*nv);
    *nv = NULL;
}

/* Returns the bytes of n rows' states, read and written once. */
static uint64_t state_bytes(const struct opencl *c, uint32_t n)
{
    return (uint64_t)n * c->w->shape.n_v_heads * DIM * DIM * sizeof(float) * 2;
}

static void run_decode(struct opencl *c, const struct opencl_deltanet_nv *nv,
                       const struct opencl_layer *l,
                       const struct opencl_deltanet_io *io)
{
    const struct opencl_deltanet_weights *w = &l->deltanet;
    const uint32_t n = c->step.n_gen_rows;
    struct opencl_call a = opencl_call(c, c->step.gen_saves ? nv->decode_saves
                                          : c->step.keeps   ? nv->decode_keeps
                                                            : nv->decode);
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {c->w->shape.n_v_heads * local[0], n};

    opencl_arg_tensor(&a, io->y);
    opencl_arg_tensor(&a, &io->kept);
    opencl_arg_tensor(&a, &io->kept_q);
    opencl_arg_tensor(&a, &nv->tickets);
    opencl_arg_tensor(&a, &l->state);
    opencl_arg_tensor(&a, &l->tail);
    opencl_arg_u32(&a, l->state.cols);
    opencl_arg_tensor(&a, io->in);
    opencl_arg_tensor(&a, &w->conv);
    opencl_arg_tensor(&a, &w->a_log);
    opencl_arg_tensor(&a, &w->dt_bias);
    opencl_arg_tensor(&a, &w->norm);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, 0);
    opencl_arg_u32(&a, n);
    opencl_launch(&a, 2, global, local, state_bytes(c, n));
}

/* Returns the chunks of the longest prompt row. */
static uint32_t most_chunks(const struct opencl *c)
{
    uint32_t most = 0;

    for (uint32_t i = c->step.n_gen_rows; i < c->step.n_rows; i++) {
        const struct kernel_row *r = &c->step.rows[i];
        /* Chunks end at absolute multiples of LEN, so a row may begin inside
         * one. */
        uint32_t n = (r->position % LEN + r->n_tokens + LEN - 1) / LEN;

        most = n > most ? n : most;
    }
    return most;
}

/* Everything that needs no state, for all chunks in parallel. */
static void run_chunks(struct opencl *c, const struct opencl_deltanet_nv *nv,
                       const struct opencl_layer *l,
                       const struct opencl_tensor *in)
{
    const struct opencl_deltanet_weights *w = &l->deltanet;
    const struct opencl_step *s = &c->step;
    const uint32_t hk = c->w->shape.n_k_heads, most = most_chunks(c);
    const uint32_t n = s->n_rows - s->n_gen_rows;
    const bool is_few = (uint64_t)hk * most * n <= FEW;
    struct opencl_call a = opencl_call(c, is_few ? nv->chunks_few : nv->chunks);
    const size_t local[3] = {WG, 1, 1};
    const size_t global[3] = {(is_few ? 2 : 1) * hk * local[0], most, n};

    opencl_arg_tensor(&a, &nv->kq);
    opencl_arg_tensor(&a, &nv->v);
    opencl_arg_tensor(&a, &nv->tp);
    opencl_arg_tensor(&a, &nv->gates);
    opencl_arg_tensor(&a, in);
    opencl_arg_tensor(&a, &l->tail);
    opencl_arg_u32(&a, l->state.cols);
    opencl_arg_tensor(&a, &w->conv);
    opencl_arg_tensor(&a, &w->a_log);
    opencl_arg_tensor(&a, &w->dt_bias);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, s->n_gen_rows);
    opencl_launch(&a, 3, global, local,
                  (uint64_t)(s->n_tokens - s->n_gen) * in->cols *
                      sizeof(float));
}

/* Runs the state through the chunks, which is the only serial part. */
static void run_scan(struct opencl *c, const struct opencl_deltanet_nv *nv,
                     const struct opencl_layer *l,
                     const struct opencl_tensor *in)
{
    const uint32_t n = c->step.n_rows - c->step.n_gen_rows;
    struct opencl_call a = opencl_call(c, nv->scan);
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {c->w->shape.n_v_heads * (DIM / COLS) * local[0],
                              n};

    opencl_arg_tensor(&a, &nv->v);
    opencl_arg_tensor(&a, &l->state);
    opencl_arg_tensor(&a, &l->tail);
    opencl_arg_u32(&a, l->state.cols);
    opencl_arg_tensor(&a, &nv->kq);
    opencl_arg_tensor(&a, &nv->tp);
    opencl_arg_tensor(&a, &nv->gates);
    opencl_arg_tensor(&a, in);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, c->step.n_gen_rows);
    opencl_launch(&a, 2, global, local, state_bytes(c, n));
}

static void run_norm(struct opencl *c, const struct opencl_deltanet_nv *nv,
                     const struct opencl_layer *l,
                     const struct opencl_tensor *y,
                     const struct opencl_tensor *in)
{
    const uint32_t n = c->step.n_tokens - c->step.n_gen;
    struct opencl_call a = opencl_call(c, nv->norm);
    const size_t heads = WG / 32; /* per work-group */
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {
        (c->w->shape.n_v_heads + heads - 1) / heads * local[0], n};

    opencl_arg_tensor(&a, y);
    opencl_arg_tensor(&a, &nv->v);
    opencl_arg_tensor(&a, in);
    opencl_arg_tensor(&a, &l->deltanet.norm);
    opencl_arg_u32(&a, c->step.n_gen);
    opencl_arg_u32(&a, n);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)n * nv->v.cols * sizeof(float) * 2);
}

struct opencl_kernel *opencl_deltanet_nv_replay(struct opencl_deltanet_nv *nv)
{
    return nv->replay;
}

void opencl_deltanet_nv(struct opencl *c, struct opencl_deltanet_nv *nv,
                        const struct opencl_layer *l,
                        const struct opencl_deltanet_io *io)
{
    /* Once is enough: the kernels leave their tickets at 0. */
    if (!nv->zeroed) {
        opencl_zero(c, &nv->tickets, 0,
                    (size_t)nv->tickets.rows * nv->tickets.cols *
                        nv->tickets.item);
        nv->zeroed = true;
    }
    run_decode(c, nv, l, io);
    run_chunks(c, nv, l, io->in);
    run_scan(c, nv, l, io->in);
    run_norm(c, nv, l, io->y, io->in);
}
