/* plan_pages.h - Marks what a plan writes, and checks its pages and slots.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef WORKER_ENGINE_PLAN_PAGES_H
#define WORKER_ENGINE_PLAN_PAGES_H

#include "common/base/minmax.h"
#include "worker/engine/plan_check.h"

static inline bool plan_in_pool(const struct plan_bounds *b, uint32_t first,
                                uint32_t n)
{
    return in_range_u32(first, n, b->n_pages);
}

/* Returns ST_INTERNAL if no slot begins at that page; `what` names it. */
MUST_CHECK enum status plan_check_slot(const struct plan_bounds *b,
                                       uint32_t slot, const char *what,
                                       struct error *e);

/* Begins a check: none of the n marks is set. */
void plan_clear_marks(struct plan_marks *m, uint32_t n);

/* Marks [first, first + n), which exists.  Returns ST_INTERNAL, with `what` in
 * its text, at the first that is marked already. */
MUST_CHECK enum status plan_mark(struct plan_marks *m, uint32_t first,
                                 uint32_t n, const char *what, struct error *e);

#endif
