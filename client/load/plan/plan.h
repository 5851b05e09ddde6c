/* plan.h - A schedule: sessions of turns, at absolute times.
 *
 * A session is a tree of turns; a plain request is a session of one turn.  A
 * turn without parent is due at the start of its session.  Any other turn is
 * due think_us after the end of its parent, and its prompt continues the
 * parent's prompt and answer.
 *
 * In an open loop each session has an absolute start, which nothing moves: not
 * a slow server, not a late generator.  In a closed loop, a session starts when
 * a slot is free.
 *
 * A plan is a function of its options and seed.  Every generator process runs
 * the whole plan and takes the sessions with number % n_shares == share.
 *
 * Threading: none.  Memory: traces and datasets are loaded once and shared by
 * fork(); a session lives in the caller's storage and borrows from the plan.
 * Pure, apart from reading files in plan_new(). */
#ifndef CLIENT_LOAD_PLAN_PLAN_H
#define CLIENT_LOAD_PLAN_PLAN_H

#include "client/load/plan/plan_types.h"
#include "common/base/status.h"

struct plan;

/* Makes a plan and loads its files.  Returns ST_INVALID_ARGUMENT and a
 * sentence that names the option, the fault and a valid value;
 * ST_NOT_FOUND if a file cannot be read. */
MUST_CHECK enum status plan_new(struct plan **out, const struct plan_options *o,
                                struct error *e);

void plan_free(struct plan **p);

/* Begins the plan again for another share, rate or context, without loading
 * files: trace and dataset must be the same.  The same errors as plan_new().
 * After an error the plan may only be restarted or freed. */
MUST_CHECK enum status
plan_restart(struct plan *p, const struct plan_options *o, struct error *e);

/* Fills *s with the next session of the share, in order of due time.  Parts of
 * *s past its numbers of turns and pieces are not written.  Returns false at
 * the end. */
bool plan_next(struct plan *p, struct plan_session *s);

/* Returns whether the plan is a closed loop, and its number of slots for this
 * share. */
bool plan_is_closed(const struct plan *p, uint32_t *n_slots);

/* Returns a line for people: what is sent, and what was scaled down to fit the
 * context.  Valid as long as the plan. */
const char *plan_text(const struct plan *p);

/* A named profile: options that the command line may override. */
struct plan_profile {
    const char *name, *summary;
    struct plan_options options;
};

extern const struct plan_profile plan_profiles[]; /* ended by name NULL */

/* Fills what is absent in *o from o->profile, and sets it to NULL.  A load or a
 * content that is given replaces that of the profile as a whole.  plan_new()
 * does this.  Returns ST_INVALID_ARGUMENT if there is no such profile. */
MUST_CHECK enum status plan_profile_apply(struct plan_options *o,
                                          struct error *e);

#endif
