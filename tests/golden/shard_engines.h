/* shard_engines.h - engines of a model's shards, each with its thread, for the
 * stages of a replica.
 *
 * Memory: the weights are borrowed.
 *
 * Errors end the program, as in replica.h. */
#ifndef TESTS_GOLDEN_SHARD_ENGINES_H
#define TESTS_GOLDEN_SHARD_ENGINES_H

#include "tests/golden/replica.h"
#include "worker/engine/engine_thread.h"

struct shard_engines {
    uint32_t n;
    struct forward *forward[REPLICA_STAGES];
    struct engine_thread *threads[REPLICA_STAGES];
};

/* Opens shards[0 .. n) in order and fills in stages[i].  Each pool has room for
 * o->room sequences of o->context. */
void shard_engines_open(struct shard_engines *g,
                        const struct shard_weights *const *shards, uint32_t n,
                        const struct kernels_options *k,
                        const struct replica_options *o,
                        struct replica_stage *stages);
/* Closes the engines, after replica_free(). */
void shard_engines_close(struct shard_engines *g);

#endif
