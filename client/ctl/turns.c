/* turns.c - Printing of interleaved texts one after the other. */
#include "client/ctl/turns.h"
#include "common/base/memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct held {
    char *text; /* [n of capacity] */
    size_t n, capacity;
    bool ended;
};

struct turns {
    const struct turns_ops *ops;
    void *arg;
    uint32_t n, current; /* the text shown; n: all have ended */
    struct held held[];  /* [n] */
};

/* Begins the current text and shows the pieces held for it. */
static void begin_text(struct turns *t)
{
    struct held *h = &t->held[t->current];

    if (t->ops->begin != NULL) {
        t->ops->begin(t->arg, t->current);
    }
    if (h->n > 0) {
        t->ops->show(t->arg, h->text, h->n);
    }
    free(h->text);
    *h = (struct held){.ended = h->ended};
}

struct turns *turns_new(uint32_t n, const struct turns_ops *ops, void *arg)
{
    struct turns *t = memory_must(calloc(1, sizeof *t + n * sizeof t->held[0]));

    assert(n > 0);
    t->ops = ops;
    t->arg = arg;
    t->n = n;
    begin_text(t);
    return t;
}

void turns_free(struct turns **tp)
{
    struct turns *t = *tp;

    *tp = NULL;
    if (t == NULL) {
        return;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        free(t->held[i].text);
    }
    free(t);
}

static void hold_text(struct held *h, const char *text, size_t n)
{
    if (h->capacity - h->n < n) {
        h->capacity = 2 * (h->n + n);
        h->text = memory_must(realloc(h->text, h->capacity));
    }
    memcpy(h->text + h->n, text, n);
    h->n += n;
}

void turns_put(struct turns *t, uint32_t i, const char *text, size_t n)
{
    assert(i < t->n);
    if (n == 0 || t->held[i].ended) {
        return;
    }
    if (i == t->current) {
        t->ops->show(t->arg, text, n);
    } else {
        hold_text(&t->held[i], text, n);
    }
}

/* The end of the current text may show several texts: all that have ended, and
 * the first that has not. */
void turns_end(struct turns *t, uint32_t i)
{
    assert(i < t->n);
    t->held[i].ended = true;
    while (t->current < t->n && t->held[t->current].ended) {
        if (t->ops->end != NULL) {
            t->ops->end(t->arg, t->current);
        }
        if (++t->current < t->n) {
            begin_text(t);
        }
    }
}

void turns_finish(struct turns *t)
{
    for (uint32_t i = t->current; i < t->n; i++) {
        turns_end(t, i);
    }
}
