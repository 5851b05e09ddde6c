/* forward_state.h - The forward pass's own state, shared by its files.
 *
 * Threading, memory: worker/engine/forward.h. */
#ifndef WORKER_ENGINE_FORWARD_STATE_H
#define WORKER_ENGINE_FORWARD_STATE_H

#include "worker/engine/forward.h"
#include "worker/engine/plan_check.h"

/* One pass over the layers: a part of the plan. */
struct forward_pass {
    struct kernel_row *rows;   /* [max_rows] */
    uint32_t *plan_rows;       /* [max_rows] the row of the plan */
    struct kernel_save *saves; /* [max_rows, PLAN_SAVES_MAX] */
    uint32_t *tokens;          /* [max_tokens] ids */
    uint32_t n_rows, n_tokens;
    size_t first; /* tokens of the plan in earlier passes */
};

/* The results of a shard without the last layer, one plan after the other. */
struct hidden {
    float *rows; /* [n_plans, n_tokens, H] */
    uint32_t n_plans, n_tokens;
    uint32_t next; /* the part that the next plan uses */
};

/* Rows of a pass that sample, at most as many as one head call takes. */
struct heads {
    uint32_t *tokens;          /* [max_logits] in the pass */
    uint32_t *plan_rows;       /* [max_logits] */
    struct sample_result *out; /* [max_logits] */
    struct sample_row *rows;   /* [max_logits] */
    uint32_t n;
    uint32_t *history; /* [history_room] of these rows, one after the other */
    size_t history_room, n_history;
};

struct forward {
    const struct shard_weights *w;
    struct kernels *kernels;
    struct kernels_sizes sizes;
    struct plan_bounds bounds;
    struct forward_tap tap;
    struct forward_pass pass;
    struct heads heads;
    struct hidden hidden;
    struct plan_marks marks;
    uint32_t twins[PLAN_ROWS_MAX]; /* [n_twins] rows of the plan that is run */
    uint32_t n_twins;
    uint32_t last[PLAN_ROWS_MAX]; /* tokens of the previous plan; TOKEN_LOST */
};

/* Computes the logits of the pass's rows that sample and of their twins, and
 * chooses their tokens. */
MUST_CHECK enum status forward_sample(struct forward *f, const struct plan *p,
                                      struct plan_result *out);

#endif
