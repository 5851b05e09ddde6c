/* gguf_config.h - The configuration of a model in GGUF files.
 *
 * Metadata becomes the config.json that the model would have, which config.h
 * reads and checks; a few fields follow from the tensors:
 *
 *     vocabulary            rows of token_embd
 *     tied head             no output.weight
 *     dtype                 token_embd's if it is plain, else bfloat16
 *     biases                attn_q.bias, attn_output.bias
 *     dense layers          blk.N.ffn_gate.weight among experts
 *     llama3 rotary scaling rope_freqs.weight, which must be that of factor f,
 *                           low_freq_factor 1, high_freq_factor 4 and
 *                           original_max_position_embeddings 8192
 *
 * Norms are stored as gamma, Gated DeltaNet projections apart.
 *
 * Threading: none.  Memory: none stays. */
#ifndef COMMON_MODEL_GGUF_CONFIG_H
#define COMMON_MODEL_GGUF_CONFIG_H

#include <jansson.h>

#include "common/base/status.h"
#include "common/model/config_types.h"
#include "common/model/gguf_model.h"

/* Reads the configuration of an open model; c->name stays empty.  Errors of
 * config_parse() and gguf_arch_read(). */
MUST_CHECK enum status gguf_config(struct model_config *c,
                                   const struct gguf_model *m, struct error *e);

#endif
