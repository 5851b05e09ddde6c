#include "common/wire/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/base/quote.h"
#include "common/wire/identity.h"
#include "proto/registry.pb-c.h"

void session_init(struct session *s, struct node_io *io,
                  const struct session_ops *ops,
                  const struct peer_ops *peer_ops, void *node,
                  struct arena *arena, uint8_t self)
{
    *s = (struct session){
        .io = io,
        .ops = ops,
        .peer_ops = peer_ops,
        .node = node,
        .arena = arena,
        .self = self,
        .state = SESSION_CLOSED,
        .due_us = 0,
        .backoff_us = SESSION_BACKOFF_US,
    };
}

void session_init_stage(struct session *s, struct node_io *io,
                        const struct session_ops *ops,
                        const struct peer_ops *peer_ops, void *node,
                        struct arena *arena, const struct session_stage *stage)
{
    assert(io->open_to != NULL);
    session_init(s, io, ops, peer_ops, node, arena, BY_WORKER);
    s->to_stage = true;
    s->stage = *stage;
}

/* Half of the delay is random, so that a hundred workers do not reconnect at
 * the same moment. */
static void back_off(struct session *s, int64_t now_us, uint32_t retry_after_ms)
{
    int64_t half = s->backoff_us / 2;
    int64_t wait = half + (int64_t)(s->io->random(s->io) % (uint64_t)half);
    int64_t asked = (int64_t)retry_after_ms * 1000;

    if (asked > SESSION_BACKOFF_MAX_US) {
        asked = SESSION_BACKOFF_MAX_US;
    }
    /* The router asks every session it refuses for the same delay. */
    if (asked > 0) {
        asked += (int64_t)(s->io->random(s->io) % (uint64_t)(asked / 2 + 1));
    }
    s->due_us = now_us + (wait > asked ? wait : asked);
    s->backoff_us *= 2;
    if (s->backoff_us > SESSION_BACKOFF_MAX_US) {
        s->backoff_us = SESSION_BACKOFF_MAX_US;
    }
}

static const char *router_or_stage(const struct session *s)
{
    return s->to_stage ? "the next stage" : "the router";
}

/* Only a session that is up has a peer to inform. */
static void say_goodbye(struct session *s, const char *reason)
{
    if (s->state == SESSION_UP) {
        struct frame *f = goodbye_make(peer_session(s->peer), reason);

        hello_send(s->io, s->id, &f);
    }
}

/* Moves to CLOSED from any state: reports to the node and frees the peer.  A
 * session that was up for long starts its backoff anew. */
static void end(struct session *s, enum status refused, uint32_t retry_after_ms,
                const char *why, bool close)
{
    struct peer *p = s->peer;
    int64_t now_us = s->io->now_us(s->io);

    if (s->state == SESSION_UP && now_us - s->up_us > SESSION_BACKOFF_MAX_US) {
        s->backoff_us = SESSION_BACKOFF_US;
    }
    s->state = SESSION_CLOSED;
    s->peer = NULL;
    s->ending = false;
    if (close) {
        s->io->close(s->io, s->id);
    }
    back_off(s, now_us, retry_after_ms);
    s->ops->down(s->node, p, refused, why);
    peer_free(&p);
}

/* Ends without a status.  The sentence is `what`, the name of the other end,
 * `then`. */
static void end_for(struct session *s, const char *what, const char *then,
                    bool close)
{
    char why[160];

    snprintf(why, sizeof why, "%s%s%s", what, router_or_stage(s), then);
    end(s, ST_OK, 0, why, close);
}

void session_fini(struct session *s, const char *reason)
{
    assert(!s->busy);
    if (s->state != SESSION_CLOSED) {
        say_goodbye(s, reason);
        end(s, ST_OK, 0, reason, true);
    }
}

void session_restart(struct session *s, const char *reason)
{
    if (s->state == SESSION_CLOSED || s->ending) {
        return;
    }
    snprintf(s->why, sizeof s->why, "%s", reason);
    if (s->busy) {
        s->ending = true;
        return;
    }
    say_goodbye(s, s->why);
    end(s, ST_OK, 0, s->why, true);
}

/* Performs what the ops requested while the peer was running: the peer must
 * not be freed inside its own calls. */
static void leave_peer(struct session *s)
{
    s->busy = false;
    if (s->ending) {
        say_goodbye(s, s->why);
        end(s, ST_OK, 0, s->why, true);
    }
}

/* The nonce is the same for every Hello of a connection, so the other end
 * recognises a repeated one and answers with the same session. */
static void greet(struct session *s, int64_t now_us)
{
    Sluice__V1__HelloRequest hello = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__StagePeer stage = SLUICE__V1__STAGE_PEER__INIT;
    struct frame *f;

    hello.name = wire_text("");
    hello.role = s->self == BY_WORKER   ? SLUICE__V1__ROLE__ROLE_WORKER
                 : s->self == BY_CLIENT ? SLUICE__V1__ROLE__ROLE_CLIENT
                                        : SLUICE__V1__ROLE__ROLE_ADMIN;
    s->ops->hello(s->node, &hello.base);
    hello.version_major = WIRE_VERSION_MAJOR;
    hello.version_minor = WIRE_VERSION_MINOR;
    hello.nonce = s->nonce;
    if (s->to_stage) {
        stage.assembly = s->stage.assembly;
        stage.index = s->stage.index;
        hello.stage = &stage;
    }
    f = hello_make(&hello.base);
    hello_send(s->io, s->id, &f);
    FP(SESSION_HELLO);
    s->tries++;
    s->due_us = now_us + SESSION_HELLO_US;
}

bool session_is_at(const struct session *s, struct peer_id who)
{
    return s->state != SESSION_CLOSED && s->id.v == who.v;
}

/* Checks the key of the other end, which the transport has checked too: nothing
 * is sent to a node that is not the router, or not the stage of Assemble. */
static enum status check_key(const struct session *s, struct error *e)
{
    const struct identity *id = identity_of(s->io, s->id);

    if (s->to_stage && s->stage.keyed && !identity_has_key(id, s->stage.key)) {
        return error_set(e, ST_PERMISSION_DENIED,
                         "the stage at %s does not have the key of the next "
                         "stage",
                         s->stage.endpoint);
    }
    return identity_check_role(id, s->to_stage ? BY_WORKER : BY_ROUTER, e);
}

void session_opened(struct session *s, struct peer_id who)
{
    struct error e;

    if (!session_is_at(s, who) || s->state != SESSION_OPENING) {
        return;
    }
    if (check_key(s, &e) != ST_OK) {
        end(s, ST_OK, 0, e.text, true);
    } else {
        s->state = SESSION_GREETING;
        s->nonce = s->io->random(s->io);
        s->tries = 0;
        greet(s, s->io->now_us(s->io));
    }
}

void session_lost(struct session *s, struct peer_id who)
{
    if (session_is_at(s, who)) {
        if (s->state == SESSION_OPENING) {
            end_for(s, "no connection to ", "", false);
        } else {
            end_for(s, "the connection to ", " broke", false);
        }
    }
}

static void come_up(struct session *s, uint64_t session)
{
    struct peer_config c = {
        .io = s->io,
        .id = s->id,
        .session = session,
        .self = s->self,
        .other = s->to_stage ? BY_WORKER : BY_ROUTER,
        .limits = s->to_stage ? &s->stage.limits : NULL,
        .ops = s->peer_ops,
        .node = s->node,
        .arena = s->arena,
    };

    s->peer = peer_new(&c);
    if (s->peer == NULL) {
        end(s, ST_RESOURCE_EXHAUSTED, 0, "out of memory", true);
        return;
    }
    s->state = SESSION_UP;
    s->up_us = s->io->now_us(s->io);
    s->keepalive = (struct keepalive){.listening = false};
    s->busy = true;
    s->ops->up(s->node, s->peer);
    leave_peer(s);
}

/* Programs print the name, so one that would need escapes is left out. */
static void take_name(struct session *s, const Sluice__V1__HelloReply *m)
{
    ProtobufCBinaryData name = m->your_name;
    size_t n = m->has_your_name && name.len <= PEER_NAME_MAX ? name.len : 0;

    if (n > 0 &&
        strlen(quote_bytes((const char *)name.data, n).text) == n + 2) {
        memcpy(s->your_name, name.data, n);
    } else {
        n = 0;
    }
    s->your_name[n] = '\0';
}

/* A key of another length is of a later version: none is used then. */
static void take_prefix_key(struct session *s, const Sluice__V1__HelloReply *m)
{
    s->has_prefix_key =
        m->has_prefix_key && m->prefix_key.len == PREFIX_KEY_BYTES;
    if (s->has_prefix_key) {
        memcpy(s->prefix_key.bytes, m->prefix_key.data, PREFIX_KEY_BYTES);
    }
}

void session_need_minor(struct session *s, uint32_t minor, const char *what)
{
    s->least_minor = minor;
    s->minor_for = what;
}

static enum status check_version(const struct session *s,
                                 const Sluice__V1__HelloReply *m,
                                 struct error *e)
{
    /* Session 0 is reserved for frames outside a session. */
    if (m->session == 0 || m->version_major != WIRE_VERSION_MAJOR) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "%s has another version of the protocol",
                         router_or_stage(s));
    }
    return m->version_minor >= s->least_minor
               ? ST_OK
               : error_set(e, ST_FAILED_PRECONDITION,
                           "%s has version %" PRIu32 ".%" PRIu32
                           ", but %s needs %d.%" PRIu32 " or later: upgrade it",
                           router_or_stage(s), m->version_major,
                           m->version_minor, s->minor_for, WIRE_VERSION_MAJOR,
                           s->least_minor);
}

static void recv_answer(struct session *s, const struct envelope *e)
{
    uint32_t retry_after_ms;
    const Sluice__V1__HelloReply *reply;
    ProtobufCMessage *m;
    struct error why;

    if (e->status != ST_OK) {
        failure_read(s->arena, e, &why, &retry_after_ms);
        end(s, why.code, retry_after_ms, why.text, true);
        return;
    }
    if (wire_unpack(s->arena, &sluice__v1__hello_reply__descriptor, e->body,
                    e->body_bytes, &m, &why) != ST_OK) {
        end(s, ST_INTERNAL, 0, why.text, true);
        return;
    }
    reply = (const Sluice__V1__HelloReply *)m;
    if (check_version(s, reply, &why) != ST_OK) {
        end(s, why.code, 0, why.text, true);
        return;
    }
    take_name(s, reply);
    take_prefix_key(s, reply);
    come_up(s, reply->session);
}

/* The peer must not be freed while peer_recv() runs, so `busy` delays what
 * the ops request. */
static void recv_up(struct session *s, const struct frame *f,
                    const struct frame_header *h)
{
    enum peer_verdict verdict;
    char why[128];

    s->busy = true;
    verdict = peer_recv(s->peer, f, h, s->io->now_us(s->io));
    s->busy = false;
    if (verdict == PEER_GOODBYE) {
        snprintf(why, sizeof why, " ended the session: %s",
                 peer_goodbye(s->peer));
        end_for(s, "", why, true);
    } else if (verdict == PEER_OUT) {
        say_goodbye(s, "too many frames break the rules");
        end_for(s, "", " breaks the rules", true);
    } else {
        leave_peer(s);
    }
}

void session_recv(struct session *s, struct peer_id from, struct frame **fp)
{
    struct frame *f = *fp;
    struct frame_header h;
    struct envelope e;

    *fp = NULL;
    /* A frame of an older connection may still arrive; it is dropped. */
    if (session_is_at(s, from) &&
        frame_check(f->data, f->bytes, &h, NULL) == ST_OK) {
        if (s->state == SESSION_UP && h.session == peer_session(s->peer)) {
            keepalive_heard(&s->keepalive, s->io->now_us(s->io));
            recv_up(s, f, &h);
        } else if (s->state == SESSION_GREETING && hello_is_answer(f, &h, &e) &&
                   /* Without memory the answer counts as lost, and Hello is
                    * repeated. */
                   arena_reserve(s->arena, h.envelopes_bytes)) {
            recv_answer(s, &e);
        }
    }
    frame_free(&f);
}

static void tick_greeting(struct session *s, int64_t now_us)
{
    if (s->tries < SESSION_HELLO_TRIES) {
        greet(s, now_us);
    } else {
        /* The port is open, but its program may be stopped or overloaded. */
        end_for(s, "", " does not answer Hello", true);
    }
}

static void tick_up(struct session *s, int64_t now_us)
{
    bool listens = s->ops->listens == NULL || s->ops->listens(s->node);
    char why[48];

    if (keepalive_silent(&s->keepalive, s->peer, listens, now_us) &&
        !PLANT(QUIET_IGNORED)) {
        snprintf(why, sizeof why, " for %" PRId64 " ms",
                 (now_us - s->keepalive.heard_us) / 1000);
        end_for(s, "no frame arrived from ", why, true);
        return;
    }
    s->busy = true;
    peer_flush(s->peer, now_us);
    s->busy = false;
    if (peer_gave_up(s->peer)) {
        say_goodbye(s, "no frame was acknowledged");
        end_for(s, "", " has acknowledged no frame for 60 s", true);
        return;
    }
    leave_peer(s);
}

static struct peer_id dial(struct session *s)
{
    const struct session_stage *x = &s->stage;

    return s->to_stage
               ? s->io->open_to(s->io, x->endpoint,
                                x->keyed && !PLANT(NEXT_KEY_IGNORED) ? x->key
                                                                     : NULL)
               : s->io->open(s->io);
}

int64_t session_tick(struct session *s, int64_t now_us)
{
    if (s->state == SESSION_UP) {
        tick_up(s, now_us);
    } else if (now_us >= s->due_us) {
        if (s->state == SESSION_CLOSED) {
            s->state = SESSION_OPENING;
            s->due_us =
                now_us + (s->to_stage ? SESSION_OPEN_NEXT_US : SESSION_OPEN_US);
            /* Due again soon: a connection that hangs must time out. */
            s->id = dial(s);
        } else if (s->state == SESSION_OPENING) {
            end_for(s, "no connection to ", "", true);
        } else {
            tick_greeting(s, now_us);
        }
    }
    return s->state == SESSION_UP
               ? min_i64(peer_due(s->peer), keepalive_due(&s->keepalive))
               : s->due_us;
}
