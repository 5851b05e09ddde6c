/* rig_drafts.c - Rows with drafts in the fake engine, and its MTP layer. */
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"
#include "tests/unit/worker/rig_memory.h"
#include "tests/unit/worker/stages/ring.h"

void rig_draw_drafts(struct worker_options *o, uint64_t seed)
{
    uint64_t draw = rig_mix(0, (uint32_t)seed) >> 8;

    if (draw % 4 == 0) {
        return;
    }
    o->drafting.most = 1 + (uint32_t)(draw / 4 % DRAFTS_MAX);
    o->drafting.chooses = draw / 32 % 3 == 0;
    o->drafting.drafter = (enum worker_drafter)(draw / 96 % 3);
    o->drafting.has_mtp = draw / 288 % 4 > 0;
    o->drafting.keep_tokens =
        (o->drafting.most + 1) * (1 + (uint32_t)(draw / 1152 % 5));
}

static void check_row(const struct rig *r, const struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens + row->propose;

    assert_true(!row->mtp ||
                (r->ring != NULL ? r->ring->proposes : r->o.drafting.has_mtp));
    assert_in_range(row->propose, 0, row->mtp && row->sample ? DRAFTS_MAX : 0);
    assert_int_equal(row->keep, r->ring != NULL && row->n_drafts > 0 &&
                                    r->o.pool.pages_per_slot > 0);
    if (r->o.pool.pages_per_block > 0 && row->n_tokens > 0) {
        assert_true(row->n_blocks * r->o.block_tokens >= end);
    }
    if (row->n_drafts == 0) {
        return;
    }
    assert_in_range(row->n_drafts, 1, DRAFTS_MAX);
    assert_int_equal(row->n_tokens, row->n_drafts + 1);
    assert_int_equal(row->kind, ROW_GENERATED);
    assert_int_equal(row->n_saves, 0);
    assert_true(row->sample && !row->chained);
}

void rig_drafts_check(const struct rig *r, const struct plan *p)
{
    uint32_t kept = 0;

    assert_in_range(p->n_replays, 0, r->ring != NULL ? PLAN_ROWS_MAX : 0);
    assert_int_equal(p->n_eos, r->o.n_eos);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        check_row(r, &p->rows[i]);
        kept += p->rows[i].n_drafts > 0 ? p->rows[i].n_tokens : 0;
    }
    assert_in_range(kept, 0, r->o.drafting.keep_tokens);
}

static bool ends(const struct rig *r, const struct plan *p,
                 const struct plan_row *row, uint32_t id)
{
    bool end = sampling_stops(row->sampling, id);

    (void)r;
    for (uint32_t i = 0; i < p->n_eos && !row->sampling->ignore_eos; i++) {
        end = end || p->eos[i] == id;
    }
    return end;
}

static void note_logprobs(const struct plan_row *row, uint32_t i, uint32_t j,
                          uint32_t id, struct plan_result *out)
{
    uint32_t index = row->index + j;

    if (!row->sampling->logprobs) {
        return;
    }
    out->draft_logprobs[i][j] = rig_logprob(id, index);
    for (uint32_t k = 0; k < row->sampling->n_top_logprobs; k++) {
        out->draft_top[i][j][k] = rig_top(id, index, k);
    }
}

uint64_t rig_drafts_verify(struct rig *r, struct rig_memory *m,
                           const struct plan *p, uint32_t i,
                           struct plan_result *out)
{
    const struct plan_row *row = &p->rows[i];
    const uint32_t *ids = &p->tokens[row->token];
    uint64_t h = rig_memory_read(m, p, row);
    uint32_t n = 0;

    h = rig_memory_write(m, p, row, 0, ids[0], h);
    while (n < row->n_drafts) {
        uint32_t id = rig_token(r, row, h, row->index + n);

        if (id != ids[1 + n] || ends(r, p, row, id)) {
            break;
        }
        note_logprobs(row, i, n, id, out);
        n++;
        h = rig_memory_write(m, p, row, n, id, h);
    }
    for (uint32_t j = n + 1; j < row->n_tokens; j++) {
        rig_memory_refuse(m, p, row, j, ids[j]);
    }
    out->n_accepted[i] = (uint8_t)n;
    r->n_computed += row->n_tokens;
    r->n_drafts += row->n_drafts;
    r->n_accepted += n;
    return h;
}

static bool is_right(const struct rig *r, uint64_t h, uint32_t index)
{
    switch (r->drafts) {
    case RIG_DRAFTS_RIGHT:
        return true;
    case RIG_DRAFTS_WRONG:
        return false;
    case RIG_DRAFTS_THIRD:
        return index % 3 != 0;
    default:
        return rig_mix(h, index) % 4 != 0;
    }
}

static void draft(const struct rig *r, const struct rig_memory *m,
                  const struct plan_row *row, uint32_t i, uint64_t h,
                  struct plan_result *out)
{
    uint32_t n = row->propose, id = out->tokens[i];
    uint32_t index =
        row->index + (row->n_drafts > 0 ? out->n_accepted[i] : 0) + 1;

    if (r->drafts == RIG_DRAFTS_MIXED && h % 8 == 0) {
        n = (uint32_t)(h / 8 % (n + 1));
    }
    for (uint32_t j = 0; j < n; j++) {
        h = rig_memory_mix(m, h, id, ROW_GENERATED);
        id = rig_token(r, row, h, index + j);
        if (!is_right(r, h, index + j)) {
            id = (id + 1) % RIG_VOCAB;
        }
        out->drafts[i][j] = id;
    }
    out->n_drafts[i] = (uint8_t)n;
}

void rig_drafts_propose(struct rig *r, struct rig_memory *m,
                        const struct plan *p, uint32_t i, uint64_t h,
                        struct plan_result *out)
{
    const struct plan_row *row = &p->rows[i];
    uint32_t n = row->n_drafts > 0 ? out->n_accepted[i] + 1u : row->n_tokens;

    assert_true(rig_memory_has_mtp(m, p, row));
    rig_memory_mtp(m, p, row, n);
    out->draft_us = 2;
    if (row->propose > 0) {
        draft(r, m, row, i, h, out);
    }
}

void rig_drafts_hide(const struct rig *r, const struct rig_memory *m,
                     const struct plan_row *row, uint64_t h, uint32_t index,
                     float *x)
{
    uint32_t id = rig_token(r, row, h, index);

    x[0] = (float)id;
    for (uint32_t j = 0; j < DRAFTS_MAX; j++) {
        h = rig_memory_mix(m, h, id, ROW_GENERATED);
        id = rig_token(r, row, h, index + 1 + j);
        x[RING_TOKENS + j] = (float)id;
    }
}

uint64_t rig_drafts_pass(struct rig *r, struct rig_memory *m,
                         const struct plan *p, uint32_t i, float *x)
{
    const struct plan_row *row = &p->rows[i];
    uint64_t h = rig_memory_read(m, p, row);

    for (uint32_t j = 0; j < row->n_tokens; j++) {
        uint32_t id = p->tokens[row->token + j];

        h = row->keep ? rig_memory_keep(m, p, row, j, id, h)
                      : rig_memory_write(m, p, row, j, id, h);
        rig_drafts_hide(r, m, row, h, row->index + j,
                        x + (size_t)(row->token + j) * RING_HIDDEN);
    }
    r->n_computed += row->n_tokens;
    r->n_drafts += row->n_drafts;
    return h;
}
