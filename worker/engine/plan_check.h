/* plan_check.h - Checks that a shard and its pool can run a plan.
 *
 * Token ids, tables, slots, saves and copies are checked against the pool;
 * chained rows against the previous plan; twins against the rows before them;
 * drafts, kept inputs and replays against what the kernels keep; histories
 * against their pages and the row's position.  No page may be written twice by
 * rows, saves and the copies after them, no input be kept twice, no slot be
 * replayed twice.  A stage's plan
 * (worker/base/engine.h) must have hidden states where it reads them, and rows
 * that tile the tokens.  Fields that are not read are not checked.
 *
 * Threading: none.  Memory: the caller's marks. */
#ifndef WORKER_ENGINE_PLAN_CHECK_H
#define WORKER_ENGINE_PLAN_CHECK_H

#include "common/model/weights.h"
#include "worker/base/engine.h"

/* Pages that a plan writes, or inputs that it keeps. */
struct plan_marks {
    uint32_t *of; /* [n], zero at first: the check that marked it */
    uint32_t now; /* number of the last check */
};

struct plan_bounds {
    const struct model_shape *shape;
    uint32_t begin, end;              /* layers of the shard */
    bool has_attention, has_deltanet; /* among them */
    uint32_t block_tokens;
    uint32_t window_pages; /* tables of window blocks; 0: no window layer */
    uint32_t n_pages, pages_per_slot; /* 0 per slot: no linear layer */
    uint32_t n_host;                  /* pages of the host tier */
    struct plan_marks *marks;         /* [n_pages] */
    bool drafts;                      /* the backend computes them */
    bool has_mtp;                     /* the shard has an MTP layer */
    uint32_t max_tokens;              /* a pass, which rows with drafts fit */
    uint32_t keep_tokens;             /* inputs that the kernels keep */
    struct plan_marks *kept;          /* [keep_tokens] */
    uint32_t hidden_tokens;           /* tokens whose hidden states fit */
    const uint32_t *last;             /* [n_last] tokens of the previous plan */
    uint32_t n_last;
};

/* In `last`: the row was to sample a token and got none, because its step or
 * the row itself failed. */
#define TOKEN_LOST (UINT32_MAX - 1)
_Static_assert(MODEL_VOCAB_MAX < TOKEN_LOST, "no id of a vocabulary");

/* Return whether the shard reads, or writes, hidden states. */
static inline bool plan_takes_hidden(const struct plan_bounds *b)
{
    return b->begin > 0;
}

static inline bool plan_gives_hidden(const struct plan_bounds *b)
{
    return b->end < b->shape->n_layers;
}

/* Return whether the MTP layer computes a row, and whether it proposes. */
static inline bool plan_has_mtp(const struct plan_bounds *b,
                                const struct plan_row *r)
{
    return b->has_mtp && r->mtp;
}

static inline bool plan_proposes(const struct plan_bounds *b,
                                 const struct plan_row *r)
{
    return plan_has_mtp(b, r) && r->sample;
}

/* Returns whether a row keeps the inputs of its linear layers. */
static inline bool plan_keeps(const struct plan_bounds *b,
                              const struct plan_row *r)
{
    return b->has_deltanet &&
           (plan_gives_hidden(b) ? r->keep : r->n_drafts > 0);
}

/* Returns whether the ids of a row are read: to embed them, as drafts, or by
 * the MTP layer. */
static inline bool plan_reads_ids(const struct plan_bounds *b,
                                  const struct plan_row *r)
{
    return !plan_takes_hidden(b) || plan_has_mtp(b, r) ||
           (!plan_gives_hidden(b) && r->n_drafts > 0);
}

/* Returns whether a row is a twin (worker/base/engine.h). */
static inline bool plan_is_twin(const struct plan_row *r)
{
    return r->n_tokens == 0;
}

/* Returns the row whose tokens give a row its logits: its own or, for a twin,
 * the source. */
static inline const struct plan_row *plan_source(const struct plan *p,
                                                 const struct plan_row *r)
{
    return plan_is_twin(r) ? &p->rows[r->source] : r;
}

/* Returns ST_INTERNAL if the core made a mistake; e names the first wrong row.
 * A row that is chained to TOKEN_LOST is none. */
MUST_CHECK enum status plan_check(const struct plan_bounds *b,
                                  const struct plan *p, struct error *e);

#endif
