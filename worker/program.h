/* program.h - everything that sluice-worker is made of.
 *
 * Threading: the main thread; the engine has one of its own.  Memory: one, in
 * main(). */
#ifndef WORKER_PROGRAM_H
#define WORKER_PROGRAM_H

#include "common/model/sizes.h"
#include "common/wire/loop.h"
#include "kernels/kernels.h"
#include "text/tokenizer.h"
#include "worker/args.h"
#include "worker/engine/budget.h"
#include "worker/engine/engine_thread.h"
#include "worker/model/shard.h"
#include "worker/worker_core.h"

/* In the order it is made. */
struct program {
    struct worker_args args;
    enum dtype kv_dtype;
    struct kernels_options kernels;
    uint64_t available;
    struct model_config config;
    struct tokenizer *tokenizer;
    struct transport *transport;
    const char *stage_endpoint; /* as told to others; NULL: it is no stage */
    uint32_t begin, end;        /* layers of the shard */
    bool has_known;
    struct shard_known known;
    struct shard *shard;
    struct forward *forward;
    struct engine_thread *engine;
    struct budget_need need;
    struct budget budget;
    struct sizes sizes;
    struct worker_core *core;
    struct loop loop;
    int signals;
    bool stopped; /* a signal came before the loop that hears them */
    char name[128], lineage[128];
};

/* In this order, once p->args are and p->signals reads signals; whatever comes
 * of it, program_stop() follows.  First what needs no weights: */
MUST_CHECK enum status program_begin(struct program *p, struct error *e);
/* with --stages, until the router has said which layers it will be; */
MUST_CHECK enum status program_offer(struct program *p, struct error *e);
/* and all the rest.  Of both ST_CANCELLED: a signal came, which they look for
 * at each piece of the weights and between what else takes long. */
MUST_CHECK enum status program_load(struct program *p, struct error *e);
void program_stop(struct program *p);

/* The line on standard output. */
void program_say_ready(const struct program *p);

/* ---- what program.c and program_offer.c share ---- */

/* Layers [begin, end) of the model, with progress on standard error. */
MUST_CHECK enum status program_read(struct program *p, struct shard **out,
                                    uint32_t begin, uint32_t end,
                                    struct error *e);

struct kernels_options program_kernels(const struct program *p);

/* --memory: of the device, if it has memory of its own (device_bytes), else of
 * the host. */
struct program_memory {
    const char *text; /* NULL: the default */
    uint64_t available;
};

struct program_memory program_memory(const struct program *p,
                                     uint64_t device_bytes);

#endif
