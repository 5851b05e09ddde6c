/* runner.h - drives sequences through the forward pass by hand: the work of a
 * batcher, at the pace and in the order that a test needs.
 *
 * Threading: one thread.
 * Memory: a runner owns its plan and forward pass, a sequence its ids.
 *
 * Allocation failures and errors of the plan end the program with a message, as
 * this is for tests. */
#ifndef TESTS_GOLDEN_RUNNER_H
#define TESTS_GOLDEN_RUNNER_H

#include "worker/engine/forward.h"

#define RUNNER_STAGE_TOKENS 1024 /* plan of a partial shard */
#define RUNNER_MOVES_MAX    64   /* most moves of one plan */

/* Pages of window blocks (runner_windows.h). */
struct runner_windows {
    uint32_t n_tables;      /* pages of a window block; 0: no window layer */
    uint32_t *free, n_free; /* a stack */
    uint16_t *refs;         /* [n_pages] sequences that hold a page */
    uint32_t moved[RUNNER_MOVES_MAX], n_moved;
};

struct runner {
    const struct shard_weights *w;
    bool attention, linear; /* whether there are layers of these kinds */
    struct forward *forward;
    struct plan plan;
    struct plan_result result;
    uint32_t block_tokens;
    uint32_t n_pages, pages_per_slot;
    uint32_t *blocks, n_blocks; /* pages of free ones, a stack */
    uint32_t *slots, n_slots;   /* first pages of free ones, a stack */
    struct runner_windows windows;
    uint32_t order;  /* shuffles both, see runner_open() */
    uint32_t n_kept; /* inputs that the plan being made keeps */
    bool poisons;    /* see runner_poison() */
    /* Pages that the plan being made moves away, freed when it has run: */
    uint32_t moved_blocks[RUNNER_MOVES_MAX], n_moved_blocks;
    uint32_t moved_slots[RUNNER_MOVES_MAX], n_moved_slots;
    float **logits;         /* [PLAN_ROWS_MAX] targets of the rows' logits,
                             * [1 + n_drafts, V] each, or NULL */
    struct forward_tap tap; /* the test's own */
};

struct run_seq {
    uint32_t *ids; /* [capacity] prompt, then generated */
    uint32_t n_ids, n_prompt, n_done, capacity;
    /* Ids [again, n_again) are a prompt's as well: a turn that follows kept
     * positions. */
    uint32_t again, n_again;
    uint32_t choice;
    uint32_t *blocks, n_blocks; /* pages */
    uint32_t *windows;          /* [tables, n_blocks] pages of window blocks */
    uint32_t window_first, window_end; /* the blocks that it holds */
    bool keeps_windows; /* holds all of them, so that forks may begin
                         * anywhere; a fork does not */
    uint32_t slot;      /* its first page */
    bool fresh;         /* its slot is not zeroed yet */
    uint32_t n_shared;  /* its first blocks, which are another's */
    struct sampling sampling;
    /* Drafts (runner_drafts.h): */
    bool mtp;
    uint32_t propose;
    uint32_t drafts[DRAFTS_MAX], n_drafts; /* that follow its newest id */
    uint32_t *history;
};

/* Opens a runner with at least this many blocks and slots, and as many window
 * blocks as blocks if the shard has window layers.  `order` shuffles the pages
 * among them; 0 puts the slots first, then the blocks, in ascending order. */
void runner_open(struct runner *r, const struct shard_weights *w,
                 const struct kernels_options *o, uint32_t n_blocks,
                 uint32_t n_slots, uint32_t order);
void runner_close(struct runner *r);

/* Replaces the blocks and slots, of which none may be in use; for backends
 * whose alloc may be called again.  Returns false and sets e if there is no
 * room. */
bool runner_pool(struct runner *r, uint32_t n_blocks, uint32_t n_slots,
                 struct error *e);

/* From now on every page that is free holds NaN.  Between plans only. */
void runner_poison(struct runner *r);

/* Observes layers with tap->layer; tap is copied. */
void runner_tap(struct runner *r, const struct forward_tap *tap);

/* Starts a sequence with room for `more` generated ids. */
void runner_start(struct runner *r, struct run_seq *s, const uint32_t *ids,
                  uint32_t n_prompt, uint32_t more);
void runner_stop(struct runner *r, struct run_seq *s);

/* Marks its first n ids as done, as if its blocks and its slot held their
 * values. */
void runner_skip(struct run_seq *s, uint32_t n);

/* Takes a free slot, as a checkpoint; the caller gives it back. */
uint32_t runner_take_slot(struct runner *r);
void runner_give_slot(struct runner *r, uint32_t slot);

/* Adds copies to the plan being made, before its rows or after them; saves to
 * its newest row. */
void runner_before(struct runner *r, uint32_t from, uint32_t to, uint32_t n);
void runner_after(struct runner *r, uint32_t from, uint32_t to, uint32_t n);
void runner_save(struct runner *r, uint32_t position, uint32_t page);

/* Moves a block of a sequence, or its slot, to a free place, before the rows of
 * the plan being made; the old place is free after that plan. */
void runner_move_block(struct runner *r, struct run_seq *s, uint32_t i);
void runner_move_slot(struct runner *r, struct run_seq *s);

/* Starts a sequence with the ids and positions of another, up to `at`: they
 * share the full blocks, and the next plan copies the last one, if it is partly
 * filled, and the state in the slot or checkpoint `from`.  runner_stop() keeps
 * the shared blocks: the other one must stop later. */
void runner_fork(struct runner *r, struct run_seq *s, const struct run_seq *of,
                 uint32_t at, uint32_t from);

/* Adds a twin of a row that samples, and starts its sequence, with s->choice,
 * which shares the full blocks as above. */
uint32_t runner_twin(struct runner *r, struct run_seq *s,
                     const struct run_seq *of, uint32_t row, float *logits);

/* Ends the program if the plan being made has no room for n more entries of
 * tables. */
void runner_check_tables(const struct runner *r, uint32_t n);

/* Returns whether the next id to compute is of a prompt; *n: how many such ids
 * of its kind follow one another. */
bool runner_is_prompt(const struct run_seq *s, uint32_t *n);

/* Adds a row of the next n ids to the plan being made; returns the row's
 * number.  With `sample`, a token is chosen after the last id; if `logits` is
 * not NULL, its logits [V] are written there. */
uint32_t runner_add(struct runner *r, struct run_seq *s, uint32_t n,
                    bool sample, float *logits);

/* The same; the last n_drafts ids are drafts. */
uint32_t runner_add_row(struct runner *r, struct run_seq *s, uint32_t n,
                        uint32_t n_drafts, bool sample, float *logits);

/* Runs the plan and begins an empty one. */
void runner_step(struct runner *r);

/* Runs the second half of runner_step(), for callers that ran the plan
 * themselves: checks the result and begins an empty plan. */
void runner_done(struct runner *r);

/* Returns the token chosen for a row of the last plan. */
uint32_t runner_token(const struct runner *r, uint32_t row);

void run_seq_push(struct run_seq *s, uint32_t id);

#endif
