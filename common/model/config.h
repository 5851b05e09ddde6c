/* config.h - config.json of a model directory, read and checked.
 *
 * Three layouts are read: flat; nested in `text_config`; nested, with absent
 * keys inherited from the top level.  Families, by model_type:
 *
 *     qwen3_5, qwen3_5_text    Gated DeltaNet and gated full attention, dense
 *     qwen3_5_moe, qwen3_5_moe_text, qwen3_next    the same with experts
 *     llama, mistral, qwen2, qwen3    full attention, dense
 *     qwen3_moe                full attention, experts
 *     gpt_oss                  windows and full attention, experts
 *     gemma3, gemma3_text      windows and full attention, dense
 *
 * Quantised weights: common/model/quantisation.h.
 *
 * Features that sluice cannot compute are refused by name with
 * ST_UNIMPLEMENTED: other families, architectures that are no language models
 * (classifiers, embeddings, drafters), latent attention, Mamba-2 layers,
 * routing with biases, groups or sigmoids, other rotary scalings, quantisations
 * and activations.  Values out of range or in contradiction are
 * ST_INVALID_ARGUMENT, with the key and the range in the message.
 *
 * Absent keys have the defaults of the family's reference implementation, as
 * listed in family.c; the dtype is bfloat16.
 *
 * Threading: none.  Memory: a model_config owns nothing and may be copied.
 * Limits: common/model/model_limits.h and proto/limits.h. */
#ifndef COMMON_MODEL_CONFIG_H
#define COMMON_MODEL_CONFIG_H

#include <stddef.h>

#include "common/base/status.h"
#include "common/model/config_types.h"

/* Reads dir/config.json, and dir/generation_config.json and
 * dir/hf_quant_config.json if they exist.  The name is dir's base name.
 * Returns ST_NOT_FOUND if there is no config.json, ST_UNIMPLEMENTED for an
 * embedding model; other errors of directory_check() and config_parse(). */
MUST_CHECK enum status config_load(struct model_config *c, const char *dir,
                                   struct error *e);

/* Parses the bytes of a config.json; c->name stays empty. */
MUST_CHECK enum status config_parse(struct model_config *c, const char *json,
                                    size_t len, struct error *e);

/* Adds the end tokens of a generation_config.json to a parsed c. */
MUST_CHECK enum status config_add_generation(struct model_config *c,
                                             const char *json, size_t len,
                                             struct error *e);

/* Judges a hf_quant_config.json, in which NVIDIA's modelopt names the
 * quantisation of weights that config.json may not mention.  Returns
 * ST_UNIMPLEMENTED if weights are quantised. */
MUST_CHECK enum status config_check_modelopt(const char *json, size_t len,
                                             struct error *e);

/* Sets the model's name, 1 to MODEL_NAME_MAX bytes of UTF-8. */
MUST_CHECK enum status config_set_name(struct model_config *c, const char *name,
                                       struct error *e);

#endif
