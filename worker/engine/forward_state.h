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
    uint32_t n_kept; /* inputs that rows of the last stage keep */
    size_t first;    /* tokens of the plan in earlier passes */
};

/* Replays of a pass, and the pass of the MTP layer that follows it. */
struct forward_drafts {
    struct kernel_replay replays[PLAN_ROWS_MAX];
    struct kernel_row rows[PLAN_ROWS_MAX];
    uint32_t plan_rows[PLAN_ROWS_MAX]; /* the row of the plan */
    uint32_t *tokens, *from; /* [max_tokens], of kernels_draft_input() */
    uint32_t n_rows, n_tokens;
    uint64_t ns; /* time that the MTP layer took in this plan */
};

/* The results of a shard without the last layer, one plan after the other. */
struct hidden {
    float *rows; /* [n_plans, n_tokens, H] */
    uint32_t n_plans, n_tokens;
    uint32_t next; /* the part that the next plan uses */
};

/* Tokens to sample in a pass, at most as many as one head call takes. */
struct heads {
    uint32_t *tokens;          /* [max_logits] in the pass */
    uint32_t *plan_rows;       /* [max_logits] */
    uint32_t *at;              /* [max_logits] drafts before the token */
    struct sample_result *out; /* [max_logits] */
    struct sample_row *rows;   /* [max_logits] */
    uint32_t n;
    uint32_t *history; /* [history_room] of these rows, one after the other;
                        * tokens of one row share theirs */
    size_t history_room, n_history;
    bool ended[PLAN_ROWS_MAX]; /* the row gets no more tokens */
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
    struct plan_marks marks, kept;
    struct forward_drafts drafts;
    uint32_t twins[PLAN_ROWS_MAX]; /* [n_twins] rows of the plan that is run */
    uint32_t n_twins;
    uint32_t last[PLAN_ROWS_MAX]; /* tokens of the previous plan; TOKEN_LOST */
};

/* Computes the logits of the pass's rows that sample and of their twins, and
 * chooses their tokens. */
MUST_CHECK enum status forward_sample(struct forward *f, const struct plan *p,
                                      struct plan_result *out);

/* Returns whether a token ends the sequence of a row. */
bool forward_ends(const struct plan *p, const struct plan_row *r,
                  uint32_t token);

/* Returns whether the MTP layer computes a row of the pass. */
bool forward_has_mtp(const struct forward *f, const struct plan *p);

MUST_CHECK bool forward_drafts_new(struct forward *f);
void forward_drafts_free(struct forward *f);

/* Advances the slots of the pass's rows with drafts by the accepted ones. */
void forward_replay(struct forward *f, const struct plan_result *out);

/* Computes the pass's rows in the MTP layer, and proposes drafts. */
MUST_CHECK enum status forward_draft(struct forward *f, const struct plan *p,
                                     struct plan_result *out);

/* Ends a step of the kernels.  Their error is the cause; `st`, that of the
 * sampling, may follow from it. */
MUST_CHECK enum status forward_end(struct forward *f, enum status st,
                                   struct plan_result *out);

#endif
