/* pool_plans.c - What the next plan copies: blocks that moved, and pages to and
 * from the host tier, in the order in which they were recorded. */
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/pool.h"

uint32_t pool_page(const struct pool *p, uint32_t block)
{
    return p->blocks[block].page;
}

uint32_t pool_swaps_left(const struct pool *p)
{
    uint32_t used = p->n_swaps + p->n_given;

    return used < POOL_SWAPS_MAX ? POOL_SWAPS_MAX - used : 0;
}

/* Records a copy of one page, in the last record if it continues that. */
static void swap_page(struct pool *p, const struct plan_copy *c)
{
    struct plan_copy *last = p->n_moves > 0 ? &p->moves[p->n_moves - 1] : NULL;

    if (last != NULL && last->kind == c->kind &&
        last->from + last->n == c->from && last->to + last->n == c->to) {
        last->n++;
        return;
    }
    p->moves[p->n_moves++] = *c;
    p->n_swaps++;
}

void pool_copy_out(struct pool *p, uint32_t page, uint32_t host)
{
    uint32_t block = p->places.owners[page];
    struct plan_copy c = {.from = page, .to = host, .n = 1, .kind = COPY_OUT};

    /* The copy reads what a recorded move brings there, also when the block is
     * freed next. */
    if (block != PLACE_NONE && !PLANT(SWAP_STALE)) {
        p->blocks[block].arrives = 0;
    }
    swap_page(p, &c);
    poison_move(&p->poison, page);
}

void pool_copy_in(struct pool *p, uint32_t host, uint32_t page)
{
    struct plan_copy c = {.from = host, .to = page, .n = 1, .kind = COPY_IN};

    swap_page(p, &c);
}

/* Appends a copy to out[0..n), to the last one if they make one range that does
 * not overlap with its target; returns the new n. */
static uint32_t append(struct plan_copy *out, uint32_t n,
                       const struct plan_copy *m)
{
    struct plan_copy *last = n > 0 ? &out[n - 1] : NULL;
    uint32_t apart;

    if (last != NULL && last->kind == m->kind &&
        last->from + last->n == m->from && last->to + last->n == m->to) {
        apart = m->from > m->to ? m->from - m->to : m->to - m->from;
        if (m->kind != COPY_PAGES || apart >= last->n + m->n) {
            last->n += m->n;
            return n;
        }
    }
    out[n] = *m;
    return n + 1;
}

/* A plan has the move, or the copy. */
static void give_move(struct pool *p, const struct plan_copy *m)
{
    for (uint32_t k = 0; k < m->n; k++) {
        uint32_t block =
            m->kind == COPY_PAGES ? p->places.owners[m->to + k] : PLACE_NONE;

        if (block != PLACE_NONE) {
            p->blocks[block].arrives = 0;
        }
        if (m->kind != COPY_IN) {
            poison_given(&p->poison, m->from + k);
        }
    }
}

uint32_t pool_take_moves(struct pool *p, struct plan_copy *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_moves; i++) {
        const struct plan_copy *m = &p->moves[i];

        give_move(p, m);
        if (m->n > 0) {
            n = append(out, n, m);
        }
    }
    p->n_given += p->n_swaps;
    p->n_moves = p->n_swaps = 0;
    return n;
}

void pool_end_plan(struct pool *p)
{
    p->n_given = 0;
}

/* Counts the copies to and from the host tier that come back. */
static void untake_swaps(struct pool *p, const struct plan_copy *moves,
                         uint32_t n)
{
    uint32_t n_swaps = 0;

    for (uint32_t i = 0; i < n; i++) {
        n_swaps += moves[i].kind != COPY_PAGES;
    }
    p->n_swaps += n_swaps;
    p->n_given -= n_swaps < p->n_given ? n_swaps : p->n_given;
}

void pool_untake_moves(struct pool *p, const struct plan_copy *moves,
                       uint32_t n)
{
    if (n > 2 * PLAN_COPIES_MAX - p->n_moves) {
        pool_violation(p, "too-many-moves", POOL_BLOCKS, n);
        return;
    }
    memmove(p->moves + n, p->moves, p->n_moves * sizeof *moves);
    for (uint32_t i = 0; i < p->n_moves; i++) {
        const struct plan_copy *m = &p->moves[n + i];
        bool moves_block = m->n > 0 && m->kind == COPY_PAGES;
        uint32_t block = moves_block ? p->places.owners[m->to] : PLACE_NONE;

        if (block != PLACE_NONE && p->blocks[block].arrives == i + 1) {
            p->blocks[block].arrives += n;
        }
    }
    /* These stay even if their blocks are freed: a block that has moved on
     * since needs the copy. */
    memcpy(p->moves, moves, n * sizeof *moves);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < moves[i].n && moves[i].kind != COPY_IN; k++) {
            poison_move(&p->poison, moves[i].from + k);
        }
    }
    p->n_moves += n;
    untake_swaps(p, moves, n);
}

uint32_t pool_take_freed(struct pool *p, struct plan_copy *out)
{
    return poison_take(&p->poison, &p->places, out);
}
