/* edges.h - The two edges of an assembly: how they come up, what they deliver,
 * and how they end.
 *
 * A stage sends to the next one only.  A message that comes from the next
 * stage, out of its place, or against the rules of frames breaks the assembly,
 * because a stream with a gap is useless.
 *
 * Threading: the core's.  Memory: of one session and one greeter. */
#ifndef WORKER_STAGES_EDGES_H
#define WORKER_STAGES_EDGES_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"
#include "proto/worker.pb-c.h"
#include "worker/sequence/sequence.h"
#include "worker/stages/assembly.h"

struct edges {
    struct assembly *a;
    const struct sequence_table *table; /* for the size of the outgoing link */
    void (*up)(void *owner);            /* an edge came up */
    void *owner;
    bool has_next;         /* next is initialised: not in NONE */
    struct session next;   /* the edge out */
    struct greeter before; /* the edge in; made once */
};

/* Listens for the previous stage.  a->base, a and table are borrowed. */
void edges_init(struct edges *g, struct assembly *a,
                const struct sequence_table *table, void (*up)(void *owner),
                void *owner);

/* Connects to the next stage of a checked Assemble and lets the previous stage
 * in, as JOINING begins. */
void edges_begin(struct edges *g, const Sluice__V1__AssembleRequest *m);
/* Ends both edges with Goodbye. */
void edges_end(struct edges *g, const char *why);
/* Ends both edges for good. */
void edges_fini(struct edges *g, const char *why);

/* Handle the events of node_ops.  Each returns true if the event belonged to an
 * edge; *f is taken then. */
bool edges_opened(struct edges *g, struct peer_id from);
bool edges_recv(struct edges *g, struct peer_id from, struct frame **f);
bool edges_lost(struct edges *g, struct peer_id from);

/* Flushes, retries and pings silent edges.  Returns when to call again. */
int64_t edges_tick(struct edges *g, int64_t now_us);

#endif
