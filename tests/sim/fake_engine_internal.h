/* fake_engine_internal.h - what the parts of the fake engine share.
 *
 *   fake_engine.c        the seam, time, and what becomes of a plan
 *   fake_engine_run.c    what a plan computes
 *   fake_engine_check.c  plans, before they run */
#ifndef SIM_FAKE_ENGINE_INTERNAL_H
#define SIM_FAKE_ENGINE_INTERNAL_H

#include "tests/sim/fake_engine.h"
#include "tests/sim/fake_hidden.h"
#include "tests/sim/sim.h"

#define TRACKED 4096 /* sequences of a worker's life, the last ones */
/* Results' hidden states: of the plans in flight, and of the last polled. */
#define HIDDEN_RING (ENGINE_DEPTH_MAX + 1)

struct cell {
    uint32_t token, where; /* position << 1 | kind */
};

/* What one block or slot is to the plans in flight. */
struct holder {
    uint64_t sequence; /* that named it last */
    uint32_t plans;    /* in flight that name it */
    uint64_t row;      /* the newest that does, as e->rows counts */
};

struct slot_state {
    uint64_t hash;
    uint32_t n;
};

struct tracked {
    uint64_t sequence;
    uint32_t next;        /* position: all before are written or in flight */
    uint32_t n, n_prompt; /* ids that were run, */
    uint64_t ids;         /* which, and where */
    bool tainted;         /* named by a plan that failed: nothing is known */
};

struct flown {
    const struct plan *plan;
    uint64_t hash;
    int64_t start_us, took_us;
    int64_t stand_us, stood_us; /* from then on, so long nothing ticks */
    bool done;
};

struct fake_engine {
    struct engine seam;
    struct sim *sim;
    uint32_t w;
    const struct worker_draw *draw;
    const struct fake_model *model;
    struct fake_shard shard;
    struct rng rng;
    struct cell *cells;       /* [n_blocks, block_tokens] */
    struct slot_state *slots; /* [n_slots] */
    struct holder *block_of, *slot_of;
    float *hidden; /* [HIDDEN_RING, step_tokens, FAKE_HIDDEN], or NULL */
    uint32_t named_blocks, named_slots;
    uint32_t n_tracked; /* of them were looked at, the first ones */
    struct flown flying[ENGINE_DEPTH_MAX]; /* oldest first */
    uint32_t n_flying;
    int64_t free_us;            /* when the newest plan will be done */
    int64_t stand_us, stood_us; /* of the newest plan that stands still */
    int64_t stand_before_us, stood_before_us; /* of the one before */
    uint64_t finished, polled;                /* plans */
    uint64_t rows;                            /* checked */
    uint32_t n_last_rows;

    /* Last, as they are filled in when they come to be. */
    struct tracked tracked[TRACKED];
    struct plan_row last_rows[PLAN_ROWS_MAX];   /* of the newest submitted */
    struct plan_result ready[ENGINE_DEPTH_MAX]; /* beside flying */
    struct {
        enum status status;
        uint32_t tokens[PLAN_ROWS_MAX];
    } before;                      /* of the newest executed */
    uint32_t ids[PLAN_TOKENS_MAX]; /* of the row under way */
};

static inline bool fake_engine_takes_hidden(const struct fake_engine *e)
{
    return e->shard.begin > 0;
}

static inline bool fake_engine_gives_hidden(const struct fake_engine *e)
{
    return e->shard.end < e->shard.n_layers;
}

/* The run has failed: the core ordered what cannot be. */
void fake_engine_wrong(struct fake_engine *e, const struct plan_row *r,
                       const char *what);

struct tracked *fake_engine_track(struct fake_engine *e, uint64_t sequence);

/* What a block holds is nonsense from now on. */
void fake_engine_scribble(struct fake_engine *e, uint32_t block);

/* All that can be seen of a plan before it runs; its rows take hold of their
 * blocks and slots. */
void fake_engine_check(struct fake_engine *e, const struct plan *p);

/* What it computes, into out. */
void fake_engine_run(struct fake_engine *e, const struct plan *p,
                     struct plan_result *out);

#endif
