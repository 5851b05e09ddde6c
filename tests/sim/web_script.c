#include "tests/sim/web_script.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/calls/service.h"
#include "tests/sim/sim.h"

struct text {
    char *data; /* [n], owned */
    size_t n, capacity;
};

static void room(struct text *t, size_t n)
{
    if (t->n + n + 1 > t->capacity) {
        t->capacity = 2 * (t->n + n + 1);
        t->data = realloc(t->data, t->capacity);
        if (!t->data) {
            abort();
        }
    }
}

static void put_bytes(struct text *t, const char *data, size_t n)
{
    room(t, n);
    memcpy(t->data + t->n, data, n);
    t->n += n;
    t->data[t->n] = '\0';
}

static void put(struct text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *fmt, ...)
{
    char piece[256];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(piece, sizeof(piece), fmt, ap);
    va_end(ap);
    put_bytes(t, piece, strlen(piece));
}

/* ---- a request that generates ---- */

/* All values are given: a model's own defaults do not matter. */
static void put_sampling(struct text *t, const struct sim_request *request,
                         bool chat)
{
    const struct sampling *p = &request->sampling;

    put(t, ",\"temperature\":%.9g,\"top_p\":%.9g,\"min_p\":%.9g,\"top_k\":%u",
        (double)p->temperature, (double)p->top_p, (double)p->min_p, p->top_k);
    put(t,
        ",\"repetition_penalty\":%.9g,\"presence_penalty\":%.9g,"
        "\"frequency_penalty\":%.9g",
        (double)p->repetition_penalty, (double)p->presence_penalty,
        (double)p->frequency_penalty);
    put(t, ",\"ignore_eos\":%s", p->ignore_eos ? "true" : "false");
    if (p->logprobs && chat) {
        put(t, ",\"logprobs\":true,\"top_logprobs\":%u", p->n_top_logprobs);
    } else if (p->logprobs) {
        put(t, ",\"logprobs\":%u", p->n_top_logprobs);
    }
    if (request->seed_given) {
        put(t, ",\"seed\":%" PRId64, (int64_t)p->seed);
    }
}

static void put_lists(struct text *t, const struct sim_request *request)
{
    const struct sampling *p = &request->sampling;

    put(t, ",\"stop\":[");
    for (uint32_t i = 0; i < request->n_stops; i++) {
        put(t, "%s\"%s\"", i ? "," : "", request->stops[i]);
    }
    put(t, "],\"stop_token_ids\":[");
    for (uint32_t i = 0; i < p->n_stop_tokens; i++) {
        put(t, "%s%u", i ? "," : "", p->stop_tokens[i]);
    }
    put(t, "],\"logit_bias\":{");
    for (uint32_t i = 0; i < p->n_biases; i++) {
        put(t, "%s\"%u\":%.9g", i ? "," : "", p->bias_tokens[i],
            (double)p->biases[i]);
    }
    put(t, "}");
}

char web_letter(const struct sim_request *request, uint32_t i)
{
    return "abc"[request->prompt[i] % 'a'];
}

/* A prompt as text, or as ids. */
static void put_prompt(struct text *t, const struct sim_request *request)
{
    put(t, request->as_text ? "\"" : "[");
    for (uint32_t i = 0; i < request->n_prompt; i++) {
        if (request->as_text) {
            put(t, "%c", web_letter(request, i));
        } else {
            put(t, "%s%u", i ? "," : "", request->prompt[i]);
        }
    }
    put(t, request->as_text ? "\"" : "]");
}

static void put_prompts(struct text *t, const struct sim *s,
                        const struct web_call *call)
{
    if (call->kind == WEB_CHAT) {
        put(t, ",\"messages\":[{\"role\":\"user\",\"content\":");
        put_prompt(t, &s->requests[call->first]);
        put(t, "}]");
        return;
    }
    put(t, ",\"prompt\":%s", call->n > 1 ? "[" : "");
    for (uint32_t i = 0; i < call->n; i++) {
        put(t, i ? "," : "");
        put_prompt(t, &s->requests[call->first + i]);
    }
    put(t, call->n > 1 ? "]" : "");
}

/* Makes a body so long that a thread parses it. */
static void put_padding(struct text *t)
{
    size_t n = SERVICE_PARSE_BYTES;

    put(t, ",\"user\":\"");
    room(t, n);
    memset(t->data + t->n, 'x', n);
    t->n += n;
    put(t, "\"");
}

static void put_body(struct text *t, const struct sim *s,
                     const struct web_call *call)
{
    const struct sim_request *request = &s->requests[call->first];

    put(t, "{\"model\":\"m%u\",\"max_tokens\":%u,\"n\":%u", request->model,
        request->max_tokens, request->n_choices);
    put_prompts(t, s, call);
    put_sampling(t, request, call->kind == WEB_CHAT);
    put_lists(t, request);
    if (request->has_drafts) {
        put(t, ",\"drafts\":%u", request->drafts);
    }
    if (call->echo) {
        put(t, ",\"echo\":true");
    }
    if (call->padded) {
        put_padding(t);
    }
    put(t, ",\"stream\":%s", call->stream ? "true" : "false");
    if (call->stream && call->include_usage) {
        put(t, ",\"stream_options\":{\"include_usage\":true}");
    }
    put(t, "}");
}

/* Appends a body in chunks of drawn sizes. */
static void put_chunks(struct sim *s, struct text *t, const struct text *body)
{
    for (size_t at = 0; at < body->n;) {
        size_t n = (size_t)rng_octave(&s->will, 1, (int64_t)(body->n - at));

        put(t, "%zx\r\n", n);
        put_bytes(t, body->data + at, n);
        put(t, "\r\n");
        at += n;
    }
    put(t, "0\r\n\r\n");
}

static void put_request(struct sim *s, struct text *t,
                        const struct web_call *call)
{
    struct text body = {0};

    put_body(&body, s, call);
    put(t,
        "POST /v1/%s HTTP/1.%d\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\n",
        call->kind == WEB_CHAT ? "chat/completions" : "completions",
        call->old_version ? 0 : 1);
    if (!call->old_version && rng_below(&s->will, 4) == 0) {
        put(t, "Transfer-Encoding: chunked\r\n\r\n");
        put_chunks(s, t, &body);
    } else {
        put(t, "Content-Length: %zu\r\n\r\n", body.n);
        put_bytes(t, body.data, body.n);
    }
    free(body.data);
}

/* Draws the prompts; those of one call share all but the prompt. */
static void draw_prompts(struct web_conn *c, struct web_call *call)
{
    struct sim *s = c->sim;
    const struct sim_request *request = actor_web_request(s, c->gateway, NULL);
    bool text = s->options.text[request->model];

    call->first = request->number;
    call->n = 1;
    if (request->as_text && text && s->options.gateways.texts &&
        rng_chance(&s->will, s->options.gateways.chat_of)) {
        call->kind = WEB_CHAT;
    } else if (!request->poison && rng_below(&s->will, 6) == 0) {
        call->n = (uint32_t)rng_range(&s->will, 2, WEB_PROMPTS_MAX);
    }
    for (uint32_t i = 1; i < call->n; i++) {
        (void)actor_web_request(s, c->gateway, &s->requests[call->first]);
    }
    s->counts.requests += call->n;
}

/* Draws an echo, where the gateway has the text and no logprobs are asked. */
static void draw_echo(struct web_conn *c, struct web_call *call)
{
    struct sim *s = c->sim;
    const struct sim_request *request = &s->requests[call->first];

    call->echo = call->kind == WEB_COMPLETION && !request->sampling.logprobs &&
                 (request->as_text || s->options.gateways.texts) &&
                 s->options.text[request->model] && rng_below(&s->will, 6) == 0;
}

/* A server closes the connection of a client of HTTP/1.0. */
static void draw_generation(struct web_conn *c, struct web_call *call,
                            struct text *t)
{
    struct sim *s = c->sim;

    call->kind = WEB_COMPLETION;
    call->stream = rng_chance(&s->will, s->options.gateways.stream_of);
    call->include_usage = rng_below(&s->will, 2);
    draw_prompts(c, call);
    draw_echo(c, call);
    call->old_version = rng_below(&s->will, 12) == 0;
    call->ends_conn = call->old_version;
    call->padded = rng_below(&s->will, 60) == 0;
    put_request(s, t, call);
}

/* ---- other requests ---- */

#define POST(path, length)                                                  \
    "POST " path " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " #length \
    "\r\n\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* Requests that generate nothing, and those that are refused. */
static const struct other {
    const char *bytes;
    int status;
    bool ends_conn, head_only;
} others[] = {
    {GET("/health"), 200, false, false},
    {GET("/v1/models"), 200, false, false},
    {"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, false, true},
    {GET("/v1/nothing"), 404, false, false},
    {GET("/v1/completions"), 405, false, false},
    {POST("/v1/completions", 10) "{\"model\":\"", 400, false, false},
    {POST("/v1/completions", 2) "[]", 400, false, false},
    {POST("/v1/completions", 14) "{\"model\":\"m0\"}", 400, false, false},
    {POST("/v1/completions",
          38) "{\"model\":\"m0\",\"prompt\":\"a\",\"format\":1}",
     400, false, false},
    {POST("/v1/completions", 33) "{\"model\":\"m0\",\"prompt\":\"a\",\"n\":0}",
     400, false, false},
    {POST("/v1/completions", 26) "{\"model\":\"m0\",\"prompt\":[]}", 400, false,
     false},
    {POST("/v1/chat/completions", 28) "{\"model\":\"m0\",\"messages\":[]}", 400,
     false, false},
    {"GET /health HTTP/1.1\r\n\r\n", 400, true, false},
    {"What is this?\r\n\r\n", 400, true, false},
    {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
     "2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, true, false},
};

static void draw_other(struct sim *s, struct web_call *call, struct text *t)
{
    const struct other *o =
        &others[rng_below(&s->will, sizeof(others) / sizeof(others[0]))];

    call->kind = WEB_OTHER;
    call->status = o->status;
    call->ends_conn = o->ends_conn;
    call->head_only = o->head_only;
    call->lists = strstr(o->bytes, "/v1/models") != NULL;
    s->counts.cells.deeds[DEED_WEB_MALFORMED] += o->status != 200;
    put_bytes(t, o->bytes, strlen(o->bytes));
}

void web_script_add(struct web_conn *c)
{
    struct sim *s = c->sim;
    struct web_call *call = &c->calls[c->n_calls++];
    struct text t = {c->script, c->n_script, c->n_script};

    call->conn = c->number;
    if (rng_chance(&s->will, s->options.gateways.wrong_of)) {
        draw_other(s, call, &t);
    } else {
        draw_generation(c, call, &t);
    }
    call->end = t.n;
    c->script = t.data;
    c->n_script = t.n;
}
