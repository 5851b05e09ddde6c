/* mixer.h - One row per kind of mixer, and per kind of feed-forward: the
 * operators of a kind on a device.
 *
 * A kind without a row is refused by name when a shard is loaded.  The rest of
 * a kind is in common/model/mixer.h and ffn.h; upload.c places its weights.
 *
 * Threading: constant data. */
#ifndef KERNELS_OPENCL_MIXER_H
#define KERNELS_OPENCL_MIXER_H

#include "kernels/opencl/host/opencl.h"

/* The products around a mixer; mem NULL: the layer has none. */
struct opencl_products {
    const struct opencl_tensor *in, *in_bias; /* [rows, H], [rows] */
    const struct opencl_tensor *rest;         /* [OPENCL_REST_MAX] */
    const struct opencl_tensor *out, *out_bias;
};

struct opencl_mixer {
    /* Returns the products of a layer of the kind. */
    struct opencl_products (*products)(const struct opencl_layer *l);
    /* Returns the output of the first product: [T, in.rows] f32. */
    const struct opencl_tensor *(*input)(const struct opencl *c);
    /* Computes x += mixer(norm(x)). */
    void (*run)(struct kernels *k, uint32_t layer);
};

/* A NULL is a kind that the backend lacks. */
extern const struct opencl_mixer *const opencl_mixers[MIXER_KINDS];

extern const struct opencl_mixer opencl_mixer_attention, opencl_mixer_deltanet;

/* Returns ST_UNIMPLEMENTED and the name of the first layer whose kind the
 * backend lacks. */
MUST_CHECK enum status opencl_mixers_check(const struct shard_weights *w,
                                           struct error *e);

#endif
