/* forged.h - Messages of workers with one false field.
 *
 * One seed in eight, of those with faults, has forged messages.  An independent
 * stream draws them, so that other seeds do not change.  Some messages of
 * workers to the router then arrive with one field changed to a value that
 * cannot be true: a token beyond the vocabulary, an unknown state, a ledger
 * that does not add up or shows memory of a running sequence as free, a receipt
 * beyond the grant.
 *
 * The frame itself is valid.  The simulator's other checks use the message as
 * the worker has sent it, so a false value that the router uses shows up there.
 *
 *   - A forged Report or StepOutput of the present session ends that session.
 *   - A forged receipt ends it, or is dropped with its sequence.
 *   - The router ends sessions for violations only after a forged message. */
#ifndef SIM_FORGED_H
#define SIM_FORGED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/frame.h"
#include "common/wire/wire.h"
#include "tests/sim/rng.h"

struct sim;

struct forged {
    uint32_t of;      /* forged of 10,000 reports; 0: none */
    uint32_t lose_of; /* messages of 10,000 that lose events of an index */
    struct rng chance;
    uint64_t n_sent;
    const char *what; /* the false value that must end the session */
    uint64_t session; /* the sender's session; 0: nothing is forged */
};

void forged_draw(struct sim *s);

/* Returns a copy of f, whose header is h, in which e has another body. */
struct frame *forged_body(const struct frame *f, struct frame_header h,
                          const struct envelope *e,
                          const ProtobufCMessage *body);

/* May replace *f, which a worker has sent on conn, by a forged message. */
void forged_replace(struct sim *s, uint32_t conn, struct frame **f);

/* Checks that the router has rejected the forged message. */
void forged_check(struct sim *s, uint32_t conn);

#endif
