/* chaos_zmtp.h - where messages begin and end in one direction of a ZMTP 3
 * connection (NULL mechanism: what follows the handshake is not encrypted).
 *
 *     greeting   64 bytes: ff 8 x 00 7f 03 ...
 *     frame      flags, length of 1 byte or (flag LONG) 8, body
 *     message    frames, all but the last with flag MORE
 *     command    one frame with flag COMMAND
 *
 * A stream that does not begin so, as a whole, is one endless unit OTHER.
 *
 * Threading: none.  Memory: none; it sees every byte once and keeps none. */
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
    uint8_t seen;  /* bytes of the greeting or of the frame's head */
    uint64_t left; /* in_body: bytes of the body */
    uint64_t size; /* of the body, as far as it has been read */
};

struct zmtp_piece {
    size_t bytes;        /* of what was given, from its start, at least 1 */
    enum zmtp_unit unit; /* what they are of */
    bool body;           /* of a message: not its flags and lengths */
    bool ends;           /* the last of the unit */
};

void zmtp_init(struct zmtp *z);

/* The next piece of data[n], n > 0. */
struct zmtp_piece zmtp_next(struct zmtp *z, const uint8_t *data, size_t n);

#endif
