#include "worker/sequences/step.h"

#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/plan/twins.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/draft_results.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/kept.h"
#include "worker/sequences/ranges.h"
#include "worker/sequences/recompute.h"
#include "worker/sequences/report.h"
#include "worker/sequences/results.h"

/* ---- rows ---- */

/* Checks for stop before length: an end token that is also the last token
 * allowed ends the sequence with FINISH_STOP. */
enum sequence_finish step_finish(const struct sequences *q,
                                 const struct sequence *s)
{
    uint32_t last;

    if (s->portable.n_generated == 0) {
        return FINISH_NONE;
    }
    last =
        paged_get(&q->table.slab, &s->portable.tokens, sequence_known(s) - 1);
    if (results_ends(q, &s->portable.sampling, last) &&
        !(PLANT(STOP_MISSED) && s->portable.n_generated > 9)) {
        return FINISH_STOP;
    }
    return s->portable.n_generated >= s->portable.max_tokens ? FINISH_LENGTH
                                                             : FINISH_NONE;
}

/* Returns whether s ended while the plan ran; its row is then ignored. */
static bool is_over(const struct sequence *s)
{
    return s->state != SEQUENCE_PREFILL && s->state != SEQUENCE_DECODE;
}

/* A token of a row, with its logprobs if s requests them. */
struct row_token {
    uint32_t id;
    float logprob;
    const struct token_logprob *top;
    bool follows; /* an accepted draft */
};

static void take_token(struct sequences *q, struct sequence *s,
                       const struct row_token *x)
{
    enum sequence_finish finish;

    paged_write(&q->table.slab, &s->portable.tokens, sequence_known(s), &x->id,
                1);
    if (s->portable.sampling.logprobs) {
        logprobs_put(&q->table.rings, &s->portable.logprobs, x->logprob,
                     x->top);
    }
    s->portable.n_generated++;
    if (s->plan.recompute == RECOMPUTE_ALONE) {
        recompute_move(s, RECOMPUTE_NONE);
    }
    q->base->metrics.tokens++;
    report_add(q, s);
    if (s->state == SEQUENCE_PREFILL) {
        sequence_move(&q->table, s, SEQUENCE_DECODE);
        twins_release(&q->batcher, s); /* those that the plan had no room for */
    }
    finish = step_finish(q, s);
    if (PLANT(DRAFT_STOP_MISSED) && x->follows && finish == FINISH_STOP) {
        finish = FINISH_NONE;
    }
    if (finish != FINISH_NONE) {
        ending_finish(q, s, finish);
    }
}

/* Returns the last token of row i. */
static struct row_token last_of(const struct plan_result *r, uint32_t i)
{
    return (struct row_token){
        .id = r->tokens[i], .logprob = r->logprobs[i], .top = r->top[i]};
}

/* Returns the draft `id`, the j-th of row i that was accepted. */
static struct row_token draft_of(const struct plan_result *r, uint32_t i,
                                 uint32_t j, uint32_t id)
{
    uint32_t from = j + PLANT(DRAFT_LOGPROB_SHIFTED);

    from = from < DRAFTS_MAX ? from : j;
    return (struct row_token){.id = id,
                              .logprob = r->draft_logprobs[i][from],
                              .top = r->draft_top[i][from]};
}

/* Appends the tokens that row i of the result has for s: the accepted drafts,
 * and one more. */
static void take_tokens(struct sequences *q, const struct batch *t, uint32_t i,
                        struct sequence *s)
{
    const struct plan_row *row = &t->plan.rows[i];
    const uint32_t *drafts = &t->plan.tokens[row->token + 1];
    uint32_t n = draft_results_accepted(q, row, i);

    draft_results_take(q, row, i, s);
    for (uint32_t j = 0; j <= n && !is_over(s); j++) {
        struct row_token x = j < n ? draft_of(&q->result, i, j, drafts[j])
                                   : last_of(&q->result, i);

        x.follows = j > 0;
        take_token(q, s, &x);
        if (PLANT(DRAFT_TWICE) && j + 1 == n && !is_over(s)) {
            take_token(q, s, &x);
        }
    }
}

static bool is_damaged(const struct plan_result *r, uint32_t i)
{
    bool any = false;

    for (uint32_t j = 0; PLANT(ROW_FAILS_BATCH) && j < r->n_rows; j++) {
        any = any || r->outcomes[j] == ROW_NOT_FINITE;
    }
    return any || r->outcomes[i] == ROW_NOT_FINITE;
}

/* A row that waits is not read, because it continues from what the failed step
 * left.  A row that is cut off follows one that failed, so its sequence should
 * have ended or wait; if not, it lacks a token. */
static void take_row(struct sequences *q, const struct batch *t, uint32_t i,
                     struct sequence *s)
{
    const struct plan_row *row = &t->plan.rows[i];
    const struct plan_result *r = &q->result;

    if (is_over(s)) {
        /* Twins of its later rows must not use them. */
        if (r->status != ST_OK) {
            recompute_move(s, RECOMPUTE_WAITS);
        }
        return;
    }
    if (s->plan.recompute == RECOMPUTE_WAITS && !PLANT(SUCCESSOR_SURVIVES)) {
        return;
    }
    if ((r->status != ST_OK && !PLANT(FAILED_STEP_USED)) ||
        r->outcomes[i] == ROW_CUT_OFF) {
        recompute_failed(q, s);
    } else if (is_damaged(r, i)) {
        recompute_damaged(q, s, row);
    } else if (row->sample) {
        take_tokens(q, t, i, s);
    }
}

/* Returns whether the row computed what it was to compute, from what earlier
 * rows did. */
static bool is_good(const struct sequences *q, uint32_t i,
                    const struct sequence *s)
{
    return q->result.status == ST_OK && q->result.outcomes[i] == ROW_DONE &&
           s->plan.recompute != RECOMPUTE_WAITS && s->finish != FINISH_FAILED &&
           !stages_remove_sent(&s->stages);
}

/* Gives back what later rows of s, from `end` on, do not see.  The index has it
 * by now, if it is to. */
static void leave_windows(struct sequences *q, struct sequence *s, uint32_t end)
{

    /* A range that was removed, or a failure, may have taken it back. */
    if (end <= s->plan.n_planned && !windows_trim(&q->table, s, end)) {
        pool_violation(&q->pool, "window-page-not-given-back", POOL_WINDOWS,
                       s->number);
    }
}

static void row_back(struct sequences *q, const struct batch *t, uint32_t i)
{
    const struct plan_row *row = &t->plan.rows[i];
    struct sequence *s = t->owners[i], *surplus;
    bool kept = s->state == SEQUENCE_KEPT;
    uint32_t end = draft_results_settle(q, row, i, s);

    s->plan.pending -= row->sample ? 1 + row->n_drafts : 0;
    /* First, because the end of s removes it at the other stages. */
    reuse_result(&q->reuse, t, i, end, is_good(q, i, s));
    leave_windows(q, s, end);
    take_row(q, t, i, s);
    ending_plan_back(q, s);
    if (kept && (surplus = ranges_row_back(q, s)) != NULL) {
        ending_release(q, surplus);
    }
}

/* A twin samples from the logits of its source.  If the source continued from a
 * step that failed, these are garbage, although its own step succeeded: the
 * twin is computed again too. */
static void cut_twins_off(struct sequences *q, const struct batch *t)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        const struct plan_row *row = &t->plan.rows[i];
        const struct sequence *source =
            row->n_tokens == 0 ? t->owners[row->source] : NULL;

        if (source != NULL && (source->plan.recompute == RECOMPUTE_WAITS ||
                               source->finish == FINISH_FAILED)) {
            q->result.outcomes[i] = ROW_CUT_OFF;
        }
    }
}

void step_apply(struct sequences *q, const struct batch *t)
{
    q->report.stepped = true;
    if (q->result.status == ST_OK) {
        cut_twins_off(q, t);
    }
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        row_back(q, t, i);
    }
}

/* ---- results ---- */

/* The worker stops before it looks at the result: all sequences are dropped,
 * and no token of the result is taken.  The router moves them to other workers,
 * as after a crash. */
static void stop_lost(struct sequences *q, const struct plan *p)
{
    log_error("device-lost", "worker=%s step=%llu rows=%u text=\"%s\"",
              q->base->o.name, (unsigned long long)p->step, p->n_rows,
              q->result.error.text);
    q->base->lost = true;
    q->base->failed = true;
    base_stop(q->base);
}

bool step_poll(struct sequences *q, const struct plan *p)
{
    if (!engine_poll(q->base->engine, &q->result)) {
        return false;
    }
    FP(WORKER_RESULT);
    if (q->result.lost && !q->base->lost) {
        stop_lost(q, p);
    }
    return true;
}

static void result_back(struct sequences *q, const struct batch *t)
{
    results_note(q, t);
    suspend_learn(q, t);
    draft_results_learn(q, t);
    results_learn(q, t);
    step_apply(q, t);
}

void step_take_results(struct sequences *q)
{
    const struct batch *t;

    while ((t = batcher_here(&q->batcher)) != NULL && step_poll(q, &t->plan)) {
        result_back(q, t);
        batcher_return(&q->batcher);
    }
}

/* ---- plans ---- */

uint32_t step_n_planned(const struct sequences *q)
{
    return q->role.ops->n_planned(q->role.self);
}

const struct batch *step_oldest(const struct sequences *q)
{
    return q->role.ops->oldest(q->role.self);
}

uint64_t step_age_us(const struct sequences *q, int64_t now_us)
{
    const struct batch *t = step_oldest(q);

    return t != NULL && now_us > t->sent_us ? (uint64_t)(now_us - t->sent_us)
                                            : 0;
}

uint64_t step_ticks(const struct sequences *q)
{
    return engine_progress(q->base->engine) + q->n_results;
}

/* Fails a sequence whose account is broken; pool_violation() has logged it.
 * Releases kept ones that others have taken over. */
static void settle_batcher(struct sequences *q)
{
    struct sequence *s = q->batcher.stuck, *spent;

    if (s != NULL) {
        ending_fail(q, s, "the memory granted to it was not there");
    }
    while ((spent = q->batcher.spent.head) != NULL) {
        batcher_drop(&q->batcher, spent);
        ending_release(q, spent);
    }
}

static void refused_back(struct sequences *q, const struct batch *t)
{
    if (q->role.ops->refused != NULL) {
        q->role.ops->refused(q->role.self, t);
    }
    result_back(q, t);
}

void step_submit_plans(struct sequences *q)
{
    bool again = true;

    while (again) {
        const struct plan *p;
        bool stuck;

        suspend_turn(q);
        kept_turn(q);
        p = batcher_plan(&q->batcher);
        stuck = q->batcher.stuck != NULL;

        settle_batcher(q);
        if (p != NULL && (FP_FAILS(WORKER_PLAN) ||
                          engine_submit(q->base->engine, p) != ST_OK)) {
            /* The turn ends here: the engine would refuse the next plan too. */
            results_refuse(q, p);
            suspend_lost(q, p->step);
            refused_back(q, batcher_withdraw(&q->batcher));
            return;
        }
        if (p != NULL) {
            batcher_sent(&q->batcher, base_now_us(q->base));
            FP(WORKER_PLANNED);
        }
        /* A stuck sequence has left its line, so the next plan can differ. */
        again = p != NULL || stuck;
    }
}
