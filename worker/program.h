/* program.h - Everything that sluice-worker consists of.
 *
 * Threading: the main thread; the engine has its own.  Memory: one, in
 * main(). */
#ifndef WORKER_PROGRAM_H
#define WORKER_PROGRAM_H

#include "common/daemon/daemon.h"
#include "common/model/arithmetic.h"
#include "common/model/sizes.h"
#include "kernels/kernels.h"
#include "text/tokenizer.h"
#include "worker/args.h"
#include "worker/engine/budget.h"
#include "worker/engine/engine_thread.h"
#include "worker/model/shard.h"
#include "worker/worker_core.h"

/* The words of Hello that all workers of a model share. */
struct program_stated {
    char kv_format[KV_NAME_MAX];
    char arithmetic[ARITHMETIC_SIZE]; /* "": the device was not found */
};

/* In the order in which it is made. */
struct program {
    struct daemon daemon;
    struct worker_args args;
    struct kv_format kv;
    struct program_stated stated;
    struct kernels_options kernels;
    uint64_t available;
    uint32_t host_pages; /* the host tier's */
    struct model_config config;
    struct args_drafts drafts; /* none if the device cannot verify them */
    struct tokenizer *tokenizer;
    const char *stage_endpoint;    /* advertised endpoint; NULL: not a stage */
    char advertised[ENDPOINT_MAX]; /* its text */
    uint32_t begin, end;           /* layers of the shard */
    bool has_known;
    struct shard_known known;
    struct shard *shard;
    struct forward *forward;
    struct engine_thread *engine;
    struct pool_budget need;
    struct budget budget;
    struct sizes sizes;
    struct kernels_sizes pages; /* the backend's */
    struct worker_core *core;
    const char *phase;          /* the step of a start, for the status */
    uint64_t n_read, n_to_read; /* bytes of weights */
    bool stopped;               /* a signal came before the loop ran */
    char name[128], lineage[128];
};

/* Starts what needs no weights: configuration, tokenizer, ports.  p->args is
 * set.  The next two functions follow, and in any case program_stop(). */
MUST_CHECK enum status program_begin(struct program *p, struct error *e);
/* Waits until the router has assigned layers, with --stages.  Returns
 * ST_CANCELLED if a signal came. */
MUST_CHECK enum status program_offer(struct program *p, struct error *e);
/* Loads the weights and makes engine, pool and core.  Returns ST_CANCELLED if a
 * signal came; it looks for one at each piece of the weights, and between other
 * long operations. */
MUST_CHECK enum status program_load(struct program *p, struct error *e);
/* Frees everything that was made. */
void program_stop(struct program *p);

/* Prints what the worker serves and how its memory is divided. */
void program_print(const struct program *p);

/* Writes a line about the worker's state; arg is the struct program. */
void program_status(void *arg, char *text, size_t cap);

/* ---- shared by program.c, program_core.c and program_offer.c ---- */

/* Returns the options of the core, once the pool is made. */
struct worker_options program_core_options(const struct program *p);

/* Reads the options of drafts, looks for the model's MTP layer if they need it,
 * and sets config.drafts. */
MUST_CHECK enum status program_drafts(struct program *p, struct error *e);

/* Returns the largest step, with the dtype of what is kept for drafts. */
struct costs_step program_step(const struct program *p);

/* Returns what the window layers of the model see; 0: it has none. */
uint32_t program_window(const struct program *p);

/* Sets the phase of the start, and sends it to the service manager. */
void program_phase(struct program *p, const char *phase);

/* Loads layers [begin, end) of the model, with progress on standard error. */
MUST_CHECK enum status program_read(struct program *p, struct shard **out,
                                    uint32_t begin, uint32_t end,
                                    struct error *e);

/* Returns the options of the kernels that follow from the arguments. */
struct kernels_options program_kernels(const struct program *p);

/* Returns --memory with the memory of the device, if it has its own
 * (device_bytes > 0), else with that of the host. */
struct budget_memory program_memory(const struct program *p,
                                    uint64_t device_bytes);

#endif
