/* prefix.h - The prefix index: which computed prefixes the pool still has.
 *
 * A tree of units of PREFIX_UNIT tokens.  A node has the hash of its prefix
 * (common/wire/prefix_hash.h), its tokens, its blocks (PREFIX_UNIT /
 * block_tokens of them), and maybe a checkpoint of the recurrent state at its
 * end:
 *
 *     root of tenant A --[unit 0]--[unit 1]--[unit 2]      blocks everywhere
 *                                     *         *          checkpoints here
 *                                     +-----[unit 2']
 *
 * With window layers (worker/sequence/windows.h) a node may also have the
 * window pages of its positions.
 *
 * A hit is the deepest node whose path equals the prompt, token by token, and
 * that has a checkpoint; without linear layers, the deepest node.  With window
 * layers, the nodes of the window at its end have their window pages too.  A
 * hit never covers the whole prompt: the last token is computed again, for its
 * logits.
 *
 * Only positions whose bits are those of a prompt computed alone may be
 * inserted: where prompt and generated rows differ in arithmetic, prompt rows
 * only.  Insertion follows the result of the plan that computed them.
 *
 * Checkpoints are taken near the end of every prompt, where a later prompt
 * branched off once before, and on a grid that thins with depth.  They take
 * free pages only.
 *
 * Eviction frees what is cached and not held, by value: the tokens that a later
 * request would compute again, times the chance that one comes, per page
 * (prefix_evict.c).  Blocks that lead to no checkpoint are worth nothing on a
 * hybrid, and go first.  A tenant at its quota evicts its own, under all of its
 * salts.  Window pages that only a request which goes back would need go before
 * everything else; other window pages go with their node.
 *
 * Promise: prefix_make_room() frees every page that the pool counts as cached.
 * If nothing else is left, nodes above a held node go, whose blocks a sequence
 * computed again, and then reservations of plans in flight are taken back.
 *
 * With a host tier, what is evicted is copied there instead, and what was used
 * longest ago there leaves the index.  Suspended sequences take pages of the
 * tier from it (prefix_host_room()).  A position in the host tier is
 * restorable: a copy takes less time than the tokens.
 *
 * Events: every change of a restorable position (a node with a checkpoint, or
 * any node without linear layers; with window layers, if it has window pages)
 * is a numbered event for the router.  The
 * first part of a snapshot is marked, and means that the index was empty before
 * it; its other parts are events as any.
 *
 * Threading: the core's.  Memory: prefix_init() allocates; no other call does.
 * Limits: options.n_nodes nodes; PREFIX_TENANTS_MAX scopes, which are tenants
 * with their salts: beyond it, of the tenant with most scopes, the one used
 * longest ago is forgotten; PREFIX_EVENTS_MAX events not yet sent, beyond
 * it the router gets a snapshot. */
#ifndef WORKER_CACHE_PREFIX_H
#define WORKER_CACHE_PREFIX_H

#include "worker/cache/paged.h"
#include "worker/cache/prefix_types.h"

/* Makes an empty index of the pool, which is borrowed, and sets its watch.
 * Returns false if memory runs out. */
MUST_CHECK bool prefix_init(struct prefix **x, const struct prefix_options *o,
                            struct pool *pool);
void prefix_free(struct prefix **x);

/* Sets the key of hashes; all nodes are hashed anew, and the next events are a
 * snapshot. */
void prefix_set_key(struct prefix *x, const struct prefix_key *key);
void prefix_set_watch(struct prefix *x, const struct prefix_watch *w);
/* Sets which classes some stage of the replica has; forgets everything.  A
 * class that the pool itself lacks takes no pages of it: nodes have no blocks,
 * and checkpoints are mere numbers. */
void prefix_set_classes(struct prefix *x, bool has_blocks, bool has_states);
/* Returns whether a position is restorable only where a checkpoint is. */
bool prefix_has_states(const struct prefix *x);

/* Finds the deepest restorable prefix of ids[0..n) for a tenant.  Counts as a
 * use of its path.  The caller shares the blocks at once (prefix_share()): the
 * next call may evict them. */
struct prefix_hit prefix_match(struct prefix *x, const void *tenant,
                               size_t n_tenant, const struct slab *slab,
                               const struct paged *ids, uint32_t n);

/* Marks the nodes that are inserted from now on: the MTP layer has not computed
 * some of their positions. */
void prefix_set_hole(struct prefix *x, bool hole);
/* Returns whether a node on the path down to `node` is marked. */
bool prefix_has_hole(const struct prefix *x, uint32_t node);

/* Returns the node that prefix_match() would return, and counts nothing. */
uint32_t prefix_find(struct prefix *x, const void *tenant, size_t n_tenant,
                     const struct slab *slab, const struct paged *ids,
                     uint32_t n);

/* Returns the deepest node whose path has the first tokens of ids[0..n), with a
 * checkpoint or without, and counts nothing; *n_tokens: the end of its unit. */
uint32_t prefix_path(struct prefix *x, const void *tenant, size_t n_tenant,
                     const struct slab *slab, const struct paged *ids,
                     uint32_t n, uint32_t *n_tokens);

/* Shares the blocks of the path down to node for a caller to whom as many are
 * granted, and writes them: [n_tokens / block_tokens].  Those in the host tier
 * are taken from the grant and copied back, while a plan is built.  Returns
 * false, with nothing shared, if a tenant's quota or the plan has no room. */
MUST_CHECK bool prefix_share(struct prefix *x, uint32_t node, uint32_t *out);

/* Returns whether the pool has all blocks of the path down to node. */
bool prefix_is_inside(const struct prefix *x, uint32_t node);

/* Writes the logical blocks of that path, [n_tokens / block_tokens]. */
void prefix_blocks(const struct prefix *x, uint32_t node, uint32_t *out);

/* Writes the window pages of the blocks from `first` on, down to the end of
 * node, which is a hit: [blocks, window_pages].  With WINDOW_IN_HOST they are
 * host pages, which the caller copies to pages of its own. */
#define WINDOW_IN_HOST ((uint32_t)1 << 31)
void prefix_windows(struct prefix *x, uint32_t node, uint32_t first,
                    uint32_t *out);

/* Writes the path down to node: [units]. */
void prefix_units(const struct prefix *x, uint32_t node, uint32_t *out);

/* Gives a node window pages, each held: those of the blocks of its unit from
 * the first-th on, [PREFIX_UNIT / block_tokens - first, window_pages].  Nothing
 * changes if it has some, if these do not reach the window at its end, if the
 * index has one of them, or if its tenant is at its quota. */
void prefix_put_windows(struct prefix *x, uint32_t node, const uint32_t *pages,
                        uint32_t first);

/* Frees a page for a promise, while a plan is built.  Returns false if nothing
 * can be evicted. */
MUST_CHECK bool prefix_free_page(struct prefix *x);
/* Takes the node that has this window page its window pages. */
void prefix_drop_window(struct prefix *x, uint32_t page);

/* Inserts the units below position `end` of a sequence, whose blocks are
 * blocks[]; units that are there already keep their blocks.  Returns the node
 * of the last unit, PREFIX_NONE if there is no unit or no room.  Changes no
 * reference of the caller. */
uint32_t prefix_insert(struct prefix *x, const void *tenant, size_t n_tenant,
                       const struct slab *slab, const struct paged *ids,
                       const struct paged *blocks, uint32_t end);

/* Returns the positions, ascending, at which a prompt of n tokens that restores
 * `hit` should save its state, at most cap of them: multiples of PREFIX_UNIT
 * above hit->n_tokens and below n. */
uint32_t prefix_wants(const struct prefix *x, const struct prefix_hit *hit,
                      uint32_t n, uint32_t *out, uint32_t cap);

/* Reserves a checkpoint for a plan, evicting what is worth least; false: there
 * is no room.  prefix_put() gives it to a node, prefix_drop() frees it; one of
 * them must follow.  prefix_make_room() takes a reservation back before it lets
 * a grant fail; then both do nothing.  The plan that saves it runs before any
 * that uses its pages.  prefix_reserve_free() evicts nothing. */
MUST_CHECK bool prefix_reserve(struct prefix *x, uint32_t *checkpoint);
MUST_CHECK bool prefix_reserve_free(struct prefix *x, uint32_t *checkpoint);
void prefix_put(struct prefix *x, uint32_t node, uint32_t checkpoint);
void prefix_drop(struct prefix *x, uint32_t checkpoint);

/* Forgets the node with everything below it, and the path above it that nothing
 * else uses: its contents are damaged. */
void prefix_forget(struct prefix *x, uint32_t node);

/* Evicts until the pages of `need` are free, or nothing is cached.  Nodes on
 * the path of `spare` go last; PREFIX_NONE: none.  Not while a plan is built: a
 * reservation may be taken back, which prefix_put() and prefix_drop() then
 * ignore. */
void prefix_make_room(struct prefix *x, const struct pool_need *need,
                      uint32_t spare);

/* Drops copies in the host tier until n of its pages are free, for a suspended
 * sequence, while no plan is built.  Returns false if there are too few. */
MUST_CHECK bool prefix_host_room(struct prefix *x, uint32_t n);
/* Returns the pages of the host tier that this can free. */
uint32_t prefix_host_pages(const struct prefix *x);

/* Forgets everything. */
void prefix_clear(struct prefix *x);

/* ---- events ---- */

/* Returns the number of the next event to send, and writes up to cap of them;
 * *n: how many.  *snapshot: the mirror is empty before these events; then they
 * are sent even if there are none.  *more: a snapshot continues in the next
 * call, which has *snapshot = false. */
uint64_t prefix_events(struct prefix *x, struct prefix_event *out, uint32_t cap,
                       uint32_t *n, bool *snapshot, bool *more);
/* The router asked for a snapshot, or a session began. */
void prefix_restart(struct prefix *x);

/* ---- figures and checks ---- */

struct prefix_figures prefix_figures(const struct prefix *x);

/* Returns the sum of prefix_hash_digest() over the restorable positions, for
 * auditors.  *n: their number. */
uint64_t prefix_digest(const struct prefix *x, uint32_t *n);

/* Counts the pages of every tenant anew, for auditors.  Returns those of the
 * tenant that has most; *most: its quota. */
uint32_t prefix_tenant_pages(const struct prefix *x, uint32_t *most);

/* Calls each() for every block and checkpoint that the index owns, for the
 * audit. */
void prefix_walk(const struct prefix *x,
                 void (*each)(void *ctx, enum pool_class c, uint32_t number),
                 void *ctx);

/* Calls each() for every chain of host pages of the index. */
void prefix_walk_host(const struct prefix *x,
                      void (*each)(void *ctx, uint32_t first, uint32_t n),
                      void *ctx);

#endif
