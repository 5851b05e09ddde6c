/* kv.c - keys and values of an attention layer in any format: stored, and
 * attended to. */
#include <string.h>

#include "kernels/cpu/cpu.h"

#define TICK_QUERIES 4 /* queries between ticks: as many as share a read */

/* ---- rotation ---- */

static bool is_rotated(const struct cpu *c, uint32_t layer)
{
    return c->layers[layer].kv.scheme == KV_TURBOQUANT;
}

void cpu_kv_rotate(const struct cpu *c, uint32_t layer, float *x, uint32_t n)
{
    for (uint32_t i = 0; is_rotated(c, layer) && i < n; i++) {
        kv_turbo_rotate(&c->turbo[KV_KEYS],
                        x + (size_t)i * c->w->shape.head_dim);
    }
}

void cpu_kv_rotate_back(const struct cpu *c, uint32_t layer, float *x,
                        uint32_t n)
{
    for (uint32_t i = 0; is_rotated(c, layer) && i < n; i++) {
        kv_turbo_rotate_back(&c->turbo[KV_VALUES],
                             x + (size_t)i * c->w->shape.head_dim);
    }
}

/* ---- storing ---- */

/* Plain keys are stored transposed: this key is one column of
 * [hd, block_tokens]. */
static void store_key(const struct cpu *c, char *k, uint32_t at,
                      const float *head)
{
    uint32_t hd = c->w->shape.head_dim, size = c->block_tokens;
    union {
        float f[KERNELS_HEAD_DIM_MAX];
        uint16_t h[KERNELS_HEAD_DIM_MAX];
    } row;

    c->isa->narrow(&row, head, c->kv.dtype, hd);
    if (c->kv.dtype == DTYPE_F32) {
        float *out = (float *)(void *)k + at;

        for (uint32_t d = 0; d < hd; d++) {
            out[(size_t)d * size] = row.f[d];
        }
    } else {
        uint16_t *out = (uint16_t *)(void *)k + at;

        for (uint32_t d = 0; d < hd; d++) {
            out[(size_t)d * size] = row.h[d];
        }
    }
}

static void store_plain(const struct cpu *c, char *block, uint32_t at,
                        const float *k, const float *v)
{
    uint32_t n = c->w->shape.n_kv_heads;
    size_t hd = c->w->shape.head_dim, head = hd * dtype_bytes(c->kv.dtype);
    size_t plane = head * c->block_tokens; /* k or v of one head */

    for (uint32_t h = 0; h < n; h++) {
        store_key(c, block + h * plane, at, k + h * hd);
        c->isa->narrow(block + (n + h) * plane + at * head, v + h * hd,
                       c->kv.dtype, hd);
    }
}

static void store_quantised(const struct cpu *c, const struct cpu_layer *l,
                            char *block, uint32_t at, const float *k,
                            const float *v)
{
    const struct kv_block *b = &l->block;
    uint32_t hd = c->w->shape.head_dim;

    for (uint32_t h = 0; h < c->w->shape.n_kv_heads; h++) {
        size_t i = (size_t)h * c->block_tokens + at;

        kv_encode(&l->kv, &b->k, &c->turbo[KV_KEYS], k + h * hd, hd,
                  block + b->k_codes + i * b->k.code_bytes,
                  block + b->k_params + i * b->k.param_bytes);
        kv_encode(&l->kv, &b->v, &c->turbo[KV_VALUES], v + h * hd, hd,
                  block + b->v_codes + i * b->v.code_bytes,
                  block + b->v_params + i * b->v.param_bytes);
    }
}

/* Returns the block table of a layer; block i is in [i - *first]. */
static const uint32_t *table_of(const struct cpu *c, uint32_t layer,
                                const struct kernel_row *row, uint32_t *first)
{
    if (shape_window(&c->w->shape, cpu_weights(c, layer)->kind) > 0) {
        *first = row->window_first;
        return row->window +
               (size_t)c->pages.layers[layer].table * row->window_stride;
    }
    *first = 0;
    return row->blocks;
}

void cpu_kv_store(const struct cpu *c, uint32_t layer,
                  const struct kernel_row *row, uint32_t p, const float *k,
                  const float *v)
{
    const struct cpu_layer *l = &c->layers[layer];
    uint32_t size = c->block_tokens, first;
    const uint32_t *table = table_of(c, layer, row, &first);
    char *block =
        cpu_kv(c, layer) + table[p / size - first] * cpu_stride(c, layer);

    if (l->kv.scheme == KV_PLAIN) {
        store_plain(c, block, p % size, k, v);
    } else {
        store_quantised(c, l, block, p % size, k, v);
    }
}

/* ---- attending ---- */

/* Returns one kv head's keys or values of a quantised layer. */
static struct attend_codes codes_of(const struct cpu *c, uint32_t layer,
                                    uint32_t kv_head, enum kv_half half)
{
    const struct cpu_layer *l = &c->layers[layer];
    const struct kv_block *b = &l->block;
    const struct kv_vector *v = half == KV_KEYS ? &b->k : &b->v;
    size_t first = (size_t)kv_head * c->block_tokens;
    const char *kv = cpu_kv(c, layer);

    return (struct attend_codes){
        .codes = kv + (half == KV_KEYS ? b->k_codes : b->v_codes) +
                 first * v->code_bytes,
        .params = kv + (half == KV_KEYS ? b->k_params : b->v_params) +
                  first * v->param_bytes,
        .bits = v->bits,
        .code_bytes = v->code_bytes,
        .centroids =
            l->kv.scheme == KV_TURBOQUANT ? c->turbo[half].centroids : NULL,
    };
}

void cpu_kv_attend(struct cpu *c, uint32_t layer, const struct kernel_row *row,
                   uint32_t kv_head, struct attend_task *t)
{
    const struct cpu_layer *l = &c->layers[layer];
    const uint32_t n = c->w->shape.n_kv_heads;
    size_t plane = t->hd * c->block_tokens * dtype_bytes(c->kv.dtype);
    bool plain = l->kv.scheme == KV_PLAIN;
    struct attend_quantised a = {.group = l->kv.group};

    t->blocks = table_of(c, layer, row, &t->first_block);
    t->window = shape_window(&c->w->shape, cpu_weights(c, layer)->kind);
    t->stride = cpu_stride(c, layer);
    t->dtype = c->kv.dtype;
    if (plain) {
        t->k = cpu_kv(c, layer) + kv_head * plane;
        t->v = cpu_kv(c, layer) + (n + kv_head) * plane;
    } else {
        a.k = codes_of(c, layer, kv_head, KV_KEYS);
        a.v = codes_of(c, layer, kv_head, KV_VALUES);
    }
    /* A few queries at a time, as the vector loop takes them anyway: over a
     * long context even these are much work. */
    for (uint32_t left = t->n_q; left > 0; left -= t->n_q) {
        t->n_q = left < TICK_QUERIES ? left : TICK_QUERIES;
        if (plain) {
            c->isa->attend(t);
        } else {
            a.t = *t;
            c->isa->attend_quantised(&a);
        }
        cpu_tick(c);
        t->q += (size_t)t->n_q * t->hd;
        t->y += (size_t)t->n_q * t->hd;
        t->last += t->n_q;
        if (t->sinks != NULL) {
            t->sinks += t->n_q;
        }
    }
}
