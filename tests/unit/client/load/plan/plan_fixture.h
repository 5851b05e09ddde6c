/* plan_fixture.h - Plans, sessions and small files for tests. */
#ifndef TESTS_UNIT_CLIENT_LOAD_PLAN_PLAN_FIXTURE_H
#define TESTS_UNIT_CLIENT_LOAD_PLAN_PLAN_FIXTURE_H

#include "client/load/plan/plan.h"

/* Makes a plan; fails the test if it is refused. */
struct plan *fixture_plan(const struct plan_options *o);

/* Expects that a plan is refused with a sentence that has these words. */
void fixture_refused(const struct plan_options *o, const char *has);

/* Returns the next session, in storage that the next call reuses; NULL at the
 * end. */
struct plan_session *fixture_next(struct plan *p);

/* Returns a number that depends on everything in a session. */
uint64_t fixture_sum(const struct plan_session *s);

/* Writes a file that fixture_fini() removes, and returns its path. */
const char *fixture_file(const char *text);
void fixture_fini(void);

#endif
