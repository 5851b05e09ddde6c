#include "tests/sim/actor.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/prompts.h"
#include "tests/sim/sim.h"

#define LENGTHS_PERIOD 16 /* requests between two changes of lengths */
#define MANY           300
#define WEB_DIGITS     8 /* of a request's number, to the base 3 */

/* Ways in which a client ends a request. */
enum end_way {
    BY_CALL_CANCEL, /* Cancel of the Generate call */
    BY_CANCEL,
    BY_REMOVE,
    BY_OTHER_CANCEL, /* sent by another client */
    BY_OTHER_REMOVE,
    BY_ADMIN_CANCEL,
    BY_ADMIN_REMOVE,
    END_WAYS
};

static uint32_t any_client(struct sim *s)
{
    return SIM_FIRST_CLIENT +
           (uint32_t)rng_below(&s->will, s->options.n_clients);
}

static bool same_client(const struct sim *s, const struct sim_request *request)
{
    return s->nodes[request->client].core &&
           s->nodes[request->client].life == request->client_life;
}

/* Ends a request; what: kind (enum end_way) + END_WAYS * choice. */
static void end_request(struct sim *s, uint32_t number, uint64_t what)
{
    static const enum method methods[END_WAYS] = {
        [BY_CANCEL] = METHOD_INFERENCE_CANCEL,
        [BY_REMOVE] = METHOD_INFERENCE_REMOVE,
        [BY_OTHER_CANCEL] = METHOD_INFERENCE_CANCEL,
        [BY_OTHER_REMOVE] = METHOD_INFERENCE_REMOVE,
        [BY_ADMIN_CANCEL] = METHOD_ADMIN_CANCEL,
        [BY_ADMIN_REMOVE] = METHOD_ADMIN_REMOVE};
    struct sim_request *request = &s->requests[number];
    uint32_t client = request->client, kind = (uint32_t)(what % END_WAYS);
    uint32_t choice = (uint32_t)(what / END_WAYS);

    if (kind == BY_CALL_CANCEL) {
        if (same_client(s, request) && request->n_ends == 0) {
            sim_request_end_asked(s, request, CHOICE_ALL);
            resumable_cancel(&request->stream);
            node_soon(s, client);
        }
        return;
    }
    if (kind == BY_OTHER_CANCEL || kind == BY_OTHER_REMOVE) {
        client = any_client(s);
    } else if (kind >= BY_ADMIN_CANCEL) {
        client = SIM_FIRST_CLIENT;
    }
    control_ask(s, client, methods[kind], number,
                choice < request->n_choices ? choice : CHOICE_ALL);
}

/* Draws a single choice as often as all choices. */
static uint64_t draw_end(struct sim *s, const struct sim_request *request,
                         uint64_t kind)
{
    uint64_t choice = request->n_choices;

    if (request->n_choices > 1 && rng_below(&s->will, 2)) {
        choice = rng_below(&s->will, request->n_choices);
    }
    return kind + END_WAYS * choice;
}

static void end_at(struct sim *s, const struct sim_request *request,
                   uint64_t kind, int64_t at_us)
{
    clock_add(&s->clock, at_us, end_request, request->number,
              draw_end(s, request, kind));
}

static void end_later(struct sim *s, const struct sim_request *request,
                      int64_t hi_us)
{
    uint64_t kind = rng_below(&s->will, END_WAYS);
    int64_t at_us = sim_now(s) + rng_octave(&s->will, 1, hi_us);

    end_at(s, request, kind, at_us);
    if (rng_below(&s->will, 4) == 0) { /* again, of the same or another kind */
        kind = rng_below(&s->will, 2) ? kind : rng_below(&s->will, END_WAYS);
        at_us += rng_octave(&s->will, 1, 20000);
        end_at(s, request, kind, at_us);
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

static void draw_id(struct sim *s, struct sim_request *request)
{
    uint64_t a = rng_u64(&s->will), b = rng_u64(&s->will);

    memcpy(request->id, &a, 8);
    memcpy(request->id + 8, &b, 8);
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
static void draw_biases(struct sim *s, struct sim_request *request,
                        uint32_t vocab)
{
    uint32_t n = (uint32_t)rng_range(&s->will, 1, 8);

    if (rng_below(&s->will, 8) == 0) {
        n = vocab < LOGIT_BIASES_MAX ? vocab : LOGIT_BIASES_MAX;
    }
    request->sampling.n_biases = n;
    request->bias_tokens = allocate(n * sizeof(*request->bias_tokens));
    request->biases = allocate(n * sizeof(*request->biases));
    draw_ids(s, request->bias_tokens, n, vocab);
    for (uint32_t i = 0; i < n; i++) {
        request->biases[i] = (float)rng_range(&s->will, -100, 100);
    }
}

/* Points the sampling at the request's own lists. */
static void own_lists(struct sim_request *request)
{
    request->sampling.bias_tokens = request->bias_tokens;
    request->sampling.biases = request->biases;
    request->sampling.stop_tokens = request->stop_tokens;
}

/* The router must learn lengths first. */
static uint32_t requests_min(const struct sim *s)
{
    return SIM_REQUESTS_MIN * (s->options.swaps             ? 6
                               : s->options.suspensions > 0 ? 3
                                                            : 1);
}

/* One in so many requests ignores end tokens.  With optimistic admission few
 * do, so that short outputs are learned.  Where lengths change, all of every
 * third period do. */
static uint32_t ignore_eos_of(const struct sim *s)
{
    const struct sim_options *o = &s->options;

    if (o->suspensions == 0) {
        return 3;
    }
    return o->lengths_change && s->n_requests / LENGTHS_PERIOD % 6 == 5 ? 1
                                                                        : 16;
}

static void draw_sampling(struct sim *s, struct sim_request *request)
{
    static const float temperatures[] = {0.0f, 0.7f, 1.0f, 1.5f};
    static const float top_ps[] = {0.5f, 0.95f, 1.0f};
    static const float min_ps[] = {0.0f, 0.05f, 1.0f};
    const struct sim_options *o = &s->options;
    uint32_t vocab = o->models[request->model].vocab;
    struct sampling *p = &request->sampling;

    *p = sampling_default();
    p->temperature = pick(s, temperatures, 4);
    p->top_k = rng_below(&s->will, 2) ? 0 : 40;
    p->top_p = pick(s, top_ps, 3);
    request->seed_given = rng_below(&s->will, 2);
    p->seed =
        request->seed_given ? rng_u64(&s->will) : sampling_seed(request->id);
    p->ignore_eos = rng_below(&s->will, ignore_eos_of(s)) == 0;
    if (rng_chance(&s->will, o->penalties_of)) {
        draw_penalties(s, p);
    }
    if (rng_chance(&s->will, o->lists_of)) {
        p->min_p = pick(s, min_ps, 3);
        draw_biases(s, request, vocab);
    }
    if (rng_chance(&s->will, o->ends_of)) {
        p->n_stop_tokens = (uint32_t)rng_range(&s->will, 1, REQUEST_ENDS);
        draw_ids(s, request->stop_tokens, p->n_stop_tokens, vocab);
    }
    if (rng_chance(&s->will, o->logprobs_of)) {
        p->logprobs = true;
        p->n_top_logprobs =
            rng_below(&s->will, 3)
                ? (uint32_t)rng_below(&s->will, 4)
                : (uint32_t)rng_range(&s->will, 4, TOP_LOGPROBS_MAX);
    }
    own_lists(request);
}

/* Draws from the characters of the vocabulary, so that the string occurs soon,
 * later, or never. */
static void draw_stop(struct sim *s, char out[REQUEST_STOP_BYTES])
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

static void draw_text(struct sim *s, struct sim_request *request)
{
    const struct sim_options *o = &s->options;

    if (o->text[request->model]) {
        request->want_text = rng_chance(&s->will, o->want_text_of);
        if (rng_chance(&s->will, o->stop_of)) {
            request->n_stops = (uint32_t)rng_range(&s->will, 1, REQUEST_STOPS);
        }
    }
    if (request->defect == DEFECT_STOP) { /* any is one, without a tokenizer */
        request->n_stops = 1;
    }
    for (uint32_t i = 0; i < request->n_stops; i++) {
        draw_stop(s, request->stops[i]);
    }
    if (request->defect == DEFECT_STOP && o->text[request->model]) {
        request->stops[0][0] = '\0';
    }
}

static uint32_t draw_choices(struct sim *s)
{
    static const uint32_t numbers[] = {2, 2, 3, REQUEST_CHOICES};

    return rng_chance(&s->will, s->options.choices_of)
               ? numbers[rng_below(&s->will, 4)]
               : 1;
}

/* Draws the lengths of prompt and answer.  Together they fit the context,
 * except for DEFECT_CONTEXT. */
static void draw_lengths(struct sim *s, struct sim_request *request)
{
    const struct sim_options *o = &s->options;
    uint32_t context = o->models[request->model].context, left;

    request->max_tokens =
        (uint32_t)rng_octave(&s->will, o->tokens_min, o->tokens_max);
    request->max_tokens =
        request->max_tokens < context / 2 ? request->max_tokens : context / 2;
    left = context - request->max_tokens;
    request->n_prompt = (uint32_t)rng_octave(
        &s->will, 1, o->prompt_max < left ? o->prompt_max : left);
    if (request->defect == DEFECT_EMPTY) {
        request->n_prompt = 0;
    } else if (request->defect == DEFECT_CONTEXT) {
        request->max_tokens = context - request->n_prompt + 1;
    }
}

static void draw(struct sim *s, struct sim_request *request)
{
    const struct sim_options *o = &s->options;

    /* Same distribution as the models of the workers. */
    request->model =
        rng_below(&s->will, 4) ? 0 : (uint32_t)rng_below(&s->will, o->n_models);
    if (rng_chance(&s->will, o->wrong_of)) {
        request->defect = (enum defect)rng_range(&s->will, 1, DEFECTS - 1);
    }
    draw_lengths(s, request);
    request->as_text =
        o->text[request->model] && request->defect != DEFECT_EMPTY &&
        request->defect != DEFECT_TOKEN &&
        request->n_prompt <= SIM_PROMPT_MAX && rng_chance(&s->will, o->text_of);
    draw_id(s, request);
    draw_sampling(s, request);
    prompts_draw(s, request);
    prompts_draw_cache(s, request);
    if (rng_chance(&s->will, o->keep_of)) {
        request->keep_ms = (uint32_t)rng_octave(&s->will, 1, 2000);
    }
    if (rng_chance(&s->will, o->deadline_of)) {
        request->deadline_ms = (uint32_t)rng_octave(&s->will, 1, 2000);
    }
    draw_text(s, request);
    sim_request_open(request, draw_choices(s));
    request->resumes = rng_chance(&s->will, o->resume_of);
    if (o->poison_of && rng_chance(&s->will, o->poison_of)) {
        sim_request_envenom(request,
                            (uint32_t)rng_below(&s->will, request->max_tokens));
    } else if (s->hurt_of && rng_chance(&s->will, s->hurt_of)) {
        sim_request_hurt(request,
                         rng_below(&s->will, 2) ? DAMAGE_ROW : DAMAGE_STEP,
                         (uint32_t)rng_below(&s->will, request->max_tokens));
    }
}

static struct sim_request *new_request(struct sim *s, uint32_t client)
{
    struct sim_request *request = &s->requests[s->n_requests];

    memset(request, 0, sizeof(*request));
    request->sim = s;
    request->number = s->n_requests++;
    request->client = client;
    request->client_life = s->nodes[client].life;
    return request;
}

struct sim_request *actor_request(struct sim *s, uint32_t client)
{
    struct sim_request *request = new_request(s, client);

    draw(s, request);
    return request;
}

void actor_ask(struct sim *s, struct sim_request *request)
{
    if (!sim_request_ask(s, request)) {
        request->n_ends = 1; /* the call was not sent */
        return;
    }
    s->n_open++;
    s->counts.requests++;
    sim_log(
        s,
        "%s sends request %u (%02x%02x%02x%02x): model %u, %u prompt "
        "tokens, max_tokens %u, keep %u ms, deadline %u ms, defect %d%s, n "
        "%u, %u stops, logprobs %d%s",
        s->nodes[request->client].name, request->number, request->id[0],
        request->id[1], request->id[2], request->id[3], request->model,
        request->n_prompt, request->max_tokens, request->keep_ms,
        request->deadline_ms, (int)request->defect,
        request->as_text ? ", text" : "", request->n_choices, request->n_stops,
        request->sampling.logprobs ? (int)request->sampling.n_top_logprobs : -1,
        request->resumes ? ", resumes" : "");
    node_soon(s, request->client);
}

static void again_the_same(struct sim_request *request,
                           const struct sim_request *old)
{
    request->sampling = old->sampling;
    if (old->bias_tokens) {
        size_t bytes = request->sampling.n_biases * sizeof(*request->biases);

        request->bias_tokens = allocate(bytes);
        request->biases = allocate(bytes);
        memcpy(request->bias_tokens, old->bias_tokens, bytes);
        memcpy(request->biases, old->biases, bytes);
    }
    memcpy(request->stop_tokens, old->stop_tokens,
           sizeof(request->stop_tokens));
    own_lists(request);
    request->want_text = old->want_text;
    request->n_stops = old->n_stops;
    memcpy(request->stops, old->stops, sizeof(request->stops));
}

/* Sends the same request again, as a client does after its session broke, or by
 * mistake. */
static void again(struct sim *s, uint32_t number, uint64_t unused)
{
    struct sim_request *old = &s->requests[number];
    uint32_t client = any_client(s);
    struct sim_request *request;

    (void)unused;
    if (!s->nodes[client].core || s->n_requests == SIM_REQUESTS_MAX) {
        return;
    }
    request = new_request(s, client);
    memcpy(request->id, old->id, sizeof(request->id));
    request->again = old->shared = true;
    request->model = old->model;
    request->as_text = old->as_text;
    request->seed_given = old->seed_given;
    request->resumes = old->resumes;
    again_the_same(request, old);
    request->tenant = old->tenant;
    request->no_cache = old->no_cache;
    request->n_prompt = old->n_prompt;
    request->max_tokens = old->max_tokens;
    request->prompt = allocate(request->n_prompt * sizeof(*request->prompt));
    memcpy(request->prompt, old->prompt,
           request->n_prompt * sizeof(*request->prompt));
    sim_request_open(request, old->n_choices);
    request->end_asked = old->end_asked; /* the Cancel may arrive later */
    for (uint32_t i = 0; i < request->n_choices; i++) {
        request->choices[i].end_asked = old->choices[i].end_asked;
    }
    actor_ask(s, request);
}

/* Schedules a repetition: at once, while the worker still holds the remains of
 * the first, or later. */
static void again_later(struct sim *s, const struct sim_request *request,
                        uint32_t of)
{
    if (request->defect == DEFECT_NONE && !s->closing && !request->continues &&
        rng_chance(&s->will, of < 5000 ? of : 5000)) {
        int64_t wait_us = rng_below(&s->will, 2)
                              ? rng_range(&s->will, 0, 100)
                              : rng_octave(&s->will, 100, 200000);

        clock_add(&s->clock, sim_now(s) + wait_us, again, request->number, 0);
    }
}

static void one_more(struct sim *s)
{
    uint32_t client = any_client(s);
    struct sim_request *request;

    if (!s->nodes[client].core || s->n_requests == SIM_REQUESTS_MAX) {
        return;
    }
    request = actor_request(s, client);
    if (rng_chance(&s->will, s->options.end_of)) {
        if (rng_below(&s->will, 10) == 0) { /* before the request exists */
            end_request(
                s, request->number,
                draw_end(s, request, BY_CANCEL + rng_below(&s->will, 2)));
        }
        end_later(s, request, 400000);
    }
    actor_ask(s, request);
    again_later(s, request, s->options.again_of / 4); /* while the first runs */
}

void actor_follow(struct sim *s, uint32_t number, uint32_t choice,
                  uint32_t known, bool continues)
{
    const struct sim_request *old = &s->requests[number];
    uint32_t client = rng_below(&s->will, 4) ? old->client : any_client(s);
    uint32_t more = (uint32_t)rng_octave(&s->will, 1, 64);
    struct sim_request *request;

    if (!s->nodes[client].core || s->n_requests == SIM_REQUESTS_MAX) {
        return;
    }
    request = new_request(s, client);
    /* Without any prompt in one of four cases. */
    if (continues && known > 0 && mix64(s->seed ^ request->number) % 4 == 0) {
        more = 0;
    }
    request->model = old->model;
    request->max_tokens = (uint32_t)rng_range(&s->will, 1, old->max_tokens);
    if (!prompts_follow(s, request, old, choice, known, more, continues)) {
        s->n_requests--;
        return;
    }
    draw_id(s, request);
    draw_sampling(s, request);
    if (continues) {
        prompts_follow_draws(request, old, choice, known);
    }
    draw_text(s, request);
    request->keep_ms = old->keep_ms;
    sim_request_open(request, continues ? 1 : draw_choices(s));
    request->resumes = rng_chance(&s->will, s->options.resume_of);
    if (rng_chance(&s->will, s->options.end_of)) {
        end_later(s, request, 400000);
    }
    actor_ask(s, request);
}

/* ---- requests over HTTP ---- */

/* Returns the id of letter 0..2 where the prompt is encoded: by the gateway or
 * by the router (fake_text.h). */
static uint32_t letter(const struct sim *s, const struct sim_request *request,
                       uint32_t i)
{
    bool texts = s->options.gateways.texts && s->options.text[request->model];

    return request->as_text && !texts ? 'a' + i : i;
}

static void draw_web_prompt(struct sim *s, struct sim_request *request)
{
    uint32_t number = request->number;

    request->prompt = allocate(request->n_prompt * sizeof(*request->prompt));
    for (uint32_t i = 0; i < request->n_prompt; i++) {
        uint32_t drawn = (uint32_t)rng_below(&s->will, 3);

        request->prompt[i] =
            letter(s, request, i < WEB_DIGITS ? number % 3 : drawn);
        number /= 3;
    }
}

static void draw_web(struct sim *s, struct sim_request *request)
{
    draw_lengths(s, request);
    draw_sampling(s, request);
    draw_text(s, request);
    request->as_text = rng_below(&s->will, 2);
    if (!s->options.gateways.texts) {
        request->sampling.logprobs = false;
        request->sampling.n_top_logprobs = 0;
    }
}

static void like_other(struct sim_request *request,
                       const struct sim_request *like)
{
    again_the_same(request, like);
    request->max_tokens = like->max_tokens;
    request->n_prompt = like->n_prompt;
    request->as_text = like->as_text;
    request->seed_given = like->seed_given;
}

struct sim_request *actor_web_request(struct sim *s, uint32_t gateway,
                                      const struct sim_request *like)
{
    const struct sim_options *o = &s->options;
    struct sim_request *request = new_request(s, gateway);

    request->web = request->resumes = true;
    if (like) {
        request->model = like->model;
        like_other(request, like);
    } else {
        request->model = rng_below(&s->will, 4)
                             ? 0
                             : (uint32_t)rng_below(&s->will, o->n_models);
        if (!o->text[request->model] && rng_below(&s->will, 8)) {
            request->model = 0; /* others have no text, and are refused */
        }
        draw_web(s, request);
    }
    request->want_text = o->text[request->model];
    if (!request->want_text) {
        request->defect = DEFECT_STOP; /* its router cannot make the text */
    }
    request->n_prompt = request->n_prompt < WEB_DIGITS ? WEB_DIGITS
                        : request->n_prompt > SIM_PROMPT_MAX
                            ? SIM_PROMPT_MAX
                            : request->n_prompt;
    draw_web_prompt(s, request);
    request->asked_us = sim_now(s);
    request->n_ended = s->n_ended[request->model];
    sim_request_open(request, like ? like->n_choices : draw_choices(s));
    if (like) {
        request->has_drafts = like->has_drafts;
        request->drafts = like->drafts;
    }
    if (!like && o->poison_of && rng_chance(&s->will, o->poison_of)) {
        sim_request_envenom(request,
                            (uint32_t)rng_below(&s->will, request->max_tokens));
    }
    return request;
}

void actor_ended(struct sim *s, struct sim_request *request)
{
    uint32_t times =
        request->status == ST_UNAVAILABLE || request->n_asked ? 10 : 1;

    if (s->script) {
        return;
    }
    sessions_ended(s, request);
    again_later(s, request, s->options.again_of * times);
    if (request->keep_ms && rng_below(&s->will, 2)) {
        end_later(s, request, (int64_t)request->keep_ms * 1000);
    } else if (s->options.end_of && rng_below(&s->will, 20) == 0) {
        end_later(s, request, 10000); /* after its end */
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
    if (s->n_requests >= requests_min(s) &&
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
        script_start(s);
    } else {
        clock_add(&s->clock, sim_now(s) + 10000, wait_for_workers, 0, 0);
    }
}

void actor_start(struct sim *s)
{
    wait_for_workers(s, 0, 0);
}
