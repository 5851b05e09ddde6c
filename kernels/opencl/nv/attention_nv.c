#include "kernels/opencl/nv/attention_nv.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "kernels/opencl/host/formats.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/nv/matmul_nv.h"

#define SPLIT     128u /* SPLIT, SPLITS, CHUNK: as in nv_attention_split.cl */
#define SPLITS    32u
#define KV_SPLITS 16u /* SPLITS of quantised layers */
#define CHUNK     8u
#define ALL       128u /* tokens with room for SPLITS parts each */
#define WG        256u /* of the prefill .cl: 16 rows a warp */
#define ROWS      (WG / 32 * 16)

/* nv_attention_few.cl: rows of a work-group, turns on their way, bytes of local
 * memory beside those, and the most work-groups that are few. */
#define FEW_ROWS   16u
#define FEW_DEPTH  4u
#define FEW_BESIDE (8u << 10)
#define FEW_GROUPS 264u

struct opencl_attention_nv {
    struct opencl_kernel *decode, *prefill; /* of plain layers, or NULL */
    struct opencl_kernel *few; /* the bits of prefill; may be NULL */
    struct opencl_kernel *kv_decode, *kv_prefill; /* of quantised layers; each
                                                   * may be NULL */
    struct opencl_kernel *window_decode, *window_prefill; /* of window layers,
                                                           * or NULL */
    struct opencl_tensor part;    /* [ALL * SPLITS * nh, hd + 2] f32 */
    struct opencl_tensor tickets; /* [max_tokens, nh] u32, 0 between steps */
    bool zeroed;
};

static const struct opencl_variant decode = {
    .file = "nv_attention_split+nv_attention_decode",
    .kernel = "attention_decode",
    .wg = 128};
static const struct opencl_variant kv_decode = {
    .file = "nv_attention_split+nv_attention_quantised",
    .kernel = "attention_quantised",
    .wg = 128};
static const struct opencl_variant kv_prefill = {
    .file = "nv_attention_widen+nv_attention_prefill",
    .kernel = "attention_prefill",
    .wg = WG,
    .tile_rows = ROWS};
static const struct opencl_variant prefill = {.file = "nv_attention_prefill",
                                              .kernel = "attention_prefill",
                                              .wg = WG,
                                              .tile_rows = ROWS};
static const struct opencl_variant few = {.file = "nv_attention_few",
                                          .kernel = "attention_few",
                                          .wg = WG,
                                          .tile_rows = FEW_ROWS};

/* The conditions are those of the .cl files ("Defines", "Needs"). */
static bool fits_model(const struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    return !c->portable && c->device.nvidia >= 80 &&
           c->kv_dtype == DTYPE_BF16 && s->n_heads / s->n_kv_heads <= 32 &&
           (s->head_dim == 64 || s->head_dim == 128 || s->head_dim == 256);
}

/* Generated tokens of a quantised layer need more than fits_model(). */
static bool fits_decode(const struct opencl *c)
{
    return c->block_tokens % 16 == 0 &&
           (c->kv.scheme == KV_AFFINE ? c->kv.group >= 64
                                      : c->w->shape.head_dim == 256);
}

static void request_scratch(struct opencl *c, struct opencl_attention_nv *nv)
{
    const struct model_shape *s = &c->w->shape;

    opencl_scratch(c, OPENCL_IN_ATTENTION, &nv->part,
                   (size_t)ALL * SPLITS * s->n_heads, s->head_dim + 2,
                   sizeof(float));
    opencl_scratch(c, OPENCL_KEEP, &nv->tickets, c->sizes.max_tokens,
                   s->n_heads, sizeof(uint32_t));
}

/* A refusal is no error: the portable kernels compute the same operator. */
static bool choose(struct opencl *c, struct opencl_kernel **out,
                   const struct opencl_variant *v, const char *defines)
{
    struct error why;

    if (opencl_choose(c, out, v, 1, NULL, defines, &why) == ST_OK) {
        return true;
    }
    log_warn("kernel-refused", "kernel=%s text=\"%s\"", v->kernel, why.text);
    *out = NULL;
    return false;
}

/* Chooses the kernel for few prompt tokens, if the device can run it. */
static void choose_few(struct opencl *c, struct opencl_attention_nv *nv,
                       const char *defines)
{
    const struct model_shape *s = &c->w->shape;
    const uint32_t beside = 2 * FEW_ROWS * s->head_dim + FEW_BESIDE;
    const uint32_t depth = (matmul_nv_local(c->device.nvidia) - beside) /
                           (256 * s->head_dim); /* 64 keys and values, bf16 */
    char all[128];

    if (s->head_dim < 128 || s->n_heads / s->n_kv_heads > FEW_ROWS ||
        depth < 2) {
        return;
    }
    (void)snprintf(all, sizeof all, "%s -DDEPTH=%u", defines,
                   depth < FEW_DEPTH ? depth : FEW_DEPTH);
    choose(c, &nv->few, &few, all);
}

static void choose_plain(struct opencl *c, struct opencl_attention_nv *nv,
                         const char *defines)
{
    if (choose(c, &nv->decode, &decode, defines) &&
        choose(c, &nv->prefill, &prefill, defines)) {
        choose_few(c, nv, defines);
    } else {
        nv->decode = nv->prefill = NULL;
    }
}

static void choose_window(struct opencl *c, struct opencl_attention_nv *nv,
                          const char *defines)
{
    if (!choose(c, &nv->window_decode, &decode, defines) ||
        !choose(c, &nv->window_prefill, &prefill, defines)) {
        nv->window_decode = nv->window_prefill = NULL;
    }
}

enum status opencl_attention_nv_setup(struct opencl *c,
                                      struct opencl_attention_nv **out,
                                      const struct opencl_attention_defines *of,
                                      struct error *e)
{
    const char *plain = of->plain, *of_kv = of->quantised;

    *out = NULL;
    if (!fits_model(c)) {
        return ST_OK;
    }
    *out = calloc(1, sizeof **out);
    if (!*out) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    if (plain) {
        choose_plain(c, *out, plain);
    }
    if (of->window) {
        choose_window(c, *out, of->window);
    }
    if (of_kv) {
        choose(c, &(*out)->kv_prefill, &kv_prefill, of_kv);
    }
    if (of_kv && fits_decode(c)) {
        choose(c, &(*out)->kv_decode, &kv_decode, of_kv);
    }
    if (!(*out)->decode && !(*out)->kv_decode && !(*out)->kv_prefill &&
        !(*out)->window_decode) {
        opencl_attention_nv_free(out);
        return ST_OK;
    }
    request_scratch(c, *out);
    return ST_OK;
}

void opencl_attention_nv_free(struct opencl_attention_nv **nv)
{
    free(*nv);
    *nv = NULL;
}

/* The layer and the tensors of a launch. */
struct io {
    uint32_t layer;
    const struct opencl_tensor *y, *query, *in, *kv;
};

static struct opencl_call call_of(struct opencl *c,
                                  const struct opencl_attention_nv *nv,
                                  struct opencl_kernel *kernel,
                                  const struct io *io)
{
    struct opencl_call a = opencl_call(c, kernel);

    opencl_arg_tensor(&a, io->y);
    opencl_arg_tensor(&a, &nv->part);
    opencl_arg_tensor(&a, &nv->tickets);
    opencl_arg_tensor(&a, io->query);
    opencl_arg_tensor(&a, io->in);
    opencl_arg_tensor(&a, io->kv);
    opencl_arg_u32(&a, io->kv->cols);
    opencl_arg_meta(&a);
    return a;
}

static void run_decode(struct opencl *c, const struct opencl_attention_nv *nv,
                       struct opencl_kernel *kernel, const struct io *io)
{
    const struct model_shape *s = &c->w->shape;
    const uint32_t n = c->step.n_gen;
    const uint32_t chunks = (s->n_heads / s->n_kv_heads + CHUNK - 1) / CHUNK;
    const uint32_t most = (c->step.longest + SPLIT - 1) / SPLIT;
    const struct opencl_layer *l = &c->model.layers[io->layer];
    const uint32_t limit = shape_window(s, l->kind) > 0 ? s->window / SPLIT + 2
                           : opencl_is_quantised(c, io->layer) ? KV_SPLITS
                                                               : SPLITS;
    const uint32_t parts = most < limit ? most : limit;
    const uint32_t splits = parts < SPLITS ? parts : SPLITS;
    /* Short contexts need fewer parts each, so more tokens fit at once. */
    const uint32_t at_once = splits > 0 ? ALL * SPLITS / splits : 0;

    for (uint32_t first = 0; first < n; first += at_once) {
        struct opencl_call a = call_of(c, nv, kernel, io);
        const uint32_t left = n - first < at_once ? n - first : at_once;
        const size_t local[3] = {decode.wg, 1, 1};
        const size_t global[3] = {splits * local[0],
                                  (size_t)s->n_kv_heads * chunks, left};

        opencl_arg_u32(&a, first);
        opencl_arg_u32(&a, left);
        opencl_arg_u32(&a, splits);
        opencl_arg_tensor(&a, &l->attention.sinks);
        opencl_arg_u32(&a, c->cache.pages.layers[io->layer].table);
        opencl_launch(
            &a, 3, global, local,
            opencl_context_bytes(c, io->layer, 0, c->step.n_gen_rows) * left /
                n);
    }
}

/* Returns the work-groups of a kernel for n prompt tokens of one kv head. */
static uint32_t groups_of(const struct opencl *c,
                          const struct opencl_variant *v, uint32_t n)
{
    const struct model_shape *s = &c->w->shape;
    const uint32_t tile = v->tile_rows / (s->n_heads / s->n_kv_heads);

    return (n + tile - 1) / tile;
}

/* Returns the kernel for the prompt tokens of a plain layer, or NULL.  Bits do
 * not depend on it. */
static struct opencl_kernel *prefill_for(const struct opencl *c,
                                         const struct opencl_attention_nv *nv)
{
    const uint32_t n = c->step.n_tokens - c->step.n_gen;
    const uint32_t kv_heads = c->w->shape.n_kv_heads;

    return nv->few && groups_of(c, &few, n) * kv_heads <= FEW_GROUPS
               ? nv->few
               : nv->prefill;
}

static struct opencl_kernel *kernel_for(const struct opencl *c,
                                        const struct opencl_attention_nv *nv,
                                        uint32_t layer, bool generated)
{
    if (shape_window(&c->w->shape, c->model.layers[layer].kind) > 0) {
        return generated ? nv->window_decode : nv->window_prefill;
    }
    if (opencl_is_quantised(c, layer)) {
        return generated ? nv->kv_decode : nv->kv_prefill;
    }
    /* The kernel for few tokens has no sinks. */
    return generated                                    ? nv->decode
           : c->model.layers[layer].attention.sinks.mem ? nv->prefill
                                                        : prefill_for(c, nv);
}

static void run_prefill(struct opencl *c, const struct opencl_attention_nv *nv,
                        struct opencl_kernel *k, const struct io *io)
{
    const uint32_t n = c->step.n_tokens - c->step.n_gen;
    struct opencl_call a = call_of(c, nv, k, io);
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {groups_of(c, k->variant, n) * local[0],
                              c->w->shape.n_kv_heads};

    opencl_arg_u32(&a, c->step.n_gen);
    opencl_arg_u32(&a, n);
    opencl_arg_u32(&a, 1);
    opencl_arg_tensor(&a, &c->model.layers[io->layer].attention.sinks);
    opencl_arg_u32(&a, c->cache.pages.layers[io->layer].table);
    opencl_launch(
        &a, 2, global, local,
        opencl_context_bytes(c, io->layer, c->step.n_gen_rows, c->step.n_rows));
}

/* Once is enough: the kernels leave their tickets at 0. */
static void zero_tickets(struct opencl *c, struct opencl_attention_nv *nv)
{
    if (!nv->zeroed) {
        opencl_zero(c, &nv->tickets, 0,
                    (size_t)nv->tickets.rows * nv->tickets.cols *
                        nv->tickets.item);
        nv->zeroed = true;
    }
}

bool opencl_attention_nv(struct opencl *c, struct opencl_attention_nv *nv,
                         uint32_t layer, const struct opencl_tensor *y,
                         const struct opencl_tensor *query,
                         const struct opencl_tensor *in, bool generated)
{
    const struct io io = {layer, y, query, in, &c->model.layers[layer].kv};
    struct opencl_kernel *k = nv ? kernel_for(c, nv, layer, generated) : NULL;

    if (k == NULL) {
        return false;
    }
    zero_tickets(c, nv);
    if (generated) {
        run_decode(c, nv, k, &io);
    } else {
        run_prefill(c, nv, k, &io);
    }
    return true;
}
