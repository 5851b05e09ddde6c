#include "gateway/calls/generation.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "gateway/calls/call_log.h"
#include "gateway/calls/respond.h"
#include "text/tokenizer.h"

/* ---- the end ---- */

/* Counts what a request used.  Requests that never began cost nothing. */
static void count(struct generation *g)
{
    struct gateway_metrics *m = g->service->metrics;
    struct gateway_tenant_counts *t =
        gateway_metrics_tenant(m, tenant_name(g->tenant));

    m->counts.prompt_tokens += g->usage.prompt;
    m->counts.cached_tokens += g->usage.cached;
    m->counts.tokens += g->usage.completion;
    t->tenant_prompt_tokens += g->usage.prompt;
    t->tenant_tokens += g->usage.completion;
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        m->counts.resumed += g->prompts[i].stream.n_resumes;
    }
    gateway_metrics_times(m, g->began_us, g->first_us,
                          service_now_us(g->service), g->usage.completion);
}

void generation_over(struct generation *g)
{
    struct service *c = g->service;
    uint64_t used = g->usage.prompt + g->usage.completion;

    if (g->state == GENERATION_OVER) {
        return;
    }
    /* The state changes first: cancelled calls end within resumable_cancel().
     */
    g->state = GENERATION_OVER;
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        if (g->prompts[i].core != NULL) {
            resumable_cancel(&g->prompts[i].stream);
        }
    }
    count(g);
    call_log_generation(g);
    if (!PLANT(GATEWAY_TENANT_LEAK) || g->n_ended == g->n_prompts) {
        tenant_end(g->tenant, service_now_us(c), g->tokens_asked, used);
    }
    timer_clear(&c->timers, &g->timer);
    list_remove(&g->node);
    list_insert(&c->ended, &g->node);
    c->n_open--;
}

static void prompt_fini(struct generation_prompt *p, uint32_t n)
{
    if (p->begun) {
        resumable_fini(&p->stream);
    }
    for (uint32_t i = 0; p->choices != NULL && i < n; i++) {
        output_parser_free(&p->choices[i].parser);
    }
    free(p->choices);
    free(p->ids);
    free(p->echo);
}

void generation_free(struct generation *g)
{
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        prompt_fini(&g->prompts[i], g->request->n);
    }
    openai_answer_free(&g->answer);
    openai_request_free(&g->request);
    free(g->stops);
    free(g->cors);
    free(g);
}

/* Begins the headers of an answer. */
static void headers(const struct generation *g, struct respond_headers *h)
{
    h->route = g->route;
    h->generation = true;
    h->n = g->cors != NULL ? strlen(g->cors) : 0;
    memcpy(h->lines, g->cors != NULL ? g->cors : "", h->n + 1);
    respond_limits(h, g->tenant, service_now_us(g->service));
    respond_request_id(h, g->prompts[0].request_id);
}

/* A client over output_bytes_max is reported gone in the server's next tick,
 * when g may be freed: the exchange forgets g here. */
void generation_end_stream(struct generation *g)
{
    g->service->metrics->counts.slow_readers += g->stalled;
    if (!PLANT(GATEWAY_GONE_LATE)) {
        http_set_user(g->x, NULL);
    }
    http_stream_end(g->x);
    g->x = NULL;
}

void generation_fail(struct generation *g, const struct openai_error *e,
                     uint32_t retry_after_ms)
{
    struct respond_headers h;

    g->failed = true;
    if (g->x != NULL && g->state == GENERATION_ANSWERING &&
        g->request->stream) {
        openai_answer_fail(g->answer, e);
        generation_end_stream(g);
    } else if (g->x != NULL) {
        headers(g, &h);
        g->status = e->http;
        respond_error(g->service, g->x, e, &h, retry_after_ms);
        g->x = NULL;
    }
    generation_over(g);
}

static void fail_status(struct generation *g, enum status st,
                        const struct error *from, const char *param)
{
    struct openai_error e;

    openai_error_of_status(&e, st, from);
    if (e.http == 400 && param != NULL) {
        snprintf(e.param, sizeof e.param, "%s", param);
    }
    generation_fail(g, &e, 0);
}

static void on_gone(struct waiter *w)
{
    struct generation *g = (struct generation *)w;
    struct gateway_counts *m = &g->service->metrics->counts;

    if (PLANT(GATEWAY_KEEPS_CALL)) {
        timer_clear(&g->service->timers, &g->timer); /* it writes to x */
        g->x = NULL;
        return;
    }
    g->gone = true;
    g->service->again = true;
    *(g->stalled ? &m->slow_readers : &m->disconnects) += 1;
    g->x = NULL;
    generation_over(g);
}

/* ---- the answer ---- */

/* A whole answer arrives in one piece, with which the exchange ends. */
static void write_whole(struct generation *g, const char *bytes, size_t n)
{
    struct respond_headers h;
    struct http_answer a = {.status = 200,
                            .content_type = openai_answer_type(g->answer),
                            .body = bytes,
                            .n = n};

    headers(g, &h);
    g->status = a.status;
    respond(g->service, g->x, &h, &a);
    g->x = NULL;
}

static void on_write(void *arg, const char *bytes, size_t n)
{
    struct generation *g = arg;

    if (g->x == NULL) {
        return;
    }
    g->last_us = service_now_us(g->service);
    if (!g->request->stream) {
        write_whole(g, bytes, n);
    } else {
        /* A client that does not read is reported by gone(), in the server's
         * next tick. */
        g->stalled = !http_stream_write(g->x, bytes, n) || g->stalled;
    }
}

static size_t token_bytes(void *arg, uint32_t token, const char **bytes)
{
    size_t n = 0;

    *bytes = tokenizer_token(arg, token, &n);
    return *bytes != NULL ? n : 0;
}

static void begin_stream(struct generation *g)
{
    struct respond_headers h;
    struct http_answer a = {.status = 200,
                            .content_type = openai_answer_type(g->answer),
                            .headers = h.lines};

    headers(g, &h);
    respond_header(&h, "cache-control", "no-cache");
    respond_header(&h, "x-accel-buffering", "no"); /* nginx must not collect */
    g->status = a.status;
    gateway_metrics_http(g->service->metrics, g->route, a.status);
    http_stream_begin(g->x, &a);
}

static void put_echo(struct generation *g)
{
    uint32_t n = g->request->n;

    for (uint32_t i = 0; i < g->n_prompts; i++) {
        const struct openai_prompt *given = &g->request->prompts[i];
        const struct generation_prompt *p = &g->prompts[i];

        for (uint32_t c = 0; c < n; c++) {
            openai_answer_echo(g->answer, i * n + c,
                               p->echo != NULL ? p->echo : given->text,
                               p->echo != NULL ? p->n_echo : given->n_text);
        }
    }
}

void generation_answer(struct generation *g)
{
    if (g->state != GENERATION_RUNNING) {
        return;
    }
    g->state = GENERATION_ANSWERING;
    if (g->request->stream && g->x != NULL) {
        begin_stream(g);
    }
    openai_answer_begin(g->answer);
    if (g->request->echo) {
        put_echo(g);
    }
}

void generation_timer(struct generation *g, int64_t now_us)
{
    static const char ping[] = ": ping\n\n";

    if (!g->request->stream || g->state == GENERATION_OVER) {
        return;
    }
    generation_answer(g);
    if (g->state == GENERATION_ANSWERING &&
        now_us - g->last_us >= SERVICE_PING_US) {
        on_write(g, ping, sizeof ping - 1);
    }
    timer_set(&g->service->timers, &g->timer,
              g->state == GENERATION_ANSWERING ? g->last_us + SERVICE_PING_US
                                               : now_us + SERVICE_OPEN_US);
}

/* ---- the prompts ---- */

static void on_encoded(struct waiter *w, struct prompt_job *j)
{
    struct generation *g = (struct generation *)w;
    struct generation_prompt *p = &g->prompts[j->index];

    g->n_jobs--;
    if (g->state == GENERATION_OVER) {
        prompt_job_free(&j);
        return;
    }
    if (j->status != ST_OK) {
        g->service->metrics->counts.template_errors += j->kind == PROMPT_CHAT;
        fail_status(g, j->status, &j->error,
                    g->request->kind == OPENAI_COMPLETION  ? "prompt"
                    : g->request->kind == OPENAI_RESPONSES ? "input"
                                                           : "messages");
    } else if (j->kind == PROMPT_DECODE) {
        p->echo = j->text;
        p->n_echo = j->n_text;
        j->text = NULL;
        /* The ids went with the job, and come back with it. */
        p->ids = j->ids;
        j->ids = NULL;
    } else {
        p->ids = j->ids;
        p->n_ids = j->n_ids;
        p->in_reasoning = j->in_reasoning;
        j->ids = NULL;
    }
    prompt_job_free(&j);
    if (g->n_jobs == 0) {
        generation_start(g);
    }
}

static void submit(struct generation *g, uint32_t index, struct prompt_job *j)
{
    struct error e;
    enum status st;

    j->model = g->model;
    j->index = index;
    j->context = generation_context(g);
    j->answer = g->request->has_max_tokens ? g->request->max_tokens : 1;
    g->n_jobs++;
    st = service_submit(g->service, &g->waiter, g->x, g->tenant, &j);
    if (st != ST_OK) {
        g->n_jobs--;
        (void)error_set(&e, ST_UNAVAILABLE,
                        "too many prompts wait to be encoded; try again");
        fail_status(g, ST_UNAVAILABLE, &e, NULL);
    }
}

/* The job gets the conversation alone: another thread reads it. */
static void submit_chat(struct generation *g)
{
    struct openai_request *r = g->request;
    struct prompt_job *j = prompt_job_new(PROMPT_CHAT);

    j->chat = (struct prompt_chat){
        .messages = r->messages,
        .tools = r->tools != NULL ? json_deep_copy(r->tools) : NULL,
        .kwargs = r->template_kwargs,
        .add_generation_prompt = r->add_generation_prompt,
        .continue_final = r->continue_final_message,
        .now_unix = g->service->options.unix_s(g->service->options.unix_arg)};
    r->messages = NULL;
    r->template_kwargs = NULL;
    submit(g, 0, j);
}

static uint32_t *copy_ids(const uint32_t *ids, size_t n)
{
    uint32_t *copy = malloc((n > 0 ? n : 1) * sizeof *copy);

    assert(copy != NULL);
    memcpy(copy, ids, n * sizeof *copy);
    return copy;
}

/* Starts the job that a prompt of a completion needs, if any. */
static void prepare_prompt(struct generation *g, uint32_t i)
{
    const struct openai_request *r = g->request;
    const struct openai_prompt *given = &r->prompts[i];
    struct generation_prompt *p = &g->prompts[i];
    struct prompt_job *j;

    if (given->text == NULL) {
        p->n_ids = given->n_ids;
        if (!r->echo) {
            p->ids = copy_ids(given->ids, given->n_ids);
            return;
        }
        j = prompt_job_new(PROMPT_DECODE);
        j->ids = copy_ids(given->ids, given->n_ids);
        j->n_ids = given->n_ids;
    } else if (served_tokenizer(g->model) != NULL) {
        j = prompt_job_new(PROMPT_TEXT);
        j->text = malloc(given->n_text + 1);
        assert(j->text != NULL);
        memcpy(j->text, given->text, given->n_text);
        j->n_text = given->n_text;
        j->parse_special = true; /* a completion's prompt is raw */
        j->add_special = r->add_special;
    } else {
        return; /* the router encodes it */
    }
    submit(g, i, j);
}

/* ---- the beginning ---- */

/* Returns whether the model can serve the request, as far as is known here. */
static bool check_model(const struct service *c, const struct openai_request *r,
                        const struct served_model *m, struct openai_error *e)
{
    bool text = served_tokenizer(m) != NULL;
    bool echo_ids = r->echo && r->n_prompts > 0 && r->prompts[0].text == NULL;

    if (m == NULL && c->list.known &&
        model_list_find(&c->list, r->model) == NULL) {
        openai_error_no_model(e, r->model);
    } else if (r->messages != NULL && (!text || m->chat == NULL)) {
        openai_error_set(e, 400, "model", NULL,
                         "the gateway has no chat template for this model; "
                         "use /v1/completions, or start the gateway with "
                         "--model and a directory that has one");
    } else if (!text && (r->sampling.logprobs || echo_ids)) {
        openai_error_set(e, 400, echo_ids ? "echo" : "logprobs", NULL,
                         "the gateway has no tokenizer for this model, so "
                         "it cannot show the text of tokens");
    } else {
        return true;
    }
    return false;
}

/* Returns the tokens that the tenant is charged now.  The exact number of the
 * prompt is known later; the end of the request settles the difference. */
static uint64_t charge(const struct service *c, const struct openai_request *r,
                       size_t body_bytes)
{
    uint64_t each = r->has_max_tokens              ? r->max_tokens
                    : r->kind == OPENAI_COMPLETION ? SERVICE_COMPLETION_TOKENS
                                                   : c->options.chat_tokens;

    return body_bytes / 4 + each * openai_request_choices(r);
}

static struct generation *generation_new(struct service *c,
                                         struct http_exchange *x,
                                         struct openai_request *r)
{
    uint32_t n_prompts = r->messages != NULL ? 1 : (uint32_t)r->n_prompts;
    struct node_io *io = upstream_io(c->upstream);
    struct generation *g =
        calloc(1, sizeof *g + n_prompts * sizeof g->prompts[0]);

    assert(g != NULL);
    g->waiter = (struct waiter){on_gone, on_encoded};
    g->service = c;
    g->x = x;
    g->request = r;
    g->model = served_model_find(c->options.models, r->model);
    g->began_us = g->last_us = service_now_us(c);
    g->n_prompts = n_prompts;
    for (uint32_t i = 0; i < n_prompts; i++) {
        struct generation_prompt *p = &g->prompts[i];
        uint64_t id[2] = {io->random(io), io->random(io)};

        p->g = g;
        p->index = i;
        memcpy(p->request_id, id, sizeof p->request_id);
        p->request_id[0] |= 1; /* never all zero */
        p->choices = calloc(r->n, sizeof *p->choices);
        assert(p->choices != NULL);
    }
    if (g->model != NULL && r->messages != NULL) {
        g->format = service_format(c, g->model);
    }
    return g;
}

static void make_answer(struct generation *g)
{
    const struct tokenizer *t = served_tokenizer(g->model);
    const struct service_options *o = &g->service->options;
    struct openai_answer_options options = {
        .request = g->request,
        .request_id = g->prompts[0].request_id,
        .created_unix = o->unix_s(o->unix_arg),
        .write = on_write,
        .arg = g,
        .vocab = t != NULL ? &g->vocab : NULL};

    /* The tokenizer is only read; a callback's argument is not const. */
    g->vocab = (struct openai_vocab){token_bytes, (void *)(uintptr_t)t};
    g->answer = openai_answer_new(&options);
}

/* Keeps what the answer needs of the request's head, which is freed now. */
static void keep_head(struct generation *g)
{
    struct respond_headers h;

    respond_headers_init(&h, g->service, g->x);
    g->route = h.route;
    if (h.n > 0) {
        g->cors = strdup(h.lines);
        assert(g->cors != NULL);
    }
}

static void begin(struct generation *g)
{
    struct service *c = g->service;

    list_insert(&c->generations, &g->node);
    c->n_open++;
    http_set_user(g->x, &g->waiter);
    keep_head(g);
    http_body_free(g->x);
    timer_set(&c->timers, &g->timer, g->began_us + SERVICE_OPEN_US);
    make_answer(g);
    if (g->request->messages != NULL) {
        submit_chat(g);
        return;
    }
    /* A refused job ends the generation: the others are not started. */
    for (uint32_t i = 0; i < g->n_prompts && g->state != GENERATION_OVER; i++) {
        prepare_prompt(g, i);
    }
    if (g->n_jobs == 0 && g->state != GENERATION_OVER) {
        generation_start(g);
    }
}

static void refuse_tenant(struct service *c, struct http_exchange *x,
                          struct tenant *tenant, const struct tenant_refusal *r)
{
    struct respond_headers h;
    struct openai_error e;
    char text[256];

    gateway_metrics_tenant(c->metrics, tenant_name(tenant))->tenant_refused++;
    tenant_refusal_text(r, text, sizeof text);
    openai_error_set(&e, 429, NULL, "rate_limit_exceeded", "%s", text);
    respond_headers_init(&h, c, x);
    respond_limits(&h, tenant, service_now_us(c));
    respond_error(c, x, &e, &h, r->retry_after_ms);
}

void generation_begin(struct service *c, struct http_exchange *x,
                      struct tenant *tenant, struct openai_request **pr)
{
    struct openai_request *r = *pr;
    struct tenant_refusal refusal;
    struct openai_error e;
    struct generation *g;
    uint64_t asked;
    size_t n_body;

    *pr = NULL;
    (void)http_body(x, &n_body);
    asked = charge(c, r, n_body);
    if (!check_model(c, r, served_model_find(c->options.models, r->model),
                     &e)) {
        openai_request_free(&r);
        respond_error(c, x, &e, NULL, 0);
        return;
    }
    if (!tenant_begin(tenant, service_now_us(c), asked, &refusal)) {
        openai_request_free(&r);
        refuse_tenant(c, x, tenant, &refusal);
        return;
    }
    g = generation_new(c, x, r);
    g->tenant = tenant;
    g->tokens_asked = asked;
    gateway_metrics_tenant(c->metrics, tenant_name(tenant))->tenant_requests++;
    begin(g);
}
