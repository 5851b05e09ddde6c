/* paged.h - Arrays of 32-bit numbers in one slab: a sequence's tokens and its
 * block table.
 *
 *     root page:  [page] numbers of leaf pages
 *     leaf page:  [page] values, value i is leaf[root[i / page]][i % page]
 *
 * The tree has two levels.  `page` is a power of two, large enough for the root
 * of the longest array.  All pages have the same size, so the slab cannot
 * fragment, and an array fits if enough pages are free.
 *
 * Threading: the core's.  Memory: slab_init() makes one allocation, of which
 * the system backs only pages that have been used.  Freed pages are used again
 * before fresh ones.  No other call allocates. */
#ifndef WORKER_CACHE_PAGED_H
#define WORKER_CACHE_PAGED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "worker/base/engine.h"

#define PAGE_NONE UINT32_MAX

struct slab {
    uint32_t shift; /* a page is 1 << shift numbers */
    uint32_t n_pages, n_fresh, n_free;
    uint32_t free_head; /* a list through the first number of each page */
    uint32_t *memory;   /* [n_pages << shift] */
};

struct paged {
    uint32_t root;    /* PAGE_NONE: no pages, whatever n is */
    uint32_t n;       /* values that fit */
    uint32_t n_pages; /* leaves at creation */
};

/* Allocates a slab for `n_arrays` arrays of at most `longest` values each and
 * `values` together.  Returns false if memory runs out. */
MUST_CHECK bool slab_init(struct slab *s, uint32_t longest, uint64_t values,
                          uint32_t n_arrays);
void slab_fini(struct slab *s);

/* Returns the pages that an array of n values takes. */
uint32_t slab_cost(const struct slab *s, uint32_t n);
/* Returns the pages that are left. */
uint32_t slab_room(const struct slab *s);

/* Takes pages for n values, whose contents are undefined; n = 0 takes none.
 * Returns false, with nothing taken, if too few pages are left.  The caller
 * gives the pages back with paged_free(). */
MUST_CHECK bool paged_make(struct slab *s, struct paged *a, uint32_t n);
void paged_free(struct slab *s, struct paged *a);

/* Gives back the leaves that hold nothing of [begin, end).  Their values must
 * not be read again. */
void paged_keep(struct slab *s, struct paged *a, uint32_t begin, uint32_t end);

/* Copy values [at, at + n), which must lie within the array. */
void paged_write(struct slab *s, const struct paged *a, uint32_t at,
                 const uint32_t *in, uint32_t n);
void paged_read(const struct slab *s, const struct paged *a, uint32_t at,
                uint32_t *out, uint32_t n);
uint32_t paged_get(const struct slab *s, const struct paged *a, uint32_t at);

/* Returns the location of the values, for a reader in another thread.  They
 * stay in place and unchanged until paged_free(), paged_keep() or a write to
 * them. */
struct id_pages paged_pages(const struct slab *s, const struct paged *a);

#endif
