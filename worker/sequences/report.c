/* report.c - Report and StepOutput: the ledger, and the tokens that the
 * router has not acknowledged.
 *
 * One StepOutput a step.  Where no step runs, what is unacknowledged is said
 * again on the timer; a change (a cancel, an ending) goes out soon. */
#include <string.h>

#include "common/base/failpoint.h"
#include "worker/worker_state.h"

/* ---- rows ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How many of the tokens that s has to tell fit. */
static uint32_t room_for(const struct output *o, const struct sequence *s)
{
    uint32_t room = least(STEP_TOKENS_MAX - o->n_tokens, STEP_ROW_TOKENS_MAX);
    uint32_t width = sampling_width(&s->sampling);

    if (width > 0) {
        room = least(room, (STEP_LOGPROBS_MAX - o->n_logprobs) / width);
    }
    return least(room, s->n_generated - s->acked);
}

static void add_tokens(struct worker_core *w, const struct sequence *s,
                       uint32_t count)
{
    struct output *o = &w->output;
    uint32_t width = sampling_width(&s->sampling);

    o->width[o->n_rows] = width;
    o->has_width = o->has_width || width > 0;
    if (count == 0) {
        return;
    }
    paged_read(&w->table.slab, &s->tokens, s->n_prompt + s->acked,
               &o->tokens[o->n_tokens], count);
    o->n_tokens += count;
    if (width > 0) {
        logprobs_get(&w->table.rings, &s->logprobs, s->acked, count,
                     &o->logprobs[o->n_logprobs],
                     &o->top_tokens[o->n_top_tokens]);
        o->n_logprobs += count * width;
        o->n_top_tokens += count * (width - 1);
    }
}

/* One row of what is unacknowledged; the ending goes with the last token. */
static void add_row(struct worker_core *w, struct sequence *s, uint32_t count)
{
    struct output *o = &w->output;
    bool whole = s->acked + count == s->n_generated;

    add_tokens(w, s, count);
    o->grant[o->n_rows] = s->grant;
    o->first_index[o->n_rows] = s->acked;
    o->count[o->n_rows] = count;
    o->finish[o->n_rows] = whole ? (uint32_t)s->finish : (uint32_t)FINISH_NONE;
    o->state[o->n_rows] = (uint32_t)sequence_public_state(s);
    o->n_rows++;
    o->failed = o->failed || (whole && s->finish == FINISH_FAILED);
    if (whole && s->finish != FINISH_NONE) {
        s->told = true;
    } else {
        s->row_sent = true;
        if (s->acked + count > s->sent_running) {
            s->sent_running = s->acked + count;
        }
    }
}

/* Each once, from the head; those that were heard go to the tail, so that
 * what did not fit comes first in the next output.  Where the logprobs of one
 * find no room, another may have none. */
static void add_rows(struct worker_core *w)
{
    struct output *o = &w->output;
    uint32_t left = w->out.n;

    o->n_rows = o->n_tokens = o->n_logprobs = o->n_top_tokens = 0;
    o->has_width = o->failed = false;
    for (struct sequence *s = w->out.head, *next;
         left > 0 && o->n_rows < STEP_ROWS_MAX && o->n_tokens < STEP_TOKENS_MAX;
         left--, s = next) {
        uint32_t count = room_for(o, s);

        next = list_next(s, LIST_OUT);
        if (count > 0 || s->acked == s->n_generated) {
            add_row(w, s, count);
            list_push(&w->out, s);
        }
    }
}

/* ---- messages ---- */

/* Ticks are those of this very moment. */
static void fill_engine(const struct worker_core *w, int64_t now_us,
                        Sluice__V1__EngineState *out)
{
    sluice__v1__engine_state__init(out);
    out->ticks = step_ticks(w);
    out->n_planned = step_planned(w);
    out->plan_age_us = step_age_us(w, now_us);
}

static enum status send_output(struct worker_core *w, struct peer *p,
                               Sluice__V1__Ledger *ledger,
                               Sluice__V1__EngineState *engine)
{
    struct output *o = &w->output;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;

    add_rows(w);
    m.step = w->step;
    m.ledger = ledger;
    m.engine = engine;
    m.n_grant = m.n_first_index = m.n_count = o->n_rows;
    m.n_finish = m.n_state = o->n_rows;
    m.n_tokens = o->n_tokens;
    m.grant = o->grant;
    m.first_index = o->first_index;
    m.count = o->count;
    m.finish = o->finish;
    m.state = o->state;
    m.tokens = o->tokens;
    m.n_width = o->has_width ? o->n_rows : 0;
    m.n_logprobs = o->n_logprobs;
    m.n_top_tokens = o->n_top_tokens;
    m.width = o->width;
    m.logprobs = o->logprobs;
    m.top_tokens = o->top_tokens;
    m.has_device_us = m.has_n_prompt_tokens = w->stepped;
    m.device_us = w->device_us;
    m.n_prompt_tokens = w->n_prompt_tokens;
    m.n_stage_us = w->stepped ? w->leader.n_stage_us : 0;
    m.stage_us = w->leader.stage_us;
    m.has_failure = o->failed && w->failure[0] != '\0';
    m.failure = wire_text(w->failure);
    if (FP_FAILS(WORKER_OUTPUT)) {
        return ST_RESOURCE_EXHAUSTED;
    }
    return peer_oneway(p, METHOD_REGISTRY_STEP_OUTPUT, &m.base);
}

static enum status send_report(struct peer *p, Sluice__V1__Ledger *ledger,
                               Sluice__V1__EngineState *engine)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;

    m.ledger = ledger;
    m.engine = engine;
    return peer_oneway(p, METHOD_REGISTRY_REPORT, &m.base);
}

static int64_t due_us(const struct worker_core *w)
{
    return w->reported_us + (w->changed ? REPORT_CHANGE_US : REPORT_US);
}

int64_t report_send(struct worker_core *w, int64_t now_us)
{
    struct peer *p = worker_peer(w);
    struct ledger_message ledger;
    Sluice__V1__EngineState engine;
    enum status status;

    if (p == NULL) {
        w->stepped = false;
        return NODE_IDLE;
    }
    if (!w->stepped && now_us < due_us(w)) {
        return due_us(w);
    }
    ledger_fill(&w->ledger, &w->pool, &w->table, &ledger);
    fill_engine(w, now_us, &engine);
    status = w->stepped || w->out.n > 0
                 ? send_output(w, p, &ledger.ledger, &engine)
                 : send_report(p, &ledger.ledger, &engine);
    w->reported_us = now_us;
    w->stepped = false;
    w->n_prompt_tokens = 0;
    /* More than one output holds, or no room in the link: soon again. */
    w->changed = status != ST_OK || w->out.n > w->output.n_rows;
    return due_us(w);
}
