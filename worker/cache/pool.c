#include "worker/cache/pool.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

const char *pool_class_name(enum pool_class c)
{
    static const char *const names[POOL_CLASSES] = {"blocks", "slots",
                                                    "checkpoints"};

    return names[c];
}

static bool stack_init(struct pool_stack *s, uint32_t total)
{
    memset(s, 0, sizeof *s);
    if (total == 0) {
        return true;
    }
    /* Two views of the same numbers: the stack finds a free one, and the flags
     * catch a double release. */
    s->idle = malloc(total * sizeof *s->idle);
    s->taken = calloc(total, 1);
    if (s->idle == NULL || s->taken == NULL) {
        return false;
    }
    /* Number 0 is on top, so a light load stays in low numbers. */
    for (uint32_t i = 0; i < total; i++) {
        s->idle[i] = total - 1 - i;
    }
    s->n_idle = total;
    s->a.total = s->a.free = total;
    return true;
}

bool pool_init(struct pool *p, const struct pool_need *total,
               const struct pool_need *pages_per)
{
    bool ok = true;

    memset(p, 0, sizeof *p);
    for (int c = 0; c < POOL_CLASSES; c++) {
        ok = stack_init(&p->classes[c], total->n[c]) && ok;
        p->pages_per[c] = pages_per->n[c];
    }
    if (!ok) {
        pool_fini(p);
    }
    return ok;
}

void pool_fini(struct pool *p)
{
    for (int c = 0; c < POOL_CLASSES; c++) {
        free(p->classes[c].idle);
        free(p->classes[c].taken);
    }
    memset(p, 0, sizeof *p);
}

void pool_violation(struct pool *p, const char *what, enum pool_class c,
                    uint64_t number)
{
    p->violations++;
    log_error("ledger-violation", "what=%s class=%s number=%llu", what,
              pool_class_name(c), (unsigned long long)number);
}

enum status pool_grant(struct pool *p, const struct pool_need *need,
                       struct error *e)
{
    /* Check every class before any is changed: all or nothing. */
    for (int c = 0; c < POOL_CLASSES; c++) {
        const struct pool_account *a = &p->classes[c].a;

        if (need->n[c] > a->free) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             "needs %u %s, %u free of %u", need->n[c],
                             pool_class_name((enum pool_class)c), a->free,
                             a->total);
        }
    }
    for (int c = 0; c < POOL_CLASSES; c++) {
        p->classes[c].a.free -= need->n[c];
        p->classes[c].a.granted += need->n[c];
    }
    return ST_OK;
}

void pool_ungrant(struct pool *p, const struct pool_need *need)
{
    for (int c = 0; c < POOL_CLASSES; c++) {
        struct pool_account *a = &p->classes[c].a;

        /* The other classes are still given back: they are not at fault. */
        if (need->n[c] > a->granted) {
            pool_violation(p, "ungrant-more-than-granted", (enum pool_class)c,
                           need->n[c]);
            continue;
        }
        a->granted -= need->n[c];
        a->free += need->n[c];
    }
}

bool pool_take(struct pool *p, enum pool_class c, uint32_t n, uint32_t *out)
{
    struct pool_stack *s = &p->classes[c];

    /* A free number never stands in for a missing grant: it may be promised
     * to a Submit that is on its way. */
    if (n > s->a.granted || n > s->n_idle) {
        pool_violation(p, "take-more-than-granted", c, n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = s->idle[--s->n_idle];
        s->taken[out[i]] = 1;
    }
    s->a.granted -= n;
    s->a.held += n;
    return true;
}

void pool_release(struct pool *p, enum pool_class c, uint32_t number)
{
    struct pool_stack *s = &p->classes[c];

    /* A number released twice would be given to two sequences. */
    if (number >= s->a.total || !s->taken[number]) {
        pool_violation(p, "release-of-what-is-not-held", c, number);
        return;
    }
    s->taken[number] = 0;
    s->idle[s->n_idle++] = number;
    s->a.held--;
    s->a.free++;
}

const struct pool_account *pool_account(const struct pool *p, enum pool_class c)
{
    return &p->classes[c].a;
}

struct pool_account pool_pages(const struct pool *p)
{
    struct pool_account sum = {0};

    for (int c = 0; c < POOL_CLASSES; c++) {
        const struct pool_account *a = &p->classes[c].a;
        uint32_t pages = p->pages_per[c];

        sum.total += a->total * pages;
        sum.free += a->free * pages;
        sum.held += a->held * pages;
        sum.cached += a->cached * pages;
        sum.granted += a->granted * pages;
    }
    return sum;
}
