/* fake_windows.c - Window tables of the fake engine's rows. */
#include "tests/sim/fake_engine_internal.h"

/* Returns the page of a block in a table, which the row has. */
static uint32_t page_of(const struct plan *p, const struct plan_row *r,
                        uint32_t block, uint32_t table)
{
    return p->blocks[r->window + table * r->n_window + block - r->window_first];
}

/* Returns the first position that a token at `position` sees. */
static uint32_t first_seen(const struct fake_engine *e, uint32_t position)
{
    uint32_t window = e->model->window;

    return position < window ? 0 : position - window + 1;
}

/* Returns whether the tables are in the plan and its pages in the pool. */
static bool is_table(struct fake_engine *e, const struct plan *p,
                     const struct plan_row *r)
{
    uint64_t n = (uint64_t)r->n_window * e->tables;

    if (r->window > p->n_blocks || n > p->n_blocks - r->window) {
        fake_engine_wrong(e, r, "window tables out of range");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!fake_in_memory(e, p->blocks[r->window + i], 1)) {
            fake_engine_wrong(e, r, "window block number out of range");
            return false;
        }
    }
    return true;
}

/* A twin has the table of its next row. */
static bool covers(const struct fake_engine *e, const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens, end = r->position + r->n_tokens;

    return fake_row_is_twin(r) ||
           (r->window_first * bt <= first_seen(e, r->position) &&
            (r->window_first + r->n_window) * bt >= end);
}

/* Returns the most window blocks that a sequence may hold at once.  A later
 * stage has no limit of its own: the leader's chunks count. */
static bool holds_too_many(const struct fake_engine *e,
                           const struct plan_row *r)
{
    uint32_t most =
        options_windows(&e->sim->options, e->w,
                        options_chunk(&e->sim->options, e->w), UINT32_MAX / 2);

    return !fake_engine_takes_hidden(e) && r->n_window * e->tables > most;
}

void fake_windows_claim(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens, end = r->position + r->n_tokens;

    if (!is_table(e, p, r)) {
        return;
    }
    if (!covers(e, r)) {
        fake_engine_wrong(e, r, "window tables do not cover the row");
        return;
    }
    if (holds_too_many(e, r)) {
        fake_engine_wrong(e, r, "more window blocks than a sequence may hold");
    }
    for (uint32_t k = r->position / bt;
         !fake_row_is_twin(r) && k * bt < end && !e->sim->failed; k++) {
        for (uint32_t i = 0; i < e->tables; i++) {
            fake_engine_claim(e, r, page_of(p, r, k, i));
        }
    }
    e->sim->counts.cells.deeds[DEED_WINDOW_MOVED] += r->window_first > 0;
}

void fake_windows_check(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, uint64_t row)
{
    for (uint32_t i = 0; i < r->n_window * e->tables && !e->sim->failed; i++) {
        struct page *g = &e->pages[p->blocks[r->window + i]];

        if (g->row == row) {
            fake_engine_wrong(e, r, "window block is twice in a table");
        }
        g->row = row;
        if (g->claim == e->plans && g->claim_row != row &&
            !fake_row_is_twin(r)) {
            fake_engine_wrong(e, r,
                              "row sees a window block that another one "
                              "writes");
        }
    }
}

void fake_windows_write(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, uint32_t token, uint32_t i)
{
    const struct tracked *t = fake_engine_track(e, r->sequence);
    uint32_t at = r->position + i;
    struct cell c = {token | (t->tainted ? CELL_SPOILT : 0), at << 1 | r->kind};

    for (uint32_t k = 0; k < e->tables; k++) {
        fake_memory_write_window(
            e, page_of(p, r, at / e->draw->block_tokens, k), k, c, t->request);
    }
}

/* Compares a position in all tables.  Returns its term of the digest. */
static uint64_t see(struct fake_engine *e, const struct plan *p,
                    const struct plan_row *r, uint32_t at)
{
    uint32_t bt = e->draw->block_tokens;
    bool tainted = fake_engine_track(e, r->sequence)->tainted;
    uint64_t first = 0;

    for (uint32_t i = 0; i < e->tables; i++) {
        const struct cell *c = &fake_memory_read_window(
            e, r, page_of(p, r, at / bt, i), i)[at % bt];
        uint64_t term = oracle_see(c->token, c->where >> 1,
                                   fake_engine_kind(e, c->where & 1));

        if (c->where >> 1 != at && !tainted) {
            fake_engine_wrong(e, r,
                              "row sees a window cell of another position");
        } else if (c->token & CELL_SPOILT && !tainted) {
            fake_engine_wrong(e, r, "row sees a damaged window cell");
        } else if (i > 0 && term != first && !tainted) {
            fake_engine_wrong(e, r, "the tables of a window block differ");
        }
        first = i == 0 ? term : first;
    }
    return first;
}

uint64_t fake_windows_see(struct fake_engine *e, const struct plan *p,
                          const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens, end = r->position + r->n_tokens;
    uint32_t last = first_seen(e, end - 1);
    uint64_t w = 0;

    for (uint32_t at = first_seen(e, r->position); at < end && !e->sim->failed;
         at++) {
        uint64_t term = see(e, p, r, at);

        if (at % bt == 0 || at == last) {
            fake_memory_check_owner(e, r, page_of(p, r, at / bt, 0));
        }
        w += at >= last ? term : 0;
    }
    return w;
}

bool fake_windows_has(const struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r, uint32_t page)
{
    for (uint32_t i = 0; i < r->n_window * e->tables; i++) {
        if (p->blocks[r->window + i] == page) {
            return true;
        }
    }
    return false;
}
