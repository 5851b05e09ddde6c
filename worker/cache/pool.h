/* pool.h - what a worker's cache memory is divided into, by number.
 *
 * Three classes: blocks (KV of block_tokens positions), slots (recurrent
 * state of one sequence) and checkpoints (saved slots).  The numbers of a
 * class run from 0; the memory behind them is the engine's.  At every moment
 *
 *     total = free + held + cached + granted        of each class
 *
 *     free --grant--> granted --take--> held --release--> free
 *       ^                |
 *       +----ungrant-----+
 *
 * A promise (granted) binds no particular number; which one it becomes is
 * decided by take.  Free numbers are used last in, first out: the memory
 * that is warm is used again.  The border between the classes is fixed, so
 * each class binds by itself; pages are counted for the report.
 *
 * Threading: the core's.  Memory: sized by pool_init(); no other call
 * allocates.  A call that would break the account changes nothing, is logged
 * and counted in `violations`; it never crashes. */
#ifndef WORKER_CACHE_POOL_H
#define WORKER_CACHE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

enum pool_class { POOL_BLOCKS, POOL_SLOTS, POOL_CHECKPOINTS, POOL_CLASSES };

/* How many of each class. */
struct pool_need {
    uint32_t n[POOL_CLASSES];
};

struct pool_account {
    uint32_t total, free, held, cached, granted;
};

struct pool_stack {
    struct pool_account a;
    uint32_t *idle;  /* [n_idle] numbers that nobody has; the top goes first */
    uint32_t n_idle; /* = free + granted */
    uint8_t *taken;  /* [total] 1: held */
};

struct pool {
    struct pool_stack classes[POOL_CLASSES];
    uint32_t pages_per[POOL_CLASSES];
    uint64_t violations;
};

/* "blocks", "slots", "checkpoints". */
const char *pool_class_name(enum pool_class c);

/* All free.  False if memory is out (then there is nothing to fini). */
MUST_CHECK bool pool_init(struct pool *p, const struct pool_need *total,
                          const struct pool_need *pages_per);
void pool_fini(struct pool *p);

/* Promise `need`: free to granted, all or nothing.  ST_RESOURCE_EXHAUSTED
 * names the first class that is short, with what is needed and free. */
MUST_CHECK enum status pool_grant(struct pool *p, const struct pool_need *need,
                                  struct error *e);

/* Take a promise back: granted to free. */
void pool_ungrant(struct pool *p, const struct pool_need *need);

/* Turn n promised ones into numbers: granted to held, out[0..n).  False if
 * fewer are granted: a violation, nothing taken. */
MUST_CHECK bool pool_take(struct pool *p, enum pool_class c, uint32_t n,
                          uint32_t *out);

/* Give a number back: held to free.  One that is not held, or none at all,
 * is a violation. */
void pool_release(struct pool *p, enum pool_class c, uint32_t number);

const struct pool_account *pool_account(const struct pool *p,
                                        enum pool_class c);

/* The same account in pages, all classes together. */
struct pool_account pool_pages(const struct pool *p);

/* Count and log something that must not be. */
void pool_violation(struct pool *p, const char *what, enum pool_class c,
                    uint64_t number);

#endif
