/* poison.h - Pages that were freed, for poison (worker/base/engine.h).
 *
 * The engine overwrites these pages before it does anything else in a plan, so
 * a page must not be poisoned that is taken again, or that a move of the same
 * or a later plan still reads.
 *
 * Threading: the core's.  Memory: poison_init() allocates; no other call does.
 * Limits: POISON_MAX records; pages beyond it are not poisoned. */
#ifndef WORKER_CACHE_POISON_H
#define WORKER_CACHE_POISON_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/engine.h"
#include "worker/cache/places.h"

#define POISON_MAX (4 * PLAN_COPIES_MAX)

struct poison {
    uint8_t *dirty;    /* [n_pages] freed and not poisoned since; NULL: off */
    uint16_t *leaving; /* [n_pages] moves from it that may not have run yet */
    struct plan_copy *freed; /* [POISON_MAX]; `to` is unused */
    uint32_t *given;         /* [POISON_MAX] sources of moves of plans */
    uint32_t n_freed, n_given;
};

/* Without `on` every other call does nothing.  Returns false if memory runs
 * out. */
MUST_CHECK bool poison_init(struct poison *x, uint32_t n_pages, bool on);
void poison_fini(struct poison *x);

/* n pages from `page` on were freed, or taken. */
void poison_free(struct poison *x, uint32_t page, uint32_t n);
void poison_taken(struct poison *x, uint32_t page, uint32_t n);

/* A move from the page was recorded, dropped again, or given to a plan. */
void poison_move(struct poison *x, uint32_t page);
void poison_unmove(struct poison *x, uint32_t page);
void poison_given(struct poison *x, uint32_t page);

/* Returns what pool_take_freed() does. */
uint32_t poison_take(struct poison *x, const struct places *places,
                     struct plan_copy *out);

#endif
