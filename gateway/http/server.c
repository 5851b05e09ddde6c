#include <assert.h>
#include <stdlib.h>

#include "gateway/http/connection.h"
#include "gateway/http/http_limits.h"

/* A handler may touch other connections while one is settled: they are settled
 * in the same tick, those that they touch in the next. */
#define PASSES 2

static void fill_options(struct http_options *o)
{
#define DEFAULT(field, value) \
    if (o->field == 0) {      \
        o->field = (value);   \
    }
    DEFAULT(body_bytes_max, HTTP_BODY_BYTES_MAX)
    DEFAULT(requests_bytes_max, HTTP_REQUESTS_BYTES_MAX)
    DEFAULT(outputs_bytes_max, HTTP_OUTPUTS_BYTES_MAX)
    DEFAULT(output_bytes_max, HTTP_OUTPUT_BYTES_MAX)
    DEFAULT(connections_max, HTTP_CONNECTIONS_MAX)
    DEFAULT(head_ms, HTTP_HEAD_MS)
    DEFAULT(body_ms, HTTP_BODY_MS)
    DEFAULT(idle_ms, HTTP_IDLE_MS)
    DEFAULT(write_ms, HTTP_WRITE_MS)
#undef DEFAULT
    if (o->connections_max > HTTP_CONNECTIONS_MOST) {
        o->connections_max = HTTP_CONNECTIONS_MOST;
    }
}

struct http_server *http_server_new(const struct http_options *options,
                                    const struct http_io *io,
                                    const struct http_handler *handler,
                                    void *arg)
{
    struct http_server *s = memory_must(calloc(1, sizeof *s));

    s->options = *options;
    fill_options(&s->options);
    s->io = *io;
    s->handler = *handler;
    s->arg = arg;
    s->budget.max = s->options.requests_bytes_max;
    s->outputs.max = s->options.outputs_bytes_max;
    table_init(&s->by_id, s->options.connections_max);
    list_init(&s->all);
    list_init(&s->dirty);
    timers_init(&s->timers);
    return s;
}

void http_server_close(struct http_server *s)
{
    /* The first of the list each time: gone() may end other exchanges. */
    while (!list_empty(&s->all)) {
        struct http_connection *c =
            LIST_OF(s->all.next, struct http_connection, all);
        struct http_conn_id id = c->id;

        connection_free(c);
        s->io.close(&s->io, id);
    }
}

void http_server_free(struct http_server **server)
{
    struct http_server *s = *server;

    *server = NULL;
    if (s == NULL) {
        return;
    }
    http_server_close(s);
    timers_fini(&s->timers);
    table_fini(&s->by_id);
    free(s);
}

/* Late events of a closed connection find nothing, as its id is not used again
 * while they can come. */
static struct http_connection *find(const struct http_server *s,
                                    struct http_conn_id id)
{
    struct table_node *node = table_find(&s->by_id, id.v);

    return node == NULL ? NULL : LIST_OF(node, struct http_connection, node);
}

bool http_server_accept(struct http_server *s, struct http_conn_id id)
{
    if (s->draining || s->by_id.n >= s->options.connections_max ||
        find(s, id) != NULL || connection_new(s, id) == NULL) {
        s->metrics.connections_refused++;
        return false;
    }
    s->metrics.accepted++;
    return true;
}

void http_server_bytes(struct http_server *s, struct http_conn_id id,
                       const char *data, size_t n)
{
    struct http_connection *c = find(s, id);

    assert(n <= HTTP_READ_BYTES_MAX);
    s->metrics.bytes_in += n;
    if (c != NULL) {
        connection_bytes(c, data, n);
    }
}

void http_server_eof(struct http_server *s, struct http_conn_id id)
{
    struct http_connection *c = find(s, id);

    if (c != NULL) {
        connection_eof(c);
    }
}

void http_server_writable(struct http_server *s, struct http_conn_id id)
{
    struct http_connection *c = find(s, id);

    if (c != NULL) {
        c->blocked = false;
        connection_touch(c);
    }
}

void http_server_lost(struct http_server *s, struct http_conn_id id)
{
    struct http_connection *c = find(s, id);

    if (c != NULL) {
        connection_free(c);
    }
}

static void settle_dirty(struct http_server *s)
{
    struct list round;
    struct list *node;

    /* A list of its own: connections touched meanwhile belong to the next
     * round, so a handler cannot keep this one from ending. */
    list_init(&round);
    while ((node = list_take(&s->dirty)) != NULL) {
        list_append(&round, node);
    }
    while ((node = list_take(&round)) != NULL) {
        connection_settle(LIST_OF(node, struct http_connection, dirty));
    }
}

int64_t http_server_tick(struct http_server *s, int64_t now_us)
{
    struct timer *t;

    s->now_us = now_us;
    /* Input since the last tick counts before its timeout. */
    settle_dirty(s);
    while ((t = timers_pop(&s->timers, now_us)) != NULL) {
        connection_expire(LIST_OF(t, struct http_connection, timer));
    }
    for (int i = 0; i < PASSES && !list_empty(&s->dirty); i++) {
        settle_dirty(s);
    }
    return list_empty(&s->dirty) ? timers_due(&s->timers) : now_us;
}

void http_server_drain(struct http_server *s)
{
    s->draining = true;
    for (struct list *at = s->all.next; at != &s->all; at = at->next) {
        connection_touch(LIST_OF(at, struct http_connection, all));
    }
}

uint32_t http_server_connections(const struct http_server *s)
{
    return s->by_id.n;
}

struct http_metrics *http_server_metrics(struct http_server *s)
{
    s->metrics.connections = s->by_id.n;
    s->metrics.request_bytes = s->budget.used;
    return &s->metrics;
}

struct memory_budget *http_server_memory(struct http_server *s)
{
    return &s->budget;
}
