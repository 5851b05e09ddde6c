/* program.h - everything that sluice-worker is made of.
 *
 * Threading: the main thread; the engine has one of its own.  Memory: one, in
 * main(). */
#ifndef WORKER_PROGRAM_H
#define WORKER_PROGRAM_H

#include "common/loop.h"
#include "common/model/sizes.h"
#include "kernels/kernels.h"
#include "text/tokenizer.h"
#include "worker/args.h"
#include "worker/budget.h"
#include "worker/core.h"
#include "worker/engine_thread.h"
#include "worker/model/shard.h"

/* In the order it is made. */
struct program {
    struct worker_args args;
    enum dtype kv_dtype;
    struct kernels_options kernels;
    uint64_t available;
    struct model_config config;
    uint32_t begin, end; /* layers of the shard */
    struct tokenizer *tokenizer;
    struct shard *shard;
    struct forward *forward;
    struct engine_thread *engine;
    struct budget_need need;
    struct budget budget;
    struct sizes sizes;
    struct transport *transport;
    struct worker_core *core;
    struct loop loop;
    int signals;
    char name[128], lineage[128];
};

/* Everything, once p->args are and p->signals reads signals.  Whatever comes
 * of it, program_stop() follows. */
MUST_CHECK enum status program_start(struct program *p, struct error *e);
void program_stop(struct program *p);

/* The line on standard output. */
void program_say_ready(const struct program *p);

#endif
