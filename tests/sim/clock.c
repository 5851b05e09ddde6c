#include "tests/sim/clock.h"

#include <stdlib.h>

void clock_init(struct clock *c, int64_t now_us)
{
    *c = (struct clock){.now_us = now_us, .capacity = 256};
    c->heap = malloc(c->capacity * sizeof(*c->heap));
    if (!c->heap) {
        abort();
    }
    for (uint32_t i = 0; i < CLOCK_ALARMS; i++) {
        c->alarms[i].at_us = INT64_MAX;
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

static struct event make(struct clock *c, int64_t at_us, event_fn *fn,
                         uint32_t a, uint64_t b)
{
    return (struct event){.at_us = at_us > c->now_us ? at_us : c->now_us,
                          .serial = c->serial++,
                          .fn = fn,
                          .a = a,
                          .b = b};
}

void clock_add(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
               uint64_t b)
{
    struct event e = make(c, at_us, fn, a, b);
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

static void find_soonest(struct clock *c)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < CLOCK_ALARMS; i++) {
        best = before(&c->alarms[i], &c->alarms[best]) ? i : best;
    }
    c->soonest = best;
}

void clock_alarm(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
                 uint64_t b)
{
    c->alarms[a] = make(c, at_us, fn, a, b);
    find_soonest(c);
}

void clock_alarm_off(struct clock *c, uint32_t a)
{
    c->alarms[a].at_us = INT64_MAX;
    find_soonest(c);
}

static void take_first(struct clock *c)
{
    struct event last = c->heap[c->n--];

    if (c->n) {
        sink(c, &last);
    }
}

bool clock_next(struct clock *c, struct event *out)
{
    const struct event *alarm = &c->alarms[c->soonest];

    if (c->n && before(&c->heap[1], alarm)) {
        *out = c->heap[1];
        take_first(c);
    } else if (alarm->at_us != INT64_MAX) {
        *out = *alarm;
        clock_alarm_off(c, c->soonest);
    } else {
        return false;
    }
    c->now_us = out->at_us;
    return true;
}
