/* model_limits.h - Limits of model directories.
 *
 * A file that exceeds a limit is refused, and the message has the limit's
 * value. Each row has a test at the limit and one past it.  Limits that the
 * wire shares are in proto/limits.h.
 *
 * Threading: constant data. */
#ifndef COMMON_MODEL_MODEL_LIMITS_H
#define COMMON_MODEL_MODEL_LIMITS_H

#include "common/base/limit.h"
#include "proto/limits.h"

/* X(name, value, unit, what it bounds) */
#define MODEL_LIMITS(X)                                                     \
    X(MODEL_INTERMEDIATE_MAX, 1048576, "", "intermediate size of an MLP")   \
    X(MODEL_EXPERTS_MAX, 1024, "experts", "a layer")                        \
    X(MODEL_TOP_K_MAX, 32, "experts", "a token in a layer")                 \
    X(MODEL_HEADS_MAX, 1024, "heads", "a layer, of each kind")              \
    X(MODEL_HEAD_DIM_MAX, 512, "", "dimensions of an attention head")       \
    X(MODEL_KEY_DIM_MAX, 256, "", "dimensions of a linear key head")        \
    X(MODEL_VALUE_DIM_MAX, 256, "", "dimensions of a linear value head")    \
    X(MODEL_CONV_MIN, 2, "taps", "a convolution, at least")                 \
    X(MODEL_CONV_MAX, 8, "taps", "a convolution")                           \
    X(MODEL_MTP_MAX, 16, "layers", "multi-token prediction")                \
    X(MODEL_FACTOR_MAX, 65536, "", "factor or alpha of rotary positions")   \
    X(MODEL_YARN_MAX, 1024, "", "beta, scale and attention factor of yarn") \
    X(MODEL_CAP_MAX, 1048576, "",                                           \
      "cap of scores or logits, multiplier, limit of activations")          \
    X(MODEL_GROUP_MIN, 32, "weights", "a quantised group, at least")        \
    X(MODEL_GROUP_MAX, 128, "weights", "a quantised group")                 \
    X(KV_GROUP_MIN, 32, "values", "a group of a KV cache, at least")        \
    X(KV_GROUP_MAX, 128, "values", "a group of a KV cache")                 \
    X(KV_TURBO_BITS_MIN, 2, "bits", "a turboquant value, at least")         \
    X(KV_TURBO_BITS_MAX, 4, "bits", "a turboquant value")                   \
    X(KV_TURBO_DIM_MIN, 16, "", "a head that turboquant takes, at least")   \
    X(CONFIG_BYTES_MAX, 4194304, "bytes", "config.json")                    \
    X(INDEX_BYTES_MAX, 67108864, "bytes", "model.safetensors.index.json")   \
    X(INDEX_MEMBERS_MAX, 524288, "entries", "such an index")                \
    X(INDEX_FILES_MAX, 512, "files", "with a model's weights")              \
    X(DOCUMENT_DEPTH_MAX, 32, "levels", "a JSON file")                      \
    X(DOCUMENT_VALUES_MAX, 1048576, "values", "a JSON file")                \
    X(SAFETENSORS_HEADER_MAX, 100000000, "bytes", "a safetensors header")   \
    X(SAFETENSORS_NAME_MAX, 16384, "bytes", "a tensor's name")              \
    X(SAFETENSORS_RANK_MAX, 8, "", "dimensions of a tensor")                \
    X(GGUF_HEADER_MAX, 268435456, "bytes", "a GGUF header")                 \
    X(GGUF_VALUES_MAX, 65536, "values", "its metadata")                     \
    X(GGUF_TENSORS_MAX, 65536, "tensors", "a GGUF file")                    \
    X(GGUF_NAME_MAX, 255, "bytes", "a key or tensor's name in it")          \
    X(GGUF_RANK_MAX, 4, "", "dimensions of a tensor in it")                 \
    X(GGUF_STRING_MAX, 4194304, "bytes", "a string in it")                  \
    X(GGUF_ITEMS_MAX, 4194304, "items", "an array in it")                   \
    X(GGUF_ALIGNMENT_MAX, 65536, "bytes", "the alignment of its data")      \
    X(SHARD_THREADS_MAX, 64, "threads", "that read a shard")

enum model_limit {
#define X(name, value, unit, what) name = value,
    MODEL_LIMITS(X)
#undef X
};

/* Limits that are not whole numbers. */
#define MODEL_THETA_MIN 1.0
#define MODEL_THETA_MAX 1e12
#define MODEL_EPS_MAX   0.1
#define MODEL_CAP_MIN   1e-6

extern const struct limit_row model_limits[];
extern const size_t model_limits_n;

#endif
