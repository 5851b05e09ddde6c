/* stage.h - A stage that does not lead: it executes the leader's stream
 * (proto/README.md, "Shards").
 *
 *     Geometry  gets this stage's pool added; passed on
 *     Open      reserves memory under this stage's own grant; passed on
 *     OpenPart  ids of a sequence with penalties, for the last stage; passed on
 *     Forward   waits in line, is computed one at a time; passed on with the
 *               new hidden states, or from the last stage as Result
 *     Remove    frees memory at once, because plans run in order; passed on
 * with a receipt Restore   moves a sequence to a position of what is kept;
 * passed on Keep      keeps blocks for the leader's index; passed on Gone frees
 * what was kept; passed on Accept    counts accepted drafts, and orders the
 * replay of what their row has kept, at the begin of the next plan; passed on
 *
 * Messages are passed on in the order in which they came (relay.h), and change
 * the account at once: that of every stage is the same after the same message,
 * and the leader counts along (mirror.h).
 *
 * Sequences are in the worker's table under the leader's grant.  The stage
 * keeps positions, block tables and slots itself.  The last stage also keeps
 * the ids of sequences with penalties, and appends what it samples.
 *
 * Every message is checked against the ones before it when it comes.  A message
 * that does not match breaks the assembly, because the leader and the stage
 * disagree and neither can decide which of them is wrong.
 *
 * A step that fails here, or came as failed, is passed on as a failure in its
 * place in the line.  It takes memory like any other.  Its sequences are
 * spoilt: their rows in later
 * microbatches are still computed, because other rows stand beside them, but
 * never sampled.  The leader computes a spoilt sequence again, from a row with
 * the bit ANEW, or ends it, and its Remove follows.
 *
 * A row without finite logits is passed on as damaged; the rows beside it are
 * sampled as ever.
 *
 * Threading: the core's.  Memory: n_stages + 1 microbatches, allocated at the
 * first Assemble of that size and kept; hidden states stay in the frame that
 * brought them.  Limits: n_stages microbatches in line.
 *
 *   stage.c          Open, OpenPart, Remove; made and freed
 *   stage_reuse.c    Geometry, Restore, Keep, Gone; copies for the next plan
 *   stage_drafts.c   Accept; the columns of drafts in Forward and Result
 *   stage_forward.c  Forward: its checks, and its place in the line
 *   stage_line.c     the line: to the engine, and on to the next stage */
#ifndef WORKER_STAGES_STAGE_H
#define WORKER_STAGES_STAGE_H

#include "proto/stage.pb-c.h"
#include "worker/sequences/sequences.h"
#include "worker/stages/assembly.h"
#include "worker/stages/keeps.h"
#include "worker/stages/relay.h"
#include "worker/stages/stage_cache.h"

/* A Forward that has come. */
struct microbatch {
    struct batch batch;
    bool *samples; /* [max_rows] the row requests a token */
    bool *anew;    /* [max_rows] its sequence begins anew */
    /* [n_saves] as they came: the checkpoints' names */
    uint32_t *save_row, *save_position, *save_checkpoint;
    uint32_t n_saves;
    /* [max_rows] as they came; the plan's may be lower, in spoilt rows */
    uint8_t *drafts, *propose;
    uint32_t n_values; /* most logprobs of the Result */
    struct frame *x;   /* holds plan.hidden; NULL: it came as failed */
    uint32_t device_us[STAGES_MAX]; /* [stage] so far */
    bool made, in_line;
    bool over; /* its assembly is over: the result is ignored */
    bool failed;
    char failure[ERROR_TEXT];
};

/* The columns of a Forward or a Result. */
struct stage_columns {
    uint64_t grant[PLAN_ROWS_MAX];
    uint32_t position[PLAN_ROWS_MAX], count[PLAN_ROWS_MAX];
    uint32_t kind[PLAN_ROWS_MAX], index[PLAN_ROWS_MAX];
    uint32_t tokens[PLAN_ROWS_MAX], width[PLAN_ROWS_MAX];
    uint32_t damaged[PLAN_ROWS_MAX];
    uint32_t source[PLAN_ROWS_MAX];
    uint32_t drafts[PLAN_ROWS_MAX], keep_at[PLAN_ROWS_MAX];
    uint32_t propose[PLAN_ROWS_MAX], next[PLAN_ROWS_MAX];
    uint32_t ids[PLAN_TOKENS_MAX];
    uint32_t accepted[PLAN_ROWS_MAX], proposed[PLAN_ROWS_MAX];
    uint32_t proposals[PLAN_ROWS_MAX * DRAFTS_MAX];
    float logprobs[RESULT_VALUES_MAX];
    uint32_t top_tokens[RESULT_VALUES_MAX];
};

/* Positions in the columns of a Forward that are shorter than its rows. */
struct stage_cursor {
    size_t row, twin, save, keep, id, next;
};

/* The stage's part of a sequence, besides struct sequence. */
struct stage_note {
    bool restored;            /* a Restore came, and no row since */
    bool cut;                 /* a range was removed: its ids are gone */
    uint32_t spoilt_at;       /* a step with s failed: positions below it are
                               * good; UINT32_MAX: it is not spoilt */
    uint32_t keep_at, n_kept; /* inputs of its row with drafts, until Accept;
                               * 0: none */
    uint32_t n_sampled;       /* at the last stage: the tokens of that row */
};

struct stage {
    struct worker_base *base;
    struct sequences *sequences;
    struct assembly *assembly;
    struct microbatch memory[STAGES_MAX + 1];
    struct microbatch *line[STAGES_MAX + 1]; /* [n] in order of arrival */
    uint32_t n;
    bool computing;           /* line[0] is at the engine */
    bool opened;              /* an Open has come in this assembly; then */
    uint64_t grant;           /* the leader's grant in the newest one */
    uint64_t step;            /* the newest Forward's, 0: none has come */
    struct stage_cache cache; /* made at the first Assemble */
    struct relay relay;
    struct stage_columns *columns;
    struct stage_note *notes; /* [the table's capacity] */
    struct plan_copy *copies; /* [n_copies] for the next plan that runs */
    uint32_t n_copies;
    struct keeps keeps;
    struct plan_replay replays[PLAN_ROWS_MAX]; /* [n_replays] likewise */
    uint32_t n_replays;
};

/* Makes a stage without an assembly.  Both pointers are borrowed. */
void stage_init(struct stage *g, struct sequences *q, struct assembly *a);
void stage_fini(struct stage *g);

/* `self` is the struct stage. */
extern const struct member_ops stage_member;
extern const struct role_ops stage_role;

/* ---- for the files of this module ---- */

/* Begins an assembly.  Returns false if memory runs out. */
MUST_CHECK bool stage_begin(struct stage *g);
/* Ends it: what waits in line is dropped, and what the engine has is ignored
 * when it returns.  The caller drops all sequences next. */
void stage_over(struct stage *g);

/* Receive the stream of an assembly that is up.  x: the Forward's tensor, which
 * is inside assembly->arriving. */
void stage_recv_open(struct stage *g, const Sluice__V1__StageOpen *m);
void stage_recv_open_part(struct stage *g, const Sluice__V1__StageOpenPart *m);
void stage_recv_forward(struct stage *g, const Sluice__V1__StageForward *m,
                        const float *x, uint32_t bytes);
void stage_recv_remove(struct stage *g, const Sluice__V1__StageRemove *m);
void stage_recv_geometry(struct stage *g, const Sluice__V1__StageGeometry *m);
void stage_recv_restore(struct stage *g, const Sluice__V1__StageRestore *m);
void stage_recv_keep(struct stage *g, const Sluice__V1__StageKeep *m);
void stage_recv_gone(struct stage *g, const Sluice__V1__StageGone *m);
void stage_recv_accept(struct stage *g, const Sluice__V1__StageAccept *m);

/* Returns the open sequence of that grant.  NULL with e set: there is none. */
struct sequence *stage_open_sequence(const struct stage *g, uint64_t grant,
                                     struct error *e);

/* Returns whether this is the last stage, which samples. */
bool stage_is_last(const struct stage *g);

/* Counts a plan that named s, or a failed Forward, as passed on.  s may be gone
 * afterwards. */
void stage_plan_back(struct stage *g, struct sequence *s);

struct stage_note *stage_note(const struct stage *g, const struct sequence *s);

/* Returns whether a step with s has failed, and it has not begun anew since. */
static inline bool stage_is_spoilt(const struct stage *g,
                                   const struct sequence *s)
{
    return stage_note(g, s)->spoilt_at != UINT32_MAX;
}

/* A step that computes s from this position on has failed. */
void stage_spoil(const struct stage *g, struct sequence *s, uint32_t position);

/* Puts the copies and replays that wait before those of a new plan.  Returns
 * ST_RESOURCE_EXHAUSTED if they are too many. */
MUST_CHECK enum status stage_copies_take(struct stage *g, struct batch *t,
                                         struct error *e);
/* Brings the copies and replays of a plan that will not run to the next one: t
 * is the newest microbatch, or the engine refused it. */
void stage_copies_keep(struct stage *g, const struct batch *t);
MUST_CHECK enum status
stage_copies_refused(struct stage *g, const struct batch *t, struct error *e);

/* Check the columns of drafts of a Forward, and row i of an open sequence. */
MUST_CHECK enum status stage_check_drafts(const Sluice__V1__StageForward *m,
                                          struct error *e);
MUST_CHECK enum status stage_check_draft_row(const struct stage *g,
                                             const struct sequence *s,
                                             const Sluice__V1__StageForward *m,
                                             size_t i, struct error *e);
/* Fills the newest row of the plan from these columns, and moves the cursor
 * on. */
MUST_CHECK enum status stage_fill_drafts(struct stage *g, struct microbatch *b,
                                         struct sequence *s,
                                         const Sluice__V1__StageForward *m,
                                         struct stage_cursor *at,
                                         struct error *e);
/* Return what row i has in these columns. */
uint32_t stage_drafts_of(const Sluice__V1__StageForward *m, size_t i);
uint32_t stage_propose_of(const Sluice__V1__StageForward *m, size_t i);
/* Fills the columns for the next stage. */
void stage_send_drafts(struct stage *g, const struct microbatch *b,
                       Sluice__V1__StageForward *m);
/* Adds what the last stage found of row i to the Result. */
void stage_add_drafts(struct stage *g, const struct microbatch *b, uint32_t i,
                      uint32_t n_accepted, bool has_token,
                      Sluice__V1__StageResult *m);
/* Frees the region of s. */
void stage_free_kept(struct stage *g, const struct sequence *s);

/* Returns a microbatch that is not in the line; there is one while fewer than
 * n_stages are. */
struct microbatch *stage_line_free(struct stage *g);
/* Appends b to the line. */
void stage_line_add(struct stage *g, struct microbatch *b);

#endif
