/* pool.h - The accounts of a worker's cache memory, in pages.
 *
 * The pool is one budget of pages (common/model/page_layout.h).  Its classes
 * take pages from it, and the border between them moves while serving:
 *
 *     block       1 page, KV of block_tokens positions
 *     slot        pages_per[SLOTS] consecutive pages, the state of a sequence
 *     checkpoint  as many, a saved state
 *
 * This identity always holds, in pages:
 *
 *     total = free + held + cached + granted
 *
 *     free --grant--> granted --take--> held --release--> free
 *       ^                |               ^  |
 *       +----ungrant-----+       share   |  | release, if indexed
 *       |                                |  v
 *       +------------unindex----------- cached
 *
 * Held, cached and granted are exact for each class too.  Free of a class is
 * the number that all free pages would give: free pages / pages_per, for slots
 * at most what the cap leaves.
 *
 * Blocks have reference counts, one for each table that names them.  A block
 * with a reference is held; one without a reference that the prefix index
 * (worker/cache/prefix.h) has is cached.  A checkpoint of the index is cached.
 *
 * Blocks have logical numbers, which tables, index and ledger use; place[] has
 * the page of each.  Slots and checkpoints are named by their first page.  When
 * free pages suffice for a slot but are not consecutive, blocks move:
 * pool_take() records moves, which the next plan carries out before its rows
 * (worker/base/engine.h).  Free of a class is therefore a promise.
 *
 * Threading: the core's.  Memory: pool_init() allocates; no other call does.
 * A call that would break the identity changes nothing, is logged, and is
 * counted in `violations`.  It never crashes. */
#ifndef WORKER_CACHE_POOL_H
#define WORKER_CACHE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "worker/base/engine.h"

enum pool_class { POOL_BLOCKS, POOL_SLOTS, POOL_CHECKPOINTS, POOL_CLASSES };

/* A number of each class. */
struct pool_need {
    uint32_t n[POOL_CLASSES];
};

struct pool_account {
    uint32_t total, free, held, cached, granted;
};

struct pool_options {
    uint32_t n_pages;
    uint32_t pages_per[POOL_CLASSES]; /* 0: no such class; a block is 1 page */
    uint32_t slot_cap; /* most slots held and granted; 0: as pages allow */
};

struct pool_block {
    uint32_t page;
    uint32_t refs; /* tables that name it */
    bool indexed;  /* the prefix index has it */
    bool moves;    /* a recorded move goes to its page */
};

struct pool {
    struct pool_options o;
    struct pool_need held, cached, granted; /* units */
    uint32_t free;                          /* pages */
    struct pool_block *blocks;              /* [n_pages] by logical number */
    uint32_t *idle; /* [n_idle] logical numbers that are free */
    uint32_t n_idle;
    struct pool_pages *pages; /* physical: pool.c */
    struct plan_copy *moves;  /* [PLAN_COPIES_MAX] recorded, in order */
    uint32_t n_moves;
    struct plan_copy *freed; /* [PLAN_COPIES_MAX] pages freed since the last
                              * pool_take_freed(), for poison; NULL: off */
    uint32_t n_freed;
    uint64_t violations;
};

/* Returns "blocks", "slots" or "checkpoints". */
const char *pool_class_name(enum pool_class c);

/* Makes a pool with everything free.  poison: records freed pages.  Returns
 * false if memory runs out; then there is nothing to fini. */
MUST_CHECK bool pool_init(struct pool *p, const struct pool_options *o,
                          bool poison);
void pool_fini(struct pool *p);

/* Returns the pages of a need. */
uint64_t pool_need_pages(const struct pool *p, const struct pool_need *need);

/* Moves `need` from free to granted, all or nothing.  Returns
 * ST_RESOURCE_EXHAUSTED if pages or slots are short; e has the figures.  The
 * caller evicts first (prefix_make_room()), because only free pages count. */
MUST_CHECK enum status pool_grant(struct pool *p, const struct pool_need *need,
                                  struct error *e);

/* Takes a grant back: granted to free. */
void pool_ungrant(struct pool *p, const struct pool_need *need);

/* Turns n granted ones into numbers, out[0..n): granted to held, blocks with
 * one reference.  May record moves.  Returns false, takes nothing and counts a
 * violation if fewer are granted. */
MUST_CHECK bool pool_take(struct pool *p, enum pool_class c, uint32_t n,
                          uint32_t *out);

/* Gives a number back: removes one reference of a block, or frees a slot or
 * checkpoint.  A number that is not held, or does not exist, is a violation. */
void pool_release(struct pool *p, enum pool_class c, uint32_t number);

/* Adds a reference to a block that is held or cached.  from_grant: the caller
 * had one granted for it, which becomes free. */
void pool_share(struct pool *p, uint32_t block, bool from_grant);

/* The index has the block from now on, or no longer.  A block without a
 * reference is then free. */
void pool_index(struct pool *p, uint32_t block);
void pool_unindex(struct pool *p, uint32_t block);

/* Takes a checkpoint from free pages: free to cached.  Returns false, with
 * nothing taken, if free pages are short.  May record moves. */
MUST_CHECK bool pool_cache(struct pool *p, uint32_t *checkpoint);
/* Frees it again: cached to free. */
void pool_uncache(struct pool *p, uint32_t checkpoint);

/* Makes a held slot a cached checkpoint without a copy, and the other way
 * round with one slot granted. */
void pool_slot_to_checkpoint(struct pool *p, uint32_t slot);

/* Returns the page of a block now; the next plan's rows find it there. */
uint32_t pool_page(const struct pool *p, uint32_t block);

/* Returns the recorded moves for the next plan and forgets them.
 * pool_untake_moves() brings them back, before newer ones, if that plan was
 * refused. */
uint32_t pool_take_moves(struct pool *p, struct plan_copy *out);
void pool_untake_moves(struct pool *p, const struct plan_copy *moves,
                       uint32_t n);

/* Returns the pages freed since the last call that are free still, as ranges;
 * 0 without poison. */
uint32_t pool_take_freed(struct pool *p, struct plan_copy *out);

/* Returns the account of a class, in units; the columns need not add up, see
 * above. */
struct pool_account pool_account(const struct pool *p, enum pool_class c);

/* Returns the account in pages, all classes together; the columns add up. */
struct pool_account pool_pages(const struct pool *p);

/* Counts and logs a broken identity. */
void pool_violation(struct pool *p, const char *what, enum pool_class c,
                    uint64_t number);

#endif
