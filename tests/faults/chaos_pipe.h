/* chaos_pipe.h - One direction of a connection through the proxy.  Bytes leave
 * it delayed, dropped, duplicated, reordered or with flipped bits.
 *
 * In a ZMTP stream these faults affect a whole message with all its frames, so
 * that the stream stays valid.  The greeting and commands are only dropped.  A
 * message of more than CHAOS_UNIT_MAX bytes passes unchanged.  In a plain
 * stream bytes are dropped as they are read, and never duplicated or reordered.
 *
 * Random numbers come from the pipe's own generator: the same bytes have the
 * same faults, in whatever pieces they arrive.
 *
 * Threading: none.  Memory: CHAOS_PIPE_MAX bytes and one unit at most; aborts
 * without memory.  Time: microseconds of any clock. */
#ifndef TESTS_FAULTS_CHAOS_PIPE_H
#define TESTS_FAULTS_CHAOS_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/faults/chaos_zmtp.h"

#define CHAOS_PIPE_MAX (8u << 20) /* most bytes queued; then input waits */
#define CHAOS_UNIT_MAX                                                 \
    (4u << 20)              /* most bytes of a message held as a whole \
                             */
#define CHAOS_HOLD_US 50000 /* wait for a message to swap with */
#define CHAOS_NEVER   INT64_MAX

enum chaos_way { CHAOS_UP, CHAOS_DOWN }; /* from the client; to the client */

/* The faults of a connection; all zero: none. */
struct chaos_settings {
    uint32_t delay_ms, jitter_ms;
    uint64_t rate;  /* bytes a second, each way */
    bool drop[2];   /* by way: input is discarded */
    bool freeze[2]; /* by way: no input is read, no output written */
    /* On average one in this many: bytes; bytes in bodies; messages. */
    uint32_t flip, flip_body, dup, reorder, lose;
};

struct chaos_counts {
    uint64_t bytes[2], messages[2]; /* input, by way */
    uint64_t dropped_bytes, dropped_messages;
    uint64_t flips, dups, reorders, losses;
    uint64_t not_zmtp; /* connections that did not speak ZMTP */
};

struct chaos_segment;

struct chaos_pipe {
    const struct chaos_settings *settings;
    struct chaos_counts *counts;
    enum chaos_way way;
    bool zmtp;
    struct zmtp parser;
    uint64_t random, jitter; /* states of the generators */
    uint64_t flip_in;        /* bytes until the next flip */
    uint32_t flip_of;        /* the setting that flip_in was drawn for */

    uint8_t *unit; /* [unit_room] the message being read */
    size_t unit_bytes, unit_room;
    enum {
        UNIT_WAITS,
        UNIT_PASSES,
        UNIT_SKIPS
    } rest; /* fate of the unit being read */

    struct chaos_segment *first, *last, *held;
    size_t queued;
    int64_t held_until_us, last_due_us, free_us;
    bool ended;
};

void chaos_pipe_init(struct chaos_pipe *p, const struct chaos_settings *s,
                     struct chaos_counts *counts, enum chaos_way way, bool zmtp,
                     uint64_t seed);
void chaos_pipe_fini(struct chaos_pipe *p);

/* Returns whether the pipe takes no more input now. */
bool chaos_pipe_full(const struct chaos_pipe *p);
/* Takes data[0..n) from the input. */
void chaos_pipe_put(struct chaos_pipe *p, const uint8_t *data, size_t n,
                    int64_t now_us);
/* Notes the end of the input. */
void chaos_pipe_end(struct chaos_pipe *p, int64_t now_us);

/* Returns the number of bytes that may leave now, at *data; 0: none. */
size_t chaos_pipe_peek(struct chaos_pipe *p, const uint8_t **data,
                       int64_t now_us);
/* Removes n bytes that were written. */
void chaos_pipe_took(struct chaos_pipe *p, size_t n, int64_t now_us);
/* Returns the time of the next output, or CHAOS_NEVER. */
int64_t chaos_pipe_due(const struct chaos_pipe *p);
/* Returns whether the input has ended, all bytes have left, and the end itself
 * may pass. */
bool chaos_pipe_done(const struct chaos_pipe *p);

/* Draws a number below n with *state; splitmix64. */
uint64_t chaos_draw(uint64_t *state, uint64_t n);

#endif
