/* plan_drafts.h - The part of plan_check() for drafts.
 *
 * Threading: none.  Memory: the caller's marks. */
#ifndef WORKER_ENGINE_PLAN_DRAFTS_H
#define WORKER_ENGINE_PLAN_DRAFTS_H

#include "worker/engine/plan_check.h"

/* Checks the plan's replays, and begins the check of what its rows keep.  Uses
 * the marks of the pages. */
MUST_CHECK enum status plan_check_replays(const struct plan_bounds *b,
                                          const struct plan *p,
                                          struct error *e);

/* Checks the drafts, kept inputs and proposals of a row that is no twin. */
MUST_CHECK enum status plan_check_drafts(const struct plan_bounds *b,
                                         const struct plan_row *r,
                                         struct error *e);

#endif
