/* options.h - The options and limits of the worker's core.
 *
 * Every room of the core reads them; worker/worker_core.h is the contract for
 * the program that fills them in.
 *
 * Threading: constant after worker_new().  Memory: worker_new() copies the
 * struct and its strings. */
#ifndef WORKER_BASE_OPTIONS_H
#define WORKER_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

#define WORKER_EOS_MAX MODEL_EOS_MAX
/* Live or unacknowledged, in one session; all of them may be orphaned. */
#define WORKER_SEQUENCES_MAX WORKER_ORPHANS_MAX
#define TOMBSTONES_MAX       1024
#define STEP_ROW_TOKENS_MAX  256     /* further tokens go in the next output */
#define ORPHAN_US            3000000 /* worker/sequences/orphans.h */
#define REPORT_US            250000  /* longest interval between reports */
#define REPORT_CHANGE_US     10000   /* shortest interval after a change */
#define ITL_TARGET_MS_MAX    60000   /* --itl-target */
#define LEAVE_US             3000000 /* wait for the answer after the grace */

/* Sources of drafts: the MTP layer if the shard has one, else the text. */
enum worker_drafter { DRAFTER_AUTO, DRAFTER_MTP, DRAFTER_NGRAM };

struct worker_draft_options {
    uint32_t most;        /* drafts of a row, 0..DRAFTS_MAX */
    bool chooses;         /* how many, at most that */
    bool has_mtp;         /* the engine has an MTP layer */
    uint32_t keep_tokens; /* tokens whose inputs are kept at once */
    enum worker_drafter drafter;
};

/* The hash of the model's tokenizer. */
struct worker_tokenizer {
    bool known;
    uint8_t hash[16];
};

/* --itl-target: the length of a step, from its measured cost. */
struct worker_itl_options {
    bool bounded;       /* false: a step has as many prompt tokens as fit */
    uint32_t target_us; /* where sequences decode; 0: none */
};

/* The division of the pool; worker/cache/pool.h. */
struct worker_pool_options {
    uint32_t n_pages;
    uint32_t pages_per_block, pages_per_slot; /* 0: no such class */
    uint32_t window_pages; /* pages of a window block; 0: the shard has none */
    uint32_t host_pages;   /* the host tier's; 0: none */
    uint32_t slot_cap; /* most slots at once, >= 1; not read without slots */
    uint64_t bytes, block_bytes, slot_bytes, checkpoint_bytes;
    float checkpoint_share, tenant_share; /* worker/cache/prefix.h */
    bool poison; /* for tests: freed pages are poisoned */
};

/* Words that all workers of a model share; NULL or "": not compared. */
struct worker_shared {
    const char *kv_format;  /* kv_format_name() */
    const char *arithmetic; /* common/model/arithmetic.h */
};

struct worker_options {
    const char *name, *model, *device;
    const char *lineage; /* stays the same over restarts; NULL: name */
    struct worker_shared shared;
    uint8_t fingerprint[16];
    struct worker_tokenizer tokenizer;
    uint32_t layer_begin, layer_end, n_layers;
    uint32_t block_tokens;
    struct worker_pool_options pool;
    uint32_t window;     /* positions that a window layer of the model sees, the
                          * query's own included; 0: the model has none */
    bool one_arithmetic; /* prompt and generated rows have the same bits */
    bool reuse;          /* keeps and reuses computed prefixes */
    uint64_t weight_bytes, scratch_bytes;
    uint32_t context; /* longest sequence: prompt and generated tokens */
    uint32_t vocab;
    uint32_t eos[WORKER_EOS_MAX];
    uint32_t n_eos;
    uint32_t max_rows;     /* sequences in a step, 1..PLAN_ROWS_MAX */
    uint32_t step_tokens;  /* token budget of a step, 1..PLAN_TOKENS_MAX */
    uint32_t chunk_tokens; /* longest prefill chunk of a row, >= 1 */
    uint32_t engine_depth; /* plans in flight, 1..ENGINE_DEPTH_MAX */
    struct worker_draft_options drafting;
    struct worker_itl_options itl;
    /* The endpoint that the previous stage connects to; io must then have
     * open_to().  NULL: the worker joins no replica of several stages. */
    const char *stage_endpoint;
    bool keyed;      /* this worker has keys: it dials other hosts */
    uint32_t hidden; /* H, at least 1 where stage_endpoint is set */
};

/* The part that a worker plays in a replica.  It follows from the layers and
 * never changes. */
enum worker_role {
    ROLE_ALONE,  /* has all layers */
    ROLE_LEADER, /* has layer 0, but not all layers */
    ROLE_STAGE   /* does not have layer 0 */
};

/* Returns the role that the layers in o imply. */
static inline enum worker_role
worker_options_role(const struct worker_options *o)
{
    if (o->layer_begin > 0) {
        return ROLE_STAGE;
    }
    return o->layer_end < o->n_layers ? ROLE_LEADER : ROLE_ALONE;
}

#endif
