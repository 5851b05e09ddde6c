/* recv_step_output.c - One step of a worker: tokens by index, ends, and the
 * ledger.
 *
 * The whole message is checked before any part of it is used.  A worker with an
 * invalid last row therefore gives no client a token from its first row. */
#include <inttypes.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/fleet/ledgers.h"
#include "router/fleet/liveness.h"
#include "router/replicas/place.h"
#include "router/requests/choice_life.h"
#include "router/requests/held_check.h"
#include "router/requests/logprob_columns.h"
#include "router/requests/progress.h"
#include "router/requests/removal.h"
#include "router/requests/request_record.h"
#include "router/requests/stops.h"
#include "router/requests/stream.h"
#include "router/schedule/claims.h"
#include "router/schedule/policy.h"
#include "router/schedule/predict.h"

#define FORGET UINT32_MAX

typedef Sluice__V1__StepOutputMessage step_message;

/* One row, taken out of the columns of the message. */
struct row {
    uint64_t grant;
    uint32_t first, count, finish, state, width, reused;
    const uint32_t *tokens;     /* [count] */
    const float *logprobs;      /* [count, width] */
    const uint32_t *top_tokens; /* [count, width - 1] */
};

/* Sums over the rows before this one. */
struct walk {
    size_t n_rows, n_tokens, n_logprobs, n_top_tokens;
};

/* Takes the next row out of the columns, which have been checked.  Returns
 * false after the last. */
static bool next_row(const step_message *m, struct walk *at, struct row *row)
{
    size_t i = at->n_rows;

    if (i == m->n_grant) {
        return false;
    }
    *row = (struct row){.grant = m->grant[i],
                        .first = m->first_index[i],
                        .count = m->count[i],
                        .finish = m->finish[i],
                        .state = m->state[i],
                        .reused = m->n_reused == 0 ? 0 : m->reused[i],
                        .width = logprob_columns_width(m, i)};
    at->n_rows++;
    if (row->count == 0) {
        return true;
    }
    row->tokens = m->tokens + at->n_tokens;
    at->n_tokens += row->count;
    if (row->width > 0) {
        row->logprobs = m->logprobs + at->n_logprobs;
        at->n_logprobs += (size_t)row->count * row->width;
    }
    if (row->width > 1) {
        row->top_tokens = m->top_tokens + at->n_top_tokens;
        at->n_top_tokens += (size_t)row->count * (row->width - 1);
    }
    return true;
}

static enum status check_columns(const step_message *m, struct error *e)
{
    size_t n = m->n_grant;
    uint64_t sum = 0;

    if (n > STEP_ROWS_MAX || m->n_tokens > STEP_TOKENS_MAX) {
        return error_set(e, ST_DATA_LOSS,
                         "StepOutput has %zu rows and %zu tokens, at most %d "
                         "and %d are allowed",
                         n, m->n_tokens, STEP_ROWS_MAX, STEP_TOKENS_MAX);
    }
    if (m->n_first_index != n || m->n_count != n || m->n_finish != n ||
        m->n_state != n || (m->n_reused != n && m->n_reused != 0)) {
        return error_set(e, ST_DATA_LOSS,
                         "the columns of StepOutput differ in length");
    }
    for (size_t i = 0; i < n; i++) {
        sum += m->count[i];
    }
    if (sum != m->n_tokens) {
        return error_set(e, ST_DATA_LOSS,
                         "the rows of StepOutput add up to %" PRIu64
                         " tokens, but it holds %zu",
                         sum, m->n_tokens);
    }
    return ST_OK;
}

static enum status check_tokens(const struct worker *w, const step_message *m,
                                struct error *e)
{
    for (size_t i = 0; i < m->n_tokens; i++) {
        if (m->tokens[i] >= w->shard.vocab) {
            return error_set(e, ST_DATA_LOSS,
                             "token %" PRIu32
                             " is outside the vocabulary of %" PRIu32 " tokens",
                             m->tokens[i], w->shard.vocab);
        }
    }
    return ST_OK;
}

/* A twin computes no position of its prompt; others compute the last one. */
static enum status check_reused(const struct choice *choice,
                                const struct row *row, struct error *e)
{
    uint64_t n = (uint64_t)choice->request->prompt.n + row->first + row->count;

    if (row->reused > n) {
        return error_set(e, ST_DATA_LOSS,
                         "grant %" PRIu64 ": %" PRIu32
                         " positions are reused of %" PRIu64,
                         row->grant, row->reused, n);
    }
    return ST_OK;
}

static enum status check_width(const struct choice *choice,
                               const struct row *row, struct error *e)
{
    const struct sampling *s = &choice->request->sampling;
    uint32_t n_requested = s->logprobs ? 1 + s->n_top_logprobs : 0;

    if (row->count > 0 && row->width != n_requested) {
        return error_set(e, ST_DATA_LOSS,
                         "grant %" PRIu64 ": %" PRIu32
                         " logprobs per token, %" PRIu32 " were requested",
                         row->grant, row->width, n_requested);
    }
    return ST_OK;
}

/* Checks that repeated tokens are the same as before.  A worker repeats rows
 * until they are acknowledged. */
static enum status check_repeated(const struct choice *choice,
                                  const struct row *row, struct error *e)
{
    uint32_t n;

    if (row->first >= choice->out.n_generated) {
        return ST_OK;
    }
    n = choice->out.n_generated - row->first;
    n = n < row->count ? n : row->count;
    if (n > 0 && memcmp(choice->out.tokens + row->first, row->tokens,
                        n * sizeof *choice->out.tokens) != 0) {
        return error_set(e, ST_DATA_LOSS,
                         "grant %" PRIu64
                         ": repeated tokens differ from those sent before",
                         row->grant);
    }
    return ST_OK;
}

static enum status check_ending(const struct choice *choice,
                                const struct row *row, struct error *e)
{
    uint64_t end = (uint64_t)row->first + row->count;
    bool stop = row->finish == SLUICE__V1__FINISH__FINISH_STOP;
    bool length = row->finish == SLUICE__V1__FINISH__FINISH_LENGTH;
    uint32_t max_tokens = choice->request->max_tokens;

    if ((stop && end == 0) || (length && end != max_tokens) ||
        ((stop || length) && end < choice->out.n_generated)) {
        return error_set(
            e, ST_DATA_LOSS,
            "grant %" PRIu64 ": finish %" PRIu32 " after %" PRIu64
            " tokens of %" PRIu32 ", but %" PRIu32 " were sent before",
            row->grant, row->finish, end, max_tokens, choice->out.n_generated);
    }
    return ST_OK;
}

static enum status check_row(const struct worker *w, const struct row *row,
                             struct error *e)
{
    const struct choice *choice = choice_of_grant(w, row->grant);
    enum status st;

    if (row->grant == 0 || row->grant > w->grants.last) {
        return error_set(e, ST_DATA_LOSS,
                         "a row has grant %" PRIu64
                         ", which was never made; the last is %" PRIu64,
                         row->grant, w->grants.last);
    }
    if (row->finish > SLUICE__V1__FINISH__FINISH_FAILED) {
        return error_set(e, ST_DATA_LOSS, "finish %" PRIu32 " is unknown",
                         row->finish);
    }
    if (row->state > SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED ||
        (row->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED &&
         !w->grew)) {
        return error_set(e, ST_DATA_LOSS,
                         "grant %" PRIu64 ": state %" PRIu32
                         " is unknown, or impossible where no sequence grows",
                         row->grant, row->state);
    }
    if (choice == NULL || choice_is_leaving(choice)) {
        return ST_OK; /* it has ended: take_row() ignores the row */
    }
    if ((uint64_t)row->first + row->count > choice->request->max_tokens) {
        return error_set(e, ST_DATA_LOSS,
                         "grant %" PRIu64 ": tokens %" PRIu32 "..%" PRIu64
                         " exceed max_tokens, %" PRIu32,
                         row->grant, row->first,
                         (uint64_t)row->first + row->count,
                         choice->request->max_tokens);
    }
    /* Gaps are normal for a while after a lost row; a worker that never closes
     * one would stall its client. */
    if (choice->grant.n_gaps >= GAP_ROWS_MAX &&
        row->first > choice->out.n_generated) {
        return error_set(e, ST_DATA_LOSS,
                         "grant %" PRIu64
                         ": tokens repeatedly start at %" PRIu32
                         ", expected at %" PRIu32,
                         row->grant, row->first, choice->out.n_generated);
    }
    if ((st = check_reused(choice, row, e)) != ST_OK ||
        (st = check_width(choice, row, e)) != ST_OK ||
        (st = check_repeated(choice, row, e)) != ST_OK) {
        return st;
    }
    return check_ending(choice, row, e);
}

static enum status check_rows(const struct worker *w, const step_message *m,
                              struct error *e)
{
    struct walk at = {0};
    struct row row;

    while (next_row(m, &at, &row)) {
        if (check_row(w, &row, e) != ST_OK) {
            return e->code;
        }
    }
    return ST_OK;
}

/* Returns how many of the n tokens after those generated belong to the client:
 * up to the end of a stop string.  The token that ended the choice is no text,
 * so it is not scanned. */
static uint32_t n_before_stop(struct router_core *r, struct choice *choice,
                              const struct row *row, uint32_t n)
{
    uint32_t end = choice->out.n_generated + n;

    if (row->finish == SLUICE__V1__FINISH__FINISH_STOP) {
        end--;
    }
    if (choice->text.stops == NULL ||
        !stops_scan(choice->text.stops, choice->out.tokens, end,
                    r->requests.text)) {
        return n;
    }
    return choice->text.stops->n_tokens > choice->out.n_generated
               ? choice->text.stops->n_tokens - choice->out.n_generated
               : 0; /* in the last token that its client has */
}

/* Checks the sender: only the leader of a replica sends tokens. */
static enum status check_sender(const struct worker *w, const step_message *m,
                                struct error *e)
{
    if (w->shard.layer_begin > 0) {
        return error_set(e, ST_DATA_LOSS,
                         "StepOutput came from layers %" PRIu32 "-%" PRIu32
                         ", only the first stage may send it",
                         w->shard.layer_begin, w->shard.layer_end);
    }
    if (m->n_stage_us > 0 &&
        (member_of(w)->replica == NULL ||
         m->n_stage_us != member_of(w)->replica->n_stages)) {
        return error_set(e, ST_DATA_LOSS,
                         "StepOutput lists %zu stages, the place has %" PRIu32,
                         m->n_stage_us, worker_n_stages(w));
    }
    return ST_OK;
}

/* The counts are of the worker's life: one of them that falls is an error. */
static enum status check_drafts(const struct worker *w,
                                const Sluice__V1__DraftCounts *d,
                                struct error *e)
{
    const struct router_drafts *had = &w->counts.drafts;

    if (d == NULL ||
        (d->rows <= d->verified && d->accepted <= d->verified &&
         d->verified / DRAFTS_MAX + (d->verified % DRAFTS_MAX > 0) <= d->rows &&
         d->rows >= had->draft_rows && d->verified >= had->drafts_verified &&
         d->accepted >= had->drafts_accepted)) {
        return ST_OK;
    }
    return error_set(e, ST_DATA_LOSS,
                     "%" PRIu64 " of %" PRIu64 " drafts accepted in %" PRIu64
                     " rows, %" PRIu64 " of %" PRIu64 " in %" PRIu64
                     " rows before",
                     d->accepted, d->verified, d->rows, had->drafts_accepted,
                     had->drafts_verified, had->draft_rows);
}

/* Checks what only the newest message can show: an older one may arrive late,
 * when its figures are no longer those of now. */
static enum status check_newest(struct worker *w, const step_message *m,
                                struct error *e)
{
    if (m->step < w->counts.step) {
        return error_set(e, ST_DATA_LOSS,
                         "its step count went back from %" PRIu64
                         " to %" PRIu64,
                         w->counts.step, m->step);
    }
    if (check_drafts(w, m->drafts, e) != ST_OK) {
        return e->code;
    }
    return held_check(w, m->ledger, m, e);
}

/* Takes what was restored of the prompt of choice, once it is known. */
static void take_reused(struct router_core *r, struct choice *choice,
                        const struct row *row)
{
    if (row->reused > choice->grant.n_reused) {
        choice->grant.n_reused = row->reused;
        progress_note(&r->requests, choice);
    }
}

/* Counts what was restored of the prompt of a request, at its first token: of
 * the choice that computed the prompt.  The others share it, and one that moves
 * restores it again, but the prompt is counted once. */
static void count_reused(struct router_core *r, const struct choice *choice)
{
    struct request *request = choice->request;
    uint32_t n = choice_n_cached(choice);

    if (request->prompt.computed) {
        return;
    }
    request->prompt.computed = true;
    r->base.metrics.reused_tokens += n;
    r->base.tenants[request->scope.tenant].tenant_reused_tokens += n;
}

static void take_state(struct router_core *r, struct choice *choice,
                       const struct row *row)
{
    bool suspended =
        row->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED;
    enum choice_grant_state now = choice->grant.state;

    if (suspended && now == GRANT_RUNS) {
        r->base.metrics.suspensions++;
        claim_suspended(&choice->entry);
        record_suspended(r->base.options.recorder, r->base.now_us,
                         choice->request->prompt.recorded, choice->index);
        choice_grant_move(choice, GRANT_SUSPENDED);
    } else if (!suspended && now == GRANT_SUSPENDED) {
        choice_grant_move(choice, GRANT_RUNS);
        progress_note(&r->requests, choice);
    }
}

/* Counts the prompt of choice, whose first token at w has come, and with it
 * what w restored of the prompt: the one is a part of the other. */
static void take_start(struct router_core *r, struct worker *w,
                       struct choice *choice)
{
    if (choice->entry.computing.at != NULL) {
        count_reused(r, choice);
        w->counts.n_prompt_tokens += choice->request->prompt.n;
        w->counts.n_reused_tokens += choice_n_cached(choice);
        r->schedule.policy->started(&choice->entry);
    }
}

/* Returns false without memory; nothing was taken. */
static bool take_tokens(struct router_core *r, struct worker *w,
                        struct choice *choice, const struct row *row)
{
    uint32_t n_repeated = choice->out.n_generated - row->first;
    uint32_t n = row->count - n_repeated;

    if (!choice_reserve(choice, choice->out.n_generated + n) ||
        (choice->out.logprobs != NULL &&
         !logprob_columns_reserve(choice->out.logprobs, n))) {
        return false;
    }
    take_start(r, w, choice);
    memcpy(choice->out.tokens + choice->out.n_generated,
           row->tokens + n_repeated, n * sizeof *choice->out.tokens);
    n = n_before_stop(r, choice, row, n);
    if (choice->out.logprobs != NULL &&
        pending_is_open(&choice->request->call)) {
        logprob_columns_add(choice->out.logprobs, row->logprobs,
                            row->top_tokens,
                            PLANT(LOGPROB_SHIFT) ? 0 : n_repeated, n);
    }
    if (choice->figures.first_us == 0) {
        int64_t us = r->base.now_us - choice->request->arrived_us;

        choice->figures.first_us = r->base.now_us;
        request_record_first(&r->requests, choice);
        metric_time(&r->base.times.first_token, us);
        metric_time(
            &model_figures(&r->base, choice->request->model)->model_first_token,
            us);
    }
    choice->out.n_generated += n;
    progress_note(&r->requests, choice);
    choice->figures.n_idle_moves = 0;
    trial_made(&r->placement, &choice->entry.trial, choice->out.n_generated);
    claim_made(&r->schedule, &choice->entry, choice->out.n_generated);
    place_made(w, n);
    place_proved(&r->replicas, w);
    r->base.metrics.tokens += n;
    model_figures(&r->base, choice->request->model)->model_tokens += n;
    r->base.tenants[choice->request->scope.tenant].tenant_tokens += n;
    if (choice->state == CHOICE_SUBMITTED) {
        choice_move(choice, CHOICE_PREFILL);
    }
    if (choice->state == CHOICE_PREFILL) {
        choice_move(choice, CHOICE_DECODE);
    }
    return true;
}

static void fail_row(struct router_core *r, struct choice *choice,
                     const struct row *row, const step_message *m)
{
    struct error e;
    bool has_text = m->has_failure && wire_text_ok(m->failure, 1, 300);

    if (row->finish == SLUICE__V1__FINISH__FINISH_CANCELLED &&
        choice->request->deadline_us != NODE_IDLE) {
        error_set(&e, ST_DEADLINE_EXCEEDED,
                  "worker %s ended the sequence at the deadline of its call",
                  choice->grant.worker_name);
    } else if (row->finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        error_set(&e, ST_ABORTED, "worker %s gave up the sequence",
                  choice->grant.worker_name);
    } else {
        error_set(&e, ST_INTERNAL, "worker %s: %.*s", choice->grant.worker_name,
                  has_text ? (int)m->failure.len : 19,
                  has_text ? (const char *)m->failure.data
                           : "the sequence failed");
    }
    choice_ungrant(&r->requests, choice);
    choice_fail(&r->requests, choice, &e, 0);
}

static void finish_row(struct router_core *r, struct choice *choice,
                       const struct row *row, const step_message *m)
{
    bool completed = row->finish == SLUICE__V1__FINISH__FINISH_STOP ||
                     row->finish == SLUICE__V1__FINISH__FINISH_LENGTH;

    if (choice->state == CHOICE_ENDED) {
        return; /* repeated by a worker that keeps the sequence */
    }
    if (choice->state == CHOICE_ENDING) {
        if (completed) { /* Cancel came too late; ends at the receipt */
            choice->finish = (Sluice__V1__Finish)row->finish;
        }
        return;
    }
    if (choice_is_moving(choice) &&
        row->finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        return; /* it was cancelled to move: the receipt follows */
    }
    if (!completed) {
        fail_row(r, choice, row, m);
        return;
    }
    place_ended_well(&r->replicas, choice->grant.worker);
    if (choice->state == CHOICE_SUBMITTED) { /* resumed with all tokens */
        choice_move(choice, CHOICE_PREFILL);
    }
    if (choice->text.stops != NULL &&
        stops_end(choice->text.stops, r->requests.text)) {
        removal_stopped(&r->requests, choice); /* the worker may keep it */
        return;
    }
    if (choice->request->keep_ms > 0) {
        choice_keep(&r->requests, choice);
    } else {
        choice_ungrant(&r->requests, choice);
    }
    choice_finish(&r->requests, choice, (Sluice__V1__Finish)row->finish);
}

/* Handles one row.  Returns the index to acknowledge, FORGET if the worker need
 * not repeat anything of this grant. choice may be freed. */
static uint32_t take_row(struct router_core *r, struct worker *w,
                         const struct row *row, const step_message *m)
{
    struct choice *choice = choice_of_grant(w, row->grant);
    uint32_t next;

    if (choice == NULL || choice_is_leaving(choice)) {
        r->base.metrics.rows_forgotten++;
        return FORGET;
    }
    if (row->first > choice->out.n_generated) {
        /* A row before this one was lost.  The index in our answer makes the
         * worker repeat from there. */
        r->base.metrics.rows_dropped++;
        choice->grant.n_gaps++;
        return choice->out.n_generated;
    }
    take_reused(r, choice, row);
    take_state(r, choice, row);
    if (choice->state != CHOICE_ENDED) {
        if (row->first + row->count > choice->out.n_generated) {
            if (!take_tokens(r, w, choice, row)) {
                /* As if the row had been lost: the worker repeats it. */
                r->base.metrics.rows_dropped++;
                return choice->out.n_generated;
            }
        } else if (row->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
            (void)n_before_stop(r, choice, row, 0);
        }
        if (stops_found(choice->text.stops)) {
            place_ended_well(&r->replicas, w);
            removal_stopped(&r->requests, choice);
            return FORGET;
        }
        stream_ready(&r->requests, choice);
    }
    choice->grant.n_gaps = 0;
    next = choice->out.n_generated;
    if (row->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        finish_row(r, choice, row, m);
    }
    return next;
}

static void take_rows(struct router_core *r, struct worker *w,
                      const step_message *m)
{
    Sluice__V1__AcknowledgeMessage ack = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;
    struct walk at = {0};
    struct row row;

    for (size_t i = 0; next_row(m, &at, &row); i++) {
        r->ack_grant[i] = row.grant;
        r->ack_index[i] = take_row(r, w, &row, m);
        if (PLANT(ACK_AHEAD) && r->ack_index[i] != FORGET) {
            r->ack_index[i]++;
        }
    }
    FP(ROUTER_STEP);
    if (m->n_grant > 0) {
        ack.n_grant = ack.n_index = m->n_grant;
        ack.grant = r->ack_grant;
        ack.index = r->ack_index;
        /* If the link has no room the message is lost, and the rows are
         * repeated. */
        (void)!peer_oneway(w->peer->peer, METHOD_WORKER_ACKNOWLEDGE, &ack.base);
        FP(ROUTER_ACKNOWLEDGE);
    }
}

/* Adds what the worker has counted since its last message to its model.  The
 * first counts of a session are where the counting begins. */
static void take_drafts(struct worker *w, const Sluice__V1__DraftCounts *d)
{
    struct router_drafts *sum = &w->model->drafts, *had = &w->counts.drafts;

    if (d == NULL) {
        return;
    }
    if (w->counts.drafted) {
        sum->draft_rows += d->rows - had->draft_rows;
        sum->drafts_verified += d->verified - had->drafts_verified;
        sum->drafts_accepted += d->accepted - had->drafts_accepted;
    }
    w->counts.drafted = true;
    *had = (struct router_drafts){.draft_rows = d->rows,
                                  .drafts_verified = d->verified,
                                  .drafts_accepted = d->accepted};
}

/* Learns the cost of the step.  The stages of a replica work one after the
 * other. */
static void learn_cost(struct router_core *r, struct worker *w,
                       const step_message *m)
{
    uint64_t us = m->device_us;
    uint32_t n_rows = 0;

    for (size_t i = 0; i < m->n_count; i++) {
        n_rows += m->count[i] > 0;
    }
    for (size_t i = 1; i < m->n_stage_us; i++) {
        us += m->stage_us[i];
    }
    predict_step(w, (uint32_t)min_u64(us, UINT32_MAX), n_rows,
                 m->n_prompt_tokens);
    record_step(r->base.options.recorder, w->peer->session,
                (uint32_t)min_u64(us, UINT32_MAX), n_rows, m->n_prompt_tokens);
}

/* Records the time of the step; for a replica, of each stage. */
static void take_times(struct router_core *r, struct worker *w,
                       const step_message *m)
{
    if (m->has_device_us) { /* it repeats rows otherwise */
        w->counts.step_us = m->device_us;
        liveness_step(w, m->device_us);
        learn_cost(r, w, m);
    }
    for (uint32_t i = 1; i < m->n_stage_us; i++) {
        struct worker *s = worker_stage(w, i);

        if (s != NULL) {
            s->counts.step_us = m->stage_us[i];
            liveness_step(s, m->stage_us[i]);
        }
    }
}

void recv_step_output(struct router_core *r, const struct incoming *in,
                      const request_of_REGISTRY_STEP_OUTPUT *m)
{
    struct worker *w = in->peer->worker;
    enum ledger_verdict verdict;
    struct error e;

    /* Left over from an earlier session of the same worker. */
    if (m->ledger->session != in->peer->session) {
        r->base.metrics.ledgers_dropped++;
        return;
    }
    verdict = worker_report_check(w, m->ledger, m->engine, &e);
    if (verdict == LEDGER_INVALID || check_sender(w, m, &e) != ST_OK ||
        check_columns(m, &e) != ST_OK || check_tokens(w, m, &e) != ST_OK ||
        logprob_columns_check(m, w->shard.vocab, &e) != ST_OK ||
        check_rows(w, m, &e) != ST_OK ||
        (verdict == LEDGER_NEW && check_newest(w, m, &e) != ST_OK)) {
        worker_expel(&r->fleet, w, &e);
        return;
    }
    r->base.metrics.steps++;
    if (verdict == LEDGER_NEW) {
        worker_ledger_take(&r->fleet, w, m->ledger);
        take_times(r, w, m);
        take_drafts(w, m->drafts);
        w->counts.step = m->step;
        liveness_take(&r->fleet, w, m->engine);
    } else { /* the rows are new even if a later Report has overtaken them */
        r->base.metrics.ledgers_dropped++;
    }
    take_rows(r, w, m);
    if (verdict == LEDGER_NEW) {
        progress_look(&r->requests, w);
    }
}
