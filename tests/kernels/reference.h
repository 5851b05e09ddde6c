/* reference.h - the models' mathematics, written for readability.
 *
 * One sequence, one token at a time, in double: no batch, no paging, no tiles.
 * reference_math.c has values and products, reference_ffn.c the feed-forward.
 * Only values stored in a cache are rounded to its dtype, because the rounding
 * is part of the definition.  docs/model.md has the same formulas.
 *
 * Memory: a reference owns its caches. */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include "kernels/kernels.h"
#include "kernels/kv_codec.h"

struct reference_layer {
    double *k, *v; /* [context, nkv, hd] as stored */
    double *state; /* [Hv, Dk, Dv] */
    double *tail;  /* [K-1, C] as stored */
};

struct reference;

/* Takes the quantised key or value of one kv head of the token at r->position,
 * and may replace it. */
typedef void (*reference_stored_fn)(void *arg, const struct reference *r,
                                    uint32_t layer, enum kv_half half,
                                    uint32_t head, void *codes, void *params);

/* Takes the router's logits [E] of a token, and may replace the chosen experts
 * [top_k]; the weights are those of the final choice. */
typedef void (*reference_routed_fn)(void *arg, const struct reference *r,
                                    uint32_t layer, const double *logits,
                                    uint32_t *chosen);

struct reference {
    const struct shard_weights *w;
    enum dtype kv_dtype;
    struct kv_format kv; /* plain, unless reference_format() changes it */
    struct kv_turbo turbo[2];
    reference_stored_fn stored; /* NULL, unless the caller changes it */
    void *stored_arg;
    reference_routed_fn routed; /* NULL, unless the caller changes it */
    void *routed_arg;
    /* In the last layer with experts: how much the least logit of the chosen
     * is above the greatest other; infinite if all are chosen. */
    double margin;
    /* Rounds the operands of products to this dtype.  F32, unless the caller
     * changes it, leaves them as they are.  For a norm, x gamma is rounded,
     * before the scale.  Router and shared gate are never rounded. */
    enum dtype operand;
    /* Rounds the operands of quantised weights to 8 bits, FP8 excepted, as
     * integer products do (kernels/isa/int8.h). */
    bool int8;
    uint32_t position; /* position of the next token */
    bool drafting;     /* the next tokens are the MTP layer's */
    struct reference_layer layers[65];
};

void reference_new(struct reference *r, const struct shard_weights *w,
                   enum dtype kv_dtype);
void reference_free(struct reference *r);

/* Stores keys and values in this format from now on.  Single vectors are those
 * of kernels/kv_codec.h; a turboquant vector is rotated back here, so that
 * queries are not rotated. */
void reference_format(struct reference *r, const struct kv_format *f);

/* Runs x [H] of the token at r->position through one operator.  Attention is
 * that of the layer's kind: over all positions or over a window. */
void reference_embed(const struct reference *r, uint32_t token, double *x);
void reference_attention(struct reference *r, uint32_t layer, double *x);
void reference_deltanet(struct reference *r, uint32_t layer, double *x);
void reference_mlp(const struct reference *r, uint32_t layer, double *x);
/* The feed-forward of the layer, an MLP or experts. */
void reference_ffn(struct reference *r, uint32_t layer, double *x);
/* Computes h, what keep_hidden() keeps of x [H]. */
void reference_hidden(const struct reference *r, const double *x, double *h);
/* Computes the MTP layer's x of a token and the h [H] before it. */
void reference_draft_input(const struct reference *r, uint32_t token,
                           const double *h, double *x);
/* Computes logits with the norm of the kind of token. */
void reference_head(const struct reference *r, const double *x, double *logits);

/* Runs a token through the model and advances position.  Writes its logits [V]
 * unless NULL. */
void reference_token(struct reference *r, uint32_t token, double *logits);

/* Returns element i of a tensor's data. */
double reference_at(const void *data, enum dtype t, size_t i);

/* Returns an element of a matrix; of a quantised one as float32. */
double reference_weight(const struct tensor *w, uint32_t row, uint32_t col);

/* Returns x as storage of dtype t holds it: rounded to nearest even. */
double reference_round(double x, enum dtype t);

#endif
