/* models.h - a model as the router serves it: who has it, who waits for it.
 *
 * An entry exists while a worker of the model is up or a request names it.
 * The first worker decides fingerprint, vocabulary and tokenizer; another
 * that differs is refused.
 *
 * Threading: the core's.  Memory: on the heap, counted by references.
 * Limits: ROUTER_MODELS_MAX. */
#ifndef ROUTER_MODELS_H
#define ROUTER_MODELS_H

#include "router/core.h"
#include "router/limits.h"
#include "router/list.h"

struct model {
    char name[MODEL_NAME_MAX + 1];
    uint32_t references; /* workers and requests */
    uint32_t n_workers;  /* that are up */
    uint8_t fingerprint[16];
    uint32_t vocab, context; /* context: the longest of its workers */
    bool has_text;
    uint32_t text; /* the text seam's number for it */

    struct list waiting; /* struct request, first come first served */
    uint32_t n_waiting;
    struct list dirty;       /* room or queue changed: look again */
    int64_t last_end_us;     /* of a sequence, 0: none yet */
    int64_t end_interval_us; /* between two ends, smoothed */
};

/* By name; n = 0: the only one that has a worker.  NULL: none. */
struct model *model_find(struct router_core *r, const uint8_t *name, size_t n);

/* Find or make, and take a reference.  NULL: there are ROUTER_MODELS_MAX. */
struct model *model_take(struct router_core *r, const uint8_t *name, size_t n);
void model_release(struct router_core *r, struct model **m);

/* Try its queue again before this tick returns. */
void model_touch(struct router_core *r, struct model *m);

/* A sequence of it has ended: what was measured tells how long to wait. */
void model_ended(struct router_core *r, struct model *m);

/* In how many ms the queue as it stands may be through. */
uint32_t model_retry_ms(const struct model *m);

#endif
