/* options_keys.c - Draws the keys of a seed. */
#include "tests/sim/options.h"
#include "tests/sim/rng.h"

#define KEYS_STREAM 100

static void draw_keys(struct sim_options *o, struct rng *r)
{
    struct key_draw *d = &o->keys;

    d->on = 1;
    d->pooled = rng_below(r, 2) == 0;
    d->strange_every_us = rng_octave(r, 20000, 1000000);
    if (o->faulty && rng_below(r, 3)) {
        d->remove_every_us = rng_octave(r, 200000, 4000000);
    }
}

/* One seed in four has keys, drawn from an independent stream, so that other
 * seeds do not change. */
void options_draw_keys(struct sim_options *o, uint64_t seed, enum seeds which)
{
    struct rng r;
    bool is_drawn;

    rng_init(&r, seed, KEYS_STREAM);
    is_drawn = rng_below(&r, 4) == 0;
    if (which == SEEDS_ALL || (which == SEEDS_DRAWN && is_drawn)) {
        draw_keys(o, &r);
    }
}
