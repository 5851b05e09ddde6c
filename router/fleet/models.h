/* models.h - Models that the router serves, with their places and queues.
 *
 * An entry exists while a worker of the model is up or a request names the
 * model.  When the last worker has left, the model is absent for
 * options.worker_wait_us: the entry stays and its requests wait.
 *
 *     PRESENT --no worker, or all drained--> ABSENT --worker_wait--> GONE
 *        ^                                      |                     |
 *        +------------ a worker, Undrain -------+---------------------+
 *
 * The first worker sets the fingerprint, vocabulary, tokenizer, KV format and
 * arithmetic id.  The router refuses a worker of the same model that differs in
 * any of them.  A worker that states no KV format (minor version 2) or no
 * arithmetic id (minor version 7) is not compared in it.  With
 * options.mixed_arithmetic, arithmetic ids may differ.
 *
 * Threading: the core's.  Memory: an entry on the heap, freed with its last
 * reference; workers, requests and an absence hold references.
 * Limits: ROUTER_MODELS_MAX entries. */
#ifndef ROUTER_FLEET_MODELS_H
#define ROUTER_FLEET_MODELS_H

#include "router/base/metrics.h"
#include "router/base/router_limits.h"
#include "router/fleet/peers.h"

struct fleet;

enum model_presence { MODEL_PRESENT, MODEL_ABSENT, MODEL_GONE };

struct model {
    char name[MODEL_NAME_MAX + 1];
    size_t slot;         /* its figures in router_base.models */
    uint32_t references; /* workers, requests and an absence */
    uint32_t n_places;   /* workers with all layers, and replicas that are up */
    uint32_t n_loose;    /* staged workers that are in no replica */
    int64_t pause_us;    /* newest delay after a failed replica; 0: none */
    struct event pause;  /* end of that delay */
    enum model_presence presence;
    struct event absence; /* end of the absence; holds a reference */
    uint8_t fingerprint[16];
    char kv_format[KV_FORMAT_MAX + 1];   /* "": not known */
    char arithmetic[ARITHMETIC_MAX + 1]; /* "": not known */
    uint32_t vocab, context; /* context: the longest of all places */
    bool has_text;
    uint32_t text; /* the model's number in the text seam */

    struct list waiting; /* entries of the scheduler, in its order */
    uint32_t n_waiting;
    struct list dirty;       /* linked: room or queue changed, try again */
    int64_t last_end_us;     /* when a sequence last ended; 0: none yet */
    int64_t end_interval_us; /* smoothed interval between two ends */
    struct router_drafts drafts;
    struct router_host host;
    void *parts[PARTS]; /* parts.h */
};

/* Returns the figures of m.  They stay when m is freed. */
static inline struct router_models *model_figures(struct router_base *b,
                                                  const struct model *m)
{
    return &b->models[m->slot];
}

/* Returns the slot of the figures of a Generate call's model: of the only one
 * there has been if the call names none. */
size_t model_slot(struct fleet *fleet, const uint8_t *name, size_t n);

/* Returns true if requests may wait for a place of m. */
static inline bool model_waits(const struct model *m)
{
    return m->presence != MODEL_GONE;
}

/* Makes m present, or starts its absence.  present: m has a place that is open,
 * busy, or about to leave.  May release the last reference to m. */
void model_set_present(struct fleet *fleet, struct model *m, bool present);

/* Finds the model name[0, n).  n = 0 finds the only model with a place or, if
 * no model has one, the only absent model.  Returns NULL if there is none. */
struct model *model_find(struct fleet *fleet, const uint8_t *name, size_t n);

/* Finds or creates the model name[0, n) and takes a reference.  Returns NULL if
 * there are ROUTER_MODELS_MAX others, or without memory. */
struct model *model_take(struct fleet *fleet, const uint8_t *name, size_t n);

/* Releases a reference and sets *m to NULL.  The last one frees the entry. */
void model_release(struct fleet *fleet, struct model **m);

/* Ends all absences and releases their references.  Call it when the router
 * stops. */
void models_fini(struct fleet *fleet);

/* Marks m, so that its queue is tried again before this tick returns. */
void model_touch(struct fleet *fleet, struct model *m);

/* Records that a sequence of m has ended, for model_retry_ms(). */
void model_ended(struct fleet *fleet, struct model *m);

/* Returns an estimate in ms of the time until the present queue is served:
 * its length + 1 times the smoothed interval between ends, within RETRY_MS_MIN
 * and RETRY_MS_MAX; 1000 if no interval was measured yet. */
uint32_t model_retry_ms(const struct model *m);

#endif
