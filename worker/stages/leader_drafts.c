/* Drafts over the stages: where inputs are kept, what is replayed here, and
 * Accept. */
#include <assert.h>
#include <string.h>

#include "common/base/minmax.h"
#include "worker/stages/leader.h"

/* ---- begin ---- */

void leader_drafts_begin(struct leader *l)
{
    struct leader_drafts *d = &l->drafts;

    keeps_init(&d->keeps, 0);
    d->n_ready = d->n_taken = 0;
    d->taken_step = 0;
    batcher_set_drafts(&l->sequences->batcher, 0, 0, false);
}

void leader_drafts_learn(struct leader *l, const Sluice__V1__StageGeometry *m)
{
    const struct worker_options *o = &l->assembly->base->o;
    uint32_t room = o->drafting.keep_tokens;

    /* A stage of an older version leaves the column short. */
    if (m->n_keep_tokens + 1 != l->assembly->n_stages) {
        room = 0;
    }
    for (size_t i = 0; i < m->n_keep_tokens; i++) {
        room = min_u32(room, m->keep_tokens[i]);
    }
    keeps_init(&l->drafts.keeps, room);
    if (room > 0) {
        batcher_set_drafts(&l->sequences->batcher, o->drafting.most, room,
                           m->proposes);
    }
}

/* ---- regions ---- */

static void free_region(struct leader *l, struct leader_note *note)
{
    if (note->n_kept > 0) {
        keeps_free(&l->drafts.keeps, note->keep_at);
    }
    note->n_kept = 0;
}

void leader_drafts_remove(struct leader *l, const struct sequence *s)
{
    free_region(l, leader_note(l, s));
}

/* Returns how many more logprobs the Result of t may get, if all rows that can
 * follow have as many as any. */
static uint32_t values_left(const struct leader *l, const struct batch *t)
{
    const struct batcher *b = &l->sequences->batcher;
    const struct plan *p = &t->plan;
    uint32_t rows = b->decode.n + b->prefill.n + b->again.n + b->twins.n;
    uint32_t used = 0;

    rows = min_u32(rows, b->limits.max_rows);
    rows = rows > p->n_rows ? rows - p->n_rows : 0;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        used += p->rows[i].sample ? (p->rows[i].n_drafts + 1) *
                                        sampling_width(p->rows[i].sampling)
                                  : 0;
    }
    used += rows * (1 + TOP_LOGPROBS_MAX);
    return used < RESULT_VALUES_MAX ? RESULT_VALUES_MAX - used : 0;
}

uint32_t leader_keep_room(const void *self, const struct batch *t,
                          const struct sequence *s, uint32_t n)
{
    const struct leader *l = self;
    uint32_t width = sampling_width(&s->portable.sampling);

    if (width > 0) {
        n = min_u32(n, 1 + values_left(l, t) / width);
    }
    return min_u32(n, keeps_room(&l->drafts.keeps));
}

void leader_keep_inputs(void *self, const struct sequence *s,
                        struct plan_row *row)
{
    struct leader *l = self;
    struct leader_note *note = leader_note(l, s);
    bool taken = keeps_take(&l->drafts.keeps, row->n_tokens, &row->keep_at);

    assert(taken && note->n_kept == 0);
    row->keep = l->assembly->base->o.pool.pages_per_slot > 0;
    note->keep_at = row->keep_at;
    note->n_kept = row->n_tokens;
}

/* ---- replays here ---- */

/* Takes back the replays of the newest plan, which has not run and will not. */
static void untake(struct leader *l)
{
    struct leader_drafts *d = &l->drafts;

    for (uint32_t i = 0; i < d->n_taken; i++) {
        const struct plan_replay *r = &d->taken[i];
        bool free = keeps_put(&d->keeps, r->keep_at, r->n_tokens);

        assert(free && d->n_ready < KEEPS_MAX);
        d->ready[d->n_ready++] = *r;
    }
    d->n_taken = 0;
}

/* A slot may have another owner when its replay runs, or none: the plan replays
 * before anything else writes those pages. */
void leader_replay(void *self, struct plan *p)
{
    struct leader *l = self;
    struct leader_drafts *d = &l->drafts;

    /* A plan of that number got no rows. */
    if (d->taken_step == p->step) {
        untake(l);
    }
    d->n_taken = d->n_ready;
    d->n_ready = 0;
    d->taken_step = p->step;
    for (uint32_t i = 0; i < d->n_taken; i++) {
        keeps_free(&d->keeps, d->ready[i].keep_at);
        d->taken[i] = d->ready[i];
        p->replays[p->n_replays++] = d->ready[i];
    }
}

void leader_refused(void *self, const struct batch *t)
{
    struct leader *l = self;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        if (t->plan.rows[i].n_drafts > 0) {
            free_region(l, leader_note(l, t->owners[i]));
        }
    }
    untake(l);
}

/* ---- Forward ---- */

static void fill_ids(struct leader *l, const struct plan *p,
                     const struct plan_row *row, Sluice__V1__StageForward *m)
{
    struct forward_columns *c = &l->columns;

    if (row->n_tokens > 0 && (row->n_drafts > 0 || row->mtp)) {
        memcpy(&c->ids[m->n_tokens], &p->tokens[row->token],
               row->n_tokens * sizeof c->ids[0]);
        m->n_tokens += row->n_tokens;
    }
    if (row->mtp && !row->sample) {
        c->next[m->n_next++] = row->next;
    }
}

void leader_fill_drafts(struct leader *l, const struct batch *t,
                        Sluice__V1__StageForward *m)
{
    const struct plan *p = &t->plan;
    struct forward_columns *c = &l->columns;
    bool propose = false;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        c->drafts[i] = row->n_drafts;
        c->propose[i] = row->propose;
        propose = propose || row->propose > 0;
        if (row->n_drafts > 0) {
            c->keep_at[m->n_keep_at++] = row->keep_at;
        }
        if (!m->has_failure) {
            fill_ids(l, p, row, m);
        }
    }
    m->n_drafts = m->n_keep_at > 0 ? p->n_rows : 0;
    m->n_propose = propose ? p->n_rows : 0;
    m->drafts = c->drafts;
    m->keep_at = c->keep_at;
    m->propose = c->propose;
    m->tokens = c->ids;
    m->next = c->next;
}

/* ---- Accept ---- */

/* Returns by how many of its inputs row i counts. */
static uint32_t accepted(const struct plan_result *r, const struct sequence *s,
                         uint32_t i)
{
    bool good = r->status == ST_OK && r->outcomes[i] == ROW_DONE &&
                s->plan.recompute != RECOMPUTE_WAITS;

    return good ? 1u + r->n_accepted[i] : 0;
}

/* Keeps the region until the next plan replays it here, or frees it. */
static void settle_region(struct leader *l, const struct sequence *s,
                          uint32_t n)
{
    struct leader_drafts *d = &l->drafts;
    struct leader_note *note = leader_note(l, s);

    if (n == 0 || s->memory.slot == SLOT_NONE) {
        free_region(l, note);
        return;
    }
    assert(d->n_ready < KEEPS_MAX);
    d->ready[d->n_ready++] =
        (struct plan_replay){s->memory.slot, note->keep_at, n};
    note->n_kept = 0;
}

void leader_accept(struct leader *l, const struct batch *t)
{
    Sluice__V1__StageAccept m = SLUICE__V1__STAGE_ACCEPT__INIT;
    struct forward_columns *c = &l->columns;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        const struct sequence *s = t->owners[i];
        uint32_t n = accepted(&l->sequences->result, s, i);

        /* A sequence that was removed meanwhile keeps none. */
        if (t->plan.rows[i].n_drafts > 0 && leader_note(l, s)->n_kept > 0) {
            c->grant[m.n_grant] = s->grant;
            c->accepted[m.n_grant++] = n;
            settle_region(l, s, n);
        }
    }
    if (m.n_grant > 0) {
        m.n_count = m.n_grant;
        m.grant = c->grant;
        m.count = c->accepted;
        leader_send(l, METHOD_STAGE_ACCEPT, &m.base);
    }
}
