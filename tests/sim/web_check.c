#include "tests/sim/web_check.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/sim/sim.h"
#include "tests/sim/web_script.h"

#define ANY_STATUS  1        /* an error within a stream has none */
#define PATIENCE_US 30000000 /* of a gateway that looks for a router */

/* The part of a response that belongs to one choice. */
struct got {
    struct sim_choice *choice;
    size_t n_text;   /* bytes, equal to the expected ones */
    uint32_t n_echo; /* letters of the prompt before it */
    uint32_t n_logprobs, n_finish;
};

struct answer {
    struct sim *sim;
    struct web_conn *conn;
    struct web_call *call;
    bool whole; /* the response has ended */
    int failed; /* by an error in the stream: its HTTP status; 0: not */
    uint32_t n_done, n_usage;
    struct got got[WEB_PROMPTS_MAX * REQUEST_CHOICES]; /* [n] */
    uint32_t n;
};

static void wrong(const struct web_conn *c, const struct web_call *call,
                  const char *what)
{
    sim_fail(c->sim, call->kind == WEB_OTHER ? -1 : (int32_t)call->first,
             "web %u: %s", c->number, what);
}

static void count(const struct web_conn *c, enum deed deed)
{
    c->sim->counts.cells.deeds[deed]++;
}

/* Returns whether the gateway has stood still since the connection began: its
 * timeouts may then have passed. */
static bool stood(const struct web_conn *c)
{
    return c->sim->nodes[c->gateway].paused_us > c->since_us;
}

static bool is_half(const struct web_conn *c, const struct web_call *call)
{
    return c->half && call == &c->calls[c->n_calls - 1];
}

/* ---- the end of the requests ---- */

static void end_requests(struct web_conn *c, struct web_call *call,
                         enum status status)
{
    struct sim *s = c->sim;

    for (uint32_t i = 0; i < call->n; i++) {
        struct sim_request *request = &s->requests[call->first + i];

        request->n_ends++;
        request->status = status;
        request->ended_us = sim_now(s);
        if (status != ST_OK) {
            sim_request_doomed(request);
        }
    }
}

/* Returns whether the gateway itself may refuse a request with this status. */
static bool gateway_refuses(const struct web_conn *c,
                            const struct web_call *call, enum status status)
{
    const struct sim *s = c->sim;
    const struct sim_gateway *g =
        &s->gateways.of[c->gateway - SIM_FIRST_GATEWAY];
    const struct sim_request *request = &s->requests[call->first];

    if (status == ST_NOT_FOUND) { /* its list of models is a second old */
        return !s->options.gateways.texts || !s->options.text[request->model];
    }
    return status == ST_UNAVAILABLE &&
           (g->full_us >= request->asked_us || c->drained);
}

/* Returns whether the gateway gave up a request too early: a lost session is no
 * reason before its patience is over.  A router that stops may refuse the
 * session that a first call waits for. */
static bool should_resume(const struct sim_request *request)
{
    const struct sim *s = request->sim;

    return request->status == ST_UNAVAILABLE && request->arrived &&
           request->defect == DEFECT_NONE && sim_request_fits(s, request) &&
           !drains_bereft(s, request) &&
           sim_now(s) < request->asked_us + PATIENCE_US &&
           s->nodes[request->client].paused_us <= request->asked_us;
}

static bool explained(struct web_conn *c, const struct web_call *call,
                      enum status status)
{
    for (uint32_t i = 0; i < call->n; i++) {
        struct sim_request *request = &c->sim->requests[call->first + i];

        request->status = status;
        if (sim_request_explained(request) && !should_resume(request)) {
            return true;
        }
    }
    return gateway_refuses(c, call, status);
}

/* Returns whether a response of this HTTP status is explained. */
static bool http_explained(struct web_conn *c, const struct web_call *call,
                           int http)
{
    static const struct {
        int http;
        enum status status;
    } rows[] = {{400, ST_INVALID_ARGUMENT}, {400, ST_OUT_OF_RANGE},
                {404, ST_NOT_FOUND},        {409, ST_ALREADY_EXISTS},
                {422, ST_ABORTED},          {429, ST_RESOURCE_EXHAUSTED},
                {503, ST_UNAVAILABLE},      {503, ST_FAILED_PRECONDITION},
                {500, ST_INTERNAL}};

    if (sim_short && (http == 503 || http == 429 || http == ANY_STATUS)) {
        return true;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((rows[i].http == http || http == ANY_STATUS) &&
            explained(c, call, rows[i].status)) {
            return true;
        }
    }
    return false;
}

/* ---- choices ---- */

/* A NUL arrives as 1, see load(). */
static bool same_text(const char *expected, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((expected[i] ? expected[i] : 1) != text[i]) {
            return false;
        }
    }
    return true;
}

/* Returns how many letters belong to the echo of the prompt. */
static size_t skip_echo(const struct answer *a, struct got *g, const char *text)
{
    const struct sim_request *request = g->choice->request;
    size_t n = 0;

    while (a->call->echo && g->n_echo < request->n_prompt &&
           text[n] == web_letter(request, g->n_echo)) {
        g->n_echo++;
        n++;
    }
    return n;
}

static void take_text(struct answer *a, struct got *g, const json_t *text)
{
    size_t echo = skip_echo(a, g, json_string_value(text));
    size_t n = json_string_length(text) - echo;
    const struct sim_choice *c = g->choice;

    if (n > c->n_text - g->n_text ||
        !same_text(c->text + g->n_text, json_string_value(text) + echo, n)) {
        wrong(a->conn, a->call, "text differs from the expected one");
        return;
    }
    g->n_text += n;
}

static void take_logprob(struct answer *a, struct got *g, const json_t *value)
{
    const struct sim_choice *c = g->choice;

    if (!c->logprobs || g->n_logprobs >= c->n_got ||
        (float)json_number_value(value) != c->logprobs[g->n_logprobs]) {
        wrong(a->conn, a->call, "a logprob differs from the expected one");
        return;
    }
    g->n_logprobs++;
}

/* Checks the bytes of a token in a chat. */
static void check_bytes(struct answer *a, const struct got *g,
                        const json_t *token)
{
    const json_t *list = json_object_get(token, "bytes");
    size_t n;
    const uint8_t *bytes = vocabulary_bytes(g->choice->got[g->n_logprobs], &n);
    bool same = json_array_size(list) == n || n == 0; /* special: a name */

    for (size_t i = 0; same && i < n; i++) {
        same = json_integer_value(json_array_get(list, i)) == bytes[i];
    }
    same = same && json_array_size(json_object_get(token, "top_logprobs")) ==
                       g->choice->request->sampling.n_top_logprobs;
    if (!same) {
        wrong(a->conn, a->call, "a token with logprobs differs");
    }
}

static void take_logprobs(struct answer *a, struct got *g,
                          const json_t *logprobs)
{
    bool chat = a->call->kind == WEB_CHAT;
    const json_t *list =
        json_object_get(logprobs, chat ? "content" : "token_logprobs");

    for (size_t i = 0; i < json_array_size(list) && !a->sim->failed; i++) {
        const json_t *at = json_array_get(list, i);

        if (chat && g->n_logprobs < g->choice->n_got) {
            check_bytes(a, g, at);
        }
        take_logprob(a, g, chat ? json_object_get(at, "logprob") : at);
    }
}

/* Takes the end of a choice: nothing of it may be missing, or follow. */
static void take_finish(struct answer *a, struct got *g, const json_t *finish)
{
    const char *expected = g->choice->finish == SLUICE__V1__FINISH__FINISH_STOP
                               ? "stop"
                               : "length";

    if (!json_is_string(finish)) {
        return;
    }
    g->n_finish++;
    if (g->n_finish > 1 || strcmp(json_string_value(finish), expected) != 0) {
        wrong(a->conn, a->call, "wrong or second finish_reason");
    } else if (g->n_text != g->choice->n_text ||
               (a->call->echo && g->n_echo != g->choice->request->n_prompt)) {
        wrong(a->conn, a->call, "text is missing at the finish_reason");
    } else if (g->choice->logprobs && g->n_logprobs != g->choice->n_got) {
        wrong(a->conn, a->call, "logprobs are missing at the finish_reason");
    }
}

/* Takes a choice of a chunk or of a whole body; both have the same fields but
 * for the one that holds a chat's text. */
static void take_choice(struct answer *a, const json_t *j)
{
    json_int_t index = json_integer_value(json_object_get(j, "index"));
    const json_t *text = json_object_get(j, "text");
    struct got *g = &a->got[index];

    if (index < 0 || index >= a->n) {
        wrong(a->conn, a->call, "a choice has no index of the request");
        return;
    }
    if (a->call->kind == WEB_CHAT) {
        text = json_object_get(
            json_object_get(j, a->call->stream ? "delta" : "message"),
            "content");
    }
    if (g->n_finish) {
        wrong(a->conn, a->call, "a choice goes on after its finish_reason");
    } else if (json_is_string(text)) {
        take_text(a, g, text);
    }
    take_logprobs(a, g, json_object_get(j, "logprobs"));
    take_finish(a, g, json_object_get(j, "finish_reason"));
}

static json_int_t tokens_in(const json_t *usage, const char *name)
{
    return json_integer_value(json_object_get(usage, name));
}

/* Checks the usage: exact also after moves and resumed calls. */
static void take_usage(struct answer *a, const json_t *usage)
{
    json_int_t prompt = 0, completion = 0;

    for (uint32_t i = 0; i < a->n; i++) {
        completion += a->got[i].choice->n_got;
    }
    for (uint32_t i = 0; i < a->call->n; i++) {
        prompt += a->sim->requests[a->call->first + i].n_prompt;
    }
    a->n_usage++;
    if (tokens_in(usage, "prompt_tokens") != prompt ||
        tokens_in(usage, "completion_tokens") != completion ||
        tokens_in(usage, "total_tokens") != prompt + completion) {
        sim_fail(
            a->sim, (int32_t)a->call->first,
            "web %u: usage is %lld and %lld tokens, expected %lld and %lld",
            a->conn->number, (long long)tokens_in(usage, "prompt_tokens"),
            (long long)tokens_in(usage, "completion_tokens"), (long long)prompt,
            (long long)completion);
    }
}

/* ---- bodies ---- */

/* Parses JSON.  jansson takes no NUL in a name, so each becomes 1. */
static json_t *load(struct answer *a, const char *text, size_t n)
{
    static const char nul[] = "\\u0000";
    char *copy = malloc(n + 1), *at = copy;
    json_error_t why;
    json_t *j;

    if (!copy) {
        abort();
    }
    memcpy(copy, text, n);
    while ((at = memmem(at, n - (size_t)(at - copy), nul, 6)) != NULL) {
        at[5] = '1';
    }
    j = json_loadb(copy, n, 0, &why);
    if (!j) {
        sim_fail(a->sim, (int32_t)a->call->first, "web %u: no JSON: %s",
                 a->conn->number, why.text);
    }
    free(copy);
    return j;
}

/* Takes a chunk of a stream, or a whole body. */
static void take_object(struct answer *a, const char *text, size_t n)
{
    json_t *j = load(a, text, n);
    const json_t *choices = json_object_get(j, "choices");

    if (json_object_get(j, "error")) {
        /* A lost router is UNAVAILABLE; others have any status. */
        a->failed = memmem(text, n, "router", 6) ? 503 : ANY_STATUS;
        sim_log(a->sim, "web %u: error in the stream: %.*s", a->conn->number,
                (int)n, text);
    } else if (j && !json_is_array(choices)) {
        wrong(a->conn, a->call, "the body has no choices");
    } else {
        for (size_t i = 0; i < json_array_size(choices) && !a->sim->failed;
             i++) {
            take_choice(a, json_array_get(choices, i));
        }
        if (json_is_object(json_object_get(j, "usage"))) {
            take_usage(a, json_object_get(j, "usage"));
        }
    }
    json_decref(j);
}

static void take_event(struct answer *a, const char *text, size_t n)
{
    if (a->n_done) {
        wrong(a->conn, a->call, "an event follows [DONE]");
    } else if (n == 12 && memcmp(text, "data: [DONE]", n) == 0) {
        a->n_done++;
    } else if (n > 6 && memcmp(text, "data: ", 6) == 0) {
        if (a->failed) {
            wrong(a->conn, a->call, "a chunk follows an error");
        }
        take_object(a, text + 6, n - 6);
    } else if (n == 0 || text[0] != ':') {
        wrong(a->conn, a->call, "an event is neither data nor a comment");
    }
}

/* Takes all whole events; the end of a response that is cut is left alone. */
static void take_events(struct answer *a, const char *body, size_t n)
{
    const char *at = body, *end;

    while (n > 0 && !a->sim->failed &&
           (end = memmem(at, n, "\n\n", 2)) != NULL) {
        take_event(a, at, (size_t)(end - at));
        n -= (size_t)(end + 2 - at);
        at = end + 2;
    }
    if (a->whole && n > 0) {
        wrong(a->conn, a->call, "the stream ends within an event");
    }
}

/* Checks that all of a response is there. */
static void check_all(struct answer *a)
{
    bool wants_usage = !a->call->stream || a->call->include_usage;

    /* Without chunks, a cut looks like the end. */
    if (a->call->stream && a->n_done != 1 && !sim_short) {
        wrong(a->conn, a->call, "the stream has no [DONE]");
    }
    for (uint32_t i = 0; i < a->n && !a->failed; i++) {
        if (a->got[i].n_finish != 1) {
            wrong(a->conn, a->call, "a choice has no finish_reason");
        }
    }
    if (!a->failed && a->n_usage != wants_usage) {
        wrong(a->conn, a->call, "usage does not occur exactly once");
    }
}

/* Computes the right answer, once for each choice. */
static void expect(struct answer *a)
{
    for (uint32_t i = 0; i < a->call->n; i++) {
        struct sim_request *request = &a->sim->requests[a->call->first + i];

        for (uint32_t k = 0; k < request->n_choices; k++) {
            struct sim_choice *c = &request->choices[k];

            if (!c->finish) {
                sim_choice_expect(c);
            }
            a->got[a->n++].choice = c;
        }
    }
}

/* Returns whether the gateway has named all requests: their seeds are known. */
static bool are_named(const struct sim *s, const struct web_call *call)
{
    for (uint32_t i = 0; i < call->n; i++) {
        if (!s->requests[call->first + i].named) {
            return false;
        }
    }
    return true;
}

/* Returns the HTTP status of the error that ends a stream, 0 if none does. */
static int check_body(struct web_conn *c, struct web_call *call, bool whole)
{
    const struct web_reader *r = &c->reader;
    struct answer a = {.sim = c->sim, .conn = c, .call = call, .whole = whole};

    if (r->n_body == 0 || (!call->stream && !whole)) {
        return 0;
    }
    if (r->is_events != call->stream) {
        wrong(c, call, "the answer has another content type than asked for");
        return 0;
    }
    if (are_named(c->sim, call) ||
        c->sim->options.text[c->sim->requests[call->first].model]) {
        expect(&a);
    }
    if (call->stream) {
        take_events(&a, r->body, r->n_body);
    } else {
        take_object(&a, r->body, r->n_body);
    }
    if (whole && !c->sim->failed) {
        check_all(&a);
    }
    return a.failed;
}

/* Checks the body of an error. */
static void check_error(struct web_conn *c, struct web_call *call)
{
    json_t *j = json_loadb(c->reader.n_body ? c->reader.body : "",
                           c->reader.n_body, 0, NULL);
    const json_t *e = json_object_get(j, "error");

    if (!json_is_string(json_object_get(e, "message")) ||
        !json_is_string(json_object_get(e, "type"))) {
        wrong(c, call, "an error has no message or type");
    }
    sim_log(c->sim, "web %u: status %d: %s", c->number, c->reader.status,
            json_string_value(json_object_get(e, "message")));
    json_decref(j);
}

/* ---- calls ---- */

static void check_other(struct web_conn *c, struct web_call *call)
{
    int status = c->reader.status;

    if (status != call->status &&
        !(status == 503 && (c->drained || sim_short)) &&
        !(status == 503 && call->lists && c->early) &&
        !(status == 408 && stood(c))) {
        sim_fail(c->sim, -1, "web %u: status %d, expected %d", c->number,
                 status, call->status);
    } else if (status >= 400) {
        check_error(c, call);
    }
}

static void check_answer(struct web_conn *c, struct web_call *call)
{
    int failed = check_body(c, call, true);

    if (failed) {
        count(c, DEED_WEB_FAILED);
    }
    if (failed && !c->sim->failed && !http_explained(c, call, failed)) {
        wrong(c, call, "a stream failed without a reason");
    }
    if (!c->sim->failed) {
        count(c, call->stream ? DEED_WEB_STREAM : DEED_WEB_WHOLE);
        c->sim->counts.cells.deeds[DEED_WEB_CHAT] += call->kind == WEB_CHAT;
        c->sim->counts.cells.deeds[DEED_WEB_PROMPTS] += call->n > 1;
        c->sim->counts.cells.deeds[DEED_WEB_ECHO] += call->echo;
        c->sim->counts.cells.deeds[DEED_WEB_PADDED] += call->padded;
    }
    end_requests(c, call, failed ? ST_UNAVAILABLE : ST_OK);
}

/* A request that is refused has one error, in place of an answer. */
static void check_refusal(struct web_conn *c, struct web_call *call)
{
    check_error(c, call);
    count(c, DEED_WEB_REFUSED);
    if (!c->sim->failed && !(c->reader.status == 408 && stood(c)) &&
        !http_explained(c, call, c->reader.status)) {
        sim_fail(c->sim, (int32_t)call->first, "web %u: status %d, unexplained",
                 c->number, c->reader.status);
    }
    end_requests(c, call, ST_UNAVAILABLE);
}

void web_check_whole(struct web_conn *c, struct web_call *call)
{
    int status = c->reader.status;
    bool half = is_half(c, call);

    sim_log(c->sim, "web %u: response of %zu bytes, status %d", c->number,
            c->reader.n_body, status);
    if (c->reader.closes && !call->ends_conn && !half && !c->drained &&
        !sim_short && !stood(c)) {
        wrong(c, call, "the server closes a connection without a reason");
    } else if (half &&
               (status == 408 ||
                (status >= 400 && (call->kind == WEB_OTHER || c->drained)))) {
        c->sim->counts.cells.deeds[DEED_WEB_LATE] += status == 408;
        check_error(c, call);
        end_requests(c, call, ST_UNAVAILABLE);
    } else if (half) {
        wrong(c, call, "half a request is answered");
    } else if (call->kind == WEB_OTHER) {
        check_other(c, call);
    } else if (status == 200) {
        check_answer(c, call);
    } else {
        check_refusal(c, call);
    }
}

/* Returns whether something explains that a response is cut, or never came. */
static bool cut_rightly(const struct web_conn *c, const struct web_call *call)
{
    return c->left || c->broken || c->stalled || c->slow || is_half(c, call) ||
           (call > c->calls && call[-1].ends_conn) || c->drained || sim_short ||
           stood(c);
}

void web_check_cut(struct web_conn *c, struct web_call *call, bool begun)
{
    if (!cut_rightly(c, call)) {
        wrong(c, call, "the server closes without a response");
    } else if (begun && call->kind != WEB_OTHER && c->reader.status == 200) {
        (void)check_body(c, call, false);
    }
    c->sim->counts.cells.deeds[DEED_WEB_CUT] += c->broken && begun;
    call->cut = true;
    end_requests(c, call, ST_UNAVAILABLE);
}

/* ---- counts ---- */

void web_check_begins(const struct web_conn *c)
{
    c->sim->counts.cells.deeds[DEED_WEB_PIPELINED] += c->pipelined;
    c->sim->counts.cells.deeds[DEED_WEB_HALF] += c->half;
}

static enum deed deed_of(const struct web_conn *c, const struct web_call *call)
{
    const struct sim *s = c->sim;
    const struct sim_request *request = &s->requests[call->first];
    enum cell_state state = cells_state(s, request->number, 0);

    if (c->sent < call->end) {
        return DEED_WEB_LEFT_SENDING;
    }
    if (!request->arrived || state == CELL_ENCODING) {
        return DEED_WEB_LEFT_ENCODING;
    }
    return state == CELL_PREFILL  ? DEED_WEB_LEFT_PREFILL
           : state == CELL_DECODE ? DEED_WEB_LEFT_DECODE
           : state < CELL_PREFILL ? DEED_WEB_LEFT_WAITING
                                  : DEED_WEB_LEFT_LAST;
}

void web_check_leaves(const struct web_conn *c)
{
    const struct web_call *call = &c->calls[c->n_over];

    if (c->n_over < c->n_calls && call->kind != WEB_OTHER) {
        count(c, deed_of(c, call));
    }
}

void web_check_left(const struct web_conn *c)
{
    for (uint32_t i = 0; i < c->n_calls; i++) {
        const struct web_call *call = &c->calls[i];

        for (uint32_t k = 0; call->cut && k < call->n; k++) {
            sim_request_gone_soon(&c->sim->requests[call->first + k]);
        }
    }
}

void web_check_stalled(const struct web_conn *c)
{
    c->sim->counts.cells.deeds[DEED_WEB_STALLED] += c->blocked;
}

/* ---- names ---- */

static bool is_prompt_of(const struct sim_request *request,
                         const Sluice__V1__GenerateRequest *r)
{
    bool same = (r->has_text ? r->text.len : r->n_tokens) == request->n_prompt;

    for (uint32_t i = 0; same && i < request->n_prompt; i++) {
        same = request->prompt[i] ==
               (r->has_text ? r->text.data[i] : r->tokens[i]);
    }
    return same;
}

uint32_t web_named(struct sim *s, uint32_t gateway,
                   const Sluice__V1__GenerateRequest *r)
{
    for (uint32_t i = 0; i < s->n_requests; i++) {
        struct sim_request *request = &s->requests[i];

        if (!request->web || request->named || request->client != gateway ||
            r->request_id.len != sizeof(request->id) ||
            !is_prompt_of(request, r)) {
            continue;
        }
        request->named = true;
        memcpy(request->id, r->request_id.data, sizeof(request->id));
        if (!request->seed_given) {
            request->sampling.seed = sampling_seed(request->id);
        }
        if (r->max_tokens != request->max_tokens ||
            r->n != request->n_choices) {
            sim_fail(s, (int32_t)i, "the gateway changes the request");
        }
        return i;
    }
    sim_fail(s, -1, "the gateway asks for a prompt that no client has sent");
    return UINT32_MAX;
}
