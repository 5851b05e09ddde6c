/* assets.h - The text files of a model directory, without its weights.
 *
 * For the gateway, which needs more than the router's tokenizer.  From the
 * files of a model directory:
 *
 *     tokenizer.json              the tokenizer
 *     generation_config.json,
 *     config.json                 eos_token_id, from the top level and, in
 *                                 config.json, from text_config
 *     chat_template.jinja         the chat template's bytes; if absent,
 *                                 chat_template of tokenizer_config.json
 *     tokenizer_config.json       named chat templates; the spelling of bos,
 *                                 eos, pad and unk
 *     generation_config.json      the default sampling
 *
 * A model in GGUF files (common/model/gguf_model.h) has all of these in its
 * metadata; a tokenizer.json beside the files goes
 * before their tokenizer.
 *
 * A worker takes its end-of-sequence ids from the same keys and with the same
 * limit (common/model/config.h), so both have one set of ids.  A worker also
 * checks them against the model's vocabulary; here MODEL_VOCAB_MAX bounds
 * them.
 *
 * A directory without tokenizer.json has no tokenizer: clients of the model
 * use ids.  Each of the other files may be missing too.  A broken file is an
 * error.
 *
 * Threading: read-only once loaded; any number of readers.  Memory: results
 * of the functions are borrowed from the assets.  Limits: TEXT_FILE_BYTES,
 * MODEL_EOS_MAX, TEXT_CHAT_BYTES. */
#ifndef TEXT_ASSETS_H
#define TEXT_ASSETS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/text_defaults.h"
#include "text/tokenizer.h"

struct text_assets;

/* Loads a directory, or a GGUF file.  *out is the caller's, to
 * text_assets_free(); NULL on failure.  Returns ST_NOT_FOUND if there is no
 * such directory, otherwise errors as tokenizer_load(), with the file's name in
 * front. */
MUST_CHECK enum status text_assets_load(struct text_assets **out,
                                        const char *model_dir, struct error *e);

/* Frees *a and sets it to NULL; NULL is legal. */
void text_assets_free(struct text_assets **a);

/* Returns the tokenizer, NULL if the directory has none. */
const struct tokenizer *text_assets_tokenizer(const struct text_assets *a);

/* Calls tokenizer_protect() for the tokenizer, if there is one. */
void text_assets_protect(struct text_assets *a, const char *text, size_t n);

/* Returns the ids that end a sequence, each once, in the order of the files.
 * Sets *n to their number, which may be 0. */
const uint32_t *text_assets_eos(const struct text_assets *a, size_t *n);

/* Returns the bytes of the chat template (UTF-8, without NUL) and sets *n to
 * their number; NULL if the model has none.  The template is not interpreted
 * here. */
const char *text_assets_chat_template(const struct text_assets *a, size_t *n);

/* Returns a template of tokenizer_config.json's list by its name ("default",
 * "tool_use") and sets *n to its bytes; NULL if there is none. */
const char *text_assets_named_template(const struct text_assets *a,
                                       const char *name, size_t *n);

/* Return the spelling of a special token; NULL if the model names none. */
const char *text_assets_bos_token(const struct text_assets *a);
const char *text_assets_eos_token(const struct text_assets *a);
const char *text_assets_pad_token(const struct text_assets *a);
const char *text_assets_unk_token(const struct text_assets *a);

/* Returns the sampling that generation_config.json asks for. */
const struct text_defaults *text_assets_defaults(const struct text_assets *a);

#endif
