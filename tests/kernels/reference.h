/* reference.h - the models' mathematics, written to be read.
 *
 * One sequence, one token at a time, in double: no batch, no paging, no tile.
 * Only what a cache stores is rounded to its dtype, because the rounding is
 * part of the definition.  docs/model.md has the same formulas.
 *
 * Memory: a reference owns its caches. */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include "kernels/kernels.h"

struct reference_layer {
    double *k, *v; /* [context, nkv, hd] as stored */
    double *state; /* [Hv, Dk, Dv] */
    double *tail;  /* [K-1, C] as stored */
};

struct reference {
    const struct shard_weights *w;
    enum dtype kv_dtype;
    /* What a product's operands are rounded to: F32, unless the caller sets
     * it, leaves them as they are.  Of a norm it is x gamma that is rounded,
     * before the scale. */
    enum dtype operand;
    uint32_t position; /* of the next token */
    struct reference_layer layers[64];
};

void reference_new(struct reference *r, const struct shard_weights *w,
                   enum dtype kv_dtype);
void reference_free(struct reference *r);

/* x [H] of the token at r->position goes through one operator. */
void reference_embed(const struct reference *r, uint32_t token, double *x);
void reference_attention(struct reference *r, uint32_t layer, double *x);
void reference_deltanet(struct reference *r, uint32_t layer, double *x);
void reference_mlp(const struct reference *r, uint32_t layer, double *x);
void reference_head(const struct reference *r, const double *x, double *logits);

/* A token through the model: its logits [V], unless NULL; position moves. */
void reference_token(struct reference *r, uint32_t token, double *logits);

/* Element i of a tensor's data. */
double reference_at(const void *data, enum dtype t, size_t i);

/* An element of a matrix; of a quantised one as float32. */
double reference_weight(const struct tensor *w, uint32_t row, uint32_t col);

/* x as storage of dtype t holds it: rounded to nearest even. */
double reference_round(double x, enum dtype t);

#endif
