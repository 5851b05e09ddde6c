#include "common/wire/hello.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/method.h"
#include "proto/common.pb-c.h"
#include "proto/registry.pb-c.h"

/* The only call that takes place outside a session. */
#define HELLO_CALL 1

/* Makes a frame of one unordered envelope. */
static struct frame *lone_frame(uint64_t session, struct envelope *e,
                                const ProtobufCMessage *body)
{
    struct frame_header h = {.session = session, .n_state = 1};
    struct frame *f;

    e->body_bytes = body == NULL ? 0 : (uint32_t)wire_size(body);
    h.envelopes_bytes = ENVELOPE_HEADER + e->body_bytes;
    f = frame_new(FRAME_HEADER + h.envelopes_bytes);
    if (f == NULL) {
        return NULL;
    }
    envelope_head(f->data + FRAME_HEADER, e);
    if (body != NULL) {
        wire_pack(body, f->data + FRAME_HEADER + ENVELOPE_HEADER);
    }
    frame_seal(f, &h);
    return f;
}

struct frame *hello_make(const ProtobufCMessage *request)
{
    struct envelope e = {.call = HELLO_CALL,
                         .method = METHOD_REGISTRY_HELLO,
                         .kind = ENVELOPE_CALL};

    return lone_frame(0, &e, request);
}

void hello_send(struct node_io *io, struct peer_id to, struct frame **f)
{
    if (*f != NULL) {
        (void)io->send(io, to, f);
    }
}

static struct frame *hello_refusal(const struct error *refused,
                                   uint32_t retry_after_ms)
{
    Sluice__V1__Failure failure = SLUICE__V1__FAILURE__INIT;
    struct envelope e = {.call = HELLO_CALL,
                         .method = METHOD_REGISTRY_HELLO,
                         .kind = ENVELOPE_END,
                         .status = (uint8_t)refused->code};

    failure.has_message = true;
    failure.message = wire_text(refused->text);
    failure.has_retry_after_ms = retry_after_ms > 0;
    failure.retry_after_ms = retry_after_ms;
    return lone_frame(0, &e, &failure.base);
}

struct frame *hello_answer(uint64_t session, const ProtobufCMessage *reply,
                           const struct error *refused, uint32_t retry_after_ms)
{
    struct envelope e = {.call = HELLO_CALL,
                         .method = METHOD_REGISTRY_HELLO,
                         .kind = ENVELOPE_END,
                         .status = ST_OK};
    Sluice__V1__HelloReply r;

    if (refused != NULL) {
        return hello_refusal(refused, retry_after_ms);
    }
    /* A copy: the caller's reply is const, and only the session differs. */
    memcpy(&r, reply, sizeof r);
    r.session = session;
    return lone_frame(0, &e, &r.base);
}

struct frame *goodbye_make(uint64_t session, const char *reason)
{
    Sluice__V1__GoodbyeMessage m = SLUICE__V1__GOODBYE_MESSAGE__INIT;
    struct envelope e = {.method = METHOD_REGISTRY_GOODBYE,
                         .kind = ENVELOPE_ONEWAY};

    m.has_reason = reason != NULL;
    if (reason != NULL) {
        m.reason = wire_text(reason);
    }
    return lone_frame(session, &e, &m.base);
}

/* The envelope is in the state part: outside a session nothing is numbered, and
 * a Goodbye must not wait behind a lost frame. */
static bool only_envelope(const struct frame *f, const struct frame_header *h,
                          uint16_t method, uint8_t kind, struct envelope *out)
{
    uint32_t at = 0;

    return h->n_ordered == 0 && h->n_state == 1 &&
           envelope_next(f, h, &at, out) && at == h->envelopes_bytes &&
           out->method == method && out->kind == kind &&
           /* The cap holds before a session too, when the sender is unknown. */
           out->body_bytes <= method_find(method)->request_cap;
}

bool hello_is_call(const struct frame *f, const struct frame_header *h,
                   struct envelope *out)
{
    return h->session == 0 &&
           only_envelope(f, h, METHOD_REGISTRY_HELLO, ENVELOPE_CALL, out);
}

bool hello_is_answer(const struct frame *f, const struct frame_header *h,
                     struct envelope *out)
{
    return h->session == 0 &&
           only_envelope(f, h, METHOD_REGISTRY_HELLO, ENVELOPE_END, out);
}

bool hello_is_goodbye(const struct frame *f, const struct frame_header *h,
                      struct envelope *out)
{
    return only_envelope(f, h, METHOD_REGISTRY_GOODBYE, ENVELOPE_ONEWAY, out);
}

/* A broken Failure must not hide the status, which stands in the envelope. */
void failure_read(struct arena *a, const struct envelope *end, struct error *e,
                  uint32_t *retry_after_ms)
{
    enum status code =
        end->status < ST_NR ? (enum status)end->status : ST_UNKNOWN;
    ProtobufCMessage *m;
    const Sluice__V1__Failure *failure;

    error_set(e, code, "%s", status_text(code));
    *retry_after_ms = 0;
    if (wire_unpack(a, &sluice__v1__failure__descriptor, end->body,
                    end->body_bytes, &m, NULL) != ST_OK) {
        return;
    }
    failure = (const Sluice__V1__Failure *)m;
    *retry_after_ms = failure->retry_after_ms;
    /* A message that is no UTF-8 or too long is replaced by the status' own
     * text. */
    if (failure->has_message &&
        wire_text_ok(failure->message, 1, ERROR_TEXT - 1)) {
        error_set(e, code, "%.*s", (int)failure->message.len,
                  (const char *)failure->message.data);
    }
}

static uint8_t role_of(Sluice__V1__Role role)
{
    switch ((int)role) {
    case SLUICE__V1__ROLE__ROLE_WORKER:
        return BY_WORKER;
    case SLUICE__V1__ROLE__ROLE_CLIENT:
        return BY_CLIENT;
    case SLUICE__V1__ROLE__ROLE_ADMIN:
        return BY_ADMIN;
    default:
        return 0;
    }
}

enum status hello_check(const ProtobufCMessage *hello_request, const char *me,
                        uint8_t *role, struct error *e)
{
    const Sluice__V1__HelloRequest *m =
        (const Sluice__V1__HelloRequest *)hello_request;

    /* Minor versions are compatible: unknown fields and methods are ignored. */
    if (m->version_major != WIRE_VERSION_MAJOR) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "your version is %" PRIu32 ".%" PRIu32
                         ", %s has %d.%d",
                         m->version_major, m->version_minor, me,
                         WIRE_VERSION_MAJOR, WIRE_VERSION_MINOR);
    }
    *role = role_of(m->role);
    if (*role == 0) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "role %d is unknown: worker, client or admin is needed",
            (int)m->role);
    }
    if (!wire_text_ok(m->name, 1, PEER_NAME_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the name must be 1..%d bytes of UTF-8",
                         PEER_NAME_MAX);
    }
    return ST_OK;
}

/* Random, so that frames of an earlier life of this node do not match; 0
 * means "no session". */
uint64_t hello_session(struct node_io *io)
{
    uint64_t s = 0;

    while (s == 0) {
        s = io->random(io);
    }
    return s;
}

void hello_foreign(struct node_io *io, struct peer_id from,
                   const struct frame *f, const struct frame_header *h)
{
    struct envelope v;
    struct frame *bye;

    if (!hello_is_goodbye(f, h, &v)) {
        bye = goodbye_make(h->session, "unknown session");
        hello_send(io, from, &bye);
    }
}
