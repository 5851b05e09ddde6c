/* forward.h - runs a plan over kernels/: the forward pass of a shard.
 *
 * A plan runs in passes of at most the kernels' max_tokens; a row that does
 * not fit is cut at an absolute multiple of FORWARD_CUT, which changes no bit.
 *
 *     embed      \                            / head and sample, rows that ask
 *                  { mixer, mlp } per layer
 *     hidden in  /                            \ hidden out
 *
 * A shard with layer 0 embeds, a later one is given hidden states; one with
 * the last layer samples, an earlier one gives hidden states away
 * (worker/base/engine.h).  They cross bit for bit: a chain of shards computes
 * what the whole model does.
 *
 * The plan is checked before anything runs (worker/engine/plan_check.h).  The
 * ids of a history are checked when they are read, just before the head.
 *
 * Threading: one caller.  Memory: forward_new() allocates everything but the
 * pool, forward_alloc() the pool and room for histories (4 bytes a position
 * of it, which the system backs when a penalty first needs them),
 * forward_alloc_hidden() room for hidden states, forward_run() nothing.  The
 * weights are borrowed and outlive it. */
#ifndef WORKER_ENGINE_FORWARD_H
#define WORKER_ENGINE_FORWARD_H

#include "kernels/kernels.h"
#include "worker/base/engine.h"

#define FORWARD_CUT 64

struct forward;

/* What a test looks at; NULL where it does not look. */
struct forward_tap {
    void *ctx;
    /* After `done` layers of the shard, 0 being what it begins with:
     * x [n_tokens, H]. */
    void (*layer)(void *ctx, struct kernels *k, uint32_t done,
                  uint32_t n_tokens);
    /* logits[i] are those of the plan's row `row`. */
    void (*logits)(void *ctx, struct kernels *k, uint32_t row, uint32_t i);
};

/* Errors as backend_new().  Freed by forward_free(). */
MUST_CHECK enum status forward_new(struct forward **out,
                                   const struct shard_weights *w,
                                   const struct kernels_options *o,
                                   struct error *e);
void forward_free(struct forward **f);

/* Room for the hidden states of n_plans plans of at most n_tokens tokens each,
 * both at least 1; once, before the first run.  Nothing where the shard has
 * the last layer. */
MUST_CHECK enum status forward_alloc_hidden(struct forward *f, uint32_t n_plans,
                                            uint32_t n_tokens, struct error *e);

/* Of how many plans; UINT32_MAX where the shard has the last layer. */
uint32_t forward_hidden_plans(const struct forward *f);

/* Scratch, the room for hidden states included, and the bytes of a block, slot
 * and checkpoint. */
void forward_sizes(const struct forward *f, struct kernels_sizes *out);

/* The pool; before the first run.  A kind that the shard lacks is ignored. */
MUST_CHECK enum status forward_alloc(struct forward *f, uint32_t n_blocks,
                                     uint32_t n_slots, uint32_t n_checkpoints,
                                     struct error *e);

/* tap is copied; NULL removes it. */
void forward_set_tap(struct forward *f, const struct forward_tap *tap);

/* Fills out but for device_us, its status included.  Its hidden states stay
 * until n_plans later plans have run. */
void forward_run(struct forward *f, const struct plan *p,
                 struct plan_result *out);

/* May be called by any thread. */
uint64_t forward_progress(const struct forward *f);

struct kernels *forward_kernels(struct forward *f);

#endif
