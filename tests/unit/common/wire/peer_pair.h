/* peer_pair.h - Two peers in one session, for the tests of
 * common/wire/peer.h.
 *
 * Frames that one end sends wait in memory until the other end takes them in.
 * Nothing sleeps: time is pair_clock_us, which the test moves.  The ops fail
 * the test if a request's type is not its method's, if chunks are not
 * numbered 0, 1, ..., or if an end has a superfluous or missing reply or
 * reason.  Limits: PAIR_FRAMES frames wait for an end. */
#ifndef TESTS_UNIT_COMMON_WIRE_PEER_PAIR_H
#define TESTS_UNIT_COMMON_WIRE_PEER_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer.h"
#include "proto/inference.pb-c.h"

#define PAIR_SESSION 9
#define PAIR_FRAMES  4096

/* One end: what its ops received, and the frames that wait for it. */
struct end {
    struct node_io io;
    struct peer *peer;
    struct arena arena;
    struct frame *in[PAIR_FRAMES];
    int n_in;
    struct end *other;
    enum status send_status; /* result of every send */

    int n_calls, n_cancels, n_replies, n_ends, n_dirty;
    uint16_t method; /* last call's */
    uint64_t call, tag;
    int64_t deadline_us;
    enum status status;
    char text[ERROR_TEXT];
    uint32_t retry_after_ms;
    uint64_t value;        /* a value of the last message */
    uint32_t tensor_bytes; /* last call's */
    uint8_t tensor[64];    /* its first bytes */
    uint64_t forged;       /* number of the last frame forged for it */
    bool answer_calls;     /* answer unary calls at once */
};

struct pair {
    struct end a, b; /* a calls, b serves */
};

extern int64_t
    pair_clock_us; /* clock of both ends; pair_new() sets it to 1 s */

/* Makes two ends in one session, with their roles (BY_*).  pair_free() frees
 * them and all waiting frames. */
struct pair *pair_new(uint8_t a, uint8_t b);
void pair_free(struct pair *pair);

/* Takes in all frames that wait for e and returns the worst verdict. */
enum peer_verdict pair_take_in(struct end *e);

/* Flushes and takes in on both ends; every verdict must be PEER_FINE. */
void pair_settle(struct pair *pair);

/* Calls Health/Check, or Inference/Generate.  call may be NULL. */
MUST_CHECK enum status pair_call_health(struct end *e, uint32_t deadline_ms,
                                        uint64_t tag, uint64_t *call);
MUST_CHECK enum status pair_call_generate(struct end *e, uint32_t deadline_ms,
                                          uint64_t tag, uint64_t *call);

/* Fills the request of pair_call_generate(); its fields must not be freed. */
void pair_fill_generate(Sluice__V1__GenerateRequest *r);

#endif
