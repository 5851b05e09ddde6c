#include "gateway/calls/routes.h"

#include <stdio.h>
#include <string.h>

#include "gateway/calls/access.h"
#include "gateway/calls/call_log.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/http/cors.h"

static const struct route *route_of(const struct service *c,
                                    const struct http_exchange *x)
{
    return route_find(&c->routes, http_path(x));
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

    openai_error_set(
        &e, 401, NULL, "invalid_api_key", "%s",
        !access_has_key(x)
            ? "no API key; send Authorization: Bearer KEY, or x-api-key: KEY"
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

/* Returns why no page of a browser may send x; NULL: it may.  With keys, a page
 * needs one. */
static const char *page_refusal(const struct service *c,
                                const struct http_exchange *x)
{
    return keys_are_open(c->options.keys)
               ? http_page_refusal(x, &c->options.pages)
               : NULL;
}

static void answer_options(struct service *c, struct http_exchange *x)
{
    struct http_cors cors = http_cors_headers(x, c->options.pages.cors, true);
    struct http_answer a = {.status = 204};
    struct respond_headers h;

    respond_headers_init(&h, c, x);
    h.n = strlen(cors.lines);
    memcpy(h.lines, cors.lines, h.n + 1);
    respond(c, x, &h, &a);
}

/* Answers a request that no handler may see.  Returns whether it did. */
static bool answered(struct service *c, struct http_exchange *x)
{
    const struct route *r = route_of(c, x);
    const char *page = page_refusal(c, x);

    if (page != NULL) {
        refuse(c, x, 403, NULL, page);
    } else if (http_method_of(x) == HTTP_OPTIONS) {
        answer_options(c, x);
    } else if ((r == NULL || !r->is_public) && access_tenant(c, x) == NULL) {
        refuse_key(c, x);
    } else if (r == NULL) {
        refuse(c, x, 404, "unknown_url",
               "no such route; GET / has links to those that there are");
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
    static recv_fn *const handlers[ROUTE_IDS] = {[ROUTE_route_generate] =
                                                     route_generate,
#define X(path, method, handler, public, label, help) \
    [ROUTE_##handler] = handler,
                                                 ROUTES(X)
#undef X
    };
    struct service *c = arg;

    if (!answered(c, x)) {
        handlers[route_of(c, x)->id](c, x, access_tenant(c, x));
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

/* The server itself answers a request with errors of syntax. */
static void on_refused(void *arg, int status, const char *client,
                       char lines[HTTP_REFUSED_LINES])
{
    struct service *c = arg;
    char id[RESPOND_ID_TEXT];

    respond_draw_id(c, id);
    snprintf(lines, HTTP_REFUSED_LINES, "x-request-id: %s\r\n", id);
    if (call_log_wants(GATEWAY_ROUTE_OTHER, status)) {
        call_log_answer(&(struct call_line){.method = HTTP_OTHER,
                                            .route = GATEWAY_ROUTE_OTHER,
                                            .status = status,
                                            .client = client,
                                            .id = id});
    }
}

const struct http_handler routes_http_handler = {.head = on_head,
                                                 .request = on_request,
                                                 .gone = on_gone,
                                                 .refused = on_refused};
