/* layer_split.h - which worker of a replica gets which layers of a model.
 *
 * Boundaries 0 = c0 < c1 < ... < cn = n_layers are chosen such that
 *
 *     (a) each stage fits its worker: weights, scratch, and a pool that holds
 *         one sequence of the whole context (common/split/pool_split.h);
 *     (b) the slowest stage is as fast as can be: a decode step reads all
 *         weights of a stage once, so it takes step_bytes / speed;
 *     (c) of equals, the most sequences of terms.length tokens fit, counted
 *         at the stage that holds the fewest;
 *     (d) of equals, the stages' times are the most even (the sum of their
 *         squares is the least).
 *
 * The search is exact: dynamic programming over (workers taken, layer), one
 * pass for each of (b), (c) and (d).  Workers of equal budget, scratch and
 * speed are one kind and stand in the order given; of different kinds all
 * orders are searched, as long as there are at most SPLIT_STATES ways to have
 * taken some of each (always up to 8 workers; 15 of one kind and one of
 * another have 32).  Beyond that, or with terms.in_order, workers stand in
 * the order given.  Where fewer stages are wanted than there are workers, the
 * best are taken; in the order given, the first.
 *
 * What a stage holds: the embedding if it has the first layer, norm and head
 * if it has the last.  The embedding is looked up, not read: it costs memory
 * and no time.  A tied head is the embedding over again where another stage
 * has that, and only there.
 *
 * Threading: none, pure functions.  Memory: the caller's; a split_table is
 * 2.1 MB.  Time: at worst SPLIT_STATES * MODEL_LAYERS_MAX^2 stages looked at
 * in a pass; over 8 workers that all differ 64 layers took 10 ms of processor
 * time, 512 layers 0.8 s. */
#ifndef COMMON_SPLIT_LAYER_SPLIT_H
#define COMMON_SPLIT_LAYER_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/split/pool_split.h"
#include "proto/limits.h"

#define SPLIT_STATES    256
#define SPLIT_SPEED_MIN 1e-6
#define SPLIT_SPEED_MAX 1e18

struct split_layer {
    uint64_t weight_bytes;
    uint64_t token_bytes; /* KV of a token; 0: a linear layer.  Of the whole
                           * context SHARD_BYTES_MAX at most */
    uint64_t slot_bytes;  /* state of a sequence; 0: an attention layer */
};

struct split_model {
    uint32_t n_layers; /* 1..MODEL_LAYERS_MAX */
    struct split_layer layers[MODEL_LAYERS_MAX];
    uint64_t embed_bytes;
    uint64_t head_bytes;   /* with the last norm, as a last stage has them */
    uint64_t shared_bytes; /* of both, which one stage alone holds once */
    uint64_t head_scratch_bytes; /* more than elsewhere, where the head is */
};

struct split_worker {
    const char *name; /* for messages; borrowed */
    uint64_t budget_bytes, scratch_bytes;
    double speed; /* of all workers in one unit: bytes a second, or shares */
};

struct split_terms {
    uint32_t n_stages;                        /* 0: one a worker */
    uint32_t block_tokens, context, max_rows; /* of each worker */
    uint32_t length;                          /* of the sequences of (c) */
    bool in_order;
};

struct split_stage {
    uint32_t worker; /* in the order given */
    uint32_t begin, end;
    uint64_t weight_bytes, scratch_bytes;
    uint64_t step_bytes;
    double step_share; /* of the stages' times together */
    struct pool_split_need need;
    struct pool_split pool;
};

struct split {
    uint32_t n_stages;
    struct split_stage stages[STAGES_MAX];
    bool every_order; /* was searched, or there is but one */
};

/* What the search remembers: for each count of workers taken of each kind,
 * and each boundary, the best way there. */
struct split_table {
    uint64_t weights[MODEL_LAYERS_MAX + 1]; /* of layers [0, i) */
    uint64_t tokens[MODEL_LAYERS_MAX + 1], slots[MODEL_LAYERS_MAX + 1];
    struct split_step {
        double value;
        uint16_t from; /* the boundary before */
        uint8_t kind;  /* of the worker between */
    } steps[SPLIT_STATES][MODEL_LAYERS_MAX + 1];
};

/* Choose among n_workers.  Nothing is taken on trust.  ST_INVALID_ARGUMENT:
 * more stages than layers or workers, or a number that is out of range.
 * ST_RESOURCE_EXHAUSTED: no split fits; the sentence is about the one that
 * lacks the fewest bytes at its worst stage. */
MUST_CHECK enum status split_find(struct split *out, struct split_table *table,
                                  const struct split_model *model,
                                  const struct split_worker *workers,
                                  uint32_t n_workers,
                                  const struct split_terms *terms,
                                  struct error *e);

/* Sequences of so many tokens that a stage holds. */
uint64_t split_stage_sequences(const struct split_stage *s, uint32_t length);

/* The same of all stages: the least, and the first stage that has it. */
uint64_t split_sequences(const struct split *s, uint32_t length,
                         uint32_t *stage);

/* In pages of the stage's own: a block, or a slot where it has no blocks. */
uint64_t split_pages_per_slot(const struct split_stage *s);
uint64_t split_pages(const struct split_stage *s);

#endif
