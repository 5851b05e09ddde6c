#include "client/load/drive/http_url.h"

#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "common/base/quote.h"

/* Copies a part; "" if there is none.  Returns false if it does not fit. */
static bool part(CURLU *u, CURLUPart what, char *out, size_t size)
{
    char *text = NULL;
    int n = 0;

    out[0] = '\0';
    if (curl_url_get(u, what, &text, CURLU_DEFAULT_PORT) == CURLUE_OK) {
        n = snprintf(out, size, "%s", text);
        curl_free(text);
    }
    return n >= 0 && (size_t)n < size;
}

static void cut_brackets(char *host)
{
    size_t n = strlen(host);

    if (n > 2 && host[0] == '[') {
        memmove(host, host + 1, n - 2);
        host[n - 2] = '\0';
    }
}

static bool cut_end(char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    bool has = n >= m && strcmp(path + n - m, end) == 0;

    if (has) {
        path[n - m] = '\0';
    }
    return has;
}

static void take_base(char *base)
{
    bool route;

    cut_end(base, "/");
    route = cut_end(base, "/completions");
    if (route) {
        cut_end(base, "/chat");
    } else if (base[0] == '\0') {
        memcpy(base, "/v1", 4);
    }
}

static bool take_parts(struct http_url *out, CURLU *u)
{
    char scheme[16], none[HTTP_URL_MAX];
    bool fits = part(u, CURLUPART_SCHEME, scheme, sizeof scheme) &&
                part(u, CURLUPART_HOST, out->host, sizeof out->host) &&
                part(u, CURLUPART_PORT, out->port, sizeof out->port) &&
                part(u, CURLUPART_PATH, out->base, sizeof out->base);

    out->secure = strcmp(scheme, "https") == 0;
    if (!fits || (!out->secure && strcmp(scheme, "http") != 0)) {
        return false;
    }
    snprintf(out->authority, sizeof out->authority, "%s:%s", out->host,
             out->port);
    cut_brackets(out->host);
    take_base(out->base);
    return part(u, CURLUPART_USER, none, sizeof none) && none[0] == '\0' &&
           part(u, CURLUPART_QUERY, none, sizeof none) && none[0] == '\0' &&
           part(u, CURLUPART_FRAGMENT, none, sizeof none) && none[0] == '\0';
}

enum status http_url_read(struct http_url *out, const char *text,
                          struct error *e)
{
    CURLU *u = curl_url();
    bool ok = u != NULL && strlen(text) < HTTP_URL_MAX &&
              curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK &&
              take_parts(out, u);

    curl_url_cleanup(u);
    if (!ok) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is no address of a server; write "
                         "http://HOST:PORT or https://HOST, at most %d bytes, "
                         "without user, query and fragment",
                         quote_bytes(text, strlen(text)).text,
                         HTTP_URL_MAX - 1);
    }
    return ST_OK;
}
