/* A Result: its columns become the result of the leader's engine. */
#include "common/base/quote.h"
#include "worker/sequences/results.h"
#include "worker/stages/leader.h"

/* Cursors into the columns of a Result. */
struct result_cursor {
    uint32_t row, logprob, top; /* row: counts rows that sample */
    uint32_t accepted, proposed, proposal;
};

/* Where the logprobs of a token go. */
struct logprob_place {
    float *logprob;
    struct token_logprob *top; /* [width - 1] */
};

/* Reads the logprobs of a token.  Returns false if the columns lack them. */
static bool take_logprobs(struct logprob_place to, uint32_t width,
                          const Sluice__V1__StageResult *m,
                          struct result_cursor *at)
{
    if (m->n_logprobs - at->logprob < width ||
        (width > 0 && m->n_top_tokens - at->top < width - 1)) {
        return false;
    }
    if (width > 0) {
        *to.logprob = m->logprobs[at->logprob++];
    }
    for (uint32_t j = 0; j + 1 < width; j++) {
        to.top[j].token = m->top_tokens[at->top++];
        to.top[j].logprob = m->logprobs[at->logprob++];
    }
    return true;
}

/* Reads how many drafts of row i were accepted, with their logprobs. */
static bool take_accepted(struct plan_result *r, const struct plan_row *row,
                          uint32_t i, const Sluice__V1__StageResult *m,
                          struct result_cursor *at)
{
    uint32_t width = sampling_width(row->sampling), n;
    bool ok = true;

    if (row->n_drafts == 0) {
        return true;
    }
    if (at->accepted == m->n_accepted ||
        m->accepted[at->accepted] > row->n_drafts) {
        return false;
    }
    n = m->accepted[at->accepted++];
    for (uint32_t j = 0; ok && j < n; j++) {
        ok = take_logprobs((struct logprob_place){&r->draft_logprobs[i][j],
                                                  r->draft_top[i][j]},
                           width, m, at);
    }
    r->n_accepted[i] = (uint8_t)n;
    return ok;
}

/* Reads the drafts that were proposed behind row i. */
static bool take_proposed(struct plan_result *r, const struct plan_row *row,
                          uint32_t i, const Sluice__V1__StageResult *m,
                          struct result_cursor *at)
{
    uint32_t n;

    if (row->propose == 0) {
        return true;
    }
    if (at->proposed == m->n_proposed ||
        m->proposed[at->proposed] > row->propose) {
        return false;
    }
    n = m->proposed[at->proposed++];
    if (m->n_proposals - at->proposal < n) {
        return false;
    }
    for (uint32_t j = 0; j < n; j++) {
        r->drafts[i][j] = m->proposals[at->proposal++];
    }
    r->n_drafts[i] = (uint8_t)n;
    return true;
}

/* Reads what row i of the plan sampled.  Returns false if the columns lack it.
 */
static bool take_row(struct plan_result *r, const struct plan_row *row,
                     uint32_t i, const Sluice__V1__StageResult *m,
                     struct result_cursor *at)
{
    uint32_t width = sampling_width(row->sampling);

    if (at->row == m->n_tokens ||
        (m->n_width > 0 ? m->width[at->row] : 0) != width) {
        return false;
    }
    if (m->n_damaged > 0 && m->damaged[at->row] != 0) {
        r->outcomes[i] = ROW_NOT_FINITE;
    }
    r->tokens[i] = m->tokens[at->row++];
    return take_accepted(r, row, i, m, at) &&
           take_logprobs((struct logprob_place){&r->logprobs[i], r->top[i]},
                         width, m, at) &&
           take_proposed(r, row, i, m, at);
}

static bool is_used_up(const Sluice__V1__StageResult *m,
                       const struct result_cursor *at)
{
    return at->row == m->n_tokens && at->logprob == m->n_logprobs &&
           at->top == m->n_top_tokens && at->accepted == m->n_accepted &&
           at->proposed == m->n_proposed && at->proposal == m->n_proposals;
}

static bool take_columns(struct leader *l, const struct plan *p,
                         const Sluice__V1__StageResult *m)
{
    struct plan_result *r = &l->sequences->result;
    struct result_cursor at = {0, 0, 0, 0, 0, 0};

    if ((m->n_width > 0 && m->n_width != m->n_tokens) ||
        (m->n_damaged > 0 && m->n_damaged != m->n_tokens)) {
        return false;
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        r->tokens[i] = TOKEN_NONE;
        r->outcomes[i] = ROW_DONE;
        r->n_accepted[i] = r->n_drafts[i] = 0;
        if (row->sample && !take_row(r, row, i, m, &at)) {
            return false;
        }
    }
    return is_used_up(m, &at);
}

static bool has_columns(const Sluice__V1__StageResult *m)
{
    return m->n_tokens + m->n_width + m->n_damaged + m->n_logprobs +
               m->n_top_tokens + m->n_accepted + m->n_proposed +
               m->n_proposals >
           0;
}

bool leader_take_result(struct leader *l, const struct plan *p,
                        const Sluice__V1__StageResult *m)
{
    struct plan_result *r = &l->sequences->result;
    unsigned long long step = m->step;

    r->step = p->step;
    r->n_rows = p->n_rows;
    r->hidden = NULL;
    r->lost = false;
    r->device_us = m->device_us[0];
    r->draft_us = m->draft_us;
    r->status = ST_OK;
    /* A failed step fails its rows, not the assembly. */
    if (m->has_failure && !has_columns(m)) {
        r->status = error_set(
            &r->error, ST_INTERNAL, "%s",
            quote_bytes((const char *)m->failure.data, m->failure.len).text);
        return true;
    }
    if (m->has_failure || !take_columns(l, p, m)) {
        assembly_break(l->assembly,
                       "Result of step %llu has %zu damaged, %zu tokens, %zu "
                       "widths, %zu logprobs and %zu top_tokens, and of drafts "
                       "%zu accepted, %zu proposed and %zu ids, which do not "
                       "match its %u rows",
                       step, m->n_damaged, m->n_tokens, m->n_width,
                       m->n_logprobs, m->n_top_tokens, m->n_accepted,
                       m->n_proposed, m->n_proposals, p->n_rows);
        return false;
    }
    results_check_choices(l->sequences, p);
    if (r->status != ST_OK) {
        assembly_break(l->assembly, "Result of step %llu: %s", step,
                       r->error.text);
        return false;
    }
    return true;
}
