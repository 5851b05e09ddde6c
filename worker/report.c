/* report.c - Report and StepOutput: the ledger, and the tokens that the
 * router has not acknowledged.
 *
 * One StepOutput a step.  Where no step runs, what is unacknowledged is said
 * again on the timer; a change (a cancel, an ending) goes out soon. */
#include <string.h>

#include "worker/core_state.h"

/* ---- rows ---- */

static void add_tokens(struct worker_core *w, const struct sequence *s,
                       uint32_t count)
{
    struct output *o = &w->output;

    if (count > 0) {
        paged_read(&w->table.slab, &s->tokens, s->n_prompt + s->acked,
                   &o->tokens[o->n_tokens], count);
    }
    o->n_tokens += count;
}

/* One row of what is unacknowledged; the ending goes with the last token. */
static void add_row(struct worker_core *w, struct sequence *s)
{
    struct output *o = &w->output;
    uint32_t count = s->n_generated - s->acked;
    uint32_t room = STEP_TOKENS_MAX - o->n_tokens;
    bool whole;

    count = count < STEP_ROW_TOKENS_MAX ? count : STEP_ROW_TOKENS_MAX;
    count = count < room ? count : room;
    whole = s->acked + count == s->n_generated;
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
 * what did not fit comes first in the next output. */
static void add_rows(struct worker_core *w)
{
    struct output *o = &w->output;
    uint32_t left = w->out.n;

    o->n_rows = o->n_tokens = 0;
    o->failed = false;
    for (;
         left > 0 && o->n_rows < STEP_ROWS_MAX && o->n_tokens < STEP_TOKENS_MAX;
         left--) {
        struct sequence *s = w->out.head;

        add_row(w, s);
        list_push(&w->out, s);
    }
}

/* ---- messages ---- */

static enum status send_output(struct worker_core *w, struct peer *p,
                               Sluice__V1__Ledger *ledger)
{
    struct output *o = &w->output;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;

    add_rows(w);
    m.step = w->step;
    m.ledger = ledger;
    m.n_grant = m.n_first_index = m.n_count = o->n_rows;
    m.n_finish = m.n_state = o->n_rows;
    m.n_tokens = o->n_tokens;
    m.grant = o->grant;
    m.first_index = o->first_index;
    m.count = o->count;
    m.finish = o->finish;
    m.state = o->state;
    m.tokens = o->tokens;
    m.has_device_us = m.has_n_prompt_tokens = w->stepped;
    m.device_us = w->device_us;
    m.n_prompt_tokens = w->n_prompt_tokens;
    m.has_failure = o->failed && w->failure[0] != '\0';
    m.failure = wire_text(w->failure);
    return peer_oneway(p, METHOD_REGISTRY_STEP_OUTPUT, &m.base);
}

static enum status send_report(struct peer *p, Sluice__V1__Ledger *ledger)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;

    m.ledger = ledger;
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
    enum status status;

    if (p == NULL) {
        w->stepped = false;
        return NODE_IDLE;
    }
    if (!w->stepped && now_us < due_us(w)) {
        return due_us(w);
    }
    ledger_fill(&w->ledger, &w->pool, &w->table, &ledger);
    status = w->stepped || w->out.n > 0 ? send_output(w, p, &ledger.ledger)
                                        : send_report(p, &ledger.ledger);
    w->reported_us = now_us;
    w->stepped = false;
    w->n_prompt_tokens = 0;
    /* More than one output holds, or no room in the link: soon again. */
    w->changed = status != ST_OK || w->out.n > w->output.n_rows;
    return due_us(w);
}
