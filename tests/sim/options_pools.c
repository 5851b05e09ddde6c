/* options_pools.c - Draws the pools of a seed, and prompts that share
 * prefixes. */
#include "common/base/minmax.h"
#include "tests/sim/options.h"
#include "tests/sim/rng.h"

#define POOLS_STREAM    110
#define EXPECTED_STREAM 120
#define SWAPS_STREAM    121
#define HOSTS_STREAM    122
#define SHORT_CONTEXT   512 /* longer contexts are drawn elsewhere, and stay */
#define PER_SLOT_MAX    20
#define LONGEST_PROMPT  600
#define DEEP_BLOCK      4 /* least tokens of a block in a seed of long prompts */

static uint32_t octave(struct rng *r, uint32_t lo, uint32_t hi)
{
    return (uint32_t)rng_octave(r, lo, hi);
}

void options_set_pool(struct sim_options *o, uint32_t w)
{
    const struct worker_draw *d = &o->workers[w];
    struct pool_of_worker *p = &o->pools.workers[w];
    struct fake_shard shard = options_shard(o, w);
    uint32_t per = !shard.linear ? 0 : shard.attention ? p->per_slot : 1;
    uint32_t blocks = shard.attention ? d->n_blocks : 0;
    uint32_t slots = shard.linear ? d->n_slots : 0;

    p->pages_per_slot = per;
    p->n_pages = blocks + (slots + (per ? p->spare : 0)) * per +
                 (shard.windows ? o->windows.room[w] : 0);
    if (per == 0) {
        p->slot_cap = 0;
    } else {
        p->slot_cap = p->capped ? slots : p->n_pages / per;
    }
}

static void draw_pool(struct sim_options *o, uint32_t w, struct rng *r)
{
    struct pool_of_worker *p = &o->pools.workers[w];

    p->per_slot = rng_below(r, 2) ? (uint32_t)rng_range(r, 1, PER_SLOT_MAX) : 1;
    p->capped = rng_below(r, 2) == 0;
    p->spare = rng_below(r, 3) ? octave(r, 1, 64) : 0;
    p->refuse_of = o->faulty && rng_below(r, 4) == 0 ? octave(r, 1, 100) : 0;
    options_set_pool(o, w);
}

/* Gives a worker room for at least one prompt of the whole context, and often
 * for many: too little for all prefixes, or enough. */
static void draw_deep_worker(struct sim_options *o, uint32_t w, struct rng *r)
{
    struct worker_draw *d = &o->workers[w];
    uint32_t context = o->models[d->model].context, least;

    d->block_tokens = o->stages.block_tokens[d->model]
                          ? o->stages.block_tokens[d->model]
                          : max_u32(d->block_tokens, DEEP_BLOCK);
    least = (context + d->block_tokens - 1) / d->block_tokens;
    d->n_blocks = d->n_blocks ? octave(r, least, least * 16) : 0;
    d->step_tokens = octave(r, 64, 1024);
    d->chunk_tokens = octave(r, 32, 512);
    d->token_us = (uint32_t)rng_below(r, 5);
}

/* Makes contexts and prompts long enough for several units of the index. */
static void draw_deep(struct sim_options *o, struct rng *r)
{
    for (uint32_t i = 0; i < o->n_models; i++) {
        o->models[i].context = octave(r, 256, 1024);
        o->stages.block_tokens[i] =
            o->stages.block_tokens[i]
                ? max_u32(o->stages.block_tokens[i], DEEP_BLOCK)
                : 0;
    }
    for (uint32_t w = 0; w < o->n_workers; w++) {
        draw_deep_worker(o, w, r);
    }
    o->prompt_max = octave(r, 128, 600);
    o->keep_of = rng_below(r, 3) ? 4000 : o->keep_of;
    o->choices_of = rng_below(r, 2) ? 2500 : o->choices_of;
}

/* Returns whether the seed may have other contexts: nothing else of it depends
 * on them. */
static bool may_be_deep(const struct sim_options *o)
{
    return o->models[0].context <= SHORT_CONTEXT && o->offers.n == 0 &&
           o->tokens_min < 100;
}

static void draw_prompts(struct prompt_draw *d, struct rng *r)
{
    d->family_of = octave(r, 2000, 10000);
    d->n_families = (uint32_t)rng_range(r, 1, 4);
    d->same_of = rng_below(r, 2) ? octave(r, 100, 5000) : 0;
    d->session_of = rng_below(r, 2) ? octave(r, 500, 8000) : 0;
    d->continue_of = rng_below(r, 3) ? octave(r, 1000, 10000) : 0;
    d->range_of = rng_below(r, 3) ? octave(r, 500, 5000) : 0;
    d->no_cache_of = rng_below(r, 3) ? 0 : octave(r, 100, 3000);
    d->n_tenants = rng_below(r, 3) ? 1 : SIM_TENANTS;
}

/* All seeds have pools of pages.  They are drawn from an independent stream,
 * so that nothing else changes, but for longer contexts in most seeds. */
void options_draw_pools(struct sim_options *o, uint64_t seed)
{
    struct pool_draw *d = &o->pools;
    struct rng r;

    rng_init(&r, seed, POOLS_STREAM);
    if (rng_below(&r, 3) && may_be_deep(o)) {
        draw_deep(o, &r);
    }
    for (uint32_t w = 0; w < o->n_workers; w++) {
        draw_pool(o, w, &r);
    }
    for (uint32_t i = 0; i < o->n_models; i++) {
        o->models[i].one_arithmetic = rng_below(&r, 2) == 0;
    }
    d->no_reuse = rng_below(&r, 12) == 0;
    d->poison = rng_below(&r, 4) != 0;
    d->checkpoint_share = rng_below(&r, 3) ? 50 : octave(&r, 1, 100);
    d->tenant_share = rng_below(&r, 3) ? 100 : octave(&r, 1, 100);
    draw_prompts(&d->prompts, &r);
}

/* Workers with no host tier, one for a few blocks, or for all that they may
 * suspend.  Half of those that suspend nothing have one, for their prefixes.
 * Workers with some of the layers have none. */
static void draw_hosts(struct sim_options *o, uint64_t seed, struct rng *r)
{
    struct rng strict;

    rng_init(&strict, seed, HOSTS_STREAM);
    for (uint32_t w = 0; w < o->n_workers; w++) {
        struct pool_of_worker *p = &o->pools.workers[w];
        uint32_t most = rng_below(r, 2) ? 12 : 2000;

        p->host_pages = rng_below(r, 3) ? octave(r, 1, most) : 0;
        if ((o->suspensions == 0 && rng_below(&strict, 2)) ||
            options_staged(o, w)) {
            p->host_pages = 0;
        }
    }
}

/* Gives a worker with blocks room for few sequences of the whole context. */
static void draw_small_pool(struct sim_options *o, uint32_t w, struct rng *r)
{
    struct worker_draw *d = &o->workers[w];
    uint32_t context = o->models[d->model].context;
    uint32_t least = (context + d->block_tokens - 1) / d->block_tokens;

    if (d->n_blocks > 0 && !options_staged(o, w)) {
        d->n_blocks = octave(r, least, least * 3);
        d->n_slots = d->n_slots > 0 ? octave(r, 8, 32) : 0;
        d->max_rows = octave(r, 8, 32);
        o->pools.workers[w].per_slot = 1;
        options_set_pool(o, w);
    }
}

/* Makes most outputs end after a part of max_tokens, and asks for many at
 * once. */
static void draw_short_outputs(struct sim_options *o, struct rng *r)
{
    for (uint32_t i = 0; i < o->n_models; i++) {
        struct fake_model *m = &o->models[i];

        o->text[i] = rng_below(r, 4) == 0 && o->text[i];
        m->vocab = o->text[i] ? 256 : octave(r, 48, 64);
        m->context = m->context < 256 ? 256 : m->context;
        m->n_eos = ORACLE_EOS_MAX;
        for (uint32_t k = 0; k < m->n_eos; k++) {
            m->eos[k] = m->vocab / 2 + k;
        }
    }
    for (uint32_t w = 0; w < o->n_workers; w++) {
        draw_small_pool(o, w, r);
    }
    o->tokens_min = octave(r, 48, 96);
    o->tokens_max = o->tokens_min * 2;
    o->end_of /= 4; /* what is cut off teaches little */
    o->gap_us = octave(r, 300, 3000);
    o->open_max = octave(r, 16, 64);
}

/* Gives a worker with blocks room for a few sequences of the longest outputs,
 * and for many of the usual ones; and a host tier for some of them. */
static void draw_swapping_worker(struct sim_options *o, uint32_t w,
                                 struct rng *r)
{
    struct worker_draw *d = &o->workers[w];
    uint32_t tokens = o->prompt_max + o->tokens_max;
    uint32_t one = (tokens + d->block_tokens - 1) / d->block_tokens;

    if (d->n_blocks == 0 || options_staged(o, w)) {
        return;
    }
    d->n_blocks = octave(r, 2 * one, 6 * one);
    d->n_slots = d->n_slots > 0 ? octave(r, 16, 48) : 0;
    d->max_rows = octave(r, 16, 48);
    d->step_tokens = max_u32(d->step_tokens, 32);
    o->pools.workers[w].per_slot = 1;
    options_set_pool(o, w);
    o->pools.workers[w].host_pages = octave(r, one / 2 + 1, 6 * one);
}

/* Half of the seeds whose outputs are short at first: drawn from a stream of
 * its own, so that the others stay as they were. */
static void draw_swaps(struct sim_options *o, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, SWAPS_STREAM);
    if (o->suspensions == 0 || !o->lengths_change || rng_below(&r, 2)) {
        return;
    }
    o->swaps = true;
    o->suspensions = 20000 * (uint32_t)rng_range(&r, 4, 8);
    o->prompt_max = octave(&r, 8, 48);
    o->tokens_min = octave(&r, 64, 128);
    o->tokens_max = o->tokens_min * 2;
    o->gap_us = octave(&r, 100, 600);
    o->open_max = octave(&r, 24, 64);
    o->max_waiting = max_u32(o->max_waiting, 64);
    o->max_requests = max_u32(o->max_requests, 128);
    for (uint32_t i = 0; i < o->n_models; i++) {
        o->models[i].context = max_u32(o->models[i].context, 512);
    }
    for (uint32_t w = 0; w < o->n_workers; w++) {
        draw_swapping_worker(o, w, &r);
    }
}

/* One seed in three, drawn from an independent stream. */
void options_draw_claims(struct sim_options *o, uint64_t seed, enum seeds which)
{
    struct rng r;
    bool is_drawn;

    rng_init(&r, seed, EXPECTED_STREAM);
    is_drawn = rng_below(&r, 3) == 0;
    o->suspensions = 0;
    if (which == SEEDS_ALL || (which == SEEDS_DRAWN && is_drawn)) {
        o->suspensions =
            rng_below(&r, 2) ? 1000 : 20000 * (uint32_t)rng_range(&r, 3, 8);
        if (o->prompt_max <= LONGEST_PROMPT && o->offers.n == 0 &&
            rng_below(&r, 4)) {
            o->lengths_change = rng_below(&r, 3) != 0;
            draw_short_outputs(o, &r);
        }
    }
    draw_hosts(o, seed, &r);
    draw_swaps(o, seed);
}
