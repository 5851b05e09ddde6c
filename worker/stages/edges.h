/* edges.h - the two edges of an assembly: how they come up, what comes in by
 * them, how they go.  worker/stages/assembly.h is the contract; nobody but
 * assembly.c and edges.c includes this.
 *
 * A stage speaks to the one after it.  What comes the other way, or out of its
 * place, or breaks a rule of frames, breaks the assembly: a stream with a hole
 * is none.
 *
 * Threading: the core's. */
#ifndef WORKER_STAGES_EDGES_H
#define WORKER_STAGES_EDGES_H

#include "worker/stages/assembly.h"

/* The place of the stage that comes in. */
uint32_t edges_before(const struct assembly *a);

/* JOINING: connect to `next`, let the one before in. */
void edges_begin(struct worker_core *w, ProtobufCBinaryData next);
/* NONE: both end, with Goodbye. */
void edges_end(struct worker_core *w, const char *why);
/* The same, for good. */
void edges_fini(struct worker_core *w, const char *why);

/* assembly.c: an edge is up; are both?  And: one of an assembly that was up is
 * not any more. */
void assembly_edge_up(struct worker_core *w);
__attribute__((format(printf, 2, 3))) void
assembly_edge_down(struct worker_core *w, const char *fmt, ...);

#endif
