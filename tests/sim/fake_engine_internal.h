/* fake_engine_internal.h - Shared state of the fake engine's modules.
 *
 *   fake_engine.c        the engine interface, time, and results of plans
 *   fake_engine_run.c    computation of a plan
 *   fake_engine_check.c  checks of plans before they run
 *   fake_drafts.c        rows with drafts, and the MTP layer
 *   fake_windows.c       window tables of rows
 *   fake_memory.c        contents of pages, and the plans that name them */
#ifndef SIM_FAKE_ENGINE_INTERNAL_H
#define SIM_FAKE_ENGINE_INTERNAL_H

#include "tests/sim/fake_engine.h"
#include "tests/sim/fake_hidden.h"
#include "tests/sim/sim.h"

#define TRACKED 4096 /* the last sequences of a worker's life */
/* Hidden states of the plans in flight and of the last polled result. */
#define HIDDEN_RING (ENGINE_DEPTH_MAX + 1)
#define NOBODY      UINT64_MAX  /* no sequence */
#define CELL_SPOILT 0x80000000u /* in a token: from a damaged state */
#define NO_REQUEST  UINT32_MAX
#define SAVE_UNIT   64
#define SAVE_GRID   512 /* the finest grid of checkpoints */

struct cell {
    uint32_t token, where; /* position << 1 | kind */
};

enum page_kind {
    PAGE_GARBAGE,
    PAGE_POISON,
    PAGE_CELLS,
    PAGE_STATE,
    PAGE_WINDOW /* cells of the window layers of a table */
};

struct page {
    enum page_kind kind;
    /* A state: which page of it, and the tokens fed.  A window: its table. */
    uint32_t part, n;
    uint64_t hash;
    uint32_t request; /* that wrote it last, as its number; NO_REQUEST */
    /* Use by the plans in flight: */
    uint64_t sequence; /* that named it last */
    bool mixed;        /* others in flight name it too */
    uint32_t plans;    /* plans in flight that name it, */
    uint32_t epoch;    /* since its contents were last moved */
    uint64_t row;      /* newest row with it in its table, as e->rows counts */
    uint64_t claim, claim_row; /* plan and row that last wrote to it */
    uint64_t mtp; /* cells of which the MTP layer has KV, a bit each */
};

/* A page that a plan in flight names. */
struct named {
    uint32_t page, epoch;
};

struct slot_state {
    uint64_t hash;
    uint32_t n;
    bool whole; /* all of its parts are there */
};

struct tracked {
    uint64_t sequence;
    uint32_t request;  /* by its seed; NO_REQUEST: not known at this stage */
    uint32_t next;     /* position: all earlier ones are written or in flight */
    uint32_t restored; /* positions that it did not compute itself */
    uint32_t n, n_prompt; /* number of ids that were run, */
    uint64_t ids;         /* and a digest of ids and positions */
    uint64_t source;      /* for a twin: the sequence with the prompt, */
    uint32_t n_source;    /* and its positions; 0: it is no twin */
    bool redone;          /* computed again, or swapped, at some time */
    bool mixed;           /* a prompt row followed a generated one */
    bool refused;         /* a plan with it was: it is computed again */
    bool tainted;         /* named by a failed plan: contents are undefined */
    bool again;           /* computed again after that, until it samples */
    bool anew;            /* ... from its newest row on */
    uint64_t since;       /* number of the row that it began anew with */
    bool has_next;        /* the MTP layer has the first id of its next row */
    uint32_t next_id;
    uint32_t slack; /* drafts of its newest row, at a stage before the last */
};

/* An input that is kept for a replay. */
struct kept {
    uint64_t sequence; /* garbage if NOBODY */
    uint32_t token, position, request, kind;
};

/* A token, and its logprobs if its row asks for them. */
struct fake_token {
    uint32_t token;
    float logprob;
    struct token_logprob *top; /* [TOP_LOGPROBS_MAX] */
};

/* The logits of a row. */
struct fake_digest {
    uint64_t a, s, w;
};

struct flown {
    const struct plan *plan;
    uint64_t hash;
    int64_t start_us, took_us;
    int64_t stand_us, stood_us; /* start and length of a stall without ticks */
    struct named *named;        /* [n_named] of cap_named */
    uint32_t n_named, cap_named;
    bool alone; /* its only row is of a sequence that is computed again */
    bool done;
};

struct fake_engine {
    struct engine seam;
    struct sim *sim;
    uint32_t w;
    const struct worker_draw *draw;
    const struct pool_of_worker *pool;
    const struct fake_model *model;
    struct fake_shard shard;
    struct rng rng;
    uint32_t per_slot; /* pages of a slot; 0: no linear layer */
    uint32_t tables;   /* pages of a window block; 0: no window layer */
    /* The pages of the pool, then those of the host tier: */
    uint32_t n_memory;
    struct page *pages; /* [n_memory] */
    struct cell *cells; /* [n_memory, block_tokens] */
    struct kept *kept;  /* [keep_tokens], at a stage before the last */
    float *hidden;      /* [HIDDEN_RING, step_tokens, FAKE_HIDDEN], or NULL */
    uint32_t n_named;   /* pages with plans in flight */
    uint32_t n_tracked; /* entries of tracked[] in use, from the first */
    struct flown flying[ENGINE_DEPTH_MAX]; /* oldest first */
    uint32_t n_flying;
    int64_t free_us;            /* completion time of the newest plan */
    int64_t stand_us, stood_us; /* stall of the newest plan that has one */
    int64_t stand_before_us, stood_before_us; /* the previous stall */
    uint64_t finished, polled;                /* numbers of plans */
    uint64_t rows, plans;                     /* rows and plans checked */
    uint32_t n_last_rows;

    /* Last in the struct, because these are initialised on first use. */
    struct tracked tracked[TRACKED];
    struct plan_row last_rows[PLAN_ROWS_MAX];   /* newest submitted plan */
    struct plan_result ready[ENGINE_DEPTH_MAX]; /* parallel to flying */
    struct {
        enum status status;
        uint32_t tokens[PLAN_ROWS_MAX];
    } before;                      /* result of the newest executed plan */
    uint32_t ids[PLAN_TOKENS_MAX]; /* ids of the current row */
    struct fake_digest digests[PLAN_ROWS_MAX]; /* rows of this plan, for
                                                * their twins */
};

static inline bool fake_engine_takes_hidden(const struct fake_engine *e)
{
    return e->shard.begin > 0;
}

static inline bool fake_engine_gives_hidden(const struct fake_engine *e)
{
    return e->shard.end < e->shard.n_layers;
}

static inline bool fake_row_is_twin(const struct plan_row *r)
{
    return r->n_tokens == 0;
}

static inline bool fake_in_memory(const struct fake_engine *e, uint32_t first,
                                  uint32_t n)
{
    return first < e->pool->n_pages && n <= e->pool->n_pages - first;
}

/* Returns the entries of pages[] that a copy reads and writes. */
static inline uint32_t fake_copy_from(const struct fake_engine *e,
                                      const struct plan_copy *c)
{
    return c->from + (c->kind == COPY_IN ? e->pool->n_pages : 0);
}

static inline uint32_t fake_copy_to(const struct fake_engine *e,
                                    const struct plan_copy *c)
{
    return c->to + (c->kind == COPY_OUT ? e->pool->n_pages : 0);
}

static inline bool fake_is_slot(const struct fake_engine *e, uint32_t slot)
{
    return e->per_slot && slot % e->per_slot == 0 &&
           fake_in_memory(e, slot, e->per_slot);
}

/* Returns the kind of a row as the model's arithmetic sees it. */
static inline enum row_kind fake_engine_kind(const struct fake_engine *e,
                                             uint32_t kind)
{
    return e->model->one_arithmetic || !kind ? ROW_PROMPT : ROW_GENERATED;
}

static inline struct cell *fake_cell(struct fake_engine *e, uint32_t page,
                                     uint32_t at)
{
    uint32_t bt = e->draw->block_tokens;

    return &e->cells[(size_t)page * bt + at % bt];
}

/* Fails the run because of an invalid plan from the core. */
void fake_engine_wrong(struct fake_engine *e, const struct plan_row *r,
                       const char *what);

struct tracked *fake_engine_track(struct fake_engine *e, uint64_t sequence);

/* Checks a plan before it runs; f then names its pages.  Sets whether its only
 * row is of a sequence that is computed again. */
void fake_engine_check(struct fake_engine *e, const struct plan *p,
                       struct flown *f);

/* Makes the current row the only writer of a page in this plan. */
void fake_engine_claim(struct fake_engine *e, const struct plan_row *r,
                       uint32_t page);

/* Computes the result of a plan into out.  Only damage fails one that is
 * alone. */
void fake_engine_run(struct fake_engine *e, const struct plan *p, bool alone,
                     struct plan_result *out);

/* Returns whether the damage of a request shows at this stage. */
bool fake_engine_shows(const struct fake_engine *e,
                       const struct sim_request *request);

/* ---- fake_engine_run.c: parts of a row ---- */

/* Writes the hidden state of token i of the row. */
void fake_engine_give(struct fake_engine *e, const struct plan_row *r,
                      uint32_t i, const struct fake_hidden *h);
/* Writes the row's ids to its blocks and window blocks. */
void fake_run_write(struct fake_engine *e, const struct plan *p,
                    const struct plan_row *r, const uint32_t *ids);
/* Digests the whole history, as the table reaches it. */
uint64_t fake_run_attend(struct fake_engine *e, const struct plan *p,
                         const struct plan_row *r);
/* Records executed ids; the history must equal them from now on. */
void fake_run_note(struct tracked *t, const struct plan_row *r,
                   const uint32_t *tokens);
/* Sets o->h to the row's history.  Returns false if the row is damaged. */
bool fake_run_remember(struct fake_engine *e, const struct plan_row *r,
                       uint32_t chained, struct oracle *o);
/* Chooses the token of an index.  Returns false if its logits are damaged. */
bool fake_run_choose(struct fake_engine *e, const struct plan_row *r,
                     const struct oracle *o, uint32_t index,
                     struct fake_token *out);
/* Makes it the last token of a row, or gives the row none. */
void fake_run_put(struct plan_result *out, uint32_t row,
                  const struct fake_token *x);
void fake_run_damaged(struct fake_engine *e, const struct plan_row *r,
                      uint32_t row, struct plan_result *out);

/* ---- fake_drafts.c ---- */

/* Returns whether a row has drafts. */
static inline bool fake_drafts_has(const struct plan_row *r)
{
    return r->n_drafts > 0;
}

/* Checks the fields of a row that concern drafts, and claims the blocks of its
 * proposals.  t: before the row. */
void fake_drafts_check(struct fake_engine *e, const struct plan *p,
                       const struct plan_row *r, struct tracked *t);
/* Takes back the drafts of the row before that r shows to be refused. */
void fake_drafts_settle(const struct fake_engine *e, const struct plan_row *r,
                        struct tracked *t);
/* Checks the plan: the kept tokens, and the end tokens. */
void fake_drafts_check_plan(struct fake_engine *e, const struct plan *p);
/* Computes a row with drafts: accepts those that are right. */
void fake_drafts_run(struct fake_engine *e, const struct plan *p, uint32_t row,
                     const uint32_t *ids, struct plan_result *out);
/* Advances a slot by kept inputs. */
void fake_drafts_replay(struct fake_engine *e, const struct plan_replay *y);
/* Drops what a row of a failed step was to keep. */
void fake_drafts_forget(struct fake_engine *e, const struct plan_row *r);
/* Runs the MTP layer over a row that has been computed. */
void fake_drafts_propose(struct fake_engine *e, const struct plan *p,
                         uint32_t row, struct plan_result *out);
/* Copies the part of a result that concerns drafts. */
void fake_drafts_take(struct plan_result *to, const struct plan_result *from,
                      const struct plan *p);

/* ---- fake_engine_twins.c ---- */

/* Checks a row that samples from the logits of an earlier one. */
void fake_twin_check(struct fake_engine *e, const struct plan *p,
                     const struct plan_row *r);
/* Begins the sequence of such a row. */
void fake_twin_begin(struct fake_engine *e, const struct plan *p,
                     const struct plan_row *r, struct tracked *t);
/* Returns whether entry k of a twin's table is that of its source, which holds
 * it. */
bool fake_twin_shares(const struct plan *p, const struct plan_row *r,
                      uint32_t k);
/* Checks that sequences which began as twins have the full blocks of their
 * prompt in common with their source, as long as neither was computed again or
 * swapped. */
void fake_twins_check(struct fake_engine *e, const struct plan *p);

/* ---- fake_windows.c ----
 *
 * A plan does not hold window pages as it does others: plans run in order, so a
 * page that the window of a row has left may be written by the next plan.  What
 * a row reads is compared instead, position by position. */

/* Checks the shape of a row's window tables, and claims the pages that it
 * writes. */
void fake_windows_claim(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r);
/* Checks that no other row of the plan writes what this one reads.  row: its
 * number, as e->rows counts. */
void fake_windows_check(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, uint64_t row);
/* Writes token i of the row to its window blocks. */
void fake_windows_write(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, uint32_t token, uint32_t i);
/* Checks all positions that the windows of the row's tokens have, in every
 * table, and returns the digest of the last token's window. */
uint64_t fake_windows_see(struct fake_engine *e, const struct plan *p,
                          const struct plan_row *r);
/* Returns whether one of the row's tables has the page. */
bool fake_windows_has(const struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r, uint32_t page);

/* ---- fake_memory.c: contents ---- */

/* Makes n pages garbage or poison. */
void fake_memory_spoil(struct fake_engine *e, uint32_t first, uint32_t n,
                       enum page_kind kind);
/* Copies the contents of pages. */
void fake_memory_copy(struct fake_engine *e, const struct plan_copy *c);
/* Writes a cell.  A page with other contents loses them. */
void fake_memory_write(struct fake_engine *e, uint32_t page, struct cell c,
                       uint32_t request);
/* Writes a cell of a window block, of this table. */
void fake_memory_write_window(struct fake_engine *e, uint32_t page,
                              uint32_t table, struct cell c, uint32_t request);
/* Returns the cells of a page of this table, [block_tokens]; garbage if it has
 * none. */
const struct cell *fake_memory_read_window(struct fake_engine *e,
                                           const struct plan_row *r,
                                           uint32_t page, uint32_t table);
/* Returns the cells of a page, [block_tokens]; garbage if it has none. */
const struct cell *fake_memory_read(struct fake_engine *e,
                                    const struct plan_row *r, uint32_t page);
void fake_memory_put_state(struct fake_engine *e, uint32_t slot,
                           struct slot_state s, uint32_t request);
struct slot_state fake_memory_state(struct fake_engine *e,
                                    const struct plan_row *r, uint32_t slot);
/* Checks that a row may read what another request wrote to a page: one of its
 * tenant that lets others reuse it, or that it continues. */
void fake_memory_check_owner(struct fake_engine *e, const struct plan_row *r,
                             uint32_t page);

/* ---- fake_memory.c: plans that name pages ---- */

/* Makes the plan hold a page for a sequence. */
void fake_memory_name(struct fake_engine *e, struct flown *f, uint32_t page,
                      uint64_t sequence);
/* Ends the hold of the plans before on a page whose contents are moved. */
void fake_memory_moved(struct fake_engine *e, uint32_t page);
/* Ends the holds of a plan. */
void fake_memory_let_go(struct fake_engine *e, struct flown *f);
/* Returns whether a plan in flight names the page for another sequence. */
bool fake_memory_is_others(const struct fake_engine *e, uint32_t page,
                           uint64_t sequence);

#endif
