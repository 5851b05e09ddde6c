/* options_windows.c - Draws window layers. */
#include "tests/sim/options.h"
#include "tests/sim/rng.h"

#define WINDOWS_STREAM 130

static uint32_t octave(struct rng *r, uint32_t lo, uint32_t hi)
{
    return (uint32_t)rng_octave(r, lo, hi);
}

uint32_t options_chunk(const struct sim_options *o, uint32_t w)
{
    const struct worker_draw *d = &o->workers[w];

    return d->chunk_tokens < d->step_tokens ? d->chunk_tokens : d->step_tokens;
}

uint32_t options_windows(const struct sim_options *o, uint32_t w,
                         uint32_t chunk, uint32_t n_tokens)
{
    const struct worker_draw *d = &o->workers[w];
    uint32_t span = o->models[d->model].window + chunk, block = d->block_tokens;
    uint32_t all = (n_tokens + block - 1) / block;
    uint32_t most = (span + block - 1) / block + 1;

    return options_shard(o, w).windows
               ? o->windows.tables[w] * (all < most ? all : most)
               : 0;
}

static void draw_model(struct sim_options *o, uint32_t model, struct rng *r)
{
    uint32_t n = o->stages.n_layers[model];

    o->models[model].window = (uint8_t)octave(r, 1, ORACLE_WINDOW_MAX);
    do {
        o->windows.layers[model] = (uint32_t)rng_u64(r) & ((1u << n) - 1);
    } while (n > 0 && o->windows.layers[model] == 0);
}

/* Gives the pool room for the window of a few sequences of the whole context,
 * or of many.  Blocks, slots and windows share it. */
static void draw_worker(struct sim_options *o, uint32_t w, struct rng *r)
{
    const struct worker_draw *d = &o->workers[w];
    uint32_t context = o->models[d->model].context, one;

    o->windows.tables[w] = (uint32_t)rng_range(r, 1, WINDOW_TABLES);
    one = options_windows(o, w, options_chunk(o, w), context);
    o->windows.room[w] =
        rng_below(r, 3) ? octave(r, one + 1, 16 * one + 16) : one;
    options_set_pool(o, w);
}

/* One seed in four, drawn from an independent stream. */
void options_draw_windows(struct sim_options *o, uint64_t seed,
                          enum seeds which)
{
    struct rng r;
    bool is_drawn;

    rng_init(&r, seed, WINDOWS_STREAM);
    is_drawn = rng_below(&r, 4) == 0;
    if (o->offers.n > 0 ||
        !(which == SEEDS_ALL || (which == SEEDS_DRAWN && is_drawn))) {
        return;
    }
    for (uint32_t i = 0; i < o->n_models; i++) {
        if (i == 0 || rng_below(&r, 2)) {
            draw_model(o, i, &r);
        }
    }
    for (uint32_t w = 0; w < o->n_workers; w++) {
        if (o->models[o->workers[w].model].window > 0) {
            draw_worker(o, w, &r);
        }
    }
}
