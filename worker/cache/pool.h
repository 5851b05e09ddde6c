/* pool.h - The accounts of a worker's cache memory, by number.
 *
 * The pool has three classes: blocks (KV of block_tokens positions), slots
 * (recurrent state of one sequence) and checkpoints (saved slots).  The numbers
 * of a class run from 0; the engine owns the memory behind them.  This identity
 * always holds for each class:
 *
 *     total = free + held + cached + granted
 *
 *     free --grant--> granted --take--> held --release--> free
 *       ^                |
 *       +----ungrant-----+
 *
 * A grant binds no particular number; pool_take() chooses the numbers.  Free
 * numbers are used last in, first out, so that warm memory is used again.  The
 * border between the classes is fixed, so each class limits by itself.  Pages
 * are counted for the report only.
 *
 * Threading: the core's.  Memory: pool_init() allocates; no other call does.
 * A call that would break the identity changes nothing, is logged, and is
 * counted in `violations`.  It never crashes. */
#ifndef WORKER_CACHE_POOL_H
#define WORKER_CACHE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

enum pool_class { POOL_BLOCKS, POOL_SLOTS, POOL_CHECKPOINTS, POOL_CLASSES };

/* A number of each class. */
struct pool_need {
    uint32_t n[POOL_CLASSES];
};

struct pool_account {
    uint32_t total, free, held, cached, granted;
};

struct pool_stack {
    struct pool_account a;
    uint32_t *idle; /* [n_idle] numbers that are not held; the top goes first */
    uint32_t n_idle; /* = free + granted */
    uint8_t *taken;  /* [total] 1: held */
};

struct pool {
    struct pool_stack classes[POOL_CLASSES];
    uint32_t pages_per[POOL_CLASSES];
    uint64_t violations;
};

/* Returns "blocks", "slots" or "checkpoints". */
const char *pool_class_name(enum pool_class c);

/* Makes a pool with everything free.  Returns false if memory runs out; then
 * there is nothing to fini. */
MUST_CHECK bool pool_init(struct pool *p, const struct pool_need *total,
                          const struct pool_need *pages_per);
void pool_fini(struct pool *p);

/* Moves `need` from free to granted, all or nothing.  Returns
 * ST_RESOURCE_EXHAUSTED if a class is short; e names the first such class with
 * the numbers needed and free. */
MUST_CHECK enum status pool_grant(struct pool *p, const struct pool_need *need,
                                  struct error *e);

/* Takes a grant back: granted to free. */
void pool_ungrant(struct pool *p, const struct pool_need *need);

/* Turns n granted ones into numbers, out[0..n): granted to held.  Returns
 * false, takes nothing and counts a violation if fewer are granted. */
MUST_CHECK bool pool_take(struct pool *p, enum pool_class c, uint32_t n,
                          uint32_t *out);

/* Gives a number back: held to free.  A number that is not held, or does not
 * exist, is a violation. */
void pool_release(struct pool *p, enum pool_class c, uint32_t number);

const struct pool_account *pool_account(const struct pool *p,
                                        enum pool_class c);

/* Returns the account in pages, all classes together. */
struct pool_account pool_pages(const struct pool *p);

/* Counts and logs a broken identity. */
void pool_violation(struct pool *p, const char *what, enum pool_class c,
                    uint64_t number);

#endif
