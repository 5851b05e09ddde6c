/* sizes.h - Memory of a layer range: weights, KV, state.
 *
 *     token       k and v of nkv heads as common/model/kv_format.h stores
 *                 them, per attention layer; plain: 2 * nkv * hd values
 *     block       block_tokens of them, for all attention layers of the range
 *     window block  the same for all window layers of the range, plain
 *     slot        for each linear layer the state, Hv * Dk * Dv float32, and
 *                 the convolution's tail, (K-1) * C values of kv.dtype
 *     checkpoint  a saved slot
 *     MTP layer   counts as one more attention layer behind the last, with fc,
 *                 three norms, and the embedding if the range lacks it; only if
 *                 the config drafts
 *     kept        the inputs of one token in each linear layer, while drafts
 *                 are verified: q [Hk*Dk] kv.dtype, k [Hk*Dk], v [Hv*Dv] and
 *                 the two gates [Hv] float32, before the convolution
 *     page        the unit of the pool (common/model/page_layout.h): a block,
 *                 or a slot if the range has no attention layer
 *
 * The bytes of blocks and slots are what they hold; pages also count alignment
 * and, for a slot, rounding up.  A class that the range lacks has 0 bytes and
 * 0 pages.
 *
 * Threading, memory: pure functions.  No sum overflows within the limits of
 * model_limits.h and SIZES_BLOCK_TOKENS_MAX. */
#ifndef COMMON_MODEL_SIZES_H
#define COMMON_MODEL_SIZES_H

#include <stdint.h>

#include "common/model/config.h"
#include "common/model/kv_format.h"
#include "common/model/page_layout.h"

#define SIZES_BLOCK_TOKENS_MAX 65536
/* A plan has room to move two slots out of the way. */
#define SIZES_SLOT_PAGES_MAX 2048

struct sizes {
    uint32_t n_attention, n_linear, n_window; /* layers of the range by memory:
                                                 blocks, with the MTP layer;
                                                 slots; windows */
    uint64_t parameters;
    uint64_t
        weight_bytes; /* as a shard holds them (the bytes in shard_report()):
                         matrices in the model's dtype, or quantised if the
                         model is and the group divides their columns */
    uint64_t token_bytes;
    uint64_t block_bytes, slot_bytes, checkpoint_bytes, page_bytes;
    uint64_t window_bytes;                    /* a window block's */
    uint64_t kept_bytes;                      /* a token's; no part of pages */
    uint32_t pages_per_block, pages_per_slot; /* a checkpoint is a slot */
    uint32_t window_pages;
};

/* Returns the most window blocks that a sequence of n tokens holds at once, at
 * chunk_tokens a step: those that cover n tokens, at most ceil((window + chunk)
 * / block_tokens) + 1. */
uint32_t sizes_window_blocks(uint32_t window, uint32_t chunk_tokens,
                             uint32_t block_tokens, uint32_t n_tokens);

/* Computes the sizes of layers [begin, end) with blocks of block_tokens.
 * begin < end <= n_layers, 1 <= block_tokens <= SIZES_BLOCK_TOKENS_MAX. */
struct sizes sizes_of(const struct model_config *c, uint32_t begin,
                      uint32_t end, uint32_t block_tokens,
                      const struct kv_format *kv);

/* Checks --slots.  Returns ST_INVALID_ARGUMENT if a number is set and the model
 * has no linear layer, whatever the layers of the shard are. */
MUST_CHECK enum status sizes_check_slots(const struct model_config *c,
                                         uint32_t slots, struct error *e);

/* Checks the size of a slot.  Returns ST_INVALID_ARGUMENT if it has more than
 * SIZES_SLOT_PAGES_MAX pages, because blocks are too small. */
MUST_CHECK enum status sizes_check_pages(uint64_t pages_per_slot,
                                         uint32_t block_tokens,
                                         struct error *e);

/* Returns the weights of one layer, as a shard holds them. */
uint64_t sizes_layer(const struct model_config *c, uint32_t layer);

/* Returns the part of a layer that its experts take together; 0 if it is dense.
 * The router and the shared expert are no part of it. */
uint64_t sizes_experts(const struct model_config *c, uint32_t layer);

/* Returns the weights of the MTP layer, fc and all norms; 0 if the config does
 * not draft. */
uint64_t sizes_mtp(const struct model_config *c);

/* Returns the parameters that one token uses: all but the experts that the
 * router does not choose, and without the MTP layer. */
uint64_t sizes_active(const struct model_config *c);

/* Returns the embedding, as a shard holds it; an untied head has the same
 * size.  sizes_last_norm() is the norm before the head. */
uint64_t sizes_embedding(const struct model_config *c);
uint64_t sizes_last_norm(const struct model_config *c);

/* Returns one token's KV in an attention layer, counted in the model. */
uint64_t sizes_kv(const struct model_shape *s, uint32_t layer,
                  const struct kv_format *kv);

/* Returns one token's KV in a window layer, which is plain; 0 if the model has
 * none. */
uint64_t sizes_window_kv(const struct model_shape *s,
                         const struct kv_format *kv);

/* Returns one sequence's state in one layer of a kind, part by part, with the
 * dtype of KV; all 0 if the kind has none.  sizes_state() is their sum. */
struct mixer_slot sizes_slot(const struct model_shape *s, enum mixer_kind kind,
                             enum dtype dtype);
uint64_t sizes_state(const struct model_shape *s, enum mixer_kind kind,
                     enum dtype dtype);

/* Returns what one token keeps in one layer of a kind, while drafts are
 * verified; 0 unless the kind keeps inputs. */
uint64_t sizes_kept(const struct model_shape *s, enum mixer_kind kind,
                    enum dtype dtype);

/* Returns the bytes of one layer of each kind of layers [begin, end), as pages
 * hold them; those of a kind that the model lacks are 0.  Backends lay out
 * their pools with these. */
struct page_sizes sizes_page(const struct model_shape *s, uint32_t begin,
                             uint32_t end, uint32_t block_tokens,
                             const struct kv_format *kv);

/* Returns what one sequence of n tokens holds at most: whole blocks, window
 * blocks, and a slot. */
uint64_t sizes_sequence(const struct sizes *s, const struct model_shape *shape,
                        uint32_t block_tokens, uint32_t chunk_tokens,
                        uint32_t n_tokens);

#endif
