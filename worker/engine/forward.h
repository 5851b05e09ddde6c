/* forward.h - Runs a plan over kernels/: the forward pass of a shard.
 *
 * A plan runs in passes of at most the kernels' max_tokens.  A row that does
 * not fit is cut at an absolute multiple of FORWARD_CUT, which changes no bit
 * of the result.
 *
 *     embed      \                            / head and sampling, where asked
 *                  { mixer, mlp } per layer
 *     hidden in  /                            \ hidden out
 *
 * A shard with layer 0 embeds; a later one reads hidden states.  A shard with
 * the last layer samples; an earlier one writes hidden states
 * (worker/base/engine.h).  They are passed on bit for bit, so a chain of shards
 * computes what the whole model computes.
 *
 * The plan's copies before the rows and the zeroing of slots are done first,
 * once for all passes; the copies after the rows follow the last pass.  Each
 * pass takes the checkpoints that lie inside it.  A twin's logits are computed
 * in the pass that ends its source.  Poison (struct plan) fills pages with NaN;
 * the core orders it if options.poison is set, as tests do.
 *
 * A row without a token (enum row_outcome) leaves the other rows as they are.
 *
 * A row with drafts runs in one pass, and the head takes all of its tokens.
 * They are accepted in order, up to the first that differs from the draft
 * behind it, ends the sequence, or stands before logits that are not finite.
 * The inputs of its linear layers are kept, and replayed at the end of the
 * pass: the slot advances by the accepted drafts alone.  Stages before the last
 * keep and replay as the plan orders.
 *
 * After a pass the MTP layer computes its rows with `mtp`: prompt rows on the
 * prefill kernels, accepted tokens of generated rows on the decode kernels,
 * each with the token that follows it.  Rows that propose get their first draft
 * from that, and each further one from a pass of one token a row.  Drafts are
 * the best tokens.  Logits of the MTP layer that are not finite give no draft;
 * they fail no row.  Twins run no MTP layer and propose nothing.
 *
 * The plan is checked before anything runs (worker/engine/plan_check.h).  The
 * ids of a history are checked when they are read, just before the head.
 *
 * Threading: one caller.  Memory: forward_new() allocates everything but the
 * pool.  forward_alloc() allocates the pool, 4 bytes per page for checks, and
 * room for histories: 4 bytes per position of the pool, which the system backs
 * when a penalty first needs them.  forward_alloc_hidden() allocates room for
 * hidden states; forward_run() allocates nothing.  The weights are borrowed and
 * outlive it. */
#ifndef WORKER_ENGINE_FORWARD_H
#define WORKER_ENGINE_FORWARD_H

#include "kernels/kernels.h"
#include "worker/base/engine.h"

#define FORWARD_CUT 64

struct forward;

/* Callbacks for tests; each may be NULL. */
struct forward_tap {
    void *ctx;
    /* Called after `done` layers of the shard, and with 0 before the first:
     * x [n_tokens, H]. */
    void (*layer)(void *ctx, struct kernels *k, uint32_t done,
                  uint32_t n_tokens);
    /* logits[i] are those of the plan's row `row` after `at` of its drafts. */
    void (*logits)(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                   uint32_t i);
    /* logits[i] are those of the MTP layer from which the row's draft `at` is
     * chosen. */
    void (*draft)(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                  uint32_t i);
};

/* Makes the forward pass of a shard; the caller frees it with forward_free().
 * Returns the errors of backend_new(). */
MUST_CHECK enum status forward_new(struct forward **out,
                                   const struct shard_weights *w,
                                   const struct kernels_options *o,
                                   struct error *e);
void forward_free(struct forward **f);

/* Allocates room for the hidden states of n_plans plans of at most n_tokens
 * tokens each, both at least 1; called once, before the first run.  Does
 * nothing if the shard has the last layer.  Returns ST_RESOURCE_EXHAUSTED if
 * memory runs out. */
MUST_CHECK enum status forward_alloc_hidden(struct forward *f, uint32_t n_plans,
                                            uint32_t n_tokens, struct error *e);

/* Returns n_plans; UINT32_MAX if the shard has the last layer. */
uint32_t forward_hidden_plans(const struct forward *f);

/* Writes the sizes: scratch with the room for hidden states, and the pages of
 * a block and slot. */
void forward_sizes(const struct forward *f, struct kernels_sizes *out);

/* Allocates the pool, before the first run.  Returns ST_RESOURCE_EXHAUSTED if
 * memory runs out. */
MUST_CHECK enum status forward_alloc(struct forward *f, uint32_t n_pages,
                                     struct error *e);

/* Allocates the pages of the host tier, after forward_alloc() and before the
 * first run.  Returns ST_RESOURCE_EXHAUSTED if memory runs out. */
MUST_CHECK enum status forward_alloc_host(struct forward *f, uint32_t n_pages,
                                          struct error *e);

/* Sets the callbacks, which are copied; NULL removes them. */
void forward_set_tap(struct forward *f, const struct forward_tap *tap);

/* Runs a plan and fills all of `out` but device_us; errors are in out->status.
 * Its hidden states stay valid until n_plans later plans have run. */
void forward_run(struct forward *f, const struct plan *p,
                 struct plan_result *out);

/* Returns the ticks of the kernels.  Any thread may call it. */
uint64_t forward_progress(const struct forward *f);

struct kernels *forward_kernels(struct forward *f);

#endif
