/* forward.h - runs a plan over kernels/: the model's forward pass.
 *
 * A plan runs in passes of at most the kernels' max_tokens; a row that does
 * not fit is cut at an absolute multiple of FORWARD_CUT, which changes no bit.
 *
 *     embed -> { mixer, mlp } per layer -> head and sample, rows that ask
 *
 * The plan is checked before anything runs: token ids, tables and slots
 * against the pool, chained rows against the plan before, histories against
 * their pages and the row's position.  The ids of a history are checked when
 * they are read, just before the head.
 *
 * Threading: one caller.  Memory: forward_new() allocates everything but the
 * pool, forward_alloc() the pool and room for histories (4 bytes a position
 * of it, which the system backs when a penalty first needs them),
 * forward_run() nothing.  The weights are borrowed and outlive it. */
#ifndef WORKER_FORWARD_H
#define WORKER_FORWARD_H

#include "kernels/kernels.h"
#include "worker/engine.h"

#define FORWARD_CUT 64

struct forward;

/* What a test looks at; NULL where it does not look. */
struct forward_tap {
    void *ctx;
    /* After `done` layers, 0 being the embedding: x [n_tokens, H]. */
    void (*layer)(void *ctx, struct kernels *k, uint32_t done,
                  uint32_t n_tokens);
    /* logits[i] are those of the plan's row `row`. */
    void (*logits)(void *ctx, struct kernels *k, uint32_t row, uint32_t i);
};

/* Errors as kernels_new(); ST_UNIMPLEMENTED for a shard that lacks layers of
 * its model.  Freed by forward_free(). */
MUST_CHECK enum status forward_new(struct forward **out,
                                   const struct shard_weights *w,
                                   const struct kernels_options *o,
                                   struct error *e);
void forward_free(struct forward **f);

/* Scratch and the bytes of a block, slot and checkpoint. */
void forward_sizes(const struct forward *f, struct kernels_sizes *out);

/* The pool; before the first run. */
MUST_CHECK enum status forward_alloc(struct forward *f, uint32_t n_blocks,
                                     uint32_t n_slots, uint32_t n_checkpoints,
                                     struct error *e);

/* tap is copied; NULL removes it. */
void forward_set_tap(struct forward *f, const struct forward_tap *tap);

/* Fills out but for device_us, its status included. */
void forward_run(struct forward *f, const struct plan *p,
                 struct plan_result *out);

/* May be called by any thread. */
uint64_t forward_progress(const struct forward *f);

struct kernels *forward_kernels(struct forward *f);

#endif
