/* ledgers.h - Checks and applies the ledgers that workers publish.
 *
 * A ledger is a numbered snapshot of a worker's pool.  Only ledgers change
 * room: worker_ledger_take() replaces the newest ledger and settles the
 * grants that it includes.  A worker may be faulty, so every field is checked
 * against the previous ledger and the grants given.
 *
 * Threading: the core's.  Memory: in struct worker; no call allocates. */
#ifndef ROUTER_FLEET_LEDGERS_H
#define ROUTER_FLEET_LEDGERS_H

#include "router/fleet/workers.h"

struct fleet;

/* Names of the classes in sentences: "blocks", "slots", .. */
extern const char *const ledger_class_names[FLEET_CLASSES];

enum ledger_verdict {
    LEDGER_NEW,    /* newer than the last one: apply it */
    LEDGER_OLD,    /* older, or from another session: drop it */
    LEDGER_INVALID /* contradicts earlier reports; *e has the reason */
};

/* Compares a ledger with the last one and with the grants given.  Changes
 * nothing.  Sets *e (DATA_LOSS) with LEDGER_INVALID only. */
enum ledger_verdict worker_ledger_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        struct error *e);

/* Checks a ledger like worker_ledger_check(), and the engine state that came
 * with it (NULL: none) like liveness_check(). */
enum ledger_verdict worker_report_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        const Sluice__V1__EngineState *engine,
                                        struct error *e);

/* Checks that the columns of a ledger agree: in pages total = free + held +
 * cached + granted, and each of held, cached and granted is the sum over the
 * classes; of each class held + cached + granted is at most the total, and free
 * at most what the free pages give.  Returns `code` with a sentence if they do
 * not. */
MUST_CHECK enum status ledger_columns_check(const struct shard *s,
                                            const Sluice__V1__Ledger *l,
                                            enum status code, struct error *e);

/* Checks the counts of a ledger that no other ledger is needed for: sequences
 * and violations.  Returns `code` with a sentence if one is out of range. */
MUST_CHECK enum status ledger_counts_check(const Sluice__V1__Ledger *l,
                                           enum status code, struct error *e);

/* Applies a ledger for which the check returned LEDGER_NEW: settles the grants
 * that it includes, counts violations, and has the queue of the model tried
 * again. */
void worker_ledger_take(struct fleet *fleet, struct worker *w,
                        const Sluice__V1__Ledger *l);

/* Copies a checked ledger message into *to.  What the message does not have
 * stays as it was. */
void ledger_read(struct fleet_ledger *to, const Sluice__V1__Ledger *l);

/* Messages that a Ledger points to. */
struct ledger_parts {
    Sluice__V1__ClassLedger classes[FLEET_CLASSES];
    Sluice__V1__HostTier tier;
};

/* Copies a ledger into a message.  *out points to *parts, which must live as
 * long as *out. */
void ledger_message(const struct fleet_ledger *l, struct ledger_parts *parts,
                    Sluice__V1__Ledger *out);

#endif
