#include "tests/sim/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sampling/sampling_message.h"
#include "proto/inference.pb-c.h"
#include "tests/sim/sim.h"

#define DROP_US      1000
#define LATE_US      10000
#define KEEP_SURE_MS 500
#define RESUME_MS    30000

/* The message of a request, and the data that it points to. */
struct asked {
    Sluice__V1__GenerateRequest m;
    Sluice__V1__Sampling sampling;
    ProtobufCBinaryData stops[GENERATION_STOPS];
    char name[8], text[SIM_PROMPT_MAX];
};

#define POISON 0xdeadull /* upper half of a poison request's seed */

static void wrong(struct sim_request *g, const char *what)
{
    sim_fail(g->sim, (int32_t)g->number, "%s", what);
}

void sim_request_seed(struct sim_request *g, uint64_t seed)
{
    if (g->sampling.seed != seed) {
        wrong(g, "wrong sampling seed");
    }
}

static void check_figures(struct sim_request *g, const struct sim_choice *c,
                          const Sluice__V1__GenerateFigures *f)
{
    /* A text that is cancelled before it is encoded has no ids. */
    bool no_ids = g->as_text && f->n_prompt == 0 &&
                  (c->n_got == 0 || g->resumes) &&
                  c->finish == SLUICE__V1__FINISH__FINISH_CANCELLED;

    sim_request_seed(g, f->seed);
    if ((f->n_prompt != g->n_prompt && !no_ids) || f->n_generated != c->n_got) {
        wrong(g, "figures do not match the received tokens");
    }
}

static void on_chunk(void *arg, const Sluice__V1__GenerateChunk *m)
{
    struct sim_request *g = arg;

    if (g->n_ends) {
        wrong(g, "chunk received after the end");
    } else if (m->choice >= g->n_choices) {
        wrong(g, "chunk names no choice of the request");
    } else {
        sim_choice_chunk(&g->choices[m->choice], m);
        if (m->figures && !g->sim->failed) {
            check_figures(g, &g->choices[m->choice], m->figures);
        }
    }
}

/* Checks that a choice is kept: its lease has just begun, and nothing else
 * could have ended it. */
static void check_kept(struct sim_request *g, const struct sim_choice *c)
{
    const struct sim *s = g->sim;
    bool awake = s->nodes[g->client].paused_us <= g->asked_us;

    /* With several choices, the lease of the first may have expired.  A choice
     * that a stop string ended is cancelled on its worker. */
    if (g->keep_ms >= KEEP_SURE_MS && !s->options.faulty && !c->end_asked &&
        !g->again && !g->shared && awake && g->n_choices == 1 && !c->stopped &&
        !drains_drawn(&s->options) &&
        cells_state(s, g->number, c->number) != CELL_KEPT) {
        wrong(g, "sequence is gone although it was to be kept");
    }
}

static void check_choice(struct sim_request *g, struct sim_choice *c)
{
    switch (c->finish) {
    case SLUICE__V1__FINISH__FINISH_STOP:
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        if (g->defect != DEFECT_NONE) {
            wrong(g, "invalid request was served");
        }
        sim_choice_check_whole(c);
        check_kept(g, c);
        break;
    case SLUICE__V1__FINISH__FINISH_CANCELLED:
        if (!c->end_asked) {
            wrong(g, "cancelled, but no client requested this");
        }
        break;
    case SLUICE__V1__FINISH__FINISH_FAILED:
        if (!g->sim->options.faulty) {
            wrong(g, "failed in a seed without faults");
        }
        break;
    default:
        wrong(g, "status OK without a last chunk");
    }
}

static bool past_deadline(const struct sim_request *g)
{
    return g->deadline_ms &&
           sim_now(g->sim) >= g->asked_us + (int64_t)g->deadline_ms * 1000;
}

/* Returns whether the room or the pools explain a refusal. */
static bool refused_rightly(const struct sim_request *g)
{
    return !sim_request_fits(g->sim, g) ||
           g->sim->full_us[g->n_choices] >= g->asked_us;
}

/* Returns whether its client has slept since it sent the request; its session
 * may then have been closed. */
static bool slept(const struct sim_request *g)
{
    return g->sim->nodes[g->client].paused_us > g->asked_us;
}

/* Returns whether the seed explains this final status. */
static bool explained(const struct sim_request *g)
{
    const struct sim *s = g->sim;

    switch ((int)g->status) {
    case ST_CANCELLED:
        return g->end_asked;
    case ST_DEADLINE_EXCEEDED:
        return past_deadline(g);
    case ST_RESOURCE_EXHAUSTED:
        return s->options.faulty || refused_rightly(g) || drains_bereft(s, g);
    case ST_UNAVAILABLE:
        return s->options.faulty || g->end_asked || drains_bereft(s, g) ||
               slept(g);
    case ST_ALREADY_EXISTS:
        return g->again || g->shared;
    case ST_NOT_FOUND: /* a new router has no models until a worker registers */
        return s->options.faulty || drains_bereft(s, g);
    case ST_ABORTED: /* enough workers were lost while they ran it */
        return s->n_ended[g->model] - g->n_ended > SIM_TRIAL_DEATHS;
    case ST_INTERNAL:
        return s->options.faulty && g->defect == DEFECT_NONE;
    default:
        return false;
    }
}

/* Checks that a call ends by its deadline.  The client's own clock ends it, so
 * no fault excuses a late end.  Only a client that slept may be late. */
static void check_deadline(struct sim_request *g)
{
    const struct sim_node *n = &g->sim->nodes[g->client];
    int64_t deadline = g->asked_us + (int64_t)g->deadline_ms * 1000;

    if (g->deadline_ms && n->paused_us <= g->asked_us &&
        sim_now(g->sim) > deadline + LATE_US) {
        wrong(g, "ended long after its deadline");
    }
}

/* Returns whether no router could have resumed the request within the client's
 * patience, or a router refused it rightly. */
static bool resumed_in_vain(const struct sim_request *g)
{
    const struct sim *s = g->sim;
    const struct sim_node *n = &s->nodes[g->client];
    int64_t lost_us = g->stream.lost_us;

    return sim_now(s) >= lost_us + RESUME_MS * 1000 || n->paused_us > lost_us ||
           n->core == NULL || /* its client stops */
           g->defect != DEFECT_NONE || refused_rightly(g);
}

/* Checks that a resumable request does not fail because its router died or its
 * connection broke: such an error is retried, unless it has another cause. */
static void check_resumed(struct sim_request *g)
{
    bool lost = g->status != ST_OK && g->stream.lost_us != NODE_IDLE;

    if (lost && g->status != ST_CANCELLED && g->status != ST_ABORTED &&
        g->status != ST_DEADLINE_EXCEEDED && g->status != ST_INTERNAL &&
        g->status != ST_ABORTED && !g->again && !g->shared &&
        !resumed_in_vain(g)) {
        sim_fail(g->sim, (int32_t)g->number, "resumable request ended with %s",
                 status_name(g->status));
    }
}

static void check_end(struct sim_request *g)
{
    struct sim *s = g->sim;
    bool wrong_asked = g->defect != DEFECT_NONE || !sim_request_fits(s, g);

    check_deadline(g);
    if (g->status == ST_ABORTED) {
        s->counts.cells.deeds[g->poison ? DEED_INDICTED : DEED_UNLUCKY]++;
    }
    check_resumed(g);
    if (g->status == ST_OK) {
        for (uint32_t i = 0; i < g->n_choices && !s->failed; i++) {
            check_choice(g, &g->choices[i]);
        }
    } else if (!explained(g) &&
               !(wrong_asked &&
                 (g->status == ST_INVALID_ARGUMENT ||
                  g->status == ST_FAILED_PRECONDITION ||
                  g->status == ST_OUT_OF_RANGE || g->status == ST_NOT_FOUND ||
                  g->status == ST_UNAVAILABLE))) {
        sim_fail(g->sim, (int32_t)g->number, "unexpected status %s",
                 status_name(g->status));
    }
}

static void on_lost(void *arg, const char *why)
{
    struct sim_request *g = arg;

    sim_log(g->sim, "request %u lost its connection: %s", g->number, why);
    for (uint32_t i = 0; i < g->n_choices; i++) {
        enum cell_state state = cells_state(g->sim, g->number, i);

        g->lost_prefill = g->lost_prefill || state == CELL_PREFILL;
        g->lost_decode = g->lost_decode || state == CELL_DECODE;
    }
}

static void on_end(void *arg, enum status status, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct sim_request *g = arg;

    (void)retry_after_ms;
    sim_log(g->sim, "request %u ended with %s, finish %u, %u tokens%s%s",
            g->number, status_name(status), g->choices[0].finish,
            g->choices[0].n_got, e ? ": " : "", e ? e->text : "");
    g->sim->n_open -= g->n_ends == 0;
    g->ended_us = sim_now(g->sim);
    g->status = status;
    if (g->n_ends++) {
        wrong(g, "ended twice");
    }
    if (!g->sim->failed) {
        check_end(g);
    }
    if (!g->sim->failed) {
        actor_ended(g->sim, g);
    }
}

static const struct resumable_ops ops = {on_chunk, on_lost, on_end};

static void fill_sampling(const struct sim_request *g, Sluice__V1__Sampling *p)
{
    sampling_write(&g->sampling, p);
    p->has_seed = g->seed_given;
    if (g->defect == DEFECT_TOP_P) {
        p->top_p = 2;
    }
}

static void fill_stops(struct sim_request *g, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;

    for (uint32_t i = 0; i < g->n_stops; i++) {
        a->stops[i] =
            (ProtobufCBinaryData){strlen(g->stops[i]), (uint8_t *)g->stops[i]};
    }
    r->stop = a->stops;
    r->n_stop = g->n_stops;
    r->has_n = g->n_choices != 1 || g->defect == DEFECT_N;
    r->n = g->n_choices;
    if (g->defect == DEFECT_N) {
        r->n = g->number % 2 ? CHOICES_MAX + 1 : 0;
    }
    r->has_want_text = true;
    r->want_text = g->want_text;
}

static void fill_prompt(struct sim_request *g, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;

    if (g->as_text) {
        for (uint32_t i = 0; i < g->n_prompt; i++) {
            a->text[i] = (char)g->prompt[i];
        }
        r->has_text = true;
        r->text = (ProtobufCBinaryData){g->n_prompt, (uint8_t *)a->text};
    } else {
        r->tokens = g->prompt;
        r->n_tokens = g->n_prompt;
    }
}

static void fill(struct sim_request *g, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;

    sluice__v1__generate_request__init(r);
    (void)snprintf(a->name, sizeof(a->name), "m%u",
                   g->defect == DEFECT_MODEL ? 7 : g->model);
    fill_sampling(g, &a->sampling);
    r->sampling = &a->sampling;
    r->request_id = (ProtobufCBinaryData){sizeof(g->id), g->id};
    r->model = (ProtobufCBinaryData){strlen(a->name), (uint8_t *)a->name};
    fill_prompt(g, a);
    r->has_max_tokens = true;
    r->max_tokens = g->max_tokens;
    r->has_keep_ms = g->keep_ms != 0;
    r->keep_ms = g->keep_ms;
    fill_stops(g, a);
}

bool sim_request_ask(struct sim *s, struct sim_request *g)
{
    struct sim_node *n = &s->nodes[g->client];
    struct resumable_options o = {.io = &n->io,
                                  .ops = &ops,
                                  .arg = g,
                                  .deadline_ms = g->deadline_ms,
                                  .resume_ms = g->resumes ? RESUME_MS : 0};

    g->asked = calloc(1, sizeof(*g->asked));
    if (!g->asked) {
        abort();
    }
    fill(g, g->asked);
    g->asked_us = sim_now(s);
    g->n_ended = s->n_ended[g->model];
    if (n->dropped_us + DROP_US > sim_now(s)) {
        sim_request_doomed(g); /* it ends with the session */
    }
    return resumable_begin(&g->stream, n->core, &g->asked->m, &o) == ST_OK;
}

void sim_request_doomed(struct sim_request *g)
{
    g->end_asked = true;
    for (uint32_t i = 0; i < g->n_choices; i++) {
        g->choices[i].end_asked = true;
    }
}

void sim_request_end_asked(struct sim *s, const struct sim_request *g,
                           uint32_t choice)
{
    for (uint32_t i = 0; i < s->n_requests; i++) {
        struct sim_request *o = &s->requests[i];

        if (memcmp(o->id, g->id, sizeof(g->id)) != 0) {
            continue;
        }
        o->n_asked++;
        if (choice == CHOICE_ALL) {
            sim_request_doomed(o);
        } else if (choice < o->n_choices) {
            o->choices[choice].end_asked = true;
        }
    }
}

void sim_request_open(struct sim_request *g, uint32_t n_choices)
{
    g->n_choices = n_choices;
    g->choices = calloc(n_choices, sizeof(*g->choices));
    if (!g->choices) {
        abort();
    }
    for (uint32_t i = 0; i < n_choices; i++) {
        sim_choice_init(&g->choices[i], g, i);
    }
}

bool sim_request_has_text(const struct sim_request *g)
{
    return g->sim->options.text[g->model] && (g->want_text || g->n_stops);
}

uint32_t sim_request_blocks(const struct sim_request *g, uint32_t block_tokens)
{
    return (g->n_prompt + g->max_tokens + block_tokens - 1) / block_tokens;
}

static bool holds(const struct sim *s, const struct sim_request *g, uint32_t w)
{
    const struct sim_options *o = &s->options;
    const struct worker_draw *d = &o->workers[w];
    uint32_t blocks = sim_request_blocks(g, d->block_tokens);

    if (options_offers(o, w)) { /* enough for whichever layers it receives */
        return !o->models[d->model].attention ||
               blocks <= o->offers.workers[w].n_blocks;
    }
    return !options_shard(o, w).attention || blocks <= d->n_blocks;
}

/* Worker w may form a replica with any other stages of its model. */
bool sim_request_fits_at(const struct sim *s, const struct sim_request *g,
                         uint32_t w)
{
    const struct sim_options *o = &s->options;

    if (o->workers[w].model != g->model || !holds(s, g, w)) {
        return false;
    }
    for (uint32_t i = 0; i < o->n_workers && options_staged(o, w); i++) {
        if (o->workers[i].model == g->model && options_staged(o, i) &&
            !holds(s, g, i)) {
            return false;
        }
    }
    return true;
}

bool sim_request_fits(const struct sim *s, const struct sim_request *g)
{
    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        if (sim_request_fits_at(s, g, i)) {
            return true;
        }
    }
    return false;
}

struct sim_request *sim_request_poison(struct sim *s, uint64_t seed)
{
    uint32_t number = (uint32_t)seed;

    return seed >> 32 == POISON && number < s->n_requests ? &s->requests[number]
                                                          : NULL;
}

void sim_request_envenom(struct sim_request *g, uint32_t at)
{
    g->poison = g->seed_given = true;
    g->sampling.seed = POISON << 32 | g->number;
    g->poison_at = at;
}

void sim_request_fini(struct sim_request *g)
{
    for (uint32_t i = 0; i < g->n_choices; i++) {
        sim_choice_fini(&g->choices[i]);
    }
    resumable_fini(&g->stream);
    free(g->asked);
    free(g->choices);
    free(g->prompt);
    free(g->bias_tokens);
    free(g->biases);
}
