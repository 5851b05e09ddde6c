/* gguf_tensors.h - The tensors of a GGUF file under the keys of a checkpoint.
 *
 *     blk.3.attn_q.weight          layers.3.self_attn.q_proj.weight
 *     blk.3.ffn_gate_exps.weight   layers.3.mlp.switch_mlp.gate_proj.weight
 *
 * A tensor whose bytes are not those that a checkpoint would have carries a
 * form, which has the way in which its blocks become rows of a matrix in the
 * order of weights.h.  llama.cpp's conversion changes
 *
 *     rows of q and k (llama)   the halves of a head alternate
 *     value heads (qwen35)      head j of key head k at j * Hk + k, not at
 *                               k * (Hv/Hk) + j: rows of qkv, z, a, b, the
 *                               convolution, A and dt; columns of out
 *     ssm_a                     -exp(A_log)
 *     ssm_ba (qwen3next)        b and a of a key head follow each other
 *     norms                     gamma, never gamma - 1
 *
 * Threading: none.  Memory: a gguf_tensors owns its rows and keys. */
#ifndef COMMON_MODEL_GGUF_TENSORS_H
#define COMMON_MODEL_GGUF_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/gguf_arch.h"
#include "common/model/safetensors.h"

/* Where a stored row or column belongs. */
enum gguf_order {
    GGUF_AS_STORED,
    GGUF_ROTARY_ROWS,  /* the halves of each head's `dim` rows alternate */
    GGUF_TILED_ROWS,   /* value heads of `dim` rows, from row `first` on */
    GGUF_TILED_COLS,   /* value heads of `dim` columns */
    GGUF_GROUPS_FIRST, /* the first `per` of a group's 2 * per rows */
    GGUF_GROUPS_SECOND /* the last `per` */
};

struct gguf_form {
    enum gguf_tensor_type type;
    enum gguf_order order;
    bool minus_log;      /* x = log(-stored) */
    uint32_t first, dim; /* rows or columns */
    uint32_t heads;      /* key heads */
    uint32_t per;        /* value heads of a key head */
};

struct gguf_named {
    const char *key; /* NULL: recognised and not used */
    bool has_form;   /* false: the bytes are those of `info` */
    struct gguf_form form;
};

struct gguf_tensors {
    uint32_t n;
    struct safetensors_tensor *infos; /* [n]; rank 2 or more has a row last */
    struct gguf_named *named;         /* [n] */
    char *names;                      /* keys, and names of infos */
};

/* Finds the keys of the tensors of g, which may be a later part of a's file.  A
 * tensor that two keys share appears twice.  Release with gguf_tensors_fini()
 * on success.  Returns ST_RESOURCE_EXHAUSTED if memory runs out. */
MUST_CHECK enum status gguf_tensors_make(struct gguf_tensors *t,
                                         const struct gguf *g,
                                         const struct gguf_arch *a,
                                         struct error *e);

void gguf_tensors_fini(struct gguf_tensors *t);

#endif
