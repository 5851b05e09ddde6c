/* sessions.h - Sessions: trees of turns from drawn lengths, rows of a trace, or
 * rows of a dataset.
 *
 * Lengths and tokens are a function of the seed and the session's content.
 * No function clears what it does not use: a session is large.
 *
 * Threading: none. */
#ifndef CLIENT_LOAD_PLAN_SESSIONS_H
#define CLIENT_LOAD_PLAN_SESSIONS_H

#include "client/load/plan/dataset.h"
#include "client/load/plan/recipe.h"
#include "client/load/plan/trace.h"

/* Fill the turns and pieces of *s; s->content is set. */
void sessions_draw(const struct recipe *r, struct plan_session *s);
void sessions_replay(const struct recipe *r, const struct trace *t,
                     const struct trace_row *row, struct plan_session *s);
void sessions_read(const struct recipe *r, const struct dataset *d,
                   const struct dataset_row *row, struct plan_session *s);

/* Returns the pause before session s->number of a closed loop. */
int64_t sessions_think(const struct recipe *r, uint64_t number);

#endif
