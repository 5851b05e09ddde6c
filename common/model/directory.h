/* directory.h - Recognises what stands in place of a model directory.
 *
 * Model directories come from downloads, so a few mistakes explain most
 * failures: the name of a model on a hub, a file in place of the directory, a
 * Git LFS pointer in place of a file, a download that is incomplete, weights
 * in another format, an adapter without its model.  Every program that reads a
 * model calls this module, so each mistake has one sentence, which ends with
 * what to do.
 *
 * A GGUF file, or a directory with GGUF files in place of safetensors
 * (gguf_model.h), passes for everything.
 *
 * Recognition reads names and the first and last bytes of a file.  A directory
 * that passes may still hold broken files: their readers report those.
 *
 * Threading, memory: no state; nothing is allocated. */
#ifndef COMMON_MODEL_DIRECTORY_H
#define COMMON_MODEL_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

/* Files that a program needs. */
enum directory_need {
    DIRECTORY_CONFIG = 1,    /* config.json, or a GGUF file */
    DIRECTORY_TOKENIZER = 2, /* tokenizer.json, or a GGUF file */
    DIRECTORY_WEIGHTS = 4    /* model.safetensors, its index, or a GGUF file */
};

/* Checks that dir is a directory with the files in need, a sum of enum
 * directory_need.  Also checks that those of them that exist, and config.json
 * and tokenizer.json in any case, are neither pointers nor cut off.  Returns
 * ST_NOT_FOUND if the directory or a file is missing, ST_INVALID_ARGUMENT if
 * dir is a file or has another format, ST_DATA_LOSS for a pointer or an
 * incomplete file. */
MUST_CHECK enum status directory_check(const char *dir, unsigned need,
                                       struct error *e);

/* Sets *found to whether dir has weights that are read, complete or not.
 * Returns ST_INVALID_ARGUMENT if it has weights in another format instead. */
MUST_CHECK enum status directory_weights(const char *dir, bool *found,
                                         struct error *e);

/* Returns whether dir has a file of that name. */
bool directory_has(const char *dir, const char *name);

/* Returns whether the first n bytes of a file are those of a Git LFS pointer.
 * directory_pointer() is the sentence for it: always ST_DATA_LOSS. */
bool directory_is_pointer(const char *bytes, size_t n);
enum status directory_pointer(struct error *e);

#endif
