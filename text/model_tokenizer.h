/* model_tokenizer.h - The tokenizer of a model, wherever the model keeps it.
 *
 * A model directory has tokenizer.json.  A model in GGUF files has its
 * tokenizer in their metadata, unless tokenizer.json is beside them in a
 * directory that is given.
 *
 * Threading: none. */
#ifndef TEXT_MODEL_TOKENIZER_H
#define TEXT_MODEL_TOKENIZER_H

#include "common/base/status.h"
#include "text/tokenizer.h"

/* Loads the tokenizer of the model that path names, a directory or a GGUF
 * file.  Returns ST_NOT_FOUND if it has none; other errors as
 * tokenizer_load(). */
MUST_CHECK enum status model_tokenizer_load(struct tokenizer **out,
                                            const char *path, struct error *e);

#endif
