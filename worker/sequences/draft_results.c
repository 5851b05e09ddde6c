#include "worker/sequences/draft_results.h"

#include <string.h>

#include "common/base/plant.h"
#include "worker/plan/proposer.h"

uint32_t draft_results_accepted(const struct sequences *q,
                                const struct plan_row *row, uint32_t i)
{
    const struct plan_result *r = &q->result;
    uint32_t more = PLANT(DRAFT_REFUSED_USED) ? 1 : 0, n;

    if (row->n_drafts == 0 || r->status != ST_OK ||
        r->outcomes[i] != ROW_DONE) {
        return 0;
    }
    n = r->n_accepted[i] + more;
    return n < row->n_drafts ? n : row->n_drafts;
}

uint32_t draft_results_settle(struct sequences *q, const struct plan_row *row,
                              uint32_t i, struct sequence *s)
{
    uint32_t refused = row->n_drafts - draft_results_accepted(q, row, i);

    if (!PLANT(DRAFT_NOT_REFUSED)) {
        s->plan.n_planned -= refused;
    }
    return row->position + row->n_tokens - refused;
}

/* ---- checks ---- */

static enum status check_drafts(struct sequences *q, uint32_t i)
{
    struct plan_result *r = &q->result;

    for (uint32_t j = 0; j < r->n_drafts[i]; j++) {
        if (r->drafts[i][j] >= q->base->o.vocab) {
            return error_set(&r->error, ST_INTERNAL,
                             "the engine drafted id %u, which is not below the "
                             "vocabulary of %u",
                             r->drafts[i][j], q->base->o.vocab);
        }
    }
    return ST_OK;
}

enum status draft_results_check(struct sequences *q, const struct plan *p,
                                uint32_t i)
{
    const struct plan_row *row = &p->rows[i];
    struct plan_result *r = &q->result;

    if (row->n_drafts > 0 && r->n_accepted[i] > row->n_drafts) {
        return error_set(&r->error, ST_INTERNAL,
                         "the engine accepted %u drafts of row %u, which has "
                         "%u",
                         r->n_accepted[i], i, row->n_drafts);
    }
    if (row->propose == 0) {
        return ST_OK;
    }
    return r->n_drafts[i] <= row->propose
               ? check_drafts(q, i)
               : error_set(&r->error, ST_INTERNAL,
                           "the engine drafted %u tokens for row %u, at most "
                           "%u were requested",
                           r->n_drafts[i], i, row->propose);
}

/* ---- what is learned ---- */

static void count(struct sequences *q, const struct sequence *s, uint32_t n,
                  uint32_t n_accepted)
{
    struct worker_metrics *m = &q->base->metrics;
    bool mtp = s->drafts.source == PROPOSER_MTP;

    metric_size(&q->base->steps.draft_row_tokens, n_accepted + 1);
    m->draft_rows++;
    m->drafts_mtp += mtp ? n : 0;
    m->drafts_ngram += mtp ? 0 : n;
    m->accepted_mtp += mtp ? n_accepted : 0;
    m->accepted_ngram += mtp ? 0 : n_accepted;
    for (uint32_t j = 0; j < n; j++) {
        q->base->drafts[j].drafts_verified++;
        q->base->drafts[j].drafts_accepted += j < n_accepted;
    }
}

void draft_results_take(struct sequences *q, const struct plan_row *row,
                        uint32_t i, struct sequence *s)
{
    struct sequence_drafts *d = &s->drafts;
    const struct plan_result *r = &q->result;
    uint32_t n = row->n_drafts, n_accepted = draft_results_accepted(q, row, i);

    if (n > 0) {
        count(q, s, n, n_accepted);
        drafts_note_accepted(q->batcher.draft.accepts[d->source],
                             DRAFTS_LEARN_ALL, n, n_accepted);
    }
    if (n > 0 && d->source == d->proposer) {
        drafts_note_accepted(d->accepts, DRAFTS_LEARN_OWN, n, n_accepted);
    }
    if (row->propose > 0 && d->proposer == PROPOSER_MTP) {
        d->n = r->n_drafts[i];
        memcpy(d->ids, r->drafts[i], d->n * sizeof *d->ids);
        d->source = PROPOSER_MTP;
    }
}

void draft_results_learn(struct sequences *q, const struct batch *t)
{
    const struct plan_result *r = &q->result;
    struct drafts_step s = {.n_tokens = t->plan.n_tokens};

    if (!q->batcher.draft.drafts.automatic || r->status != ST_OK ||
        t->n_prompt_tokens > 0 || t->n_swapped > 0 ||
        r->device_us < r->draft_us) {
        return;
    }
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        const struct plan_row *row = &t->plan.rows[i];
        uint32_t passes = row->propose > 0 ? row->propose : row->mtp;

        s.n_drafts += row->n_drafts;
        s.n_accepted += draft_results_accepted(q, row, i);
        s.n_rows += row->mtp;
        s.n_passes = passes > s.n_passes ? passes : s.n_passes;
    }
    if (t->n_kept > 0) {
        q->batcher.draft.drafted.step = t->plan.step;
        q->batcher.draft.drafted.sent_us = t->sent_us;
        q->batcher.draft.drafted.device_us = r->device_us;
    }
    s.us = r->device_us - r->draft_us;
    s.draft_us = r->draft_us;
    drafts_note_step(&q->batcher.draft.drafts, &s);
}
