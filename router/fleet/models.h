/* models.h - a model as the router serves it: who has it, who waits for it.
 *
 * An entry exists while a worker of the model is up or a request names it,
 * and for a while after the last worker went: till then the model is absent,
 * and what was asked of it waits.
 *
 *     PRESENT --no worker, or all drained--> ABSENT --worker_wait--> GONE
 *        ^                                      |                     |
 *        +------------ a worker, Undrain -------+---------------------+
 *
 * The first worker decides fingerprint, vocabulary and tokenizer; another
 * that differs is refused.
 *
 * Threading: the core's.  Memory: on the heap, counted by references.
 * Limits: ROUTER_MODELS_MAX. */
#ifndef ROUTER_FLEET_MODELS_H
#define ROUTER_FLEET_MODELS_H

#include "router/fleet/peers.h"
#include "router/requests/trial.h"
#include "router/router_core.h"
#include "router/router_limits.h"

enum model_presence { MODEL_PRESENT, MODEL_ABSENT, MODEL_GONE };

struct model {
    char name[MODEL_NAME_MAX + 1];
    uint32_t references; /* workers and requests */
    uint32_t n_places;   /* where it runs: workers of all layers, replicas */
    uint32_t n_loose;    /* staged workers that are in no replica */
    int64_t pause_us;    /* the newest pause before one is made, 0: none */
    struct event pause;  /* its end */
    enum model_presence presence;
    struct event absence; /* its end; holds a reference */
    bool headroom_off;    /* said that it has no effect */
    uint8_t fingerprint[16];
    uint32_t vocab, context; /* context: the longest of its places */
    bool has_text;
    uint32_t text; /* the text seam's number for it */

    struct list waiting; /* struct choice, first come first served */
    uint32_t n_waiting;
    struct list dirty;       /* room or queue changed: look again */
    int64_t last_end_us;     /* of a sequence, 0: none yet */
    int64_t end_interval_us; /* between two ends, smoothed */
    struct deaths deaths;    /* of its workers, for trial.h */
};

/* May requests wait for it? */
static inline bool model_waits(const struct model *m)
{
    return m->presence != MODEL_GONE;
}

/* Its workers have changed: is it there?  The last reference may go. */
void model_look(struct router_core *r, struct model *m);

/* By name; n = 0: the only one that has a place, or, if none has, the only
 * one that is absent.  NULL: none. */
struct model *model_find(struct router_core *r, const uint8_t *name, size_t n);

/* Find or make, and take a reference.  NULL: there are ROUTER_MODELS_MAX. */
struct model *model_take(struct router_core *r, const uint8_t *name, size_t n);
void model_release(struct router_core *r, struct model **m);

/* The router goes: nobody waits for a worker any more. */
void models_fini(struct router_core *r);

/* Try its queue again before this tick returns. */
void model_touch(struct router_core *r, struct model *m);

/* A sequence of it has ended: what was measured tells how long to wait. */
void model_ended(struct router_core *r, struct model *m);

/* In how many ms the queue as it stands may be through. */
uint32_t model_retry_ms(const struct model *m);

#endif
