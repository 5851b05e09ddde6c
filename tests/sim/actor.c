#include "tests/sim/actor.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#define MANY 300

/* Ways in which a client ends a request. */
enum wish {
    WISH_CALL_CANCEL, /* Cancel of the Generate call */
    WISH_CANCEL,
    WISH_REMOVE,
    WISH_OTHER_CANCEL, /* sent by another client */
    WISH_OTHER_REMOVE,
    WISH_ADMIN_CANCEL,
    WISH_ADMIN_REMOVE,
    WISHES
};

static uint32_t any_client(struct sim *s)
{
    return SIM_FIRST_CLIENT +
           (uint32_t)rng_below(&s->will, s->options.n_clients);
}

static bool same_client(const struct sim *s, const struct sim_request *g)
{
    return s->nodes[g->client].core &&
           s->nodes[g->client].life == g->client_life;
}

/* what: kind (enum wish) + WISHES * choice. */
static void wish(struct sim *s, uint32_t number, uint64_t what)
{
    static const enum method methods[WISHES] = {
        [WISH_CANCEL] = METHOD_INFERENCE_CANCEL,
        [WISH_REMOVE] = METHOD_INFERENCE_REMOVE,
        [WISH_OTHER_CANCEL] = METHOD_INFERENCE_CANCEL,
        [WISH_OTHER_REMOVE] = METHOD_INFERENCE_REMOVE,
        [WISH_ADMIN_CANCEL] = METHOD_ADMIN_CANCEL,
        [WISH_ADMIN_REMOVE] = METHOD_ADMIN_REMOVE};
    struct sim_request *g = &s->requests[number];
    uint32_t client = g->client, kind = (uint32_t)(what % WISHES);
    uint32_t choice = (uint32_t)(what / WISHES);

    if (kind == WISH_CALL_CANCEL) {
        if (same_client(s, g) && g->n_ends == 0) {
            sim_request_end_asked(s, g, CHOICE_ALL);
            resumable_cancel(&g->stream);
            node_soon(s, client);
        }
        return;
    }
    if (kind == WISH_OTHER_CANCEL || kind == WISH_OTHER_REMOVE) {
        client = any_client(s);
    } else if (kind >= WISH_ADMIN_CANCEL) {
        client = SIM_FIRST_CLIENT;
    }
    control_ask(s, client, methods[kind], number,
                choice < g->n_choices ? choice : CHOICE_ALL);
}

/* Draws a single choice as often as all choices. */
static uint64_t draw_wish(struct sim *s, const struct sim_request *g,
                          uint64_t kind)
{
    uint64_t choice = g->n_choices;

    if (g->n_choices > 1 && rng_below(&s->will, 2)) {
        choice = rng_below(&s->will, g->n_choices);
    }
    return kind + WISHES * choice;
}

static void wish_at(struct sim *s, const struct sim_request *g, uint64_t kind,
                    int64_t at_us)
{
    clock_add(&s->clock, at_us, wish, g->number, draw_wish(s, g, kind));
}

static void wish_later(struct sim *s, const struct sim_request *g,
                       int64_t hi_us)
{
    uint64_t kind = rng_below(&s->will, WISHES);
    int64_t at_us = sim_now(s) + rng_octave(&s->will, 1, hi_us);

    wish_at(s, g, kind, at_us);
    if (rng_below(&s->will, 4) == 0) { /* again, of the same or another kind */
        kind = rng_below(&s->will, 2) ? kind : rng_below(&s->will, WISHES);
        at_us += rng_octave(&s->will, 1, 20000);
        wish_at(s, g, kind, at_us);
    }
}

static void *allocate(size_t n)
{
    void *p = malloc(n + 1);

    if (!p) {
        abort();
    }
    return p;
}

static void draw_id(struct sim *s, struct sim_request *g)
{
    uint64_t a = rng_u64(&s->will), b = rng_u64(&s->will);

    memcpy(g->id, &a, 8);
    memcpy(g->id + 8, &b, 8);
}

static float pick(struct sim *s, const float *of, size_t n)
{
    return of[rng_below(&s->will, n)];
}

static void draw_penalties(struct sim *s, struct sampling *p)
{
    static const float repetitions[] = {1, 1.25f, REPETITION_PENALTY_MIN};
    static const float others[] = {0, 0.5f, -PENALTY_MAX};

    p->repetition_penalty = pick(s, repetitions, 3);
    p->presence_penalty = pick(s, others, 3);
    p->frequency_penalty = pick(s, others, 3);
}

/* Draws n ids, ascending and distinct. */
static void draw_ids(struct sim *s, uint32_t *ids, uint32_t n, uint32_t vocab)
{
    uint32_t step = vocab / n;

    for (uint32_t i = 0; i < n; i++) {
        ids[i] = i * step + (uint32_t)rng_below(&s->will, step);
    }
}

/* Draws a few biases, or the largest possible number. */
static void draw_biases(struct sim *s, struct sim_request *g, uint32_t vocab)
{
    uint32_t n = (uint32_t)rng_range(&s->will, 1, 8);

    if (rng_below(&s->will, 8) == 0) {
        n = vocab < LOGIT_BIASES_MAX ? vocab : LOGIT_BIASES_MAX;
    }
    g->sampling.n_biases = n;
    g->bias_tokens = allocate(n * sizeof(*g->bias_tokens));
    g->biases = allocate(n * sizeof(*g->biases));
    draw_ids(s, g->bias_tokens, n, vocab);
    for (uint32_t i = 0; i < n; i++) {
        g->biases[i] = (float)rng_range(&s->will, -100, 100);
    }
}

/* Points the sampling at the request's own lists. */
static void own_lists(struct sim_request *g)
{
    g->sampling.bias_tokens = g->bias_tokens;
    g->sampling.biases = g->biases;
    g->sampling.stop_tokens = g->stop_tokens;
}

static void draw_sampling(struct sim *s, struct sim_request *g)
{
    static const float temperatures[] = {0.0f, 0.7f, 1.0f, 1.5f};
    static const float top_ps[] = {0.5f, 0.95f, 1.0f};
    static const float min_ps[] = {0.0f, 0.05f, 1.0f};
    const struct sim_options *o = &s->options;
    uint32_t vocab = o->models[g->model].vocab;
    struct sampling *p = &g->sampling;

    *p = sampling_default();
    p->temperature = pick(s, temperatures, 4);
    p->top_k = rng_below(&s->will, 2) ? 0 : 40;
    p->top_p = pick(s, top_ps, 3);
    g->seed_given = rng_below(&s->will, 2);
    p->seed = g->seed_given ? rng_u64(&s->will) : sampling_seed(g->id);
    p->ignore_eos = rng_below(&s->will, 3) == 0;
    if (rng_chance(&s->will, o->penalties_of)) {
        draw_penalties(s, p);
    }
    if (rng_chance(&s->will, o->lists_of)) {
        p->min_p = pick(s, min_ps, 3);
        draw_biases(s, g, vocab);
    }
    if (rng_chance(&s->will, o->ends_of)) {
        p->n_stop_tokens = (uint32_t)rng_range(&s->will, 1, GENERATION_ENDS);
        draw_ids(s, g->stop_tokens, p->n_stop_tokens, vocab);
    }
    if (rng_chance(&s->will, o->logprobs_of)) {
        p->logprobs = true;
        p->n_top_logprobs =
            rng_below(&s->will, 3)
                ? (uint32_t)rng_below(&s->will, 4)
                : (uint32_t)rng_range(&s->will, 4, TOP_LOGPROBS_MAX);
    }
    own_lists(g);
}

/* Draws from the characters of the vocabulary, so that the string occurs soon,
 * later, or never. */
static void draw_stop(struct sim *s, char out[GENERATION_STOP_BYTES])
{
    static const char letters[] = "abc";
    static const char *const others[] = {"\xc3\xa9", "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80", "\xef\xbf\xbd"};
    uint32_t n = (uint32_t)rng_range(&s->will, 1, 8);

    out[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        uint64_t which = rng_below(&s->will, 12);

        (void)strncat(out, which < 4 ? others[which] : &letters[which % 3],
                      which < 4 ? 4 : 1);
    }
}

static void draw_text(struct sim *s, struct sim_request *g)
{
    const struct sim_options *o = &s->options;

    if (o->text[g->model]) {
        g->want_text = rng_chance(&s->will, o->want_text_of);
        if (rng_chance(&s->will, o->stop_of)) {
            g->n_stops = (uint32_t)rng_range(&s->will, 1, GENERATION_STOPS);
        }
    }
    if (g->defect == DEFECT_STOP) { /* any is one, without a tokenizer */
        g->n_stops = 1;
    }
    for (uint32_t i = 0; i < g->n_stops; i++) {
        draw_stop(s, g->stops[i]);
    }
    if (g->defect == DEFECT_STOP && o->text[g->model]) {
        g->stops[0][0] = '\0';
    }
}

static uint32_t draw_choices(struct sim *s)
{
    static const uint32_t numbers[] = {2, 2, 3, GENERATION_CHOICES};

    return rng_chance(&s->will, s->options.choices_of)
               ? numbers[rng_below(&s->will, 4)]
               : 1;
}

static void draw_prompt(struct sim *s, struct sim_request *g)
{
    const struct fake_model *m = &s->options.models[g->model];

    g->prompt = allocate(g->n_prompt * sizeof(*g->prompt));
    for (uint32_t i = 0; i < g->n_prompt; i++) {
        g->prompt[i] = g->as_text ? 32 + (uint32_t)rng_below(&s->will, 90)
                                  : (uint32_t)rng_below(&s->will, m->vocab);
    }
    if (g->defect == DEFECT_TOKEN) {
        g->prompt[rng_below(&s->will, g->n_prompt)] = m->vocab;
    }
}

/* Draws the lengths of prompt and answer.  Together they fit the context,
 * except for DEFECT_CONTEXT. */
static void draw_lengths(struct sim *s, struct sim_request *g)
{
    const struct sim_options *o = &s->options;
    uint32_t context = o->models[g->model].context, left;

    g->max_tokens =
        (uint32_t)rng_octave(&s->will, o->tokens_min, o->tokens_max);
    g->max_tokens = g->max_tokens < context / 2 ? g->max_tokens : context / 2;
    left = context - g->max_tokens;
    g->n_prompt = (uint32_t)rng_octave(
        &s->will, 1, o->prompt_max < left ? o->prompt_max : left);
    if (g->defect == DEFECT_EMPTY) {
        g->n_prompt = 0;
    } else if (g->defect == DEFECT_CONTEXT) {
        g->max_tokens = context - g->n_prompt + 1;
    }
}

static void draw(struct sim *s, struct sim_request *g)
{
    const struct sim_options *o = &s->options;

    /* Same distribution as the models of the workers. */
    g->model =
        rng_below(&s->will, 4) ? 0 : (uint32_t)rng_below(&s->will, o->n_models);
    if (rng_chance(&s->will, o->wrong_of)) {
        g->defect = (enum defect)rng_range(&s->will, 1, DEFECTS - 1);
    }
    draw_lengths(s, g);
    g->as_text = o->text[g->model] && g->defect != DEFECT_EMPTY &&
                 g->defect != DEFECT_TOKEN && g->n_prompt <= SIM_PROMPT_MAX &&
                 rng_chance(&s->will, o->text_of);
    draw_id(s, g);
    draw_sampling(s, g);
    draw_prompt(s, g);
    if (rng_chance(&s->will, o->keep_of)) {
        g->keep_ms = (uint32_t)rng_octave(&s->will, 1, 2000);
    }
    if (rng_chance(&s->will, o->deadline_of)) {
        g->deadline_ms = (uint32_t)rng_octave(&s->will, 1, 2000);
    }
    draw_text(s, g);
    sim_request_open(g, draw_choices(s));
    g->resumes = rng_chance(&s->will, o->resume_of);
    if (o->poison_of && rng_chance(&s->will, o->poison_of)) {
        sim_request_envenom(g, (uint32_t)rng_below(&s->will, g->max_tokens));
    }
}

static struct sim_request *new_request(struct sim *s, uint32_t client)
{
    struct sim_request *g = &s->requests[s->n_requests];

    memset(g, 0, sizeof(*g));
    g->sim = s;
    g->number = s->n_requests++;
    g->client = client;
    g->client_life = s->nodes[client].life;
    return g;
}

static void ask(struct sim *s, struct sim_request *g)
{
    if (!sim_request_ask(s, g)) {
        g->n_ends = 1; /* the call was not sent */
        return;
    }
    s->n_open++;
    s->counts.requests++;
    sim_log(s,
            "%s sends request %u (%02x%02x%02x%02x): model %u, %u prompt "
            "tokens, max_tokens %u, keep %u ms, deadline %u ms, defect %d%s, n "
            "%u, %u stops, logprobs %d%s",
            s->nodes[g->client].name, g->number, g->id[0], g->id[1], g->id[2],
            g->id[3], g->model, g->n_prompt, g->max_tokens, g->keep_ms,
            g->deadline_ms, (int)g->defect, g->as_text ? ", text" : "",
            g->n_choices, g->n_stops,
            g->sampling.logprobs ? (int)g->sampling.n_top_logprobs : -1,
            g->resumes ? ", resumes" : "");
    node_soon(s, g->client);
}

static void again_the_same(struct sim_request *g, const struct sim_request *old)
{
    g->sampling = old->sampling;
    if (old->bias_tokens) {
        size_t bytes = g->sampling.n_biases * sizeof(*g->biases);

        g->bias_tokens = allocate(bytes);
        g->biases = allocate(bytes);
        memcpy(g->bias_tokens, old->bias_tokens, bytes);
        memcpy(g->biases, old->biases, bytes);
    }
    memcpy(g->stop_tokens, old->stop_tokens, sizeof(g->stop_tokens));
    own_lists(g);
    g->want_text = old->want_text;
    g->n_stops = old->n_stops;
    memcpy(g->stops, old->stops, sizeof(g->stops));
}

/* Sends the same request again, as a client does after its session broke, or by
 * mistake. */
static void again(struct sim *s, uint32_t number, uint64_t unused)
{
    struct sim_request *old = &s->requests[number];
    uint32_t client = any_client(s);
    struct sim_request *g;

    (void)unused;
    if (!s->nodes[client].core || s->n_requests == SIM_REQUESTS_MAX) {
        return;
    }
    g = new_request(s, client);
    memcpy(g->id, old->id, sizeof(g->id));
    g->again = old->shared = true;
    g->model = old->model;
    g->as_text = old->as_text;
    g->seed_given = old->seed_given;
    g->resumes = old->resumes;
    again_the_same(g, old);
    g->n_prompt = old->n_prompt;
    g->max_tokens = old->max_tokens;
    g->prompt = allocate(g->n_prompt * sizeof(*g->prompt));
    memcpy(g->prompt, old->prompt, g->n_prompt * sizeof(*g->prompt));
    sim_request_open(g, old->n_choices);
    g->end_asked = old->end_asked; /* the Cancel may arrive later */
    for (uint32_t i = 0; i < g->n_choices; i++) {
        g->choices[i].end_asked = old->choices[i].end_asked;
    }
    ask(s, g);
}

/* Schedules a repetition: at once, while the worker still holds the remains of
 * the first, or later. */
static void again_later(struct sim *s, const struct sim_request *g, uint32_t of)
{
    if (g->defect == DEFECT_NONE && !s->closing &&
        rng_chance(&s->will, of < 5000 ? of : 5000)) {
        int64_t wait_us = rng_below(&s->will, 2)
                              ? rng_range(&s->will, 0, 100)
                              : rng_octave(&s->will, 100, 200000);

        clock_add(&s->clock, sim_now(s) + wait_us, again, g->number, 0);
    }
}

static void one_more(struct sim *s)
{
    uint32_t client = any_client(s);
    struct sim_request *g;

    if (!s->nodes[client].core || s->n_requests == SIM_REQUESTS_MAX) {
        return;
    }
    g = new_request(s, client);
    draw(s, g);
    if (rng_chance(&s->will, s->options.end_of)) {
        if (rng_below(&s->will, 10) == 0) { /* before the request exists */
            wish(s, g->number,
                 draw_wish(s, g, WISH_CANCEL + rng_below(&s->will, 2)));
        }
        wish_later(s, g, 400000);
    }
    ask(s, g);
    again_later(s, g, s->options.again_of / 4); /* while the first runs */
}

void actor_ended(struct sim *s, struct sim_request *g)
{
    uint32_t times = g->status == ST_UNAVAILABLE || g->n_asked ? 10 : 1;

    again_later(s, g, s->options.again_of * times);
    if (g->keep_ms && rng_below(&s->will, 2)) {
        wish_later(s, g, (int64_t)g->keep_ms * 1000);
    } else if (s->options.end_of && rng_below(&s->will, 20) == 0) {
        wish_later(s, g, 10000); /* after its end */
    }
}

static void look_around(struct sim *s)
{
    static const enum method methods[] = {
        METHOD_ADMIN_STATUS,          METHOD_ADMIN_LIST_WORKERS,
        METHOD_ADMIN_LIST_SEQUENCES,  METHOD_ADMIN_AUDIT,
        METHOD_INFERENCE_LIST_MODELS, METHOD_HEALTH_CHECK};

    if (rng_chance(&s->will, s->options.admin_of)) {
        control_ask(s, SIM_FIRST_CLIENT, methods[rng_below(&s->will, 6)],
                    CONTROL_NO_TARGET, CHOICE_ALL);
    }
}

static void come_back(struct sim *s, uint32_t client, uint64_t unused)
{
    (void)unused;
    if (!s->nodes[client].core) {
        node_start(s, client);
    }
}

/* Makes a client leave: with a Goodbye, by a broken connection, or killed. */
static void leave(struct sim *s)
{
    uint32_t client = any_client(s);

    if (!s->nodes[client].core || s->nodes[client].paused_us > sim_now(s)) {
        return;
    }
    for (uint32_t i = 0; i < s->n_requests; i++) {
        if (s->requests[i].client == client) {
            sim_request_doomed(&s->requests[i]);
        }
    }
    if (rng_below(&s->will, 2)) {
        client_core_drop(s->nodes[client].core, "the client hangs up");
        s->nodes[client].dropped_us = sim_now(s);
        node_soon(s, client);
        return;
    }
    if (rng_below(&s->will, 2)) {
        node_stop(s, client);
    } else {
        node_kill(s, client);
    }
    clock_add(&s->clock, sim_now(s) + rng_octave(&s->will, 1000, 500000),
              come_back, client, 0);
}

/* Pauses a client, for long enough or not to count as a dead reader. */
static void fall_asleep(struct sim *s)
{
    uint32_t client = any_client(s);

    if (s->nodes[client].paused_us > sim_now(s)) {
        return;
    }
    node_pause(s, client, rng_octave(&s->will, 1000000, 40000000));
    for (uint32_t i = 0; i < s->n_requests; i++) {
        if (s->requests[i].client == client) {
            sim_request_doomed(&s->requests[i]);
        }
    }
}

static void arrive(struct sim *s, uint32_t a, uint64_t b)
{
    int64_t gap_us = s->options.gap_us;

    (void)a;
    (void)b;
    if (s->n_requests >= SIM_REQUESTS_MIN &&
        s->counts.frames >= SIM_FRAMES_MIN) {
        s->closing = true;
    }
    if (s->closing) {
        return;
    }
    if (rng_chance(&s->will, s->options.leave_of)) {
        leave(s);
    }
    if (rng_chance(&s->will, s->options.sleep_of)) {
        fall_asleep(s);
    }
    look_around(s);
    if (s->n_open < s->options.open_max) {
        one_more(s);
    }
    if (s->n_requests > MANY) {
        gap_us *= 10; /* all are refused at once, one per frame */
    }
    clock_add(&s->clock, sim_now(s) + rng_range(&s->will, 0, gap_us * 2),
              arrive, 0, 0);
}

static bool all_are_up(const struct sim *s)
{
    struct router_worker_view view;
    const void *router = s->nodes[SIM_ROUTER].core;

    return s->options.offers.n
               ? offers_ready(s)
               : router && router_worker_view(router, s->options.n_workers - 1,
                                              &view);
}

static void wait_for_workers(struct sim *s, uint32_t a, uint64_t b)
{
    (void)a;
    (void)b;
    if (all_are_up(s)) {
        faults_start(s);
        arrive(s, 0, 0);
    } else {
        clock_add(&s->clock, sim_now(s) + 10000, wait_for_workers, 0, 0);
    }
}

void actor_start(struct sim *s)
{
    wait_for_workers(s, 0, 0);
}
