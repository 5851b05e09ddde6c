/* options_drafts.c - Draws drafts. */
#include "tests/sim/options.h"
#include "tests/sim/rng.h"
#include "worker/base/options.h"

#define DRAFTS_STREAM 140

bool options_has_mtp(const struct sim_options *o, uint32_t w)
{
    struct fake_shard shard = options_shard(o, w);

    return o->drafts.mtp[o->workers[w].model] && o->drafts.most[w] > 0 &&
           shard.attention && shard.end == shard.n_layers;
}

/* Drafters that are always right, never, half of the time, or mostly. */
static uint32_t draw_right(struct rng *r)
{
    static const uint32_t shares[] = {10000, 0, 5000};
    uint64_t i = rng_below(r, 5);

    return i < 3 ? shares[i] : (uint32_t)rng_range(r, 6000, 9500);
}

static void draw_worker(struct draft_draw *d, uint32_t w, struct rng *r)
{
    d->most[w] = rng_below(r, 8) ? (uint32_t)rng_range(r, 1, DRAFTS_MAX) : 0;
    d->automatic[w] = rng_below(r, 3) == 0;
    d->drafter[w] = rng_below(r, 2)
                        ? DRAFTER_AUTO
                        : (uint32_t)rng_range(r, DRAFTER_MTP, DRAFTER_NGRAM);
    d->keep_tokens[w] =
        d->most[w] > 0 || rng_below(r, 2) ? (uint32_t)rng_octave(r, 2, 64) : 0;
    d->right_of[w] = draw_right(r);
}

/* One seed in two, drawn from an independent stream. */
void options_draw_drafts(struct sim_options *o, uint64_t seed, enum seeds which)
{
    struct draft_draw *d = &o->drafts;
    struct rng r;
    bool is_drawn;

    rng_init(&r, seed, DRAFTS_STREAM);
    is_drawn = rng_below(&r, 2) == 0;
    if (which != SEEDS_ALL && (which != SEEDS_DRAWN || !is_drawn)) {
        return;
    }
    d->on = true;
    for (uint32_t i = 0; i < o->n_models; i++) {
        d->mtp[i] = rng_below(&r, 4) != 0;
        o->models[i].loops = rng_below(&r, 2) == 0;
    }
    for (uint32_t w = 0; w < o->n_workers; w++) {
        draw_worker(d, w, &r);
    }
    d->few_of = rng_below(&r, 2) ? (uint32_t)rng_octave(&r, 100, 5000) : 0;
    d->ask_of = rng_below(&r, 3) ? (uint32_t)rng_octave(&r, 500, 8000) : 0;
}
