/* model_writer.h - writes a model directory of random weights for any
 * config.json.
 *
 * The files are those that worker/model/shard.h reads, so that tests and
 * benchmarks need no download: config.json copied, model.safetensors or several
 * files with an index.  The same seed gives the same values, whatever the files
 * and prefixes.  The numbers keep activations finite, and mean nothing.
 *
 * Threading: none.
 * Memory: a buffer; tensors are streamed. */
#ifndef TESTS_BENCH_MODEL_WRITER_H
#define TESTS_BENCH_MODEL_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/weights.h"

enum writer_prefix {
    WRITER_TEXT,       /* model. */
    WRITER_MULTIMODAL, /* model.language_model. */
    WRITER_MLX         /* language_model.model., conv [C, K, 1], gamma whole */
};

enum writer_format {
    WRITER_AS_CONFIG, /* fp8 or mxfp4 as in config.json, else plain */
    WRITER_PLAIN,
    WRITER_FP8,
    WRITER_MXFP4 /* experts; other matrices are plain */
};

/* How experts are stored. */
enum writer_experts {
    WRITER_USUAL,  /* as the prefix and the family have them */
    WRITER_EACH,   /* mlp.experts.E.gate_proj.weight */
    WRITER_FUSED,  /* mlp.experts.gate_up_proj */
    WRITER_SWITCH, /* mlp.switch_mlp.gate_proj.weight */
};

/* Where the MTP layer is, if config.json declares one. */
enum writer_mtp {
    WRITER_NO_MTP,
    WRITER_MTP,       /* in the model's files */
    WRITER_COMPANION, /* in model-mtp.safetensors, as the reference has it */
    WRITER_BARE /* in mtp.safetensors, names without "mtp.", gamma whole */
};

/* All zero: float32, one file, text prefix. */
struct writer_options {
    uint64_t seed;
    enum dtype dtype;
    /* 4 or 8: quantises matrices whose columns group (32, 64 or 128) divides,
     * as common/model/layout.h describes, with scales and biases of dtype, and
     * states it in config.json; 0: none. */
    uint32_t bits, group;
    enum writer_format format; /* if bits is 0; stated in config.json */
    enum writer_experts experts;
    uint32_t n_files; /* 0 means 1 */
    enum writer_prefix prefix;
    enum writer_mtp mtp;
    const char *without; /* omits the tensor whose name ends so */
    const char *extra;   /* adds an F32 [1] tensor with this whole name */
};

/* Makes dir if it does not exist, and fills it. */
MUST_CHECK enum status model_write(const char *config_path, const char *dir,
                                   const struct writer_options *o,
                                   struct error *e);

#endif
