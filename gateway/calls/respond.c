#include "gateway/calls/respond.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gateway/calls/access.h"
#include "gateway/calls/call_log.h"
#include "gateway/calls/route_table.h"
#include "gateway/http/cors.h"

void respond_headers_init(struct respond_headers *h, const struct service *c,
                          const struct http_exchange *x)
{
    struct http_cors cors = http_cors_headers(x, c->options.pages.cors, false);
    const struct route *r = route_find(&c->routes, http_path(x));

    h->route = r != NULL ? r->label : GATEWAY_ROUTE_OTHER;
    h->dialect = r != NULL ? r->dialect : NULL;
    h->generation = false;
    h->model = NULL;
    h->n = strlen(cors.lines);
    memcpy(h->lines, cors.lines, h->n + 1);
}

void respond_header(struct respond_headers *h, const char *name,
                    const char *fmt, ...)
{
    size_t room = sizeof h->lines - h->n;
    char value[256];
    va_list args;
    int n;

    va_start(args, fmt);
    vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    n = snprintf(h->lines + h->n, room, "%s: %s\r\n", name, value);
    if (n > 0 && (size_t)n < room) {
        h->n += (size_t)n;
    }
    h->lines[h->n] = '\0';
}

void respond_limits(struct respond_headers *h, struct tenant *t, int64_t now_us)
{
    struct tenant_refusal use;
    char name[64];

    for (int i = 0; i < TENANT_LIMITS_NR; i++) {
        enum tenant_limit limit = (enum tenant_limit)i;
        const char *what = tenant_limit_name(limit);

        if (!tenant_use(t, now_us, limit, &use)) {
            continue;
        }
        snprintf(name, sizeof name, "x-ratelimit-limit-%s", what);
        respond_header(h, name, "%" PRIu64, use.max);
        snprintf(name, sizeof name, "x-ratelimit-remaining-%s", what);
        respond_header(h, name, "%" PRIu64,
                       use.used < use.max ? use.max - use.used : 0);
        snprintf(name, sizeof name, "x-ratelimit-reset-%s", what);
        respond_header(h, name, "%.3fs", use.retry_after_ms / 1000.0);
    }
}

void respond_ignored(struct respond_headers *h, const struct openai_ignored *i)
{
    if (i->n > i->n_named) {
        respond_header(h, "x-sluice-ignored", "%s%s%u more", i->names,
                       i->n_named > 0 ? ", and " : "", i->n - i->n_named);
    } else if (i->n > 0) {
        respond_header(h, "x-sluice-ignored", "%s", i->names);
    }
}

void respond_id_text(char out[RESPOND_ID_TEXT], const uint8_t *id)
{
    for (size_t i = 0; i < 16; i++) {
        snprintf(out + 2 * i, 3, "%02x", id[i]);
    }
}

void respond_draw_id(const struct service *c, char out[RESPOND_ID_TEXT])
{
    struct node_io *io = upstream_io(c->upstream);
    uint64_t drawn[2];

    drawn[0] = io->random(io);
    drawn[1] = io->random(io);
    respond_id_text(out, (const uint8_t *)drawn);
}

static void put_id(struct respond_headers *h, const char *hex)
{
    respond_header(h, "x-request-id", "%s", hex);
    if (h->dialect != NULL && h->dialect->id_header != NULL) {
        respond_header(h, h->dialect->id_header, "%s", hex);
    }
}

void respond_request_id(struct respond_headers *h, const uint8_t *id)
{
    char hex[RESPOND_ID_TEXT];

    respond_id_text(hex, id);
    put_id(h, hex);
}

int respond_status(const struct respond_headers *h,
                   const struct openai_error *e)
{
    return h->dialect != NULL && h->dialect->status != NULL
               ? h->dialect->status(e)
               : e->http;
}

/* Logs an answer that is no generation's. */
static void log_answer(const struct service *c, const struct http_exchange *x,
                       const struct respond_headers *h, int status,
                       const char *id)
{
    char client[HTTP_CLIENT_TEXT];
    struct tenant *tenant;

    if (!call_log_wants(h->route, status)) {
        return;
    }
    http_client(x, client);
    tenant = access_tenant(c, x);
    call_log_answer(&(struct call_line){
        .method = http_method_of(x),
        .route = h->route,
        .status = status,
        .client = client,
        .tenant = tenant != NULL ? tenant_name(tenant) : NULL,
        .model = h->model,
        .id = id});
}

void respond(struct service *c, struct http_exchange *x,
             struct respond_headers *h, struct http_answer *a)
{
    char id[RESPOND_ID_TEXT];

    gateway_metrics_http(c->metrics, h->route, a->status);
    if (!h->generation) {
        respond_draw_id(c, id);
        put_id(h, id);
        log_answer(c, x, h, a->status, id);
    }
    a->headers = h->lines;
    http_answer(x, a);
}

/* An error whose text finds no memory. */
static const char no_memory[] =
    "{\"error\":{\"message\":\"the server is out of memory; retry later\","
    "\"type\":\"server_error\",\"param\":null,\"code\":null}}";

void respond_memory(struct service *c, struct http_exchange *x)
{
    struct openai_error e;

    openai_error_memory(&e);
    respond_error(c, x, &e, NULL, RESPOND_MEMORY_MS);
}

void respond_body(struct service *c, struct http_exchange *x, int status,
                  struct respond_headers *h, struct json_out *body)
{
    struct http_answer a = {.status = status,
                            .content_type = "application/json",
                            .body = body->data,
                            .n = body->n};

    if (body->broken) {
        respond_memory(c, x);
    } else {
        respond(c, x, h, &a);
    }
    json_out_fini(body);
}

void respond_json(struct service *c, struct http_exchange *x, int status,
                  struct json_out *body)
{
    struct respond_headers h;

    respond_headers_init(&h, c, x);
    respond_body(c, x, status, &h, body);
}

void respond_error(struct service *c, struct http_exchange *x,
                   const struct openai_error *e, struct respond_headers *h,
                   uint32_t retry_after_ms)
{
    struct json_out body = {0};
    struct respond_headers own;
    struct http_answer a = {.content_type = "application/json"};

    if (h == NULL) {
        h = &own;
        respond_headers_init(h, c, x);
    }
    if (retry_after_ms > 0) { /* whole seconds, rounded up; and exactly */
        respond_header(h, "retry-after", "%u", (retry_after_ms + 999) / 1000);
        respond_header(h, "retry-after-ms", "%u", retry_after_ms);
    }
    (h->dialect != NULL ? h->dialect->error : openai_error_body)(&body, e);
    a.status = respond_status(h, e);
    a.body = body.broken ? no_memory : body.data;
    a.n = body.broken ? sizeof no_memory - 1 : body.n;
    respond(c, x, h, &a);
    json_out_fini(&body);
}
