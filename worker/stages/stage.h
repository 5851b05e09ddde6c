/* stage.h - a stage that does not lead: it obeys what comes down the stream
 * (proto/README.md, "Shards").
 *
 *     Open      reserves its need under this stage's own grant; goes on
 *     OpenPart  ids, of a sequence that the last stage penalises; goes on
 *     Forward   waits in line; computes, one at a time; goes on with the
 *               result, from the last stage as Result
 *     Remove    frees, when the plans that came before it are back; goes on
 *               with a receipt
 *
 * Sequences stand in the worker's table under the leader's grant.  Positions,
 * tables and slots are this stage's to keep; the last one also keeps ids, of
 * sequences with penalties, and puts there what it samples.
 *
 * Every message is checked against what came before it, as it comes; one that
 * does not fit breaks the assembly with a sentence: leader and stage disagree,
 * and neither can say who is wrong.
 *
 * A step that fails here, or came as failed, goes on as a failure in its place
 * of the line.  What it named is spoilt: rows of such a sequence that were on
 * their way already are computed, as others stand beside them, and never
 * sampled; the leader ends it, and its Remove comes.
 *
 * Threading: the core's.  Memory: of n_stages + 1 microbatches, made at the
 * first Assemble of so many and kept; x stays in the frame that brought it.
 * Limits: n_stages microbatches in line. */
#ifndef WORKER_STAGES_STAGE_H
#define WORKER_STAGES_STAGE_H

#include "proto/stage.pb-c.h"
#include "worker/sequences/batch.h"
#include "worker/stages/assembly.h"

/* A Forward that is here. */
struct microbatch {
    struct batch batch;
    bool *samples;   /* [max_rows] it asked for a token */
    struct frame *x; /* holds plan.hidden; NULL: it came as failed */
    uint32_t device_us[STAGES_MAX]; /* of the stages that it has passed */
    bool made, in_line;
    bool over; /* its assembly is: what comes of it is nobody's */
    bool failed;
    char failure[ERROR_TEXT];
};

/* What the stages passed have freed, of a Remove that waits. */
struct stage_passed {
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], checkpoints[STAGES_MAX];
};

/* The columns of a Forward, or of a Result. */
struct stage_columns {
    uint64_t grant[PLAN_ROWS_MAX];
    uint32_t position[PLAN_ROWS_MAX], count[PLAN_ROWS_MAX];
    uint32_t kind[PLAN_ROWS_MAX], index[PLAN_ROWS_MAX];
    uint32_t tokens[PLAN_ROWS_MAX], width[PLAN_ROWS_MAX];
    float logprobs[PLAN_ROWS_MAX * (1 + TOP_LOGPROBS_MAX)];
    uint32_t top_tokens[PLAN_ROWS_MAX * TOP_LOGPROBS_MAX];
};

struct stage {
    struct microbatch memory[STAGES_MAX + 1];
    struct microbatch *line[STAGES_MAX + 1]; /* [n] in order of arrival */
    uint32_t n;
    bool computing;              /* line[0] is with the engine */
    bool opened;                 /* some Open came in this assembly */
    uint64_t grant;              /* then: the leader's, of the newest */
    uint64_t step;               /* the newest Forward's, 0: none came */
    struct stage_passed *passed; /* [the table's capacity] */
    struct stage_columns *columns;
};

/* An assembly begins.  False if memory is out. */
MUST_CHECK bool stage_begin(struct worker_core *w);
/* It is over: what waits in line is dropped, what the engine has is nobody's
 * when it is back.  The caller drops all sequences next. */
void stage_over(struct worker_core *w);
void stage_free(struct worker_core *w);

/* The stream; of an assembly that is up.  x: what came with the Forward, within
 * w->assembly.arriving. */
void stage_recv_open(struct worker_core *w, const Sluice__V1__StageOpen *m);
void stage_recv_open_part(struct worker_core *w,
                          const Sluice__V1__StageOpenPart *m);
void stage_recv_forward(struct worker_core *w,
                        const Sluice__V1__StageForward *m, const float *x,
                        uint32_t bytes);
void stage_recv_remove(struct worker_core *w, const Sluice__V1__StageRemove *m);

/* Is it the last one, which samples? */
bool stage_is_last(const struct worker_core *w);

/* Take in the result that is ready; hand the engine the next plan in line. */
void stage_results(struct worker_core *w);
void stage_plans(struct worker_core *w);

/* Plans that the engine has, and the oldest of them, NULL if none. */
uint32_t stage_planned(const struct worker_core *w);
const struct batch *stage_oldest(const struct worker_core *w);

#endif
