/* rewrite.h - A model.safetensors in memory, to be changed and written again.
 *
 * Every function fails the test on an error.  Tensors keep their order. */
#ifndef TESTS_UNIT_WORKER_MODEL_REWRITE_H
#define TESTS_UNIT_WORKER_MODEL_REWRITE_H

#include <stddef.h>
#include <stdint.h>

struct rewrite_tensor {
    char name[128];
    char dtype[12];
    uint32_t rank;
    uint64_t dims[8];
    unsigned char *bytes; /* [n], owned */
    size_t n;
};

struct rewrite {
    char dir[256]; /* that it was read from */
    uint32_t n, room;
    struct rewrite_tensor *tensors; /* [n] */
};

/* Reads dir/model.safetensors.  Free with rewrite_close(). */
void rewrite_open(struct rewrite *r, const char *dir);
void rewrite_close(struct rewrite *r);

/* Finds a tensor by name.  It stays valid until one is added or removed. */
struct rewrite_tensor *rewrite_find(const struct rewrite *r, const char *name);

/* Adds an empty tensor with a's dtype and shape, and n bytes of zeros. */
struct rewrite_tensor *rewrite_add(struct rewrite *r, const char *name,
                                   const struct rewrite_tensor *a, size_t n);

void rewrite_remove(struct rewrite *r, const char *name);

/* Writes directory `name` of the test: the tensors and the config.json of the
 * directory that was read.  Returns its path. */
const char *rewrite_write(const struct rewrite *r, const char *name);

/* Joins the experts of each layer: to experts.gate_up_proj and
 * experts.down_proj, as published Qwen3.5 checkpoints have them, with
 * _scale_inv if there are scales of blocks. */
void rewrite_fuse(struct rewrite *r);

/* Joins the experts of each layer to switch_mlp.*, as MLX has them. */
void rewrite_switch(struct rewrite *r);

#endif
