#include "worker/sequences/results.h"

#include <float.h>
#include <string.h>

#include "common/base/log.h"
#include "worker/sequences/draft_results.h"

/* ---- checks ---- */

static bool is_eos(const struct sequences *q, uint32_t id)
{
    for (uint32_t i = 0; i < q->base->o.n_eos; i++) {
        if (q->base->o.eos[i] == id) {
            return true;
        }
    }
    return false;
}

bool results_ends(const struct sequences *q, const struct sampling *s,
                  uint32_t id)
{
    return sampling_stops(s, id) || (!s->ignore_eos && is_eos(q, id));
}

static enum status check_id(struct plan_result *r, const char *what,
                            uint32_t id, uint32_t vocab)
{
    return id < vocab ? ST_OK
                      : error_set(&r->error, ST_INTERNAL,
                                  "the engine %s id %u, which is not below the "
                                  "vocabulary of %u",
                                  what, id, vocab);
}

/* The comparison is written so that it fails for NaN too. */
static enum status check_logprob(struct plan_result *r, float logprob)
{
    return logprob <= 0 && logprob >= -FLT_MAX
               ? ST_OK
               : error_set(&r->error, ST_INTERNAL,
                           "the engine returned a logprob of %g",
                           (double)logprob);
}

/* Checks the logprobs of a token, if s requests them. */
static enum status check_logprobs(struct sequences *q, const struct sampling *s,
                                  float logprob,
                                  const struct token_logprob *top)
{
    struct plan_result *r = &q->result;
    enum status st;

    if (!s->logprobs) {
        return ST_OK;
    }
    st = check_logprob(r, logprob);
    for (uint32_t j = 0; j < s->n_top_logprobs && st == ST_OK; j++) {
        st = check_id(r, "ranked", top[j].token, q->base->o.vocab);
        st = st == ST_OK ? check_logprob(r, top[j].logprob) : st;
    }
    return st;
}

/* Checks that accepted draft j of row i does not end its sequence, because a
 * token follows it. */
static enum status check_accepted(struct sequences *q, const struct plan *p,
                                  uint32_t i, uint32_t j)
{
    const struct plan_row *row = &p->rows[i];
    struct plan_result *r = &q->result;
    uint32_t id = p->tokens[row->token + 1 + j];

    if (results_ends(q, row->sampling, id)) {
        return error_set(&r->error, ST_INTERNAL,
                         "the engine sampled tokens behind id %u, which ends "
                         "the sequence of row %u",
                         id, i);
    }
    return check_logprobs(q, row->sampling, r->draft_logprobs[i][j],
                          r->draft_top[i][j]);
}

/* Checks the tokens of row i, and the logprobs that it requests. */
static enum status check_choice(struct sequences *q, const struct plan *p,
                                uint32_t i)
{
    const struct plan_row *row = &p->rows[i];
    struct plan_result *r = &q->result;
    enum status st = check_id(r, "sampled", r->tokens[i], q->base->o.vocab);

    st = st == ST_OK ? draft_results_check(q, p, i) : st;
    for (uint32_t j = 0;
         st == ST_OK && row->n_drafts > 0 && j < r->n_accepted[i]; j++) {
        st = check_accepted(q, p, i, j);
    }
    return st == ST_OK
               ? check_logprobs(q, row->sampling, r->logprobs[i], r->top[i])
               : st;
}

void results_check_answer(struct sequences *q, const struct plan *p)
{
    struct plan_result *r = &q->result;

    if (r->status != ST_OK) {
        return;
    }
    /* A result of another step would give its tokens to the wrong sequences. */
    if (r->step != p->step || r->n_rows != p->n_rows) {
        r->status = error_set(&r->error, ST_INTERNAL,
                              "the engine returned step %llu with %u rows for "
                              "step %llu with %u rows",
                              (unsigned long long)r->step, r->n_rows,
                              (unsigned long long)p->step, p->n_rows);
    } else if ((q->base->o.layer_end < q->base->o.n_layers) !=
               (r->hidden != NULL)) {
        r->status =
            error_set(&r->error, ST_INTERNAL,
                      "the engine returned %s hidden states for layers "
                      "%u-%u of %u",
                      r->hidden != NULL ? "" : "no", q->base->o.layer_begin,
                      q->base->o.layer_end, q->base->o.n_layers);
    }
}

/* Only a row that samples has logits, and only a chained one can be cut off. */
static enum status check_outcome(struct plan_result *r,
                                 const struct plan_row *row, uint32_t i)
{
    uint8_t outcome = r->outcomes[i];

    if (outcome == ROW_DONE || (outcome == ROW_NOT_FINITE && row->sample) ||
        (outcome == ROW_CUT_OFF && row->chained)) {
        return ST_OK;
    }
    return error_set(&r->error, ST_INTERNAL,
                     "the engine returned outcome %u for row %u", outcome, i);
}

void results_check_choices(struct sequences *q, const struct plan *p)
{
    struct plan_result *r = &q->result;

    for (uint32_t i = 0; i < p->n_rows && r->status == ST_OK; i++) {
        const struct plan_row *row = &p->rows[i];

        r->status = check_outcome(r, row, i);
        if (r->status == ST_OK && r->outcomes[i] == ROW_DONE && row->sample) {
            r->status = check_choice(q, p, i);
        }
    }
}

static void count_step(struct worker_steps *m, const struct sequences *q,
                       const struct batch *t)
{
    uint32_t n_prefill = 0, n_twins = 0, n_tokens = 0;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        const struct plan_row *row = &t->plan.rows[i];

        n_twins += row->n_tokens == 0;
        n_prefill += row->n_tokens > 0 && row->kind == ROW_PROMPT;
        n_tokens += row->n_tokens;
    }
    metric_time(&m->step, q->result.device_us);
    metric_size(&m->step_prefill_rows, n_prefill);
    metric_size(&m->step_decode_rows, t->plan.n_rows - n_prefill - n_twins);
    metric_size(&m->step_tokens, n_tokens);
}

void results_count(struct sequences *q, const struct batch *t)
{
    if (q->result.status != ST_OK) {
        log_error("step-failed", "step=%llu rows=%u status=%s origin=\"%s\"",
                  (unsigned long long)t->plan.step, t->plan.n_rows,
                  status_name(q->result.status), q->result.error.text);
        q->base->metrics.steps_failed++;
    } else {
        count_step(&q->base->steps, q, t);
    }
    q->base->metrics.steps++;
    q->base->metrics.prompt_tokens += t->n_prompt_tokens;
    /* A refused plan comes back before those that are in flight. */
    if (t->plan.step > q->report.step) {
        q->report.step = t->plan.step;
    }
    q->report.device_us = q->result.device_us;
    q->report.n_prompt_tokens += t->n_prompt_tokens;
    q->report.changed = true;
}

void results_learn(struct sequences *q, const struct batch *t)
{
    if (q->result.status == ST_OK) {
        batcher_learn(&q->batcher, t, q->result.device_us);
    }
}

void results_note(struct sequences *q, const struct batch *t)
{
    q->n_results++;
    results_check_answer(q, &t->plan);
    if (q->result.hidden == NULL) { /* else the last stage samples */
        results_check_choices(q, &t->plan);
    }
    results_count(q, t);
}

/* The engine has fewer plans than its depth, so waiting would not help: the
 * plan fails before it runs. */
void results_refuse(struct sequences *q, const struct plan *p)
{
    q->result.step = p->step;
    q->result.device_us = 0;
    q->result.status =
        error_set(&q->result.error, ST_INTERNAL, "the engine refused a plan");
}
