/* gguf_model.h - The GGUF files of a model, in place of a directory's
 * config.json and safetensors.
 *
 * A model is one file, or the parts NAME-00001-of-0000N.gguf of one; the
 * first part has the metadata.  A path names a model if it is a .gguf file
 * (any part), or a directory without safetensors that holds exactly one model.
 * Files mmproj*.gguf, which hold an image encoder, do not count.
 *
 * Threading: none.  Memory: owns headers, some ten megabytes for a large
 * vocabulary, and names. */
#ifndef COMMON_MODEL_GGUF_MODEL_H
#define COMMON_MODEL_GGUF_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/gguf.h"

/* The names of a model's files. */
struct gguf_files {
    char *dir;
    uint32_t n;
    char **names; /* [n], inside dir */
};

/* Finds the model that path names; n is 0 if it names none.  Returns
 * ST_INVALID_ARGUMENT if a directory holds several, ST_RESOURCE_EXHAUSTED if
 * memory runs out.  Release with gguf_files_fini(), also after an error. */
MUST_CHECK enum status gguf_files_find(struct gguf_files *f, const char *path,
                                       struct error *e);

void gguf_files_fini(struct gguf_files *f);

/* Returns whether path names a model in GGUF files, or several. */
bool gguf_files_exist(const char *path);

/* Returns the length of the model's name in name[0..n), the last part of a
 * path: without ".gguf" and the number of a part, if it has them. */
size_t gguf_files_name(const char *name, size_t n);

/* Checks that the header of part i of n belongs there. */
MUST_CHECK enum status gguf_check_part(const struct gguf *g, uint32_t i,
                                       uint32_t n, struct error *e);

/* The headers of a model's files. */
struct gguf_model {
    struct gguf_files files;
    struct gguf *parts; /* [files.n] */
};

/* Reads the headers of the model that path names; *found is false if it names
 * none.  Release with gguf_model_fini(), also after an error. */
MUST_CHECK enum status gguf_model_open(struct gguf_model *m, const char *path,
                                       bool *found, struct error *e);

void gguf_model_fini(struct gguf_model *m);

/* Finds a tensor in all parts, NULL if there is none.  *part (unless NULL) is
 * its part's number. */
const struct gguf_tensor *gguf_model_tensor(const struct gguf_model *m,
                                            const char *name, uint32_t *part);

/* Returns whether the model that path names has a tokenizer: tokenizer.json in
 * a directory, or tokens in its GGUF files. */
bool gguf_model_has_tokenizer(const char *path);

/* Reads the ids that end a sequence: those of tokenizer.ggml.eos_token_id,
 * eot_token_id and eom_token_id, and control tokens whose spelling ends a
 * turn.  *n is their number.  Returns ST_INVALID_ARGUMENT if one of the keys
 * has another type. */
MUST_CHECK enum status gguf_end_tokens(const struct gguf *g,
                                       uint32_t ids[MODEL_EOS_MAX], uint32_t *n,
                                       struct error *e);

#endif
