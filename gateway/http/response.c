#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/plant.h"
#include "gateway/http/connection.h"
#include "gateway/http/http_limits.h"

/* Long output counts in a budget: clients that do not read could otherwise fill
 * the memory.  One whose output finds no room is closed. */
static void put(struct http_connection *c, const char *data, size_t n)
{
    if (c->short_of_memory || !http_buffer_append(&c->out, data, n)) {
        c->short_of_memory = c->doomed = true;
        connection_touch(c);
    }
}

static void put_text(struct http_connection *c, const char *text)
{
    put(c, text, strlen(text));
}

/* A reason is optional for clients; for people who read a trace it is not. */
static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {{200, "OK"},
                {204, "No Content"},
                {400, "Bad Request"},
                {401, "Unauthorized"},
                {403, "Forbidden"},
                {404, "Not Found"},
                {405, "Method Not Allowed"},
                {408, "Request Timeout"},
                {409, "Conflict"},
                {413, "Content Too Large"},
                {414, "URI Too Long"},
                {415, "Unsupported Media Type"},
                {417, "Expectation Failed"},
                {422, "Unprocessable Content"},
                {429, "Too Many Requests"},
                {431, "Request Header Fields Too Large"},
                {499, "Client Closed Request"},
                {500, "Internal Server Error"},
                {501, "Not Implemented"},
                {503, "Service Unavailable"},
                {504, "Gateway Timeout"},
                {529, "Site Is Overloaded"},
                {505, "HTTP Version Not Supported"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].status == status) {
            return rows[i].text;
        }
    }
    return "Response";
}

static void count(struct http_metrics *m, int status)
{
    uint64_t *const classes[] = {&m->responses_2xx, &m->responses_3xx,
                                 &m->responses_4xx, &m->responses_5xx};

    if (status >= 200 && status < 600) {
        ++*classes[status / 100 - 2];
    }
}

/* Made once a second: RFC 9110 asks for the header of each answer. */
static const char *date_line(struct http_server *s)
{
    int64_t now = s->options.unix_s != NULL
                      ? s->options.unix_s(s->options.unix_arg)
                      : s->date_s;
    time_t t = (time_t)now;
    struct tm utc;

    if (now != s->date_s && gmtime_r(&t, &utc) != NULL) {
        /* The programs run in the locale C. */
        strftime(s->date, sizeof s->date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n",
                 &utc);
        s->date_s = now;
    }
    return s->date;
}

/* How a response ends the message and the connection. */
struct ending {
    bool chunked, keep;
    bool length_known; /* from struct http_answer */
    uint8_t minor;     /* of the request's version */
};

static void put_head(struct http_connection *c, const struct http_answer *a,
                     const struct ending *end)
{
    char line[96];

    count(&c->server->metrics, a->status);
    snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", a->status,
             reason(a->status));
    put_text(c, line);
    put_text(c, date_line(c->server));
    if (a->content_type != NULL) {
        put_text(c, "Content-Type: ");
        put_text(c, a->content_type);
        put_text(c, "\r\n");
    }
    /* RFC 9110, section 8.6: no length with 204. */
    if (end->length_known && a->status != 204) {
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", a->n);
        put_text(c, line);
    }
    if (end->chunked) {
        put_text(c, "Transfer-Encoding: chunked\r\n");
    }
    if (!end->keep) {
        put_text(c, "Connection: close\r\n");
    } else if (end->minor == 0) {
        put_text(c, "Connection: keep-alive\r\n");
    }
    put_text(c, a->headers != NULL ? a->headers : "");
    put_text(c, "\r\n");
}

/* ---- errors ---- */

/* Writes text as the inside of a JSON string.  Messages may quote bytes of the
 * client, and are ASCII or UTF-8 of ours. */
static size_t escape(char *out, size_t cap, const char *text)
{
    size_t n = 0;

    for (; *text != '\0' && n + 7 < cap; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c < ' ') {
            n += (size_t)snprintf(out + n, cap - n, "\\u%04x", c);
        } else {
            out[n++] = (char)c;
        }
    }
    out[n] = '\0';
    return n;
}

struct error_body {
    char text[2048];
    size_t n;
};

static void write_error(struct error_body *body, int status,
                        const char *message)
{
    char escaped[sizeof body->text - 128];

    escape(escaped, sizeof escaped, message);
    body->n = (size_t)snprintf(
        body->text, sizeof body->text,
        "{\"error\":{\"message\":\"%s\",\"type\":\"%s\","
        "\"param\":null,\"code\":null}}",
        escaped, status >= 500 ? "server_error" : "invalid_request_error");
}

static struct http_answer error_answer(int status, const struct error_body *b)
{
    return (struct http_answer){.status = status,
                                .content_type = "application/json",
                                .headers =
                                    status == 503 ? "Retry-After: 1\r\n" : NULL,
                                .body = b->text,
                                .n = b->n};
}

void response_refuse(struct http_connection *c, const struct http_refusal *r,
                     bool head_only)
{
    const struct ending end = {.length_known = true, .minor = 1};
    char lines[HTTP_REFUSED_LINES + 32] = "", client[HTTP_CLIENT_TEXT];
    const struct http_server *s = c->server;
    struct error_body body;
    struct http_answer a;

    write_error(&body, r->status, r->text);
    a = error_answer(r->status, &body);
    if (s->handler.refused != NULL) {
        connection_client(c, client);
        s->handler.refused(s->arg, r->status, client, lines);
    }
    strcat(lines, a.headers != NULL ? a.headers : "");
    a.headers = lines;
    put_head(c, &a, &end);
    if (!head_only) {
        put(c, a.body, a.n);
    }
}

/* ---- responses ---- */

static bool keeps(const struct http_exchange *x)
{
    const struct http_request *q = &x->request;

    return q->framing.keep && q->phase == HTTP_PHASE_DONE && !x->c->deaf &&
           !x->c->server->draining;
}

void http_answer(struct http_exchange *x, const struct http_answer *a)
{
    struct ending end = {
        .length_known = true, .keep = keeps(x), .minor = x->request.head.minor};

    put_head(x->c, a, &end);
    if (x->request.head.method != HTTP_HEAD && a->status != 204) {
        put(x->c, a->body, a->n);
    }
    exchange_end(x, end.keep);
}

void http_answer_error(struct http_exchange *x, int status, const char *message)
{
    struct error_body body;
    struct http_answer a;

    write_error(&body, status, message);
    a = error_answer(status, &body);
    http_answer(x, &a);
}

void http_stream_begin(struct http_exchange *x, const struct http_answer *a)
{
    bool chunked = x->request.head.minor == 1;
    /* Without chunks, the end of the connection is the end of the body. */
    struct ending end = {.chunked = chunked,
                         .keep = chunked && keeps(x),
                         .minor = x->request.head.minor};

    put_head(x->c, a, &end);
    x->chunked = chunked;
    x->request.framing.keep = end.keep;
    /* After a body that is not read, no next request could be found. */
    if (x->request.phase != HTTP_PHASE_DONE) {
        x->handled = true;
        x->c->deaf = true;
    }
    connection_touch(x->c);
}

/* The output is offered before the client counts as stalled: much may have
 * been written since the last tick.  A client that has taken everything may
 * get more than the limit at once, as the logprobs of a long prompt are. */
static bool has_room(struct http_exchange *x, size_t n)
{
    size_t most = x->c->server->options.output_bytes_max;

    if (x->c->out.n + n > most) {
        connection_write(x->c);
    }
    if (x->c->out.n == 0 || x->c->out.n + n <= most ||
        PLANT(HTTP_STALL_IGNORED)) {
        return true;
    }
    x->c->server->metrics.stalled_readers++;
    x->dead = true;
    x->c->doomed = true;
    connection_touch(x->c);
    return false;
}

bool http_stream_write(struct http_exchange *x, const char *data, size_t n)
{
    char size[24];

    if (x->dead) {
        return false;
    }
    /* A chunk of no bytes would end the body. */
    if (n == 0 || x->request.head.method == HTTP_HEAD) {
        return true;
    }
    if (!has_room(x, n)) {
        return false;
    }
    connection_touch(x->c);
    if (!x->chunked) {
        put(x->c, data, n);
        return true;
    }
    snprintf(size, sizeof size, "%zx\r\n", n);
    put_text(x->c, size);
    put(x->c, data, n);
    put_text(x->c, "\r\n");
    return true;
}

void http_stream_end(struct http_exchange *x)
{
    if (x->dead) {
        return;
    }
    if (x->chunked && x->request.head.method != HTTP_HEAD) {
        put_text(x->c, "0\r\n\r\n");
    }
    exchange_end(x, x->request.framing.keep);
}

void http_stream_cut(struct http_exchange *x)
{
    x->dead = true;
    x->c->doomed = true;
    connection_touch(x->c);
}
