/* zmtp_scan.h - Scanner of the bytes that a peer sends on a ZMTP 3 connection.
 *
 *     greeting   64 bytes: ff 8 x 00 7f 03 mechanism ...
 *     frame      flags, length of 1 byte or (flag LONG) 8, body
 *     command    a frame with flag COMMAND
 *     message    any other frame: a message of ours is one frame
 *
 * It finds what libzmq would keep in memory without a bound, before libzmq
 * reads it: a message of several frames.  A body is skipped, not read.
 * Mechanism NULL only: other mechanisms encrypt what is scanned here.
 *
 * Threading: none.  Memory: the caller's 24 bytes. */
#ifndef COMMON_WIRE_ZMTP_SCAN_H
#define COMMON_WIRE_ZMTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZMTP_COMMAND_MAX 4096 /* READY with metadata is the longest */

/* X(name, what the peer sent) */
#define ZMTP_FAULTS(X)                                    \
    X(FINE, "nothing wrong")                              \
    X(GREETING, "no greeting of ZMTP 3 without security") \
    X(FLAGS, "a frame with unknown flags")                \
    X(PARTS, "a message of several frames")               \
    X(LENGTH, "a message that is too long")               \
    X(COMMAND, "a command that is empty or too long")

enum zmtp_fault {
#define X(name, what) ZMTP_##name,
    ZMTP_FAULTS(X)
#undef X
        ZMTP_FAULT_NR
};

struct zmtp_scan {
    uint64_t left; /* bytes left of a body; in a head: its length so far */
    uint8_t seen;  /* bytes of the greeting or of a head */
    uint8_t flags;
    bool greeted, in_body;
    bool spoke;            /* has sent a whole message */
    enum zmtp_fault fault; /* the first, which stays */
};

/* Starts a connection: *s is zeroed. */
void zmtp_scan_init(struct zmtp_scan *s);

/* Scans the next n bytes.  A message frame may have at most `longest` bytes.
 * Returns the first fault of the connection, for good. */
enum zmtp_fault zmtp_scan(struct zmtp_scan *s, const uint8_t *data, size_t n,
                          uint64_t longest);

/* Returns what the peer sent, for logs. */
const char *zmtp_fault_text(enum zmtp_fault f);

#endif
