/* fake_engine_twins.c - Choices of one request, which share its prompt. */
#include "tests/sim/fake_engine_internal.h"

static bool copies_after(const struct plan *p, uint32_t from, uint32_t to,
                         uint32_t n)
{
    for (uint32_t i = 0; i < p->n_after; i++) {
        if (p->after[i].from == from && p->after[i].to == to &&
            p->after[i].n == n) {
            return true;
        }
    }
    return false;
}

void fake_twin_check(struct fake_engine *e, const struct plan *p,
                     const struct plan_row *r)
{
    const struct plan_row *source = &p->rows[r->source];

    if (source >= r || fake_row_is_twin(source) || !source->sample) {
        fake_engine_wrong(e, r, "twin without its source");
    } else if (!r->sample || source->index != r->index || r->chained ||
               r->n_saves) {
        fake_engine_wrong(e, r, "twin of another index, or with saves");
    } else if ((r->slot == SLOT_NONE) == e->shard.linear ||
               (r->slot != SLOT_NONE && !fake_is_slot(e, r->slot))) {
        fake_engine_wrong(e, r, "invalid slot");
    } else if (r->slot != SLOT_NONE &&
               !copies_after(p, source->slot, r->slot, e->per_slot)) {
        fake_engine_wrong(e, r, "twin without a state");
    } else if (!r->sampling && !fake_engine_gives_hidden(e)) {
        fake_engine_wrong(e, r, "row to sample has no sampling parameters");
    }
}

void fake_twin_begin(struct fake_engine *e, const struct plan *p,
                     const struct plan_row *r, struct tracked *t)
{
    const struct plan_row *source = &p->rows[r->source];
    uint32_t end = source->position + source->n_tokens;

    *t = (struct tracked){.sequence = r->sequence,
                          .request = t->request,
                          .source = source->sequence,
                          .n_source = source->position + source->n_tokens,
                          .next = end,
                          .restored = end,
                          .tainted =
                              fake_engine_track(e, source->sequence)->tainted};
    e->sim->counts.cells.deeds[DEED_TWIN]++;
}

bool fake_twin_shares(const struct plan *p, const struct plan_row *r,
                      uint32_t k)
{
    const struct plan_row *source = &p->rows[r->source];

    return k < source->n_blocks &&
           p->blocks[r->block + k] == p->blocks[source->block + k];
}

/* Returns the row of a sequence; NULL if the plan has none. */
static const struct plan_row *row_of(const struct plan *p, uint64_t sequence)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (p->rows[i].sequence == sequence) {
            return &p->rows[i];
        }
    }
    return NULL;
}

/* Checks the table of a sequence that began as a twin against that of its
 * source, in this plan. */
static void check_table(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, const struct plan_row *source,
                        uint32_t n)
{
    if (r->n_blocks < n || source->n_blocks < n) {
        fake_engine_wrong(e, r, "table does not cover the prompt of twins");
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (p->blocks[r->block + k] != p->blocks[source->block + k]) {
            fake_engine_wrong(e, r, "twins hold a block of their prompt twice");
            return;
        }
    }
}

static bool comes_back(const struct plan *p, uint32_t page)
{
    for (uint32_t i = 0; i < p->n_before; i++) {
        const struct plan_copy *c = &p->before[i];

        if (c->kind == COPY_IN && page >= c->to && page - c->to < c->n) {
            return true;
        }
    }
    return false;
}

/* Marks the sequences whose blocks come back from the host tier: they have
 * their own from now on. */
static void mark_swapped(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_rows && p->n_before > 0; i++) {
        const struct plan_row *r = &p->rows[i];

        for (uint32_t k = 0; k < r->n_blocks; k++) {
            if (comes_back(p, p->blocks[r->block + k])) {
                fake_engine_track(e, r->sequence)->redone = true;
            }
        }
    }
}

void fake_twins_check(struct fake_engine *e, const struct plan *p)
{
    mark_swapped(e, p);
    for (uint32_t i = 0; i < p->n_rows && e->shard.attention && !e->sim->failed;
         i++) {
        const struct plan_row *r = &p->rows[i], *source;
        const struct tracked *t = fake_engine_track(e, r->sequence);

        if (t->n_source == 0 || t->redone) {
            continue;
        }
        source = row_of(p, t->source);
        if (source != NULL && !fake_engine_track(e, t->source)->redone) {
            check_table(e, p, r, source, t->n_source / e->draw->block_tokens);
        }
    }
}
