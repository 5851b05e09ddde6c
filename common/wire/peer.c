#include "common/wire/peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/wire/calls.h"
#include "proto/common.pb-c.h"
#include "proto/registry.pb-c.h"

/* New calls are accepted while replies have this much room.  A peer that
 * calls but never reads is refused before its answers fill our memory. */
#define PEER_ROOM_MIN (LINK_OUTBOX_BYTES / 2)

#define PEER_FAILURE_CAP 4096

struct peer {
    struct peer_config c;
    struct link *link;
    struct calls ours, theirs;
    uint64_t last_call; /* number of our last call */
    uint64_t ping; /* call of the newest peer_ping(), which no op reports */
    void *data;
    int64_t now_us;        /* in peer_recv() */
    const uint8_t *tensor; /* of the frame in peer_recv() */
    uint32_t tensor_bytes;
    int64_t due_us; /* as reported to the node since peer_flush() */
    uint32_t strikes;
    bool dirty, dying, inside, struck, goodbye;
    char reason[96];
};

struct peer *peer_new(const struct peer_config *c)
{
    struct peer *p = calloc(1, sizeof *p);

    if (p == NULL) {
        return NULL;
    }
    p->c = *c;
    p->link = link_new(c->session, c->limits);
    if (p->link == NULL) {
        free(p);
        return NULL;
    }
    p->due_us = NODE_IDLE;
    calls_init(&p->ours);
    calls_init(&p->theirs);
    return p;
}

/* Distinguishes the node's calls from our own ping. */
static void tell_end(struct peer *p, const struct call *c, enum status status,
                     const ProtobufCMessage *reply, const struct error *e,
                     uint32_t retry_after_ms)
{
    if (c->number != p->ping) {
        p->c.ops->on_end(p->c.node, p, c->tag, c->row, status, reply, e,
                         retry_after_ms);
    }
}

static void end_ours(struct peer *p, const struct call *c, enum status code,
                     const char *text)
{
    struct error e;

    error_set(&e, code, "%s", text);
    tell_end(p, c, code, NULL, &e, 0);
}

static void cancel_theirs(struct peer *p, const struct call *c)
{
    if (p->c.ops->on_cancel != NULL) {
        p->c.ops->on_cancel(p->c.node, p, c->number);
    }
}

void peer_free(struct peer **pp)
{
    struct peer *p = *pp;
    struct call c;

    *pp = NULL;
    if (p == NULL) {
        return;
    }
    /* An op that freed its own peer would return into freed memory. */
    assert(!p->inside && !p->dying);
    p->dying = true;
    /* An op may start a call while it handles an end; dying refuses it, so
     * the loops end. */
    while (calls_take_any(&p->ours, &c)) {
        end_ours(p, &c, ST_UNAVAILABLE, "the session is over");
    }
    while (calls_take_any(&p->theirs, &c)) {
        cancel_theirs(p, &c);
    }
    calls_fini(&p->ours);
    calls_fini(&p->theirs);
    link_free(&p->link);
    free(p);
}

struct peer_id peer_id(const struct peer *p)
{
    return p->c.id;
}

uint64_t peer_session(const struct peer *p)
{
    return p->c.session;
}

uint8_t peer_role(const struct peer *p)
{
    return p->c.other;
}

void *peer_data(const struct peer *p)
{
    return p->data;
}

void peer_set_data(struct peer *p, void *data)
{
    p->data = data;
}

const char *peer_goodbye(const struct peer *p)
{
    return p->reason;
}

size_t peer_room(const struct peer *p, enum lane lane)
{
    return link_room(p->link, lane);
}

uint64_t peer_queued(const struct peer *p, enum lane lane)
{
    return link_queued(p->link, lane);
}

uint64_t peer_taken(const struct peer *p, enum lane lane)
{
    return link_taken(p->link, lane);
}

static void touch(struct peer *p)
{
    /* One on_dirty is enough: peer_flush() sends everything. */
    if (!p->dirty && !p->dying) {
        p->dirty = true;
        if (p->c.ops->on_dirty != NULL) {
            p->c.ops->on_dirty(p->c.node, p);
        }
    }
}

/* ---- sending ---- */

/* Packs the body, if there is one, straight into the lane. */
static enum status push(struct peer *p, enum lane lane, struct envelope *e,
                        const ProtobufCMessage *body, uint32_t cap)
{
    size_t bytes;
    uint8_t *at;

    if (p->dying) {
        return ST_UNAVAILABLE;
    }
    bytes = body == NULL ? 0 : wire_size(body);
    if (bytes > cap) {
        return ST_INVALID_ARGUMENT;
    }
    e->body_bytes = (uint32_t)bytes;
    at = link_put(p->link, lane, e);
    if (at == NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    if (body != NULL) {
        wire_pack(body, at);
    }
    touch(p);
    return ST_OK;
}

uint32_t peer_calls_left(const struct peer *p)
{
    return PEER_CALLS_MAX - p->ours.n;
}

enum status peer_call(struct peer *p, enum method m,
                      const ProtobufCMessage *request, uint32_t deadline_ms,
                      uint64_t tag, uint64_t *call)
{
    const struct method_row *row = method_find((uint16_t)m);
    struct call c = {p->last_call + 1, tag, NODE_IDLE, row};
    struct envelope e = {.call = c.number,
                         .method = row->number,
                         .kind = ENVELOPE_CALL,
                         .deadline_ms = deadline_ms};
    enum status st;

    assert(row->kind != ONEWAY && request->descriptor == row->request);
    /* Checked before the request is packed, which is the expensive part. */
    if (peer_calls_left(p) == 0 || !calls_reserve(&p->ours, 1)) {
        return ST_RESOURCE_EXHAUSTED;
    }
    st = push(p, row->lane, &e, request, row->request_cap);
    if (st != ST_OK) {
        return st;
    }
    if (deadline_ms > 0) {
        c.deadline_us = p->c.io->now_us(p->c.io) + (int64_t)deadline_ms * 1000;
    }
    /* Counted only now: a call that found no room has used no number. */
    p->last_call++;
    calls_add(&p->ours, &c);
    if (call != NULL) {
        *call = c.number;
    }
    return ST_OK;
}

bool peer_ping(struct peer *p)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;

    return (p->ping == 0 || calls_find(&p->ours, p->ping) == NULL) &&
           peer_call(p, METHOD_HEALTH_CHECK, &nothing.base, 0, 0, &p->ping) ==
               ST_OK;
}

/* Uses the lane of the call, so that the cancel follows it. */
static void push_cancel(struct peer *p, const struct call *c)
{
    struct envelope e = {.call = c->number, .kind = ENVELOPE_CANCEL};
    enum status st = push(p, c->row->lane, &e, NULL, 0);

    /* The lane always accepts a cancel, or the link gives up: outbox.c. */
    assert(st == ST_OK || p->dying || link_gave_up(p->link));
    (void)st;
}

void peer_cancel(struct peer *p, uint64_t call)
{
    struct call c;

    if (p->dying || !calls_take(&p->ours, call, &c)) {
        return;
    }
    push_cancel(p, &c);
    end_ours(p, &c, ST_CANCELLED, "cancelled by the caller");
}

enum status peer_oneway(struct peer *p, enum method m,
                        const ProtobufCMessage *message)
{
    const struct method_row *row = method_find((uint16_t)m);
    struct envelope e = {.method = row->number, .kind = ENVELOPE_ONEWAY};

    assert(row->kind == ONEWAY && message->descriptor == row->request);
    return push(p, row->lane, &e, message, row->request_cap);
}

enum status peer_oneway_tensor(struct peer *p, enum method m,
                               const ProtobufCMessage *message,
                               const void *tensor, uint32_t tensor_bytes)
{
    const struct method_row *row = method_find((uint16_t)m);
    struct envelope e = {.method = row->number, .kind = ENVELOPE_ONEWAY};
    size_t bytes = wire_size(message);
    uint8_t *body, *at;

    assert(row->kind == ONEWAY && row->lane == LANE_CONTROL &&
           message->descriptor == row->request);
    if (p->dying) {
        return ST_UNAVAILABLE;
    }
    if (bytes > row->request_cap || tensor_bytes == 0 ||
        tensor_bytes > row->tensor_cap || tensor_bytes % sizeof(float) != 0) {
        return ST_INVALID_ARGUMENT;
    }
    e.body_bytes = (uint32_t)bytes;
    body = link_put_tensor(p->link, &e, tensor_bytes, &at);
    if (body == NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    wire_pack(message, body);
    memcpy(at, tensor, tensor_bytes);
    touch(p);
    return ST_OK;
}

const void *peer_tensor(const struct peer *p, uint32_t *bytes)
{
    *bytes = p->tensor_bytes;
    return p->tensor;
}

enum status peer_reply(struct peer *p, uint64_t call,
                       const ProtobufCMessage *reply)
{
    const struct call *c = calls_find(&p->theirs, call);
    struct envelope e = {.call = call, .kind = ENVELOPE_REPLY};

    if (c == NULL || p->dying) {
        return ST_NOT_FOUND;
    }
    assert(c->row->kind == STREAM && reply->descriptor == c->row->reply);
    e.method = c->row->number;
    return push(p, LANE_CONTROL, &e, reply, c->row->reply_cap);
}

/* Returns false if the body is larger than the cap. */
static bool push_end(struct peer *p, uint64_t call, uint16_t method,
                     enum status status, const ProtobufCMessage *body,
                     uint32_t cap)
{
    struct envelope e = {.call = call,
                         .method = method,
                         .kind = ENVELOPE_END,
                         .status = (uint8_t)status};
    enum status st = push(p, LANE_CONTROL, &e, body, cap);

    assert(st == ST_OK || st == ST_INVALID_ARGUMENT || p->dying ||
           link_gave_up(p->link));
    return st != ST_INVALID_ARGUMENT;
}

/* Ends a call that failed.  A status of OK would hide the failure. */
static void push_failure(struct peer *p, uint64_t call, uint16_t method,
                         const struct error *e, uint32_t retry_after_ms)
{
    Sluice__V1__Failure failure = SLUICE__V1__FAILURE__INIT;

    failure.has_message = true;
    failure.message = wire_text(e->text);
    failure.has_retry_after_ms = retry_after_ms > 0;
    failure.retry_after_ms = retry_after_ms;
    (void)push_end(p, call, method, e->code == ST_OK ? ST_INTERNAL : e->code,
                   &failure.base, UINT32_MAX);
}

void peer_end(struct peer *p, uint64_t call, const ProtobufCMessage *reply)
{
    struct call c;
    struct error e;

    if (p->dying || !calls_take(&p->theirs, call, &c)) {
        return;
    }
    /* A stream ends without a message; its messages were replies. */
    assert((reply != NULL) == (c.row->kind == UNARY));
    if (!push_end(p, call, c.row->number, ST_OK, reply, c.row->reply_cap)) {
        error_set(&e, ST_INTERNAL, "%s: the reply is larger than %u bytes",
                  c.row->name, c.row->reply_cap);
        push_failure(p, call, c.row->number, &e, 0);
    }
}

void peer_fail(struct peer *p, uint64_t call, const struct error *e,
               uint32_t retry_after_ms)
{
    struct call c;

    if (!p->dying && calls_take(&p->theirs, call, &c)) {
        push_failure(p, call, c.row->number, e, retry_after_ms);
    }
}

/* ---- receiving ---- */

static void strike(struct peer *p)
{
    p->struck = true;
}

/* Refuses a call that never opened.  Unlike the end of an open call, a
 * refusal needs room: otherwise refusals to a peer that does not read would
 * pile up. */
static void refuse(struct peer *p, const struct envelope *e, enum status code,
                   const char *what, const char *name)
{
    struct error why;

    if (link_room(p->link, LANE_CONTROL) < PEER_FAILURE_CAP) {
        strike(p);
        return;
    }
    error_set(&why, code, "%s: %s", name, what);
    push_failure(p, e->call, e->method, &why, 0);
}

/* Returns whether this peer may send us this method at this size. */
static bool allowed(struct peer *p, const struct method_row *row,
                    const struct envelope *e, enum status *code,
                    const char **what)
{
    if (!(row->callers & p->c.other) || !(row->servers & p->c.self)) {
        *code = ST_PERMISSION_DENIED;
        *what = "not for this peer";
    } else if (e->body_bytes > row->request_cap) {
        *code = ST_INVALID_ARGUMENT;
        *what = "the request is too large";
    } else {
        return true;
    }
    strike(p);
    return false;
}

/* Returns whether there is room for one more call and an op that serves it. */
static bool servable(struct peer *p, const struct method_row *row,
                     enum status *code, const char **what)
{
    if (!row->built || p->c.ops->on_call == NULL) {
        *code = ST_UNIMPLEMENTED;
        *what = "not built";
    } else if (row->number == METHOD_REGISTRY_HELLO) {
        *code = ST_FAILED_PRECONDITION;
        *what = "a session already exists";
    } else if (p->theirs.n >= PEER_CALLS_MAX) {
        *code = ST_RESOURCE_EXHAUSTED;
        *what = "too many open calls";
    } else if (link_room(p->link, LANE_CONTROL) < PEER_ROOM_MIN) {
        *code = ST_RESOURCE_EXHAUSTED;
        *what = "too many answers are not read yet";
    } else {
        return true;
    }
    return false;
}

/* Checks run from cheap to expensive, and the body is decoded last: a peer
 * that may not call costs no memory. */
static void recv_call(struct peer *p, const struct envelope *e)
{
    const struct method_row *row = method_find(e->method);
    struct call c = {e->call, 0, NODE_IDLE, row};
    enum status code;
    const char *what;
    ProtobufCMessage *m;
    struct error why;

    if (row == NULL) {
        refuse(p, e, ST_UNIMPLEMENTED, "unknown method", "call");
        /* A second call with an open number would make answers ambiguous. */
    } else if (e->call == 0 || row->kind == ONEWAY ||
               calls_find(&p->theirs, e->call) != NULL) {
        strike(p);
    } else if (!allowed(p, row, e, &code, &what) ||
               !servable(p, row, &code, &what)) {
        refuse(p, e, code, what, row->name);
    } else if (wire_unpack(p->c.arena, row->request, e->body, e->body_bytes, &m,
                           &why) != ST_OK) {
        refuse(p, e, why.code, why.text, row->name);
    } else {
        if (e->deadline_ms > 0) {
            c.deadline_us = p->now_us + (int64_t)e->deadline_ms * 1000;
        }
        calls_add(&p->theirs, &c);
        p->c.ops->on_call(p->c.node, p, row, c.number, c.deadline_us, m);
    }
}

/* Ends our call whose answer cannot be read. */
static void give_up(struct peer *p, const struct call *open, const char *why)
{
    struct call c;

    if (calls_take(&p->ours, open->number, &c)) {
        push_cancel(p, &c);
        end_ours(p, &c, ST_INTERNAL, why);
    }
}

/* A reply to an unknown call is normal: our Cancel crossed it. */
static void recv_reply(struct peer *p, const struct envelope *e)
{
    const struct call *c = calls_find(&p->ours, e->call);
    ProtobufCMessage *m;
    struct error why;

    if (c == NULL) {
        return;
    }
    if (c->row->kind != STREAM || e->body_bytes > c->row->reply_cap ||
        p->c.ops->on_reply == NULL) {
        strike(p);
        give_up(p, c, "the peer sent a reply that it may not send");
    } else if (wire_unpack(p->c.arena, c->row->reply, e->body, e->body_bytes,
                           &m, &why) != ST_OK) {
        give_up(p, c, why.text);
    } else {
        p->c.ops->on_reply(p->c.node, p, c->tag, c->row, m);
    }
}

/* The cap keeps a peer from filling the log with its reason. */
static void recv_failure(struct peer *p, const struct envelope *e,
                         const struct call *c)
{
    struct error why;
    uint32_t retry_after_ms = 0;

    if (e->body_bytes > PEER_FAILURE_CAP) {
        strike(p);
        end_ours(p, c, ST_UNKNOWN, "the peer's reason is too long to read");
        return;
    }
    failure_read(p->c.arena, e, &why, &retry_after_ms);
    tell_end(p, c, why.code, NULL, &why, retry_after_ms);
}

static void recv_end(struct peer *p, const struct envelope *e)
{
    struct call c;
    ProtobufCMessage *m = NULL;
    struct error why;

    if (!calls_take(&p->ours, e->call, &c)) {
        return;
    }
    if (e->status != ST_OK) {
        recv_failure(p, e, &c);
    } else if (e->body_bytes > c.row->reply_cap ||
               (c.row->kind == STREAM && e->body_bytes > 0)) {
        strike(p);
        end_ours(p, &c, ST_INTERNAL, "the peer sent a reply that is too large");
    } else if (c.row->kind == UNARY &&
               wire_unpack(p->c.arena, c.row->reply, e->body, e->body_bytes, &m,
                           &why) != ST_OK) {
        end_ours(p, &c, ST_INTERNAL, why.text);
    } else {
        tell_end(p, &c, ST_OK, m, NULL, 0);
    }
}

static void recv_cancel(struct peer *p, const struct envelope *e)
{
    struct call c;

    if (calls_take(&p->theirs, e->call, &c)) {
        cancel_theirs(p, &c);
    }
}

/* Escapes the peer's reason: it is shown to people and in logs. */
static void note_goodbye(struct peer *p, const ProtobufCMessage *m)
{
    const Sluice__V1__GoodbyeMessage *g = (const Sluice__V1__GoodbyeMessage *)m;
    size_t n = 0;

    p->goodbye = true;
    while (g->has_reason && n < g->reason.len && n < sizeof p->reason - 1) {
        uint8_t b = g->reason.data[n];

        p->reason[n++] = b >= ' ' && b < 0x7f ? (char)b : '?';
    }
    p->reason[n] = '\0';
}

/* A oneway has no answer, so a broken one can only count as a strike. */
static void recv_oneway(struct peer *p, const struct envelope *e, bool ordered)
{
    const struct method_row *row = method_find(e->method);
    enum status code;
    const char *what;
    ProtobufCMessage *m;

    if (row == NULL) {
        return;
    }
    if (e->call != 0 || row->kind != ONEWAY ||
        (row->lane != LANE_STATE) != ordered) {
        strike(p);
    } else if (!allowed(p, row, e, &code, &what) || !row->built) {
        return;
    } else if (wire_unpack(p->c.arena, row->request, e->body, e->body_bytes, &m,
                           NULL) != ST_OK) {
        strike(p);
    } else if (row->number == METHOD_REGISTRY_GOODBYE) {
        note_goodbye(p, m);
    } else if (p->c.ops->on_call != NULL) {
        p->c.ops->on_call(p->c.node, p, row, 0, NODE_IDLE, m);
    }
}

static void deliver(void *arg, const struct envelope *e, bool ordered)
{
    struct peer *p = arg;

    /* State may be lost or repeated, which only oneways survive. */
    if (!ordered && e->kind != ENVELOPE_ONEWAY) {
        strike(p);
        return;
    }
    switch (e->kind) {
    case ENVELOPE_CALL:
        recv_call(p, e);
        break;
    case ENVELOPE_REPLY:
        recv_reply(p, e);
        break;
    case ENVELOPE_END:
        recv_end(p, e);
        break;
    case ENVELOPE_CANCEL:
        recv_cancel(p, e);
        break;
    case ENVELOPE_ONEWAY:
        recv_oneway(p, e, ordered);
        break;
    /* An unknown kind may come from a newer minor version. */
    default:
        break;
    }
}

/* Makes room for the messages and the calls of a frame. */
static bool reserve(struct peer *p, const struct frame *f,
                    const struct frame_header *h)
{
    uint32_t left = PEER_CALLS_MAX - p->theirs.n;
    uint32_t n = h->n_ordered > 0 ? frame_calls(f, h) : 0;

    return arena_reserve(p->c.arena, h->envelopes_bytes) &&
           calls_reserve(&p->theirs, min_u32(n, left));
}

enum peer_verdict peer_recv(struct peer *p, const struct frame *f,
                            const struct frame_header *h, int64_t now_us)
{
    assert(!p->inside);
    /* Without memory, the frame counts as lost on the way: the peer sends it
     * again.  A call refused here would never reach its handler, which has to
     * answer a Submit with the grant used up. */
    if (!reserve(p, f, h)) {
        return PEER_FINE;
    }
    p->now_us = now_us;
    p->struck = false;
    p->inside = true;
    p->tensor_bytes = h->tensor_bytes;
    p->tensor = h->tensor_bytes > 0 ? f->data + frame_tensor_at(h) : NULL;
    if (!link_recv(p->link, f, h, now_us, deliver, p)) {
        strike(p);
    }
    p->tensor = NULL;
    p->tensor_bytes = 0;
    p->inside = false;
    if (peer_due(p) < p->due_us) {
        touch(p);
    }
    /* One strike per frame, however many of its envelopes break a rule. */
    if (p->struck) {
        p->strikes++;
    }
    if (p->goodbye) {
        return PEER_GOODBYE;
    }
    if (p->strikes >= PEER_STRIKES) {
        return PEER_OUT;
    }
    return p->struck ? PEER_STRIKE : PEER_FINE;
}

/* ---- time ---- */

/* Both ends watch the deadline: the other end may be stuck. */
static void end_overdue(struct peer *p, int64_t now_us)
{
    struct error e;
    struct call c;

    if (PLANT(DEADLINE_IGNORED)) {
        return;
    }
    while (calls_take_due(&p->ours, now_us, &c)) {
        push_cancel(p, &c);
        end_ours(p, &c, ST_DEADLINE_EXCEEDED, "the deadline has passed");
    }
    while (calls_take_due(&p->theirs, now_us, &c)) {
        error_set(&e, ST_DEADLINE_EXCEEDED, "%s: the deadline has passed",
                  c.row->name);
        push_failure(p, c.number, c.row->number, &e, 0);
        cancel_theirs(p, &c);
    }
}

void peer_flush(struct peer *p, int64_t now_us)
{
    struct frame *f;

    assert(!p->inside);
    p->dirty = false;
    p->inside = true;
    end_overdue(p, now_us);
    p->inside = false;
    while ((f = link_pop(p->link, now_us)) != NULL) {
        enum status st = p->c.io->send(p->c.io, p->c.id, &f);

        if (st == ST_RESOURCE_EXHAUSTED) {
            link_unsent(p->link, now_us);
        } else if (st == ST_UNAVAILABLE) {
            break; /* `lost` follows */
        }
    }
    p->due_us = peer_due(p);
}

bool peer_gave_up(const struct peer *p)
{
    return link_gave_up(p->link);
}

int64_t peer_due(const struct peer *p)
{
    int64_t due = link_due(p->link);

    due = p->ours.due_us < due ? p->ours.due_us : due;
    return p->theirs.due_us < due ? p->theirs.due_us : due;
}
