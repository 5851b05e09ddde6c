/* peer_pair.h - two peers that speak with each other, for the tests of
 * common/wire/peer.h: what one sends waits in memory until the other takes it
 * in.
 *
 * Nothing sleeps: time is pair_clock_us, which the test moves.  The ops fail
 * the test if a request is of another type than its method's, if chunks are
 * not numbered 0, 1, ..., or if an end has a reply or a reason too many or
 * too few.  Limits: PAIR_FRAMES wait for an end. */
#ifndef TESTS_UNIT_COMMON_WIRE_PEER_PAIR_H
#define TESTS_UNIT_COMMON_WIRE_PEER_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer.h"
#include "proto/inference.pb-c.h"

#define PAIR_SESSION 9
#define PAIR_FRAMES  4096

/* One end: what its ops saw, and the frames that wait for it. */
struct end {
    struct node_io io;
    struct peer *peer;
    struct arena arena;
    struct frame *in[PAIR_FRAMES];
    int n_in;
    struct end *other;
    enum status send_status; /* of every send */

    int n_calls, n_cancels, n_replies, n_ends, n_dirty;
    uint16_t method; /* of the last call */
    uint64_t call, tag;
    int64_t deadline_us;
    enum status status;
    char text[ERROR_TEXT];
    uint32_t retry_after_ms;
    uint64_t value;        /* something of the last message */
    uint32_t tensor_bytes; /* of the last call */
    uint8_t tensor[64];    /* the first of it */
    uint64_t forged;       /* number of the last frame forged for it */
    bool answer_calls;     /* unary calls at once */
};

struct pair {
    struct end a, b; /* a calls, b serves */
};

extern int64_t pair_clock_us; /* of both; pair_new() sets it to 1 s */

/* Two ends in one session, with their roles (BY_*); pair_free() frees them
 * with all that waits. */
struct pair *pair_new(uint8_t a, uint8_t b);
void pair_free(struct pair *pair);

/* Hand over all that waits for e; the worst verdict. */
enum peer_verdict pair_take_in(struct end *e);

/* Flush and take in to and fro; every verdict must be PEER_FINE. */
void pair_settle(struct pair *pair);

/* peer_call() of Health/Check and of Inference/Generate.  call may be NULL. */
MUST_CHECK enum status pair_call_health(struct end *e, uint32_t deadline_ms,
                                        uint64_t tag, uint64_t *call);
MUST_CHECK enum status pair_call_generate(struct end *e, uint32_t deadline_ms,
                                          uint64_t tag, uint64_t *call);

/* The request of pair_call_generate(); its fields are not to be freed. */
void pair_fill_generate(Sluice__V1__GenerateRequest *r);

#endif
