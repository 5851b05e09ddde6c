/* held_check.h - Checks a ledger against the sequences that run at its worker.
 *
 * A worker charges a sequence's whole need from its Submit to its end.  The
 * router has accepted grants on that: a ledger that shows the memory of a
 * running sequence as free would have it promised twice.
 *
 * Sequences share the full blocks of equal prefixes, so together they hold at
 * most the sum of their needs, and may hold less.  A block that a sequence is
 * still to write belongs to no other.  The check is therefore a lower bound,
 * over the sequences that surely run:
 *
 *     slots    held + granted >= the sum of their needs
 *     blocks   held + granted >= the sum of their own blocks
 *              + the largest rest of one of them
 *     windows  held + granted >= the sum of their needs, in pages: a window
 *              block that is given back, or shared, leaves a granted one
 *
 * where the own blocks of a sequence are those of its need past the full blocks
 * of its prompt and of the tokens that the router has.  A sequence whose row in
 * the same message brings tokens may have computed more, and counts as without
 * own blocks.  For one sequence alone, the bound is its need.
 *
 * A sequence surely runs if
 *
 *   - the ledger includes its grant, and the worker has accepted it;
 *   - no Cancel or Remove is under way, and it is not kept;
 *   - its row in the same message shows it queued, in prefill or in decode; or
 *     it has no row, and the message had room for more rows and no reason of
 *     a failure.
 *
 * The last point makes it sure.  A worker sends the row of an ending
 * until it is acknowledged, and a Report only if no row waits.  A sequence
 * without a row therefore has not ended.
 *
 * A sequence that grows (router/schedule/claims.h) holds what its prompt
 * and all tokens but the newest take, in place of its need; before its first
 * token, what its prompt takes.  At a worker where
 * one grew in this session, any sequence may be suspended, and the row of a
 * suspension may be acknowledged by an older answer before it is sent: there
 * only sequences with a row in the message count.
 *
 * A worker may hold more than that: plans in flight, orphans, kept sequences.
 * Stages past the first are not checked, since the leader's rows travel on
 * another connection than their ledgers.  A leader is checked by its rows only:
 * at the end of an assembly its memory is free before the router is informed.
 *
 * Threading: the core's thread only.  Memory: marks in struct choice. */
#ifndef ROUTER_REQUESTS_HELD_CHECK_H
#define ROUTER_REQUESTS_HELD_CHECK_H

#include "proto/registry.pb-c.h"
#include "router/requests/choice.h"

/* Checks a new ledger of w with the rows m of its StepOutput, whose columns
 * have been checked; NULL for a Report.  Returns ST_DATA_LOSS with a sentence
 * if memory of a running sequence is shown as free, or if two rows have the
 * same grant. */
MUST_CHECK enum status held_check(struct worker *w, const Sluice__V1__Ledger *l,
                                  const Sluice__V1__StepOutputMessage *m,
                                  struct error *e);

#endif
