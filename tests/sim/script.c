#include "tests/sim/script.h"

#include "tests/sim/sim.h"

#define N_OF(a)     ((uint32_t)(sizeof(a) / sizeof((a)[0])))
#define KEEP_MS     1000
#define LONG_TOKENS 150
#define BACK_US     5000 /* until what was killed starts again */

static void event(struct sim *s, uint32_t i, uint64_t unused)
{
    const struct script *x = s->script;

    (void)unused;
    if (i > 0) {
        x->events[i - 1].run(s);
    }
    if (i == x->n_events) {
        s->closing = true;
    } else {
        clock_add(&s->clock, sim_now(s) + (int64_t)x->events[i].after_ms * 1000,
                  event, i + 1, 0);
    }
}

void script_start(struct sim *s)
{
    if (s->script) {
        event(s, 0, 0);
    }
}

/* ---- options ---- */

/* A model with attention and linear layers, and the text of the simulator. */
static void one_model(struct sim_options *o)
{
    o->n_models = 1;
    o->models[0] = (struct fake_model){.salt = 5,
                                       .attention = true,
                                       .linear = true,
                                       .vocab = 256,
                                       .context = 512};
    o->text[0] = true;
}

/* Adds a worker with layers [begin, end) of the model; end 0: all. */
static void add_worker(struct sim_options *o, uint32_t begin, uint32_t end)
{
    uint32_t w = o->n_workers++;

    o->workers[w] = (struct worker_draw){.block_tokens = 8,
                                         .n_blocks = 96,
                                         .n_slots = 8,
                                         .max_rows = 8,
                                         .step_tokens = 64,
                                         .chunk_tokens = 64,
                                         .depth = 2,
                                         .step_us = 3000};
    o->stages.layers[w].begin = begin;
    o->stages.layers[w].end = end;
    o->pools.workers[w].per_slot = 2;
    o->pools.workers[w].spare = 16;
    options_set_pool(o, w);
}

static void no_load(struct sim_options *o)
{
    o->n_clients = 1;
    o->max_requests = o->max_waiting = 64;
    o->text_us = 200;
    o->text_queue = 8;
    o->delay_us = 200;
    o->jitter_us = 20;
    o->send_limit = 256;
    o->gap_us = o->gateways.gap_us = 1000000; /* nothing but events */
    o->prompt_max = 150;
    o->tokens_min = 12;
    o->tokens_max = 24;
    o->resume_of = 10000;
    o->worker_wait_ms = 10000;
    o->choices_of = 1; /* otherwise the auditor expects one of each request */
    o->suspensions = 0;
    o->pools.prompts.n_families = o->pools.prompts.n_tenants = 1;
    o->pools.checkpoint_share = 50;
    o->pools.tenant_share = 100;
    o->pools.poison = 1;
}

static void one_gateway(struct sim_options *o)
{
    o->gateways.n = 1;
    o->gateways.texts = true;
    o->gateways.output_bytes = o->gateways.pipe_bytes = 1 << 16;
    o->gateways.prompt_us = 200;
    o->gateways.prompt_queue = 4;
    o->gateways.stream_of = o->gateways.chat_of = 10000;
}

/* ---- requests ---- */

/* Returns the last request that a client sent itself, or NULL. */
static struct sim_request *last_request(struct sim *s)
{
    for (uint32_t i = s->n_requests; i > 0; i--) {
        if (!s->requests[i - 1].web) {
            return &s->requests[i - 1];
        }
    }
    return NULL;
}

static bool is_over(const struct sim_request *request)
{
    return request && request->n_ends > 0 && request->status == ST_OK;
}

static void send_ids(struct sim *s)
{
    actor_ask(s, actor_request(s, SIM_FIRST_CLIENT));
}

/* So long that the cluster is whole again before its end. */
static void send_long(struct sim *s)
{
    struct sim_options *o = &s->options;
    uint32_t least = o->tokens_min, most = o->tokens_max;

    o->tokens_min = o->tokens_max = LONG_TOKENS;
    send_ids(s);
    o->tokens_min = least;
    o->tokens_max = most;
}

static void send_text(struct sim *s)
{
    s->options.text_of = s->options.want_text_of = 10000;
    send_ids(s);
    s->options.text_of = s->options.want_text_of = 0;
}

static void send_choices(struct sim *s)
{
    uint32_t rarely = s->options.choices_of;

    s->options.choices_of = 10000;
    send_ids(s);
    s->options.choices_of = rarely;
}

/* The next turn of a conversation: most of its prompt can be restored. */
static void send_next_turn(struct sim *s)
{
    struct sim_request *old = last_request(s);

    if (is_over(old)) {
        actor_follow(s, old->number, 0, old->n_prompt + old->choices[0].n_got,
                     false);
    }
}

static void send_kept(struct sim *s)
{
    struct sim_request *request = actor_request(s, SIM_FIRST_CLIENT);

    request->keep_ms = KEEP_MS;
    actor_ask(s, request);
}

static void continue_it(struct sim *s)
{
    struct sim_request *old = last_request(s);

    if (is_over(old)) {
        actor_follow(s, old->number, 0, old->n_prompt + old->choices[0].n_got,
                     true);
    }
}

static void cut_it(struct sim *s)
{
    struct sim_request *old = last_request(s);

    if (is_over(old)) {
        control_ask_range(s, old->client, old->number, 0, old->n_prompt / 2);
    }
}

static void remove_it(struct sim *s)
{
    struct sim_request *old = last_request(s);

    if (old) {
        control_ask(s, old->client, METHOD_INFERENCE_REMOVE, old->number,
                    CHOICE_ALL);
    }
}

static void cancel_it(struct sim *s)
{
    struct sim_request *old = last_request(s);

    if (old) {
        control_ask(s, old->client, METHOD_INFERENCE_CANCEL, old->number,
                    CHOICE_ALL);
    }
}

static void stream_with_stop(struct sim *s)
{
    s->options.stop_of = 10000;
    web_connect(s);
    s->options.stop_of = 0;
}

/* ---- faults ---- */

/* Kills the last worker that has sequences. */
static void kill_worker(struct sim *s)
{
    for (uint32_t w = s->options.n_workers; w > 0; w--) {
        uint32_t number = SIM_FIRST_WORKER + w - 1;
        struct worker_account a = {0};

        if (s->nodes[number].core) {
            worker_account(s->nodes[number].core, &a);
        }
        if (a.n_sequences > 0) {
            node_kill(s, number);
            node_comes_back(s, number, BACK_US);
            return;
        }
    }
}

/* The client comes back after the workers, whose sequences it finds. */
static void kill_router(struct sim *s)
{
    node_pause(s, SIM_FIRST_CLIENT, 200000);
    node_kill(s, SIM_ROUTER);
    node_comes_back(s, SIM_ROUTER, BACK_US);
}

/* ---- scripts ---- */

static void life_options(struct sim_options *o)
{
    o->faulty = true; /* a worker and the router die */
    one_model(o);
    add_worker(o, 0, 0);
    add_worker(o, 0, 0);
    no_load(o);
    one_gateway(o);
}

static const struct script_event life_events[] = {
    {0, send_ids},    {100, send_next_turn}, {100, stream_with_stop},
    {100, send_kept}, {150, continue_it},    {150, cut_it},
    {20, remove_it},  {50, send_text},       {20, cancel_it},
    {50, send_ids},   {1, send_ids},         {30, kill_worker},
    {200, send_long}, {20, kill_router},     {600, send_choices},
};

static const char *life_missed(const struct sim *s)
{
    const uint64_t *deeds = s->counts.cells.deeds;

    return deeds[DEED_HIT] == 0               ? "no prefix was reused"
           : deeds[DEED_CONTINUED] == 0       ? "no sequence was continued"
           : deeds[DEED_WEB_STREAM] == 0      ? "nothing was streamed"
           : s->counts.moved_tokens == 0      ? "no sequence moved"
           : deeds[DEED_TWIN] == 0            ? "no twin waited"
           : deeds[DEED_ADOPTED_RUNNING] == 0 ? "no sequence was adopted"
                                              : NULL;
}

static const struct script life = {.name = "life",
                                   .seed = 1,
                                   .options = life_options,
                                   .events = life_events,
                                   .n_events = N_OF(life_events),
                                   .step = 1,
                                   .missed = life_missed};

/* Two stages and a spare second one.  Layers with attention, linear layers and
 * layers with a window, and an MTP layer that drafts. */
static void ring_options(struct sim_options *o)
{
    o->faulty = true; /* a stage dies */
    one_model(o);
    o->models[0].window = 16;
    o->stages.n_layers[0] = 4;
    o->stages.attention[0] = 5;
    o->stages.block_tokens[0] = 8;
    o->stages.n_places[0] = 1;
    o->windows.layers[0] = 5;
    o->drafts.on = o->drafts.mtp[0] = true;
    for (uint32_t w = 0; w < 3; w++) {
        o->windows.tables[w] = 1;
        o->windows.room[w] = 64;
        o->drafts.most[w] = 2;
        o->drafts.keep_tokens[w] = 16;
        o->drafts.right_of[w] = 7000;
        add_worker(o, w == 0 ? 0 : 2, w == 0 ? 2 : 4);
    }
    no_load(o);
}

static const struct script_event ring_events[] = {
    {0, send_ids},    {150, send_next_turn}, {100, send_choices},
    {200, send_kept}, {200, continue_it},    {150, cut_it},
    {150, remove_it}, {50, send_text},       {40, cancel_it},
    {50, send_long},  {60, kill_worker},     {900, send_ids},
};

static const char *ring_missed(const struct sim *s)
{
    const uint64_t *deeds = s->counts.cells.deeds;

    return deeds[DEED_RESTORED_STAGED] == 0  ? "no prefix was reused"
           : deeds[DEED_CONTINUED] == 0      ? "no sequence was continued"
           : deeds[DEED_DRAFT_ACCEPTED] == 0 ? "no draft was accepted"
           : s->counts.moved_tokens == 0     ? "no sequence moved"
                                             : NULL;
}

static const struct script ring = {.name = "ring",
                                   .seed = 1,
                                   .options = ring_options,
                                   .events = ring_events,
                                   .n_events = N_OF(ring_events),
                                   .step = 4,
                                   .missed = ring_missed};

/* Outputs end after a part of max_tokens, until some that do not: they are
 * suspended, to the host and to be computed again. */
static void swaps_options(struct sim_options *o)
{
    one_model(o);
    o->text[0] = false;
    o->models[0].vocab = 56;
    o->models[0].n_eos = 4;
    for (uint32_t i = 0; i < 4; i++) {
        o->models[0].eos[i] = 28 + i;
    }
    add_worker(o, 0, 0);
    no_load(o);
    o->suspensions = 160000;
    o->workers[0].n_blocks = 48;
    o->workers[0].step_us = 500;
    o->pools.workers[0].per_slot = 1;
    o->pools.workers[0].host_pages = 24;
    o->pools.workers[0].spare = 0;
    options_set_pool(o, 0);
    o->prompt_max = 16;
    o->tokens_min = o->tokens_max = 150;
}

/* The router learns their lengths. */
static void send_shorts(struct sim *s)
{
    for (uint32_t i = 0; i < 12; i++) {
        struct sim_request *request = actor_request(s, SIM_FIRST_CLIENT);

        request->sampling.ignore_eos = false;
        actor_ask(s, request);
    }
}

static void send_longs(struct sim *s)
{
    for (uint32_t i = 0; i < 5; i++) {
        struct sim_request *request = actor_request(s, SIM_FIRST_CLIENT);

        request->sampling.ignore_eos = true;
        actor_ask(s, request);
    }
}

static const struct script_event swaps_events[] = {
    {0, send_shorts},    {200, send_shorts}, {200, send_shorts},
    {200, send_shorts},  {200, send_shorts}, {200, send_longs},
    {1000, send_shorts},
};

static const char *swaps_missed(const struct sim *s)
{
    const uint64_t *deeds = s->counts.cells.deeds;

    return deeds[DEED_SWAP_OUT] == 0            ? "nothing went to the host"
           : deeds[DEED_SWAP_IN] == 0           ? "nothing came back"
           : deeds[DEED_RESUMED_RECOMPUTE] == 0 ? "nothing was computed again"
                                                : NULL;
}

static const struct script swaps = {.name = "swaps",
                                    .seed = 1,
                                    .options = swaps_options,
                                    .events = swaps_events,
                                    .n_events = N_OF(swaps_events),
                                    .step = 8,
                                    .missed = swaps_missed};

const struct script *const scripts[SCRIPTS] = {&life, &ring, &swaps};
