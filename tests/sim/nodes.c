/* nodes.c - The cores of a cluster, and the io of each. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/fake_hidden.h"
#include "tests/sim/sim.h"
#include "worker/stages/offer.h"

#define PAGE_BYTES 4096
#define SPIN_US    10000
#define SPIN_TICKS 20000

/* Returns the number that seeds use for a node: workers past SIM_WORKERS_WHOLE
 * were added after the clients. */
static uint32_t seed_number(uint32_t number)
{
    const uint32_t more = SIM_WORKERS - SIM_WORKERS_WHOLE;

    if (number >= SIM_FIRST_GATEWAY) {
        return number;
    }
    if (number >= SIM_FIRST_CLIENT) {
        return number - more;
    }
    return number < SIM_FIRST_WORKER + SIM_WORKERS_WHOLE ? number
                                                         : number + SIM_CLIENTS;
}

bool node_is_worker(uint32_t number)
{
    return number >= SIM_FIRST_WORKER && number < SIM_FIRST_CLIENT;
}

bool node_is_client(uint32_t number)
{
    return number >= SIM_FIRST_CLIENT;
}

struct worker_core *node_worker(const struct sim *s, uint32_t number)
{
    return s->offers[number - SIM_FIRST_WORKER].waits ? NULL
                                                      : s->nodes[number].core;
}

bool node_is_gateway(uint32_t number)
{
    return number >= SIM_FIRST_GATEWAY;
}

static int64_t io_now(struct node_io *io)
{
    return sim_now(((struct sim_node *)io->impl)->sim);
}

static uint64_t io_random(struct node_io *io)
{
    return rng_u64(&((struct sim_node *)io->impl)->rng);
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct sim_node *n = io->impl;

    if (to.v >= KEYS_CONN && to.v < CROWD_CONN) {
        keys_answered(n->sim, f);
        return ST_OK;
    }
    return network_send(n->sim, n->number, to, f);
}

static struct peer_id io_open(struct node_io *io)
{
    struct sim_node *n = io->impl;

    return network_open(n->sim, n->number, SIM_ROUTER);
}

/* Opens a connection to "ipc:///sim/NUMBER", the endpoint of a node. */
static struct peer_id io_open_to(struct node_io *io, const char *endpoint,
                                 const uint8_t *key)
{
    struct sim_node *n = io->impl;
    unsigned number = SIM_NODES;
    struct peer_id id;

    if (sscanf(endpoint, "ipc:///sim/%u", &number) != 1 ||
        number >= SIM_NODES) {
        return (struct peer_id){0};
    }
    id = network_open(n->sim, n->number, number);
    keys_wanted(n->sim, id, key);
    return id;
}

static const struct identity *io_identity(struct node_io *io,
                                          struct peer_id who)
{
    struct sim_node *n = io->impl;

    return keys_identity(n->sim, n->number, who);
}

static void io_close(struct node_io *io, struct peer_id who)
{
    struct sim_node *n = io->impl;

    network_close(n->sim, n->number, who);
}

static bool node_waits(const struct sim *s, uint32_t number)
{
    return node_is_worker(number) && s->offers[number - SIM_FIRST_WORKER].waits;
}

static void free_core(struct sim *s, uint32_t number)
{
    struct sim_node *n = &s->nodes[number];

    if (number == SIM_ROUTER) {
        router_free((struct router_core **)&n->core);
        fake_text_free(&s->text);
    } else if (node_waits(s, number)) {
        offer_free((struct offer **)&n->core);
        s->offers[number - SIM_FIRST_WORKER].waits = false;
    } else if (node_is_worker(number)) {
        worker_free((struct worker_core **)&n->core);
        fake_engine_free(&s->engines[number - SIM_FIRST_WORKER]);
    } else if (node_is_gateway(number)) {
        gateways_free(s, number);
    } else {
        client_core_free((struct client_core **)&n->core);
    }
    n->core = NULL;
}

static void gone(struct sim *s, uint32_t number)
{
    struct sim_node *n = &s->nodes[number];

    network_forget(s, number);
    free_core(s, number);
    n->tick_us = NODE_IDLE;
    n->tick_number++;
    clock_alarm_off(&s->clock, number);
}

static void tick(struct sim *s, uint32_t number, uint64_t serial);

static void tick_at(struct sim *s, uint32_t number, int64_t at_us)
{
    struct sim_node *n = &s->nodes[number];

    if (n->core && at_us < n->tick_us) {
        n->tick_us = at_us;
        clock_alarm(&s->clock, at_us, tick, number, ++n->tick_number);
    }
}

/* Extends a pause, but never shortens it: deliveries that wait for its end keep
 * their order. */
void node_pause(struct sim *s, uint32_t number, int64_t us)
{
    int64_t until = sim_now(s) + us;

    if (s->nodes[number].paused_us < until) {
        s->nodes[number].paused_us = until;
    }
    s->counts.pauses++;
}

void node_soon(struct sim *s, uint32_t number)
{
    struct sim_node *n = &s->nodes[number];

    tick_at(s, number, sim_now(s) + (int64_t)rng_below(&n->rng, 20));
}

static void check_spin(struct sim *s, struct sim_node *n)
{
    if (sim_now(s) - n->spin_us > SPIN_US) {
        n->spin_us = sim_now(s);
        n->spins = 0;
    } else if (++n->spins > SPIN_TICKS) {
        sim_fail(s, -1, "%s ticks without advancing the time", n->name);
    }
}

/* Restarts the worker as a supervisor would, unless a restart is scheduled. */
static void engine_died(struct sim *s, struct sim_node *n)
{
    liveness_died(s, n->number - SIM_FIRST_WORKER);
    if (!n->ending) {
        cells_killed(s, n->number);
        faults_restart(s, n->number);
    }
}

static void stopped(struct sim *s, struct sim_node *n)
{
    uint32_t number = n->number;
    bool loads = node_waits(s, number) && offers_end(s, n);

    sim_log(s, "%s has stopped", n->name);
    if (node_is_worker(number) && node_worker(s, number) &&
        worker_failed(n->core)) {
        engine_died(s, n);
    }
    gone(s, number);
    if (loads) {
        offers_load(s, number);
    }
}

static void tick(struct sim *s, uint32_t number, uint64_t serial)
{
    struct sim_node *n = &s->nodes[number];
    int64_t due, now = sim_now(s);

    if (!n->core || serial != n->tick_number) {
        return;
    }
    if (n->paused_us > now) {
        clock_alarm(&s->clock, n->paused_us, tick, number, serial);
        return;
    }
    n->tick_us = NODE_IDLE;
    check_spin(s, n);
    due = n->ops->tick(n->core, now);
    if (due == NODE_STOP) {
        stopped(s, n);
        return;
    }
    auditor_tick(s, number);
    if (due != NODE_IDLE) {
        due = due > now ? due : now + 1;
        tick_at(s, number, due + (int64_t)rng_below(&n->rng, 100));
    }
}

static void start_router(struct sim *s, struct sim_node *n)
{
    struct router_options o = {
        .name = "r",
        .max_peers = s->crowd.n_clients,
        .max_admins = s->crowd.n_admins,
        .max_requests = s->options.max_requests,
        .max_waiting = s->options.max_waiting,
        .tenant_quota = claims_quota(s),
        .retry_budget = s->seed % 4 == 2 ? 10 : 0,
        .queue_timeout_us = (int64_t)s->options.queue_timeout_ms * 1000,
        .gather_us = s->seed % 3 == 0 ? 1000 : 0,
        .headroom = s->options.headroom,
        .admission =
            s->options.suspensions > 0 ? ADMISSION_EXPECTED : ADMISSION_STRICT,
        .suspensions = s->options.suspensions,
        .keyed = s->options.keys.on != 0,
        .worker_wait_us = (int64_t)s->options.worker_wait_ms * 1000};

    s->text = fake_text_new(s);
    o.text = fake_text_seam(s->text);
    n->core = router_new(&o, &n->io);
    n->ops = &router_node_ops;
}

bool node_crashes(const struct sim *s, uint32_t number)
{
    uint32_t w = number - SIM_FIRST_WORKER;

    return !s->calm && s->options.crash[w] != CRASH_NEVER &&
           s->nodes[number].life <= s->options.crash_lives[w];
}

static void crash(struct sim *s, uint32_t number, uint64_t life)
{
    const struct sim_node *n = &s->nodes[number];

    if (n->core && n->life == life && node_crashes(s, number)) {
        s->counts.cells.deeds[DEED_CRASHED]++;
        faults_crash(s, number);
    }
}

static void set_drafts(const struct sim *s, uint32_t w,
                       struct worker_options *o)
{
    const struct draft_draw *d = &s->options.drafts;

    o->drafting.most = d->most[w];
    o->drafting.chooses = d->automatic[w];
    o->drafting.drafter = (enum worker_drafter)d->drafter[w];
    o->drafting.has_mtp = options_has_mtp(&s->options, w);
    o->drafting.keep_tokens = d->keep_tokens[w];
}

/* A third of the workers have no bound, a third choose it, and a third have a
 * target near the time of their steps. */
static struct worker_itl_options itl_of(const struct sim *s, uint32_t w)
{
    uint64_t x = mix64(s->seed + w);

    return (struct worker_itl_options){
        .bounded = x % 3 > 0,
        .target_us = x % 3 == 2 ? s->options.workers[w].step_us *
                                      (2 + (uint32_t)(x >> 8) % 4)
                                : 0};
}

static void start_worker(struct sim *s, struct sim_node *n)
{
    uint32_t w = n->number - SIM_FIRST_WORKER;
    const struct worker_draw *d = &s->options.workers[w];
    const struct fake_model *m = &s->options.models[d->model];
    const struct pool_of_worker *pool = &s->options.pools.workers[w];
    const struct fake_shard shard = options_shard(&s->options, w);
    char model[8], endpoint[16];
    struct worker_options o = {
        .name = n->name,
        .model = model,
        .device = "fake",
        .layer_begin = shard.begin,
        .layer_end = shard.end,
        .n_layers = shard.n_layers,
        .block_tokens = d->block_tokens,
        .pool.block_bytes = shard.attention ? PAGE_BYTES : 0,
        .pool.slot_bytes = pool->pages_per_slot * PAGE_BYTES,
        .pool.checkpoint_bytes = pool->pages_per_slot * PAGE_BYTES,
        .pool.n_pages = pool->n_pages,
        .pool.pages_per_block = shard.attention ? 1 : 0,
        .pool.pages_per_slot = pool->pages_per_slot,
        .window = m->window,
        .pool.window_pages = shard.windows ? s->options.windows.tables[w] : 0,
        .pool.slot_cap = pool->slot_cap,
        .pool.host_pages = pool->host_pages,
        .one_arithmetic = m->one_arithmetic,
        .reuse = !s->options.pools.no_reuse,
        .pool.checkpoint_share = (float)s->options.pools.checkpoint_share / 100,
        .pool.tenant_share = (float)s->options.pools.tenant_share / 100,
        .pool.poison = s->options.pools.poison,
        .weight_bytes = 1 << 20,
        .scratch_bytes = 1 << 16,
        .pool.bytes = (uint64_t)pool->n_pages * PAGE_BYTES,
        .context = m->context,
        .vocab = m->vocab,
        .n_eos = m->n_eos,
        .max_rows = d->max_rows,
        .step_tokens = d->step_tokens,
        .chunk_tokens = d->chunk_tokens,
        .engine_depth = d->depth,
        .itl = itl_of(s, w)};

    set_drafts(s, w, &o);
    (void)snprintf(model, sizeof(model), "m%u", d->model);
    (void)snprintf(endpoint, sizeof(endpoint), "ipc:///sim/%u", n->number);
    if (options_staged(&s->options, w)) {
        o.stage_endpoint = endpoint;
        o.hidden = FAKE_HIDDEN;
    }
    if (options_offers(&s->options, w)) {
        o.lineage =
            s->nodes[SIM_FIRST_WORKER + s->options.offers.workers[w].lineage]
                .name;
    }
    memcpy(o.eos, m->eos, sizeof(m->eos));
    if (strangers_tokenizer(s)) {
        o.tokenizer.known = true;
        memcpy(o.tokenizer.hash, strangers_tokenizer(s),
               sizeof(o.tokenizer.hash));
    }
    if (s->options.crash[w] == CRASH_START && node_crashes(s, n->number)) {
        clock_add(&s->clock, sim_now(s) + rng_octave(&n->rng, 100, 200000),
                  crash, n->number, n->life);
    }
    s->n_sessions[w] = 0;
    s->engines[w] = fake_engine_new(s, w);
    n->core = worker_new(&o, &n->io, fake_engine_seam(s->engines[w]));
    n->ops = &worker_node_ops;
}

static void start_client(struct sim_node *n)
{
    struct client_options o = {.name = n->name,
                               .admin = n->number == SIM_FIRST_CLIENT};

    n->core = client_core_new(&o, &n->io);
    n->ops = &client_node_ops;
}

void node_plug(struct sim_node *n)
{
    n->io = (struct node_io){.impl = n,
                             .now_us = io_now,
                             .random = io_random,
                             .send = io_send,
                             .open = io_open,
                             .open_to = io_open_to,
                             .close = io_close,
                             .identity = io_identity};
}

void node_start(struct sim *s, uint32_t number)
{
    struct sim_node *n = &s->nodes[number];
    char kind = number == SIM_ROUTER      ? 'r'
                : node_is_worker(number)  ? 'w'
                : node_is_gateway(number) ? 'g'
                                          : 'c';

    n->sim = s;
    n->number = number;
    n->life++;
    node_plug(n);
    n->tick_us = NODE_IDLE;
    n->paused_us = 0;
    n->ending = false;
    n->leave_end_us = 0;
    n->first_conn = s->network.n_conns + 1;
    rng_init(&n->rng, s->seed, 1000u + seed_number(number) * 1000u + n->life);
    (void)snprintf(n->name, sizeof(n->name), "%c%u", kind, seed_number(number));
    sim_log(s, "%s starts, life %u", n->name, n->life);
    if (number == SIM_ROUTER) {
        start_router(s, n);
    } else if (node_is_worker(number) &&
               options_offers(&s->options, number - SIM_FIRST_WORKER)) {
        offers_begin(s, n);
    } else if (node_is_worker(number)) {
        start_worker(s, n);
    } else if (node_is_gateway(number)) {
        gateways_begin(s, n);
    } else {
        start_client(n);
    }
    node_soon(s, number);
}

void node_serve(struct sim *s, uint32_t number)
{
    struct sim_node *n = &s->nodes[number];

    sim_log(s, "%s has loaded its layers", n->name);
    n->tick_us = NODE_IDLE;
    n->first_conn = s->network.n_conns + 1;
    start_worker(s, n);
    node_soon(s, number);
}

void node_stop(struct sim *s, uint32_t number)
{
    struct sim_node *n = &s->nodes[number];

    sim_log(s, "%s stops on request", n->name);
    cells_killed(s, number);
    if (number == SIM_ROUTER) {
        router_stop(n->core);
        node_soon(s, number);
    } else if (node_waits(s, number)) {
        offer_stop(n->core);
        node_soon(s, number);
    } else if (node_is_worker(number)) {
        worker_stop(n->core);
        node_soon(s, number);
    } else if (node_is_gateway(number)) {
        gateways_stop(s, number);
        node_soon(s, number);
    } else {
        free_core(s, number); /* sends Goodbye and closes */
        gone(s, number);
    }
}

void node_kill(struct sim *s, uint32_t number)
{
    sim_log(s, "%s is killed", s->nodes[number].name);
    cells_killed(s, number);
    gone(s, number);
}
