/* fake_engine_internal.h - Shared state of the fake engine's modules.
 *
 *   fake_engine.c        the engine interface, time, and results of plans
 *   fake_engine_run.c    computation of a plan
 *   fake_engine_check.c  checks of plans before they run */
#ifndef SIM_FAKE_ENGINE_INTERNAL_H
#define SIM_FAKE_ENGINE_INTERNAL_H

#include "tests/sim/fake_engine.h"
#include "tests/sim/fake_hidden.h"
#include "tests/sim/sim.h"

#define TRACKED 4096 /* the last sequences of a worker's life */
/* Hidden states of the plans in flight and of the last polled result. */
#define HIDDEN_RING (ENGINE_DEPTH_MAX + 1)

struct cell {
    uint32_t token, where; /* position << 1 | kind */
};

/* Use of one block or slot by the plans in flight. */
struct holder {
    uint64_t sequence; /* sequence that named it last */
    uint32_t plans;    /* plans in flight that name it */
    uint64_t row;      /* newest row that names it, as e->rows counts */
};

struct slot_state {
    uint64_t hash;
    uint32_t n;
};

struct tracked {
    uint64_t sequence;
    uint32_t next; /* position: all earlier ones are written or in flight */
    uint32_t n, n_prompt; /* number of ids that were run, */
    uint64_t ids;         /* and a digest of ids and positions */
    bool tainted;         /* named by a failed plan: contents are undefined */
    bool again;           /* computed again after that, until it samples */
    bool anew;            /* ... from its newest row on */
};

struct flown {
    const struct plan *plan;
    uint64_t hash;
    int64_t start_us, took_us;
    int64_t stand_us, stood_us; /* start and length of a stall without ticks */
    bool alone; /* its only row is of a sequence that is computed again */
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
    uint32_t n_tracked; /* entries of tracked[] in use, from the first */
    struct flown flying[ENGINE_DEPTH_MAX]; /* oldest first */
    uint32_t n_flying;
    int64_t free_us;            /* completion time of the newest plan */
    int64_t stand_us, stood_us; /* stall of the newest plan that has one */
    int64_t stand_before_us, stood_before_us; /* the previous stall */
    uint64_t finished, polled;                /* numbers of plans */
    uint64_t rows;                            /* rows checked */
    uint32_t n_last_rows;

    /* Last in the struct, because these are initialised on first use. */
    struct tracked tracked[TRACKED];
    struct plan_row last_rows[PLAN_ROWS_MAX];   /* newest submitted plan */
    struct plan_result ready[ENGINE_DEPTH_MAX]; /* parallel to flying */
    struct {
        enum status status;
        uint32_t tokens[PLAN_ROWS_MAX];
    } before;                      /* result of the newest executed plan */
    uint32_t ids[PLAN_TOKENS_MAX]; /* ids of the current row */
};

static inline bool fake_engine_takes_hidden(const struct fake_engine *e)
{
    return e->shard.begin > 0;
}

static inline bool fake_engine_gives_hidden(const struct fake_engine *e)
{
    return e->shard.end < e->shard.n_layers;
}

/* Fails the run because of an invalid plan from the core. */
void fake_engine_wrong(struct fake_engine *e, const struct plan_row *r,
                       const char *what);

struct tracked *fake_engine_track(struct fake_engine *e, uint64_t sequence);

/* Overwrites a block with garbage. */
void fake_engine_scribble(struct fake_engine *e, uint32_t block);

/* Checks a plan before it runs; its rows then hold their blocks and slots.
 * Returns whether its only row is of a sequence that is computed again. */
bool fake_engine_check(struct fake_engine *e, const struct plan *p);

/* Computes the result of a plan into out.  Only damage fails one that is
 * alone. */
void fake_engine_run(struct fake_engine *e, const struct plan *p, bool alone,
                     struct plan_result *out);

/* Returns whether the damage of a request shows at this stage. */
bool fake_engine_shows(const struct fake_engine *e,
                       const struct sim_request *request);

#endif
