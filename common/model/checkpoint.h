/* checkpoint.h - All tensors of a model directory, by one canonical name.
 *
 * A directory holds model.safetensors, or model.safetensors.index.json and
 * the files it names, or GGUF files (gguf_model.h, whose tensors
 * gguf_tensors.h names).  Checkpoints of one model differ in prefixes; a
 * tensor's key is its name without the prefix:
 *
 *     model.language_model.layers.3.mlp.up_proj.weight    multimodal
 *     language_model.model.layers.3.mlp.up_proj.weight    MLX
 *     model.layers.3.mlp.up_proj.weight                   text only
 *     layers.3.mlp.up_proj.weight                         the key
 *     lm_head.weight, language_model.lm_head.weight       lm_head.weight
 *
 * Two names with one key are refused.  Tensors that sluice recognises but
 * does not use (vision, stored rotary frequencies) have no key.
 *
 * Keys of the MTP layer begin with "mtp."; such tensors are read only if a
 * layout drafts (layout.h).  Some models have them in a companion file, one
 * of model-mtp.safetensors, mtp.safetensors and mtp/weights.safetensors,
 * whose names may lack the "mtp.".
 *
 * Threading: read-only after checkpoint_open().  Memory: owns headers and
 * names, not data: some hundreds of bytes per tensor.  Files are closed
 * between reading their headers and checkpoint_open_files().
 *
 * Errors: ST_NOT_FOUND without weights, ST_DATA_LOSS for a broken file;
 * messages name file and tensor. */
#ifndef COMMON_MODEL_CHECKPOINT_H
#define COMMON_MODEL_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/gguf_tensors.h"
#include "common/model/safetensors.h"

struct checkpoint_file {
    char *name;
    uint64_t bytes;
    int64_t changed_ns; /* mtime at the time its header was read */
    struct safetensors header;
    struct gguf_tensors
        gguf; /* owns what the header of a GGUF file points to */
    bool companion;
    char **keys; /* [header.n] of a companion's tensors, owned; else NULL */
};

struct checkpoint_tensor {
    const char *key;
    const struct safetensors_tensor *info; /* name as stored, shape */
    const struct gguf_form *form; /* how its blocks become rows, or NULL */
    uint32_t file;
    uint64_t offset, bytes; /* position in the file */
};

struct checkpoint {
    char *dir;
    bool gguf;
    struct gguf_arch arch; /* the model in GGUF files */
    uint32_t n_files;
    struct checkpoint_file *files;
    uint32_t n_tensors; /* without the tensors that have no key */
    struct checkpoint_tensor *tensors; /* sorted by key */
    uint32_t n_aside;                  /* tensors without a key */
};

MUST_CHECK enum status checkpoint_open(struct checkpoint **out, const char *dir,
                                       struct error *e);

/* Adds the companion file with the MTP layer, if the directory has one and no
 * other file has such tensors.  Does nothing otherwise, nor to GGUF files.
 * The tensors move: pointers to them become invalid. */
MUST_CHECK enum status checkpoint_add_mtp(struct checkpoint *c,
                                          struct error *e);

/* Makes a checkpoint of one file from its header, without a directory: the
 * file cannot be opened.  data_bytes follow the header. */
MUST_CHECK enum status checkpoint_parse(struct checkpoint **out,
                                        const char *header,
                                        uint64_t header_bytes,
                                        uint64_t data_bytes, struct error *e);

void checkpoint_close(struct checkpoint **c);

/* Returns whether a key is one of the MTP layer's. */
bool checkpoint_is_mtp(const char *key);

/* Counts the tensors of the MTP layer. */
uint32_t checkpoint_count_mtp(const struct checkpoint *c);

/* Finds a tensor by key, NULL if there is none. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c,
                                                const char *key);

/* Returns the key in a stored name, NULL if the tensor is not used. */
const char *checkpoint_key(const char *name);

/* Returns the key of tensor i of a file of c, NULL if the tensor is not used.
 */
const char *checkpoint_key_of(const struct checkpoint *c,
                              const struct checkpoint_file *f, uint32_t i);

/* Returns the name of a tensor's dtype, or of its GGUF type. */
const char *checkpoint_dtype_name(const struct checkpoint_tensor *t);

/* Opens all files for reading.  *fds is [n_files]; release it with
 * checkpoint_close_files().  Returns ST_ABORTED if a file's size or
 * modification time differs from when its header was read. */
MUST_CHECK enum status checkpoint_open_files(const struct checkpoint *c,
                                             int **fds, struct error *e);

/* Checks that no file has changed since its header was read.  Returns
 * ST_ABORTED otherwise. */
MUST_CHECK enum status checkpoint_unchanged(const struct checkpoint *c,
                                            const int *fds, struct error *e);

void checkpoint_close_files(const struct checkpoint *c, int **fds);

#endif
