#include "worker/cache/host.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

bool host_init(struct host *h, uint32_t n_pages)
{
    memset(h, 0, sizeof *h);
    h->n_pages = n_pages;
    h->next = malloc((n_pages + (size_t)1) * sizeof *h->next);
    h->taken = calloc(n_pages + (size_t)1, 1);
    h->marks = calloc(n_pages + (size_t)1, 1);
    if (h->next == NULL || h->taken == NULL || h->marks == NULL) {
        host_fini(h);
        return false;
    }
    return true;
}

void host_fini(struct host *h)
{
    free(h->next);
    free(h->taken);
    free(h->marks);
    memset(h, 0, sizeof *h);
}

/* Returns the first free page from the cursor on.  One is free. */
static uint32_t find_free(struct host *h)
{
    uint32_t page = h->cursor;

    while (h->taken[page]) {
        page = page + 1 < h->n_pages ? page + 1 : 0;
    }
    h->cursor = page + 1 < h->n_pages ? page + 1 : 0;
    return page;
}

bool host_take(struct host *h, uint32_t n, uint32_t *first)
{
    uint32_t last = HOST_NONE;

    if (n == 0 || n > host_free(h)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t page = find_free(h);

        h->taken[page] = 1;
        h->next[page] = HOST_NONE;
        if (i == 0) {
            *first = page;
        } else {
            h->next[last] = page;
        }
        last = page;
    }
    h->n_used += n;
    return true;
}

uint32_t host_next(const struct host *h, uint32_t page)
{
    return h->next[page];
}

static void violation(struct host *h, const char *what, uint32_t page)
{
    h->violations++;
    log_error("ledger-violation", "what=%s class=host number=%u", what, page);
}

void host_give(struct host *h, uint32_t first)
{
    for (uint32_t page = first, next; page != HOST_NONE; page = next) {
        if (page >= h->n_pages || !h->taken[page]) {
            violation(h, "release-of-what-is-not-held", page);
            return;
        }
        next = h->next[page];
        h->taken[page] = 0;
        h->n_used--;
    }
}

/* ---- audits ---- */

void host_mark_begin(struct host *h)
{
    memset(h->marks, 0, h->n_pages);
}

bool host_mark(struct host *h, uint32_t first, uint32_t n)
{
    uint32_t page = first;

    for (uint32_t i = 0; i < n; i++) {
        if (page >= h->n_pages || !h->taken[page] || h->marks[page]) {
            return false;
        }
        h->marks[page] = 1;
        page = h->next[page];
    }
    return page == HOST_NONE;
}

uint32_t host_unmarked(struct host *h, bool reap)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < h->n_pages; i++) {
        if (!h->taken[i] || h->marks[i]) {
            continue;
        }
        n++;
        if (reap) {
            violation(h, "leak", i);
            h->taken[i] = 0;
            h->n_used--;
        }
    }
    return n;
}
