#include "tests/sim/clock.h"

#include <stdlib.h>

void clock_init(struct clock *c, int64_t now_us)
{
    *c = (struct clock){.now_us = now_us, .capacity = 256};
    c->heap = malloc(c->capacity * sizeof(*c->heap));
    if (!c->heap) {
        abort();
    }
}

void clock_fini(struct clock *c)
{
    free(c->heap);
    *c = (struct clock){0};
}

static bool before(const struct event *a, const struct event *b)
{
    return a->at_us < b->at_us ||
           (a->at_us == b->at_us && a->serial < b->serial);
}

static void grow(struct clock *c)
{
    c->capacity *= 2;
    c->heap = realloc(c->heap, c->capacity * sizeof(*c->heap));
    if (!c->heap) {
        abort();
    }
}

void clock_add(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
               uint64_t b)
{
    struct event e = {.at_us = at_us > c->now_us ? at_us : c->now_us,
                      .serial = c->serial++,
                      .fn = fn,
                      .a = a,
                      .b = b};
    uint32_t i;

    if (c->n + 2 > c->capacity) {
        grow(c);
    }
    for (i = ++c->n; i > 1 && before(&e, &c->heap[i / 2]); i /= 2) {
        c->heap[i] = c->heap[i / 2];
    }
    c->heap[i] = e;
}

static void sink(struct clock *c, const struct event *e)
{
    uint32_t i = 1, child;

    while ((child = 2 * i) <= c->n) {
        if (child < c->n && before(&c->heap[child + 1], &c->heap[child])) {
            child++;
        }
        if (!before(&c->heap[child], e)) {
            break;
        }
        c->heap[i] = c->heap[child];
        i = child;
    }
    c->heap[i] = *e;
}

bool clock_next(struct clock *c, struct event *out)
{
    struct event last;

    if (c->n == 0) {
        return false;
    }
    *out = c->heap[1];
    last = c->heap[c->n--];
    if (c->n) {
        sink(c, &last);
    }
    c->now_us = out->at_us;
    return true;
}
