/* generation_answer.c - The answer on its way to the client. */
#include <stdio.h>
#include <string.h>

#include "gateway/calls/generation.h"
#include "gateway/calls/respond.h"
#include "text/tokenizer.h"

#define CUT_TEXT "the default limit of %u tokens cut the answer; set max_tokens"

bool generation_is_cut(const struct generation *g)
{
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        if (g->prompts[i].cut) {
            return true;
        }
    }
    return false;
}

/* Adds what an answer does differently from what its request may expect. */
static void put_warnings(const struct generation *g, struct respond_headers *h)
{
    const struct openai_request *r = g->request;
    uint32_t most = generation_tokens(g->service, g->dialect, r);

    if (!r->has_max_tokens && most != GENERATION_UNLIMITED) {
        respond_header(h, "x-sluice-default-max-tokens", "%u", most);
    }
    if (generation_is_cut(g)) {
        respond_header(h, "x-sluice-warning", CUT_TEXT, most);
    }
    respond_ignored(h, &r->values.ignored);
    if (r->template.strict) {
        respond_header(h, "x-sluice-warning",
                       "strict is not enforced: arguments may differ from the "
                       "schema");
    }
}

/* Begins the headers of an answer. */
void generation_headers(const struct generation *g, struct respond_headers *h)
{
    h->route = g->route;
    h->dialect = g->dialect;
    h->generation = true;
    h->n = g->cors != NULL ? strlen(g->cors) : 0;
    memcpy(h->lines, g->cors != NULL ? g->cors : "", h->n + 1);
    respond_limits(h, g->tenant, service_now_us(g->service));
    respond_request_id(h, g->prompts[0].request_id);
    put_warnings(g, h);
}

/* A whole answer arrives in one piece, with which the exchange ends. */
static void write_whole(struct generation *g, const char *bytes, size_t n)
{
    struct respond_headers h;
    struct http_answer a = {.status = 200,
                            .content_type = openai_answer_type(g->answer),
                            .body = bytes,
                            .n = n};

    generation_headers(g, &h);
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

/* The headers of a stream are out before its end is seen. */
void generation_remark(struct generation *g)
{
    const char *const *around = g->dialect->remark;
    char text[160];
    int n;

    if (!g->request->stream || around[0] == NULL || !generation_is_cut(g)) {
        return;
    }
    n = snprintf(text, sizeof text, "%s" CUT_TEXT "%s", around[0],
                 generation_tokens(g->service, g->dialect, g->request),
                 around[1]);
    on_write(g, text, (size_t)n);
}

bool generation_answer_new(struct generation *g)
{
    const struct tokenizer *t = served_tokenizer(g->model);
    const struct service_options *o = &g->service->options;
    struct openai_answer_options options = {
        .dialect = g->dialect,
        .request = g->request,
        .request_id = g->prompts[0].request_id,
        .created_unix = o->unix_s(o->unix_arg),
        .write = on_write,
        .arg = g,
        .vocab = t != NULL ? &g->vocab : NULL,
        .memory = http_server_memory(g->service->http)};

    /* The tokenizer is only read; a callback's argument is not const. */
    g->vocab = (struct openai_vocab){tokenizer_token_of, (void *)(uintptr_t)t};
    g->answer = openai_answer_new(&options);
    return g->answer != NULL;
}

static void begin_stream(struct generation *g)
{
    struct respond_headers h;
    struct http_answer a = {.status = 200,
                            .content_type = openai_answer_type(g->answer),
                            .headers = h.lines};

    generation_headers(g, &h);
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
    openai_answer_usage(g->answer, &g->usage); /* of the prompt */
    openai_answer_begin(g->answer);
    if (g->request->echo) {
        put_echo(g);
    }
    (void)!generation_whole(g);
}

/* A comment that shows people and proxies that the request lives; false: the
 * dialect has none. */
static bool show_wait(struct generation *g, int64_t now_us)
{
    const char *const *around = g->dialect->remark;
    char text[128];
    int n;

    if (around[0] == NULL) {
        return false;
    }
    n = snprintf(text, sizeof text, "%swaiting for the first token, %d s%s",
                 around[0], (int)((now_us - g->began_us + 500000) / 1000000),
                 around[1]);
    on_write(g, text, (size_t)n);
    return true;
}

/* Returns the time between signs of life. */
static int64_t quiet_us(const struct generation *g)
{
    return g->first_us == 0 && g->dialect->remark[0] != NULL ? SERVICE_WAIT_US
                                                             : SERVICE_PING_US;
}

static void show_life(struct generation *g, int64_t now_us)
{
    const char *ping = g->dialect->ping;

    if (g->first_us == 0 && show_wait(g, now_us)) {
        return;
    }
    if (ping != NULL && now_us - g->last_us >= SERVICE_PING_US) {
        on_write(g, ping, strlen(ping));
    }
}

void generation_timer(struct generation *g, int64_t now_us)
{
    bool begins = g->state == GENERATION_RUNNING;

    if (!g->request->stream || g->state == GENERATION_OVER) {
        return;
    }
    generation_answer(g);
    if (g->state == GENERATION_OVER) {
        return;
    }
    if (g->state == GENERATION_ANSWERING &&
        (begins || now_us - g->last_us >= quiet_us(g))) {
        show_life(g, now_us);
    }
    timer_set(&g->service->timers, &g->timer,
              g->state == GENERATION_ANSWERING ? g->last_us + quiet_us(g)
                                               : now_us + SERVICE_OPEN_US);
}
