#include "worker/sequences/report.h"

#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/minmax.h"
#include "proto/registry.pb-c.h"
#include "worker/sequences/step.h"
#include "worker/sequences/tier.h"

/* ---- rows ---- */

/* Returns how many of the unacknowledged tokens of s fit. */
static uint32_t room_for(const struct output_columns *o,
                         const struct sequence *s)
{
    uint32_t room = min_u32(STEP_TOKENS_MAX - o->n_tokens, STEP_ROW_TOKENS_MAX);
    uint32_t width = sampling_width(&s->portable.sampling);

    if (width > 0) {
        room = min_u32(room, (STEP_LOGPROBS_MAX - o->n_logprobs) / width);
    }
    return min_u32(room, s->portable.n_generated - s->portable.acked);
}

static void add_tokens(struct sequences *q, const struct sequence *s,
                       uint32_t count)
{
    struct output_columns *o = &q->output;
    uint32_t width = sampling_width(&s->portable.sampling);

    o->width[o->n_rows] = width;
    o->has_width = o->has_width || width > 0;
    if (count == 0) {
        return;
    }
    paged_read(&q->table.slab, &s->portable.tokens,
               s->portable.n_prompt + s->portable.acked,
               &o->tokens[o->n_tokens], count);
    o->n_tokens += count;
    if (width > 0) {
        logprobs_get(&q->table.rings, &s->portable.logprobs, s->portable.acked,
                     count, &o->logprobs[o->n_logprobs],
                     &o->top_tokens[o->n_top_tokens]);
        o->n_logprobs += count * width;
        o->n_top_tokens += count * (width - 1);
    }
}

/* A sequence that is forgotten may be queued with its last row still. */
static void note_end(struct sequence *s)
{
    if (s->report.state == REPORT_OPEN) {
        report_move(s, REPORT_END_SENT);
    } else if (s->report.state == REPORT_FORGOTTEN) {
        report_move(s, REPORT_FORGOTTEN_END);
    }
}

/* Adds a row of unacknowledged tokens; the ending goes with the last token. */
static void add_row(struct sequences *q, struct sequence *s, uint32_t count)
{
    struct output_columns *o = &q->output;
    bool whole = s->portable.acked + count == s->portable.n_generated;

    add_tokens(q, s, count);
    o->grant[o->n_rows] = s->grant;
    o->first_index[o->n_rows] = s->portable.acked;
    o->count[o->n_rows] = count;
    o->finish[o->n_rows] = whole ? (uint32_t)s->finish : (uint32_t)FINISH_NONE;
    o->state[o->n_rows] = (uint32_t)sequence_public_state(s);
    o->reused[o->n_rows] = reuse_positions(&s->reuse);
    o->has_reused = o->has_reused || reuse_positions(&s->reuse) > 0;
    o->n_rows++;
    if (whole && s->finish == FINISH_FAILED) {
        o->failure = s->report.failure;
    }
    if (whole && s->finish != FINISH_NONE) {
        note_end(s);
    } else if (s->portable.acked + count >= s->report.n_running) {
        s->report.n_running = s->portable.acked + count + 1;
    }
}

/* An output has one reason for all of its rows that failed.  A sequence with
 * another one waits for the next output, at the head. */
static bool reason_fits(const struct output_columns *o,
                        const struct sequence *s)
{
    return o->failure == NULL || s->finish != FINISH_FAILED;
}

/* Visits each sequence once, from the head.  Those that got a row go to the
 * tail, so that the others come first in the next output.  A sequence whose
 * logprobs do not fit is skipped, because a later one may have none. */
static void add_rows(struct sequences *q)
{
    struct output_columns *o = &q->output;
    uint32_t left = q->out.n;

    o->n_rows = o->n_tokens = o->n_logprobs = o->n_top_tokens = 0;
    o->has_width = o->has_reused = false;
    o->failure = NULL;
    for (struct sequence *s = q->out.head, *next;
         left > 0 && o->n_rows < STEP_ROWS_MAX && o->n_tokens < STEP_TOKENS_MAX;
         left--, s = next) {
        uint32_t count = room_for(o, s);

        next = sequence_next(s, LIST_OUT);
        if ((count > 0 || s->portable.acked == s->portable.n_generated) &&
            reason_fits(o, s)) {
            add_row(q, s, count);
            sequence_push(&q->out, s);
        }
    }
}

void report_add(struct sequences *q, struct sequence *s)
{
    if (s->grant != 0 && !report_is_forgotten(&s->report)) {
        sequence_push(&q->out, s);
    }
}

/* ---- what the router has ---- */

void report_forget(struct sequence *s)
{
    if (s->report.state == REPORT_OPEN) {
        report_move(s, REPORT_FORGOTTEN);
    } else if (s->report.state == REPORT_END_SENT) {
        report_move(s, REPORT_FORGOTTEN_END);
    }
}

void report_restart(struct sequence *s)
{
    if (s->report.state != REPORT_OPEN) {
        report_move(s, REPORT_OPEN);
    }
    s->report.n_running = 0;
}

bool report_end_is_known(const struct sequence *s, uint32_t index)
{
    bool end_sent = s->report.state == REPORT_END_SENT ||
                    s->report.state == REPORT_FORGOTTEN_END;
    bool could_be_old = s->report.n_running > s->portable.n_generated;

    return end_sent && index >= s->portable.n_generated && !could_be_old;
}

/* ---- messages ---- */

/* Reads the ticks now, so that the router never sees progress that is older
 * than the report. */
static void fill_engine(const struct sequences *q, int64_t now_us,
                        Sluice__V1__EngineState *out)
{
    sluice__v1__engine_state__init(out);
    out->ticks = step_ticks(q);
    out->n_planned = step_n_planned(q);
    out->plan_age_us = step_age_us(q, now_us);
}

static Sluice__V1__DraftCounts draft_counts(const struct sequences *q)
{
    const struct worker_metrics *m = &q->base->metrics;
    Sluice__V1__DraftCounts c = SLUICE__V1__DRAFT_COUNTS__INIT;

    c.rows = m->draft_rows;
    c.verified = m->drafts_mtp + m->drafts_ngram;
    c.accepted = m->accepted_mtp + m->accepted_ngram;
    return c;
}

static enum status send_output(struct sequences *q, struct peer *p,
                               Sluice__V1__Ledger *ledger,
                               Sluice__V1__EngineState *engine)
{
    struct output_columns *o = &q->output;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    Sluice__V1__DraftCounts drafts = draft_counts(q);

    add_rows(q);
    m.step = q->report.step;
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
    m.n_reused = o->has_reused ? o->n_rows : 0;
    m.reused = o->reused;
    m.width = o->width;
    m.logprobs = o->logprobs;
    m.top_tokens = o->top_tokens;
    m.has_device_us = m.has_n_prompt_tokens = q->report.stepped;
    m.device_us = q->report.device_us;
    m.n_prompt_tokens = q->report.n_prompt_tokens;
    m.n_stage_us = q->report.stepped ? q->report.n_stage_us : 0;
    m.stage_us = q->report.stage_us;
    m.drafts = q->base->o.drafting.most > 0 ? &drafts : NULL;
    m.has_failure = o->failure != NULL;
    m.failure = wire_text(m.has_failure ? o->failure : "");
    /* As if the link had no room: the rows are sent again later. */
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

static int64_t due_us(const struct sequences *q)
{
    return q->report.sent_us +
           (q->report.changed ? REPORT_CHANGE_US : REPORT_US);
}

int64_t report_send(struct sequences *q, int64_t now_us)
{
    struct peer *p = base_peer(q->base);
    struct ledger_message ledger;
    Sluice__V1__EngineState engine;
    Sluice__V1__HostTier tier;
    enum status status;

    /* Without a session nothing is due; the next one starts with a report. */
    if (p == NULL) {
        q->report.stepped = false;
        return NODE_IDLE;
    }
    if (!q->report.stepped && now_us < due_us(q)) {
        return due_us(q);
    }
    ledger_fill(&q->ledger, &q->pool, &q->table, &ledger);
    ledger.ledger.host = tier_message(q, &tier) ? &tier : NULL;
    fill_engine(q, now_us, &engine);
    /* A StepOutput has the ledger too, so no Report is needed beside it. */
    status = q->report.stepped || q->out.n > 0
                 ? send_output(q, p, &ledger.ledger, &engine)
                 : send_report(p, &ledger.ledger, &engine);
    q->report.sent_us = now_us;
    q->report.stepped = false;
    q->report.n_prompt_tokens = 0;
    /* Try again soon if rows were left over or the link had no room. */
    q->report.changed = status != ST_OK || q->out.n > q->output.n_rows;
    return due_us(q);
}
