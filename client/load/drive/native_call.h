/* native_call.h - A request over our protocol, from its bytes to its end.
 *
 *     made --begin--> OPEN --last chunks, End--------------------> ended
 *                      |                                             ^
 *                      +--give up: Cancel--> receipt, and the End ---+
 *                      +--give up: disconnect--> the connection is cut
 *
 * A call that has ended waits in a list of its owner, who reports it at a
 * moment when no core is running (native_call_report).
 *
 * Ends of a call, and their outcomes:
 *
 *     every choice STOP or LENGTH                           OK
 *     RESOURCE_EXHAUSTED, or UNAVAILABLE by a live router,
 *     before any token                                      REFUSED
 *     any other error                                       FAILED
 *     tokens missing, doubled, after the end; a stream
 *     without the end of a choice; a count that differs     FAILED, bad_stream
 *     given up                                              as it was given up
 *
 * A cancel is proven by its receipt (native_receipt.h).  The call leaked if
 * the receipt does not add up, if none came within CLIENT_RECEIPT_MS, or if
 * the stream went on for so long.  If the connection to the router was lost
 * meanwhile there is no receipt, and nothing is checked about memory: that
 * router or the worker ends the request by itself.
 *
 * Threading: one thread.  Memory: its prompt, until the first chunk, or
 * with resume until its end; about 3 KB besides. */
#ifndef CLIENT_LOAD_DRIVE_NATIVE_CALL_H
#define CLIENT_LOAD_DRIVE_NATIVE_CALL_H

#include "client/lib/resumable.h"
#include "client/load/drive/native_group.h"
#include "client/load/drive/native_receipt.h"
#include "client/load/drive/target.h"
#include "common/base/list.h"

/* Data that the calls of a target share. */
struct native_shape {
    Sluice__V1__Sampling sampling;
    ProtobufCBinaryData model, tenant, stops[TARGET_STOPS];
    uint32_t n_stops, n;
    bool has_drafts;
    uint32_t drafts;
    uint32_t resume_ms; /* 0: a call ends with its connection */
    struct list *ended; /* calls, by call.ended */
};

enum native_way { NATIVE_SHARED, NATIVE_CUT, NATIVE_SLOW, NATIVE_WAYS };

struct call {
    const struct native_shape *shape;
    const struct call_ops *ops;
    void *arg;
    enum native_way way;            /* the kind of session that it needs */
    uint32_t index;                 /* in the owner's table */
    struct list ended_calls;        /* in shape->ended */
    struct native_session *session; /* while OPEN */
    uint8_t id[16];
    Sluice__V1__GenerateRequest message;
    uint32_t *ids;
    char *text;
    struct resumable stream;

    bool was_sent, given_up, stream_ended;
    bool asks; /* the receipt of a Cancel is awaited */
    enum give_up how;
    struct client_wait limit; /* the end of the stream, after a Cancel */
    bool has_receipt;
    struct native_receipt receipt;
    struct native_shown shown;
    uint32_t n_ended_choices, n_figures, n_generated;
    int64_t gap_seen_us; /* stream.gap_us that gap_us includes */
    int64_t ended_us;
    char why[SAMPLE_WHY];
    struct call_end end;
};

/* Makes a call.  id: unique.  *bytes: memory that it takes.  Returns NULL and
 * ST_INVALID_ARGUMENT in *e if our protocol cannot carry the prompt. */
struct call *native_call_new(const struct native_shape *shape,
                             const struct call_request *r, const uint8_t id[16],
                             size_t *bytes, struct error *e);
void native_call_free(struct call *c);

/* Sends it on a session; counts itself in session->n_calls. */
void native_call_begin(struct call *c, struct native_session *s);

/* Notes that its frame was handed to the transport. */
void native_call_sent(struct call *c, int64_t now_us);

/* Ends it without a send. */
void native_call_fail(struct call *c, enum status status, const char *why);

/* Cancels it: GIVE_UP_CANCEL or GIVE_UP_TIMEOUT. */
void native_call_cancel(struct call *c, enum give_up how);

/* Disconnects a call whose session must go on: leaves only its stream.  Other
 * calls are disconnected by native_session_cut(). */
void native_call_leave(struct call *c);

/* Reports the end of a call that was in shape->ended, and frees it. */
void native_call_report(struct call *c);

#endif
