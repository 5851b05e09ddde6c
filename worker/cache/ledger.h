/* ledger.h - the account of the pool as the router sees it, and its audit.
 *
 * Every ledger sent has a number of its own (snapshot), counted from 1 in a
 * session, and the highest grant up to which all are settled: what a Submit
 * was promised stands in its figures, or the Submit was refused.
 *
 * Threading: the core's.  Memory: ledger_init(); no other call allocates. */
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
    uint32_t *owners; /* of the audit: [most of a class] */
};

/* A protobuf Ledger with the messages it points to. */
struct ledger_message {
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[POOL_CLASSES], pages;
};

/* False if memory is out. */
MUST_CHECK bool ledger_init(struct ledger *l, const struct pool *pool);
void ledger_fini(struct ledger *l);

/* A new session: nothing granted, no snapshot taken. */
void ledger_begin(struct ledger *l, uint64_t session);

/* The snapshot that first includes what was released just now. */
uint64_t ledger_next_snapshot(const struct ledger *l);

/* Fill in the account as it is; a session's is a new snapshot. */
void ledger_fill(struct ledger *l, const struct pool *pool,
                 const struct sequence_table *t, struct ledger_message *out);

/* Walk free lists and sequences: each number in exactly one place, the
 * counts equal to what is found.  Returns the number of differences (0 is
 * whole); the first ones are written to text[cap], one a line. */
uint32_t ledger_audit(const struct ledger *l, const struct pool *pool,
                      const struct sequence_table *t, char *text, size_t cap);

#endif
