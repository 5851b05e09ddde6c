/* call.c - Blocking calls, made of client_begin() and client_turn(). */
#include <assert.h>
#include <string.h>

#include "client/lib/client_impl.h"
#include "proto/worker.pb-c.h"

/* A blocking call in progress. */
struct waiting {
    client_reply_fn *on_reply;
    void *arg;
    struct error *error;
    enum status status;
    bool ended;
};

/* A unary reply arrives with on_end() and is passed on from there. */
static void on_reply(void *arg, const ProtobufCMessage *message)
{
    struct waiting *w = arg;

    if (w->on_reply != NULL) {
        w->on_reply(w->arg, message);
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct waiting *w = arg;

    (void)retry_after_ms;
    w->ended = true;
    w->status = status;
    if (status != ST_OK) {
        error_set(w->error, status, "%s",
                  e != NULL ? e->text : status_text(status));
    } else if (reply != NULL) {
        on_reply(w, reply);
    }
}

/* The core returns only a status; the limits behind it are added here. */
enum status client_not_begun(enum method m, enum status status, struct error *e)
{
    const struct method_row *row = method_find((uint16_t)m);

    assert(row != NULL);
    switch (status) {
    case ST_RESOURCE_EXHAUSTED:
        return error_set(e, status,
                         "too many calls are open or waiting; the limits are "
                         "%u calls and %u bytes of waiting requests",
                         CLIENT_CALLS_MAX, CLIENT_WAITING_BYTES);
    case ST_INVALID_ARGUMENT:
        return error_set(e, status,
                         "the request exceeds the limit of %u bytes for %s",
                         row->request_cap, row->name);
    case ST_PERMISSION_DENIED:
        return error_set(e, status, "%s requires the role of an admin",
                         row->name);
    default:
        return error_set(e, status, "%s", status_text(status));
    }
}

enum status client_call(struct client *c, enum method m,
                        const ProtobufCMessage *request, uint32_t timeout_ms,
                        client_reply_fn *reply_fn, void *arg, struct error *e)
{
    static const struct client_call_ops ops = {on_reply, on_end};
    struct waiting w = {.on_reply = reply_fn, .arg = arg, .error = e};
    const struct method_row *row = method_find((uint16_t)m);
    uint64_t id;

    assert(row != NULL);
    if (timeout_ms == 0 && row->kind == UNARY) {
        timeout_ms = client_timeout_ms(c);
    }
    w.status = client_begin(c, m, request, timeout_ms, &ops, &w, &id);
    if (w.status != ST_OK) {
        return client_not_begun(m, w.status, e);
    }
    while (!w.ended && !client_take_interrupt(c)) {
        client_turn(c, CLIENT_TURN_MS);
    }
    if (!w.ended) {
        client_give_up(c, id); /* runs on_end, which sets w.status */
    }
    return w.status;
}

static void take_receipt(void *arg, const ProtobufCMessage *reply)
{
    client_take_receipt(arg, reply);
}

static enum status ask_receipt(struct client *c, enum method m,
                               const ProtobufCMessage *request,
                               uint32_t timeout_ms, struct client_receipt *out,
                               struct error *e)
{
    *out = (struct client_receipt){0};
    return client_call(c, m, request,
                       timeout_ms == 0 ? CLIENT_RECEIPT_MS : timeout_ms,
                       take_receipt, out, e);
}

/* Without a choice, the reference means all choices of the request. */
static Sluice__V1__SequenceRef ref_of(const uint8_t request_id[16],
                                      uint32_t choice)
{
    Sluice__V1__SequenceRef s = SLUICE__V1__SEQUENCE_REF__INIT;

    s.has_choice = choice != CLIENT_ALL_CHOICES;
    s.choice = choice == CLIENT_ALL_CHOICES ? 0 : choice;
    s.request_id = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)request_id};
    return s;
}

/* The Admin service accepts any client's request, the Inference service only
 * the caller's own. */
enum status client_cancel(struct client *c, const uint8_t request_id[16],
                          uint32_t choice, uint32_t timeout_ms,
                          struct client_receipt *out, struct error *e)
{
    Sluice__V1__SequenceRef s = ref_of(request_id, choice);
    Sluice__V1__CancelRequest r = SLUICE__V1__CANCEL_REQUEST__INIT;
    bool admin = client_is_admin(c);

    r.sequence = &s;
    r.has_reason = admin;
    r.reason = SLUICE__V1__CANCEL_REASON__CANCEL_BY_ADMIN;
    return ask_receipt(c, admin ? METHOD_ADMIN_CANCEL : METHOD_INFERENCE_CANCEL,
                       &r.base, timeout_ms, out, e);
}

static enum status remove_asked(struct client *c,
                                const Sluice__V1__RemoveRequest *r,
                                uint32_t timeout_ms, struct client_receipt *out,
                                struct error *e)
{
    return ask_receipt(
        c, client_is_admin(c) ? METHOD_ADMIN_REMOVE : METHOD_INFERENCE_REMOVE,
        &r->base, timeout_ms, out, e);
}

enum status client_remove(struct client *c, const uint8_t request_id[16],
                          uint32_t choice, uint32_t timeout_ms,
                          struct client_receipt *out, struct error *e)
{
    Sluice__V1__SequenceRef s = ref_of(request_id, choice);
    Sluice__V1__RemoveRequest r = SLUICE__V1__REMOVE_REQUEST__INIT;

    r.sequence = &s;
    return remove_asked(c, &r, timeout_ms, out, e);
}

enum status client_remove_from(struct client *c, const uint8_t request_id[16],
                               uint32_t choice, uint32_t begin,
                               struct client_receipt *out, struct error *e)
{
    Sluice__V1__SequenceRef s = ref_of(request_id, choice);
    Sluice__V1__RemoveRequest r = SLUICE__V1__REMOVE_REQUEST__INIT;

    r.sequence = &s;
    r.has_begin = true;
    r.begin = begin;
    return remove_asked(c, &r, 0, out, e);
}
