#include "client/front/http_client.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "client/front/interrupt.h"
#include "client/front/reply.h"
#include "common/base/local_host.h"

struct http_client {
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    char *base; /* without "/v1" and without '/' at its end */
    char why[CURL_ERROR_SIZE];
};

/* One transfer. */
struct transfer {
    struct http_client *h;
    bool stream; /* the answer is an event stream */
    bool known;  /* stream is decided */
    struct sse sse;
    sse_fn *fn;
    void *arg;
    char *body; /* [n], and a NUL; without a stream */
    size_t n;
};

/* ---- making a client ---- */

static char *base_make(const char *url)
{
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/') {
        n--;
    }
    if (n >= 3 && memcmp(url + n - 3, "/v1", 3) == 0) {
        n -= 3;
    }
    return strndup(url, n);
}

static bool header_add(struct http_client *h, const char *line)
{
    struct curl_slist *more = curl_slist_append(h->headers, line);

    if (more != NULL) {
        h->headers = more;
    }
    return more != NULL;
}

static bool headers_make(struct http_client *h, const char *key)
{
    char *line = NULL;
    bool ok = header_add(h, "Content-Type: application/json") &&
              header_add(h, "Expect:"); /* no pause before the body */

    if (ok && key != NULL) {
        ok = asprintf(&line, "Authorization: Bearer %s", key) >= 0 &&
             header_add(h, line);
        free(line);
    }
    return ok;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg);

static bool easy_setup(struct http_client *h)
{
    CURL *c = h->easy;

    return curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") ==
               CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT,
                            (long)HTTP_CLIENT_CONNECT_S) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->headers) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION) ==
               CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK;
}

enum status http_client_new(struct http_client **out, const char *url,
                            const char *key, struct error *e)
{
    struct http_client *h;

    *out = NULL;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--url %s: http://HOST:PORT or https://HOST:PORT is "
                         "required",
                         url);
    }
    if (key != NULL && strpbrk(key, "\r\n") != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "the key contains a newline");
    }
    h = calloc(1, sizeof *h);
    if (h == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    h->base = base_make(url);
    h->easy = curl_easy_init();
    h->multi = curl_multi_init();
    if (h->base == NULL || h->easy == NULL || h->multi == NULL ||
        !headers_make(h, key) || !easy_setup(h)) {
        http_client_free(&h);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "libcurl cannot start");
    }
    *out = h;
    return ST_OK;
}

void http_client_free(struct http_client **h)
{
    if (*h == NULL) {
        return;
    }
    curl_easy_cleanup((*h)->easy);
    curl_multi_cleanup((*h)->multi);
    curl_slist_free_all((*h)->headers);
    free((*h)->base);
    free(*h);
    *h = NULL;
    curl_global_cleanup();
}

/* ---- a transfer ---- */

/* A refusal comes as JSON although a stream was requested. */
static bool is_stream(const struct transfer *t)
{
    static const char type[] = "text/event-stream";
    const char *is = NULL;
    long code = 0;

    curl_easy_getinfo(t->h->easy, CURLINFO_CONTENT_TYPE, &is);
    curl_easy_getinfo(t->h->easy, CURLINFO_RESPONSE_CODE, &code);
    return t->fn != NULL && code < 400 && is != NULL &&
           strncmp(is, type, sizeof type - 1) == 0;
}

static bool keep(struct transfer *t, const char *bytes, size_t n)
{
    char *body;

    if (n > HTTP_CLIENT_BODY_MAX - t->n) {
        return false;
    }
    body = realloc(t->body, t->n + n + 1);
    if (body == NULL) {
        return false;
    }
    memcpy(body + t->n, bytes, n);
    t->body = body;
    t->n += n;
    t->body[t->n] = '\0';
    return true;
}

/* Anything but n makes libcurl end the transfer with CURLE_WRITE_ERROR. */
static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    bool ok;

    n *= size;
    if (!t->known) {
        t->known = true;
        t->stream = is_stream(t);
    }
    ok = t->stream ? sse_push(&t->sse, bytes, n, t->fn, t->arg)
                   : keep(t, bytes, n);
    return ok ? n : 0;
}

/* Runs the transfer to its end, or to Ctrl-C. */
static enum status perform(struct http_client *h, CURLcode *result,
                           struct error *e)
{
    struct curl_waitfd interrupt = {.fd = interrupt_fd(),
                                    .events = CURL_WAIT_POLLIN};
    int running = 1;
    CURLMsg *message;

    *result = CURLE_OK;
    while (running > 0) {
        if (curl_multi_perform(h->multi, &running) != CURLM_OK ||
            (running > 0 && curl_multi_poll(h->multi, &interrupt, 1, 1000,
                                            NULL) != CURLM_OK)) {
            return error_set(e, ST_INTERNAL, "libcurl has failed");
        }
        if (interrupt_take()) {
            return error_set(e, ST_CANCELLED, "cancelled");
        }
    }
    message = curl_multi_info_read(h->multi, &running);
    if (message != NULL) {
        *result = message->data.result;
    }
    return ST_OK;
}

static enum status judge(const struct transfer *t, CURLcode result,
                         struct error *e)
{
    long code = 0;

    curl_easy_getinfo(t->h->easy, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_WRITE_ERROR) {
        return error_set(e, ST_DATA_LOSS,
                         "the server sent more than %u bytes in one piece",
                         HTTP_CLIENT_BODY_MAX);
    }
    if (result != CURLE_OK) {
        return error_set(e, ST_UNAVAILABLE, "%s: %s", t->h->base,
                         t->h->why[0] != '\0' ? t->h->why
                                              : curl_easy_strerror(result));
    }
    if (code >= 300) {
        reply_error(code, t->body != NULL ? t->body : "", t->n, e);
        return e->code;
    }
    if (t->fn != NULL && !t->stream) {
        return error_set(e, ST_DATA_LOSS,
                         "%s sent no event stream; is it an OpenAI-compatible "
                         "server?",
                         t->h->base);
    }
    return ST_OK;
}

static bool is_loopback(const char *url)
{
    const char *host = strstr(url, "://");

    host = host != NULL ? host + 3 : url;
    return host_is_local(host, strcspn(host, "/"));
}

static enum status run(struct transfer *t, const char *path, struct error *e)
{
    struct http_client *h = t->h;
    char *url = NULL;
    CURLcode result;
    enum status st;

    if (asprintf(&url, "%s%s", h->base, path) < 0) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    h->why[0] = '\0';
    curl_easy_setopt(h->easy, CURLOPT_URL, url);
    if (is_loopback(url)) {
        /* A proxy of the environment cannot reach this machine. */
        curl_easy_setopt(h->easy, CURLOPT_NOPROXY, "*");
    }
    curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, t);
    free(url); /* libcurl has a copy */
    if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK) {
        return error_set(e, ST_INTERNAL, "libcurl has failed");
    }
    interrupt_take(); /* a Ctrl-C of before */
    st = perform(h, &result, e);
    if (st == ST_OK) {
        st = judge(t, result, e);
    }
    curl_multi_remove_handle(h->multi, h->easy);
    sse_fini(&t->sse);
    return st;
}

enum status http_client_get(struct http_client *h, const char *path,
                            char **body, size_t *n, struct error *e)
{
    struct transfer t = {.h = h};
    enum status st;

    *body = NULL;
    curl_easy_setopt(h->easy, CURLOPT_HTTPGET, 1L);
    st = run(&t, path, e);
    if (st == ST_OK && t.body == NULL && !keep(&t, "", 0)) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (st != ST_OK) {
        free(t.body);
        return st;
    }
    *body = t.body;
    *n = t.n;
    return ST_OK;
}

enum status http_client_stream(struct http_client *h, const char *path,
                               const char *json, sse_fn *fn, void *arg,
                               struct error *e)
{
    struct transfer t = {.h = h, .fn = fn, .arg = arg};
    enum status st;

    curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)strlen(json));
    curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, json);
    curl_easy_setopt(h->easy, CURLOPT_POST, 1L);
    st = run(&t, path, e);
    curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, NULL);
    free(t.body);
    return st;
}
