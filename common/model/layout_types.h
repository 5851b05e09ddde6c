/* layout_types.h - A layout of tensors, as layout.h makes it.
 *
 * Threading: none.  Memory: common/model/layout.h. */
#ifndef COMMON_MODEL_LAYOUT_TYPES_H
#define COMMON_MODEL_LAYOUT_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/gguf_repack.h"

#define LAYOUT_ALIGN 64 /* alignment of every tensor in the shard's memory */

/* Returns the bytes that a tensor of so many takes there. */
static inline uint64_t layout_aligned(uint64_t bytes)
{
    return (bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

/* gamma is close to 1, and gamma - 1 close to 0. */
#define SLICE_GAMMA_MEAN 0.5

/* Codes that a slice must not have: NaN of its format. */
enum slice_check { SLICE_ANY, SLICE_E4M3, SLICE_E8M0 };

struct slice {
    const struct checkpoint_tensor *source;
    enum dtype dtype;       /* source dtype of a widened slice */
    enum slice_check check; /* codes that its bytes must not be */
    uint64_t offset, bytes; /* position in the source */
    uint64_t place;         /* position in the memory */
    bool scratch; /* in the layout's scratch, not the shard's memory */
    bool widen;   /* convert to float32; the place has room for that */
    float add;    /* added to each element of a widened slice */
    bool guess;   /* add only if their mean is below SLICE_GAMMA_MEAN */
    struct gguf_repack repack; /* its blocks go where this sends them */
};

/* Scales of blocks for rows: row i of [rows, row_bytes] at `to` in the shard's
 * memory is row (first + i) / 128 at `from` in the scratch. */
struct spread {
    uint64_t from, to;
    uint64_t row_bytes;
    uint32_t rows, first;
};

/* A pointer of the weights; either matrix or vector. */
struct anchor {
    uint64_t place; /* position in the shard's memory */
    const void **matrix;
    const float **vector;
};

struct layout {
    uint32_t n, room;
    struct slice *slices; /* [n]; those of a tensor follow each other */
    uint32_t n_spreads, spread_room;
    struct spread *spreads; /* [n_spreads] */
    uint32_t n_anchors, anchor_room;
    struct anchor *anchors; /* [n_anchors] */
    uint64_t bytes;         /* size of the shard's memory */
    uint64_t scratch_bytes; /* size of the scratch, needed while loading */
    uint64_t file_bytes;    /* bytes of its slices in the files */
    uint32_t n_tensors;     /* tensors used */
    uint32_t n_aside;       /* recognised tensors that are not used */
    uint32_t n_unknown;     /* unrecognised tensors in the range */
    const char *unknown;    /* the first of them, as stored; or NULL */
};

#endif
