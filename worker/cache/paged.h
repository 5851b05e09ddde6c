/* paged.h - arrays of 32-bit numbers out of one slab: a sequence's tokens,
 * its block table.
 *
 *     root page:  [page] numbers of leaf pages
 *     leaf page:  [page] values           value i is leaf[root[i / page]][i %
 * page]
 *
 * Two levels, with `page` a power of two at least the root of the longest
 * array.  Pages are all of one size, so the slab cannot fragment: whether an
 * array fits is a matter of counting.
 *
 * Threading: the core's.  Memory: one allocation in slab_init(), of which
 * the system backs only pages that have been used; used pages are used
 * again first.  No other call allocates. */
#ifndef WORKER_CACHE_PAGED_H
#define WORKER_CACHE_PAGED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "worker/engine/engine.h"

#define PAGE_NONE UINT32_MAX

struct slab {
    uint32_t shift; /* a page is 1 << shift numbers */
    uint32_t n_pages, n_fresh, n_free;
    uint32_t free_head; /* a list through the first number of each page */
    uint32_t *memory;   /* [n_pages << shift] */
};

struct paged {
    uint32_t root;    /* PAGE_NONE: no pages, whatever n says */
    uint32_t n;       /* values it has room for */
    uint32_t n_pages; /* leaves it was made with */
};

/* For arrays of at most `longest` values, `n_arrays` at once with `values`
 * together.  False if memory is out. */
MUST_CHECK bool slab_init(struct slab *s, uint32_t longest, uint64_t values,
                          uint32_t n_arrays);
void slab_fini(struct slab *s);

/* Pages that an array of n values takes, and those that are left. */
uint32_t slab_cost(const struct slab *s, uint32_t n);
uint32_t slab_room(const struct slab *s);

/* Room for n values (undefined at first), all or nothing; n = 0 takes
 * nothing.  The caller gives it back with paged_free(). */
MUST_CHECK bool paged_make(struct slab *s, struct paged *a, uint32_t n);
void paged_free(struct slab *s, struct paged *a);

/* Give back the leaves that hold nothing of [begin, end); what was in them
 * must not be read again. */
void paged_keep(struct slab *s, struct paged *a, uint32_t begin, uint32_t end);

/* Values [at, at + n), which must be within the array. */
void paged_write(struct slab *s, const struct paged *a, uint32_t at,
                 const uint32_t *in, uint32_t n);
void paged_read(const struct slab *s, const struct paged *a, uint32_t at,
                uint32_t *out, uint32_t n);
uint32_t paged_get(const struct slab *s, const struct paged *a, uint32_t at);

/* Where the values are, for another thread that reads some of them: they stay
 * there, as they are, until paged_free(), paged_keep() or a write to them. */
struct id_pages paged_pages(const struct slab *s, const struct paged *a);

#endif
