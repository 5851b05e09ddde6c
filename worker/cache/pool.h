/* pool.h - The accounts of a worker's cache memory, in pages.
 *
 * The pool is one budget of pages (common/model/page_layout.h).  Its classes
 * take pages from it, and the border between them moves while serving:
 *
 *     block       1 page, KV of block_tokens positions
 *     slot        pages_per[SLOTS] consecutive pages, the state of a sequence
 *     checkpoint  as many, a saved state
 *     window      1 page, a part of a window block (common/model/page_layout.h)
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
 * Windows have references as blocks do.  A sequence gives its window pages back
 * while it runs, and takes others for them: it keeps the promise of as many as
 * it needs at once.  A window page in several tables is therefore held once,
 * and each further reference keeps one page granted:
 *
 *     granted = what was granted and not taken + references beyond the first
 *
 *     reference of a table    removed by pool_release()     pool_return()
 *     the only one            held -> free or cached        held -> granted
 *     one of several          granted -> free               -
 *
 * Blocks and windows have logical numbers, which tables, index and ledger use;
 * pool_page() has the page of each.  Slots and checkpoints are named by their
 * first page. When free pages suffice for a slot but are not consecutive,
 * blocks move: pool_take() records moves, which the next plan carries out
 * before its rows (worker/base/engine.h).  Free of a class is therefore a
 * promise.
 *
 * Copies to and from the host tier (worker/cache/host.h) are recorded among the
 * moves, in the order in which they were decided.  A page may therefore be
 * freed as soon as its copy out is recorded, and a host page as soon as its
 * copy in is.  If the engine refuses a plan, the next one carries them out.
 *
 * A plan is built in this order:
 *
 *     1 pool_take_freed()
 *     2 all that its rows need: match, share, take, reserve, ...; before any
 *       other copy is appended to `before`, pool_take_moves() appends the
 *       moves, so that all copies stay in the order in which they were decided
 *     3 pool_take_moves(), then its tables with pool_page()
 *     4 pool_end_plan()
 *
 * Threading: the core's.  Memory: pool_init() allocates; no other call does.
 * Limits: a slot has at most POOL_EXTENT_MAX pages; a plan has at most
 * POOL_SWAPS_MAX recorded copies to and from the host tier.
 * A call that would break the identity changes nothing, is logged, and is
 * counted in `violations`.  It never crashes. */
#ifndef WORKER_CACHE_POOL_H
#define WORKER_CACHE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "worker/base/engine.h"
#include "worker/cache/places.h"
#include "worker/cache/poison.h"

#define POOL_EXTENT_MAX 2048
#define POOL_SWAPS_MAX  32768

enum pool_class {
    POOL_BLOCKS,
    POOL_SLOTS,
    POOL_CHECKPOINTS,
    POOL_WINDOWS,
    POOL_CLASSES
};

/* A number of each class. */
struct pool_need {
    uint32_t n[POOL_CLASSES];
};

struct pool_account {
    uint32_t total, free, held, cached, granted;
};

struct pool_options {
    uint32_t n_pages;
    /* 0: no such class.  Block and window are 1 page, slot and checkpoint are
     * equal. */
    uint32_t pages_per[POOL_CLASSES];
    uint32_t slot_cap; /* most slots held and granted; 0: as pages allow */
};

struct pool_block {
    uint32_t page;    /* PLACE_NONE: the block is free */
    uint32_t refs;    /* tables that name it */
    uint32_t arrives; /* 1 + the recorded move that goes to its page; 0: none */
    bool indexed;     /* the prefix index has it */
    bool window;      /* a window page, not a block */
};

/* Called when an indexed block or window page becomes held or cached. */
struct pool_watch {
    void *self;
    void (*held)(void *self, uint32_t block, bool held); /* NULL: none */
};

struct pool {
    struct pool_options o;
    struct pool_watch watch;
    struct pool_need held, cached, granted; /* units */
    uint32_t free;                          /* pages */
    struct pool_block *blocks;              /* [n_pages] by logical number */
    uint32_t *idle; /* [n_idle] logical numbers that are free */
    uint32_t n_idle;
    struct places places;
    struct plan_copy *moves; /* [2 * PLAN_COPIES_MAX] recorded, in order; n = 0:
                              * not needed any more */
    uint32_t n_moves;
    uint32_t n_swaps; /* copies to and from the host tier among them */
    uint32_t n_given; /* such copies of the plan that is being built */
    struct poison poison;
    uint64_t violations;
};

/* Returns "blocks", "slots", "checkpoints" or "windows". */
const char *pool_class_name(enum pool_class c);

/* Makes a pool with everything free.  poison: records freed pages.  Returns
 * false if memory runs out or a slot has more than POOL_EXTENT_MAX pages; then
 * there is nothing to fini. */
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

/* Returns whether n of a class can be taken so that at most `most` moves are
 * recorded then; true if none is recorded now, n is 1 and `most` at least
 * POOL_EXTENT_MAX.  false: they can be taken for the next plan. */
bool pool_can_take(const struct pool *p, enum pool_class c, uint32_t n,
                   uint32_t most);

/* Turns n granted ones into numbers, out[0..n): granted to held, blocks and
 * windows with one reference.  May record moves.  Returns false, takes nothing
 * and counts a violation if fewer are granted, or PLAN_COPIES_MAX moves do not
 * suffice. */
MUST_CHECK bool pool_take(struct pool *p, enum pool_class c, uint32_t n,
                          uint32_t *out);

/* Gives a number back: removes one reference of a block or window page, or
 * frees a slot or checkpoint.  A number that is not held, or does not exist, is
 * a violation. */
void pool_release(struct pool *p, enum pool_class c, uint32_t number);

/* Removes a reference of a window page whose caller keeps the promise of one:
 * held to granted, see above.  Returns false, with nothing changed, if the page
 * stays cached and no page is free for the promise: the caller evicts first. */
MUST_CHECK bool pool_return(struct pool *p, uint32_t window);

/* Adds a reference to a block that is held or cached.  from_grant: the caller
 * had one granted for it, which becomes free. */
void pool_share(struct pool *p, uint32_t block, bool from_grant);

/* Adds a reference to a window page that is held, or that is cached: then one
 * granted to the caller becomes free. */
void pool_share_window(struct pool *p, uint32_t window);

/* The index has the block or window page from now on, or no longer.  Without a
 * reference it is then free. */
void pool_index(struct pool *p, uint32_t block);
void pool_unindex(struct pool *p, uint32_t block);

/* Takes a checkpoint from free pages: free to cached.  Returns false, with
 * nothing taken, if free pages are short, or more than POOL_EXTENT_MAX moves
 * would be recorded then. */
MUST_CHECK bool pool_cache(struct pool *p, uint32_t *checkpoint);
/* Frees it again: cached to free. */
void pool_uncache(struct pool *p, uint32_t checkpoint);

/* Records a copy of a page of the pool to a host page, or back.  The caller has
 * checked pool_swaps_left(). */
void pool_copy_out(struct pool *p, uint32_t page, uint32_t host);
void pool_copy_in(struct pool *p, uint32_t host, uint32_t page);
/* Returns how many more of these copies the next plan, or the one that is being
 * built, has room for. */
uint32_t pool_swaps_left(const struct pool *p);

/* Returns the page of a block or window page now; the next plan's rows find it
 * there. */
uint32_t pool_page(const struct pool *p, uint32_t block);

/* Returns the recorded moves for the next plan and forgets them: out[0..n), n
 * at most PLAN_COPIES_MAX.  If that plan was refused, pool_untake_moves()
 * brings all of them back, before newer ones. */
uint32_t pool_take_moves(struct pool *p, struct plan_copy *out);
void pool_untake_moves(struct pool *p, const struct plan_copy *moves,
                       uint32_t n);

/* Ends a plan that is built: the room for copies is that of the next one. */
void pool_end_plan(struct pool *p);

/* Returns the pages freed since the last call that are free still, as ranges
 * out[0..n), n at most PLAN_COPIES_MAX; 0 without poison.  Only the begin of a
 * plan may call it, because the engine poisons before it copies. */
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
