/* assembly.h - this worker's place in a replica of several stages, and the
 * stream around its ring: proto/README.md, "Shards".
 *
 *     NONE --Assemble--> JOINING --both edges are up--> UP
 *       ^                   |                           |
 *       |  EDGES_US, the    |                           | an edge ends, the
 *       |  call is given up |                           | stream is broken
 *       +-------------------+---------------------------+
 *            another Assemble, the end of the router's session
 *
 *     edge in    the stage before connects to us      common/wire/greeter.h
 *     edge out   we connect to the next one           common/wire/session.h
 *
 * While it is JOINING an edge may come and go: the outgoing one is tried again
 * until EDGES_US is over.  The router gives the leader nothing before all
 * have said that they are UP, so from then on the end of an edge is the end of
 * the assembly: everything held is freed at once (what a plan in flight names
 * when the plan is back), no orphan outlives it, and the router is told why
 * (Registry/Broken), unless it ended it itself.
 *
 * Back-pressure.  Nothing waits for room: the outgoing link has room for all
 * that the rules let be under way.  At most n_stages microbatches are, so
 * n_stages tensors of step_tokens rows of H float32; and the ids that Opens
 * carry are of sequences that the pool holds (ASSEMBLY_ID_BYTES each), beside
 * what every link has.  A message that finds no room all the same breaks the
 * assembly.
 *
 * Threading: the core's.  Memory: of the two sessions; a stage's own is made
 * at the first Assemble and kept.  Limits: below. */
#ifndef WORKER_STAGES_ASSEMBLY_H
#define WORKER_STAGES_ASSEMBLY_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"
#include "proto/limits.h"
#include "proto/stage.pb-c.h"
#include "proto/worker.pb-c.h"

/* From Assemble until both edges are up; less than the router waits, so that
 * the stage's sentence comes first. */
#define EDGES_US          5000000
#define ASSEMBLY_ID_BYTES 6 /* of an id in Open or OpenPart, at most */

struct worker_core;

enum assembly_state {
    ASSEMBLY_NONE,
    ASSEMBLY_JOINING,
    ASSEMBLY_UP,
    ASSEMBLY_STATES
};

struct assembly {
    enum assembly_state state;
    uint64_t id;
    uint32_t stage, n_stages;
    /* A step of the replica: the least that its stages take. */
    uint32_t max_rows, step_tokens;
    uint64_t call;  /* the Assemble that waits for its answer, 0: none */
    int64_t due_us; /* of JOINING: it is over then */

    bool has_next;          /* next was made: not yet in NONE */
    struct session next;    /* the edge out */
    struct greeter before;  /* the edge in; made once */
    struct peer *out, *in;  /* NULL: that edge is not up */
    struct frame *arriving; /* within the edge's ops: what is being read */

    bool broken; /* over in this tick; then why is the sentence */
    char why[256];
};

/* ---- what there is to ask ---- */

/* Does it stand, and is not about to end?  Nothing is sent or taken else. */
bool assembly_is_up(const struct worker_core *w);

/* Is this shard one that leads a replica of several stages: has it layer 0,
 * and not all?  It stays so for the worker's life. */
bool assembly_leads(const struct worker_core *w);
/* Is it one that obeys: without layer 0? */
bool assembly_obeys(const struct worker_core *w);

/* ---- the stream, to the next stage; in order ---- */

/* No-ops unless assembly_is_up().  Never fail towards the caller: what finds
 * no room, or is over the cap of its method, breaks the assembly. */
void assembly_send(struct worker_core *w, enum method m,
                   const ProtobufCMessage *message);
/* hidden [n_tokens, H] float32 is copied; NULL where m has a failure. */
void assembly_send_forward(struct worker_core *w,
                           const Sluice__V1__StageForward *m,
                           const float *hidden, uint32_t n_tokens);

/* Somebody's account, or the stream, is wrong: a sentence that names what and
 * the value.  From here nothing is sent or taken; it ends in this turn's
 * tick.  Sequences are as they were until then. */
__attribute__((format(printf, 2, 3))) void assembly_break(struct worker_core *w,
                                                          const char *fmt, ...);

/* ---- for the core ---- */

void assembly_init(struct worker_core *w);
/* The worker stops: both edges end, the sequences are the caller's. */
void assembly_fini(struct worker_core *w, const char *why);

/* Assemble, from the router. */
void assembly_recv_assemble(struct worker_core *w, struct peer *p,
                            uint64_t call,
                            const Sluice__V1__AssembleRequest *m);
/* The router has given up the call; false: it was none of ours. */
bool assembly_cancelled(struct worker_core *w, uint64_t call);
/* The router's session is over: so is the assembly, and all that it held. */
void assembly_session_over(struct worker_core *w);

/* node_ops: true if the event was an edge's (*f is taken then). */
bool assembly_opened(struct worker_core *w, struct peer_id who);
bool assembly_recv(struct worker_core *w, struct peer_id from,
                   struct frame **f);
bool assembly_lost(struct worker_core *w, struct peer_id who);

/* End it if it is broken or its time is over: all sequences are dropped. */
void assembly_settle(struct worker_core *w, int64_t now_us);
/* Flush, retry, ask silent edges; returns when next. */
int64_t assembly_tick(struct worker_core *w, int64_t now_us);

#endif
