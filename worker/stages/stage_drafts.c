/* Drafts at a stage: the columns of a Forward and a Result, and Accept.
 *
 * A row with drafts counts one position and one token, as a row without.  The
 * last stage counts its accepted drafts with its result, every other one with
 * Accept, which also orders the replay. */
#include <inttypes.h>
#include <string.h>

#include "worker/stages/stage.h"

#define KIND_SAMPLE    ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE)
#define KIND_MTP       ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_MTP)
#define KIND_GENERATED ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED)

/* ---- the columns ---- */

uint32_t stage_drafts_of(const Sluice__V1__StageForward *m, size_t i)
{
    return m->n_drafts > 0 ? m->drafts[i] : 0;
}

uint32_t stage_propose_of(const Sluice__V1__StageForward *m, size_t i)
{
    return m->n_propose > 0 ? m->propose[i] : 0;
}

static bool has_ids(const Sluice__V1__StageForward *m, size_t i)
{
    return !m->has_failure &&
           (stage_drafts_of(m, i) > 0 || (m->kind[i] & KIND_MTP) != 0);
}

static bool has_next(const Sluice__V1__StageForward *m, size_t i)
{
    return !m->has_failure &&
           (m->kind[i] & (KIND_MTP | KIND_SAMPLE)) == KIND_MTP;
}

enum status stage_check_drafts(const Sluice__V1__StageForward *m,
                               struct error *e)
{
    size_t n = m->n_grant, n_keep = 0, n_next = 0;
    uint64_t n_ids = 0;

    if ((m->n_drafts != 0 && m->n_drafts != n) ||
        (m->n_propose != 0 && m->n_propose != n)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "columns of %zu drafts and %zu proposals, but it has "
                         "%zu rows",
                         m->n_drafts, m->n_propose, n);
    }
    for (size_t i = 0; i < n; i++) {
        n_keep += stage_drafts_of(m, i) > 0;
        n_ids += has_ids(m, i) ? m->count[i] : 0;
        n_next += has_next(m, i);
    }
    if (m->n_keep_at != n_keep || m->n_tokens != n_ids || m->n_next != n_next) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "columns of %zu places of kept inputs, %zu ids and "
            "%zu next ones, but its rows need %zu, %" PRIu64 " and %zu",
            m->n_keep_at, m->n_tokens, m->n_next, n_keep, n_ids, n_next);
    }
    return ST_OK;
}

/* ---- a row ---- */

/* The row samples after its last known id and after each draft, so that many
 * tokens must be left. */
static enum status check_drafts(const struct sequence *s,
                                const Sluice__V1__StageForward *m, size_t i,
                                struct error *e)
{
    uint32_t drafts = stage_drafts_of(m, i);
    uint32_t kind = m->kind[i] & (KIND_GENERATED | KIND_SAMPLE);

    if (drafts == 0) {
        return ST_OK;
    }
    if (drafts > DRAFTS_MAX || m->count[i] != drafts + 1 ||
        kind != (KIND_GENERATED | KIND_SAMPLE)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u drafts in a row of %u tokens and kind %u; a "
                         "generated row that samples has at most %d behind one "
                         "token",
                         drafts, m->count[i], m->kind[i], DRAFTS_MAX);
    }
    if ((uint64_t)m->position[i] + m->count[i] >=
        (uint64_t)s->portable.n_prompt + s->portable.max_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u drafts from position %u on, but there are %u "
                         "positions",
                         drafts, m->position[i],
                         s->portable.n_prompt + s->portable.max_tokens);
    }
    return ST_OK;
}

static enum status check_propose(const struct stage *g,
                                 const struct sequence *s,
                                 const Sluice__V1__StageForward *m, size_t i,
                                 struct error *e)
{
    uint32_t n = stage_propose_of(m, i);
    uint64_t end = (uint64_t)m->position[i] + m->count[i] + n;
    bool mtp = (m->kind[i] & KIND_MTP) != 0;

    if (mtp && stage_is_last(g) && !g->base->o.drafting.has_mtp) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "kind %u, but this stage has no MTP layer",
                         m->kind[i]);
    }
    if (n == 0) {
        return ST_OK;
    }
    if (n > DRAFTS_MAX || !mtp || (m->kind[i] & KIND_SAMPLE) == 0 ||
        m->count[i] == 0 ||
        end > (uint64_t)s->portable.n_prompt + s->portable.max_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u drafts to propose behind %u tokens of kind %u at "
                         "%u, but at most %d of %u positions, in a row that "
                         "samples and has the bit MTP",
                         n, m->count[i], m->kind[i], m->position[i], DRAFTS_MAX,
                         s->portable.n_prompt + s->portable.max_tokens);
    }
    return ST_OK;
}

enum status stage_check_draft_row(const struct stage *g,
                                  const struct sequence *s,
                                  const Sluice__V1__StageForward *m, size_t i,
                                  struct error *e)
{
    if (stage_note(g, s)->n_kept > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "its drafts are neither accepted nor refused");
    }
    return check_drafts(s, m, i, e) == ST_OK ? check_propose(g, s, m, i, e)
                                             : e->code;
}

/* ---- the plan ---- */

/* A failed step keeps nothing. */
static enum status take_region(struct stage *g, struct plan_row *row,
                               struct sequence *s,
                               const Sluice__V1__StageForward *m,
                               struct stage_cursor *at, struct error *e)
{
    struct stage_note *note = stage_note(g, s);
    uint32_t keep_at;

    if (row->n_drafts == 0) {
        return ST_OK;
    }
    keep_at = m->keep_at[at->keep++];
    row->keep_at = keep_at;
    if (m->has_failure) {
        return ST_OK;
    }
    if (!keeps_put(&g->keeps, keep_at, row->n_tokens)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it keeps %u inputs at %u, but a part of that is in "
                         "use, or not among the %u of this stage",
                         row->n_tokens, keep_at, g->keeps.capacity);
    }
    row->keep = !stage_is_last(g) && g->base->o.pool.pages_per_slot > 0;
    note->keep_at = keep_at;
    note->n_kept = row->n_tokens;
    note->n_sampled = 0;
    return ST_OK;
}

static enum status check_ids(const struct stage *g, const uint32_t *ids,
                             size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= g->base->o.vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "id %u is not below the vocabulary of %u", ids[i],
                             g->base->o.vocab);
        }
    }
    return ST_OK;
}

/* Rows without ids get zeros, which nothing reads. */
static enum status fill_ids(const struct stage *g, struct plan *p,
                            struct plan_row *row,
                            const Sluice__V1__StageForward *m,
                            struct stage_cursor *at, struct error *e)
{
    if (m->has_failure) {
        return ST_OK;
    }
    memset(&p->tokens[row->token], 0, row->n_tokens * sizeof *p->tokens);
    if (has_ids(m, at->row)) {
        const uint32_t *ids = &m->tokens[at->id];

        if (check_ids(g, ids, row->n_tokens, e) != ST_OK) {
            return e->code;
        }
        if (row->n_tokens > 0) {
            memcpy(&p->tokens[row->token], ids, row->n_tokens * sizeof *ids);
        }
        at->id += row->n_tokens;
    }
    if (has_next(m, at->row)) {
        row->next = m->next[at->next++];
        return check_ids(g, &row->next, 1, e);
    }
    return ST_OK;
}

/* The Result has room for the logprobs of all drafts, should they be accepted.
 */
static enum status count_values(const struct stage *g, struct microbatch *b,
                                const struct sequence *s,
                                const struct plan_row *row, struct error *e)
{
    if (row->sample && stage_is_last(g)) {
        b->n_values +=
            (row->n_drafts + 1) * sampling_width(&s->portable.sampling);
    }
    return b->n_values <= RESULT_VALUES_MAX
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED,
                           "its Result may have %u logprobs, at most %d fit",
                           b->n_values, RESULT_VALUES_MAX);
}

enum status stage_fill_drafts(struct stage *g, struct microbatch *b,
                              struct sequence *s,
                              const Sluice__V1__StageForward *m,
                              struct stage_cursor *at, struct error *e)
{
    struct plan *p = &b->batch.plan;
    struct plan_row *row = &p->rows[at->row];

    row->n_drafts = stage_drafts_of(m, at->row);
    row->propose = stage_propose_of(m, at->row);
    row->mtp = (m->kind[at->row] & KIND_MTP) != 0;
    b->drafts[at->row] = (uint8_t)row->n_drafts;
    b->propose[at->row] = (uint8_t)row->propose;
    if (count_values(g, b, s, row, e) != ST_OK ||
        take_region(g, row, s, m, at, e) != ST_OK) {
        return e->code;
    }
    return fill_ids(g, p, row, m, at, e);
}

/* ---- to the next stage ---- */

static void send_ids(struct stage_columns *c, const struct plan *p,
                     const struct plan_row *row, Sluice__V1__StageForward *m)
{
    if (row->n_drafts > 0 || row->mtp) {
        memcpy(&c->ids[m->n_tokens], &p->tokens[row->token],
               row->n_tokens * sizeof c->ids[0]);
        m->n_tokens += row->n_tokens;
    }
}

void stage_send_drafts(struct stage *g, const struct microbatch *b,
                       Sluice__V1__StageForward *m)
{
    const struct plan *p = &b->batch.plan;
    struct stage_columns *c = g->columns;
    bool drafts = false, propose = false;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        c->drafts[i] = row->n_drafts;
        c->propose[i] = row->propose;
        drafts = drafts || row->n_drafts > 0;
        propose = propose || row->propose > 0;
        if (row->n_drafts > 0) {
            c->keep_at[m->n_keep_at++] = row->keep_at;
        }
        if (!b->failed) {
            send_ids(c, p, row, m);
        }
        if (!b->failed && row->mtp && !b->samples[i]) {
            c->next[m->n_next++] = row->next;
        }
    }
    m->n_drafts = drafts ? p->n_rows : 0;
    m->n_propose = propose ? p->n_rows : 0;
    m->drafts = c->drafts;
    m->propose = c->propose;
    m->keep_at = c->keep_at;
    m->tokens = c->ids;
    m->next = c->next;
}

/* ---- the result ---- */

void stage_add_drafts(struct stage *g, const struct microbatch *b, uint32_t i,
                      uint32_t n_accepted, bool has_token,
                      Sluice__V1__StageResult *m)
{
    const struct plan_result *r = &g->sequences->result;
    struct stage_columns *c = g->columns;
    uint32_t n = has_token && b->propose[i] > 0 ? r->n_drafts[i] : 0;

    m->accepted = c->accepted;
    m->proposed = c->proposed;
    m->proposals = c->proposals;
    if (b->drafts[i] > 0) {
        c->accepted[m->n_accepted++] = n_accepted;
    }
    if (b->propose[i] > 0) {
        c->proposed[m->n_proposed++] = n;
    }
    for (uint32_t k = 0; k < n; k++) {
        c->proposals[m->n_proposals++] = r->drafts[i][k];
    }
}

/* ---- Accept ---- */

void stage_free_kept(struct stage *g, const struct sequence *s)
{
    struct stage_note *note = stage_note(g, s);

    if (note->n_kept > 0) {
        keeps_free(&g->keeps, note->keep_at);
    }
    note->n_kept = 0;
}

static enum status check_accept(const struct stage *g, const struct sequence *s,
                                uint32_t count, struct error *e)
{
    const struct stage_note *note = stage_note(g, s);

    if (s->plan.inflight > 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "%u steps with it are here",
                         s->plan.inflight);
    }
    /* Only the stage that failed and those behind it have the failure. */
    if (count > 0 && (count > note->n_kept || stage_is_spoilt(g, s))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it advances by %u inputs, but %s%u are kept", count,
                         stage_is_spoilt(g, s) ? "is spoilt, and " : "",
                         note->n_kept);
    }
    if (count > 0 && stage_is_last(g) && count != note->n_sampled) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it advances by %u inputs, but got %u tokens", count,
                         note->n_sampled);
    }
    return ST_OK;
}

/* The replay may come when the slot is free again: the next plan begins with
 * it, before anything else uses the pages. */
static enum status add_replay(struct stage *g, const struct sequence *s,
                              uint32_t count, struct error *e)
{
    if (s->memory.slot == SLOT_NONE) {
        return ST_OK;
    }
    if (g->n_replays == PLAN_ROWS_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%u replays wait for the next step, at most %u may",
                         g->n_replays, PLAN_ROWS_MAX);
    }
    g->replays[g->n_replays++] =
        (struct plan_replay){s->memory.slot, stage_note(g, s)->keep_at, count};
    return ST_OK;
}

static enum status accept_one(struct stage *g, uint64_t grant, uint32_t count,
                              struct error *e)
{
    struct sequence *s = stage_open_sequence(g, grant, e);

    if (s == NULL || check_accept(g, s, count, e) != ST_OK) {
        return e->code;
    }
    if (count > 0 && !stage_is_last(g)) {
        if (add_replay(g, s, count, e) != ST_OK) {
            return e->code;
        }
        s->plan.n_planned += count - 1;
        s->portable.n_generated += count - 1;
    }
    stage_free_kept(g, s);
    return ST_OK;
}

static enum status accept_all(struct stage *g, const Sluice__V1__StageAccept *m,
                              struct error *e)
{
    if (m->n_grant == 0 || m->n_count != m->n_grant) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "columns of %zu grants and "
                         "%zu counts",
                         m->n_grant, m->n_count);
    }
    for (size_t i = 0; i < m->n_grant; i++) {
        if (accept_one(g, m->grant[i], m->count[i], e) != ST_OK) {
            return error_wrap(e, "grant %" PRIu64, m->grant[i]);
        }
    }
    return ST_OK;
}

void stage_recv_accept(struct stage *g, const Sluice__V1__StageAccept *m)
{
    struct error e;

    if (accept_all(g, m, &e) != ST_OK) {
        assembly_break(g->assembly, "Accept: %s", e.text);
    } else if (!stage_is_last(g)) {
        relay_send(&g->relay, METHOD_STAGE_ACCEPT, &m->base);
    }
}
