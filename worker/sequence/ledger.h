/* ledger.h - The pool's account as sent to the router, and its audit.
 *
 * The audit counts everything twice: as the pool did while it went, and by a
 * walk over sequences and index.
 *
 *     block,      has as many references as tables that name it, and is indexed
 *     window      if the index has it; otherwise it is idle
 *     page        has one block, is part of one slot or checkpoint, or is free
 *     slot        one sequence has it
 *     checkpoint  the index has it
 *     host page   is in the chain of one sequence or copy of the index, or free
 *
 * A leak is what neither a sequence nor the index owns.  ledger_reap() frees
 * it.
 *
 * Every ledger that is sent has a snapshot number, counted from 1 in each
 * session, and names the highest settled grant.  A grant is settled if its
 * figures include what the Submit was promised, or if the Submit was refused.
 * All grants up to that number are settled.
 *
 * Threading: the core's.  Memory: ledger_init() allocates; no other call
 * does. */
#ifndef WORKER_SEQUENCE_LEDGER_H
#define WORKER_SEQUENCE_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/common.pb-c.h"
#include "worker/cache/pool.h"
#include "worker/sequence/sequence_table.h"

/* Calls each() for every block and checkpoint that an index owns. */
typedef void (*ledger_walk_fn)(const void *index,
                               void (*each)(void *ctx, enum pool_class c,
                                            uint32_t number),
                               void *ctx);

struct ledger {
    uint64_t session, snapshot, grant;
    ledger_walk_fn walk;         /* over what is cached; NULL: nothing is */
    const void *index;           /* borrowed, for walk */
    const struct prefix *prefix; /* borrowed: its copies in the host tier */
    uint32_t *claims;            /* for the audit: [n_pages] */
    uint64_t leaks;              /* references and numbers that were reaped */
};

/* A protobuf Ledger with the messages that it points to. */
struct ledger_message {
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[POOL_CLASSES], pages;
};

/* Returns false if memory runs out. */
MUST_CHECK bool ledger_init(struct ledger *l, const struct pool *pool,
                            const struct prefix *index);
void ledger_fini(struct ledger *l);

/* Sets another owner of what is cached than the index of ledger_init(). */
void ledger_set_index(struct ledger *l, ledger_walk_fn walk, const void *index);

/* Starts a session: no grant, no snapshot.  session: 0 for none. */
void ledger_begin(struct ledger *l, uint64_t session);

/* Returns the first snapshot that will include what is released now. */
uint64_t ledger_next_snapshot(const struct ledger *l);

/* Fills `out` with the account as it is.  Within a session each call makes a
 * new snapshot. */
void ledger_fill(struct ledger *l, const struct pool *pool,
                 const struct sequence_table *t, struct ledger_message *out);

/* Checks every number, page and column, see above.  Returns the number of
 * differences, 0 if there are none, and writes the first ones to text[cap], one
 * a line. */
uint32_t ledger_audit(const struct ledger *l, const struct pool *pool,
                      const struct sequence_table *t, char *text, size_t cap);

/* Frees leaks, and returns how many there were.  Each is logged and counted as
 * a violation.  Called after an audit, and once a minute. */
uint32_t ledger_reap(struct ledger *l, struct pool *pool,
                     const struct sequence_table *t);

#endif
