#include "tests/sim/options.h"

#include <stddef.h>
#include <string.h>

#include <xxhash.h>

#include "common/split/page_unit.h"
#include "tests/sim/rng.h"

#define LONG_CONTEXT 32768
#define WHOLE_LAYERS 4   /* layers of a model whose workers have all */
#define STAGES_MOST  4   /* maximum in a replica */
#define SHORT_TOKENS 128 /* longer answers are long ones */

#define STAGES_STREAM 50
#define OFFERS_STREAM 60

static uint32_t octave(struct rng *r, uint32_t lo, uint32_t hi)
{
    return (uint32_t)rng_octave(r, lo, hi);
}

/* Draws a rate in two seeds of three, from rare to frequent. */
static uint32_t rate(struct rng *r, uint32_t hi)
{
    return rng_below(r, 3) ? octave(r, 1, hi) : 0;
}

static void draw_model(struct fake_model *m, struct rng *r)
{
    unsigned kind = (unsigned)rng_below(r, 4);

    m->salt = rng_u64(r);
    m->attention = kind != 0;
    m->linear = kind != 1;
    m->vocab = octave(r, 256, 4096);
    m->context = octave(r, 64, 512);
    m->n_eos = (uint32_t)rng_below(r, ORACLE_EOS_MAX + 1);
    for (uint32_t i = 0; i < m->n_eos; i++) {
        /* adjacent ids, so that no id occurs twice */
        m->eos[i] = m->vocab / 2 + i;
    }
    /* Makes sequences end by themselves often enough. */
    if (rng_below(r, 2)) {
        m->vocab = 256;
        for (uint32_t i = 0; i < m->n_eos; i++) {
            m->eos[i] = 128 + i;
        }
    }
}

static void draw_worker(struct worker_draw *w, const struct sim_options *o,
                        struct rng *r)
{
    const struct fake_model *m;
    uint32_t least;

    /* Most models have more than one worker. */
    w->model = rng_below(r, 4) ? 0 : (uint32_t)rng_below(r, o->n_models);
    m = &o->models[w->model];
    w->block_tokens = 1u << rng_below(r, 7);
    /* Room from one sequence of 64 tokens to plenty. */
    least = (64 + w->block_tokens - 1) / w->block_tokens;
    w->n_blocks = m->attention ? octave(r, least, least * 64) : 0;
    w->n_slots = m->linear ? octave(r, 1, 32) : 0;
    w->max_rows = octave(r, 1, 32);
    w->step_tokens = octave(r, 1, 256);
    w->chunk_tokens = octave(r, 1, 128);
    w->depth = 1 + (uint32_t)rng_below(r, ENGINE_DEPTH_MAX);
    w->step_us = octave(r, 50, 4000);
    w->token_us = (uint32_t)rng_below(r, 30);
    w->fail_of = o->faulty && rng_below(r, 2) ? octave(r, 1, 100) : 0;
    w->slow_of = rng_below(r, 3) ? 0 : octave(r, 1, 50);
}

static void draw_faults(struct sim_options *o, struct rng *r)
{
    static const uint32_t shortest_us[FAULTS] = {[FAULT_CUT] = 50000,
                                                 [FAULT_ONE_WAY] = 100000,
                                                 [FAULT_WORKER] = 50000,
                                                 [FAULT_ROUTER] = 400000,
                                                 [FAULT_PAUSE] = 100000};
    /* Share of seeds, in sixths: worker loss moves sequences. */
    static const uint32_t of_six[FAULTS] = {[FAULT_CUT] = 3,
                                            [FAULT_ONE_WAY] = 3,
                                            [FAULT_WORKER] = 5,
                                            [FAULT_ROUTER] = 2,
                                            [FAULT_PAUSE] = 3};

    o->drop_of = rate(r, 400);
    o->double_of = rate(r, 400);
    o->reorder_of = rate(r, 400);
    o->flip_of = rate(r, 100);
    for (int i = 0; i < FAULTS; i++) {
        if (rng_below(r, 6) < of_six[i]) {
            o->every_us[i] = rng_octave(r, shortest_us[i], 2000000);
        }
    }
}

static void draw_asked(struct sim_options *o, struct rng *r)
{
    o->penalties_of = rng_below(r, 2) ? 3000 : 0;
    o->lists_of = rng_below(r, 2) ? 2000 : 0;
    o->ends_of = rng_below(r, 2) ? 2000 : 0;
    o->logprobs_of = rng_below(r, 2) ? 3000 : 0;
    o->want_text_of = rng_below(r, 2) ? 5000 : 0;
    o->stop_of = rng_below(r, 2) ? 4000 : 0;
    o->choices_of = rng_below(r, 3) ? 0 : 2500;
}

static void draw_load(struct sim_options *o, struct rng *r)
{
    o->gap_us = octave(r, 300, 30000);
    o->open_max = octave(r, 4, 64);
    o->prompt_max = octave(r, 2, 200);
    o->tokens_min = 1;
    o->tokens_max = octave(r, 8, 128);
    o->text_of = rng_below(r, 2) ? 3000 : 0;
    o->deadline_of = rng_below(r, 2) ? 500 : 0;
    o->keep_of = rng_below(r, 2) ? 1500 : 0;
    o->end_of = rng_below(r, 3) ? 4000 : 0;
    o->wrong_of = 200;
    /* A few seeds reuse ids often. */
    o->again_of = rng_below(r, 4) ? 0 : octave(r, 100, 3000);
    o->admin_of = rng_below(r, 2) ? 1000 : 0;
    o->leave_of = o->faulty || rng_below(r, 4) == 0 ? 200 : 0;
    o->sleep_of = rng_below(r, 4) ? 0 : 20;
    draw_asked(o, r);
}

static void draw_long_worker(struct worker_draw *w, struct rng *r)
{
    w->block_tokens = 64;
    w->n_blocks =
        w->n_blocks ? octave(r, LONG_CONTEXT / 64, LONG_CONTEXT / 64 * 8) : 0;
    w->step_tokens = octave(r, 1024, 8192);
    w->chunk_tokens = octave(r, 1024, 8192);
    w->token_us = 0;
}

/* Draws prompts that need several Submits, and exceed the bytes that the link
 * sends before an acknowledgement.  Cancels then overtake the rest. */
static void draw_long(struct sim_options *o, struct rng *r)
{
    for (uint32_t i = 0; i < o->n_models; i++) {
        o->models[i].vocab = octave(r, 65536, 262144);
        o->models[i].context = LONG_CONTEXT;
    }
    for (uint32_t i = 0; i < o->n_workers; i++) {
        draw_long_worker(&o->workers[i], r);
    }
    o->prompt_max = LONG_CONTEXT - 100;
    o->tokens_max = octave(r, 2, 16);
    if (rng_below(r, 2)) { /* ... and the next with the same id follow them */
        o->again_of = 3000;
        o->end_of = 6000;
    }
}

static void draw_answering_worker(struct worker_draw *w, struct rng *r)
{
    w->n_blocks = w->n_blocks ? 4096 / w->block_tokens : 0;
    w->step_us = octave(r, 50, 400);
}

/* Draws answers longer than the worker's logprob window. */
static void draw_long_answers(struct sim_options *o, struct rng *r)
{
    for (uint32_t i = 0; i < o->n_models; i++) {
        o->models[i].context = octave(r, 1024, 2048);
        o->models[i].n_eos = 0;
    }
    for (uint32_t i = 0; i < o->n_workers; i++) {
        draw_answering_worker(&o->workers[i], r);
    }
    o->open_max = o->open_max < 16 ? o->open_max : 16;
    o->tokens_min = 200;
    o->tokens_max = 800;
    o->logprobs_of = 6000;
    if (o->faulty) { /* acknowledgements do not arrive for a while */
        o->every_us[FAULT_ONE_WAY] = rng_octave(r, 100000, 400000);
    }
}

/* Draws long-running sequences on short-lived sessions: a sequence that
 * outlives its session continues on its worker.  Most have no other worker. */
static void draw_flaps(struct sim_options *o, struct rng *r)
{
    if (rng_below(r, 3) && o->workers[0].model == 0) {
        o->n_workers = 1;
        o->n_models = 1;
    }
    for (uint32_t i = 0; i < o->n_workers; i++) {
        o->workers[i].step_us = octave(r, 4000, 40000);
    }
    o->tokens_min = 8;
    o->tokens_max = 128;
    o->open_max = o->open_max < 16 ? o->open_max : 16;
    o->every_us[FAULT_WORKER] = 0;
    o->every_us[FAULT_CUT] = rng_octave(r, 200000, 2000000);
    if (rng_below(r, 2)) {
        o->every_us[FAULT_ROUTER] = rng_octave(r, 1000000, 4000000);
    }
}

static void draw_stand(struct worker_draw *w, bool faulty, struct rng *r)
{
    w->long_of = rng_below(r, 8) ? 0 : octave(r, 1, 20);
    w->stand_of = !faulty || rng_below(r, 4) ? 0 : octave(r, 1, 20);
}

/* Draws ticking steps of seconds, engine stalls, and broken cables. */
static void draw_stands(struct sim_options *o, struct rng *r)
{
    for (uint32_t i = 0; i < o->n_workers; i++) {
        draw_stand(&o->workers[i], o->faulty, r);
    }
    o->cable_us =
        !o->faulty || rng_below(r, 4) ? 0 : rng_octave(r, 500000, 8000000);
}

static void draw_crash(struct sim_options *o, uint32_t w, struct rng *r)
{
    if (rng_below(r, 8) == 0) {
        o->crash[w] = rng_below(r, 2) ? CRASH_START : CRASH_STEP;
        o->crash_lives[w] = (uint32_t)rng_range(r, 1, 5);
    }
}

/* Draws causes of death other than random kills. */
static void draw_deaths(struct sim_options *o, struct rng *r)
{
    o->poison_of = rng_below(r, 3) ? 0 : octave(r, 30, 600);
    for (uint32_t i = 0; i < o->n_workers; i++) {
        draw_crash(o, i, r);
    }
}

static void draw_drains(struct sim_options *o, struct rng *r)
{
    o->drain_every_us = rng_below(r, 3) ? 0 : rng_octave(r, 50000, 2000000);
    o->leave_every_us = rng_below(r, 3) ? 0 : rng_octave(r, 50000, 2000000);
    o->worker_wait_ms = rng_below(r, 3) ? octave(r, 1, 20000) : 0;
    o->headroom = rng_below(r, 4) == 0;
}

/* ---- replicas of several stages ---- */

struct fake_shard options_shard(const struct sim_options *o, uint32_t w)
{
    uint32_t model = o->workers[w].model, mask, has;
    const struct fake_model *m = &o->models[model];
    struct fake_shard s = {.begin = o->stages.layers[w].begin,
                           .end = o->stages.layers[w].end,
                           .n_layers = o->stages.n_layers[model],
                           .attention = m->attention,
                           .linear = m->linear,
                           .windows = m->window > 0};

    if (s.end == 0) {
        s.n_layers = s.n_layers ? s.n_layers : WHOLE_LAYERS;
        s.end = s.n_layers;
        return s;
    }
    mask = ((1u << (s.end - s.begin)) - 1) << s.begin;
    has = o->stages.attention[model] & mask;
    s.attention = has != 0;
    s.linear = has != mask;
    s.windows = m->window > 0 && (o->windows.layers[model] & mask) != 0;
    return s;
}

/* Draws how many layers a model has, and which of them have attention. */
static void draw_layers(struct sim_options *o, uint32_t model, struct rng *r)
{
    const struct fake_model *m = &o->models[model];
    uint32_t n = (uint32_t)rng_range(r, STAGES_MOST, SIM_LAYERS);
    uint32_t all = (1u << n) - 1, mask = m->attention ? all : 0;

    if (m->attention && m->linear) {
        do {
            mask = (uint32_t)rng_u64(r) & all;
        } while (mask == 0 || mask == all);
    }
    o->stages.n_layers[model] = n;
    o->stages.attention[model] = mask;
}

/* Draws n ascending cuts of n_layers layers; the last one is n_layers. */
static void draw_cuts(uint32_t cuts[STAGES_MOST], uint32_t n, uint32_t n_layers,
                      struct rng *r)
{
    uint32_t begin = 0;

    for (uint32_t i = 0; i + 1 < n; i++) {
        begin = (uint32_t)rng_range(r, begin + 1, n_layers - (n - 1 - i));
        cuts[i] = begin;
    }
    cuts[n - 1] = n_layers;
}

/* Adds a worker with layers [begin, end) of a model; end 0: all layers. */
static void add_worker(struct sim_options *o, uint32_t model, uint32_t begin,
                       uint32_t end, struct rng *r)
{
    uint32_t w = o->n_workers++;
    struct worker_draw *d = &o->workers[w];
    struct fake_shard shard;

    draw_worker(d, o, r);
    d->model = model;
    o->stages.layers[w].begin = begin;
    o->stages.layers[w].end = end;
    shard = options_shard(o, w);
    d->block_tokens = o->stages.block_tokens[model];
    d->n_blocks = 0;
    if (shard.attention) {
        uint32_t least = (64 + d->block_tokens - 1) / d->block_tokens;

        d->n_blocks = octave(r, least, least * 64);
    }
    d->n_slots = shard.linear ? octave(r, 1, 32) : 0;
    if (o->models[model].context == LONG_CONTEXT) {
        draw_long_worker(d, r);
    } else if (o->tokens_max > SHORT_TOKENS) {
        draw_answering_worker(d, r);
    }
    draw_stand(d, o->faulty, r);
    if (o->faulty && rng_below(r, 6) == 0) {
        d->stand_of = octave(r, 20, 200);
    }
    if (o->faulty) {
        draw_crash(o, w, r);
    }
}

/* Adds a place where sequences can run: a worker with all layers, or several
 * stages.  Half of the later places have the cuts of the first, so that stages
 * can change partners. */
static void add_place(struct sim_options *o, uint32_t model, uint32_t n,
                      struct rng *r)
{
    uint32_t cuts[STAGES_MOST], begin = 0;
    bool same = o->stages.n_places[model] && rng_below(r, 2);

    if (n == 1) {
        add_worker(o, model, 0, 0, r);
        return;
    }
    draw_cuts(cuts, n, o->stages.n_layers[model], r);
    for (uint32_t i = 0; same && i < n; i++) {
        cuts[i] = o->stages.layers[i].end;
    }
    for (uint32_t i = 0; i < n; i++) {
        add_worker(o, model, begin, cuts[i], r);
        begin = cuts[i];
    }
    o->stages.n_places[model]++;
}

/* Adds another worker with the layers of an existing stage. */
static void add_spare(struct sim_options *o, uint32_t n, struct rng *r)
{
    uint32_t i = (uint32_t)rng_below(r, n);

    add_worker(o, o->workers[0].model, o->stages.layers[i].begin,
               o->stages.layers[i].end, r);
}

/* Draws models of several layers, and removes all workers. */
static void begin_stages(struct sim_options *o, struct rng *r)
{
    o->stages.strike_of =
        o->faulty && rng_below(r, 2) ? octave(r, 1000, 8000) : 0;
    o->stages.garbage_of =
        o->faulty && rng_below(r, 4) == 0 ? octave(r, 2, 100) : 0;
    memset(o->workers, 0, sizeof(o->workers));
    memset(o->crash, 0, sizeof(o->crash));
    o->n_workers = 0;
    for (uint32_t i = 0; i < o->n_models; i++) {
        draw_layers(o, i, r);
        o->stages.block_tokens[i] =
            o->models[i].context == LONG_CONTEXT ? 64 : 1u << rng_below(r, 7);
    }
}

/* Replaces the drawn workers.  The first place has several stages; others have
 * the same number, or one, or are of another model. */
static void draw_stages(struct sim_options *o, struct rng *r)
{
    uint32_t n = (uint32_t)rng_range(r, 2, STAGES_MOST);
    uint32_t model = (uint32_t)rng_below(r, o->n_models);

    begin_stages(o, r);
    add_place(o, model, n, r);
    if (rng_below(r, 2)) {
        add_spare(o, n, r);
    }
    while (o->n_workers < SIM_WORKERS && rng_below(r, 2)) {
        uint32_t other =
            rng_below(r, 3) ? model : (uint32_t)rng_below(r, o->n_models);
        bool fits = o->n_workers + n <= SIM_WORKERS && other == model;

        add_place(o, other, fits && rng_below(r, 2) ? n : 1, r);
    }
}

/* Gives long prompts to more of these seeds: every stage then has to settle a
 * Submit that a Cancel has overtaken. */
static void draw_long_stages(struct sim_options *o, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, STAGES_STREAM + 1);
    if (o->tokens_min == 1 && rng_below(&r, 4) == 0) {
        o->n_workers = 0; /* drawn again by draw_stages */
        draw_long(o, &r);
        o->end_of = 6000;
    }
}

/* Returns whether the seed has stages: three in ten, drawn from an independent
 * stream, so that other seeds do not change. */
static bool has_stages(uint64_t seed, enum seeds which, struct rng *r)
{
    rng_init(r, seed, STAGES_STREAM);
    return which == SEEDS_ALL || (which == SEEDS_DRAWN && rng_below(r, 10) < 3);
}

/* ---- workers that offer themselves ---- */

/* Returns the bytes that layer i needs at most with one sequence of the whole
 * context: rounding a stage's slot up takes less than a page, one block of each
 * of its layers. */
static uint64_t layer_bytes(const struct sim_options *o, uint32_t model,
                            uint32_t i)
{
    const struct offer_draw *d = &o->offers;
    uint64_t block = o->stages.block_tokens[model];
    uint64_t blocks = (o->models[model].context + block - 1) / block;

    return d->layers[i].weight_bytes + page_align(d->layers[i].slot_bytes) +
           page_align(d->layers[i].token_bytes * block) * (blocks + 1);
}

static void draw_costs(struct sim_options *o, uint32_t model, struct rng *r)
{
    struct offer_draw *d = &o->offers;

    for (uint32_t i = 0; i < o->stages.n_layers[model]; i++) {
        d->layers[i].weight_bytes = octave(r, 1 << 16, 1 << 22);
        if (o->stages.attention[model] >> i & 1) {
            d->layers[i].token_bytes = octave(r, 16, 1024);
        } else {
            d->layers[i].slot_bytes = octave(r, 1 << 10, 1 << 20);
        }
    }
    d->embed_bytes = octave(r, 1, 1 << 24);
    d->head_bytes = octave(r, 1, 1 << 24);
    d->scratch_bytes = octave(r, 1, 1 << 20);
}

/* Draws a budget such that any n_stages workers can hold the model. */
static uint64_t draw_budget(const struct sim_options *o, uint32_t model,
                            uint32_t n_stages, struct rng *r)
{
    const struct offer_draw *d = &o->offers;
    uint64_t all = 0, largest = 0;

    for (uint32_t i = 0; i < o->stages.n_layers[model]; i++) {
        uint64_t bytes = layer_bytes(o, model, i);

        all += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    return d->scratch_bytes + d->embed_bytes + d->head_bytes + largest +
           all / n_stages * (uint64_t)rng_range(r, 10, 30) / 10;
}

/* Adds a worker without layers; its pool suits layers of both kinds. */
static void add_offer(struct sim_options *o, uint32_t model, uint32_t n_stages,
                      struct rng *r)
{
    uint32_t w = o->n_workers, end = o->stages.n_layers[model];
    struct offer_draw *d = &o->offers;

    add_worker(o, model, 0, 0, r);
    o->stages.layers[w].begin = o->stages.layers[w].end = end;
    d->workers[w].n_blocks = o->workers[w].n_blocks;
    d->workers[w].n_slots = o->workers[w].n_slots;
    d->workers[w].budget_bytes = draw_budget(o, model, n_stages, r);
    d->workers[w].speed = octave(r, 1000, 1000000);
    d->workers[w].n_stages = n_stages;
    d->workers[w].lineage = w;
    d->n++;
}

/* Draws a budget for a random range of layers. */
static uint64_t draw_room(const struct sim_options *o, uint32_t model,
                          struct rng *r)
{
    const struct offer_draw *d = &o->offers;
    uint32_t n = o->stages.n_layers[model];
    uint32_t begin = (uint32_t)rng_below(r, n);
    uint32_t end = (uint32_t)rng_range(r, begin + 1, n);
    uint64_t bytes = d->scratch_bytes + octave(r, 1, 1 << 16);

    bytes += begin == 0 ? d->embed_bytes : 0;
    bytes += end == n ? d->head_bytes : 0;
    for (uint32_t i = begin; i < end; i++) {
        bytes += layer_bytes(o, model, i);
    }
    return bytes;
}

/* Changes some workers: budgets of the spare ones, and the last one's number of
 * stages or lineage. */
static void draw_odd_offers(struct sim_options *o, uint32_t model,
                            uint32_t n_stages, struct rng *r)
{
    struct offer_draw *d = &o->offers;
    uint32_t last = d->n - 1;
    uint32_t plain = rng_below(r, 3) ? d->n : rng_below(r, 3) ? n_stages : 0;

    for (uint32_t w = plain; w < d->n; w++) {
        d->workers[w].budget_bytes = draw_room(o, model, r);
    }
    if (d->n > 1 && rng_below(r, 6) == 0) {
        d->workers[last].n_stages = n_stages == 2 ? 3 : n_stages - 1;
    }
    if (d->n > 1 && rng_below(r, 6) == 0) {
        d->workers[last].lineage = 0;
    }
}

/* Adds n of n_stages stages with fixed layers. */
static void add_fixed(struct sim_options *o, uint32_t model, uint32_t n_stages,
                      uint32_t n, struct rng *r)
{
    uint32_t cuts[STAGES_MOST];
    uint32_t at = (uint32_t)rng_below(r, n_stages - n + 1);

    draw_cuts(cuts, n_stages, o->stages.n_layers[model], r);
    for (uint32_t i = at; i < at + n; i++) {
        add_worker(o, model, i ? cuts[i - 1] : 0, cuts[i], r);
    }
}

static void draw_loads(struct offer_draw *d, bool faulty, struct rng *r)
{
    d->load_us = octave(r, 1000, 8000000);
    d->refuse_of = faulty ? rate(r, 3000) : 0;
    d->fail_of = faulty ? rate(r, 3000) : 0;
    d->late_of = faulty && rng_below(r, 8) == 0 ? octave(r, 10, 1000) : 0;
}

/* Replaces the drawn workers: first those that offer themselves, for one or
 * more replicas; then stages with fixed layers, whose gaps they fill; then some
 * with all layers. */
static void draw_offers(struct sim_options *o, struct rng *r)
{
    uint32_t model = (uint32_t)rng_below(r, o->n_models);
    uint32_t n_stages = (uint32_t)rng_range(r, 2, STAGES_MOST);
    uint32_t n_fixed =
        rng_below(r, 3) ? 0 : (uint32_t)rng_range(r, 1, n_stages - 1);
    uint32_t n =
        (uint32_t)rng_range(r, n_stages - n_fixed, SIM_WORKERS - n_fixed);

    memset(&o->stages, 0, sizeof(o->stages));
    begin_stages(o, r);
    draw_costs(o, model, r);
    draw_loads(&o->offers, o->faulty, r);
    for (uint32_t i = 0; i < n; i++) {
        add_offer(o, model, n_stages, r);
    }
    draw_odd_offers(o, model, n_stages, r);
    if (n_fixed) {
        add_fixed(o, model, n_stages, n_fixed, r);
    }
    while (o->n_workers < SIM_WORKERS && rng_below(r, 2)) {
        add_worker(o, (uint32_t)rng_below(r, o->n_models), 0, 0, r);
    }
}

/* Returns whether the seed has offers: one in ten, drawn from an independent
 * stream.  With SEEDS_ALL, such a seed draws the same options. */
static bool has_offers(uint64_t seed, enum seeds which, struct rng *r)
{
    bool is_drawn;

    rng_init(r, seed, OFFERS_STREAM);
    is_drawn = rng_below(r, 10) == 0;
    return which == SEEDS_ALL || (which == SEEDS_DRAWN && is_drawn);
}

void options_draw(struct sim_options *o, uint64_t seed, struct seeds_with with)
{
    struct rng r;

    memset(o, 0, sizeof(*o)); /* including padding, because it is hashed */
    rng_init(&r, seed, 0);
    o->faulty = seed % 5 != 0;
    o->n_models = rng_below(&r, 4) ? 1 : 2 + (uint32_t)rng_below(&r, 2);
    for (uint32_t i = 0; i < o->n_models; i++) {
        draw_model(&o->models[i], &r);
        o->text[i] = rng_below(&r, 4) != 0;
    }
    o->n_workers = rng_below(&r, 4)
                       ? 2 + (uint32_t)rng_below(&r, SIM_WORKERS_WHOLE - 1)
                       : 1;
    for (uint32_t i = 0; i < o->n_workers; i++) {
        draw_worker(&o->workers[i], o, &r);
    }
    o->n_clients = 2 + (uint32_t)rng_below(&r, SIM_CLIENTS - 1);
    o->max_requests = octave(&r, 8, 512);
    o->max_waiting = octave(&r, 2, 256);
    o->text_us = octave(&r, 50, 10000);
    o->text_queue = octave(&r, 1, 64);
    o->delay_us = octave(&r, 50, 5000);
    o->jitter_us = octave(&r, 1, o->delay_us);
    o->send_limit = octave(&r, 16, 1024);
    if (o->faulty) {
        draw_faults(o, &r);
    }
    draw_load(o, &r);
    if (rng_below(&r, 20) == 0) {
        draw_long(o, &r);
    } else if (rng_below(&r, 20) == 0) {
        draw_long_answers(o, &r);
    } else if (o->faulty && rng_below(&r, 12) == 0) {
        draw_flaps(o, &r);
    }
    o->resume_of = rng_below(&r, 4) ? octave(&r, 1000, 10000) : 0;
    draw_stands(o, &r);
    if (o->faulty) {
        draw_deaths(o, &r);
    }
    draw_drains(o, &r);
    if (has_stages(seed, with.stages, &r)) {
        draw_long_stages(o, seed);
        draw_stages(o, &r);
    }
    if (has_offers(seed, with.offers, &r)) {
        draw_offers(o, &r);
    }
    options_draw_gateways(o, seed, with.gateways);
    options_draw_keys(o, seed, with.keys);
    options_draw_pools(o, seed);
    options_draw_claims(o, seed, with.expected);
    options_draw_windows(o, seed, with.windows);
    options_draw_drafts(o, seed, with.drafts);
    options_draw_patience(o, seed);
}

/* Returns the bytes to hash before the pools: for seeds without keys, gateways,
 * offers or stages, only the options before these, so that their hash does not
 * change. */
static size_t hashed_bytes(const struct sim_options *o)
{
    static const struct stage_draw none;

    return o->keys.on      ? offsetof(struct sim_options, pools)
           : o->gateways.n ? offsetof(struct sim_options, keys)
           : o->offers.n   ? offsetof(struct sim_options, gateways)
           : memcmp(&o->stages, &none, sizeof(none)) != 0
               ? offsetof(struct sim_options, offers)
               : offsetof(struct sim_options, stages);
}

/* All seeds have pools. */
uint64_t options_hash(const struct sim_options *o)
{
    return XXH3_64bits_withSeed(&o->pools, sizeof(o->pools),
                                XXH3_64bits(o, hashed_bytes(o)));
}
