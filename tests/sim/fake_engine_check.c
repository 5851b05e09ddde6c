#include "tests/sim/fake_engine_internal.h"

void fake_engine_wrong(struct fake_engine *e, const struct plan_row *r,
                       const char *what)
{
    sim_fail(e->sim, -1, "worker %u: plan: %s (sequence %llu, position %u)",
             e->w, what, (unsigned long long)(r ? r->sequence : 0),
             r ? r->position : 0);
}

struct tracked *fake_engine_track(struct fake_engine *e, uint64_t sequence)
{
    struct tracked *t = &e->tracked[sequence % TRACKED];

    while (t >= &e->tracked[e->n_tracked]) {
        e->tracked[e->n_tracked++] = (struct tracked){0};
    }
    if (t->sequence != sequence) {
        *t = (struct tracked){.sequence = sequence};
    }
    return t;
}

void fake_engine_scribble(struct fake_engine *e, uint32_t block)
{
    for (uint32_t i = 0; i < e->draw->block_tokens; i++) {
        e->cells[(size_t)block * e->draw->block_tokens + i] =
            (struct cell){0x0badu, UINT32_MAX};
    }
}

/* Counts a sequence that ended while it was computed again, when another one
 * takes its memory. */
static void note_owner(struct fake_engine *e, uint64_t sequence)
{
    struct tracked *t = &e->tracked[sequence % TRACKED];

    if (t < &e->tracked[e->n_tracked] && t->sequence == sequence && t->again) {
        e->sim->counts.cells.deeds[DEED_AGAIN_ENDED]++;
        t->again = false;
    }
}

/* Makes the row hold table entry k. */
static void name_block(struct fake_engine *e, const struct plan_row *r,
                       uint32_t k, uint32_t block)
{
    struct holder *h = &e->block_of[block];

    if (h->plans && h->sequence != r->sequence) {
        fake_engine_wrong(e, r, "block of another sequence in flight");
    }
    if (h->row == e->rows) {
        fake_engine_wrong(e, r, "block is twice in a table");
    }
    h->row = e->rows;
    if (h->sequence != r->sequence) {
        note_owner(e, h->sequence);
    }
    if (h->sequence != r->sequence &&
        r->position <= k * e->draw->block_tokens) {
        fake_engine_scribble(e, block);
    }
    h->sequence = r->sequence;
    e->named_blocks += h->plans++ == 0;
}

static bool zeroes(const struct plan *p, uint32_t slot)
{
    for (uint32_t i = 0; i < p->n_zero; i++) {
        if (p->zero_slots[i] == slot) {
            return true;
        }
    }
    return false;
}

static void name_slot(struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r)
{
    struct holder *h = &e->slot_of[r->slot];

    if (h->plans && h->sequence != r->sequence) {
        fake_engine_wrong(e, r, "slot of another sequence in flight");
    }
    if (h->sequence != r->sequence && !zeroes(p, r->slot)) {
        fake_engine_wrong(e, r, "slot was not zeroed");
    }
    h->sequence = r->sequence;
    e->named_slots += h->plans++ == 0;
}

static bool is_stage(const struct fake_engine *e)
{
    return fake_engine_takes_hidden(e) || fake_engine_gives_hidden(e);
}

static void check_chain(struct fake_engine *e, const struct plan_row *r)
{
    const struct plan_row *l;

    if (is_stage(e)) {
        fake_engine_wrong(e, r, "chained row on a stage");
    } else if (r->n_tokens != 1 || r->kind != ROW_GENERATED) {
        fake_engine_wrong(e, r, "chained row is not one generated token");
    } else if (r->chain_row >= e->n_last_rows) {
        fake_engine_wrong(e, r, "chained row without a previous plan");
    } else {
        l = &e->last_rows[r->chain_row];
        if (!l->sample || l->sequence != r->sequence ||
            l->position + l->n_tokens != r->position ||
            (r->sample && l->index + 1 != r->index)) {
            fake_engine_wrong(e, r,
                              "chained row does not follow its predecessor");
        }
    }
}

static void check_tokens(struct fake_engine *e, const struct plan *p,
                         const struct plan_row *r)
{
    if (r->token > p->n_tokens || r->n_tokens > p->n_tokens - r->token) {
        fake_engine_wrong(e, r, "tokens out of range");
        return;
    }
    for (uint32_t i = 0; i < r->n_tokens && !fake_engine_takes_hidden(e); i++) {
        if (p->tokens[r->token + i] >= e->model->vocab) {
            fake_engine_wrong(e, r, "token id outside the vocabulary");
        }
    }
}

static void check_shape(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r)
{
    const struct worker_draw *d = e->draw;
    uint32_t end = r->position + r->n_tokens;

    if (r->n_tokens == 0 || end > e->model->context) {
        fake_engine_wrong(e, r, "row is empty or exceeds the context");
    } else if (r->n_tokens > d->chunk_tokens && !fake_engine_takes_hidden(e)) {
        fake_engine_wrong(e, r, "chunk exceeds chunk_tokens");
    } else if (r->block > p->n_blocks || r->n_blocks > p->n_blocks - r->block) {
        fake_engine_wrong(e, r, "block table out of range");
    } else if (e->shard.attention &&
               (uint64_t)r->n_blocks * d->block_tokens < end) {
        fake_engine_wrong(e, r, "block table does not cover the row");
    } else if ((r->slot == SLOT_NONE) == e->shard.linear ||
               (r->slot != SLOT_NONE && r->slot >= d->n_slots)) {
        fake_engine_wrong(e, r, "invalid slot");
    } else if (r->sample && !r->sampling && !fake_engine_gives_hidden(e)) {
        fake_engine_wrong(e, r, "row to sample has no sampling parameters");
    } else if (r->chained) {
        check_chain(e, r);
    } else {
        check_tokens(e, p, r);
    }
}

/* Begins the sequence anew if this row is its first one again.  Takes over the
 * marks of the previous stage: this stage may not have run the part that
 * failed. */
static void begin_row(struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r, struct tracked *t)
{
    struct fake_hidden h = {0};

    if (fake_engine_takes_hidden(e) && !e->sim->failed &&
        !fake_hidden_get(&h, p->hidden + (size_t)r->token * FAKE_HIDDEN,
                         e->model->salt, e->shard.begin)) {
        h = (struct fake_hidden){0};
    }
    if (r->position == 0 && (t->next > 0 || h.again)) {
        *t = (struct tracked){
            .sequence = r->sequence, .again = true, .anew = true};
        e->sim->counts.cells.deeds[DEED_AGAIN]++;
        e->sim->counts.cells.deeds[DEED_AGAIN_STAGED] +=
            fake_engine_takes_hidden(e);
    }
    t->tainted = t->tainted || h.tainted;
}

static void check_row(struct fake_engine *e, const struct plan *p, uint32_t i)
{
    const struct plan_row *r = &p->rows[i];
    struct tracked *t = fake_engine_track(e, r->sequence);

    e->rows++;
    check_shape(e, p, r);
    begin_row(e, p, r, t);
    if (r->position != t->next && !t->tainted) {
        fake_engine_wrong(e, r, "gap in the positions");
    }
    t->next = r->position + r->n_tokens;
    for (uint32_t k = 0; k < r->n_blocks && !e->sim->failed; k++) {
        uint32_t block = p->blocks[r->block + k];

        if (block >= e->draw->n_blocks) {
            fake_engine_wrong(e, r, "block number out of range");
            return;
        }
        name_block(e, r, k, block);
    }
    if (r->slot != SLOT_NONE && !e->sim->failed) {
        name_slot(e, p, r);
    }
}

/* Checks hidden states from the previous stage, and the rows that the next
 * stage reads. */
static void check_hidden(struct fake_engine *e, const struct plan *p)
{
    uint32_t at = 0;

    if ((p->hidden != NULL) != fake_engine_takes_hidden(e)) {
        fake_engine_wrong(e, NULL, "hidden states missing or unexpected");
    }
    for (uint32_t i = 0; i < p->n_rows && is_stage(e); i++) {
        if (p->rows[i].token != at) {
            fake_engine_wrong(e, &p->rows[i],
                              "rows are not contiguous in the plan's tokens");
        }
        at += p->rows[i].n_tokens;
    }
    if (is_stage(e) && at != p->n_tokens) {
        fake_engine_wrong(e, NULL, "tokens without a row");
    }
}

/* Returns whether the plan computes a sequence again, which is then its only
 * one.  A row that samples completes this. */
static bool computes_again(struct fake_engine *e, const struct plan *p)
{
    bool again = false;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        struct tracked *t = fake_engine_track(e, p->rows[i].sequence);

        if (t->again && p->n_rows > 1) {
            fake_engine_wrong(e, &p->rows[i],
                              "sequence is computed again beside others");
        }
        again = again || t->again;
        t->again = t->again && !p->rows[i].sample;
    }
    return again;
}

bool fake_engine_check(struct fake_engine *e, const struct plan *p)
{
    uint32_t n = 0;

    check_hidden(e, p);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        n += p->rows[i].n_tokens;
        for (uint32_t j = 0; j < i; j++) {
            if (p->rows[i].sequence == p->rows[j].sequence) {
                fake_engine_wrong(e, &p->rows[i], "sequence has two rows");
            }
        }
    }
    if (p->n_rows == 0 || p->n_rows > e->draw->max_rows) {
        fake_engine_wrong(e, NULL, "no rows, or more than max_rows");
    }
    if (n > e->draw->step_tokens) {
        fake_engine_wrong(e, NULL, "more tokens than step_tokens");
    }
    for (uint32_t i = 0; i < p->n_zero; i++) {
        if (p->zero_slots[i] >= e->draw->n_slots ||
            e->slot_of[p->zero_slots[i]].plans) {
            fake_engine_wrong(e, NULL,
                              "slot to zero is out of range or in flight");
            return false;
        }
    }
    for (uint32_t i = 0; i < p->n_rows && !e->sim->failed; i++) {
        check_row(e, p, i);
    }
    return computes_again(e, p);
}
