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
    ProtobufCBinaryData stops[REQUEST_STOPS];
    Sluice__V1__SequenceRef from;
    char name[8], tenant[12], text[SIM_PROMPT_MAX];
};

#define POISON 0xdeadull /* upper half of a poison request's seed */
#define HURT   0xbadull  /* ... and of a damaged one's */

static void wrong(struct sim_request *request, const char *what)
{
    sim_fail(request->sim, (int32_t)request->number, "%s", what);
}

void sim_request_seed(struct sim_request *request, uint64_t seed)
{
    if (request->sampling.seed != seed) {
        wrong(request, "wrong sampling seed");
    }
}

static void check_figures(struct sim_request *request,
                          const struct sim_choice *c,
                          const Sluice__V1__GenerateFigures *f)
{
    /* A continuation that is cancelled before a worker is up has only the ids
     * that its client sent. */
    bool early = request->continues && c->n_got == 0 &&
                 f->n_prompt == request->n_prompt - request->n_before &&
                 c->finish == SLUICE__V1__FINISH__FINISH_CANCELLED;
    /* A text that is cancelled before it is encoded has no ids. */
    bool no_ids = request->as_text && f->n_prompt == 0 &&
                  (c->n_got == 0 || request->resumes) &&
                  c->finish == SLUICE__V1__FINISH__FINISH_CANCELLED;

    sim_request_seed(request, f->seed);
    if ((f->n_prompt != request->n_prompt && !no_ids && !early) ||
        f->n_generated != c->n_got) {
        wrong(request, "figures do not match the received tokens");
    }
}

static void on_chunk(void *arg, const Sluice__V1__GenerateChunk *m)
{
    struct sim_request *request = arg;

    if (request->n_ends) {
        wrong(request, "chunk received after the end");
    } else if (m->choice >= request->n_choices) {
        wrong(request, "chunk names no choice of the request");
    } else {
        sim_choice_chunk(&request->choices[m->choice], m);
        if (m->figures && !request->sim->failed) {
            check_figures(request, &request->choices[m->choice], m->figures);
        }
    }
}

/* Checks that a choice is kept: its lease has just begun, and nothing else
 * could have ended it. */
static void check_kept(struct sim_request *request, const struct sim_choice *c)
{
    const struct sim *s = request->sim;
    bool awake = s->nodes[request->client].paused_us <= request->asked_us;

    /* With several choices, the lease of the first may have expired.  A choice
     * that a stop string ended is cancelled on its worker. */
    if (request->keep_ms >= KEEP_SURE_MS && !s->options.faulty &&
        !c->end_asked && !request->again && !request->shared && awake &&
        request->n_choices == 1 && !c->stopped && !drains_drawn(&s->options) &&
        !router_lapses(s->nodes[SIM_ROUTER].core, request->id, c->number) &&
        cells_state(s, request->number, c->number) != CELL_KEPT) {
        wrong(request, "sequence is gone although it was to be kept");
    }
}

/* Returns the damaged request that this one is or repeats, or NULL. */
static const struct sim_request *damage_of(const struct sim_request *request)
{
    return sim_request_hurt_of(request->sim, request->sampling.seed);
}

static void check_choice(struct sim_request *request, struct sim_choice *c)
{
    const struct sim_request *hurt = damage_of(request);

    if (hurt && c->n_got > hurt->damage_at) {
        wrong(request, "got the token of a damaged row");
    }
    switch (c->finish) {
    case SLUICE__V1__FINISH__FINISH_STOP:
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        if (request->defect != DEFECT_NONE) {
            wrong(request, "invalid request was served");
        }
        sim_choice_check_whole(c);
        check_kept(request, c);
        break;
    case SLUICE__V1__FINISH__FINISH_CANCELLED:
        if (!c->end_asked) {
            wrong(request, "cancelled, but no client requested this");
        }
        break;
    case SLUICE__V1__FINISH__FINISH_FAILED:
        if (!hurt) {
            wrong(request, "failed without damage");
        }
        break;
    default:
        wrong(request, "status OK without a last chunk");
    }
}

static bool past_deadline(const struct sim_request *request)
{
    return request->deadline_ms &&
           sim_now(request->sim) >=
               request->asked_us + (int64_t)request->deadline_ms * 1000;
}

/* Returns whether a request without a deadline may have waited for too long. */
static bool overdue(const struct sim_request *request)
{
    const struct sim_options *o = &request->sim->options;

    return o->queue_timeout_ms > 0 && request->deadline_ms == 0 &&
           sim_now(request->sim) >=
               request->asked_us + (int64_t)o->queue_timeout_ms * 1000;
}

/* Returns whether the room, the pools or a time limit explain a refusal: the
 * router predicts whether a request will be late, and may be wrong. */
static bool refused_rightly(const struct sim_request *request)
{
    return !sim_request_fits(request->sim, request) ||
           request->sim->full_us[request->n_choices] >= request->asked_us ||
           overdue(request) || request->deadline_ms > 0 ||
           claims_quota(request->sim) > 0 ||
           request->sim->options.queue_timeout_ms > 0;
}

/* Returns whether its client has slept since it sent the request; its session
 * may then have been closed. */
static bool slept(const struct sim_request *request)
{
    return request->sim->nodes[request->client].paused_us > request->asked_us;
}

/* Returns whether the seed explains this final status. */
static bool explained(const struct sim_request *request)
{
    const struct sim *s = request->sim;

    switch ((int)request->status) {
    case ST_CANCELLED:
        return request->end_asked;
    case ST_DEADLINE_EXCEEDED:
        return past_deadline(request);
    case ST_RESOURCE_EXHAUSTED:
        return s->options.faulty || sim_short || refused_rightly(request) ||
               drains_bereft(s, request);
    case ST_UNAVAILABLE:
        return s->options.faulty || sim_short || request->continues ||
               request->end_asked || drains_bereft(s, request) ||
               slept(request) || crowd_crossed(request);
    case ST_ALREADY_EXISTS:
        return request->again || request->shared;
    case ST_NOT_FOUND: /* a new router has no models until a worker registers */
        return s->options.faulty || sim_short || drains_bereft(s, request) ||
               request->continues; /* what was kept may have gone */
    case ST_FAILED_PRECONDITION:   /* ... or is being cut */
        return request->continues;
    case ST_ABORTED: /* enough workers were lost while they ran it */
        return s->n_ended[request->model] - request->n_ended > SIM_TRIAL_DEATHS;
    case ST_INTERNAL: /* no fault of an engine ends any other request */
        return damage_of(request) != NULL;
    default:
        return false;
    }
}

/* Checks that a call ends by its deadline.  The client's own clock ends it, so
 * no fault excuses a late end.  Only a client that slept may be late. */
static void check_deadline(struct sim_request *request)
{
    const struct sim_node *n = &request->sim->nodes[request->client];
    int64_t deadline = request->asked_us + (int64_t)request->deadline_ms * 1000;

    if (request->deadline_ms && n->paused_us <= request->asked_us &&
        sim_now(request->sim) > deadline + LATE_US) {
        wrong(request, "ended long after its deadline");
    }
}

/* Returns whether no router could have resumed the request within the client's
 * patience, or a router refused it rightly. */
static bool resumed_in_vain(const struct sim_request *request)
{
    const struct sim *s = request->sim;
    const struct sim_node *n = &s->nodes[request->client];
    int64_t lost_us = request->stream.lost_us;

    return sim_now(s) >= lost_us + RESUME_MS * 1000 || n->paused_us > lost_us ||
           n->core == NULL || /* its client stops */
           request->defect != DEFECT_NONE || refused_rightly(request);
}

/* Checks that a resumable request does not fail because its router died or its
 * connection broke: such an error is retried, unless it has another cause. */
static void check_resumed(struct sim_request *request)
{
    bool lost =
        request->status != ST_OK && request->stream.lost_us != NODE_IDLE;

    if (lost && request->status != ST_CANCELLED &&
        request->status != ST_ABORTED &&
        request->status != ST_DEADLINE_EXCEEDED &&
        request->status != ST_INTERNAL && request->status != ST_ABORTED &&
        !sim_short && !request->continues && /* a claim is not resumed */
        !request->again && !request->shared && !resumed_in_vain(request)) {
        sim_fail(request->sim, (int32_t)request->number,
                 "resumable request ended with %s",
                 status_name(request->status));
    }
}

static void check_end(struct sim_request *request)
{
    struct sim *s = request->sim;

    check_deadline(request);
    if (request->status == ST_ABORTED) {
        s->counts.cells.deeds[request->poison ? DEED_INDICTED : DEED_UNLUCKY]++;
    }
    check_resumed(request);
    if (request->status == ST_OK) {
        for (uint32_t i = 0; i < request->n_choices && !s->failed; i++) {
            check_choice(request, &request->choices[i]);
        }
    } else if (!sim_request_explained(request)) {
        sim_fail(request->sim, (int32_t)request->number, "unexpected status %s",
                 status_name(request->status));
    }
}

bool sim_request_explained(const struct sim_request *request)
{
    bool wrong_asked = request->defect != DEFECT_NONE ||
                       !sim_request_fits(request->sim, request);

    return explained(request) ||
           (wrong_asked && (request->status == ST_INVALID_ARGUMENT ||
                            request->status == ST_FAILED_PRECONDITION ||
                            request->status == ST_OUT_OF_RANGE ||
                            request->status == ST_NOT_FOUND ||
                            request->status == ST_UNAVAILABLE));
}

static void on_lost(void *arg, const char *why)
{
    struct sim_request *request = arg;

    sim_log(request->sim, "request %u lost its connection: %s", request->number,
            why);
    for (uint32_t i = 0; i < request->n_choices; i++) {
        enum cell_state state = cells_state(request->sim, request->number, i);

        request->lost_prefill = request->lost_prefill || state == CELL_PREFILL;
        request->lost_decode = request->lost_decode || state == CELL_DECODE;
    }
}

static void on_end(void *arg, enum status status, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct sim_request *request = arg;

    (void)retry_after_ms;
    sim_log(request->sim, "request %u ended with %s, finish %u, %u tokens%s%s",
            request->number, status_name(status), request->choices[0].finish,
            request->choices[0].n_got, e ? ": " : "", e ? e->text : "");
    request->sim->n_open -= request->n_ends == 0;
    request->ended_us = sim_now(request->sim);
    request->status = status;
    if (request->n_ends++) {
        wrong(request, "ended twice");
    }
    if (!request->sim->failed) {
        check_end(request);
    }
    if (!request->sim->failed) {
        actor_ended(request->sim, request);
    }
}

static const struct resumable_ops ops = {on_chunk, on_lost, on_end};

static void fill_sampling(const struct sim_request *request,
                          Sluice__V1__Sampling *p)
{
    sampling_write(&request->sampling, p);
    p->has_seed = request->seed_given;
    if (request->continues) { /* the router fills them in */
        p->has_draw_index = p->has_draw_choice = false;
        p->draw_index = p->draw_choice = 0;
    }
    if (request->defect == DEFECT_TOP_P) {
        p->top_p = 2;
    }
}

static void fill_stops(struct sim_request *request, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;

    for (uint32_t i = 0; i < request->n_stops; i++) {
        a->stops[i] = (ProtobufCBinaryData){strlen(request->stops[i]),
                                            (uint8_t *)request->stops[i]};
    }
    r->stop = a->stops;
    r->n_stop = request->n_stops;
    r->has_n = request->n_choices != 1 || request->defect == DEFECT_N;
    r->n = request->n_choices;
    if (request->defect == DEFECT_N) {
        r->n = request->number % 2 ? CHOICES_MAX + 1 : 0;
    }
    r->has_want_text = true;
    r->want_text = request->want_text;
}

static void fill_prompt(struct sim_request *request, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;

    if (request->as_text) {
        for (uint32_t i = 0; i < request->n_prompt; i++) {
            a->text[i] = (char)request->prompt[i];
        }
        r->has_text = true;
        r->text = (ProtobufCBinaryData){request->n_prompt, (uint8_t *)a->text};
    } else {
        r->tokens = request->prompt + request->n_before;
        r->n_tokens = request->n_prompt - request->n_before;
    }
}

static void fill_cache(struct sim_request *request, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;
    struct sim_request *from = &request->sim->requests[request->from];

    request->guaranteed = request->id[0] % 11 == 5;
    r->has_guaranteed = r->guaranteed = request->guaranteed;
    r->has_tier = request->id[1] % 3 != 0; /* without a draw */
    r->tier = request->id[1] % 3 == 1 ? SLUICE__V1__TIER__TIER_PRIORITY
                                      : SLUICE__V1__TIER__TIER_FLEX;
    r->has_route =
        request->sim->options.suspensions > 0 && request->id[2] % 3 != 0;
    r->route = wire_text(request->id[2] % 3 == 1 ? "chat" : "batch");
    r->has_cache = request->no_cache;
    r->cache = !request->no_cache;
    r->has_drafts = request->has_drafts;
    r->drafts = request->drafts;
    if (request->tenant) {
        (void)snprintf(a->tenant, sizeof(a->tenant), "t%u", request->tenant);
        r->has_tenant = true;
        r->tenant = wire_text(a->tenant);
    }
    if (request->continues) {
        sluice__v1__sequence_ref__init(&a->from);
        a->from.request_id = (ProtobufCBinaryData){sizeof(from->id), from->id};
        a->from.has_choice = true;
        a->from.choice = request->from_choice;
        r->continue_from = &a->from;
    }
}

static void fill(struct sim_request *request, struct asked *a)
{
    Sluice__V1__GenerateRequest *r = &a->m;

    sluice__v1__generate_request__init(r);
    (void)snprintf(a->name, sizeof(a->name), "m%u",
                   request->defect == DEFECT_MODEL ? 7 : request->model);
    fill_sampling(request, &a->sampling);
    r->sampling = &a->sampling;
    r->request_id = (ProtobufCBinaryData){sizeof(request->id), request->id};
    r->model = (ProtobufCBinaryData){strlen(a->name), (uint8_t *)a->name};
    fill_prompt(request, a);
    r->has_max_tokens = true;
    r->max_tokens = request->max_tokens;
    r->has_keep_ms = request->keep_ms != 0;
    r->keep_ms = request->keep_ms;
    fill_stops(request, a);
    fill_cache(request, a);
}

bool sim_request_ask(struct sim *s, struct sim_request *request)
{
    struct sim_node *n = &s->nodes[request->client];
    struct resumable_options o = {.io = &n->io,
                                  .ops = &ops,
                                  .arg = request,
                                  .deadline_ms = request->deadline_ms,
                                  .resume_ms =
                                      request->resumes ? RESUME_MS : 0};

    request->asked = calloc(1, sizeof(*request->asked));
    if (!request->asked) {
        abort();
    }
    fill(request, request->asked);
    request->asked_us = sim_now(s);
    request->n_ended = s->n_ended[request->model];
    if (n->dropped_us + DROP_US > sim_now(s)) {
        sim_request_doomed(request); /* it ends with the session */
    }
    return resumable_begin(&request->stream, n->core, &request->asked->m, &o) ==
           ST_OK;
}

void sim_request_doomed(struct sim_request *request)
{
    request->end_asked = true;
    for (uint32_t i = 0; i < request->n_choices; i++) {
        request->choices[i].end_asked = true;
    }
}

void sim_request_end_asked(struct sim *s, const struct sim_request *request,
                           uint32_t choice)
{
    for (uint32_t i = 0; i < s->n_requests; i++) {
        struct sim_request *o = &s->requests[i];

        if (memcmp(o->id, request->id, sizeof(request->id)) != 0) {
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

/* Drawn from the number, so that seeds without drafts draw the same as ever. */
static void draw_drafts(struct sim_request *request)
{
    struct sim *s = request->sim;
    struct rng r;

    rng_init(&r, s->seed, 10000 + request->number);
    request->has_drafts = rng_chance(&r, s->options.drafts.ask_of);
    if (request->has_drafts) {
        request->drafts = (uint32_t)rng_below(&r, DRAFTS_MAX + 1);
        s->counts.cells.deeds[DEED_DRAFT_ASKED]++;
    }
}

void sim_request_open(struct sim_request *request, uint32_t n_choices)
{
    draw_drafts(request);
    request->n_choices = n_choices;
    request->choices = calloc(n_choices, sizeof(*request->choices));
    if (!request->choices) {
        abort();
    }
    for (uint32_t i = 0; i < n_choices; i++) {
        sim_choice_init(&request->choices[i], request, i);
    }
}

bool sim_request_has_text(const struct sim_request *request)
{
    return request->sim->options.text[request->model] &&
           (request->want_text || request->n_stops);
}

void sim_request_feed(const struct sim_request *request, struct oracle *o)
{
    const struct fake_model *m = &request->sim->options.models[request->model];

    for (uint32_t i = o->n; i < request->n_prompt; i++) {
        if (request->generated && request->generated[i]) {
            oracle_feed_continued(o, m, request->prompt[i]);
        } else {
            oracle_feed(o, m, request->prompt[i], ROW_PROMPT);
        }
    }
}

uint32_t sim_request_blocks(const struct sim_request *request,
                            uint32_t block_tokens)
{
    return (request->n_prompt + request->max_tokens + block_tokens - 1) /
           block_tokens;
}

/* Any worker with the first layer may lead the replica. */
static uint32_t longest_chunk(const struct sim_options *o, uint32_t w)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < o->n_workers; i++) {
        if (o->workers[i].model == o->workers[w].model &&
            (i == w || (options_staged(o, w) && options_staged(o, i)))) {
            uint32_t n = options_chunk(o, i);

            most = n > most ? n : most;
        }
    }
    return most;
}

uint32_t sim_request_windows(const struct sim_request *request, uint32_t w)
{
    const struct sim_options *o = &request->sim->options;

    return options_windows(o, w, longest_chunk(o, w),
                           request->n_prompt + request->max_tokens);
}

bool sim_request_fits_alone(const struct sim *s,
                            const struct sim_request *request, uint32_t w)
{
    const struct sim_options *o = &s->options;
    const struct worker_draw *d = &o->workers[w];
    const struct pool_of_worker *p = &o->pools.workers[w];
    uint32_t blocks = sim_request_blocks(request, d->block_tokens);

    if (options_offers(o, w)) { /* enough for whichever layers it receives */
        return !o->models[d->model].attention ||
               blocks <= o->offers.workers[w].n_blocks;
    }
    blocks = options_shard(o, w).attention ? blocks : 0;
    return blocks + p->pages_per_slot + sim_request_windows(request, w) <=
           p->n_pages;
}

/* Worker w may form a replica with any other stages of its model. */
bool sim_request_fits_at(const struct sim *s, const struct sim_request *request,
                         uint32_t w)
{
    const struct sim_options *o = &s->options;

    if (o->workers[w].model != request->model ||
        !sim_request_fits_alone(s, request, w)) {
        return false;
    }
    for (uint32_t i = 0; i < o->n_workers && options_staged(o, w); i++) {
        if (o->workers[i].model == request->model && options_staged(o, i) &&
            !sim_request_fits_alone(s, request, i)) {
            return false;
        }
    }
    return true;
}

bool sim_request_fits(const struct sim *s, const struct sim_request *request)
{
    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        if (sim_request_fits_at(s, request, i)) {
            return true;
        }
    }
    return false;
}

static struct sim_request *marked(struct sim *s, uint64_t mark, uint64_t seed)
{
    uint32_t number = (uint32_t)seed;

    return seed >> 32 == mark && number < s->n_requests ? &s->requests[number]
                                                        : NULL;
}

struct sim_request *sim_request_poison(struct sim *s, uint64_t seed)
{
    return marked(s, POISON, seed);
}

struct sim_request *sim_request_hurt_of(struct sim *s, uint64_t seed)
{
    return marked(s, HURT, seed);
}

void sim_request_hurt(struct sim_request *request, enum damage damage,
                      uint32_t at)
{
    request->seed_given = true;
    request->sampling.seed = HURT << 32 | request->number;
    request->damage = damage;
    request->damage_at = at;
}

void sim_request_envenom(struct sim_request *request, uint32_t at)
{
    request->poison = request->seed_given = true;
    request->sampling.seed = POISON << 32 | request->number;
    request->poison_at = at;
}

void sim_request_fini(struct sim_request *request)
{
    for (uint32_t i = 0; i < request->n_choices; i++) {
        sim_choice_fini(&request->choices[i]);
    }
    resumable_fini(&request->stream);
    free(request->asked);
    free(request->choices);
    free(request->prompt);
    free(request->generated);
    free(request->bias_tokens);
    free(request->biases);
}
