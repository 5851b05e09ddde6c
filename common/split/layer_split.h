/* layer_split.h - Assignment of a model's layers to the workers of a replica.
 *
 * The search chooses boundaries 0 = c0 < c1 < ... < cn = n_layers such that
 *
 *     (a) each stage fits its worker: weights, scratch, and the smallest pool
 *         (pool_split_least() of common/split/pool_split.h);
 *     (b) the slowest stage is as fast as possible: a decode step reads the
 *         weights of a stage once, of experts the chosen ones, so it takes
 *         step_bytes / speed;
 *     (c) among equals, the most sequences of terms.length tokens fit, counted
 *         at the stage that holds the fewest;
 *     (d) among equals, the stages' times are the most even (the sum of their
 *         squares is the least).
 *
 * The search is exact: dynamic programming over (workers taken, layer), one
 * pass for each of (b), (c) and (d).  Workers of equal budget, scratch and
 * speed are one kind and keep the order given.
 *
 * All orders of different kinds are searched if there are at most
 * SPLIT_STATES ways to have taken some of each kind.  That is always so for
 * up to 8 workers; 15 workers of one kind and one of another have 32 ways.
 * Otherwise, or with terms.in_order, workers keep the order given.  With
 * fewer stages than workers, the best workers are taken; with terms.in_order,
 * the first.
 *
 * The stage with the first layer holds the embedding; the stage with the last
 * layer holds norm and head.  The embedding is looked up, not read, so it
 * costs memory but no time.  A tied head is a second copy of the embedding,
 * unless one stage holds both.  A model that drafts has an MTP layer behind the
 * last, in the same stage, and there an embedding too, which is part of
 * head_bytes; as time it stands for the head, which drafts read once more.
 *
 * Threading: pure functions.  Memory: the caller's; a split_table is 2.1 MB.
 * Time: at most SPLIT_STATES * MODEL_LAYERS_MAX^2 stages per pass.  For 8
 * workers that all differ, 64 layers took 10 ms of CPU time, 512 layers 0.8
 * s. */
#ifndef COMMON_SPLIT_LAYER_SPLIT_H
#define COMMON_SPLIT_LAYER_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/split/page_unit.h"
#include "common/split/pool_split.h"
#include "proto/limits.h"

#define SPLIT_STATES    256
#define SPLIT_SPEED_MIN 1e-6
#define SPLIT_SPEED_MAX 1e18

struct split_layer {
    uint64_t weight_bytes;
    uint64_t token_bytes;  /* KV of one token; 0: no attention layer. At most
                              SHARD_BYTES_MAX for the whole context. */
    uint64_t slot_bytes;   /* state of one sequence, aligned as in a slot
                              (page_slot_bytes()); 0: no linear layer */
    uint64_t window_bytes; /* k and v of one token in a window layer, the same
                              for all; 0: none */
    uint64_t step_bytes;   /* weights that a decode step reads; 0: all */
    uint64_t kept_bytes;   /* scratch for the inputs that rows with drafts keep;
                              0: none */
};

struct split_model {
    uint32_t n_layers; /* 1..MODEL_LAYERS_MAX */
    struct split_layer layers[MODEL_LAYERS_MAX];
    struct split_layer mtp; /* behind the last layer; zeroed: none */
    uint64_t embed_bytes;
    uint64_t head_bytes; /* with the last norm, as the last stage holds them */
    uint64_t shared_bytes; /* part of embed_bytes and head_bytes; one stage with
                              both holds it once */
    /* Additional scratch of the stage with the head, and of any other: its
     * hidden states. */
    uint64_t head_scratch_bytes, hidden_scratch_bytes;
};

struct split_worker {
    const char *name; /* for messages; borrowed */
    uint64_t budget_bytes, scratch_bytes;
    double speed; /* in one unit for all workers: bytes per second, or shares */
};

struct split_terms {
    uint32_t n_stages;                        /* 0: one per worker */
    uint32_t block_tokens, context, max_rows; /* the same for every worker */
    uint32_t slots;  /* the cap at each worker; 0: max_rows */
    uint32_t length; /* tokens of the sequences in (c) */
    /* For window layers: the positions that one sees, and the most tokens of a
     * sequence in a step. */
    uint32_t window_tokens, chunk_tokens;
    bool in_order;
};

struct split_stage {
    uint32_t worker; /* index of the worker in the order given */
    uint32_t begin, end;
    uint64_t weight_bytes, scratch_bytes;
    uint64_t step_bytes;
    uint64_t token_bytes, slot_bytes; /* its layers together */
    uint32_t n_window;                /* window layers of these */
    double step_share; /* share of the sum of the stages' times */
    struct pool_split_need need;
    struct pool_split pool;
};

struct split {
    uint32_t n_stages;
    struct split_stage stages[STAGES_MAX];
    bool every_order; /* every order was searched, or there is only one */
};

/* The table of the dynamic programme: for each count of workers taken of each
 * kind and each boundary, the best way to reach it. */
struct split_table {
    /* Weights of layers [0, i), and what a step reads of them. */
    uint64_t weights[MODEL_LAYERS_MAX + 1], read[MODEL_LAYERS_MAX + 1];
    /* The bytes of a token, of a block and of a slot of these layers. */
    uint64_t tokens[MODEL_LAYERS_MAX + 1], blocks[MODEL_LAYERS_MAX + 1];
    uint64_t slots[MODEL_LAYERS_MAX + 1], kept[MODEL_LAYERS_MAX + 1];
    uint32_t n_window[MODEL_LAYERS_MAX + 1]; /* window layers of these */
    struct split_step {
        double value;
        uint16_t from; /* the boundary before it */
        uint8_t kind;  /* kind of the worker in between */
    } steps[SPLIT_STATES][MODEL_LAYERS_MAX + 1];
};

/* Finds the best split among n_workers and checks all its input.  Returns
 * ST_INVALID_ARGUMENT for more stages than layers or workers, or a number out
 * of range.  Returns ST_RESOURCE_EXHAUSTED if no split fits; the sentence
 * describes the split that lacks the fewest bytes at its worst stage. */
MUST_CHECK enum status split_find(struct split *out, struct split_table *table,
                                  const struct split_model *model,
                                  const struct split_worker *workers,
                                  uint32_t n_workers,
                                  const struct split_terms *terms,
                                  struct error *e);

/* Makes the MTP layer part of the last layer, and kept inputs part of the
 * weights that a step does not read, for models that are described by layers
 * alone. */
void split_fold_drafts(struct split_model *m);

/* Returns how many sequences of length tokens a stage holds. */
uint64_t split_stage_sequences(const struct split_stage *s, uint32_t length);

/* Returns the smallest such number of all stages, and the first stage with
 * it. */
uint64_t split_sequences(const struct split *s, uint32_t length,
                         uint32_t *stage);

/* Returns the pages of a stage whose layers have these parts; it has a layer.
 */
struct pool_split_need split_need(const struct split_terms *t,
                                  const struct page_parts *parts);

/* Returns a lower bound of the smallest pool of a stage.  More layers never
 * lower it, although they may lower the smallest pool itself: a larger page can
 * round a slot up by less. */
uint64_t split_least(const struct split_terms *t,
                     const struct page_parts *parts);

/* Returns the aligned bytes of a window block in one window layer of the
 * model's; 0 if it has none. */
uint64_t split_window(const struct split_layer *layers, uint32_t n_layers,
                      uint32_t block_tokens);

#endif
