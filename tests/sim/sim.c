#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool sim_short;

static void stamp(const struct sim *s)
{
    printf("%12.6f ", (double)(sim_now(s) - SIM_START_US) / 1e6);
}

void sim_log(const struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->verbose) {
        return;
    }
    stamp(s);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

void sim_fail(struct sim *s, int32_t request, const char *fmt, ...)
{
    va_list ap;

    if (s->failed) {
        return;
    }
    s->failed = true;
    s->failed_request = request;
    s->failed_us = sim_now(s);
    va_start(ap, fmt);
    (void)vsnprintf(s->what, sizeof(s->what), fmt, ap);
    va_end(ap);
    sim_log(s, "FAILED: %s", s->what);
}

static void calm_down(struct sim *s, uint32_t a, uint64_t b)
{
    (void)a;
    (void)b;
    sim_log(s, "faults stop");
    faults_stop(s);
}

/* Checks for the end of the run, and for a run that does not end. */
static void watch(struct sim *s, uint32_t calming, uint64_t b)
{
    char why[200];

    if (sim_now(s) > SIM_LONG_US) {
        s->closing = true;
    }
    if (s->closing && !calming) {
        calming = 1;
        clock_add(&s->clock, sim_now(s) + rng_octave(&s->chance, 1000, 2000000),
                  calm_down, 0, 0);
    }
    if (s->calm && auditor_quiet(s, why, sizeof(why))) {
        auditor_end(s);
        s->done = true;
        return;
    }
    if (s->calm && s->counts.tokens + s->web.n_bytes > s->calm_tokens) {
        s->calm_tokens = s->counts.tokens + s->web.n_bytes;
        s->calm_us = sim_now(s);
    }
    if (s->calm && offers_loading(s)) {
        s->calm_us = sim_now(s); /* calm begins only now */
    }
    if (s->calm && sim_now(s) > s->calm_us + SIM_CALM_US) {
        sim_fail(s, -1, "not idle in time: %s", why);
        return;
    }
    clock_add(&s->clock, sim_now(s) + SIM_WATCH_US, watch, calming, b);
}

/* Draws the share of damaged requests, in one seed of three.  It is not among
 * the options, so that their hashes in regressions.txt stay. */
static uint32_t draw_hurt(uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, 3);
    return rng_below(&r, 3) ? 0 : (uint32_t)rng_octave(&r, 100, 2000);
}

static void begin(struct sim *s, uint64_t seed, bool verbose)
{
    memset(s, 0, offsetof(struct sim, requests));
    s->seed = seed;
    s->verbose = verbose;
}

/* Draws what the seed has besides its options. */
static void draw(struct sim *s)
{
    s->hurt_of = draw_hurt(s->seed);
    strangers_draw(s);
    crowd_draw(s);
    forged_draw(s);
    holds_draw(s);
}

static void start(struct sim *s)
{
    clock_init(&s->clock, SIM_START_US);
    network_init(&s->network);
    rng_init(&s->chance, s->seed, 1);
    rng_init(&s->will, s->seed, 2);
    keys_init(s);
    arena_init(&s->arena);
    memset(s->full_us, -1, sizeof(s->full_us));
    s->room_before = UINT32_MAX;
    node_start(s, SIM_ROUTER);
    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        node_start(s, SIM_FIRST_WORKER + i);
    }
    for (uint32_t i = 0; i < s->options.n_clients; i++) {
        node_start(s, SIM_FIRST_CLIENT + i);
    }
    for (uint32_t i = 0; i < s->options.gateways.n; i++) {
        node_start(s, SIM_FIRST_GATEWAY + i);
    }
    actor_start(s);
    watch(s, 0, 0);
}

static void end(struct sim *s)
{
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        if (s->nodes[i].core) {
            node_kill(s, i);
        }
    }
    web_fini(s);
    for (uint32_t i = 0; i < s->n_requests; i++) {
        sim_request_fini(&s->requests[i]);
    }
    network_fini(&s->network);
    clock_fini(&s->clock);
    holds_fini(s);
    arena_fini(&s->arena);
}

static bool run(struct sim *s)
{
    struct event e;
    struct sim_counts counts;
    uint64_t hash;

    start(s);
    while (!s->done && !s->failed && clock_next(&s->clock, &e)) {
        e.fn(s, e.a, e.b);
    }
    if (!s->done) {
        sim_fail(s, -1, "no events left, but the run has not ended");
    }
    s->counts.seeds = 1;
    s->counts.virtual_ms = (uint64_t)(sim_now(s) - SIM_START_US) / 1000;
    counts = s->counts; /* excludes the teardown */
    hash = s->hash;
    s->failed = !s->done || s->failed;
    end(s);
    s->counts = counts;
    s->hash = hash;
    return !s->failed;
}

bool sim_run(struct sim *s, uint64_t seed, struct seeds_with with, bool verbose)
{
    begin(s, seed, verbose);
    options_draw(&s->options, seed, with);
    draw(s);
    return run(s);
}

bool sim_play(struct sim *s, const struct script *script, bool verbose)
{
    begin(s, script->seed, verbose);
    s->script = script;
    script->options(&s->options);
    crowd_draw(s); /* the router's places */
    s->crowd.every_us = 0;
    return run(s);
}
