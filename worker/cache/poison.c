#include "worker/cache/poison.h"

#include <stdlib.h>
#include <string.h>

/* A release build has no arrays, and each call returns at once. */
bool poison_init(struct poison *x, uint32_t n_pages, bool on)
{
    memset(x, 0, sizeof *x);
    if (!on) {
        return true;
    }
    x->dirty = calloc(n_pages + (size_t)1, sizeof *x->dirty);
    x->leaving = calloc(n_pages + (size_t)1, sizeof *x->leaving);
    x->freed = malloc(POISON_MAX * sizeof *x->freed);
    x->given = malloc(POISON_MAX * sizeof *x->given);
    if (x->dirty == NULL || x->leaving == NULL || x->freed == NULL ||
        x->given == NULL) {
        poison_fini(x);
        return false;
    }
    return true;
}

void poison_fini(struct poison *x)
{
    free(x->dirty);
    free(x->leaving);
    free(x->freed);
    free(x->given);
    memset(x, 0, sizeof *x);
}

void poison_free(struct poison *x, uint32_t page, uint32_t n)
{
    if (x->dirty == NULL || x->n_freed == POISON_MAX) {
        return;
    }
    x->freed[x->n_freed++] = (struct plan_copy){.from = page, .n = n};
    memset(x->dirty + page, 1, n);
}

void poison_taken(struct poison *x, uint32_t page, uint32_t n)
{
    if (x->dirty != NULL) {
        memset(x->dirty + page, 0, n);
    }
}

/* A page that a move still reads must keep its bytes until the plan with the
 * move has run; the count stands for several moves from the page in flight. */
void poison_move(struct poison *x, uint32_t page)
{
    if (x->dirty != NULL) {
        x->leaving[page]++;
    }
}

void poison_unmove(struct poison *x, uint32_t page)
{
    if (x->dirty != NULL) {
        x->leaving[page]--;
        poison_free(x, page, 1);
    }
}

void poison_given(struct poison *x, uint32_t page)
{
    /* A page too many stays marked, and is never poisoned. */
    if (x->dirty != NULL && x->n_given < POISON_MAX) {
        x->given[x->n_given++] = page;
    }
}

/* Adds page to the ranges out[0..n); returns the new n. */
static uint32_t add(struct plan_copy *out, uint32_t n, uint32_t page)
{
    if (n > 0 && out[n - 1].from + out[n - 1].n == page) {
        out[n - 1].n++;
        return n;
    }
    if (n < PLAN_COPIES_MAX) {
        out[n++] = (struct plan_copy){.from = page, .n = 1};
    }
    return n;
}

uint32_t poison_take(struct poison *x, const struct places *places,
                     struct plan_copy *out)
{
    uint32_t n = 0;

    /* The plan before this one, which has these moves, runs first. */
    for (uint32_t i = 0; i < x->n_given; i++) {
        poison_unmove(x, x->given[i]);
    }
    /* A page may be taken again before this plan: dirty was cleared then, and
     * its new contents are left alone. */
    for (uint32_t i = 0; i < x->n_freed; i++) {
        for (uint32_t k = 0; k < x->freed[i].n; k++) {
            uint32_t page = x->freed[i].from + k;

            if (x->dirty[page] && x->leaving[page] == 0 &&
                places_is_free(places, page)) {
                n = add(out, n, page);
                x->dirty[page] = 0;
            }
        }
    }
    x->n_given = x->n_freed = 0;
    return n;
}
