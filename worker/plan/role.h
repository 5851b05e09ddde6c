/* role.h - The part of a replica that a worker plays, as its sequences see it.
 *
 * One table per role answers every question that depends on the role:
 *
 *     alone    sequences/alone.h   has all layers
 *     leader   stages/leader.h     decides, and passes work on to the stages
 *     stage    stages/stage.h      obeys the leader's stream
 *
 * A stage is never asked about Submits: the router sends those to the leader.
 *
 * Threading: the core's. */
#ifndef WORKER_PLAN_ROLE_H
#define WORKER_PLAN_ROLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/worker.pb-c.h"

struct batch;
struct plan;
struct plan_row;
struct pool_need;
struct sequence;

/* A sequence goes on at `position`, before its next row. */
struct role_restore {
    uint32_t position;   /* the next to compute */
    uint32_t node;       /* blocks below it are those of this node's path;
                          * PREFIX_NONE: its own */
    uint32_t checkpoint; /* the state is a copy of it; SLOT_NONE: as it is, at
                          * position 0 zero */
    const struct sequence *from; /* gives it its blocks below position and its
                                  * slot (continue_from); NULL: none */
    bool cut; /* its other blocks and what it was granted are freed (a range) */
};

/* `self` is the pointer of the same name in struct role. */
struct role_ops {
    /* Returns ST_OK if a Submit may come here: with the grants of the other
     * stages at a leader, without them at a worker that is alone. */
    enum status (*check)(const void *self, const Sluice__V1__SubmitRequest *m,
                         struct error *e);
    /* The Submit became s. */
    void (*open)(void *self, struct sequence *s,
                 const Sluice__V1__SubmitRequest *m);
    /* The Submit was refused. */
    void (*refuse)(void *self, const Sluice__V1__SubmitRequest *m);
    /* Further ids of s came, from `offset` on. */
    void (*add_ids)(void *self, const struct sequence *s, uint32_t offset,
                    const uint32_t *ids, size_t n);
    /* s is RELEASING: free it at the other stages too. */
    void (*remove)(void *self, struct sequence *s);

    /* Process every result that is ready. */
    void (*take_results)(void *self);
    /* Submit as many plans as the engine takes. */
    void (*submit_plans)(void *self);
    /* Return how many plans the engine has, and the oldest, NULL if none. */
    uint32_t (*n_planned)(const void *self);
    const struct batch *(*oldest)(const void *self);

    /* A Submit of a sequence that runs here may take it over as it is. */
    bool adopts;

    /* Plans may restore, save, share and copy (worker/plan/reuse.h), and
     * the calls below pass that on; NULL where there is no other stage.
     * false: nothing is reused. */
    bool reuses;
    /* Evict from the index until the Submit's needs at the other stages fit;
     * the path to node `spare` goes last (prefix_make_room()).  Returns
     * ST_RESOURCE_EXHAUSTED if they do not fit then; e names the stage. */
    enum status (*make_room)(void *self, const Sluice__V1__SubmitRequest *m,
                             uint32_t spare, struct error *e);
    /* s has matched, was taken back, or took over another sequence; no plan in
     * flight names it.  Called at once, before anything else can be evicted:
     * the other stages do likewise. */
    void (*restore)(void *self, const struct sequence *s,
                    const struct role_restore *r);
    /* Write what the newest range freed at the other stages, in their order,
     * and return their number, at most STAGES_MAX - 1.  windows: pages. */
    uint32_t (*freed)(const void *self, uint32_t *blocks, uint32_t *slots,
                      uint32_t *windows);
    /* A checkpoint of that name was reserved here.  Returns false if the other
     * stages have no room for theirs. */
    bool (*reserve)(void *self, uint32_t checkpoint);
    /* A reserved checkpoint, which a row has saved, is now that of the node; or
     * it is none. */
    void (*put)(void *self, uint32_t node, uint32_t checkpoint);
    void (*drop)(void *self, uint32_t checkpoint);
    /* Called before units of s are inserted. */
    void (*insert)(void *self, const struct sequence *s);
    /* The units that the index has added since the last call are of s: all that
     * were to be inserted, or the first of them. */
    void (*keep)(void *self, const struct sequence *s);

    /* Drafts; NULL where the engine keeps inputs and replays them by itself.
     * Write the replays that go before the rows of a new plan. */
    void (*replay)(void *self, struct plan *p);
    /* Return how many tokens, at most n, a row of s with drafts may have in t;
     * below 2: it gets none. */
    uint32_t (*keep_room)(const void *self, const struct batch *t,
                          const struct sequence *s, uint32_t n);
    /* Set where a row with drafts keeps its inputs; it has the room. */
    void (*keep_inputs)(void *self, const struct sequence *s,
                        struct plan_row *row);
    /* The engine refused the newest plan. */
    void (*refused)(void *self, const struct batch *t);
};

struct role {
    const struct role_ops *ops;
    void *self;
};

#endif
