/* assets.h - what a program needs to know of a model's text, without its
 * weights: tokenizer, end-of-sequence ids, chat template.
 *
 * From the files of a model directory:
 *     tokenizer.json                              the tokenizer, if there
 *     generation_config.json, config.json         eos_token_id, all that are
 *                                                 named there and in
 *                                                 text_config, as a worker
 *                                                 takes them
 *     chat_template.jinja, else the chat_template of tokenizer_config.json
 *                                                 the template's bytes
 * A directory without tokenizer.json has no tokenizer: the model is served by
 * ids.  Each of the others may be missing too; a file that is there and
 * broken is an error.
 *
 * Threading: read-only once loaded; any number of readers.
 * Memory: what the functions return is borrowed from the assets.
 * Limits: TEXT_FILE_BYTES, MODEL_EOS_MAX, TEXT_CHAT_BYTES. */
#ifndef TEXT_ASSETS_H
#define TEXT_ASSETS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/tokenizer.h"

struct text_assets;

/* *out is the caller's, to text_assets_free(); NULL on failure.
 * ST_NOT_FOUND: no such directory; else as tokenizer_load(), with the file's
 * name in front. */
MUST_CHECK enum status text_assets_load(struct text_assets **out,
                                        const char *model_dir, struct error *e);

/* Free *a and set it to NULL; NULL is legal. */
void text_assets_free(struct text_assets **a);

/* NULL if the model is served by ids. */
const struct tokenizer *text_assets_tokenizer(const struct text_assets *a);

/* The tokenizer's hash, [TOKENIZER_HASH_BYTES]; NULL without a tokenizer. */
const uint8_t *text_assets_hash(const struct text_assets *a);

/* The ids that end a sequence, without repetition, in the files' order; their
 * number, which may be 0, goes to *n. */
const uint32_t *text_assets_eos(const struct text_assets *a, size_t *n);

/* The chat template's bytes (UTF-8, no NUL behind), their number to *n; NULL
 * if the model has none.  Nothing here interprets them. */
const char *text_assets_chat_template(const struct text_assets *a, size_t *n);

#endif
