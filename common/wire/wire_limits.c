#include "common/wire/wire_limits.h"

#include "common/wire/frame_spare.h"
#include "common/wire/link.h"
#include "common/wire/peer.h"
#include "common/wire/session.h"
#include "proto/limits.h"

const struct limit_row wire_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    PROTO_LIMITS(X)
#undef X
        LIMIT_ROW(SHARD_BYTES_MAX, "bytes", "any part of a worker's memory"),
    LIMIT_ROW(FRAME_SPARE_BYTES, "bytes", "freed frames of one size, kept"),
    LIMIT_ROW(FRAME_SPARE_MAX, "frames", "freed frames of one size, kept"),
    LIMIT_ROW(LINK_RING_FRAMES, "frames", "sent and not acknowledged"),
    LIMIT_ROW(LINK_RING_BYTES, "bytes", "sent and not acknowledged"),
    LIMIT_ROW(LINK_OUTBOX_BYTES, "bytes", "waiting in one lane to a peer"),
    LIMIT_ROW(LINK_TENSORS_MAX, "tensors", "waiting to a stage"),
    LIMIT_ROW(LINK_SUBMIT_WINDOW, "bytes", "Submits not acknowledged"),
    LIMIT_ROW(LINK_RESEND_US, "us", "before the first resend of a frame"),
    LIMIT_ROW(LINK_RESEND_MAX_US, "us", "between resends of a frame"),
    LIMIT_ROW(PEER_STRIKES, "frames", "violations that end a session"),
    LIMIT_ROW(ARENA_SLACK, "bytes", "a decoded message, beside 4 per byte"),
    LIMIT_ROW(SESSION_HELLO_TRIES, "", "Hellos on one connection"),
    LIMIT_ROW(SESSION_QUIET_US, "us", "silence before a ping"),
    LIMIT_ROW(SESSION_SILENT_US, "us", "silence that ends a session"),
    LIMIT_ROW(SESSION_BACKOFF_MAX_US, "us", "between attempts to connect"),
};

const size_t wire_limits_n = sizeof wire_limits / sizeof wire_limits[0];
