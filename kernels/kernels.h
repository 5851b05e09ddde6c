/* kernels.h - the operators of the models over a ragged batch.
 *
 * A step is a list of rows; a row is some consecutive tokens of one sequence,
 * and its tokens are rows [first, first + n_tokens) of every tensor below.
 * The residual stream x [T, H] float32 is the backend's: embed (or
 * hidden_write, on a later stage) fills it, each mixer and MLP adds to it,
 * head reads it.  Operators are coarse so that a backend may fuse inside.
 *
 *     begin, embed, {attention | deltanet, mlp} per layer, head, sample, end
 *
 * Numbers.  Matrices are bf16, f16 or f32 as stored, or 8 or 4 bits in groups
 * (common/model/weights.h), widened to float32 in registers; products
 * accumulate in float32; the residual stream and the recurrent state are
 * float32 always.  KV and convolution tails have kv_dtype, rounded to nearest
 * even.  Values are rounded when they enter the cache and read back from it,
 * also inside a chunk, so chunking changes nothing.
 *
 * Batch invariance.  A row's bits depend on its own sequence, its kind and its
 * absolute positions: never on other rows, on chunking, on block or slot
 * numbers, or on threads.  The cpu backend has one arithmetic for both kinds.
 *
 * Pool.  Blocks, slots and checkpoints are numbers; their storage is the
 * backend's.  A block holds k and v of block_tokens positions for each
 * attention layer of the shard: position p is at blocks[p / block_tokens].  A
 * slot holds, for each linear layer, the state [Hv, Dk, Dv] float32 and the
 * tail [K-1, C] kv_dtype, the oldest row first.  A checkpoint is a slot's
 * copy.  Nothing at or past a row's end is read, whatever it holds.
 *
 * Threading: one caller at a time; progress may be read by any thread.
 * Memory: backend_new() allocates all scratch, alloc() the pool; no operator
 * allocates.  The weights are borrowed and outlive the kernels; of a backend
 * with a copy of its own (weight_bytes) only their description must.
 * Limits: below.  Dimension letters: docs/model.md. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"
#include "common/model/weights.h"
#include "common/sampling/sampling.h"

#define KERNELS_HEAD_DIM_MAX    512
#define KERNELS_STATE_DIM_MAX   256   /* Dk and Dv */
#define KERNELS_CONV_MAX        8     /* K */
#define KERNELS_BLOCK_MAX       64    /* block_tokens; a power of two */
#define KERNELS_GROUP_MAX       32    /* nh / nkv */
#define KERNELS_TEMPERATURE_MIN 1e-5f /* below it a choice is greedy */
#define KERNELS_STEP_TOKENS     512   /* default of max_tokens */
#define KERNELS_STEP_ROWS       512   /* default of max_rows */
#define KERNELS_LOGIT_ROWS      64    /* default of max_logits */
#define KERNELS_STEP_TOKENS_MAX 8192
#define KERNELS_THREADS_MAX     256

struct kernels_options {
    const char *device;    /* "cpu", or a wish of kernels/opencl/device.h */
    enum dtype kv_dtype;   /* of KV and tails */
    uint32_t block_tokens; /* a power of two, 1..KERNELS_BLOCK_MAX */
    uint32_t max_tokens;   /* of a step; 0: the default */
    uint32_t max_rows;     /* of a step; 0: the default */
    uint32_t max_logits;   /* rows of one head call; 0: the default */
    uint32_t n_threads;    /* 0: the cpus the process may run on */
    bool pin;              /* a thread a cpu: n_threads is as many as it may
                            * run on; see kernels/cpu/threads.h */
    const char *isa;       /* "avx512", "avx2", "generic"; NULL: the best */
    /* Of opencl: */
    const char *kernel_cache; /* folder of built programs; NULL: the user's,
                               * "": none; see kernels/opencl/program.h */
    bool portable;            /* no kernels made for one maker's devices */
    bool profile;             /* times every kernel, which costs some */
};

struct kernel_row {
    uint32_t first;         /* its first token among the step's */
    uint32_t n_tokens;      /* >= 1 */
    uint32_t position;      /* of the first token in its sequence */
    const uint32_t *blocks; /* its table; covers position + n_tokens */
    uint32_t slot;          /* unused where the shard has no linear layer */
    bool generated;         /* decode kernels rather than prefill kernels */
};

/* Rows in any order; their tokens tile [0, n_tokens).  A sequence has at most
 * one row in a step. */
struct kernel_step {
    const struct kernel_row *rows; /* [n_rows] */
    uint32_t n_rows, n_tokens;
};

/* How a row's token is chosen from l [V] float32: common/sampling/sampling.h,
 * steps 1 to 8.  Equal logits rank by lower id.  With u uniform in [0, 1) from
 * Philox4x32-10, key = seed, counter = (index, choice, 0, 0), the token is
 * the first id, in id order among the kept, at which the running sum of p
 * exceeds u times the kept mass. */
struct sample_row {
    const struct sampling *sampling; /* checked; ids below V */
    uint32_t choice, index;
    const uint32_t *ids; /* [n_ids] prompt ++ generated, each below V; read
                          * only if sampling_penalises() */
    uint32_t n_ids, n_prompt;
};

struct sample_result {
    uint32_t token;
    float logprob; /* of it, if sampling->logprobs */
    /* [n_top_logprobs] if sampling->logprobs: the best first, of equal logits
     * the lower id; past V of them token 0 at -FLT_MAX. */
    struct token_logprob top[TOP_LOGPROBS_MAX];
};

struct kernels_sizes {
    size_t scratch_bytes;    /* of the largest step, allocated */
    size_t block_bytes;      /* 0: no attention layer in the shard */
    size_t slot_bytes;       /* 0: no linear layer in the shard */
    size_t checkpoint_bytes; /* as a slot */
    uint64_t weight_bytes;   /* of a copy of its own; 0: it has none */
    uint64_t device_bytes;   /* of a device with memory of its own, all of
                              * it; 0: it uses the host's */
    uint32_t max_tokens, max_rows, max_logits, n_threads;
    const char *isa; /* or the device's name */
};

struct kernels;

/* What a backend provides; see the calls of the same names below. */
struct kernels_ops {
    const char *name;
    void (*free)(struct kernels *k);
    void (*sizes)(const struct kernels *k, struct kernels_sizes *out);
    enum status (*alloc)(struct kernels *k, uint32_t n_blocks, uint32_t n_slots,
                         uint32_t n_checkpoints, struct error *e);
    void (*zero_slot)(struct kernels *k, uint32_t slot);
    void (*save_slot)(struct kernels *k, uint32_t slot, uint32_t checkpoint);
    void (*load_slot)(struct kernels *k, uint32_t checkpoint, uint32_t slot);
    void (*begin)(struct kernels *k, const struct kernel_step *step);
    enum status (*end)(struct kernels *k, struct error *e);
    void (*embed)(struct kernels *k, const uint32_t *tokens);
    void (*attention)(struct kernels *k, uint32_t layer);
    void (*deltanet)(struct kernels *k, uint32_t layer);
    void (*mlp)(struct kernels *k, uint32_t layer);
    void (*head)(struct kernels *k, const uint32_t *tokens, uint32_t n);
    enum status (*sample)(struct kernels *k, const struct sample_row *rows,
                          uint32_t n, struct sample_result *out,
                          struct error *e);
    void (*hidden_read)(struct kernels *k, uint32_t first, uint32_t n,
                        float *out);
    void (*hidden_write)(struct kernels *k, uint32_t first, uint32_t n,
                         const float *in);
    void (*logits_read)(struct kernels *k, uint32_t i, float *out);
    void (*logits_write)(struct kernels *k, uint32_t i, const float *in);
    void (*block_copy)(struct kernels *k, uint32_t layer, uint32_t block,
                       void *kv, bool write);
    void (*slot_copy)(struct kernels *k, uint32_t layer, uint32_t slot,
                      float *state, void *tail, bool write);
    uint64_t (*progress)(const struct kernels *k);
    bool (*lost)(const struct kernels *k);         /* may be NULL */
    void (*profile)(struct kernels *k, FILE *out); /* may be NULL */
};

struct kernels {
    const struct kernels_ops *ops;
};

/* Frees what backend_new() made (kernels/backends/backend.h) and nulls *k;
 * *k may be NULL. */
static inline void kernels_free(struct kernels **k)
{
    if (*k) {
        (*k)->ops->free(*k);
        *k = NULL;
    }
}

static inline void kernels_sizes(const struct kernels *k,
                                 struct kernels_sizes *out)
{
    k->ops->sizes(k, out);
}

/* The pool's storage, once; undefined until written, slots need zero_slot.
 * A kind that the shard lacks is ignored. */
MUST_CHECK static inline enum status
kernels_alloc(struct kernels *k, uint32_t n_blocks, uint32_t n_slots,
              uint32_t n_checkpoints, struct error *e)
{
    return k->ops->alloc(k, n_blocks, n_slots, n_checkpoints, e);
}

static inline void kernels_zero_slot(struct kernels *k, uint32_t slot)
{
    k->ops->zero_slot(k, slot);
}

/* checkpoint := slot, and back. */
static inline void kernels_save_slot(struct kernels *k, uint32_t slot,
                                     uint32_t checkpoint)
{
    k->ops->save_slot(k, slot, checkpoint);
}

static inline void kernels_load_slot(struct kernels *k, uint32_t checkpoint,
                                     uint32_t slot)
{
    k->ops->load_slot(k, checkpoint, slot);
}

/* The step that the operators below work on; borrowed until end. */
static inline void kernels_begin(struct kernels *k,
                                 const struct kernel_step *step)
{
    k->ops->begin(k, step);
}

/* Waits for what was asked for since begin; the first failure among it. */
MUST_CHECK static inline enum status kernels_end(struct kernels *k,
                                                 struct error *e)
{
    return k->ops->end(k, e);
}

/* x[t] := E[tokens[t]]; tokens [n_tokens] u32, each < V. */
static inline void kernels_embed(struct kernels *k, const uint32_t *tokens)
{
    k->ops->embed(k, tokens);
}

/* x += mixer(norm(x)) for layer `begin + layer` of the shard; the formulas,
 * step by step, are in docs/model.md. */
static inline void kernels_attention(struct kernels *k, uint32_t layer)
{
    k->ops->attention(k, layer);
}

static inline void kernels_deltanet(struct kernels *k, uint32_t layer)
{
    k->ops->deltanet(k, layer);
}

/* x += down(silu(gate(n)) * up(n)), n = norm(x). */
static inline void kernels_mlp(struct kernels *k, uint32_t layer)
{
    k->ops->mlp(k, layer);
}

/* logits[i] := Whead norm(x[tokens[i]]); logits [n, V] float32 stay in the
 * backend until the next head.  tokens [n] u32; n <= max_logits. */
static inline void kernels_head(struct kernels *k, const uint32_t *tokens,
                                uint32_t n)
{
    k->ops->head(k, tokens, n);
}

/* out[i] := the token chosen from logits[i]; out [n].  Waits for it.  The
 * logits are used up.  ST_INTERNAL, with a sentence, if any is not finite,
 * as the model gave it or once adjusted; it names the first such row, and out
 * is undefined. */
MUST_CHECK static inline enum status
kernels_sample(struct kernels *k, const struct sample_row *rows, uint32_t n,
               struct sample_result *out, struct error *e)
{
    return k->ops->sample(k, rows, n, out, e);
}

/* x[first .. first + n) to and from out, in [n, H] float32, of the step's
 * tokens as the caller numbers them: written between begin and end, read until
 * the next begin.  They wait. */
static inline void kernels_hidden_read(struct kernels *k, uint32_t first,
                                       uint32_t n, float *out)
{
    k->ops->hidden_read(k, first, n, out);
}

static inline void kernels_hidden_write(struct kernels *k, uint32_t first,
                                        uint32_t n, const float *in)
{
    k->ops->hidden_write(k, first, n, in);
}

/* logits[i] [V] float32; read before sample.  They wait. */
static inline void kernels_logits_read(struct kernels *k, uint32_t i,
                                       float *out)
{
    k->ops->logits_read(k, i, out);
}

static inline void kernels_logits_write(struct kernels *k, uint32_t i,
                                        const float *in)
{
    k->ops->logits_write(k, i, in);
}

/* A block of an attention layer in canonical layout, kv_dtype: k then v, each
 * [block_tokens, nkv, hd]; `write` says to the backend.  They wait. */
static inline void kernels_block_copy(struct kernels *k, uint32_t layer,
                                      uint32_t block, void *kv, bool write)
{
    k->ops->block_copy(k, layer, block, kv, write);
}

/* A slot of a linear layer: state [Hv, Dk, Dv] float32, tail [K-1, C]
 * kv_dtype. */
static inline void kernels_slot_copy(struct kernels *k, uint32_t layer,
                                     uint32_t slot, float *state, void *tail,
                                     bool write)
{
    k->ops->slot_copy(k, layer, slot, state, tail, write);
}

/* Has the device failed, so that it computes no more?  Then end, sample and
 * alloc have said how.  By the caller. */
static inline bool kernels_lost(const struct kernels *k)
{
    return k->ops->lost != NULL && k->ops->lost(k);
}

/* Time, bytes and rate of every kernel so far, if the options asked for it.
 * By the caller. */
static inline void kernels_profile(struct kernels *k, FILE *out)
{
    if (k->ops->profile != NULL) {
        k->ops->profile(k, out);
    }
}

/* Ticks of work done: per operator, and per tile of a long one.  On a device
 * what it has finished, not what it was asked for. */
static inline uint64_t kernels_progress(const struct kernels *k)
{
    return k->ops->progress(k);
}

#endif
