/* replica.h - Replicas: workers with partial shards that run a model together.
 *
 *     FORMING --all answered OK--> UP
 *        |                         |
 *        |  a worker reports       |
 *        |  Broken                 |
 *        +-----> BROKEN <----------+
 *        |         |               |
 *        |         | a session     | a session of its workers ends
 *        |         | ends, or all  |
 *        |         | sent a frame  |
 *        +-----> ENDING <----------+
 *
 * A worker whose shard is not the whole model is *staged*.  It waits until the
 * router finds a set of waiting workers that covers all layers once, in order,
 * and sends Assemble to each of them.  proto/README.md, section "Shards", has
 * the messages.
 *
 * Workers can form a replica if they
 *
 *     - serve the same model, with equal fingerprint and vocabulary (checked
 *       at Hello);
 *     - agree in the number of layers, the width of x, and block_tokens;
 *     - are UP, not draining, not delayed by their lineage, and in no replica.
 *
 * The router forms as many replicas as possible; among equal choices, workers
 * that came first go first (router/replicas/cover.h).  After a replica fails
 * without a death, the model's next one waits for ASSEMBLE_RETRY_US.  The delay
 * doubles with each failure, up to ASSEMBLE_RETRY_US_MAX, and starts over once
 * a replica was UP for longer than that.
 *
 * Sequences run at the leader, stage 0, whose struct worker is their place.  A
 * place is a worker with all layers, or the leader of a replica that is UP:
 * worker_can_serve().  router/replicas/place.h asks all stages of a place.
 *
 * A replica ends as a whole.  The router ends the sessions of all its workers
 * with Goodbye; they send Hello again and form a new replica.  Only the worker
 * whose session ended first can have died, because the router ended the other
 * sessions.  Neighbours may notice a death before the router does.  A replica
 * in BROKEN therefore receives no grants and waits for BROKEN_US, and until
 * each worker has sent a frame since or has lost its session: this identifies
 * the worker that died.
 *
 * A session is part of one assembly at most, so an answer to Assemble always
 * belongs to the present assembly.
 *
 * Threading: the core's.  Memory: on the heap, freed when the session of the
 * last of its workers is closed.  Limits: 2..STAGES_MAX workers per replica;
 * ROUTER_WORKERS_MAX / 2 replicas. */
#ifndef ROUTER_REPLICAS_REPLICA_H
#define ROUTER_REPLICAS_REPLICA_H

#include "router/fleet/workers.h"
#include "router/replicas/replicas.h"

enum replica_state {
    REPLICA_FORMING,
    REPLICA_UP,
    REPLICA_BROKEN,
    REPLICA_ENDING,
    REPLICA_STATES
};

struct replica {
    struct list all;   /* in replicas.all, in order of forming */
    uint64_t assembly; /* random id, not 0 */
    struct model *model;
    enum replica_state state;
    uint32_t n_stages;
    uint32_t n_ready;                   /* stages that answered Assemble */
    uint32_t n_left;                    /* stages whose session is not closed */
    uint32_t context;                   /* tokens: the shortest of all stages */
    struct worker *workers[STAGES_MAX]; /* [n_stages]; NULL: session closed;
                                         * never NULL while UP */
    int64_t up_us;                      /* when it came up; 0: never */
    int64_t broke_us;                   /* when it became BROKEN */
    struct event due; /* FORMING: all answered; BROKEN: next check */
    char leader[PEER_NAME_MAX + 1]; /* name of the leader, for logs */
    char why[256];                  /* the reason of the end */
};

/* The room's part of a worker. */
struct membership {
    struct replica *replica; /* a staged worker's; NULL: none */
    uint32_t stage;          /* the worker's index in the replica */
};

static inline struct membership *member_of(const struct worker *w)
{
    return w->parts[PART_REPLICAS];
}

/* ---- places ---- */

/* Returns true if w has only some of the model's layers. */
static inline bool worker_is_staged(const struct worker *w)
{
    return w->shard.layer_begin != 0 || w->shard.layer_end != w->shard.n_layers;
}

/* Returns the number of stages of the place w; 1 for a worker with all
 * layers. */
static inline uint32_t worker_n_stages(const struct worker *w)
{
    return member_of(w)->replica != NULL ? member_of(w)->replica->n_stages : 1;
}

/* Returns stage i of the place w; stage 0 is w.  Returns NULL if the session of
 * that stage is closed, which cannot be while worker_can_serve(w). */
static inline struct worker *worker_stage(const struct worker *w, uint32_t i)
{
    return member_of(w)->replica != NULL ? member_of(w)->replica->workers[i]
                                         : (struct worker *)w;
}

/* Returns the place that w is a stage of: w itself, or its leader.  Returns
 * NULL if w is in no replica, or if the leader's session is closed. */
static inline struct worker *worker_place(struct worker *w)
{
    return member_of(w)->replica != NULL ? member_of(w)->replica->workers[0]
           : worker_is_staged(w)         ? NULL
                                         : w;
}

/* Returns the context of a place in tokens: the shortest of its stages. */
static inline uint32_t worker_context(const struct worker *w)
{
    return member_of(w)->replica != NULL ? member_of(w)->replica->context
                                         : w->shard.context;
}

/* ---- start and end of a replica ---- */

/* Assembles all possible replicas of m, whose workers have changed.  A no-op
 * during the delay after a failed replica. */
void replicas_form(struct replicas *r, struct model *m);

/* Takes the answer of w to Assemble.  A status other than OK, with its reason
 * in *e, breaks the replica. */
void replica_answered(struct replicas *r, struct worker *w, enum status status,
                      const struct error *e);

/* Takes a Broken message from w about an assembly.  why is untrusted text.  A
 * no-op unless w is in that assembly and it is FORMING or UP. */
void replica_broken(struct replicas *r, struct worker *w, uint64_t assembly,
                    ProtobufCBinaryData why);

/* Ends the replica of w, whose session is over for the reason why, and the
 * sessions of all its workers.  A no-op if w is in no replica or if the replica
 * is ending. */
void replica_end(struct replicas *r, struct worker *w, const char *why);

/* Removes w from its replica, which must be ENDING.  The last worker frees the
 * replica. */
void replica_leave(struct worker *w);

/* Returns the name of the state of x for operators.  Never NULL. */
const char *replica_state_name(const struct replica *x);

#endif
