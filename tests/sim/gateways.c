#include "tests/sim/gateways.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/gateway_core.h"
#include "gateway/http/connection.h"
#include "tests/sim/sim.h"

#define SESSIONS 4
/* A slice of a prompt, so small that most prompts take several. */
#define SLICE_BYTES 24
#define SLICE_US    100
/* Timeouts of a connection: longer than a pause, and short to save time. */
#define PATIENCE_MS 8000
#define GRACE_US    500000
/* One event beyond the limit on output.  A chunk after a lost router may have
 * CHUNK_LOGPROBS_MAX logprobs, of some 48 bytes each. */
#define EVENT_MOST (CHUNK_LOGPROBS_MAX * 48)

static struct sim_gateway *of_node(struct sim *s, uint32_t number)
{
    return &s->gateways.of[number - SIM_FIRST_GATEWAY];
}

struct http_server *gateways_http(const struct sim *s, uint32_t number)
{
    void *core = s->nodes[number].core;

    return core ? gateway_http(core) : NULL;
}

/* ---- the prompt seam ---- */

static void wake(struct sim *s, uint32_t node, uint64_t life)
{
    if (s->nodes[node].core && s->nodes[node].life == life) {
        node_soon(s, node);
    }
}

static enum status submit(struct prompt_seam *seam, struct prompt_job **j)
{
    struct sim_gateway *g = (struct sim_gateway *)seam;
    struct sim *s = g->sim;
    uint32_t i = 0;

    if (g->n_jobs >= s->options.gateways.prompt_queue) {
        g->full_us = sim_now(s);
        return ST_RESOURCE_EXHAUSTED;
    }
    while (g->jobs[i].job) {
        i++;
    }
    g->jobs[i].job = *j;
    g->jobs[i].done_us =
        sim_now(s) + rng_range(&s->will, 1, s->options.gateways.prompt_us * 2);
    g->n_jobs++;
    *j = NULL;
    clock_add(&s->clock, g->jobs[i].done_us, wake, g->number,
              s->nodes[g->number].life);
    return ST_OK;
}

/* A job that is not done after a slice waits for the next one. */
static bool run_slice(struct sim_gateway *g, uint32_t i)
{
    struct sim *s = g->sim;

    if (prompt_job_step(g->jobs[i].job, SLICE_BYTES)) {
        return true;
    }
    g->jobs[i].done_us = sim_now(s) + SLICE_US;
    clock_add(&s->clock, g->jobs[i].done_us, wake, g->number,
              s->nodes[g->number].life);
    return false;
}

/* Runs a slice of each job whose time has come, and returns one that is done:
 * they finish in any order. */
static struct prompt_job *poll(struct prompt_seam *seam)
{
    struct sim_gateway *g = (struct sim_gateway *)seam;

    for (uint32_t i = 0; i < GATEWAY_JOBS; i++) {
        struct prompt_job *j = g->jobs[i].job;

        if (j && g->jobs[i].done_us <= sim_now(g->sim) && run_slice(g, i)) {
            g->jobs[i].job = NULL;
            g->n_jobs--;
            return j;
        }
    }
    return NULL;
}

static const struct prompt_seam_ops seam_ops = {submit, poll};

/* ---- the core ---- */

/* Fills in the text side of the models that have one. */
static void add_models(struct sim *s, struct served_models *to)
{
    static struct chat_template *chat;
    struct error e;

    if (!chat &&
        chat_template_compile(&chat, VOCABULARY_TEMPLATE,
                              sizeof(VOCABULARY_TEMPLATE) - 1, &e) != ST_OK) {
        abort();
    }
    to->n = 0;
    for (uint32_t i = 0; i < s->options.n_models; i++) {
        struct served_model *m = &to->models[to->n];

        if (s->options.text[i] && s->options.gateways.texts) {
            *m = (struct served_model){.assets = vocabulary_assets(),
                                       .chat = chat,
                                       .source = VOCABULARY_TEMPLATE,
                                       .n_source =
                                           sizeof(VOCABULARY_TEMPLATE) - 1};
            (void)snprintf(m->name, sizeof(m->name), "m%u", i);
            to->n++;
        }
    }
}

static int64_t unix_s(void *arg)
{
    return sim_now(arg) / 1000000;
}

/* The table of models is the same in each life. */
void gateways_begin(struct sim *s, struct sim_node *n)
{
    struct sim_gateway *g = of_node(s, n->number);
    struct gateway_options o = {.name = n->name, .n_sessions = SESSIONS};
    struct http_io io = web_io(s);
    struct error e;

    *g = (struct sim_gateway){
        .seam = {&seam_ops}, .sim = s, .number = n->number, .full_us = -1};
    if (keys_open(&g->keys, &e) != ST_OK) {
        abort();
    }
    add_models(s, &s->gateways.models);
    o.service = (struct service_options){.models = &s->gateways.models,
                                         .keys = g->keys,
                                         .prompts = &g->seam,
                                         .unix_s = unix_s,
                                         .unix_arg = s};
    o.http = (struct http_options){.output_bytes_max =
                                       s->options.gateways.output_bytes,
                                   .head_ms = PATIENCE_MS,
                                   .body_ms = PATIENCE_MS,
                                   .idle_ms = PATIENCE_MS,
                                   .write_ms = PATIENCE_MS};
    n->core = gateway_new(&o, &n->io, &io);
    n->ops = &gateway_node_ops;
}

static void count_resumed(struct sim *s, uint32_t number)
{
    s->counts.cells.deeds[DEED_WEB_RESUMED] +=
        gateway_view(s->nodes[number].core).resumed;
}

void gateways_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->options.gateways.n; i++) {
        count_resumed(s, SIM_FIRST_GATEWAY + i);
    }
}

void gateways_free(struct sim *s, uint32_t number)
{
    struct sim_gateway *g = of_node(s, number);

    web_gateway_dies(s, number);
    count_resumed(s, number);
    gateway_free((struct gateway_core **)&s->nodes[number].core);
    for (uint32_t i = 0; i < GATEWAY_JOBS; i++) {
        prompt_job_free(&g->jobs[i].job);
    }
    keys_free(&g->keys);
}

void gateways_stop(struct sim *s, uint32_t number)
{
    web_gateway_stops(s, number);
    gateway_stop(s->nodes[number].core, rng_octave(&s->chance, 1, GRACE_US));
}

/* ---- faults ---- */

/* Kills a gateway, or lets it drain for a while. */
static void end_gateway(struct sim *s)
{
    uint32_t number = SIM_FIRST_GATEWAY +
                      (uint32_t)rng_below(&s->chance, s->options.gateways.n);

    if (!s->nodes[number].core || s->nodes[number].ending) {
        return;
    }
    s->counts.cells.deeds[DEED_WEB_KILLED]++;
    if (rng_below(&s->chance, 3)) {
        node_kill(s, number);
    } else {
        node_stop(s, number);
    }
    faults_restart(s, number);
}

static void fault(struct sim *s, uint32_t first, uint64_t unused)
{
    int64_t every = s->options.gateways.kill_every_us;

    if (s->calm) {
        return;
    }
    if (!first) {
        end_gateway(s);
    }
    clock_add(&s->clock,
              sim_now(s) + rng_range(&s->chance, every / 2, every * 3 / 2),
              fault, 0, unused);
}

void gateways_start(struct sim *s)
{
    if (s->options.gateways.n == 0) {
        return;
    }
    if (s->options.gateways.kill_every_us) {
        fault(s, 1, 0);
    }
    web_start(s);
}

/* ---- checks ---- */

/* Output that is streamed stays within the limit, whoever does not read. */
void gateways_watch(struct sim *s, uint32_t number)
{
    const struct http_server *http = gateways_http(s, number);

    for (const struct list *l = http->all.next; l != &http->all; l = l->next) {
        const struct http_connection *c =
            LIST_OF(l, struct http_connection, all);

        if (c->x && c->x->chunked &&
            c->out.n > s->options.gateways.output_bytes + EVENT_MOST) {
            sim_fail(s, -1, "%s holds %zu bytes for a client, limit %u",
                     s->nodes[number].name, c->out.n,
                     s->options.gateways.output_bytes);
        }
    }
}

static bool quiet(struct sim *s, uint32_t number, char *why, size_t cap)
{
    struct sim_node *n = &s->nodes[number];
    struct sim_gateway *g = of_node(s, number);
    struct gateway_view v;
    uint64_t streams;
    uint32_t conns;

    if (!n->core) {
        (void)snprintf(why, cap, "%s is dead", n->name);
        return false;
    }
    v = gateway_view(n->core);
    streams = tenant_streams(keys_find(g->keys, NULL, 0));
    conns = http_server_connections(gateway_http(n->core));
    if (v.requests || v.calls || streams || conns || g->n_jobs) {
        (void)snprintf(why, cap,
                       "%s has %u requests, %u calls, %llu streams, %u "
                       "connections, %u prompts",
                       n->name, v.requests, v.calls,
                       (unsigned long long)streams, conns, g->n_jobs);
        return false;
    }
    return true;
}

bool gateways_quiet(struct sim *s, char *why, size_t cap)
{
    for (uint32_t i = 0; i < s->options.gateways.n; i++) {
        if (!quiet(s, SIM_FIRST_GATEWAY + i, why, cap)) {
            return false;
        }
    }
    return true;
}
