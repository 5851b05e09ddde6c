#include "tests/golden/kv_codes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference is float32 at best. */
#define SAME 1e-5

/* Returns how far values of neighbouring codes may be apart: two steps of an
 * affine group, since the scale may change with a code, or the greatest gap of
 * centroids. */
static double gap_of(const struct reference *r, enum kv_half half,
                     const float *x)
{
    uint32_t bits = half == KV_KEYS ? r->kv.k_bits : r->kv.v_bits;
    const float *c = r->turbo[half].centroids;
    double most = 0.0, squares = 0.0, gap = 0.0;

    for (uint32_t i = 0; i < r->w->shape.head_dim; i++) {
        most = fmax(most, fabs((double)x[i]));
        squares += (double)x[i] * (double)x[i];
    }
    if (r->kv.scheme == KV_AFFINE) {
        return 4.0 * most / ((1u << bits) - 1);
    }
    for (uint32_t i = 1; i < 1u << bits; i++) {
        gap = fmax(gap, (double)c[i] - (double)c[i - 1]);
    }
    /* The norm of the centroids is that of the vector but for their error. */
    return 1.25 * sqrt(squares) * gap;
}

static void count(struct kv_codes *c, const struct reference *r,
                  enum kv_half half, const float *mine, const float *other)
{
    double gap = gap_of(r, half, mine);

    for (uint32_t i = 0; i < r->w->shape.head_dim; i++) {
        double off = fabs((double)mine[i] - (double)other[i]);

        c->n_differ += off > SAME * (fabs((double)mine[i]) + 1.0);
        c->n_far += !(off <= gap);
    }
    c->n_values += r->w->shape.head_dim;
}

static void take_over(void *arg, const struct reference *r, uint32_t layer,
                      enum kv_half half, uint32_t head, void *codes,
                      void *params)
{
    struct kv_codes *c = arg;
    const uint32_t hd = r->w->shape.head_dim, size = c->block_tokens;
    const size_t i = (size_t)head * size + r->position % size;
    float mine[KERNELS_HEAD_DIM_MAX], other[KERNELS_HEAD_DIM_MAX];
    struct kv_block b;

    kv_block_make(&b, &r->kv, r->w->shape.n_kv_heads, hd, size);

    const struct kv_vector *v = half == KV_KEYS ? &b.k : &b.v;
    char *block = malloc(b.bytes);

    if (block == NULL) {
        fprintf(stderr, "kv_codes: no memory\n");
        abort();
    }
    kernels_block_copy(c->k, layer, c->blocks[r->position / size], block,
                       false);
    kv_decode(&r->kv, v, &r->turbo[half], codes, params, hd, mine);
    memcpy(codes,
           block + (half == KV_KEYS ? b.k_codes : b.v_codes) +
               i * v->code_bytes,
           v->code_bytes);
    memcpy(params,
           block + (half == KV_KEYS ? b.k_params : b.v_params) +
               i * v->param_bytes,
           v->param_bytes);
    kv_decode(&r->kv, v, &r->turbo[half], codes, params, hd, other);
    count(c, r, half, mine, other);
    free(block);
}

void kv_codes_follow(struct kv_codes *c, struct reference *r,
                     const struct kv_format *f)
{
    reference_format(r, f);
    r->stored = f->scheme != KV_PLAIN ? take_over : NULL;
    r->stored_arg = c;
}
