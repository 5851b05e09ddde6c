/* kernels.h - the operators of the models over a ragged batch.
 *
 * A step is a list of rows.  A row is some consecutive tokens of one sequence;
 * its tokens are rows [first, first + n_tokens) of every tensor below.  The
 * backend owns the residual stream x [T, H] float32: embed fills it
 * (hidden_write on a later stage), each mixer and MLP adds to it, head reads
 * it.  Operators are coarse so that a backend can fuse kernels inside.
 *
 *     begin, embed, {mixer, ffn} per layer, keep_hidden, head, sample, end
 *
 * Drafts.  A row of generated tokens may end in drafts, tokens that are only
 * proposed; head and sample take all of its tokens.  KV of refused drafts is
 * overwritten later.  The state must not advance by them: a row with `keep`
 * leaves its slot as it is and keeps the inputs of its linear layers, and
 * replay() advances the slot by the tokens that were accepted, with the bits
 * of plain rows.
 *
 * The MTP layer proposes drafts in steps of its own, after those whose outputs
 * it reads:
 *
 *     begin, draft_input, mixer, ffn, keep_hidden, head, sample, end
 *
 * Its layer is number end - begin of the shard.  Its rows have the block tables
 * of their sequences; their slots and windows are not read.
 *
 * Numbers.  Matrices are stored as bf16, f16 or f32, or with 8 or 4 bits in
 * groups (common/model/weights.h), and are widened to float32 in registers.
 * Products accumulate in float32.  The residual stream and the recurrent state
 * are always float32.
 *
 * Integer products (PRODUCTS_INT8, of the cpu backend).  The operand of a
 * quantised matrix, of any format but fp8, is rounded to 8 bits in blocks of
 * its columns, and integers are multiplied: kernels/isa/int8.h has the
 * arithmetic.  Routers of experts keep float32 products, as do plain matrices.
 * Results differ from those of PRODUCTS_FLOAT, and are as independent of
 * batches, chunks, threads and instruction sets.
 *
 * KV has the format of common/model/kv_format.h,
 * convolution tails its dtype, rounded to nearest even.  Values are rounded
 * when they enter the cache and are read back from it, also inside a chunk, so
 * chunking changes nothing.
 *
 * Batch invariance.  A row's bits depend on its own sequence, its kind and its
 * absolute positions.  They never depend on other rows, chunking, block or slot
 * numbers, or threads.  The cpu backend computes both kinds of rows with the
 * same arithmetic.
 *
 * Pool.  The backend owns n_pages pages (common/model/page_layout.h); callers
 * address them by number.
 *
 * - A block is one page: k and v of block_tokens positions for each attention
 *   layer of the shard.  Position p is in blocks[p / block_tokens].
 * - A window block is window_pages pages: k and v of block_tokens positions for
 *   each window layer.  Blocks behind the window may be missing.
 * - A slot is pages_per_slot consecutive pages, named by the first: the state
 *   of each linear layer.  That of a Gated DeltaNet is [Hv, Dk, Dv] float32 and
 *   the tail [K-1, C] of kv.dtype, oldest row first.
 * - A checkpoint is a copy of a slot, at the end of a row or inside it
 *   (struct kernel_save).
 *
 * Host pages are a second tier: alloc_host() gives n pages of pinned memory of
 * the host with the bytes of a page each, to which pages of the pool are copied
 * and back.
 *
 * Operators never read anything at or past a row's end, whatever is stored
 * there.
 *
 * Threading: one caller at a time; any thread may read progress.
 * Memory: backend_new() allocates all scratch, alloc() the pool; no operator
 * allocates.  The weights are borrowed and must outlive the kernels.  If the
 * backend holds its own copy (weight_bytes), only the description of the
 * weights must.
 * Limits: below.  Dimension letters: docs/model.md. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"
#include "common/model/kv_format.h"
#include "common/model/weights.h"
#include "common/sampling/sampling.h"

#define KERNELS_HEAD_DIM_MAX    512
#define KERNELS_STATE_DIM_MAX   256   /* Dk and Dv */
#define KERNELS_CONV_MAX        8     /* K */
#define KERNELS_BLOCK_MAX       64    /* block_tokens; a power of two */
#define KERNELS_GROUP_MAX       32    /* nh / nkv */
#define KERNELS_EXPERTS_MAX     1024  /* E */
#define KERNELS_TOP_K_MAX       32    /* experts of a token */
#define KERNELS_TEMPERATURE_MIN 1e-5f /* greedy below it */
#define KERNELS_STEP_TOKENS     512   /* default of max_tokens */
#define KERNELS_STEP_ROWS       512   /* default of max_rows */
#define KERNELS_LOGIT_ROWS      64    /* default of max_logits */
#define KERNELS_SAVES_MAX       4     /* checkpoints of one row in a step */
#define KERNELS_SAVE_CUT        64    /* their positions are multiples of it */
#define KERNELS_KEEP_MAX        9     /* tokens of a row that keeps */
#define KERNELS_STEP_TOKENS_MAX 8192
#define KERNELS_KEEP_TOKENS_MAX 16384
#define KERNELS_THREADS_MAX     256

/* How quantised weights are multiplied on the CPU. */
enum kernels_products { PRODUCTS_FLOAT, PRODUCTS_INT8 };

struct kernels_options {
    const char *device;    /* "cpu", or a device selector of
                            * kernels/opencl/host/device.h */
    struct kv_format kv;   /* KV's; its dtype is also that of tails */
    uint32_t block_tokens; /* a power of two, 1..KERNELS_BLOCK_MAX */
    uint32_t max_tokens;   /* tokens of a step; 0: the default */
    uint32_t max_rows;     /* rows of a step; 0: the default */
    uint32_t max_logits;   /* rows of one head call; 0: the default */
    uint32_t keep_tokens;  /* inputs that rows keep at once, for drafts; 0:
                            * none, at most KERNELS_KEEP_TOKENS_MAX */
    uint32_t n_threads;    /* 0: the CPUs the process may run on */
    bool pin;              /* pins each thread to its own CPU; n_threads must
                            * then be the number of CPUs the process may run on;
                            * see kernels/cpu/threads.h */
    const char *isa;       /* "avx512", "avx2", "generic"; NULL: the best */
    enum kernels_products products;
    /* Options of the opencl backend: */
    const char *kernel_cache; /* folder of built programs; NULL: the user's
                               * cache, "": no cache; see
                               * kernels/opencl/host/program.h */
    bool portable;            /* skips kernels tuned for one vendor */
    bool profile;             /* times every kernel, at some cost */
};

/* A checkpoint taken while a row runs: the state after positions below
 * `position`. */
struct kernel_save {
    uint32_t position; /* a multiple of KERNELS_SAVE_CUT in
                        * (row's position, row's end] */
    uint32_t page;     /* the first of the checkpoint's pages */
};

struct kernel_row {
    uint32_t first;         /* index of its first token among the step's
                             * tokens */
    uint32_t n_tokens;      /* >= 1 */
    uint32_t position;      /* position of the first token in its sequence */
    const uint32_t *blocks; /* block table; covers position + n_tokens */
    /* Window blocks: that of position p is in, for table i,
     * window[i * window_stride + p / block_tokens - window_first].  They cover
     * the windows of all tokens of the row.  NULL in a step without window
     * layers. */
    const uint32_t *window; /* [window_pages, window_stride] */
    uint32_t window_first, window_stride;
    uint32_t slot;  /* first page of its slot; unused if the shard has
                     * no linear layer */
    bool generated; /* selects decode kernels, not prefill kernels */
    bool keep;      /* its slot does not change: the inputs of its linear
                     * layers are kept in [keep_at, keep_at + n_tokens) of
                     * keep_tokens.  Generated rows of at most KERNELS_KEEP_MAX
                     * tokens, without saves */
    uint32_t keep_at;
    uint32_t n_saves; /* at most KERNELS_SAVES_MAX; 0 without linear
                       * layers */
    const struct kernel_save *saves; /* in ascending order of position */
};

/* Advances a slot by the first n_tokens inputs that a row has kept at keep_at.
 * The slot has not changed since that row. */
struct kernel_replay {
    uint32_t slot, keep_at, n_tokens;
};

/* Holds rows in any order; their tokens tile [0, n_tokens).  A sequence has at
 * most one row in a step. */
struct kernel_step {
    const struct kernel_row *rows; /* [n_rows] */
    uint32_t n_rows, n_tokens;
};

/* Describes how a row's token is chosen from l [V] float32: steps 1 to 8 of
 * common/sampling/sampling.h.  Equal logits rank by lower id.  Let u be uniform
 * in [0, 1) from Philox4x32-10 with key = seed and counter = (index, choice, 0,
 * 0).  The token is the first kept id, in id order, at which the running sum of
 * p exceeds u times the kept mass. */
struct sample_row {
    const struct sampling *sampling; /* already checked; its ids are below V */
    uint32_t choice, index;          /* key of the draw */
    const uint32_t *ids; /* [n_ids] prompt ++ generated, each below V; read only
                          * if sampling_penalises() */
    uint32_t n_ids, n_prompt;
};

struct sample_result {
    /* ST_OK, or ST_DATA_LOSS if the row's logits are not finite, as computed or
     * after bias and penalties; all else is then undefined. */
    enum status status;
    uint32_t token;
    float logprob; /* the token's own, if sampling->logprobs */
    /* [n_top_logprobs] if sampling->logprobs: best first, equal logits by lower
     * id.  Entries past the V that exist are token 0 at -FLT_MAX. */
    struct token_logprob top[TOP_LOGPROBS_MAX];
};

struct kernels_sizes {
    size_t scratch_bytes;     /* allocated for the largest step */
    uint64_t page_bytes;      /* one page, all groups */
    uint32_t pages_per_block; /* 1; 0: the shard has no attention layer */
    uint32_t pages_per_slot;  /* 0: the shard has no linear layer */
    uint32_t window_pages;    /* 0: the shard has no window layer */
    uint32_t pages_max;       /* most pages that kernels_alloc() takes, because
                               * a group is one allocation; 0: no limit */
    bool one_arithmetic;      /* prompt and generated rows have the same bits */
    bool drafts;              /* the backend computes replay, draft_input and
                               * keep_hidden */
    uint64_t weight_bytes;    /* bytes of the backend's own copy; 0: it has
                               * none */
    uint64_t device_bytes;    /* all memory of a device with its own memory; 0:
                               * the device uses the host's */
    uint32_t max_tokens, max_rows, max_logits, n_threads;
    const char *isa; /* instruction set, or the device's name */
};

struct kernels;

/* Functions that a backend provides; the calls of the same names below describe
 * them. */
struct kernels_ops {
    const char *name;
    void (*free)(struct kernels *k);
    void (*sizes)(const struct kernels *k, struct kernels_sizes *out);
    enum status (*alloc)(struct kernels *k, uint32_t n_pages, struct error *e);
    void (*zero_slot)(struct kernels *k, uint32_t slot);
    void (*copy_pages)(struct kernels *k, uint32_t from, uint32_t to,
                       uint32_t n);
    enum status (*alloc_host)(struct kernels *k, uint32_t n_pages,
                              struct error *e);
    void (*page_out)(struct kernels *k, uint32_t page, uint32_t host,
                     uint32_t n);
    void (*page_in)(struct kernels *k, uint32_t host, uint32_t page,
                    uint32_t n);
    void (*poison_pages)(struct kernels *k, uint32_t first, uint32_t n);
    void (*begin)(struct kernels *k, const struct kernel_step *step);
    enum status (*end)(struct kernels *k, struct error *e);
    void (*replay)(struct kernels *k, const struct kernel_replay *r,
                   uint32_t n);
    void (*embed)(struct kernels *k, const uint32_t *tokens);
    void (*draft_input)(struct kernels *k, const uint32_t *tokens,
                        const uint32_t *from);
    void (*keep_hidden)(struct kernels *k);
    void (*mixer)(struct kernels *k, uint32_t layer);
    void (*ffn)(struct kernels *k, uint32_t layer);
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
                      uint32_t part, void *data, bool write);
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

/* Allocates the pool's pages, once.  Contents are undefined until written; a
 * slot needs zero_slot or copy_pages first.  Returns ST_RESOURCE_EXHAUSTED if
 * memory is short. */
MUST_CHECK static inline enum status
kernels_alloc(struct kernels *k, uint32_t n_pages, struct error *e)
{
    return k->ops->alloc(k, n_pages, e);
}

/* Sets the state and tail of the slot whose first page is `slot` to zero. */
static inline void kernels_zero_slot(struct kernels *k, uint32_t slot)
{
    k->ops->zero_slot(k, slot);
}

/* Copies n pages, in order with the steps before and after.  The two ranges do
 * not overlap. */
static inline void kernels_copy_pages(struct kernels *k, uint32_t from,
                                      uint32_t to, uint32_t n)
{
    k->ops->copy_pages(k, from, to, n);
}

/* Allocates the pages of the host tier, once, after kernels_alloc().  Returns
 * ST_RESOURCE_EXHAUSTED if memory is short. */
MUST_CHECK static inline enum status
kernels_alloc_host(struct kernels *k, uint32_t n_pages, struct error *e)
{
    return k->ops->alloc_host(k, n_pages, e);
}

/* Copies n pages of the pool to host pages, and back.  Results are those of a
 * copy in order with the steps and copies before and after.  Does not wait: on
 * a device the copy runs beside later steps.  A step, or another call, waits
 * only for copies of pages that it names (kernels/opencl/host/copies.h), and
 * kernels_end() returns the failures of those; failures of other copies are
 * returned by a later kernels_end(). */
static inline void kernels_page_out(struct kernels *k, uint32_t page,
                                    uint32_t host, uint32_t n)
{
    k->ops->page_out(k, page, host, n);
}

static inline void kernels_page_in(struct kernels *k, uint32_t host,
                                   uint32_t page, uint32_t n)
{
    k->ops->page_in(k, host, page, n);
}

/* Fills n pages with bytes 0xff, which read as NaN.  For tests. */
static inline void kernels_poison_pages(struct kernels *k, uint32_t first,
                                        uint32_t n)
{
    k->ops->poison_pages(k, first, n);
}

/* Starts a step, on which the operators below work.  Borrows step until
 * kernels_end(). */
static inline void kernels_begin(struct kernels *k,
                                 const struct kernel_step *step)
{
    k->ops->begin(k, step);
}

/* Waits for all work requested since begin; returns its first failure. */
MUST_CHECK static inline enum status kernels_end(struct kernels *k,
                                                 struct error *e)
{
    return k->ops->end(k, e);
}

/* Advances n slots, each at most once, in all linear layers; in order with the
 * steps before and after.  Does not wait.  Nothing to do without linear
 * layers. */
static inline void kernels_replay(struct kernels *k,
                                  const struct kernel_replay *r, uint32_t n)
{
    k->ops->replay(k, r, n);
}

/* Sets x[t] := fc (embed_norm(E[tokens[t]]), hidden_norm(h[from[t]])) in a step
 * of the MTP layer; tokens, from [n_tokens] u32.  h are the rows that the last
 * keep_hidden() kept, numbered as its step's tokens. */
static inline void kernels_draft_input(struct kernels *k,
                                       const uint32_t *tokens,
                                       const uint32_t *from)
{
    k->ops->draft_input(k, tokens, from);
}

/* Keeps h[t] := norm(x[t]) of all tokens of the step, after its last layer:
 * final_norm, or that of the MTP layer in its steps.  Only in shards with an
 * MTP layer. */
static inline void kernels_keep_hidden(struct kernels *k)
{
    k->ops->keep_hidden(k);
}

/* Sets x[t] := E[tokens[t]]; tokens [n_tokens] u32, each < V. */
static inline void kernels_embed(struct kernels *k, const uint32_t *tokens)
{
    k->ops->embed(k, tokens);
}

/* Adds the layer's mixer: x += mixer(norm(x)) for layer `begin + layer` of the
 * shard.  docs/model.md gives the formulas step by step. */
static inline void kernels_mixer(struct kernels *k, uint32_t layer)
{
    k->ops->mixer(k, layer);
}

/* Adds the layer's feed-forward, an MLP or experts: x += ffn(norm(x)).  A
 * token's experts are summed in a fixed order, whatever else is in the step. */
static inline void kernels_ffn(struct kernels *k, uint32_t layer)
{
    k->ops->ffn(k, layer);
}

/* Computes logits[i] := Whead norm(x[tokens[i]]), with the norm of keep_hidden.
 * The logits [n, V] float32 stay in the backend until the next head.  tokens
 * [n] u32; n <= max_logits. */
static inline void kernels_head(struct kernels *k, const uint32_t *tokens,
                                uint32_t n)
{
    k->ops->head(k, tokens, n);
}

/* Chooses out[i] from logits[i] and waits for it; out [n].  The logits are
 * consumed.  Each row has its own status, and rows that cannot be sampled
 * change no bit of the others.  Returns an error only if the device has failed;
 * out is then undefined. */
MUST_CHECK static inline enum status
kernels_sample(struct kernels *k, const struct sample_row *rows, uint32_t n,
               struct sample_result *out, struct error *e)
{
    return k->ops->sample(k, rows, n, out, e);
}

/* Reads x[first .. first + n) into out [n, H] float32, tokens numbered as the
 * caller numbers them.  Allowed until the next begin.  Waits. */
static inline void kernels_hidden_read(struct kernels *k, uint32_t first,
                                       uint32_t n, float *out)
{
    k->ops->hidden_read(k, first, n, out);
}

/* Writes in [n, H] float32 to x[first .. first + n), between begin and end.
 * Waits. */
static inline void kernels_hidden_write(struct kernels *k, uint32_t first,
                                        uint32_t n, const float *in)
{
    k->ops->hidden_write(k, first, n, in);
}

/* Reads logits[i] [V] float32, before sample.  Waits. */
static inline void kernels_logits_read(struct kernels *k, uint32_t i,
                                       float *out)
{
    k->ops->logits_read(k, i, out);
}

/* Writes logits[i] [V] float32, before sample.  Waits. */
static inline void kernels_logits_write(struct kernels *k, uint32_t i,
                                        const float *in)
{
    k->ops->logits_write(k, i, in);
}

/* Copies a block of an attention layer to or from canonical layout: of a plain
 * layer k then v, each [block_tokens, nkv, hd]; of a quantised layer the bytes
 * of struct kv_block.  `write` copies into the backend.  Waits. */
static inline void kernels_block_copy(struct kernels *k, uint32_t layer,
                                      uint32_t block, void *kv, bool write)
{
    k->ops->block_copy(k, layer, block, kv, write);
}

/* Copies the state of a linear layer, as block_copy does, part by part; parts
 * that are NULL are left out.  A Gated DeltaNet has [Hv, Dk, Dv] float32 and
 * [K-1, C] of kv.dtype. */
static inline void kernels_slot_copy(struct kernels *k, uint32_t layer,
                                     uint32_t slot,
                                     void *const parts[MIXER_PARTS_MAX],
                                     bool write)
{
    for (uint32_t i = 0; i < MIXER_PARTS_MAX; i++) {
        if (parts[i] != NULL) {
            k->ops->slot_copy(k, layer, slot, i, parts[i], write);
        }
    }
}

/* Returns whether the device has failed and computes no more; end, sample and
 * alloc have then reported how.  Called by the caller of the operators. */
static inline bool kernels_lost(const struct kernels *k)
{
    return k->ops->lost != NULL && k->ops->lost(k);
}

/* Prints the time, bytes and rate of every kernel so far, if the options asked
 * for a profile.  Called by the caller of the operators. */
static inline void kernels_profile(struct kernels *k, FILE *out)
{
    if (k->ops->profile != NULL) {
        k->ops->profile(k, out);
    }
}

/* Returns ticks of finished work: one per operator, and one per tile of a long
 * operator.  On a device, ticks count what the device has finished, not what
 * was requested. */
static inline uint64_t kernels_progress(const struct kernels *k)
{
    return k->ops->progress(k);
}

#endif
