#include "common/base/timer.h"

#include <string.h>

void timers_init(struct timers *ts)
{
    memset(ts, 0, sizeof *ts);
}

void timers_fini(struct timers *ts)
{
    timers_init(ts);
}

/* Returns the link to position i, which may be the first free one.  Positions
 * count from 1, so that the parent of i is i / 2: below its highest bit, i
 * spells the way down. */
static struct timer **link_to(struct timers *ts, uint32_t i)
{
    struct timer **at = &ts->top;
    uint32_t bit = 1;

    while (bit <= i / 2) {
        bit *= 2;
    }
    while ((bit /= 2) > 0) {
        at = &(*at)->child[(i & bit) != 0];
    }
    return at;
}

/* Makes t the child of `up` at position i. */
static void hang(struct timers *ts, struct timer *up, uint32_t i,
                 struct timer *t)
{
    *(up == NULL ? &ts->top : &up->child[i & 1]) = t;
    t->up = up;
    t->index = i;
}

static void adopt(struct timer *t, struct timer *left, struct timer *right)
{
    t->child[0] = left;
    t->child[1] = right;
    if (left != NULL) {
        left->up = t;
    }
    if (right != NULL) {
        right->up = t;
    }
}

/* Exchanges t and its parent. */
static void rise(struct timers *ts, struct timer *t)
{
    struct timer *p = t->up, *above = p->up;
    uint32_t high = p->index, low = t->index;
    struct timer *left = t->child[0], *right = t->child[1];

    adopt(t, p->child[0], p->child[1]);
    adopt(p, left, right);
    hang(ts, above, high, t);
    hang(ts, t, low, p);
}

static void sift_up(struct timers *ts, struct timer *t)
{
    while (t->up != NULL && t->up->due_us > t->due_us) {
        rise(ts, t);
    }
}

static void sift_down(struct timers *ts, struct timer *t)
{
    for (;;) {
        struct timer *least = t->child[0], *right = t->child[1];

        if (right != NULL && right->due_us < least->due_us) {
            least = right;
        }
        if (least == NULL || least->due_us >= t->due_us) {
            return;
        }
        rise(ts, least);
    }
}

/* Restores the order after t has got another place or time. */
static void settle(struct timers *ts, struct timer *t)
{
    if (t->up != NULL && t->up->due_us > t->due_us) {
        sift_up(ts, t);
    } else {
        sift_down(ts, t);
    }
}

static void add(struct timers *ts, struct timer *t)
{
    uint32_t i = ++ts->n;

    adopt(t, NULL, NULL);
    hang(ts, i == 1 ? NULL : *link_to(ts, i / 2), i, t);
    sift_up(ts, t);
}

void timer_set(struct timers *ts, struct timer *t, int64_t due_us)
{
    /* Disarming by a due time spares callers a special case. */
    if (due_us == INT64_MAX) {
        timer_clear(ts, t);
        t->due_us = due_us;
        return;
    }
    t->due_us = due_us;
    if (t->index == 0) {
        add(ts, t);
    } else {
        settle(ts, t);
    }
}

void timer_clear(struct timers *ts, struct timer *t)
{
    struct timer **at, *last;

    if (t->index == 0) {
        return;
    }
    /* The last timer fills the hole, which keeps the heap without gaps. */
    at = link_to(ts, ts->n--);
    last = *at;
    *at = NULL;
    if (last != t) {
        hang(ts, t->up, t->index, last);
        adopt(last, t->child[0], t->child[1]);
        settle(ts, last);
    }
    t->index = 0;
}

int64_t timers_due(const struct timers *ts)
{
    return ts->n == 0 ? INT64_MAX : ts->top->due_us;
}

struct timer *timers_pop(struct timers *ts, int64_t now_us)
{
    struct timer *t = ts->top;

    if (t == NULL || t->due_us > now_us) {
        return NULL;
    }
    timer_clear(ts, t);
    return t;
}
