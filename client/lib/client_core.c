/* client_core.c - Client side of the protocol.
 *
 * Calls live in a fixed array; free calls form one list, waiting calls another
 * (FIFO).  An id is serial * CLIENT_CALLS_MAX + index, so a stale id of a
 * reused place never matches. */
#include "client/lib/client_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/timer.h"
#include "common/wire/peer.h"
#include "common/wire/session.h"
#include "common/wire/wire.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"

/* A call waits for a session with room, then it is open.
 *
 *     FREE --begin--> WAITING --sent--> OPEN --end--> FREE
 */
enum call_state { CALL_FREE, CALL_WAITING, CALL_OPEN };

struct call {
    struct timer deadline; /* first: the core casts a timer to its call; set
                              while waiting, later the peer has its own */
    enum call_state state;
    uint64_t id;      /* serial * CLIENT_CALLS_MAX + index; the peer's tag */
    uint64_t at_peer; /* the peer's id of the call while open */
    const struct client_call_ops *ops;
    void *arg;
    const struct method_row *row;
    uint8_t *request; /* [bytes], packed, while waiting; owned */
    size_t bytes;
    uint32_t next; /* in the list of free or waiting calls; CALL_NONE: last */
};

#define CALL_NONE UINT32_MAX

struct client_core {
    struct node_io *io;
    struct session session;
    struct peer *peer; /* while the session is up, else NULL */
    struct arena arena;
    struct timers deadlines, waits;
    struct call calls[CLIENT_CALLS_MAX];
    uint32_t first_free, first_waiting, last_waiting;
    uint32_t n_calls; /* open or waiting */
    uint64_t serial;
    size_t waiting_bytes;
    bool drop; /* drop the session at the next tick */
    char drop_reason[ERROR_TEXT];
    char name[65];
    char trouble[ERROR_TEXT];
    enum status refused; /* status that rejected the last Hello, or ST_OK */
    uint8_t role;        /* BY_CLIENT or BY_ADMIN */
    bool ending;
};

static struct call *call_find(struct client_core *c, uint64_t id)
{
    struct call *k = &c->calls[id % CLIENT_CALLS_MAX];

    return k->state != CALL_FREE && k->id == id ? k : NULL;
}

static struct call *call_take(struct client_core *c)
{
    uint32_t i = c->first_free;

    if (i == CALL_NONE) {
        return NULL;
    }
    c->first_free = c->calls[i].next;
    c->n_calls++;
    c->calls[i].id = ++c->serial * CLIENT_CALLS_MAX + i;
    return &c->calls[i];
}

static uint32_t call_index(const struct client_core *c, const struct call *k)
{
    return (uint32_t)(k - c->calls);
}

static void call_give(struct client_core *c, struct call *k)
{
    k->state = CALL_FREE;
    k->next = c->first_free;
    c->first_free = call_index(c, k);
    c->n_calls--;
}

static void waiting_append(struct client_core *c, struct call *k)
{
    uint32_t i = call_index(c, k);

    k->state = CALL_WAITING;
    k->next = CALL_NONE;
    if (c->first_waiting == CALL_NONE) {
        c->first_waiting = i;
    } else {
        c->calls[c->last_waiting].next = i;
    }
    c->last_waiting = i;
    c->waiting_bytes += k->bytes;
}

/* Unlinks a waiting call.  The walk is short: calls mostly leave at the head,
 * in FIFO order; only cancels and deadlines leave from the middle. */
static void waiting_remove(struct client_core *c, struct call *k)
{
    uint32_t i = call_index(c, k), before = CALL_NONE;
    uint32_t *at = &c->first_waiting;

    while (*at != i) {
        before = *at;
        at = &c->calls[*at].next;
    }
    *at = k->next;
    if (c->last_waiting == i) {
        c->last_waiting = before;
    }
    c->waiting_bytes -= k->bytes;
    free(k->request);
    k->request = NULL;
    timer_clear(&c->deadlines, &k->deadline);
}

/* Ends a call.  Its place is free before on_end runs, so that on_end can begin
 * another call even if all places were taken. */
static void call_end(struct client_core *c, struct call *k, enum status status,
                     const ProtobufCMessage *reply, const struct error *e,
                     uint32_t retry_after_ms)
{
    const struct client_call_ops *ops = k->ops;
    void *arg = k->arg;

    if (k->state == CALL_WAITING) {
        waiting_remove(c, k);
    }
    call_give(c, k);
    ops->on_end(arg, status, reply, e, retry_after_ms);
}

/* Ends a call without a reply, with a text of this end. */
static void call_fail(struct client_core *c, struct call *k, enum status code,
                      const char *why)
{
    struct error e;

    (void)error_set(&e, code, "%s", why);
    call_end(c, k, code, NULL, &e, 0);
}

static enum status check_call(const struct client_core *c,
                              const struct method_row *row,
                              const ProtobufCMessage *request, size_t *bytes)
{
    if (!row || row->kind == ONEWAY || request->descriptor != row->request) {
        return ST_INVALID_ARGUMENT;
    }
    if (!(row->callers & c->role)) {
        return ST_PERMISSION_DENIED;
    }
    *bytes = wire_size(request);
    return *bytes > row->request_cap ? ST_INVALID_ARGUMENT : ST_OK;
}

static enum status hold_call(struct client_core *c, struct call *k,
                             const ProtobufCMessage *request,
                             uint32_t deadline_ms)
{
    if (c->waiting_bytes + k->bytes > CLIENT_WAITING_BYTES) {
        return ST_RESOURCE_EXHAUSTED;
    }
    k->request = malloc(k->bytes + 1);
    if (!k->request) {
        return ST_RESOURCE_EXHAUSTED;
    }
    (void)wire_pack(request, k->request);
    waiting_append(c, k);
    if (deadline_ms) {
        timer_set(&c->deadlines, &k->deadline,
                  c->io->now_us(c->io) + (int64_t)deadline_ms * 1000);
    }
    return ST_OK;
}

/* Sends the request at once if the session has room and no earlier call waits;
 * otherwise the call waits.  Overtaking would break the order of requests. */
static enum status begin_call(struct client_core *c, struct call *k,
                              const ProtobufCMessage *request,
                              uint32_t deadline_ms)
{
    enum status st = ST_RESOURCE_EXHAUSTED;

    if (c->peer && c->first_waiting == CALL_NONE) {
        st = peer_call(c->peer, (enum method)k->row->number, request,
                       deadline_ms, k->id, &k->at_peer);
    }
    if (st == ST_OK) {
        k->state = CALL_OPEN;
    } else if (st == ST_RESOURCE_EXHAUSTED) {
        st = hold_call(c, k, request, deadline_ms);
    }
    return st;
}

enum status client_core_call(struct client_core *c, enum method m,
                             const ProtobufCMessage *request,
                             uint32_t deadline_ms,
                             const struct client_call_ops *ops, void *arg,
                             uint64_t *id)
{
    const struct method_row *row = method_find((uint16_t)m);
    size_t bytes = 0;
    enum status st = check_call(c, row, request, &bytes);
    struct call *k = st == ST_OK ? call_take(c) : NULL;

    if (!k) {
        return st == ST_OK ? ST_RESOURCE_EXHAUSTED : st;
    }
    k->ops = ops;
    k->arg = arg;
    k->row = row;
    k->bytes = bytes;
    st = begin_call(c, k, request, deadline_ms);
    if (st != ST_OK) {
        call_give(c, k);
    } else if (id) {
        *id = k->id;
    }
    return st;
}

void client_core_cancel(struct client_core *c, uint64_t id)
{
    struct call *k = call_find(c, id);

    if (!k) {
        return;
    }
    if (k->state == CALL_OPEN && c->peer) {
        peer_cancel(c->peer, k->at_peer);
    } else {
        call_fail(c, k, ST_CANCELLED, "cancelled by the caller");
    }
}

/* Returns the time left to a waiting call in ms, rounded up so that a call
 * with time left never sends 0, which means no deadline. */
static uint32_t left_ms(const struct call *k, int64_t now_us)
{
    return k->deadline.index
               ? (uint32_t)((k->deadline.due_us - now_us + 999) / 1000)
               : 0;
}

/* Passes the first waiting call to the peer.  Returns false if the peer has no
 * room and the call keeps waiting.  The packed request is unpacked again here,
 * because the caller's message is valid only during client_core_call(). */
static bool send_waiting(struct client_core *c, int64_t now_us)
{
    struct call *k = &c->calls[c->first_waiting];
    ProtobufCMessage *request =
        protobuf_c_message_unpack(k->row->request, NULL, k->bytes, k->request);
    enum status st = ST_INTERNAL;

    if (request) {
        st = peer_call(c->peer, (enum method)k->row->number, request,
                       left_ms(k, now_us), k->id, &k->at_peer);
        protobuf_c_message_free_unpacked(request, NULL);
    }
    if (st == ST_RESOURCE_EXHAUSTED) {
        return false;
    }
    if (st == ST_OK) {
        waiting_remove(c, k);
        k->state = CALL_OPEN;
    } else {
        call_fail(c, k, st, "the session rejected the waiting request");
    }
    return true;
}

/* Ends waiting calls past their deadline.  The trouble of the last connection
 * is the best explanation for a session that did not come. */
static void end_late(struct client_core *c, int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(&c->deadlines, now_us))) {
        call_fail(c, (struct call *)t, ST_DEADLINE_EXCEEDED,
                  *c->trouble ? c->trouble
                              : "no session with a router in time");
    }
}

/* A router may call a client too.  Only the health check is served. */
static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;
    struct error e;

    (void)node;
    (void)deadline_us;
    (void)request;
    if (m->number == METHOD_HEALTH_CHECK) {
        health.serving = true;
        peer_end(p, call, &health.base);
    } else if (call) {
        (void)error_set(&e, ST_UNIMPLEMENTED, "%s: not served by a client",
                        m->name);
        peer_fail(p, call, &e, 0);
    }
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    (void)node; /* on_call() answers at once: no call is left to cancel */
    (void)p;
    (void)call;
}

static void on_reply(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    struct client_core *c = node;
    struct call *k = call_find(c, tag);

    (void)p;
    (void)m;
    FP(CLIENT_CHUNK);
    if (k && k->ops->on_reply) {
        k->ops->on_reply(k->arg, reply);
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct client_core *c = node;
    struct call *k = call_find(c, tag);

    (void)p;
    (void)m;
    if (k) { /* NULL: cancelled while its session went down */
        call_end(c, k, status, reply, e, retry_after_ms);
    }
}

static void on_dirty(void *node, struct peer *p)
{
    (void)node; /* every tick flushes the only peer */
    (void)p;
}

static const struct peer_ops peer_ops = {.on_call = on_call,
                                         .on_cancel = on_cancel,
                                         .on_reply = on_reply,
                                         .on_end = on_end,
                                         .on_dirty = on_dirty};

static void on_hello(void *node, ProtobufCMessage *hello_request)
{
    struct client_core *c = node;
    Sluice__V1__HelloRequest *h = (Sluice__V1__HelloRequest *)hello_request;

    h->role = c->role == BY_ADMIN ? SLUICE__V1__ROLE__ROLE_ADMIN
                                  : SLUICE__V1__ROLE__ROLE_CLIENT;
    h->name = wire_text(c->name);
}

static void on_up(void *node, struct peer *p)
{
    struct client_core *c = node;

    c->peer = p;
    c->trouble[0] = '\0';
    c->refused = ST_OK;
}

/* Ends the calls that wait now.  The count is taken first, because an on_end
 * may begin another call, which waits for the next Hello. */
static void end_refused(struct client_core *c)
{
    uint32_t n = 0;

    for (uint32_t i = c->first_waiting; i != CALL_NONE; i = c->calls[i].next) {
        n++;
    }
    while (n-- > 0 && c->first_waiting != CALL_NONE) {
        call_fail(c, &c->calls[c->first_waiting], c->refused, c->trouble);
    }
}

static void on_down(void *node, struct peer *p, enum status refused,
                    const char *why)
{
    struct client_core *c = node;
    struct error e;

    (void)p;
    c->peer = NULL; /* calls that on_end begins from here on wait */
    c->refused = refused;
    if (refused != ST_OK) {
        (void)error_set(&e, refused, "the router refused this client: %s", why);
    } else {
        (void)error_set(&e, ST_UNAVAILABLE, "%s", why);
    }
    memcpy(c->trouble, e.text, sizeof(c->trouble));
    if (refused != ST_OK) {
        end_refused(c);
    }
}

/* Returns whether a silent router must be noticed.  An idle client does not
 * need to, and then costs nothing. */
static bool listens(void *node)
{
    const struct client_core *c = node;

    return c->n_calls > 0;
}

static const struct session_ops session_ops = {
    .hello = on_hello, .up = on_up, .down = on_down, .listens = listens};

struct client_core *client_core_new(const struct client_options *o,
                                    struct node_io *io)
{
    struct client_core *c = calloc(1, sizeof(*c));

    if (!c) {
        return NULL;
    }
    c->io = io;
    c->role = o->admin ? BY_ADMIN : BY_CLIENT;
    (void)snprintf(c->name, sizeof(c->name), "%s",
                   o->name && *o->name ? o->name : "client");
    for (uint32_t i = 0; i < CLIENT_CALLS_MAX; i++) {
        c->calls[i].next = i + 1 < CLIENT_CALLS_MAX ? i + 1 : CALL_NONE;
    }
    c->first_waiting = c->last_waiting = CALL_NONE;
    arena_init(&c->arena);
    timers_init(&c->deadlines);
    timers_init(&c->waits);
    session_init(&c->session, io, &session_ops, &peer_ops, c, &c->arena,
                 c->role);
    return c;
}

void client_core_wait(struct client_core *c, struct client_wait *w,
                      int64_t due_us)
{
    timer_set(&c->waits, &w->timer, due_us);
}

void client_core_unwait(struct client_core *c, struct client_wait *w)
{
    timer_clear(&c->waits, &w->timer);
}

bool client_core_ending(const struct client_core *c)
{
    return c->ending;
}

static void end_waits(struct client_core *c, int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(&c->waits, now_us))) {
        struct client_wait *w = (struct client_wait *)t;

        w->fire(w);
    }
}

void client_core_free(struct client_core **cp)
{
    struct client_core *c = *cp;

    *cp = NULL;
    if (!c) {
        return;
    }
    c->ending = true;
    session_fini(&c->session, "the client is closing");
    while (c->first_waiting != CALL_NONE) {
        call_fail(c, &c->calls[c->first_waiting], ST_UNAVAILABLE,
                  "the client is closing");
    }
    end_waits(c, INT64_MAX);
    timers_fini(&c->deadlines);
    timers_fini(&c->waits);
    arena_fini(&c->arena);
    free(c);
}

bool client_core_up(const struct client_core *c)
{
    return c->peer != NULL;
}

enum status client_core_refused(const struct client_core *c)
{
    return c->refused;
}

const char *client_core_trouble(const struct client_core *c)
{
    return c->trouble;
}

/* Only sets a flag for the next tick, because an op may drop while its peer is
 * reading a frame. */
void client_core_drop(struct client_core *c, const char *reason)
{
    c->drop = true;
    (void)snprintf(c->drop_reason, sizeof(c->drop_reason), "%s", reason);
}

static void drop_now(struct client_core *c)
{
    struct session *s = &c->session;
    struct peer_id id = s->id;

    c->drop = false;
    if (s->state != SESSION_CLOSED) {
        c->io->close(c->io, id);
        session_lost(s, id);
    }
    memcpy(c->trouble, c->drop_reason, sizeof(c->trouble));
}

static void node_opened(void *node, struct peer_id who)
{
    session_opened(&((struct client_core *)node)->session, who);
}

static void node_recv(void *node, struct peer_id from, struct frame **f)
{
    session_recv(&((struct client_core *)node)->session, from, f);
}

static void node_lost(void *node, struct peer_id who)
{
    session_lost(&((struct client_core *)node)->session, who);
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct client_core *c = node;
    int64_t due, deadline, wait;

    if (c->drop) {
        drop_now(c);
    }
    end_late(c, now_us);
    end_waits(c, now_us);
    /* Before session_tick(), so that it flushes these requests in this tick. */
    while (c->peer && c->first_waiting != CALL_NONE &&
           send_waiting(c, now_us)) {
    }
    due = session_tick(&c->session, now_us);
    deadline = timers_due(&c->deadlines);
    wait = timers_due(&c->waits);
    due = due < deadline ? due : deadline;
    return due < wait ? due : wait;
}

const struct node_ops client_node_ops = {.opened = node_opened,
                                         .recv = node_recv,
                                         .lost = node_lost,
                                         .tick = node_tick};
