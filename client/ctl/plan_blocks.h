/* plan_blocks.h - Memory of a hybrid model in a vLLM-like engine.
 *
 * Such an engine has pages of one size for every layer.  A page of an attention
 * layer is a block of positions, a page of a linear layer is a sequence's
 * state.  The block grows until its page holds the state, and the state's page
 * is padded to the block's:
 *
 *     token  = 2 * nkv * hd * item        bytes of a position and layer
 *     state  = sum over the states of prod(shape) * item
 *     least  = A * ceil(state / (A * token))       A: alignment, 16 or 32
 *     block  = max(block, least)
 *     page   = block * token;    padding = page - state
 *
 * Its kernels take blocks of 32, 16 or 8 positions.  A block of `block`
 * positions is `ratio` of these: b becomes b * ratio .. b * ratio + ratio - 1.
 *
 * Layers are put in groups of one size; the pages of a group have one id, so an
 * id costs size * page bytes.  A sequence of n positions takes ceil(n / block)
 * ids for each group of attention layers and one for each of linear layers.
 *
 * sluice needs none of this (common/model/page_layout.h): `sluicectl plan
 * --explain-blocks` prints both.
 *
 * Threading: pure functions.  Memory: blocks_translate() allocates. */
#ifndef CLIENT_CTL_PLAN_BLOCKS_H
#define CLIENT_CTL_PLAN_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define BLOCKS_DIMS 4

/* A state of a linear layer. */
struct blocks_state {
    uint64_t dims[BLOCKS_DIMS]; /* [n_dims] */
    uint32_t n_dims, item_bytes;
};

/* One layer of each kind. */
struct blocks_model {
    bool is_hybrid;
    uint64_t token_bytes;
    const struct blocks_state *states; /* [n_states] */
    size_t n_states;
};

/* The sizes of blocks, which alignment changes. */
struct blocks_sizes {
    uint32_t block_tokens;
    uint32_t state_block_tokens; /* positions between saved states; 0: none */
    uint64_t padded_bytes;       /* a padded page of a state; 0: not padded */
    uint64_t state_bytes;        /* held by it; 0: no state */
    double padding_percent;      /* relative to the state */
};

/* Returns the bytes of a position in an attention layer.  latent: one vector of
 * head_dim instead of a key and a value for each head. */
uint64_t blocks_token_bytes(uint32_t n_kv_heads, uint32_t head_dim,
                            uint32_t item_bytes, bool latent);

/* Returns the bytes of a sequence's states in a linear layer. */
uint64_t blocks_state_bytes(const struct blocks_state *states, size_t n);

/* Aligns the block of s with the states of m; changes nothing if m is NULL or
 * not hybrid.  saves: states are saved at the ends of blocks.  Returns
 * ST_INVALID_ARGUMENT for an alignment of 0, or if token or states have 0
 * bytes; *s is unchanged then. */
MUST_CHECK enum status blocks_align(struct blocks_sizes *s,
                                    const struct blocks_model *m,
                                    uint32_t alignment, bool saves,
                                    struct error *e);

/* Finds the largest kernel block that divides a block.  Returns
 * ST_INVALID_ARGUMENT if there is none. */
MUST_CHECK enum status blocks_kernel(uint32_t *kernel, uint32_t block_tokens,
                                     struct error *e);

/* The groups of a shard's layers. */
struct blocks_groups {
    uint32_t size;                  /* layers in a group, padded ones too */
    uint32_t n_attention, n_linear; /* groups of each kind */
};

/* Groups the layers: the size is the smaller count of both kinds, or the larger
 * if it is less than half as large again.  At least one layer. */
struct blocks_groups blocks_group(uint32_t n_attention, uint32_t n_linear);

/* Returns the ids that one sequence of n positions takes. */
uint64_t blocks_of_sequence(const struct blocks_groups *g,
                            uint32_t block_tokens, uint32_t n_tokens);

#endif
