/* ledgers.h - the ledgers that workers publish, checked and applied.
 *
 * A ledger is a numbered snapshot of a worker's pool.  Room changes by
 * ledgers alone: worker_ledger_take() replaces the newest ledger and settles
 * the grants that it includes.  Every field is checked against the ledger
 * before and the grants given, because a worker may be faulty.
 *
 * Threading: the core's.  Memory: in struct worker; no call allocates. */
#ifndef ROUTER_FLEET_LEDGERS_H
#define ROUTER_FLEET_LEDGERS_H

#include "router/fleet/workers.h"

struct fleet;

enum ledger_verdict {
    LEDGER_NEW, /* newer than the last: take it */
    LEDGER_OLD, /* older than the last, or of another session: drop it */
    LEDGER_LIE  /* contradicts what is known: e gives the reason */
};

/* Compare a ledger with what is known.  Changes nothing. */
enum ledger_verdict worker_ledger_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        struct error *e);

/* The same of a ledger and what came with it of the engine, or NULL. */
enum ledger_verdict worker_report_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        const Sluice__V1__EngineState *engine,
                                        struct error *e);

/* Take a ledger that was judged LEDGER_NEW. */
void worker_ledger_take(struct fleet *fleet, struct worker *w,
                        const Sluice__V1__Ledger *l);

/* Copies a ledger message, already checked, into *to. */
void ledger_read(struct fleet_ledger *to, const Sluice__V1__Ledger *l);

void ledger_message(const struct fleet_ledger *l, Sluice__V1__Ledger *out,
                    Sluice__V1__ClassLedger classes[FLEET_CLASSES]);

#endif
