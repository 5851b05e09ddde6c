/* step.c - plans to the engine, results back into the sequences. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/stages/leader.h"
#include "worker/worker_state.h"

static bool is_eos(const struct worker_core *w, uint32_t id)
{
    for (uint32_t i = 0; i < w->o.n_eos; i++) {
        if (w->o.eos[i] == id) {
            return true;
        }
    }
    return false;
}

static bool ends_it(const struct worker_core *w, const struct sequence *s,
                    uint32_t id)
{
    return sampling_stops(&s->sampling, id) ||
           (!s->sampling.ignore_eos && is_eos(w, id));
}

/* Stop is asked before length: an end token that is also the last one
 * allowed ends with FINISH_STOP. */
enum sequence_finish step_finish(const struct worker_core *w,
                                 const struct sequence *s)
{
    uint32_t last;

    if (s->n_generated == 0) {
        return FINISH_NONE;
    }
    last = paged_get(&w->table.slab, &s->tokens, sequence_known(s) - 1);
    if (ends_it(w, s, last) && !(PLANT(STOP_MISSED) && s->n_generated > 9)) {
        return FINISH_STOP;
    }
    return s->n_generated >= s->max_tokens ? FINISH_LENGTH : FINISH_NONE;
}

/* Ended while the plan ran: what it computed is nobody's. */
static bool is_over(const struct sequence *s)
{
    return s->state != SEQUENCE_PREFILL && s->state != SEQUENCE_DECODE;
}

/* The token that row i of the result chose for s. */
static void take_token(struct worker_core *w, struct sequence *s, uint32_t i)
{
    const struct plan_result *r = &w->result;
    enum sequence_finish finish;

    paged_write(&w->table.slab, &s->tokens, sequence_known(s), &r->tokens[i],
                1);
    if (s->sampling.logprobs) {
        logprobs_put(&w->table.rings, &s->logprobs, r->logprobs[i], r->top[i]);
    }
    s->n_generated++;
    w->metrics.tokens++;
    worker_tell(w, s);
    if (s->state == SEQUENCE_PREFILL) {
        sequence_move(&w->table, s, SEQUENCE_DECODE);
    }
    finish = step_finish(w, s);
    if (finish != FINISH_NONE) {
        worker_end(w, s, finish);
    }
}

static void row_back(struct worker_core *w, const struct plan *p, uint32_t i,
                     struct sequence *s)
{
    const struct plan_result *r = &w->result;

    s->pending -= p->rows[i].sample ? 1 : 0;
    if (!is_over(s)) {
        if (r->status != ST_OK && !PLANT(FAILED_STEP_USED)) {
            worker_end(w, s, FINISH_FAILED);
        } else if (p->rows[i].sample) {
            take_token(w, s, i);
        }
    }
    worker_plan_back(w, s);
}

static enum status check_id(struct plan_result *r, const char *what,
                            uint32_t id, uint32_t vocab)
{
    return id < vocab ? ST_OK
                      : error_set(&r->error, ST_INTERNAL,
                                  "the engine %s id %u, the vocabulary is %u",
                                  what, id, vocab);
}

/* Finite, and written so that what is not a number fails too. */
static enum status check_logprob(struct plan_result *r, float logprob)
{
    return logprob <= 0 && logprob >= -FLT_MAX
               ? ST_OK
               : error_set(&r->error, ST_INTERNAL,
                           "the engine gave a logprob of %g", (double)logprob);
}

/* What row i chose, as s had asked. */
static enum status check_choice(struct worker_core *w, const struct sampling *s,
                                uint32_t i)
{
    struct plan_result *r = &w->result;
    enum status st = check_id(r, "sampled", r->tokens[i], w->o.vocab);

    if (st != ST_OK || !s->logprobs) {
        return st;
    }
    st = check_logprob(r, r->logprobs[i]);
    for (uint32_t j = 0; j < s->n_top_logprobs && st == ST_OK; j++) {
        st = check_id(r, "ranked", r->top[i][j].token, w->o.vocab);
        st = st == ST_OK ? check_logprob(r, r->top[i][j].logprob) : st;
    }
    return st;
}

void step_check_answer(struct worker_core *w, const struct plan *p)
{
    struct plan_result *r = &w->result;

    if (r->status != ST_OK) {
        return;
    }
    if (r->step != p->step || r->n_rows != p->n_rows) {
        r->status = error_set(&r->error, ST_INTERNAL,
                              "the engine answered step %llu with %u rows for "
                              "step %llu with %u",
                              (unsigned long long)r->step, r->n_rows,
                              (unsigned long long)p->step, p->n_rows);
    } else if ((w->o.layer_end < w->o.n_layers) != (r->hidden != NULL)) {
        r->status = error_set(&r->error, ST_INTERNAL,
                              "the engine gave %s hidden states for layers "
                              "%u-%u of %u",
                              r->hidden != NULL ? "" : "no", w->o.layer_begin,
                              w->o.layer_end, w->o.n_layers);
    }
}

void step_check_choices(struct worker_core *w, const struct plan *p)
{
    struct plan_result *r = &w->result;

    for (uint32_t i = 0; i < p->n_rows && r->status == ST_OK; i++) {
        if (p->rows[i].sample) {
            r->status = check_choice(w, p->rows[i].sampling, i);
        }
    }
}

static void count(struct worker_core *w, const struct batch *t)
{
    if (w->result.status != ST_OK) {
        log_error("step-failed", "step=%llu rows=%u status=%s origin=\"%s\"",
                  (unsigned long long)t->plan.step, t->plan.n_rows,
                  status_name(w->result.status), w->result.error.text);
        memcpy(w->failure, w->result.error.text, sizeof w->failure);
        w->metrics.steps_failed++;
    }
    w->metrics.steps++;
    w->metrics.prompt_tokens += t->n_prompt_tokens;
    w->step = t->plan.step;
    w->device_us = w->result.device_us;
    w->n_prompt_tokens += t->n_prompt_tokens;
    w->stepped = !assembly_obeys(w); /* the leader tells of steps */
    w->changed = true;
}

void step_note(struct worker_core *w, const struct batch *t)
{
    w->n_results++;
    step_check_answer(w, &t->plan);
    if (w->result.hidden == NULL) { /* else no row has a token */
        step_check_choices(w, &t->plan);
    }
    count(w, t);
}

static void rows_back(struct worker_core *w, const struct batch *t)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        row_back(w, &t->plan, i, t->who[i]);
    }
}

void step_round(struct worker_core *w, const struct batch *t)
{
    count(w, t);
    rows_back(w, t);
}

/* w->result is of this plan. */
static void result_back(struct worker_core *w, const struct batch *t)
{
    step_note(w, t);
    rows_back(w, t);
}

/* All sequences are dropped before the result is looked at: no token of it is
 * taken, and nothing is said of them.  They go on elsewhere, as after the
 * death that this is. */
void step_device_lost(struct worker_core *w, const struct plan *p)
{
    log_error("device-lost", "worker=%s step=%llu rows=%u text=\"%s\"",
              w->o.name, (unsigned long long)p->step, p->n_rows,
              w->result.error.text);
    w->lost = true;
    w->failed = true;
    worker_stop(w);
}

void step_results(struct worker_core *w)
{
    const struct batch *t;

    if (assembly_obeys(w)) {
        stage_results(w);
        return;
    }
    while ((t = batcher_here(&w->batcher)) != NULL &&
           engine_poll(w->engine, &w->result)) {
        FP(WORKER_RESULT);
        if (w->result.lost && !w->lost) {
            step_device_lost(w, &t->plan);
        }
        if (assembly_leads(w)) {
            leader_pass(w, t);
            continue;
        }
        result_back(w, t);
        batcher_return(&w->batcher);
    }
}

uint32_t step_planned(const struct worker_core *w)
{
    return assembly_obeys(w) ? stage_planned(w) : w->batcher.here;
}

const struct batch *step_oldest(const struct worker_core *w)
{
    return assembly_obeys(w) ? stage_oldest(w) : batcher_here(&w->batcher);
}

uint64_t step_age_us(const struct worker_core *w, int64_t now_us)
{
    const struct batch *t = step_oldest(w);

    return t != NULL && now_us > t->sent_us ? (uint64_t)(now_us - t->sent_us)
                                            : 0;
}

uint64_t step_ticks(const struct worker_core *w)
{
    return engine_progress(w->engine) + w->n_results;
}

/* Its account is broken, which pool_violation() has logged. */
static void fail_stuck(struct worker_core *w)
{
    struct sequence *s = w->batcher.stuck;

    if (s != NULL) {
        snprintf(w->failure, sizeof w->failure,
                 "the memory promised to the sequence was not there");
        worker_end(w, s, FINISH_FAILED);
    }
}

/* It has had fewer plans than its depth, so it cannot go on: the plan has
 * failed before it ran. */
void step_refused(struct worker_core *w, const struct plan *p)
{
    w->result.step = p->step;
    w->result.device_us = 0;
    w->result.status =
        error_set(&w->result.error, ST_INTERNAL, "the engine refused a plan");
}

void step_plans(struct worker_core *w)
{
    bool again = true;

    if (assembly_obeys(w)) {
        stage_plans(w);
        return;
    }
    while (again) {
        const struct plan *p = batcher_plan(&w->batcher);
        bool stuck = w->batcher.stuck != NULL;

        fail_stuck(w);
        if (p != NULL &&
            (FP_FAILS(WORKER_PLAN) || engine_submit(w->engine, p) != ST_OK)) {
            step_refused(w, p);
            result_back(w, batcher_withdraw(&w->batcher));
            return;
        }
        if (p != NULL) {
            batcher_sent(&w->batcher, w->io->now_us(w->io));
            FP(WORKER_PLANNED);
        }
        again = p != NULL || stuck;
    }
}
