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

#include "router/base/router_limits.h"
#include "router/fleet/peers.h"

struct fleet;

#define TRIAL_DEATHS_ALL (TRIAL_DEATHS + TRIAL_MERCY_MAX)
/* Deaths remembered: those of one on trial, as many as it may get, and as many
 * more as there is mercy. */
#define TRIAL_RING 16

/* The newest deaths of a model's workers; router/schedule/trial.h has the
 * rules. */
struct deaths {
    int64_t at_us[TRIAL_RING]; /* INT64_MIN: none, or taken back */
    uint64_t life[TRIAL_RING];
    uint64_t n; /* the next one is at n % TRIAL_RING */
};

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

/* m has a place that is open, or busy, or about to leave (present); or none:
 * its absence begins.  The last reference may go. */
void model_set_present(struct fleet *fleet, struct model *m, bool present);

/* By name; n = 0: the only one that has a place, or, if none has, the only
 * one that is absent.  NULL: none. */
struct model *model_find(struct fleet *fleet, const uint8_t *name, size_t n);

/* Find or make, and take a reference.  NULL: there are ROUTER_MODELS_MAX. */
struct model *model_take(struct fleet *fleet, const uint8_t *name, size_t n);
void model_release(struct fleet *fleet, struct model **m);

/* The router goes: nobody waits for a worker any more. */
void models_fini(struct fleet *fleet);

/* Try its queue again before this tick returns. */
void model_touch(struct fleet *fleet, struct model *m);

/* A sequence of it has ended: what was measured tells how long to wait. */
void model_ended(struct fleet *fleet, struct model *m);

/* In how many ms the queue as it stands may be through. */
uint32_t model_retry_ms(const struct model *m);

#endif
