#include "gateway/http/connection.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/plant.h"
#include "gateway/http/http_limits.h"

struct http_connection *connection_new(struct http_server *s,
                                       struct http_conn_id id)
{
    struct http_connection *c = calloc(1, sizeof *c);

    if (c == NULL) {
        return NULL;
    }
    c->server = s;
    c->id = id;
    c->ahead.budget = &s->budget;
    c->out.budget = &s->outputs;
    c->out.exempt = HTTP_OUTPUT_EXEMPT;
    list_init(&c->dirty);
    list_append(&s->all, &c->all);
    table_add(&s->by_id, &c->node, id.v);
    connection_touch(c);
    return c;
}

void connection_touch(struct http_connection *c)
{
    if (!list_linked(&c->dirty)) {
        list_append(&c->server->dirty, &c->dirty);
    }
}

/* ---- exchanges ---- */

static struct http_exchange *exchange_new(struct http_connection *c)
{
    struct http_exchange *x = calloc(1, sizeof *x);

    if (x == NULL) {
        c->doomed = true;
        return NULL;
    }
    x->c = c;
    http_request_init(&x->request, &c->server->budget,
                      c->server->options.body_bytes_max);
    x->request.names_under = c->server->options.names_under;
    return x;
}

/* Clears c->x first, so that nobody finds an exchange that is half freed. */
static void exchange_free(struct http_connection *c)
{
    struct http_exchange *x = c->x;

    c->x = NULL;
    http_request_fini(&x->request);
    if (x->known) {
        c->server->metrics.exchanges--;
    }
    free(x);
}

void exchange_end(struct http_exchange *x, bool keep)
{
    struct http_connection *c = x->c;

    exchange_free(c);
    c->renew = true;
    if (PLANT(HTTP_PIPELINE_LOST)) {
        http_buffer_fini(&c->ahead);
    }
    if (!keep) {
        c->closing = true;
        c->deaf = true;
        http_buffer_fini(&c->ahead);
    }
    connection_touch(c);
}

/* Ends an exchange without its response's end. */
static void exchange_abandon(struct http_connection *c)
{
    struct http_server *s = c->server;

    if (c->x != NULL && c->x->known) {
        s->metrics.gone++;
        s->handler.gone(s->arg, c->x);
    }
    if (c->x != NULL) {
        exchange_free(c);
    }
}

void connection_free(struct http_connection *c)
{
    exchange_abandon(c);
    timer_clear(&c->server->timers, &c->timer);
    table_remove(&c->server->by_id, &c->node);
    list_remove(&c->all);
    list_remove(&c->dirty);
    http_buffer_fini(&c->out);
    http_buffer_fini(&c->ahead);
    free(c);
}

/* ---- input ---- */

static void refuse(struct http_connection *c, const struct http_refusal *r)
{
    bool head_only = c->x->request.head.method == HTTP_HEAD;

    if (r->status == 413 || r->status == 414 || r->status == 431 ||
        r->status == 503) {
        c->server->metrics.refused_limit++;
    } else if (r->status != 408) {
        c->server->metrics.refused_malformed++;
    }
    exchange_abandon(c);
    response_refuse(c, r, head_only);
    c->closing = true;
    c->deaf = true;
    http_buffer_fini(&c->ahead);
    connection_touch(c);
}

static void know(struct http_exchange *x)
{
    if (!x->known) {
        x->known = true;
        x->c->server->metrics.exchanges++;
    }
}

/* The handler may end the exchange, so nothing of it is used afterwards. */
static void give_head(struct http_connection *c)
{
    struct http_server *s = c->server;

    if (s->handler.head != NULL) {
        know(c->x);
        s->handler.head(s->arg, c->x);
    }
    if (c->x != NULL && c->x->request.framing.expects && !c->deaf) {
        (void)http_buffer_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

static void give_request(struct http_connection *c)
{
    struct http_server *s = c->server;

    know(c->x);
    c->x->handled = true;
    c->requests++;
    s->metrics.handled++;
    s->handler.request(s->arg, c->x);
}

/* One request at a time, and none while a client has much left to read:
 * otherwise pipelined requests would fill memory with their answers. */
static bool can_parse(const struct http_connection *c)
{
    return !c->deaf && !c->doomed && (c->x == NULL || !c->x->handled) &&
           c->out.n <= HTTP_OUTPUT_LOW && c->requests < HTTP_TURN_REQUESTS;
}

/* Parses at most one head or one request.  Returns the bytes used. */
static size_t parse(struct http_connection *c, const char *data, size_t n)
{
    struct http_request *q;
    struct http_refusal refusal;
    enum http_phase before;
    size_t used = 0;

    if (c->x == NULL && (c->x = exchange_new(c)) == NULL) {
        return n;
    }
    q = &c->x->request;
    before = q->phase;
    if (!http_request_push(q, data, n, &used, &refusal)) {
        refuse(c, &refusal);
        return n;
    }
    if (before == HTTP_PHASE_HEAD && q->phase != HTTP_PHASE_HEAD) {
        give_head(c);
    }
    if (c->x != NULL && !c->x->handled &&
        c->x->request.phase == HTTP_PHASE_DONE) {
        give_request(c);
    }
    return used;
}

/* Keeps what must wait.  A client whose bytes wait is paused at the next tick,
 * so that the limit is only reached if io does not pause. */
static void keep(struct http_connection *c, const char *data, size_t n)
{
    if (c->deaf || c->doomed) {
        return;
    }
    if (n > HTTP_AHEAD_BYTES_MAX - c->ahead.n ||
        !http_buffer_append(&c->ahead, data, n)) {
        c->server->metrics.refused_limit++;
        c->doomed = true;
    }
}

void connection_bytes(struct http_connection *c, const char *data, size_t n)
{
    size_t used = 0;

    if (c->wait == HTTP_WAIT_BODY) {
        c->progress += (uint32_t)n;
    }
    connection_touch(c);
    while (used < n && c->ahead.n == 0 && can_parse(c)) {
        used += parse(c, data + used, n - used);
    }
    keep(c, data + used, n - used);
}

/* Parses input that waited. */
static void resume(struct http_connection *c)
{
    while (c->ahead.n > 0 && can_parse(c)) {
        size_t used = parse(c, http_buffer_data(&c->ahead), c->ahead.n);

        /* A refusal has freed the buffer. */
        if (c->ahead.n > 0) {
            http_buffer_take(&c->ahead, used);
        }
    }
}

/* A client that needs the answer keeps its side open.  Half-closing is how a
 * proxy reports that its own client has left, so an open exchange is cancelled;
 * output that is complete is still sent. */
void connection_eof(struct http_connection *c)
{
    connection_touch(c);
    c->deaf = true;
    c->closing = true;
    http_buffer_fini(&c->ahead);
    if (c->x != NULL) {
        c->doomed = c->x->known;
        exchange_abandon(c);
    }
}

/* ---- output ---- */

void connection_write(struct http_connection *c)
{
    struct http_server *s = c->server;
    size_t n;

    if (c->blocked || c->out.n == 0) {
        return;
    }
    n = s->io.write(&s->io, c->id, http_buffer_data(&c->out), c->out.n);
    assert(n <= c->out.n);
    s->metrics.bytes_out += n;
    if (c->wait == HTTP_WAIT_WRITE) {
        c->progress += (uint32_t)n;
    }
    c->blocked = n < c->out.n;
    http_buffer_take(&c->out, n);
}

/* ---- time ---- */

static enum http_wait waits_for(const struct http_connection *c)
{
    if (c->out.n > 0) {
        return HTTP_WAIT_WRITE;
    }
    if (c->x == NULL) {
        return HTTP_WAIT_IDLE;
    }
    if (c->x->handled) {
        return HTTP_WAIT_NONE;
    }
    return c->x->request.phase == HTTP_PHASE_HEAD ? HTTP_WAIT_HEAD
                                                  : HTTP_WAIT_BODY;
}

static int64_t due_us(const struct http_connection *c, enum http_wait wait)
{
    const struct http_options *o = &c->server->options;
    const uint32_t ms[] = {[HTTP_WAIT_IDLE] = o->idle_ms,
                           [HTTP_WAIT_HEAD] = o->head_ms,
                           [HTTP_WAIT_BODY] = o->body_ms,
                           [HTTP_WAIT_WRITE] = o->write_ms};

    return wait == HTTP_WAIT_NONE
               ? INT64_MAX
               : c->server->now_us + 1000 * (int64_t)ms[wait];
}

/* A few bytes are no progress: a client could hold a connection for ever with
 * one byte at a time. */
static void arm(struct http_connection *c)
{
    enum http_wait wait = waits_for(c);
    bool progress = c->progress >= HTTP_PROGRESS_BYTES &&
                    (wait == HTTP_WAIT_BODY || wait == HTTP_WAIT_WRITE);

    if (c->renew || progress || wait != c->wait) {
        timer_set(&c->server->timers, &c->timer, due_us(c, wait));
        c->wait = (uint8_t)wait;
        c->progress = 0;
        c->renew = false;
    }
}

void connection_expire(struct http_connection *c)
{
    struct http_server *s = c->server;
    struct http_refusal r;

    connection_touch(c);
    /* Another timeout's handler may have ended the wait. */
    if (waits_for(c) != c->wait) {
        return;
    }
    switch ((enum http_wait)c->wait) {
    case HTTP_WAIT_HEAD:
    case HTTP_WAIT_BODY:
        s->metrics.timeouts_request++;
        http_refuse(&r, 408,
                    "the request did not arrive in time; send it "
                    "again");
        refuse(c, &r);
        return;
    case HTTP_WAIT_WRITE:
        s->metrics.stalled_readers++;
        break;
    case HTTP_WAIT_IDLE:
    case HTTP_WAIT_NONE:
        s->metrics.timeouts_idle++;
        break;
    }
    c->doomed = true;
}

/* ---- the turn ---- */

static void update_pause(struct http_connection *c)
{
    struct http_io *io = &c->server->io;
    bool pause = c->ahead.n > 0;

    if (pause != c->paused) {
        c->paused = pause;
        io->pause(io, c->id, pause);
    }
}

static void close_now(struct http_connection *c)
{
    struct http_server *s = c->server;
    struct http_conn_id id = c->id;

    connection_free(c);
    s->io.close(&s->io, id);
}

void connection_settle(struct http_connection *c)
{
    c->requests = 0;
    resume(c);
    connection_write(c);
    if (c->server->draining && c->x == NULL && c->ahead.n == 0) {
        c->closing = true;
        c->deaf = true;
    }
    if (c->doomed || (c->closing && c->out.n == 0)) {
        close_now(c);
        return;
    }
    /* A budget stopped the parser, or the write made room. */
    c->requests = 0;
    if (c->ahead.n > 0 && can_parse(c)) {
        connection_touch(c);
    }
    update_pause(c);
    arm(c);
}
