/* quantised.h - Rows of a quantised matrix.
 *
 * Threading: pure functions.  Memory: borrows. */
#ifndef KERNELS_ISA_QUANTISED_H
#define KERNELS_ISA_QUANTISED_H

#include <stddef.h>
#include <stdint.h>

#include "common/model/weights.h"

/* Rows of a quantised matrix (weights.h). */
struct quantised {
    enum weight_format format; /* not plain */
    const uint8_t *data;       /* [n_w, k * bits / 8] */
    const void *scales;        /* [n_w, quantised_scale_bytes()] */
    const void *biases;        /* affine: as scales */
    enum dtype dtype;          /* affine: of scales and biases */
    uint32_t k, bits, group;
};

/* Returns the bytes of a row of scales. */
static inline size_t quantised_scale_bytes(const struct quantised *w)
{
    return tensor_scale_bytes(&(struct tensor){.format = w->format,
                                               .dtype = w->dtype,
                                               .cols = w->k,
                                               .group = w->group});
}

/* Returns the rows of t from `first` on. */
static inline struct quantised quantised_rows(const struct tensor *t,
                                              uint32_t first)
{
    const char *data = t->data, *scales = t->scales, *biases = t->biases;

    return (struct quantised){
        .format = t->format,
        .data = (const uint8_t *)data + first * tensor_row_bytes(t),
        .scales = scales + first * tensor_scale_bytes(t),
        .biases = biases ? biases + first * tensor_scale_bytes(t) : NULL,
        .dtype = t->dtype,
        .k = t->cols,
        .bits = t->bits,
        .group = t->group,
    };
}

/* Returns the rows of w from `first` on. */
static inline struct quantised quantised_from(const struct quantised *w,
                                              uint32_t first)
{
    const char *scales = w->scales, *biases = w->biases;
    size_t bytes = first * quantised_scale_bytes(w);
    struct quantised out = *w;

    out.data = w->data + (size_t)first * w->k * w->bits / 8;
    out.scales = scales + bytes;
    out.biases = biases ? biases + bytes : NULL;
    return out;
}

#endif
