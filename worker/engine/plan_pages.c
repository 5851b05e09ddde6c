#include "worker/engine/plan_pages.h"

#include <string.h>

enum status plan_check_slot(const struct plan_bounds *b, uint32_t slot,
                            const char *what, struct error *e)
{
    uint32_t n = b->pages_per_slot;

    if (n > 0 && slot % n == 0 && plan_in_pool(b, slot, n)) {
        return ST_OK;
    }
    return error_set(e, ST_INTERNAL,
                     "%s at page %u of %u; slots have %u pages, the first at "
                     "a multiple of it",
                     what, slot, b->n_pages, n);
}

void plan_clear_marks(struct plan_marks *m, uint32_t n)
{
    if (++m->now == 0) {
        memset(m->of, 0, n * sizeof *m->of);
        m->now = 1;
    }
}

enum status plan_mark(struct plan_marks *m, uint32_t first, uint32_t n,
                      const char *what, struct error *e)
{
    for (uint32_t i = first; i < first + n; i++) {
        if (m->of[i] == m->now) {
            return error_set(e, ST_INTERNAL, "%s %u is written twice", what, i);
        }
        m->of[i] = m->now;
    }
    return ST_OK;
}
