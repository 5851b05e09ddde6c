#include "gateway/calls/routes.h"

#include <string.h>

#include "gateway/calls/access.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/http/cors.h"

static const struct route *route_of(const struct http_exchange *x)
{
    return route_find(http_path(x));
}

/* HEAD is GET without a body, which the server leaves out. */
static bool takes_method(const struct route *r, enum http_method m)
{
    return m == r->method || (m == HTTP_HEAD && r->method == HTTP_GET);
}

static void refuse(struct service *c, struct http_exchange *x, int http,
                   const char *code, const char *message)
{
    struct openai_error e;

    openai_error_set(&e, http, NULL, code, "%s", message);
    respond_error(c, x, &e, NULL, 0);
}

static void refuse_key(struct service *c, struct http_exchange *x)
{
    struct respond_headers h;
    struct openai_error e;

    openai_error_set(&e, 401, NULL, "invalid_api_key", "%s",
                     !access_has_key(x)
                         ? "no API key; send Authorization: Bearer KEY"
                         : "the API key is not valid");
    respond_headers_init(&h, c, x);
    respond_header(&h, "www-authenticate", "Bearer");
    respond_error(c, x, &e, &h, 0);
}

static void refuse_method(struct service *c, struct http_exchange *x,
                          const struct route *r)
{
    const char *allow =
        r->method == HTTP_GET ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    struct respond_headers h;
    struct openai_error e;

    openai_error_set(&e, 405, NULL, NULL, "%s takes %s", r->path, allow);
    respond_headers_init(&h, c, x);
    respond_header(&h, "allow", "%s", allow);
    respond_error(c, x, &e, &h, 0);
}

/* Without keys only this machine is served.  A page of a foreign name that
 * resolves to 127.0.0.1 would be on this machine too, so a browser must use a
 * local name. */
static bool is_foreign_page(const struct service *c,
                            const struct http_exchange *x)
{
    return keys_are_open(c->options.keys) && c->options.cors == NULL &&
           http_header(x, "origin", NULL) != NULL && !http_host_is_local(x);
}

static void answer_options(struct service *c, struct http_exchange *x)
{
    struct http_cors cors = http_cors_headers(x, c->options.cors, true);
    struct http_answer a = {.status = 204, .headers = cors.lines};

    gateway_metrics_http(c->metrics, route_label(http_path(x)), a.status);
    http_answer(x, &a);
}

/* Answers a request that no handler may see.  Returns whether it did. */
static bool answered(struct service *c, struct http_exchange *x)
{
    const struct route *r = route_of(x);

    if (http_method_of(x) == HTTP_OPTIONS) {
        answer_options(c, x);
    } else if (is_foreign_page(c, x)) {
        refuse(c, x, 403, NULL,
               "a page of another host may not use this server; see --cors");
    } else if ((r == NULL || !r->is_public) && access_tenant(c, x) == NULL) {
        refuse_key(c, x);
    } else if (r == NULL) {
        refuse(c, x, 404, "unknown_url",
               "no such route; see the list in docs/http.md");
    } else if (!takes_method(r, http_method_of(x))) {
        refuse_method(c, x, r);
    } else if (c->draining && r->method == HTTP_POST) {
        refuse(c, x, 503, NULL, "the server is stopping; use another");
    } else {
        return false;
    }
    return true;
}

static void on_head(void *arg, struct http_exchange *x)
{
    (void)answered(arg, x);
}

/* The key is looked up again: a reload may have removed its tenant. */
static void on_request(void *arg, struct http_exchange *x)
{
    static recv_fn *const handlers[ROUTES_N] = {
#define X(path, method, handler, public, label, help) \
    [ROUTE_##handler] = handler,
        ROUTES(X)
#undef X
    };
    struct service *c = arg;

    if (!answered(c, x)) {
        handlers[route_of(x)->id](c, x, access_tenant(c, x));
    }
}

static void on_gone(void *arg, struct http_exchange *x)
{
    struct waiter *w = http_user(x);

    (void)arg;
    if (w != NULL) {
        w->gone(w);
    }
}

const struct http_handler routes_http_handler = {
    .head = on_head, .request = on_request, .gone = on_gone};
