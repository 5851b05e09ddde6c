/* refuse.h - calls refused, and workers whose messages are wrong.
 *
 * Threading: the core's. */
#ifndef ROUTER_CALLS_REFUSE_H
#define ROUTER_CALLS_REFUSE_H

#include "router/fleet/fleet.h"
#include "router/fleet/pending.h"

/* A call, as dispatch.c hands it on. */
struct incoming {
    struct router_peer *peer;
    uint64_t call;
    int64_t deadline_us;
};

/* Answers a call with a status and a sentence. */
void refuse(const struct incoming *in, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks a request_id: 16 bytes, not all zero.  Returns false if it was
 * refused. */
bool check_request_id(const struct incoming *in, ProtobufCBinaryData id);

/* A message of w contradicts what is known, as e says: ends its session, keeps
 * its name out for a while, and logs the reason. */
void worker_lied(struct fleet *fleet, struct worker *w, const struct error *e);

#endif
