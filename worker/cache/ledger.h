/* ledger.h - The pool's account as sent to the router, and its audit.
 *
 * Every ledger that is sent has a snapshot number, counted from 1 in each
 * session, and names the highest settled grant.  A grant is settled if its
 * figures include what the Submit was promised, or if the Submit was refused.
 * All grants up to that number are settled.
 *
 * Threading: the core's.  Memory: ledger_init() allocates; no other call
 * does. */
#ifndef WORKER_CACHE_LEDGER_H
#define WORKER_CACHE_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/common.pb-c.h"
#include "worker/cache/pool.h"
#include "worker/cache/sequence.h"

struct ledger {
    uint64_t session, snapshot, grant;
    uint32_t *owners; /* for the audit: [total of the largest class] */
};

/* A protobuf Ledger with the messages that it points to. */
struct ledger_message {
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[POOL_CLASSES], pages;
};

/* Returns false if memory runs out. */
MUST_CHECK bool ledger_init(struct ledger *l, const struct pool *pool);
void ledger_fini(struct ledger *l);

/* Starts a session: no grant, no snapshot.  session: 0 for none. */
void ledger_begin(struct ledger *l, uint64_t session);

/* Returns the first snapshot that will include what is released now. */
uint64_t ledger_next_snapshot(const struct ledger *l);

/* Fills `out` with the account as it is.  Within a session each call makes a
 * new snapshot. */
void ledger_fill(struct ledger *l, const struct pool *pool,
                 const struct sequence_table *t, struct ledger_message *out);

/* Walks free lists and sequences, and checks that every number is in exactly
 * one place and that the counts match.  Returns the number of differences, 0
 * if there are none, and writes the first ones to text[cap], one a line. */
uint32_t ledger_audit(const struct ledger *l, const struct pool *pool,
                      const struct sequence_table *t, char *text, size_t cap);

#endif
