/* stages.h - The state of the room: a worker's part in an assembly of stages,
 * and how assemblies begin and end.
 *
 *   assembly.h   the place in the ring, and the stream to the next stage
 *   edges.h      the connections to both neighbours
 *   leader.h     the stage with layer 0
 *   stage.h      any other stage
 *   offer.h      a worker that has no layers yet
 *
 * Threading: the core's.  Memory: of the edges; a stage allocates at its first
 * Assemble and keeps the memory. */
#ifndef WORKER_STAGES_STAGES_H
#define WORKER_STAGES_STAGES_H

#include "worker/sequences/sequences.h"
#include "worker/stages/edges.h"
#include "worker/stages/leader.h"
#include "worker/stages/stage.h"

struct stages {
    struct sequences *sequences;
    struct assembly assembly;
    struct edges edges;
    struct leader leader; /* in use at a leader */
    struct stage stage;   /* in use at a stage */
};

/* Makes the room and sets the role of the sequences. */
void stages_init(struct stages *g, struct sequences *q);
/* Ends the assembly and both edges: the worker stops. */
void stages_stop(struct stages *g, const char *why);
/* Frees the memory; after stages_stop(). */
void stages_fini(struct stages *g);

/* Ends the current assembly, if any, because another Assemble came. */
void stages_replace(struct stages *g);
/* Begins an assembly that the caller has checked; `call` is answered when it is
 * up or has ended.  Returns ST_RESOURCE_EXHAUSTED if memory runs out. */
MUST_CHECK enum status stages_join(struct stages *g, uint64_t call,
                                   const Sluice__V1__AssembleRequest *m,
                                   struct error *e);

/* Ends the assembly if `call` is its Assemble, which the router cancelled.
 * Returns false if it is another call. */
bool stages_cancelled(struct stages *g, uint64_t call);

/* Ends the assembly and drops its sequences: the router's session is over. */
void stages_session_over(struct stages *g);

/* Ends the assembly, and drops all sequences, if it is broken or its time to
 * join has passed. */
void stages_settle(struct stages *g, int64_t now_us);

#endif
