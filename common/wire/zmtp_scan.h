/* zmtp_scan.h - Scanner of the bytes that a peer sends on a ZMTP 3 connection.
 *
 *     greeting   64 bytes: ff 8 x 00 7f 03 mechanism ...
 *     frame      flags, length of 1 byte or (flag LONG) 8, body
 *     command    a frame with flag COMMAND
 *     message    any other frame: a message of ours is one frame
 *
 * It finds what libzmq would keep in memory without a bound, before libzmq
 * reads it: a message of several frames.  A body is skipped, not read.
 *
 * A port has one mechanism.  With NULL the frames are plain.  With CURVE a peer
 * sends HELLO, INITIATE, and then messages that are encrypted with their flags:
 * whether more frames follow cannot be seen here.  The scanner therefore counts
 * messages, and the door compares the count with those that arrived
 * (common/wire/door.h).  A message of CURVE has at least ZMTP_MESSAGE_MIN bytes
 * inside: heartbeats of ZMTP are shorter, and a peer with a key sends none. Its
 * metadata have no room for a routing id besides the type of its socket: libzmq
 * neither reads nor closes a connection whose routing id is another's.
 *
 * Threading: none.  Memory: the caller's 40 bytes. */
#ifndef COMMON_WIRE_ZMTP_SCAN_H
#define COMMON_WIRE_ZMTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZMTP_COMMAND_MAX 4096 /* READY with metadata is the longest */
#define ZMTP_HELLO       200  /* bytes of CURVE's first command */
#define ZMTP_INITIATE    257  /* bytes of CURVE's second without metadata */
#define ZMTP_METADATA    35   /* its metadata: type of socket, no routing id */
#define ZMTP_CURVE       33   /* bytes that CURVE adds to a message */
#define ZMTP_MESSAGE_MIN 64   /* FRAME_HEADER */

/* X(name, what the peer sent) */
#define ZMTP_FAULTS(X)                                                   \
    X(FINE, "nothing wrong")                                             \
    X(GREETING, "no greeting of ZMTP 3")                                 \
    X(MECHANISM, "the greeting of a peer with a key to a port without, " \
                 "or without a key to a port with keys")                 \
    X(FLAGS, "a frame with unknown flags")                               \
    X(PARTS, "a message of several frames")                              \
    X(LENGTH, "a message that is too long")                              \
    X(SHORT, "a message that is too short")                              \
    X(COMMAND, "a command that is empty or too long, or that has no place")

enum zmtp_fault {
#define X(name, what) ZMTP_##name,
    ZMTP_FAULTS(X)
#undef X
        ZMTP_FAULT_NR
};

struct zmtp_scan {
    uint64_t left;     /* bytes left of a body; in a head: its length so far */
    uint64_t bytes;    /* in whole messages, without what CURVE adds */
    uint32_t messages; /* whole messages; the count wraps */
    uint8_t seen;      /* bytes of the greeting or of a head */
    uint8_t flags;
    uint8_t commands; /* CURVE: commands of the handshake that have begun */
    bool curve;
    bool greeted, in_body;
    bool spoke;            /* has sent a whole message */
    enum zmtp_fault fault; /* the first, which stays */
};

/* Starts a connection at a port with or without keys: *s is zeroed. */
void zmtp_scan_init(struct zmtp_scan *s, bool curve);

/* Scans the next n bytes.  A message may have at most `longest` bytes, without
 * what CURVE adds.  Returns the first fault of the connection, for good. */
enum zmtp_fault zmtp_scan(struct zmtp_scan *s, const uint8_t *data, size_t n,
                          uint64_t longest);

/* Returns what the peer sent, for logs. */
const char *zmtp_fault_text(enum zmtp_fault f);

#endif
