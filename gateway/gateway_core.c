#include "gateway/gateway_core.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "gateway/calls/figures.h"
#include "gateway/calls/routes.h"
#include "gateway/calls/turn.h"
#include "gateway/openai/json_memory.h"

/* Time for the last bytes to leave, after the grace. */
#define LAST_US 500000

struct gateway_core {
    struct node_io *io;
    struct upstream *upstream;
    struct http_server *http;
    struct gateway_metrics metrics;
    struct service service;
    int64_t stop_us; /* NODE_IDLE: not stopping */
    bool aborted;    /* the grace is over */
};

struct gateway_core *gateway_new(const struct gateway_options *o,
                                 struct node_io *io, const struct http_io *http)
{
    /* A model's name may hold a slash; each route has an alias without /v1. */
    static const char *const names[] = {"/v1/models/", "/models/", NULL};
    struct http_options served = o->http;
    struct gateway_core *g = memory_must(calloc(1, sizeof *g));

    json_memory_init();
    g->io = io;
    g->stop_us = NODE_IDLE;
    gateway_metrics_init(&g->metrics);
    g->upstream = upstream_new(o->name, o->n_sessions, io);
    service_init(&g->service, &o->service, g->upstream, &g->metrics);
    served.names_under = names;
    served.unix_s = o->service.unix_s;
    served.unix_arg = o->service.unix_arg;
    g->http = http_server_new(&served, http, &routes_http_handler, &g->service);
    g->service.http = g->http;
    return g;
}

void gateway_free(struct gateway_core **pg)
{
    struct gateway_core *g = *pg;

    if (g == NULL) {
        return;
    }
    /* Clients first: their requests cancel calls of the upstream.  The server
     * last: requests and answers count in its budgets. */
    http_server_close(g->http);
    turn_cancel(&g->service);
    upstream_free(&g->upstream);
    turn_fini(&g->service);
    http_server_free(&g->http);
    gateway_metrics_fini(&g->metrics);
    free(g);
    *pg = NULL;
}

static void on_opened(void *node, struct peer_id who)
{
    upstream_opened(((struct gateway_core *)node)->upstream, who);
}

static void on_recv(void *node, struct peer_id from, struct frame **f)
{
    upstream_recv(((struct gateway_core *)node)->upstream, from, f);
}

static void on_lost(void *node, struct peer_id who)
{
    upstream_lost(((struct gateway_core *)node)->upstream, who);
}

/* Ends what the grace has not ended.  A stream that were cut without an error
 * would look to some clients like a whole one. */
static int64_t abort_open(struct gateway_core *g, int64_t now_us)
{
    g->aborted = true;
    g->stop_us = now_us + LAST_US;
    turn_abort(&g->service);
    return min_i64(upstream_tick(g->upstream, now_us),
                   http_server_tick(g->http, now_us));
}

/* The upstream runs before the server, so that tokens of this turn leave in
 * this turn.  A client that the server gives up cancels calls, which the
 * upstream must send: it then runs once more. */
static int64_t on_tick(void *node, int64_t now_us)
{
    struct gateway_core *g = node;
    int64_t due = turn_tick(&g->service, now_us);

    due = min_i64(due, upstream_tick(g->upstream, now_us));
    due = min_i64(due, http_server_tick(g->http, now_us));
    if (g->service.again) {
        g->service.again = false;
        due = min_i64(turn_tick(&g->service, now_us),
                      upstream_tick(g->upstream, now_us));
        due = min_i64(due, http_server_tick(g->http, now_us));
    }
    if (g->stop_us == NODE_IDLE) {
        return due;
    }
    if (now_us >= g->stop_us && !g->aborted) {
        due = min_i64(due, abort_open(g, now_us));
    }
    if (now_us >= g->stop_us || http_server_connections(g->http) == 0) {
        return NODE_STOP;
    }
    return min_i64(due, g->stop_us);
}

const struct node_ops gateway_node_ops = {
    .opened = on_opened, .recv = on_recv, .lost = on_lost, .tick = on_tick};

struct http_server *gateway_http(struct gateway_core *g)
{
    return g->http;
}

struct gateway_view gateway_view(const struct gateway_core *g)
{
    return (struct gateway_view){.requests = turn_open(&g->service),
                                 .calls = upstream_calls(g->upstream),
                                 .resumed = g->metrics.counts.resumed,
                                 .knows_models = g->service.list.known};
}

bool gateway_is_up(const struct gateway_core *g)
{
    return upstream_up(g->upstream);
}

bool gateway_is_ready(const struct gateway_core *g)
{
    return service_is_ready(&g->service);
}

void gateway_page(struct gateway_core *g, struct metric_page *page)
{
    figures_page(&g->service, true, page);
}

void gateway_log(struct gateway_core *g)
{
    figures_log(&g->service);
}

void gateway_stop(struct gateway_core *g, int64_t grace_us)
{
    int64_t stop_us = g->io->now_us(g->io) + grace_us;

    if (g->stop_us == NODE_IDLE) {
        log_info("draining", "open=%u", turn_open(&g->service));
        g->service.draining = true;
        http_server_drain(g->http);
    }
    g->stop_us = min_i64(g->stop_us, stop_us);
}
