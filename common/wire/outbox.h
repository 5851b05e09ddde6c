/* outbox.h - Envelopes that a link was given and has not sealed yet.
 *
 *     control   envelopes in order, and among them, in frames of their own,
 *               those with a tensor
 *     submit    envelopes in order
 *     state     the newest of each method
 *
 * Threading: none.  Memory: queues double up to the limit and are kept; a
 * tensor's frame is the caller's once it is taken.  Limits: `bytes` per lane,
 * LINK_TENSORS_MAX, LINK_STATE_METHODS. */
#ifndef COMMON_WIRE_OUTBOX_H
#define COMMON_WIRE_OUTBOX_H

#include "common/wire/link.h"

/* Encoded envelopes, back to back in data[head, tail). */
struct queue {
    uint8_t *data;
    size_t head, tail, capacity;
    uint32_t n;
    uint64_t n_taken; /* envelopes taken since the start */
};

/* The newest waiting message of one method; bytes = 0: none waits. */
struct state_slot {
    uint8_t *data;
    size_t bytes, capacity;
    uint16_t method;
};

/* An envelope with its tensor, in the frame in which it is sent.  Its turn
 * comes when `after` other envelopes of the control lane are taken. */
struct tensor_slot {
    struct frame *frame;
    uint64_t after;
    uint32_t envelope_bytes, tensor_bytes;
};

struct outbox {
    size_t bytes;          /* limit of a lane */
    struct queue lanes[2]; /* LANE_CONTROL, LANE_SUBMIT */

    struct tensor_slot tensors[LINK_TENSORS_MAX];
    uint32_t first_tensor, n_tensors;
    uint64_t n_tensors_taken;
    size_t tensor_bytes; /* tensors with their envelopes */

    struct state_slot state[LINK_STATE_METHODS];
    uint32_t n_state; /* methods with a waiting message */
    bool broken; /* memory was short for an envelope that is always accepted */
};

/* A run of envelopes from the head of a lane. */
struct cut {
    size_t bytes;
    uint32_t n;
};

void outbox_fini(struct outbox *o);

/* Put, measure and count envelopes as link_put(), link_put_tensor(),
 * link_room(), link_queued() and link_taken() do. */
uint8_t *outbox_put(struct outbox *o, enum lane lane, const struct envelope *e);
uint8_t *outbox_put_tensor(struct outbox *o, const struct envelope *e,
                           uint32_t tensor_bytes, uint8_t **tensor);
size_t outbox_room(const struct outbox *o, enum lane lane);
uint64_t outbox_queued(const struct outbox *o, enum lane lane);
uint64_t outbox_taken(const struct outbox *o, enum lane lane);

/* Cuts the run of a lane that fits in `limit` bytes and n_max envelopes,
 * before a tensor.  If not even the first envelope fits, `alone` permits it
 * on its own. */
struct cut outbox_cut(const struct outbox *o, enum lane lane, size_t limit,
                      uint32_t n_max, bool alone);

/* Takes what was cut and writes it to out, [c.bytes]. */
void outbox_take(struct outbox *o, enum lane lane, struct cut c, uint8_t *out);

/* Returns whether a tensor is next in the control lane. */
bool outbox_tensor_next(const struct outbox *o);
struct tensor_slot outbox_take_tensor(struct outbox *o);

/* Takes the state that fits beside `bytes` and writes it to out.  out NULL:
 * only measures. */
struct cut outbox_take_state(struct outbox *o, size_t bytes, uint8_t *out);

#endif
