/* chaos_zmtp.h - Boundaries of messages in one direction of a ZMTP 3 connection
 * with the NULL mechanism, which does not encrypt.
 *
 *     greeting   64 bytes: ff 8 x 00 7f 03 ...
 *     frame      flags, length of 1 byte or (flag LONG) 8, body
 *     message    frames, all but the last with flag MORE
 *     command    one frame with flag COMMAND
 *
 * A stream without that greeting is one endless unit OTHER.
 *
 * Threading: none.  Memory: none; reads every byte once and keeps none. */
#ifndef TESTS_FAULTS_CHAOS_ZMTP_H
#define TESTS_FAULTS_CHAOS_ZMTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zmtp_unit { ZMTP_GREETING, ZMTP_COMMAND, ZMTP_MESSAGE, ZMTP_OTHER };

struct zmtp {
    enum zmtp_unit unit;
    bool in_body;
    bool in_message; /* a frame with MORE has passed */
    uint8_t flags;
    uint8_t seen;  /* bytes read of the greeting or frame header */
    uint64_t left; /* bytes left of the body, if in_body */
    uint64_t size; /* size of the body, as far as it was read */
};

struct zmtp_piece {
    size_t bytes;        /* length from the start of the data, 1 or more */
    enum zmtp_unit unit; /* kind of unit that the bytes belong to */
    bool body;           /* bytes of a body, not flags or lengths */
    bool ends;           /* the unit ends with these bytes */
};

void zmtp_init(struct zmtp *z);

/* Returns the next piece of data[n], n > 0. */
struct zmtp_piece zmtp_next(struct zmtp *z, const uint8_t *data, size_t n);

#endif
