/* options.h - what a seed draws before anything runs. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/oracle.h"

#define SIM_MODELS        3
#define SIM_WORKERS       6 /* whole seeds have SIM_WORKERS_WHOLE at most */
#define SIM_WORKERS_WHOLE 4
#define SIM_CLIENTS       6
#define SIM_LAYERS        8 /* of a model, at most */

/* What comes over the cluster, each at an interval; 0: never. */
enum fault {
    FAULT_CUT,
    FAULT_ONE_WAY,
    FAULT_WORKER,
    FAULT_ROUTER,
    FAULT_PAUSE,
    FAULTS
};

/* When every life of a worker up to some number ends. */
enum crash { CRASH_NEVER, CRASH_START, CRASH_STEP };

struct worker_draw {
    uint32_t model, block_tokens, n_blocks, n_slots;
    uint32_t max_rows, step_tokens, chunk_tokens, depth;
    uint32_t step_us, token_us; /* of virtual time */
    uint32_t fail_of, slow_of;  /* of 10,000 plans */
    uint32_t long_of, stand_of; /* the same: take seconds, stand still */
};

/* Which seeds have something: some, by a chance of its own. */
enum seeds { SEEDS_DRAWN, SEEDS_NONE, SEEDS_ALL };

/* Replicas of several stages; workers that offer themselves for them. */
struct seeds_with {
    enum seeds stages, offers;
};

/* Of replicas of several stages.  All 0: every worker has all layers. */
struct stage_draw {
    uint32_t n_layers[SIM_MODELS], block_tokens[SIM_MODELS];
    uint32_t attention[SIM_MODELS]; /* a bit for each layer that has it */
    uint32_t n_places[SIM_MODELS];  /* replicas that can stand at once */
    uint32_t strike_of;  /* of 10,000 Assembles: who got it turns deaf to the
                          * router, and another one of its model is cut off */
    uint32_t garbage_of; /* of 10,000 frames between stages: say anything */
    struct {
        uint32_t begin, end; /* end 0: all */
    } layers[SIM_WORKERS];
};

/* Of workers that have no layers until they are given some.  All 0: there are
 * none.  All of them are of one model. */
struct offer_draw {
    uint32_t n;         /* they are the first workers */
    uint32_t load_us;   /* at most, where it is not late */
    uint32_t refuse_of; /* of 10,000 Assigns */
    uint32_t fail_of;   /* of 10,000 loads */
    uint32_t late_of;   /* the same: for longer than the router waits */
    struct {
        uint64_t weight_bytes, token_bytes, slot_bytes;
    } layers[SIM_LAYERS];
    uint64_t embed_bytes, head_bytes, scratch_bytes;
    struct {
        uint64_t budget_bytes, speed;
        uint32_t n_stages;          /* wanted */
        uint32_t lineage;           /* of this worker, mostly its own */
        uint32_t n_blocks, n_slots; /* where its layers need them */
    } workers[SIM_WORKERS];
};

struct sim_options {
    bool faulty;
    uint32_t n_models, n_workers, n_clients;
    struct fake_model models[SIM_MODELS];
    bool text[SIM_MODELS];
    struct worker_draw workers[SIM_WORKERS];

    uint32_t max_requests, max_waiting;
    uint32_t text_us, text_queue;

    uint32_t delay_us, jitter_us, send_limit;
    uint32_t drop_of, double_of, reorder_of, flip_of; /* of 10,000 frames */
    int64_t every_us[FAULTS];
    int64_t cable_us; /* between cables that break; 0: none does */

    uint32_t gap_us;   /* between requests */
    uint32_t open_max; /* no more at once */
    uint32_t prompt_max, tokens_min, tokens_max;
    uint32_t text_of, deadline_of, keep_of, end_of, wrong_of, again_of;
    uint32_t admin_of, leave_of, sleep_of;
    uint32_t penalties_of, lists_of, ends_of, logprobs_of; /* of sampling */
    uint32_t want_text_of, stop_of, choices_of;
    uint32_t resume_of; /* of clients that outlast their sessions */

    uint32_t poison_of; /* requests that kill whoever runs them */
    enum crash crash[SIM_WORKERS];
    uint32_t crash_lives[SIM_WORKERS];      /* the first so many */
    int64_t drain_every_us, leave_every_us; /* of some worker, 0: never */
    uint32_t worker_wait_ms;                /* of the router */
    bool headroom;

    /* Last, for the rest is drawn, and hashed, as if it were not. */
    _Alignas(8) struct stage_draw stages;
    _Alignas(8) struct offer_draw offers;
};

/* What a worker has of its model. */
struct fake_shard {
    uint32_t begin, end, n_layers;
    bool attention, linear; /* among them */
};

void options_draw(struct sim_options *o, uint64_t seed, struct seeds_with with);
struct fake_shard options_shard(const struct sim_options *o, uint32_t w);
/* Has worker w only some of the layers?  Are there any such? */
static inline bool options_staged(const struct sim_options *o, uint32_t w)
{
    return o->stages.layers[w].end != 0;
}
static inline bool options_has_stages(const struct sim_options *o)
{
    return options_staged(o, 0);
}

/* Does worker w offer itself?  It has other layers in each life, none while it
 * waits: then begin and end are the last. */
static inline bool options_offers(const struct sim_options *o, uint32_t w)
{
    return w < o->offers.n;
}

uint64_t options_hash(const struct sim_options *o);

#endif
