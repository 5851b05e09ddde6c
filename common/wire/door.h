/* door.h - The connections that a listening ZeroMQ socket accepts, guarded
 * below libzmq.
 *
 * libzmq bounds neither its connections nor an unfinished message of several
 * frames, and reports of either come too late to act on.  libzmq calls
 * listen(), accept4(), recv() and close() as any shared library does, so a
 * program that defines these functions is called instead (symbol
 * interposition, ld.so(8)).  door.c defines them for every program that
 * listens.  They make the system call, and on guarded connections
 *
 * - accept4() closes what the rules of the port refuse (door_rules),
 * - recv() fails with ECONNRESET at the first byte that breaks the rules of
 *   the protocol (zmtp_scan), so that libzmq drops the connection at once,
 * - close() ends the account of the connection.
 *
 * Other descriptors pass: their calls cost one look at a table.
 *
 * On a port with keys the flags of frames are encrypted, so an unfinished
 * message of several frames is found by its effects: recv() counts the frames
 * that came, and door_taken() those that libzmq handed on.  The difference of
 * an honest connection is what libzmq queues, at most DOOR_UNTAKEN_MAX frames
 * and untaken_bytes.  A connection with more ends at once.  One with less, but
 * without progress while its port was read until it was empty, ends within
 * DOOR_STUCK sweeps: its frames wait for others that do not come.
 *
 * On every port a connection of which nothing was handed on has at most
 * DOOR_UNHEARD_MAX frames, fewer than libzmq queues.  libzmq stops reading a
 * connection whose queue is full, and closes it when it reads again: never, if
 * the routing id of its peer is that of another.  A peer that speaks first
 * waits for an answer.
 *
 * A connection is named by its descriptor and a generation, because the
 * kernel reuses descriptors.
 *
 * Threading: any thread; one lock, which calls for other descriptors do not
 * take.  Memory: one entry per descriptor, at most DOOR_FDS_MAX of them, kept
 * for the life of the process.  Limits: below. */
#ifndef COMMON_WIRE_DOOR_H
#define COMMON_WIRE_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/door_rules.h"
#include "common/wire/zmtp_scan.h"

#define DOOR_PORTS_MAX 8
#define DOOR_FDS_MAX   262144
#define DOOR_RESERVE   32    /* descriptors that connections do not take */
#define DOOR_SILENT_MS 10000 /* from the accept to the first message */
/* libzmq's queue has TRANSPORT_HWM frames, and the bytes that it reads at once
 * (8192) at most 84 of the shortest. */
#define DOOR_UNTAKEN_MAX 256 /* frames of a connection with a key */
#define DOOR_UNHEARD_MAX 60  /* frames before the first is handed on */
#define DOOR_STUCK       3   /* sweeps */

/* Which descriptors the connections of a port may take. */
enum door_rank {
    DOOR_ALL,   /* every one */
    DOOR_FIRST, /* all but DOOR_RESERVE */
    DOOR_SECOND /* three quarters of those, so that the first port has some */
};

struct door_config {
    struct door_limits limits;
    /* The longest message of a peer, and of a trusted peer (door_trust()). */
    uint64_t message_max, trusted_max;
    enum door_rank rank;
    bool curve; /* every peer has a key */
    /* Bytes of a connection with a key that came and were not handed on, of a
     * peer and of a trusted peer. */
    int64_t untaken_bytes, trusted_untaken;
};

/* Opens a door.  The next socket that this thread makes listen is guarded by
 * it.  Returns its number, 0 if all are in use. */
MUST_CHECK unsigned door_open(const struct door_config *c, int64_t now_us);
/* Returns whether that socket listens: if not, libzmq does not pass here. */
bool door_listens(unsigned door);
/* Changes the limits on connections of a door.  Those that are open stay. */
void door_limit(unsigned door, uint32_t connections, uint32_t per_address);
/* Closes a door whose connections have all ended. */
void door_close(unsigned door);

struct door_counts {
    uint64_t accepted, closed;
    uint64_t spoke; /* connections with a message */
    /* With keys, ended by libzmq or the peer before a message: without, and
     * with a greeting that offers CURVE. */
    uint64_t unbegun, unfinished;
    uint64_t refused[DOOR_VERDICT_NR]; /* by verdict; [DOOR_OPEN] is 0 */
    uint64_t cut[ZMTP_FAULT_NR];       /* by fault; [ZMTP_FINE]: silent ones */
};

struct door_counts door_counts(unsigned door);

/* Returns the generation of a guarded connection, 0 for any other. */
uint32_t door_generation(int fd);

/* Allows a connection messages of trusted_max bytes.  A no-op if it has
 * ended. */
void door_trust(int fd, uint32_t generation);

/* Ends a connection in the first door_sweep() from at_us on, so that libzmq
 * can deliver until then what is queued.  A no-op if it has ended. */
void door_dismiss(int fd, uint32_t generation, int64_t at_us);

/* Records that a connection has handed a message on.  A no-op if it has ended.
 */
void door_taken(int fd, uint32_t generation, size_t bytes);
/* Records that the port was read until it was empty. */
void door_drained(unsigned door);

/* Ends a connection at once because of what its peer sent.  A no-op if it has
 * ended. */
void door_cut(int fd, uint32_t generation, enum zmtp_fault fault);

/* Ends the connections of a door that are due: dismissed ones, those that
 * have sent no message within DOOR_SILENT_MS, and those with an unfinished
 * message.  Costs one look at each
 * descriptor that was ever guarded. */
void door_sweep(unsigned door, int64_t now_us);

#endif
