/* gguf_tokenizer.h - The tokenizer.json that GGUF metadata stands for.
 *
 *     tokenizer.ggml.model   gpt2: byte-level BPE with merges; llama:
 *                            SentencePiece, whose merges follow from scores
 *                            (spm_merges.h), with byte_fallback
 *     tokenizer.ggml.pre     gpt2: the split expression, by its name
 *     tokenizer.ggml.tokens, token_type, scores, merges
 *     tokenizer.ggml.add_bos_token, add_eos_token, add_space_prefix
 *     tokenizer.ggml.bos_token_id, eos_token_id, ...
 *     tokenizer.chat_template[.NAME]
 *     general.sampling.temp, top_k, top_p, min_p, penalty_repeat
 *
 * Control tokens become special added tokens, user-defined ones added tokens.
 *
 * Threading: none.  Memory: results are the caller's.  Errors:
 * ST_NOT_FOUND without a tokenizer, ST_UNIMPLEMENTED for a model or split that
 * is not supported, ST_INVALID_ARGUMENT for a broken value. */
#ifndef TEXT_GGUF_TOKENIZER_H
#define TEXT_GGUF_TOKENIZER_H

#include <jansson.h>

#include "common/base/status.h"
#include "common/model/gguf.h"

/* Makes the tokenizer.json, to json_decref(). */
MUST_CHECK enum status gguf_tokenizer_json(json_t **out, const struct gguf *g,
                                           struct error *e);

/* Makes the tokenizer_config.json: bos_token, eos_token, pad_token, unk_token
 * and chat_template, a list of names and templates; to json_decref(). */
MUST_CHECK enum status gguf_tokenizer_config(json_t **out, const struct gguf *g,
                                             struct error *e);

/* Makes the part of generation_config.json that general.sampling.* stands for:
 * temperature, top_k, top_p, min_p, repetition_penalty; to json_decref().
 * Returns ST_INVALID_ARGUMENT for a number of a wrong type. */
MUST_CHECK enum status
gguf_tokenizer_sampling(json_t **out, const struct gguf *g, struct error *e);

#endif
