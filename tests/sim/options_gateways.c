/* options_gateways.c - Draws the gateways of a seed. */
#include "tests/sim/options.h"
#include "tests/sim/rng.h"

#define GATEWAYS_STREAM 70
#define PATIENCE_STREAM 150

static void draw_gateways(struct sim_options *o, struct rng *r)
{
    struct gateway_draw *d = &o->gateways;

    d->n = (uint32_t)rng_range(r, 1, SIM_GATEWAYS);
    d->texts = rng_below(r, 4) != 0;
    o->text[0] = true; /* the gateway asks for text */
    d->output_bytes = (uint32_t)rng_octave(r, 1 << 12, 1 << 17);
    d->prompt_us = (uint32_t)rng_octave(r, 50, 10000);
    d->prompt_queue = (uint32_t)rng_octave(r, 2, 32);
    d->gap_us = (uint32_t)rng_octave(r, 1000, 40000);
    d->open_max = (uint32_t)rng_octave(r, 2, 16);
    d->pipe_bytes = (uint32_t)rng_octave(r, 512, 1 << 16);
    d->leave_of = rng_below(r, 3) ? 2000 : 0;
    d->stall_of = rng_below(r, 2) ? 1500 : 0;
    d->half_of = rng_below(r, 2) ? 600 : 0;
    d->wrong_of = rng_below(r, 2) ? 1500 : 0;
    d->stream_of = (uint32_t)rng_range(r, 2000, 9000);
    d->chat_of = rng_below(r, 2) ? 4000 : 0;
    if (o->faulty && rng_below(r, 2)) {
        d->kill_every_us = rng_octave(r, 200000, 4000000);
    }
}

/* One seed in four has gateways, drawn from an independent stream, so that
 * other seeds do not change. */
void options_draw_gateways(struct sim_options *o, uint64_t seed,
                           enum seeds which)
{
    struct rng r;
    bool is_drawn;

    rng_init(&r, seed, GATEWAYS_STREAM);
    is_drawn = rng_below(&r, 4) == 0;
    if (which == SEEDS_ALL || (which == SEEDS_DRAWN && is_drawn)) {
        draw_gateways(o, &r);
    }
}

/* One seed in three, if it has no gateways. */
void options_draw_patience(struct sim_options *o, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, PATIENCE_STREAM);
    if (rng_below(&r, 3) == 0 && o->gateways.n == 0) {
        o->queue_timeout_ms = (uint32_t)rng_octave(&r, 20, 4000);
    }
}
