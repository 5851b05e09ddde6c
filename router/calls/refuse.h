/* refuse.h - Refuses calls, and expels workers that violate the protocol.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_CALLS_REFUSE_H
#define ROUTER_CALLS_REFUSE_H

#include "router/fleet/fleet.h"
#include "router/fleet/pending.h"

/* A call as dispatch.c passes it to its handler. */
struct incoming {
    struct router_peer *peer;
    uint64_t call;
    int64_t deadline_us;
    struct error *refused; /* gets the reason of a refusal; NULL: not needed */
};

/* Answers a call with an error of status code and a formatted sentence. */
void refuse(const struct incoming *in, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Answers a call with this error, and with the time after which to retry; 0:
 * never. */
void refuse_with(const struct incoming *in, const struct error *e,
                 uint32_t retry_after_ms);

/* Checks a request_id: 16 bytes, not all zero.  Returns false if it refused the
 * call. */
bool check_request_id(const struct incoming *in, ProtobufCBinaryData id);

/* Ends the session of w, whose message violates the protocol, as e explains.
 * Logs the reason and quarantines the name for WORKER_QUARANTINE_US.  No-op if
 * the session has ended. */
void worker_expel(struct fleet *fleet, struct worker *w, const struct error *e);

#endif
