/* host.h - The accounts of the host tier: pages of pinned memory of the host,
 * to which pages of the pool are copied and back (kernels/kernels.h).
 *
 * A suspended or kept sequence has a chain of pages there, in the order in
 * which they come back, and so has each part of a prefix that the index keeps
 * there (worker/cache/prefix_tier.c).  A chain takes consecutive pages where it
 * can, so that its copies are few.
 *
 *     total = free + used;  each used page is in one chain
 *
 * Threading: the core's.  Memory: host_init() allocates; no other call does.
 * Limits: HOST_PAGES_MAX pages.
 * A call that would break the account changes nothing, is logged, and is
 * counted in `violations`. */
#ifndef WORKER_CACHE_HOST_H
#define WORKER_CACHE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define HOST_NONE      UINT32_MAX
#define HOST_PAGES_MAX ((uint32_t)1 << 24)

struct host {
    uint32_t n_pages, n_used;
    uint32_t cursor; /* where the next search begins */
    uint32_t *next;  /* [n_pages] of its chain; HOST_NONE at the end */
    uint8_t *taken;  /* [n_pages] */
    uint8_t *marks;  /* [n_pages] for audits */
    uint64_t violations;
};

/* Makes n pages, all free; n may be 0.  Returns false if memory runs out; then
 * there is nothing to fini. */
MUST_CHECK bool host_init(struct host *h, uint32_t n_pages);
void host_fini(struct host *h);

static inline uint32_t host_free(const struct host *h)
{
    return h->n_pages - h->n_used;
}

/* Takes a chain of n pages, at least 1, and writes its first page.  Returns
 * false, with nothing taken, if fewer are free. */
MUST_CHECK bool host_take(struct host *h, uint32_t n, uint32_t *first);

/* Returns the page behind `page` in its chain; HOST_NONE: it is the last. */
uint32_t host_next(const struct host *h, uint32_t page);

/* Frees a chain. */
void host_give(struct host *h, uint32_t first);

/* An audit: host_mark_begin(), host_mark() for each chain that has an owner;
 * then host_unmarked() counts the used pages that none has, and frees them if
 * `reap` is set.  host_mark() returns false if some page of the chain is free,
 * marked already, or none. */
void host_mark_begin(struct host *h);
MUST_CHECK bool host_mark(struct host *h, uint32_t first, uint32_t n);
uint32_t host_unmarked(struct host *h, bool reap);

#endif
