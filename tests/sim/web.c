#include "tests/sim/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/gateway_core.h"
#include "gateway/http/http_limits.h"
#include "tests/sim/sim.h"
#include "tests/sim/web_check.h"
#include "tests/sim/web_script.h"

#define PIECE_US    20000   /* longest pause between pieces of a request */
#define READ_US     20000   /* ... between reads */
#define WALK_OFF_US 2000000 /* longest time until a client leaves */
#define LINGER_US   1000000 /* ... until it closes an idle connection */
#define MANY        40
#define TURN_US     1000 /* longest until the next turn of a gateway */

static struct web_conn *conn_at(struct sim *s, uint32_t number)
{
    return &s->web.conns[number];
}

static void soon(const struct web_conn *c)
{
    if (c->sim->nodes[c->gateway].core) {
        node_soon(c->sim, c->gateway);
    }
}

/* Returns when the gateway takes events again; 0: now. */
static int64_t paused_until(const struct web_conn *c)
{
    int64_t until = c->sim->nodes[c->gateway].paused_us;

    return until > sim_now(c->sim) ? until : 0;
}

static struct http_server *server_of(const struct web_conn *c)
{
    return gateways_http(c->sim, c->gateway);
}

static struct http_conn_id id_of(const struct web_conn *c)
{
    return (struct http_conn_id){c->number + 1};
}

/* ---- the end ---- */

/* Ends the calls that are left, and the connection. */
static void end_conn(struct web_conn *c)
{
    struct sim *s = c->sim;

    if (c->over) {
        return;
    }
    c->over = true;
    s->web.n_open--;
    for (; c->n_over < c->n_calls && !s->failed; c->n_over++) {
        web_check_cut(c, &c->calls[c->n_over],
                      c->reader.n_body > 0 || c->reader.n_line > 0 ||
                          c->reader.status != 0);
        web_reader_begin(&c->reader, false);
    }
}

static void late_lost(struct sim *s, uint32_t number, uint64_t by_eof)
{
    struct web_conn *c = conn_at(s, number);

    if (!c->open) {
        return;
    }
    if (paused_until(c)) {
        clock_add(&s->clock, paused_until(c), late_lost, number, by_eof);
        return;
    }
    if (by_eof) {
        http_server_eof(server_of(c), id_of(c));
    } else {
        c->open = false;
        http_server_lost(server_of(c), id_of(c));
    }
    web_check_left(c);
    soon(c);
}

/* The client goes: it closes, or its machine resets the connection. */
static void leave(struct web_conn *c)
{
    if (c->left || c->over) {
        return;
    }
    sim_log(c->sim, "web %u leaves", c->number);
    web_check_leaves(c);
    c->left = true;
    c->n_pipe = 0;
    end_conn(c);
    late_lost(c->sim, c->number, rng_below(&c->sim->will, 2));
}

static void leave_later(struct sim *s, uint32_t number, uint64_t unused)
{
    (void)unused;
    leave(conn_at(s, number));
}

void web_gateway_dies(struct sim *s, uint32_t gateway)
{
    for (uint32_t i = 0; i < s->web.n_conns; i++) {
        struct web_conn *c = conn_at(s, i);

        if (c->gateway == gateway && c->open) {
            c->open = false;
            c->broken = true;
            end_conn(c);
        }
    }
}

void web_gateway_stops(struct sim *s, uint32_t gateway)
{
    for (uint32_t i = 0; i < s->web.n_conns; i++) {
        struct web_conn *c = conn_at(s, i);

        c->drained = c->drained || (c->gateway == gateway && c->open);
    }
}

/* ---- towards the gateway ---- */

static void send_piece(struct sim *s, uint32_t number, uint64_t unused);

static void send_soon(struct web_conn *c, int64_t at_us)
{
    if (!c->sending) {
        c->sending = true;
        clock_add(&c->sim->clock, at_us, send_piece, c->number, 0);
    }
}

/* Returns up to where the client sends now: without pipelining, a request
 * waits for the response before it. */
static size_t sends_to(const struct web_conn *c)
{
    size_t end = c->pipelined || c->n_over == c->n_calls
                     ? c->n_script
                     : c->calls[c->n_over].end;

    return end < c->n_script ? end : c->n_script;
}

static void send_piece(struct sim *s, uint32_t number, uint64_t unused)
{
    struct web_conn *c = conn_at(s, number);
    size_t left = sends_to(c) - c->sent, n;

    (void)unused;
    c->sending = false;
    if (!c->open || c->left || c->paused || left == 0) {
        return;
    }
    if (paused_until(c)) {
        send_soon(c, paused_until(c));
        return;
    }
    n = rng_below(&s->will, 3) ? left
                               : (size_t)rng_octave(&s->will, 1, (int64_t)left);
    n = n < HTTP_READ_BYTES_MAX ? n : HTTP_READ_BYTES_MAX;
    c->sent += n;
    http_server_bytes(server_of(c), id_of(c), c->script + c->sent - n, n);
    soon(c);
    send_soon(c, sim_now(s) + rng_octave(&s->will, 1, PIECE_US));
}

/* ---- from the gateway ---- */

static void read_some(struct sim *s, uint32_t number, uint64_t unused);

static void read_soon(struct web_conn *c, int64_t at_us)
{
    if (!c->reading && !c->stalled && !c->left && !c->over) {
        c->reading = true;
        clock_add(&c->sim->clock, at_us, read_some, c->number, 0);
    }
}

static int64_t next_read_us(struct web_conn *c)
{
    return sim_now(c->sim) + rng_octave(&c->sim->will, 1, READ_US);
}

/* Takes what fits the pipe.  A client that has left takes everything. */
static size_t io_write(struct http_io *io, struct http_conn_id id,
                       const char *data, size_t n)
{
    struct sim *s = io->impl;
    struct web_conn *c = conn_at(s, id.v - 1);
    size_t space = s->options.gateways.pipe_bytes - c->n_pipe;

    if (!c->open || c->left) {
        return n;
    }
    c->blocked = n > space;
    n = n < space ? n : space;
    memcpy(c->pipe + c->n_pipe, data, n);
    c->n_pipe += n;
    read_soon(c, next_read_us(c));
    return n;
}

/* A client that does not read has nothing more to do. */
static void io_close(struct http_io *io, struct http_conn_id id)
{
    struct sim *s = io->impl;
    struct web_conn *c = conn_at(s, id.v - 1);

    c->closed = c->open;
    /* The server may have given it up just before the pipe had room again. */
    c->slow = c->open && (c->blocked || sim_now(s) < c->freed_us + TURN_US);
    c->open = false;
    if (c->stalled) {
        web_check_stalled(c);
        end_conn(c);
    }
    read_soon(c, next_read_us(c));
}

static void io_pause(struct http_io *io, struct http_conn_id id, bool paused)
{
    struct sim *s = io->impl;
    struct web_conn *c = conn_at(s, id.v - 1);

    c->paused = paused;
    if (!paused) {
        send_soon(c, sim_now(s));
    }
}

struct http_io web_io(struct sim *s)
{
    return (struct http_io){
        .impl = s, .write = io_write, .close = io_close, .pause = io_pause};
}

/* ---- the client ---- */

/* A response is whole: the client sends its next request, or is done. */
static void answered(struct web_conn *c)
{
    struct sim *s = c->sim;

    web_check_whole(c, &c->calls[c->n_over++]);
    if (c->n_over == c->n_calls) {
        web_reader_begin(&c->reader, false);
        if (rng_below(&s->will, 4)) { /* else the server gets tired of it */
            clock_add(&s->clock,
                      sim_now(s) + rng_octave(&s->will, 1, LINGER_US),
                      leave_later, c->number, 0);
        }
        return;
    }
    web_reader_begin(&c->reader, c->calls[c->n_over].head_only);
    send_soon(c, sim_now(s) + rng_octave(&s->will, 1, PIECE_US));
}

/* Reads bytes: the end of one response may come with the next one's begin. */
static void take(struct web_conn *c, const char *data, size_t n)
{
    struct sim *s = c->sim;
    size_t at = 0;

    /* Comments keep a connection open, but are no progress. */
    s->web.n_bytes +=
        memmem(data, n, ": ping", 6) || memmem(data, n, ": waiting", 9) ? 0 : n;
    c->n_read += n;
    while (at < n && !s->failed) {
        if (c->n_over == c->n_calls) {
            sim_fail(s, -1, "web %u: bytes received after the last response",
                     c->number);
            return;
        }
        at += web_reader_feed(&c->reader, data + at, n - at);
        if (c->reader.wrong) {
            sim_fail(s, (int32_t)c->calls[c->n_over].first, "web %u: %s",
                     c->number, c->reader.wrong);
        } else if (c->reader.at == WEB_AT_DONE) {
            answered(c);
        }
    }
}

static void read_some(struct sim *s, uint32_t number, uint64_t unused)
{
    struct web_conn *c = conn_at(s, number);
    size_t n = c->n_pipe;

    (void)unused;
    c->reading = false;
    if (c->left || c->stalled || c->over) {
        return;
    }
    if (n > 0 && rng_below(&s->will, 3) == 0) {
        n = (size_t)rng_octave(&s->will, 1, (int64_t)n);
    }
    take(c, c->pipe, n);
    c->n_pipe -= n;
    memmove(c->pipe, c->pipe + n, c->n_pipe);
    if (c->way == WEB_STALLS && c->n_read >= c->stop_at) {
        c->stalled = true;
        if (c->closed) {
            end_conn(c);
        }
    } else if (c->way == WEB_LEAVES && c->stop_at && c->n_read >= c->stop_at) {
        leave(c);
    } else if (c->closed && c->n_pipe == 0) {
        if (c->reader.at == WEB_AT_END && !c->slow) {
            answered(c);
        }
        end_conn(c);
    } else if (c->n_pipe) {
        read_soon(c, next_read_us(c));
    }
    if (c->open && c->blocked && n) {
        c->blocked = false;
        c->freed_us = sim_now(s);
        http_server_writable(server_of(c), id_of(c));
        soon(c);
    }
}

/* ---- connections ---- */

static void draw_way(struct web_conn *c)
{
    const struct gateway_draw *d = &c->sim->options.gateways;
    struct rng *r = &c->sim->will;

    c->way = rng_chance(r, d->leave_of)   ? WEB_LEAVES
             : rng_chance(r, d->stall_of) ? WEB_STALLS
             : rng_chance(r, d->half_of)  ? WEB_HALF
                                          : WEB_READS;
    if (c->way == WEB_STALLS || rng_below(r, 2)) {
        c->stop_at = (size_t)rng_octave(r, 1, 1 << 16);
    }
}

/* Cuts the script within its last request. */
static void cut_script(struct web_conn *c)
{
    size_t from = c->n_calls > 1 ? c->calls[c->n_calls - 2].end : 0;

    c->half = true;
    c->n_script = (size_t)rng_range(&c->sim->will, (int64_t)from + 1,
                                    (int64_t)c->n_script - 1);
}

/* Draws the requests of a connection; none follows one that ends it. */
static void draw_script(struct web_conn *c)
{
    struct rng *r = &c->sim->will;
    uint32_t n = rng_below(r, 3) ? 1 : (uint32_t)rng_range(r, 2, WEB_CALLS_MAX);
    bool last = false;

    c->pipelined = n > 1 && rng_below(r, 2);
    while (c->n_calls < n && !last &&
           c->sim->n_requests + WEB_PROMPTS_MAX < SIM_REQUESTS_MAX) {
        web_script_add(c);
        last = c->calls[c->n_calls - 1].ends_conn;
    }
    if (c->way == WEB_HALF && !c->calls[c->n_calls - 1].head_only) {
        cut_script(c);
    }
}

/* Draws when a client leaves, unless a number of bytes decides it. */
static void plan_end(struct web_conn *c)
{
    struct sim *s = c->sim;
    bool by_time = (c->way == WEB_LEAVES && c->stop_at == 0) ||
                   (c->way == WEB_HALF && rng_below(&s->will, 2));

    if (by_time) {
        clock_add(&s->clock, sim_now(s) + rng_octave(&s->will, 1, WALK_OFF_US),
                  leave_later, c->number, 0);
    }
}

void web_connect(struct sim *s)
{
    uint32_t gateway = SIM_FIRST_GATEWAY +
                       (uint32_t)rng_below(&s->will, s->options.gateways.n);
    struct web_conn *c = &s->web.conns[s->web.n_conns];

    if (!s->nodes[gateway].core || s->nodes[gateway].paused_us > sim_now(s) ||
        s->web.n_conns == WEB_CONNS_MAX) {
        return;
    }
    *c = (struct web_conn){.sim = s,
                           .number = s->web.n_conns,
                           .gateway = gateway,
                           .since_us = sim_now(s)};
    if (!http_server_accept(server_of(c), id_of(c))) {
        return; /* it drains */
    }
    s->web.n_conns++;
    s->web.n_open++;
    c->open = true;
    c->early = !gateway_view(s->nodes[c->gateway].core).knows_models;
    c->pipe = malloc(s->options.gateways.pipe_bytes);
    if (!c->pipe) {
        abort();
    }
    draw_way(c);
    draw_script(c);
    plan_end(c);
    web_reader_begin(&c->reader, c->calls[0].head_only);
    sim_log(s, "web %u opens to %s: way %d, %u requests from %u%s", c->number,
            s->nodes[gateway].name, (int)c->way, c->n_calls, c->calls[0].first,
            c->pipelined ? ", pipelined" : "");
    web_check_begins(c);
    soon(c);
    send_soon(c, sim_now(s));
}

static void arrive(struct sim *s, uint32_t a, uint64_t b)
{
    int64_t gap_us = s->options.gateways.gap_us;

    if (s->closing) {
        return;
    }
    /* A connection has at least one request, so there must be room for it. */
    if (s->web.n_open < s->options.gateways.open_max &&
        s->n_requests + WEB_PROMPTS_MAX < SIM_REQUESTS_MAX) {
        web_connect(s);
    }
    if (s->web.n_conns > MANY) {
        gap_us *= 10; /* as most are refused */
    }
    clock_add(&s->clock, sim_now(s) + rng_range(&s->will, 0, gap_us * 2),
              arrive, a, b);
}

void web_start(struct sim *s)
{
    s->web.conns = calloc(WEB_CONNS_MAX, sizeof(*s->web.conns));
    if (!s->web.conns) {
        abort();
    }
    arrive(s, 0, 0);
}

void web_fini(struct sim *s)
{
    for (uint32_t i = 0; i < s->web.n_conns; i++) {
        free(s->web.conns[i].script);
        free(s->web.conns[i].pipe);
        web_reader_fini(&s->web.conns[i].reader);
    }
    free(s->web.conns);
}

bool web_quiet(struct sim *s, char *why, size_t cap)
{
    for (uint32_t i = 0; s->web.n_open && i < s->web.n_conns; i++) {
        const struct web_conn *c = conn_at(s, i);

        if (!c->over) {
            (void)snprintf(why, cap,
                           "web %u is open, with %u of %u responses, %zu of "
                           "%zu bytes sent",
                           i, c->n_over, c->n_calls, c->sent, c->n_script);
        }
    }
    return s->web.n_open == 0;
}
