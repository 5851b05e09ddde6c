/* places.h - Where in the pool's memory things are.
 *
 *     extent 0          extent 1                       tail
 *     | b b . b . . |   | s s s s s s |  ...   | b b . |
 *
 * An extent is `per` consecutive pages, the first at a multiple of `per`.  It
 * is one slot, or one checkpoint, or has blocks and free pages.  The pages that
 * make no whole extent are the tail: only blocks are there.
 *
 * A block goes to the tail, then to the extent with the fewest free pages, so
 * that extents stay free as long as possible.  The emptiest extent is found as
 * fast: extents with the same number of blocks are in one list.
 *
 * Threading: the core's.  Memory: places_open() allocates; no other call does.
 * Every call takes constant time, but for the search for a free page within an
 * extent. */
#ifndef WORKER_CACHE_PLACES_H
#define WORKER_CACHE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define PLACE_NONE UINT32_MAX

enum extent_use { EXTENT_BLOCKS, EXTENT_SLOT, EXTENT_CHECKPOINT };

struct extent {
    uint32_t prev, next; /* in the list of its number of blocks */
    uint32_t n_blocks;
    uint32_t hint; /* no page before it is free */
    enum extent_use use;
};

struct places {
    uint32_t n_pages, per, n_extents;
    uint32_t n_free;        /* pages */
    struct extent *extents; /* [n_extents + 1], the last one is the tail */
    uint32_t *owners; /* [n_pages] the block in a page; PLACE_NONE: none */
    uint32_t *heads;  /* [per] lists of extents with that many blocks */
    uint64_t *filled; /* [per] bits: the list is not empty */
};

/* Makes n_pages free pages; per is at least 1.  Returns false if memory runs
 * out; then there is nothing to fini. */
MUST_CHECK bool places_open(struct places *l, uint32_t n_pages, uint32_t per);
void places_close(struct places *l);

/* Puts a block into a free page and returns the page.  At least one must be
 * free. */
uint32_t places_take(struct places *l, uint32_t block);
/* Frees the page of a block. */
void places_give(struct places *l, uint32_t page);

/* Returns the extent with the fewest blocks, and their number; PLACE_NONE if
 * every extent is used whole. */
uint32_t places_emptiest(const struct places *l, uint32_t *n_blocks);

/* Makes the extent a slot or checkpoint.  Its blocks must then leave: each is
 * taken elsewhere with places_take(). */
void places_claim(struct places *l, uint32_t extent, enum extent_use use);
/* Frees such an extent. */
void places_yield(struct places *l, uint32_t extent);

/* Returns whether nothing is in the page. */
bool places_is_free(const struct places *l, uint32_t page);

#endif
