/* page_layout.h - The pages of a shard's pool.
 *
 * The pool is one budget of pages, numbered from 0.  The layers of the shard
 * are divided into groups; each group has one tensor [n_pages, page_bytes], so
 * a page is the same number in every group.
 *
 *     block       1 page: k and v of block_tokens positions for each attention
 *                 layer of the group
 *     window      window_pages pages, in any places: k and v of block_tokens
 *     block       positions for the window layers of the group.  Each of the
 *                 pages has the layers of one table
 *     slot        pages_per_slot consecutive pages, the first at a multiple of
 *                 pages_per_slot: for each linear layer of the group the first
 *                 part of its state, then for each the second, and so on.  A
 *                 Gated DeltaNet has [Hv, Dk, Dv] float32 and [K-1, C]
 *     checkpoint  as a slot
 *
 *                    group 0                     group 1
 *     page 0   | k v of layer 3, 7 |       | k v of layer 11, 15 |
 *     page 1   | k v of layer 3, 7 |       | k v of layer 11, 15 |
 *       ..     | states of 0-2, 4-6, their tails | states of 8-10, 12-14, .. |
 *
 * The groups are as many as possible, so that no tensor is larger than a
 * device allocates at once, but never so many that a slot takes more pages
 * than with one group.
 *
 * A shard without attention layers has no blocks, and a page is a slot; without
 * linear layers it has no slots.  With window layers a page is at least as
 * large as one of them; without attention layers it holds all of them,
 * window_pages is 1.
 *
 * Linear layers are all that have a state of fixed size (enum mixer_memory),
 * whatever their kinds.  All layers with blocks have one size but one.
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_MODEL_PAGE_LAYOUT_H
#define COMMON_MODEL_PAGE_LAYOUT_H

#include <stdint.h>

#include "common/model/weights.h"
#include "common/split/page_unit.h"
#include "proto/limits.h"

#define PAGE_LAYERS_MAX (MODEL_LAYERS_MAX + 1) /* with the MTP layer */

/* Bytes of one layer of each kind. */
struct page_sizes {
    uint64_t kv_bytes;     /* k and v of one block of an attention layer */
    uint64_t whole_bytes;  /* the same for the layer that is not quantised */
    uint32_t whole;        /* 1 + that layer's index in kinds; 0: none */
    uint64_t window_bytes; /* k and v of one block of a window layer */
    struct mixer_slot slots[MIXER_KINDS]; /* the state of a linear layer */
};

struct page_group {
    uint32_t n_attention, n_linear;
    uint64_t page_bytes;
    uint32_t n_window;
    uint32_t n_of[MIXER_KINDS]; /* linear layers by kind */
    uint64_t slot_bytes;        /* the sum over them */
};

/* Location of one layer in the tensor of its group. */
struct page_layer {
    uint32_t group;
    uint32_t table; /* window: 0..window_pages-1, the table that names its
                     * pages; else 0 */
    uint64_t at[MIXER_PARTS_MAX]; /* attention, window: [0], its k and v in a
                                   * page; linear: its parts from the begin of
                                   * a slot */
};

struct page_layout {
    uint32_t n_groups;
    uint32_t pages_per_block; /* 1; 0: no attention layer */
    uint32_t pages_per_slot;  /* 0: no linear layer */
    uint32_t window_pages;    /* pages of a window block; 0: no window layer */
    uint64_t page_bytes;      /* sum over the groups */
    struct page_group groups[PAGE_LAYERS_MAX];
    struct page_layer layers[PAGE_LAYERS_MAX]; /* [n] of the shard */
};

/* Returns the bytes that a linear layer takes in a slot. */
uint64_t page_slot_bytes(const struct mixer_slot *s);

/* Lays out the layers kinds[0..n), n at most PAGE_LAYERS_MAX and at least 1.
 * Page and slot are those of page_unit_of(). */
void page_layout_make(struct page_layout *l, const enum mixer_kind *kinds,
                      uint32_t n, const struct page_sizes *s);

#endif
