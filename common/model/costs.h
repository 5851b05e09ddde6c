/* costs.h - A model's costs, the input of common/split/layer_split.h.
 *
 * Bytes are those of sizes.h, which are the bytes that a worker holds and
 * reports in its Hello.
 *
 * A decode step reads the experts that its rows choose.  How many depends on
 * the rows and on the text; the measure here is the expectation for a step of
 * COSTS_STEP_ROWS rows that choose top_k of E experts uniformly and
 * independently, (1 - (1 - top_k / E)^rows) of the experts' bytes: between a
 * single sequence, which reads top_k / E of them, and a full step, which reads
 * nearly all.
 *
 * Scratch is computed, not measured, so that programs without a backend agree
 * with the worker to the block.  It is an upper bound of what the backends
 * allocate: by at most 10 % on the CPU, more on an OpenCL device, whose
 * kernels vary.  A worker whose backend takes more counts that instead.
 *
 * A config that drafts adds the MTP layer and its scratch to the stage with the
 * head, and each linear layer keeps inputs of costs_keep_tokens() tokens.
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_MODEL_COSTS_H
#define COMMON_MODEL_COSTS_H

#include <stdbool.h>

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/kv_format.h"
#include "common/split/layer_split.h"

#define COSTS_STEP_ROWS 8

/* Defaults of --step-tokens and --chunk-tokens.  A GPU starves on the steps
 * that suit a CPU: docs/speed.md has the figures. */
#define STEP_TOKENS_CPU  512
#define CHUNK_TOKENS_CPU 256
#define STEP_TOKENS_GPU  2048
#define CHUNK_TOKENS_GPU 1024

/* The largest step of a worker, and what else its scratch depends on. */
struct costs_step {
    uint32_t tokens, rows, threads;
    uint32_t logits; /* rows of logits at a time */
    uint32_t plans;  /* the engine's depth and one more: plans with hidden
                        states in memory */
    uint32_t block_tokens, context;
    uint32_t keep_tokens; /* inputs that rows with drafts keep at once */
    enum dtype kept;      /* the dtype of the KV cache; unused without these */
    bool opencl;          /* on an OpenCL device; false: on the CPU */
    bool int8;            /* on the CPU, with integer products */
};

/* Rows whose drafts are kept at once. */
#define COSTS_KEEP_ROWS 64

/* Returns the tokens whose inputs a worker keeps, with at most that many drafts
 * of a sequence and rows in a step: (drafts + 1) * min(rows, COSTS_KEEP_ROWS);
 * 0 without drafts. */
uint32_t costs_keep_tokens(uint32_t drafts, uint32_t max_rows);

/* Returns the bytes of these inputs in layers [begin, end). */
uint64_t costs_kept(const struct model_config *c, const struct costs_step *step,
                    uint32_t begin, uint32_t end);

/* Sets the kept bytes of the layers of m. */
void costs_add_kept(struct split_model *m, const struct model_config *c,
                    const struct costs_step *step);

/* Fills m from the configuration alone, with matrices as in sizes.h. */
void costs_of_shapes(struct split_model *m, const struct model_config *c,
                     const struct kv_format *kv);

/* Replaces the weights of m by those in the headers of the model's files,
 * each tensor as stored.  Errors as layout_make(). */
MUST_CHECK enum status costs_of_files(struct split_model *m,
                                      const struct model_config *c,
                                      const struct checkpoint *files,
                                      struct error *e);

/* Returns what a decode step reads of a layer's experts, which take that many
 * bytes together. */
uint64_t costs_step_experts(const struct model_shape *s, uint64_t bytes);

/* Returns the scratch of a step: activations, tables and transfers. */
uint64_t costs_scratch(const struct model_config *c,
                       const struct costs_step *step);

/* Returns what the stage with the head adds: logits and sampling, and the
 * inputs of the MTP layer if the config drafts. */
uint64_t costs_head_scratch(const struct model_config *c,
                            const struct costs_step *step);

/* Returns what any other stage adds: the hidden states of its plans. */
uint64_t costs_hidden_scratch(const struct model_config *c,
                              const struct costs_step *step);

/* Returns the tokens of a step at one of several stages: at most `tokens`, and
 * as many as have hidden states for one frame (FRAME_TENSOR_MAX). */
uint32_t costs_stage_tokens(const struct model_config *c, uint32_t tokens);

/* Returns all scratch of a stage with layers [begin, end), and what it keeps.
 */
uint64_t costs_stage_scratch(const struct model_config *c,
                             const struct costs_step *step, uint32_t begin,
                             uint32_t end);

#endif
