#include "worker/plan/draft_rows.h"

#include <string.h>

#include "common/base/minmax.h"
#include "worker/plan/proposer.h"

/* Returns a - b, at least 0. */
static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/* Returns the role whose other stages keep inputs too; NULL: there is none. */
static const struct role *keeper(const struct draft_rows *b)
{
    const struct role *r = b->reuse != NULL ? b->reuse->role : NULL;

    return r != NULL && r->ops->keep_inputs != NULL ? r : NULL;
}

void draft_rows_init(struct draft_rows *b)
{
    drafts_init(&b->drafts, b->limits->drafts_auto);
    for (int p = 0; p < PROPOSERS; p++) {
        for (int i = 0; i < DRAFTS_MAX; i++) {
            b->accepts[p][i] = DRAFTS_ACCEPTS_FIRST;
        }
    }
}

/* ---- the choice ---- */

/* Follows the proposer of s, which changes with its hole. */
static void follow_proposer(const struct draft_rows *b, struct sequence *s)
{
    struct sequence_drafts *d = &s->drafts;
    enum proposer p = proposer_of(&b->limits->proposers, s);

    if (d->proposer == p) {
        return;
    }
    d->proposer = (uint8_t)p;
    proposer_drop(s);
    memcpy(d->accepts, b->accepts[p], sizeof d->accepts);
}

/* Returns the most drafts that s may get, as far as that shows now. */
static uint32_t prospect(struct draft_rows *b, struct sequence *s)
{
    uint32_t left = less(s->portable.max_tokens,
                         s->portable.n_generated + s->plan.pending + 1);
    enum proposer p;

    follow_proposer(b, s);
    p = (enum proposer)s->drafts.proposer;
    if (p == PROPOSER_NONE || s->plan.recompute != RECOMPUTE_NONE) {
        return 0;
    }
    if (proposer_in_engine(p)) {
        return s->drafts.mtp ? min_u32(s->drafts.most, left) : 0;
    }
    return min_u32(proposer_find(b->table, s), left);
}

static struct drafts_row row_of(const struct sequence *s, uint32_t most)
{
    return (struct drafts_row){
        .accepts = s->drafts.accepts,
        .most = most,
        .urgent = s->drafts.urgent,
        .mtp = proposer_in_engine((enum proposer)s->drafts.proposer)};
}

void draft_rows_choose(struct draft_rows *b)
{
    struct drafts_row rows[DRAFTS_ROWS];
    struct sequence *s = b->decode->head;
    bool all = drafts_probes(&b->drafts), some = b->lockstep;
    uint32_t n = 0, i = 0;

    b->lockstep = false;
    if (b->limits->drafts == 0) {
        return;
    }
    /* A probe stops the chain of all rows, so those of all come together. */
    for (; s != NULL && n < DRAFTS_ROWS; s = sequence_next(s, LIST_PLAN)) {
        rows[n] = row_of(s, prospect(b, s));
        rows[n++].probe = all || (some && s->drafts.untried >= DRAFTS_PROBE);
    }
    drafts_choose(&b->drafts, rows, n, 0);
    for (s = b->decode->head; i < n; s = sequence_next(s, LIST_PLAN)) {
        s->drafts.probe = rows[i].probe;
        s->drafts.k = rows[i++].k;
        b->lockstep = b->lockstep || (!b->leads && s->drafts.k > 0);
    }
}

/* ---- the length of a row ---- */

/* Returns how many more tokens s may get in one row for its logprobs. */
static uint32_t window_left(const struct sequence *s)
{
    const struct logprobs *l = &s->portable.logprobs;

    return s->portable.sampling.logprobs
               ? less(l->window, l->end + s->plan.pending - s->portable.acked)
               : UINT32_MAX;
}

/* Returns the end of the positions that a row of s may name. */
static uint32_t table_end(const struct draft_rows *b, const struct sequence *s)
{
    uint32_t end = s->portable.n_prompt + s->portable.max_tokens - 1;

    return b->limits->has_blocks ? min_u32(end, s->memory.need.n[POOL_BLOCKS] *
                                                    b->limits->block_tokens)
                                 : end;
}

/* Returns the end of a row of drafts: before the position behind which decode
 * saves its state. */
static uint32_t save_end(const struct draft_rows *b, const struct sequence *s)
{
    return b->reuse != NULL && reuse_rolls(b->reuse, s)
               ? (s->plan.n_planned / PREFIX_UNIT + 1) * PREFIX_UNIT - 1
               : UINT32_MAX;
}

/* Returns how many drafts the step has room for. */
static uint32_t step_room(const struct draft_rows *b, const struct batch *t,
                          uint32_t spare)
{
    uint32_t kept = less(b->limits->keep_tokens, t->n_kept);

    return min_u32(min_u32(spare, less(kept, 1)), b->limits->chunk_tokens - 1);
}

/* Returns how many of n drafts the other stages have room for. */
static uint32_t stages_room(const struct draft_rows *b, const struct batch *t,
                            const struct sequence *s, uint32_t n)
{
    const struct role *r = keeper(b);

    return r != NULL && n > 0 ? less(r->ops->keep_room(r->self, t, s, n + 1), 1)
                              : n;
}

struct draft_row draft_rows_fit(const struct draft_rows *b,
                                const struct batch *t, const struct sequence *s,
                                uint32_t spare)
{
    const struct sequence_drafts *d = &s->drafts;
    uint32_t next = s->plan.n_planned + 1, n = min_u32(d->n, d->k);
    struct draft_row row = {.n_tokens = 1};

    if (d->k == 0 || s->plan.pending > 0) {
        return row;
    }
    n = min_u32(n, step_room(b, t, spare));
    n = min_u32(n, less(window_left(s), 1));
    n = min_u32(n, less(table_end(b, s), next));
    n = min_u32(n, less(save_end(b, s), next));
    n = stages_room(b, t, s, n);
    if (d->mtp && proposer_in_engine((enum proposer)d->proposer)) {
        row.propose = min_u32(d->k, less(table_end(b, s), next + n));
    }
    if (batch_has_room(b->limits, b->table->pool, t, s,
                       next + n + row.propose)) {
        row.n_tokens = 1 + n;
        return row;
    }
    return (struct draft_row){.n_tokens = 1};
}

/* ---- the MTP layer ---- */

/* A sequence begins with the MTP layer also where drafts do not pay, now and
 * then, because that may have changed. */
static bool tries(struct draft_rows *b, const struct sequence *s)
{
    struct drafts_row row = row_of(s, s->drafts.most);

    return drafts_may_try(&b->drafts) ||
           drafts_pay(&b->drafts, &row, b->accepts[s->drafts.proposer],
                      b->decode->n);
}

static bool stops(struct draft_rows *b, const struct sequence *s)
{
    struct drafts_row row = row_of(s, s->drafts.most);

    return drafts_stop(&b->drafts, &row, b->accepts[s->drafts.proposer],
                       b->decode->n, s->drafts.idle);
}

void draft_rows_begin(struct draft_rows *b, struct sequence *s)
{
    struct sequence_drafts *d = &s->drafts;

    follow_proposer(b, s);
    if (!d->begun) {
        d->begun = true;
        d->mtp = b->limits->drafts > 0 &&
                 proposer_in_engine((enum proposer)d->proposer) && tries(b, s);
    }
    d->mtp = d->mtp && !d->hole && !stops(b, s);
    d->hole = d->hole || (b->limits->proposers.has_mtp && !d->mtp);
}

uint32_t draft_rows_propose(struct draft_rows *b, struct sequence *s,
                            uint32_t n)
{
    struct sequence_drafts *d = &s->drafts;
    uint32_t end = s->plan.n_planned + n;
    struct drafts_row row;

    if (!d->mtp || end < sequence_known(s)) {
        return 0;
    }
    row = row_of(s, min_u32(d->most, less(s->portable.max_tokens,
                                          s->portable.n_generated + 2)));
    drafts_choose(&b->drafts, &row, 1, b->decode->n);
    return min_u32(row.k, less(table_end(b, s), end));
}

/* ---- rows ---- */

/* Returns the id behind the row, if it is known. */
static uint32_t next_of(const struct draft_rows *b, const struct sequence *s,
                        const struct plan_row *row)
{
    return row->mtp && !row->sample
               ? paged_get(&b->table->slab, &s->portable.tokens,
                           row->position + row->n_tokens)
               : 0;
}

void draft_rows_fill(struct draft_rows *b, struct batch *t, struct sequence *s,
                     struct plan_row *row, uint32_t propose)
{
    struct sequence_drafts *d = &s->drafts;
    const struct role *r = keeper(b);

    row->mtp = d->mtp;
    row->propose = d->mtp && row->sample ? propose : 0;
    row->next = next_of(b, s, row);
    if (row->n_drafts > 0) {
        memcpy(&t->plan.tokens[row->token + row->n_tokens - row->n_drafts],
               d->ids, row->n_drafts * sizeof *d->ids);
        t->n_kept += row->n_tokens;
        b->drafts.drafted_at = b->drafts.n_steps;
        if (r != NULL) {
            r->ops->keep_inputs(r->self, s, row);
        }
    }
    if (row->sample && s->portable.n_generated > 0) {
        d->untried = row->n_drafts > 0 ? 0 : d->untried + 1;
        d->idle = row->n_drafts > 0 && !d->probe ? 0 : d->idle + 1;
    }
    proposer_drop(s);
}

/* With one plan in flight the device waits behind each, with drafts or not. */
void draft_rows_sent(struct draft_rows *b, const struct batch *t)
{
    int64_t us = t->sent_us - b->drafted.sent_us - b->drafted.device_us;

    if (b->limits->depth > 1 && !b->leads && t->n_decode > 0 &&
        b->drafted.step > 0 && b->drafted.step + 1 == t->plan.step) {
        drafts_note_gap(&b->drafts, us > 0 ? (uint64_t)us : 0);
    }
}
