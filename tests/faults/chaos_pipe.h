/* chaos_pipe.h - one direction of a connection through the proxy: bytes go
 * in, and come out late, fewer, more, in another order or with other bits.
 *
 * In a ZMTP stream what is dropped, lost, doubled or swapped is a whole
 * message with all its frames (the greeting and commands are only dropped),
 * so that the stream stays one; a message of more than CHAOS_UNIT_MAX bytes
 * passes as it is.  In a plain stream bytes are dropped as they are read, and
 * nothing is doubled or swapped.
 *
 * All chance comes from the pipe's own generator: the same bytes in give the
 * same faults, however they were cut.
 *
 * Threading: none.  Memory: at most CHAOS_PIPE_MAX bytes and one unit; it
 * aborts when there is none.  Time: microseconds of any clock. */
#ifndef TESTS_FAULTS_CHAOS_PIPE_H
#define TESTS_FAULTS_CHAOS_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/faults/chaos_zmtp.h"

#define CHAOS_PIPE_MAX (8u << 20) /* bytes queued, then it takes no more */
#define CHAOS_UNIT_MAX (4u << 20) /* bytes of a message that waits as one */
#define CHAOS_HOLD_US  50000      /* for a message to swap with */
#define CHAOS_NEVER    INT64_MAX

enum chaos_way { CHAOS_UP, CHAOS_DOWN }; /* from who connected; to it */

/* What is done to a connection; all zero: nothing. */
struct chaos_settings {
    uint32_t delay_ms, jitter_ms;
    uint64_t rate;  /* bytes a second, each way */
    bool drop[2];   /* by way: everything in is thrown away */
    bool freeze[2]; /* by way: nothing is read and nothing comes out */
    /* Once in so many, by chance: of bytes; of bytes in bodies; of messages */
    uint32_t flip, flip_body, dup, reorder, lose;
};

struct chaos_counts {
    uint64_t bytes[2], messages[2]; /* by way, that came in */
    uint64_t dropped_bytes, dropped_messages;
    uint64_t flips, dups, reorders, losses;
    uint64_t not_zmtp; /* connections that should have been */
};

struct chaos_segment;

struct chaos_pipe {
    const struct chaos_settings *settings;
    struct chaos_counts *counts;
    enum chaos_way way;
    bool zmtp;
    struct zmtp parser;
    uint64_t random, jitter; /* generators */
    uint64_t flip_in;        /* bytes to the next flip */
    uint32_t flip_of;        /* that flip_in was drawn for */

    uint8_t *unit; /* [unit_room] the message that comes in */
    size_t unit_bytes, unit_room;
    enum { UNIT_WAITS, UNIT_PASSES, UNIT_SKIPS } rest; /* of this unit */

    struct chaos_segment *first, *last, *held;
    size_t queued;
    int64_t held_until_us, last_due_us, free_us;
    bool ended;
};

void chaos_pipe_init(struct chaos_pipe *p, const struct chaos_settings *s,
                     struct chaos_counts *counts, enum chaos_way way, bool zmtp,
                     uint64_t seed);
void chaos_pipe_fini(struct chaos_pipe *p);

/* No more now, or until it is healed. */
bool chaos_pipe_full(const struct chaos_pipe *p);
void chaos_pipe_put(struct chaos_pipe *p, const uint8_t *data, size_t n,
                    int64_t now_us);
/* Nothing more will come in. */
void chaos_pipe_end(struct chaos_pipe *p, int64_t now_us);

/* What may come out now: *data[returned], 0: nothing. */
size_t chaos_pipe_peek(struct chaos_pipe *p, const uint8_t **data,
                       int64_t now_us);
/* n of it are out. */
void chaos_pipe_took(struct chaos_pipe *p, size_t n, int64_t now_us);
/* When to peek again, if nothing else happens; CHAOS_NEVER. */
int64_t chaos_pipe_due(const struct chaos_pipe *p);
/* It has ended and everything is out, the end itself can pass. */
bool chaos_pipe_done(const struct chaos_pipe *p);

/* One of n, by *state; splitmix64. */
uint64_t chaos_draw(uint64_t *state, uint64_t n);

#endif
