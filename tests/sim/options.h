/* options.h - Options that a seed draws before the run starts. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/oracle.h"

#define SIM_MODELS        3
#define SIM_TENANTS       3 /* the most */
#define SIM_WORKERS       6 /* SIM_WORKERS_WHOLE at most without stages */
#define SIM_WORKERS_WHOLE 4
#define SIM_CLIENTS       6
#define SIM_GATEWAYS      2
#define SIM_LAYERS        8 /* limit for one model */

/* Faults of the cluster, each with a mean interval; 0: never. */
enum fault {
    FAULT_CUT,
    FAULT_ONE_WAY,
    FAULT_WORKER,
    FAULT_ROUTER,
    FAULT_PAUSE,
    FAULTS
};

/* Where the first lives of a crashing worker end. */
enum crash { CRASH_NEVER, CRASH_START, CRASH_STEP };

struct worker_draw {
    uint32_t model, block_tokens, n_blocks, n_slots;
    uint32_t max_rows, step_tokens, chunk_tokens, depth;
    uint32_t step_us, token_us; /* in virtual time */
    uint32_t fail_of, slow_of;  /* per 10,000 plans */
    uint32_t long_of, stand_of; /* per 10,000 plans: take seconds, stall */
};

/* Drafts.  All 0: no worker makes any. */
struct draft_draw {
    bool on, mtp[SIM_MODELS];      /* the model has an MTP layer */
    uint32_t most[SIM_WORKERS];    /* the worker's --drafts */
    bool automatic[SIM_WORKERS];   /* --drafts auto */
    uint32_t drafter[SIM_WORKERS]; /* enum worker_drafter */
    uint32_t keep_tokens[SIM_WORKERS];
    uint32_t right_of[SIM_WORKERS]; /* per 10,000 drafts of the MTP layer */
    uint32_t few_of;                /* per 10,000 proposals: some are missing */
    uint32_t ask_of;                /* per 10,000 requests: with a number */
};

/* Which seeds have a feature: a drawn share, none, or all. */
enum seeds { SEEDS_DRAWN, SEEDS_NONE, SEEDS_ALL };

/* Seeds with replicas of several stages, with workers that offer themselves,
 * with gateways, with keys, with optimistic admission, with models that have
 * window layers, and with drafts. */
struct seeds_with {
    enum seeds stages, offers, gateways, keys, expected, windows, drafts;
};

/* Replicas of several stages.  All 0: every worker has all layers. */
struct stage_draw {
    uint32_t n_layers[SIM_MODELS], block_tokens[SIM_MODELS];
    uint32_t attention[SIM_MODELS]; /* bit i: layer i has attention */
    uint32_t n_places[SIM_MODELS];  /* replicas that can be up at once */
    /* per 10,000 Assembles: the receiver is cut off from the router's frames
     * for a while, and another worker loses its connection */
    uint32_t strike_of;
    uint32_t garbage_of; /* per 10,000 frames between stages: garbage */
    struct {
        uint32_t begin, end; /* end 0: all */
    } layers[SIM_WORKERS];
};

/* Workers without layers until they are assigned some.  All 0: there are none.
 * All of them are of one model. */
struct offer_draw {
    uint32_t n;         /* these are the first workers */
    uint32_t load_us;   /* limit, unless the load is late */
    uint32_t refuse_of; /* per 10,000 Assigns */
    uint32_t fail_of;   /* per 10,000 loads */
    uint32_t late_of;   /* per 10,000 loads: exceed the router's limit */
    struct {
        uint64_t weight_bytes, token_bytes, slot_bytes;
    } layers[SIM_LAYERS];
    uint64_t embed_bytes, head_bytes, scratch_bytes;
    struct {
        uint64_t budget_bytes, speed;
        uint32_t n_stages;          /* wanted */
        uint32_t lineage;           /* a worker's number, usually its own */
        uint32_t n_blocks, n_slots; /* if its layers need them */
    } workers[SIM_WORKERS];
};

/* Gateways between HTTP clients and the router.  All 0: there are none. */
struct gateway_draw {
    uint32_t n;
    bool texts;            /* they have the text side of the models */
    uint32_t output_bytes; /* limit for a client that does not read */
    uint32_t prompt_us, prompt_queue;
    uint32_t gap_us;       /* between connections */
    uint32_t open_max;     /* limit on connections */
    uint32_t pipe_bytes;   /* room of a connection on its way */
    int64_t kill_every_us; /* ends of a random gateway; 0: never */
    /* per 10,000 connections or requests */
    uint32_t leave_of, stall_of, half_of, wrong_of, stream_of, chat_of;
};

/* Keys of the nodes.  All 0: there are none. */
struct key_draw {
    uint32_t on, pooled;      /* pooled: all workers have one key */
    int64_t strange_every_us; /* strangers with keys of their own */
    int64_t remove_every_us;  /* removal of a node's key; 0: never */
};

/* Prompts that share prefixes; per 10,000 requests. */
struct prompt_draw {
    uint32_t family_of;   /* begins like others */
    uint32_t n_families;  /* texts that they begin with */
    uint32_t same_of;     /* repeats a prompt, or all of it but one token */
    uint32_t session_of;  /* follows a request: its prompt, its tokens, more */
    uint32_t continue_of; /* ... from its kept memory */
    uint32_t range_of;    /* ... after a part of that was removed */
    uint32_t no_cache_of; /* asks for cache: false */
    uint32_t n_tenants;   /* 1: no request names one */
};

/* The pools of the workers. */
struct pool_draw {
    struct pool_of_worker {
        /* Drawn: pages of a slot, were there blocks too; whether the slots
         * drawn are all that there may be; further slots' pages; refused
         * plans, per 10,000. */
        uint32_t per_slot, capped, spare, refuse_of;
        /* From these and the layers: options_set_pool(). */
        uint32_t n_pages, pages_per_slot, slot_cap;
        uint32_t host_pages; /* the host tier's: options_draw_claims() */
    } workers[SIM_WORKERS];
    uint32_t no_reuse, poison;               /* 0 or 1 */
    uint32_t checkpoint_share, tenant_share; /* percent of the pool */
    struct prompt_draw prompts;
};

#define WINDOW_TABLES 3 /* limit on the pages of a window block */

/* Window layers; models[].window is what they see.  All 0: there are none. */
struct window_draw {
    uint32_t layers[SIM_MODELS];  /* bit i: layer i of a model in stages */
    uint32_t tables[SIM_WORKERS]; /* pages of a window block */
    uint32_t room[SIM_WORKERS];   /* further pages of the pool */
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
    uint32_t drop_of, double_of, reorder_of, flip_of; /* per 10,000 frames */
    int64_t every_us[FAULTS];
    int64_t cable_us; /* mean interval of broken cables; 0: none */

    uint32_t gap_us;   /* between requests */
    uint32_t open_max; /* limit on open requests */
    uint32_t prompt_max, tokens_min, tokens_max;
    uint32_t text_of, deadline_of, keep_of, end_of, wrong_of, again_of;
    uint32_t admin_of, leave_of, sleep_of;
    uint32_t penalties_of, lists_of, ends_of, logprobs_of; /* in sampling */
    uint32_t want_text_of, stop_of, choices_of;
    uint32_t resume_of; /* requests that outlive their sessions */

    uint32_t poison_of; /* requests that kill the worker that runs them */
    enum crash crash[SIM_WORKERS];
    uint32_t crash_lives[SIM_WORKERS];      /* number of lives that crash */
    int64_t drain_every_us, leave_every_us; /* for a random worker, 0: never */
    uint32_t worker_wait_ms;                /* option of the router */
    bool headroom;

    /* Last in the struct: without these, the rest is drawn and hashed as if
     * they did not exist. */
    _Alignas(8) struct stage_draw stages;
    _Alignas(8) struct offer_draw offers;
    _Alignas(8) struct gateway_draw gateways;
    _Alignas(8) struct key_draw keys;
    _Alignas(8) struct pool_draw pools;
    /* Not in the hash: */
    uint32_t suspensions; /* the router's, in millionths; 0: strict */
    bool lengths_change;  /* later outputs are longer than those before */
    bool swaps;           /* ... in pools for few of them */
    struct window_draw windows;
    struct draft_draw drafts;
    uint32_t queue_timeout_ms; /* the router's; 0: none */
};

/* Layers of its model that a worker has. */
struct fake_shard {
    uint32_t begin, end, n_layers;
    bool attention, linear, windows; /* present among these layers */
};

void options_draw(struct sim_options *o, uint64_t seed, struct seeds_with with);
/* Draws the gateways: the last part of options_draw() but the keys. */
void options_draw_gateways(struct sim_options *o, uint64_t seed,
                           enum seeds which);
/* Draws the keys: after all others. */
void options_draw_keys(struct sim_options *o, uint64_t seed, enum seeds which);
/* Draws the pools and the prompts: after all others. */
void options_draw_pools(struct sim_options *o, uint64_t seed);
/* Draws optimistic admission. */
void options_draw_claims(struct sim_options *o, uint64_t seed,
                         enum seeds which);
/* Draws window layers: after optimistic admission. */
void options_draw_windows(struct sim_options *o, uint64_t seed,
                          enum seeds which);
/* Draws drafts: after the windows. */
void options_draw_drafts(struct sim_options *o, uint64_t seed,
                         enum seeds which);
/* Draws the time that requests may wait, in seeds without gateways. */
void options_draw_patience(struct sim_options *o, uint64_t seed);
/* Returns whether worker w has the MTP layer of its model: a last stage with
 * attention. */
bool options_has_mtp(const struct sim_options *o, uint32_t w);
/* Returns the most tokens of a sequence in a step that worker w makes. */
uint32_t options_chunk(const struct sim_options *o, uint32_t w);
/* Returns the pages that the window blocks of a sequence of n tokens take on
 * worker w, in steps of at most `chunk` tokens of it. */
uint32_t options_windows(const struct sim_options *o, uint32_t w,
                         uint32_t chunk, uint32_t n_tokens);
/* Sets the size of a worker's pool, once its layers are known. */
void options_set_pool(struct sim_options *o, uint32_t w);
struct fake_shard options_shard(const struct sim_options *o, uint32_t w);
/* Return whether worker w has only some of the layers; whether any worker does.
 */
static inline bool options_staged(const struct sim_options *o, uint32_t w)
{
    return o->stages.layers[w].end != 0;
}
static inline bool options_has_stages(const struct sim_options *o)
{
    return options_staged(o, 0);
}

/* Returns whether worker w offers itself.  Such a worker has other layers in
 * each life, and none while it waits; then begin and end are the number of
 * layers. */
static inline bool options_offers(const struct sim_options *o, uint32_t w)
{
    return w < o->offers.n;
}

uint64_t options_hash(const struct sim_options *o);

#endif
