/* ring_drafts.c - Rows with drafts at the simulated stages, and the MTP layer
 * of the last one. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"
#include "tests/unit/worker/stages/ring.h"

#define KIND_ALL                                            \
    ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED | \
     (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE)
#define KIND_SAMPLE ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE)
#define KIND_MTP    ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_MTP)

void ring_drafts(struct ring *g, uint32_t keep_tokens, bool mtp)
{
    g->n_keep_tokens = g->n_stages - 1;
    for (uint32_t i = 0; i < g->n_keep_tokens; i++) {
        g->keep_tokens[i] = keep_tokens + 3 * (g->n_keep_tokens - 1 - i);
    }
    keeps_init(&g->keeps, keep_tokens);
    g->proposes = mtp;
}

void ring_fill_keep_tokens(const struct ring *g, Sluice__V1__StageGeometry *out)
{
    out->n_keep_tokens = g->n_keep_tokens;
    out->keep_tokens = (uint32_t *)(uintptr_t)g->keep_tokens;
    out->has_proposes = out->proposes = g->proposes;
}

/* ---- Forward ---- */

/* Positions in the columns that are shorter than the rows. */
struct cursor {
    size_t keep, id, next, token;
};

static void check_row(const struct ring_said *s, uint32_t i)
{
    const struct ring_drafts *d = &s->drafts[i];

    if (d->n > 0) {
        assert_in_range(d->n, 1, DRAFTS_MAX);
        assert_int_equal(s->count[i], d->n + 1);
        assert_int_equal(s->kind[i] & ~KIND_MTP, KIND_ALL);
    }
    if (d->propose > 0) {
        assert_in_range(d->propose, 1, DRAFTS_MAX);
        assert_true(s->kind[i] & KIND_MTP);
        assert_true(s->kind[i] & KIND_SAMPLE);
        assert_in_range(s->count[i], 1, UINT32_MAX);
    }
}

static void take_region(struct ring *g, const struct ring_said *s, uint32_t i,
                        uint32_t keep_at)
{
    struct ring_grant *x = &g->grants[s->grants[i]];

    assert_int_equal(x->n_kept, 0);
    x->accepted = 0;
    if (s->failed) {
        return;
    }
    assert_true(keeps_put(&g->keeps, keep_at, s->count[i]));
    x->keep_at = keep_at;
    x->n_kept = s->count[i];
}

/* Accepts drafts up to the first that differs, or ends the sequence. */
static void verify(struct ring *g, struct ring_said *s, uint32_t i,
                   const float *x)
{
    struct ring_drafts *d = &s->drafts[i];
    struct ring_grant *grant = &g->grants[s->grants[i]];

    for (d->n_accepted = 0; d->n_accepted < d->n; d->n_accepted++) {
        s->token[i] = (uint32_t)x[(size_t)d->n_accepted * RING_HIDDEN];
        if (s->token[i] != d->ids[d->n_accepted] ||
            (s->token[i] == RIG_EOS && !grant->ignores_eos)) {
            break;
        }
    }
    s->token[i] = (uint32_t)x[(size_t)d->n_accepted * RING_HIDDEN];
    grant->accepted = d->n_accepted + 1;
    g->n_draft_rows++;
    g->n_accepted += d->n_accepted;
    g->n_refused += d->n - d->n_accepted;
}

static bool is_right(const struct ring *g, uint32_t id, uint32_t index)
{
    switch (g->rig->drafts) {
    case RIG_DRAFTS_RIGHT:
        return true;
    case RIG_DRAFTS_WRONG:
        return false;
    case RIG_DRAFTS_THIRD:
        return index % 3 != 0;
    default:
        return rig_mix(id, index) % 4 != 0;
    }
}

/* x: the hidden state behind which the token was sampled. */
static void propose(const struct ring *g, struct ring_said *s, uint32_t i,
                    const float *x)
{
    struct ring_drafts *d = &s->drafts[i];
    uint32_t index = s->index[i] + d->n_accepted + 1;

    d->n_proposed = d->propose;
    if (g->rig->drafts == RIG_DRAFTS_MIXED && s->token[i] % 8 == 0) {
        d->n_proposed = s->token[i] / 8 % (d->propose + 1);
    }
    for (uint32_t j = 0; j < d->n_proposed; j++) {
        uint32_t id = (uint32_t)x[RING_TOKENS + j];

        d->proposals[j] =
            is_right(g, id, index + j) ? id : (id + 1) % RIG_VOCAB;
    }
}

static void take_row(struct ring *g, struct ring_said *s,
                     const Sluice__V1__StageForward *m, uint32_t i,
                     const float *x, struct cursor *at)
{
    struct ring_drafts *d = &s->drafts[i];
    bool mtp = (s->kind[i] & KIND_MTP) != 0;

    d->propose = m->n_propose > 0 ? m->propose[i] : 0;
    check_row(s, i);
    assert_true(!mtp || g->proposes);
    if (d->n > 0) {
        take_region(g, s, i, m->keep_at[at->keep++]);
    }
    if (s->failed) {
        return;
    }
    if (d->n > 0) {
        memcpy(d->ids, &m->tokens[at->id + 1], d->n * sizeof *d->ids);
        verify(g, s, i, x + at->token * RING_HIDDEN);
    }
    if (s->count[i] > 0) {
        propose(g, s, i,
                x + (at->token + s->count[i] - 1 - d->n + d->n_accepted) *
                        RING_HIDDEN);
    }
    at->id += d->n > 0 || mtp ? s->count[i] : 0;
    at->next += mtp && (s->kind[i] & KIND_SAMPLE) == 0;
    at->token += s->count[i];
}

void ring_take_drafts(struct ring *g, struct ring_said *s,
                      const Sluice__V1__StageForward *m, const float *x)
{
    struct cursor at = {0, 0, 0, 0};

    assert_true(m->n_drafts == 0 || m->n_drafts == s->n_rows);
    assert_true(m->n_propose == 0 || m->n_propose == s->n_rows);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        take_row(g, s, m, i, x, &at);
    }
    assert_int_equal(m->n_keep_at, at.keep);
    assert_int_equal(m->n_tokens, at.id);
    assert_int_equal(m->n_next, at.next);
}

/* ---- Result ---- */

void ring_add_drafts(const struct ring_said *s, uint32_t i, bool damaged,
                     struct ring_result *out)
{
    const struct ring_drafts *d = &s->drafts[i];
    Sluice__V1__StageResult *m = &out->m;

    if (d->n > 0) {
        out->accepted[m->n_accepted++] = damaged ? 0 : d->n_accepted;
    }
    if (d->propose > 0) {
        uint32_t n = damaged ? 0 : d->n_proposed;

        out->proposed[m->n_proposed++] = n;
        memcpy(&out->proposals[m->n_proposals], d->proposals,
               n * sizeof *d->proposals);
        m->n_proposals += n;
    }
}

void ring_fail_drafts(struct ring *g, const struct ring_said *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        g->grants[s->grants[i]].accepted = 0;
    }
}

/* ---- Accept ---- */

void ring_take_accept(struct ring *g, const Sluice__V1__StageAccept *m)
{
    assert_in_range(m->n_grant, 1, RING_ROWS);
    assert_int_equal(m->n_count, m->n_grant);
    for (size_t i = 0; i < m->n_grant; i++) {
        struct ring_grant *x = &g->grants[m->grant[i]];

        assert_true(x->opened && !x->is_void && !x->removed);
        if (m->count[i] > 0) {
            assert_in_range(m->count[i], 1, x->n_kept);
            assert_int_equal(m->count[i], x->accepted);
            x->next += m->count[i] - 1;
        }
        if (x->n_kept > 0) {
            keeps_free(&g->keeps, x->keep_at);
        }
        x->n_kept = 0;
    }
    g->n_accepts++;
}
