/* maker.h - The parts that a layout is made of: tensors found by name, places
 * in memory, matrices in all forms, vectors.
 *
 * Internal to layout.c and the maker_*.c files.  Every function is a no-op
 * after a fault: the first fault is kept.
 *
 * Threading: none.  Memory: fills the layout, which owns it. */
#ifndef COMMON_MODEL_MAKER_H
#define COMMON_MODEL_MAKER_H

#include "common/model/config_types.h"
#include "common/model/layout_types.h"

#define MAKER_KEY_MAX 96
#define MAKER_PLANES  3 /* at most: codes, scales, biases */
#define MAKER_PARTS   3 /* matrices of one tensor, at most: q, k, v */

struct maker {
    struct layout *layout;
    const struct model_config *config;
    const struct checkpoint *checkpoint;
    bool *used;  /* [checkpoint->n_tensors] */
    float shift; /* added to norms that may be stored as gamma - 1 */
    bool guess;  /* add it only to norms whose values are not gamma already */
    const char *root; /* keys begin with it: "", or "mtp." */
    uint32_t layer;   /* its index in keys */
    struct error *error;
    enum status status;
};

#define MAKER_FAULT(m, code, ...)                                   \
    do {                                                            \
        if ((m)->status == ST_OK) {                                 \
            (m)->status = error_set((m)->error, code, __VA_ARGS__); \
        }                                                           \
    } while (0)

/* ---- tensors (maker.c) ---- */

/* Finds the tensor of a key, and marks it as used.  A missing one is a fault:
 * returns NULL. */
const struct checkpoint_tensor *maker_find(struct maker *m, const char *key);

/* Finds "layers.N.name" of the present layer likewise. */
const struct checkpoint_tensor *maker_find_in_layer(struct maker *m,
                                                    const char *name);

/* Returns whether "layers.N.name" exists. */
bool maker_has(const struct maker *m, const char *name);

/* Finds the tensor whose key has another ending than t's, which is `end`.
 * Returns NULL if there is none. */
const struct checkpoint_tensor *maker_beside(const struct maker *m,
                                             const struct checkpoint_tensor *t,
                                             const char *end,
                                             const char *other);

/* Marks a tensor as used. */
void maker_use(struct maker *m, const struct checkpoint_tensor *t);

/* Converts t's dtype.  Returns false after a fault if it is no float. */
bool maker_dtype(struct maker *m, const struct checkpoint_tensor *t,
                 enum dtype *out);

/* Returns whether t is [dims[0], ..], [n]. */
bool maker_is(const struct checkpoint_tensor *t, uint32_t n,
              const uint64_t *dims);

/* Sets a fault that names both shapes. */
void maker_shape_fault(struct maker *m, const struct checkpoint_tensor *t,
                       uint32_t n, const uint64_t *dims);

/* ---- places (maker.c) ---- */

/* Reserves bytes in the shard's memory, or in the scratch.  Returns their
 * place. */
uint64_t maker_reserve(struct maker *m, uint64_t bytes);
uint64_t maker_reserve_scratch(struct maker *m, uint64_t bytes);

void maker_add_slice(struct maker *m, const struct slice *s);
void maker_add_spread(struct maker *m, const struct spread *s);
void maker_add_anchor(struct maker *m, const struct anchor *a);

/* ---- matrices (maker_matrix.c) ---- */

/* A matrix as stored, or several in one tensor. */
struct maker_stored {
    uint32_t n; /* planes */
    struct {
        const struct checkpoint_tensor *source;
        uint64_t row_bytes; /* in memory */
    } planes[MAKER_PLANES];
    enum slice_check checks[MAKER_PLANES];
    struct tensor shape; /* its rows are those of all matrices */
    uint32_t each;       /* rows of one matrix */
    uint64_t blocks;     /* fp8: place of the scales in the scratch */
};

/* A matrix in memory that rows are put into. */
struct maker_target {
    struct tensor *out;
    uint64_t places[MAKER_PLANES];
};

/* n matrices [rows, cols] in one tensor [n, rows, cols]; 0: one [rows, cols].
 */
struct maker_form {
    uint32_t n, rows, cols;
};

/* Finds how t stores matrices.  t may be NULL.  Returns false after a fault. */
bool maker_find_stored(struct maker *m, struct maker_stored *s,
                       const struct checkpoint_tensor *t,
                       const struct maker_form *f);

/* Finds mxfp4 likewise: t is the codes, [n, rows, cols / 32, 16]. */
bool maker_find_mxfp4(struct maker *m, struct maker_stored *s,
                      const struct checkpoint_tensor *t,
                      const struct maker_form *f);

/* Finds how a tensor of a GGUF file that has a form stores matrices. */
bool maker_find_gguf(struct maker *m, struct maker_stored *s,
                     const struct checkpoint_tensor *t,
                     const struct maker_form *f);

/* Sets out to the form of s with other rows, and reserves its memory. */
void maker_begin(struct maker *m, struct maker_target *t, struct tensor *out,
                 const struct maker_stored *s, uint32_t rows);

/* Rows [from, from + n) of a stored matrix, to rows [to, to + n). */
struct maker_rows {
    uint32_t from, to, n;
};

/* Puts rows of one plane, or of all planes.  Slices of one tensor have to
 * follow each other. */
void maker_put_plane(struct maker *m, const struct maker_target *t,
                     const struct maker_stored *s, uint32_t plane,
                     struct maker_rows r);
void maker_put(struct maker *m, const struct maker_target *t,
               const struct maker_stored *s, struct maker_rows r);

/* Puts rows of all planes of a GGUF file's tensor; `rows` sends row r.from
 * to its place. */
void maker_put_gguf(struct maker *m, const struct maker_target *t,
                    const struct maker_stored *s, struct maker_rows r,
                    const struct gguf_rows *rows);

/* Adds a whole matrix; t may be NULL. */
void maker_whole(struct maker *m, struct tensor *out,
                 const struct checkpoint_tensor *t, uint32_t rows,
                 uint32_t cols);

/* Adds "name.weight" of the present layer likewise. */
void maker_matrix(struct maker *m, struct tensor *out, const char *name,
                  uint32_t rows, uint32_t cols);

/* Rows of a tensor that become a matrix of their own. */
struct maker_part {
    struct tensor *out;
    uint32_t rows;
};

/* Adds n matrices whose rows follow each other in "name.weight" of the present
 * layer. */
void maker_parts(struct maker *m, const struct maker_part *parts, uint32_t n,
                 const char *name, uint32_t cols);

/* ---- vectors (maker.c) ---- */

/* Adds the n elements of a tensor of any shape; t may be NULL. */
void maker_elements(struct maker *m, const float **out,
                    const struct checkpoint_tensor *t, uint32_t n, float add);

/* Adds a tensor of a GGUF file that has a form likewise. */
void maker_elements_gguf(struct maker *m, const float **out,
                         const struct checkpoint_tensor *t, uint32_t n);

/* Adds a tensor of shape [n] likewise. */
void maker_vector_of(struct maker *m, const float **out,
                     const struct checkpoint_tensor *t, uint32_t n, float add);

/* Add "name" of the present layer likewise; a norm is shifted. */
void maker_vector(struct maker *m, const float **out, const char *name,
                  uint32_t n);
void maker_norm(struct maker *m, const float **out, const char *name,
                uint32_t n);

/* ---- feed-forwards (maker_ffn.c) ---- */

void maker_mlp(struct maker *m, struct mlp_weights *w, const char *prefix,
               uint32_t rows);
void maker_experts(struct maker *m, struct expert_weights *w);

/* Lays out the matrices of the experts of a GGUF file, and the bias of gate
 * and up. */
void maker_experts_gguf(struct maker *m, struct expert_weights *w);

#endif
