/* prefix_tree.h - The prefixes that the workers of a model can restore.
 *
 *     hash of a prefix --> its length in tokens, and the workers that have it
 *
 * A prefix is a path of units (common/wire/prefix_hash.h), and its hash names
 * the whole path.  The nodes of the tree of prefixes are therefore found
 * without their parents, and a worker may have a node without those above it.
 *
 *     prompt   [unit 0][unit 1][unit 2][unit 3] rest
 *     hashes      h1      h2      h3      h4
 *     w1          x       x       x                 192 tokens
 *     w2          x                       x         256 tokens
 *
 * The tree is bounded.  When it is full, the node that was used longest ago
 * goes: a match uses the nodes on the path of its prompt, the deepest first. Of
 * a path, the leaf thus goes first.  A node that has gone costs speed only: the
 * router no longer sends requests where it is.
 *
 * Threading: none.  Memory: on the heap; it doubles up to n_max nodes of 56
 * bytes, and never shrinks.  Limits: PREFIX_TREE_MAX nodes,
 * PREFIX_TREE_WORKERS workers, named by a bit. */
#ifndef ROUTER_PLACEMENT_PREFIX_TREE_H
#define ROUTER_PLACEMENT_PREFIX_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/prefix_hash.h"

#define PREFIX_TREE_WORKERS 64

struct prefix_tree;

/* Creates an empty tree of at most n_max nodes.  seed: random, so that no
 * worker can choose hashes that collide in it. */
struct prefix_tree *prefix_tree_new(uint32_t n_max, uint64_t seed);
void prefix_tree_free(struct prefix_tree **t);

/* Records that worker `bit` can restore the prefix h of n_tokens tokens, or no
 * longer can.  Both are no-ops if that is known already. */
void prefix_tree_add(struct prefix_tree *t, struct prefix_hash h,
                     uint32_t n_tokens, uint32_t bit);
void prefix_tree_remove(struct prefix_tree *t, struct prefix_hash h,
                        uint32_t bit);

/* Forgets all that worker `bit` can restore. */
void prefix_tree_forget(struct prefix_tree *t, uint32_t bit);

/* Sets depth[bit], for each worker, to the tokens of the longest prefix of a
 * prompt that it can restore; 0: none.  units: [n_units] hashes of the prompt's
 * prefixes of 1, 2, .. units. */
void prefix_tree_match(struct prefix_tree *t, const struct prefix_hash *units,
                       uint32_t n_units, uint32_t depth[PREFIX_TREE_WORKERS]);

/* Returns a number that changes whenever the tree does: a match stays valid
 * while it is the same. */
uint64_t prefix_tree_version(const struct prefix_tree *t);

/* Returns the number of nodes. */
uint32_t prefix_tree_count(const struct prefix_tree *t);

/* Returns the sum of prefix_hash_digest() over the nodes that worker `bit` can
 * restore, for auditors.  *n: their number. */
uint64_t prefix_tree_digest(const struct prefix_tree *t, uint32_t bit,
                            uint32_t *n);

#endif
