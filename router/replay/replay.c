/* replay.c - The clock of a replay: arrivals, endings, places.
 *
 * Time jumps from event to event.  After each event the core ticks until no
 * frame is left, so that all that follows from it happens at its time. */
#include "router/replay/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "common/base/splitmix.h"
#include "router/replay/replay_state.h"

#define LENGTH_UNKNOWN 128                /* no output of the model was seen */
#define NEVER_US       (INT64_C(1) << 45) /* workers here are never silent */
#define AFTER_US       INT64_C(86400000000) /* the longest run past the end */
#define BEGIN_US       1000000

/* ---- inputs ---- */

uint32_t replay_token(const struct recording *r, uint32_t request,
                      uint32_t choice, uint32_t at)
{
    uint64_t key;

    while (at < r->requests[request].shared) {
        request = r->requests[request].like;
        choice = 0;
    }
    choice = at < r->requests[request].n_prompt ? 0 : choice;
    key = (uint64_t)request << 32 ^ (uint64_t)choice << 56 ^ at;
    return (uint32_t)(splitmix_of(key) % REPLAY_VOCAB);
}

struct replay_options replay_as_recorded(const struct recording *r)
{
    return (struct replay_options){.router = r->options};
}

static bool has_length(const struct recorded_choice *c)
{
    return c->end_us != RECORDING_NEVER && c->n_tokens > 0;
}

/* The choices of a model whose lengths are lent to others, in turn. */
struct lender {
    const char *model;
    uint32_t request, choice;
};

/* Moves *l to the next choice of its model that has a length.  Returns it, or
 * LENGTH_UNKNOWN. */
static uint32_t lend(const struct recording *r, struct lender *l)
{
    for (uint32_t i = 0; i <= r->n_requests; i++) {
        const struct recorded_request *q = &r->requests[l->request];

        while (q->model == l->model && l->choice < q->n_choices) {
            const struct recorded_choice *c =
                &r->choices[q->choices + l->choice++];

            if (has_length(c)) {
                return c->n_tokens;
            }
        }
        l->request = (l->request + 1) % r->n_requests;
        l->choice = 0;
    }
    return LENGTH_UNKNOWN;
}

static struct lender *lender_of(struct lender *all, uint32_t *n,
                                const char *model)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (all[i].model == model) {
            return &all[i];
        }
    }
    all[*n] = (struct lender){.model = model};
    return &all[(*n)++];
}

/* Lengths are settled before the run, so that two runs with different options
 * give a request the same length. */
static uint32_t *find_lengths(const struct recording *r)
{
    uint32_t *out = memory_must(calloc(r->n_choices + 1, sizeof *out));
    struct lender *all = memory_must(calloc(r->n_names + 1, sizeof *all));
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_requests; i++) {
        const struct recorded_request *q = &r->requests[i];

        for (uint32_t c = q->choices; c < q->choices + q->n_choices; c++) {
            out[c] = has_length(&r->choices[c])
                         ? r->choices[c].n_tokens
                         : lend(r, lender_of(all, &n, q->model));
        }
    }
    free(all);
    return out;
}

/* Returns after what time the client of a request gave up, before any token;
 * RECORDING_NEVER: it did not. */
/* A client that gave up while it waited would give up in a replay too if it
 * had to wait as long.  One that gave up while it read has what it read as its
 * length. */
static int64_t given_up_us(const struct recording *r,
                           const struct recorded_request *q)
{
    int64_t us = 0;

    for (uint32_t c = q->choices; c < q->choices + q->n_choices; c++) {
        const struct recorded_choice *x = &r->choices[c];

        if (x->end_us == RECORDING_NEVER || x->how != RECORD_CANCELLED ||
            x->n_tokens > 0) {
            return RECORDING_NEVER;
        }
        us = max_i64(us, x->end_us - q->at_us);
    }
    return q->refused || q->lost ? RECORDING_NEVER : us;
}

/* ---- clients ---- */

static void connect_clients(struct replay *x)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;

    m.version_major = WIRE_VERSION_MAJOR;
    m.version_minor = WIRE_VERSION_MINOR;
    m.role = SLUICE__V1__ROLE__ROLE_CLIENT;
    m.name = wire_text("replay");
    for (uint32_t i = 0; i < REPLAY_CLIENTS; i++) {
        m.nonce = 1000 + i;
        replay_connect(x, &x->clients[i], &m);
    }
}

/* Returns the next client that may open a call; NULL: none. */
/* One session has at most PEER_CALLS_MAX open calls, and a router many
 * clients. */
static struct replay_peer *next_client(struct replay *x)
{
    for (uint32_t i = 0; i < REPLAY_CLIENTS; i++) {
        struct replay_peer *p = &x->clients[x->next_client++ % REPLAY_CLIENTS];

        if (p->up && !p->gone && peer_calls_left(p->peer) > 0) {
            return p;
        }
    }
    return NULL;
}

static void refuse(struct replay *x, uint32_t request)
{
    x->run->fates[request] = (struct replay_fate){true, replay_time(x)};
}

void replay_ended(struct replay *x, uint32_t request, enum status status)
{
    const struct recorded_request *q = &x->recording->requests[request];
    bool granted = false;

    timer_clear(&x->give_ups, &x->requests[request].give_up);
    x->requests[request].call = 0;
    x->n_open--;
    for (uint32_t c = 0; c < q->n_choices; c++) {
        struct recorded_choice *k = replay_choice(x, request, c);

        granted = granted || k->granted_us != RECORDING_NEVER;
        if (k->end_us == RECORDING_NEVER && status != ST_OK) {
            k->how = status == ST_CANCELLED || status == ST_DEADLINE_EXCEEDED
                         ? RECORD_CANCELLED
                         : RECORD_FAILED;
            k->end_us = replay_time(x);
        }
    }
    if (status != ST_OK && status != ST_CANCELLED &&
        status != ST_DEADLINE_EXCEEDED && !granted) {
        refuse(x, request);
    }
}

static const Sluice__V1__Tier tiers[RECORD_TIERS] = {
    [RECORD_PRIORITY] = SLUICE__V1__TIER__TIER_PRIORITY,
    [RECORD_DEFAULT] = SLUICE__V1__TIER__TIER_DEFAULT,
    [RECORD_FLEX] = SLUICE__V1__TIER__TIER_FLEX};

/* The ids are made here and freed at once: the core copies them. */
static void send_request(struct replay *x, uint32_t i, struct replay_peer *p)
{
    const struct recorded_request *q = &x->recording->requests[i];
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint32_t *ids = memory_must(malloc(q->n_prompt * sizeof *ids));
    struct replay_client_request *own = &x->requests[i];
    int64_t after_us = given_up_us(x->recording, q);
    uint8_t id[REPLAY_ID_BYTES] = {0};
    uint32_t number = i + 1;

    memcpy(id, &number, sizeof number);
    for (uint32_t k = 0; k < q->n_prompt; k++) {
        ids[k] = replay_token(x->recording, i, 0, k);
    }
    m.model = wire_text(q->model);
    m.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.tokens = ids;
    m.n_tokens = q->n_prompt;
    m.has_max_tokens = q->max_tokens > 0;
    m.max_tokens = q->max_tokens;
    m.has_n = true;
    m.n = q->n_choices;
    m.has_tenant = q->tenant[0] != '\0' && x->options.policy != REPLAY_FIFO;
    m.tenant = wire_text(q->tenant);
    m.has_tier = x->options.policy != REPLAY_FIFO;
    m.tier = tiers[q->tier];
    m.has_guaranteed = true;
    m.guaranteed = q->guaranteed;
    m.has_route = q->route[0] != '\0';
    m.route = wire_text(q->route);
    m.has_cache = !q->cache;
    m.cache = q->cache;
    m.has_want_text = true; /* the core has no tokenizer here */
    m.want_text = false;
    if (peer_call(p->peer, METHOD_INFERENCE_GENERATE, &m.base,
                  (uint32_t)((q->deadline_us + 999) / 1000), i,
                  &own->call) != ST_OK) {
        refuse(x, i);
    } else {
        x->n_open++;
        own->client = p;
        if (after_us != RECORDING_NEVER) {
            timer_set(&x->give_ups, &own->give_up, x->now_us + after_us);
        }
    }
    free(ids);
}

static void send_due(struct replay *x)
{
    const struct recording *r = x->recording;

    while (x->n_sent < r->n_requests &&
           r->requests[x->n_sent].at_us <= replay_time(x)) {
        uint32_t i = x->n_sent++;
        struct replay_peer *p = r->requests[i].lost ? NULL : next_client(x);

        if (p != NULL) {
            send_request(x, i, p);
            replay_pump(x);
        } else if (!r->requests[i].lost) {
            refuse(x, i);
        }
    }
}

static void give_up_due(struct replay *x)
{
    struct timer *t;

    while ((t = timers_pop(&x->give_ups, x->now_us)) != NULL) {
        struct replay_client_request *own =
            LIST_OF(t, struct replay_client_request, give_up);

        if (own->call != 0) {
            peer_cancel(own->client->peer, own->call);
            replay_pump(x);
        }
    }
}

/* ---- places ---- */

static void add_worker(struct replay *x, uint32_t place)
{
    x->workers = memory_must(realloc(
        x->workers, (x->n_workers + 1) * sizeof(struct replay_worker *)));
    x->workers[x->n_workers] = replay_worker_new(x, place);
    x->n_workers++;
}

static bool is_usable(const struct recorded_place *p)
{
    return p->shape.pages > 0;
}

/* Brings up n workers of each model, like the recorded places in turn. */
/* Models are compared by pointer: equal names are one. */
static void bring_alike(struct replay *x, uint32_t n)
{
    const struct recording *r = x->recording;

    for (uint32_t first = 0; first < r->n_places; first++) {
        uint32_t at = first;
        bool again = !is_usable(&r->places[first]);

        for (uint32_t i = 0; i < first; i++) {
            again = again || (is_usable(&r->places[i]) &&
                              r->places[i].model == r->places[first].model);
        }
        for (uint32_t i = 0; !again && i < n; i++) {
            add_worker(x, at);
            do {
                at = (at + 1) % r->n_places;
            } while (!is_usable(&r->places[at]) ||
                     r->places[at].model != r->places[first].model);
        }
    }
    x->next_place = r->n_places;
}

/* A place that leaves does so without a drain: what became of its sequences
 * depends on the others. */
static void move_places(struct replay *x)
{
    const struct recording *r = x->recording;

    for (; x->next_place < r->n_places &&
           r->places[x->next_place].from_us <= replay_time(x);
         x->next_place++) {
        if (is_usable(&r->places[x->next_place])) {
            add_worker(x, x->next_place);
        }
    }
    for (uint32_t i = 0; x->options.n_workers == 0 && i < x->n_workers; i++) {
        struct replay_worker *w = x->workers[i];
        int64_t until_us = r->places[w->place].until_us;

        if (!w->peer.gone && until_us != RECORDING_NEVER &&
            until_us <= replay_time(x)) {
            replay_disconnect(&w->peer);
            replay_pump(x);
        }
    }
}

/* ---- the clock ---- */

/* The core's timers are among the events: time limits, deadlines, waits for
 * a worker. */
static int64_t next_due(const struct replay *x)
{
    const struct recording *r = x->recording;
    int64_t due = min_i64(replay_net_due(x), timers_due(&x->give_ups));

    if (x->n_sent < r->n_requests) {
        due = min_i64(due, x->begin_us + r->requests[x->n_sent].at_us);
    }
    if (x->next_place < r->n_places) {
        due = min_i64(due, x->begin_us + r->places[x->next_place].from_us);
    }
    for (uint32_t i = 0; i < x->n_workers; i++) {
        const struct replay_worker *w = x->workers[i];
        int64_t until_us = r->places[w->place].until_us;

        if (!w->peer.gone && w->busy) {
            due = min_i64(due, w->due_us);
        }
        if (!w->peer.gone && until_us != RECORDING_NEVER &&
            x->options.n_workers == 0) {
            due = min_i64(due, x->begin_us + until_us);
        }
    }
    return max_i64(due, x->now_us);
}

static void go_on(struct replay *x)
{
    const struct recording *r = x->recording;
    int64_t end_us = x->begin_us + r->end_us + AFTER_US;

    while ((x->n_sent < r->n_requests || x->n_open > 0) && x->now_us < end_us) {
        move_places(x);
        send_due(x);
        give_up_due(x);
        replay_pump(x);
        for (uint32_t i = 0; i < x->n_workers; i++) {
            replay_worker_turn(x->workers[i]);
        }
        x->now_us = next_due(x);
    }
}

/* ---- a run ---- */

/* Workers are never silent here, so that time may jump past their reports.
 * Chunks to clients are gathered for as long as possible: they decide nothing.
 */
static struct router_options router_options_of(const struct replay_options *o)
{
    const struct record_options *r = &o->router;

    return (struct router_options){.name = "replay",
                                   .max_peers = REPLAY_CLIENTS,
                                   .max_admins = 1,
                                   .max_requests = r->max_requests,
                                   .max_waiting = r->max_waiting,
                                   .kept = r->kept,
                                   .tenant_quota = r->tenant_quota,
                                   .retry_budget = r->retry_budget,
                                   .queue_timeout_us = r->queue_timeout_us,
                                   .worker_wait_us = r->worker_wait_us,
                                   .silent_us = NEVER_US,
                                   .lost_us = NEVER_US,
                                   .hung_us = NEVER_US,
                                   .gather_us = GATHER_MS_MAX * 1000,
                                   .headroom = r->headroom,
                                   .admission = r->strict ? ADMISSION_STRICT
                                                          : ADMISSION_EXPECTED,
                                   .suspensions = r->suspensions,
                                   .weights = o->weights,
                                   .n_weights = o->n_weights,
                                   .recorder = o->recorder};
}

static enum status check(const struct recording *r,
                         const struct replay_options *o, struct error *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_places; i++) {
        n += is_usable(&r->places[i]);
    }
    if (n == 0 || r->n_requests == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the recording has %s: nothing can be replayed",
                         n == 0 ? "no place" : "no request");
    }
    if (o->n_workers > REPLAY_WORKERS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%" PRIu32 " workers, at most %d are allowed",
                         o->n_workers, REPLAY_WORKERS_MAX);
    }
    return ST_OK;
}

/* Nothing has happened to anybody. */
static void clear_run(struct replay_run *run, const struct recording *r)
{
    run->fates = memory_must(calloc(r->n_requests + 1, sizeof *run->fates));
    run->choices = memory_must(calloc(r->n_choices + 1, sizeof *run->choices));
    for (uint32_t i = 0; i < r->n_choices; i++) {
        run->choices[i].granted_us = run->choices[i].first_us =
            run->choices[i].end_us = RECORDING_NEVER;
    }
}

static void fini(struct replay *x)
{
    for (uint32_t i = 0; i < x->recording->n_requests; i++) {
        x->requests[i].call = 0;
        timer_clear(&x->give_ups, &x->requests[i].give_up);
    }
    replay_net_fini(x);
    for (uint32_t i = 0; i < x->n_workers; i++) {
        replay_worker_free(&x->workers[i]);
    }
    free(x->workers);
    free(x->lengths);
    free(x->requests);
    timers_fini(&x->give_ups);
}

enum status replay_run(struct replay_run *out, const struct recording *r,
                       const struct replay_options *o, struct error *e)
{
    struct router_options options = router_options_of(o);
    struct replay_run spare;
    struct replay *x;

    *out = (struct replay_run){.fates = NULL};
    if (check(r, o, e) != ST_OK) {
        return e->code;
    }
    x = memory_must(calloc(1, sizeof *x));
    clear_run(out, r);
    x->recording = r;
    x->options = *o;
    x->run = out;
    x->begin_us = x->now_us = BEGIN_US;
    x->random = 1;
    x->lengths = find_lengths(r);
    x->requests = memory_must(calloc(r->n_requests, sizeof *x->requests));
    timers_init(&x->give_ups);
    replay_net_init(x, &options);
    connect_clients(x);
    if (o->n_workers > 0) {
        bring_alike(x, o->n_workers);
    }
    go_on(x);
    *e = x->refusal;
    /* Reports at the end of the core are no fate of a request. */
    clear_run(&spare, r);
    x->run = &spare;
    fini(x);
    replay_run_fini(&spare);
    free(x);
    if (e->code == ST_OK) {
        return ST_OK;
    }
    replay_run_fini(out);
    error_wrap(e, "a recorded worker with these options");
    return e->code;
}

void replay_recorded(struct replay_run *out, const struct recording *r)
{
    clear_run(out, r);
    memcpy(out->choices, r->choices, r->n_choices * sizeof *r->choices);
    for (uint32_t i = 0; i < r->n_requests; i++) {
        out->fates[i] = (struct replay_fate){r->requests[i].refused,
                                             r->requests[i].refused_us};
    }
}

void replay_run_fini(struct replay_run *run)
{
    free(run->fates);
    free(run->choices);
    *run = (struct replay_run){.fates = NULL};
}
