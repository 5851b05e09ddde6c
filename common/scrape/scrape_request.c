#include "common/scrape/scrape_request.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/affix.h"
#include "common/base/chars.h"
#include "common/base/local_host.h"
#include "common/base/metric_page.h"

#define GET "GET "

static const char *const pages[] = {
    [SCRAPE_METRICS] = "/metrics HTTP/1.",
    [SCRAPE_READY] = "/ready HTTP/1.",
    [SCRAPE_LIVE] = "/live HTTP/1.",
};

static const struct {
    int status;
    const char *reason, *body;
} answers[] = {
    {200, "OK", "ok\n"},
    {400, "Bad Request", "the request line must be GET /metrics HTTP/1.1\n"},
    {403, "Forbidden",
     "another host's pages may not read this; use a loopback name, or "
     "--metrics-anyone\n"},
    {404, "Not Found", "only /metrics, /ready and /live are served here\n"},
    {405, "Method Not Allowed", "only GET is served here\n"},
    {431, "Request Header Fields Too Large",
     "the request is longer than 4096 bytes\n"},
    {503, "Service Unavailable", "not ready\n"},
};

static size_t find_answer(int status)
{
    size_t i = 0;

    while (answers[i].status != status) {
        i++;
    }
    return i;
}

/* A newline that follows a newline ends the head; a bare newline ends a line
 * like CR LF, because nothing behind the line is interpreted. */
static bool has_end(const char *request, size_t n)
{
    const char *at = request, *end = request + n;

    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        if (at < end && *at == '\r') {
            at++;
        }
        if (at < end && *at == '\n') {
            return true;
        }
    }
    return false;
}

/* Returns the status of a request line without its CR LF. */
static int judge_line(const char *line, size_t n, enum scrape_page *page)
{
    const char *blank = memchr(line, ' ', n);

    if (blank == NULL || blank == line || n < 9 ||
        !starts_with_n(line + n - 9, 8, " HTTP/1.") ||
        (line[n - 1] != '0' && line[n - 1] != '1')) {
        return 400;
    }
    if (!starts_with_n(line, n, GET)) {
        return 405;
    }
    for (unsigned i = SCRAPE_METRICS; i <= SCRAPE_LIVE; i++) {
        if (starts_with_n(line + strlen(GET), n - strlen(GET), pages[i])) {
            *page = (enum scrape_page)i;
            return 200;
        }
    }
    return 404;
}

int scrape_judge(const char *request, size_t n, enum scrape_page *page)
{
    const char *newline;
    size_t line;

    if (!has_end(request, n)) {
        return n < SCRAPE_REQUEST_MAX ? 0 : 431;
    }
    newline = memchr(request, '\n', n);
    line = (size_t)(newline - request);
    if (line > 0 && request[line - 1] == '\r') {
        line--;
    }
    return judge_line(request, line, page);
}

/* The value of a header line, without outer blanks. */
struct value {
    const char *text;
    size_t n;
};

/* Reads the line of n bytes as "NAME: value".  Returns false if its name is
 * another one. */
static bool header(const char *line, size_t n, const char *name,
                   struct value *v)
{
    size_t at = strlen(name);

    if (n <= at || line[at] != ':' || strncasecmp(line, name, at) != 0) {
        return false;
    }
    at++;
    while (at < n && is_blank(line[at])) {
        at++;
    }
    while (n > at && is_blank(line[n - 1])) {
        n--;
    }
    *v = (struct value){line + at, n - at};
    return true;
}

static bool is(struct value v, const char *text)
{
    return v.n == strlen(text) && strncasecmp(v.text, text, v.n) == 0;
}

static bool is_local_origin(struct value v)
{
    char origin[LOCAL_HOST_BYTES + 16];
    const char *host;
    size_t n;

    if (v.n >= sizeof origin) {
        return false;
    }
    memcpy(origin, v.text, v.n);
    origin[v.n] = '\0';
    host = origin_host(origin, &n);
    return host != NULL && host_is_local(host, n);
}

bool scrape_is_foreign(const char *request, size_t n)
{
    const char *at = request, *end = request + n, *newline;
    bool cross = false, link = false;
    struct value v;

    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        size_t line = (size_t)(newline - at);

        if ((header(at, line, "host", &v) && !host_is_local(v.text, v.n)) ||
            (header(at, line, "origin", &v) && !is_local_origin(v))) {
            return true;
        }
        cross |= header(at, line, "sec-fetch-site", &v) && is(v, "cross-site");
        link |= header(at, line, "sec-fetch-mode", &v) && is(v, "navigate");
        at = newline + 1;
    }
    return cross && !link;
}

size_t scrape_head(char *out, int status, enum scrape_page page, size_t n_body)
{
    bool metrics = status == 200 && page == SCRAPE_METRICS;

    return (size_t)snprintf(
        out, SCRAPE_HEAD_BYTES,
        "HTTP/1.1 %d %s\r\n"
        "Content-Type: %s\r\n"
        "Content-Length: %zu\r\n"
        "Connection: close\r\n\r\n",
        status, answers[find_answer(status)].reason,
        metrics ? METRIC_PAGE_TYPE : "text/plain; charset=utf-8", n_body);
}

const char *scrape_text(int status)
{
    return answers[find_answer(status)].body;
}
