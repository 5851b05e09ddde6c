/* stage_line.h - what the files of a stage share; nobody else includes it.
 *
 *   stage.c          Open, OpenPart, Remove; made and freed
 *   stage_forward.c  Forward: is it right?  Into the line
 *   stage_line.c     the line: to the engine, and on with what came of it */
#ifndef WORKER_STAGES_STAGE_LINE_H
#define WORKER_STAGES_STAGE_LINE_H

#include "worker/worker_state.h"

/* A plan that named s, or a Forward that came as failed, has gone on.
 * Afterwards s may be gone. */
void stage_plan_back(struct worker_core *w, struct sequence *s);

/* A microbatch that is in no line; there is one while fewer than n_stages
 * are. */
struct microbatch *stage_line_free(struct stage *g);
/* It joins the end. */
void stage_line_add(struct stage *g, struct microbatch *b);

#endif
