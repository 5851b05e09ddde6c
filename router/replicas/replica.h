/* replica.h - workers of partial shards that run a model together.
 *
 *     FORMING --all answered OK--> UP
 *        |                         |
 *        |  a worker says that     |
 *        |  its assembly is over   |
 *        +-----> BROKEN <----------+
 *        |         |               |
 *        |         | a session     | a session of its workers is over
 *        |         | is over, or   |
 *        |         | all are heard |
 *        +-----> ENDING <----------+
 *
 * A worker whose shard is not all of the model is *staged*: it waits until
 * the router can choose from those that wait a set that covers all layers
 * once, in order, and sends Assemble to each.  proto/README.md, "Shards", is
 * the conversation.
 *
 * Who may meet: workers of one model (so of one fingerprint and vocabulary:
 * Hello sees to it) that agree in the number of layers, the width of x and
 * block_tokens, are up, not drained, not kept out by their lineage, and in no
 * replica.  As many replicas are made as there can be; of equals,
 * those who came first (router/replicas/cover.h).  After one that came to
 * nothing the model's next waits, for longer each time: ASSEMBLE_RETRY_US and
 * on.
 *
 * Sequences run at the leader, stage 0: its struct worker is their place.  A
 * place is a worker of all layers, or the leader of a replica that is UP:
 * worker_can_serve().  All else that looks for a place passes staged workers
 * by; what it asks of a place it asks of all its stages.
 *
 * It ends as a whole: the sessions of all its workers end with Goodbye, they
 * say Hello again, and are assembled anew.  Nobody but the worker whose
 * session ended first can have died: the others are ended by the router.
 * What neighbours see of a death may come before the router sees it; so
 * BROKEN grants nothing, waits for BROKEN_US and until each of its workers was
 * heard since or is lost, and learns who it was.
 *
 * A session is in one assembly at most, so an answer to Assemble cannot be of
 * another one.
 *
 * Threading: the core's.  Memory: on the heap, freed when the last of its
 * workers is closed.  Limits: STAGES_MAX workers each; no more replicas than
 * half of ROUTER_WORKERS_MAX. */
#ifndef ROUTER_REPLICAS_REPLICA_H
#define ROUTER_REPLICAS_REPLICA_H

#include "router/fleet/workers.h"
#include "router/replicas/replicas.h"

struct replicas;

enum replica_state {
    REPLICA_FORMING,
    REPLICA_UP,
    REPLICA_BROKEN,
    REPLICA_ENDING,
    REPLICA_STATES
};

struct replica {
    struct list all;   /* of the core, in order of forming */
    uint64_t assembly; /* random, not 0 */
    struct model *model;
    enum replica_state state;
    uint32_t n_stages;
    uint32_t n_ready;                   /* that have answered Assemble */
    uint32_t n_left;                    /* whose session is not closed yet */
    uint32_t context;                   /* of the stage that has the shortest */
    struct worker *workers[STAGES_MAX]; /* [n_stages]; NULL: closed.  Of one
                                         * that is UP none is. */
    int64_t up_us;                      /* since when; 0: it never was */
    int64_t broke_us;
    struct event due; /* FORMING: all have answered; BROKEN: nobody was lost */
    char leader[PEER_NAME_MAX + 1]; /* for logs */
    char why[256];                  /* it ends */
};

/* ---- places ---- */

/* Has it only some of the layers? */
static inline bool worker_is_staged(const struct worker *w)
{
    return w->shard.layer_begin != 0 || w->shard.layer_end != w->shard.n_layers;
}

/* Stages of the place w; 1 for a worker of all layers. */
static inline uint32_t worker_n_stages(const struct worker *w)
{
    return w->replica != NULL ? w->replica->n_stages : 1;
}

/* Stage i of the place w, itself the first.  NULL: its session is closed;
 * never where worker_can_serve(w). */
static inline struct worker *worker_stage(const struct worker *w, uint32_t i)
{
    return w->replica != NULL ? w->replica->workers[i] : (struct worker *)w;
}

/* The place that w is a stage of: itself, its leader, or NULL, if there is
 * none (any more). */
static inline struct worker *worker_place(struct worker *w)
{
    return w->replica != NULL    ? w->replica->workers[0]
           : worker_is_staged(w) ? NULL
                                 : w;
}

/* The longest sequence that fits the context of all stages of a place. */
static inline uint32_t worker_context(const struct worker *w)
{
    return w->replica != NULL ? w->replica->context : w->shard.context;
}

/* ---- the life of a replica ---- */

/* Assemble what can be, of a model whose workers have changed. */
void replicas_form(struct replicas *r, struct model *m);

/* w has answered Assemble. */
void replica_answered(struct replicas *r, struct worker *w, enum status status,
                      const struct error *e);

/* w says that this assembly is over. */
void replica_broken(struct replicas *r, struct worker *w, uint64_t assembly,
                    ProtobufCBinaryData why);

/* The session of w is over, so its replica is: all its sessions end. */
void replica_end(struct replicas *r, struct worker *w, const char *why);

/* w, whose replica has ended, is forgotten by it. */
void replica_leave(struct worker *w);

const char *replica_state_name(const struct replica *x);

#endif
