#include "common/wire/wire_limits.h"

#include "common/wire/curve_cert.h"
#include "common/wire/curve_keys.h"
#include "common/wire/door.h"
#include "common/wire/frame_spare.h"
#include "common/wire/link.h"
#include "common/wire/method.h"
#include "common/wire/peer.h"
#include "common/wire/resolver.h"
#include "common/wire/session.h"
#include "common/wire/zap.h"
#include "proto/limits.h"

const struct limit_row wire_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    PROTO_LIMITS(X)
#undef X
        LIMIT_ROW(SHARD_BYTES_MAX, "bytes", "any part of a worker's memory"),
    LIMIT_ROW(FRAME_SPARE_BYTES, "bytes", "freed frames of one size, kept"),
    LIMIT_ROW(FRAME_SPARE_MOST, "bytes", "a freed frame that is kept"),
    LIMIT_ROW(FRAME_SPARE_MAX, "frames", "freed frames of one size, kept"),
    LIMIT_ROW(LINK_RING_FRAMES, "frames", "sent and not acknowledged"),
    LIMIT_ROW(LINK_RING_BYTES, "bytes", "sent and not acknowledged"),
    LIMIT_ROW(LINK_OUTBOX_BYTES, "bytes", "waiting in one lane to a peer"),
    LIMIT_ROW(LINK_TENSORS_MAX, "tensors", "waiting to a stage"),
    LIMIT_ROW(LINK_SUBMIT_WINDOW, "bytes", "Submits not acknowledged"),
    LIMIT_ROW(LINK_RESEND_US, "us", "before the first resend of a frame"),
    LIMIT_ROW(LINK_RESEND_MAX_US, "us", "between resends of a frame"),
    LIMIT_ROW(LINK_UNACKED_US, "us", "without an acknowledgement"),
    LIMIT_ROW(PEER_STRIKES, "frames", "violations that end a session"),
    LIMIT_ROW(ARENA_SLACK, "bytes", "a decoded message, beside 4 per byte"),
    LIMIT_ROW(DOOR_CONNECTIONS, "", "connections at a port, by default"),
    LIMIT_ROW(DOOR_ACCEPT_RATE, "", "new connections a second at a port"),
    LIMIT_ROW(DOOR_ACCEPT_BURST, "", "new connections at once at a port"),
    LIMIT_ROW(DOOR_SILENT_MS, "ms", "from a connect to the first message"),
    LIMIT_ROW(DOOR_RESERVE, "files", "that connections do not take"),
    LIMIT_ROW(DOOR_PORTS_MAX, "ports", "that listen in one process"),
    LIMIT_ROW(DOOR_FDS_MAX, "files", "that connections may have numbers of"),
    LIMIT_ROW(DOOR_UNHEARD_MAX, "frames", "of a peer, the first not taken"),
    LIMIT_ROW(ZMTP_COMMAND_MAX, "bytes", "a command of ZMTP"),
    LIMIT_ROW(DOOR_HANDSHAKES, "", "unfinished at a port with keys"),
    LIMIT_ROW(DOOR_UNTAKEN_MAX, "frames",
              "of a peer with a key that form no message yet"),
    LIMIT_ROW(DOOR_STUCK, "s", "that frames of such a peer may wait"),
    LIMIT_ROW(ZMTP_METADATA, "bytes", "metadata in a handshake of CURVE"),
    LIMIT_ROW(CURVE_KEYS_MAX, "", "certificates in --trust"),
    LIMIT_ROW(CURVE_CERT_BYTES_MAX, "bytes", "a certificate's file"),
    LIMIT_ROW(CURVE_SUFFIX_MAX, "bytes", "a suffix such as +2 of that name"),
    LIMIT_ROW(ZAP_ID_MAX, "bytes", "the id of libzmq's request about a key"),
    LIMIT_ROW(ENDPOINT_NAME_MAX, "bytes", "the name of a host"),
    LIMIT_ROW(ENDPOINT_LABEL_MAX, "bytes", "of it between two dots"),
    LIMIT_ROW(RESOLVER_QUERIES, "names", "being resolved at once"),
    LIMIT_ROW(RESOLVER_THREADS, "names", "being looked up at once"),
    LIMIT_ROW(RESOLVER_ADDRESSES, "addresses", "of a name that are tried"),
    LIMIT_ROW(SESSION_HELLO_TRIES, "", "Hellos on one connection"),
    LIMIT_ROW(SESSION_QUIET_US, "us", "silence before a ping"),
    LIMIT_ROW(SESSION_SILENT_US, "us", "silence that ends a session"),
    LIMIT_ROW(SESSION_BACKOFF_MAX_US, "us", "between attempts to connect"),
};

const size_t wire_limits_n = sizeof wire_limits / sizeof wire_limits[0];

/* Value 0: the method is not built, or has no reply. */
static const struct limit_row method_limits[] = {
#define X(id, number, service, method, request, reply, kind, callers, servers, \
          request_cap, reply_cap, lane, built, tensor_cap)                     \
    {#id "_REQUEST", (built) ? (request_cap) : 0, "bytes",                     \
     "a request of " #service "." #method},                                    \
        {#id "_REPLY", (built) ? (reply_cap) : 0, "bytes",                     \
         "a reply of " #service "." #method},
    METHOD_MAP(X)
#undef X
};

void wire_limits_print(FILE *to)
{
    limits_print(to, wire_limits, wire_limits_n);
    for (size_t i = 0; i < sizeof method_limits / sizeof method_limits[0];
         i++) {
        if (method_limits[i].value > 0) {
            limits_print(to, &method_limits[i], 1);
        }
    }
}
