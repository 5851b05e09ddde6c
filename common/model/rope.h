/* rope.h - The rotary positions of a config.json.
 *
 * `rope_parameters` takes precedence, or its member that is named after the
 * kind of layer; keys that it lacks come from the flat rope_theta,
 * rope_scaling and partial_rotary_factor.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_MODEL_ROPE_H
#define COMMON_MODEL_ROPE_H

#include "common/model/field.h"
#include "common/model/weights.h"

/* The layers that r is for, and what the file may leave out. */
struct rope_place {
    const char *layers;    /* "full_attention" or "sliding_attention" */
    const char *theta_key; /* the flat form's: rope_theta */
    bool scaled;           /* the flat rope_scaling is for these layers */
    uint32_t head_dim;
    double partial, theta; /* the defaults */
    bool alpha;            /* a "dynamic" scaling is that of an alpha */
    uint32_t context;      /* max_position_embeddings */
};

/* Fills r.  Faults go to f. */
void rope_parse(struct rope_shape *r, struct fields *f,
                const struct rope_place *p);

/* Returns whether the file describes rotary positions other than by a
 * theta. */
bool rope_given(const struct fields *f);

/* Returns the positions that r reaches in a model of that context: yarn
 * extends `original` by its factor. */
uint32_t rope_context(const struct rope_shape *r, uint32_t context);

#endif
