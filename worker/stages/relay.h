/* relay.h - Messages that a stage passes on behind microbatches that it still
 * computes.
 *
 * The stream keeps its order around the ring, because every message may change
 * the account of a stage (proto/README.md, "Shards").  A message that arrives
 * behind a Forward therefore waits until that Forward has been passed on:
 *
 *     arrived    Forward 1, Open, Remove, Forward 2, Gone
 *     waits for         1    1                   2
 *
 * Threading: the core's.  Memory: grows to what waits at once, and is kept.
 * Limits: `most` bytes of packed messages. */
#ifndef WORKER_STAGES_RELAY_H
#define WORKER_STAGES_RELAY_H

#include "common/wire/wire.h"
#include "worker/stages/assembly.h"

struct relay {
    struct assembly *assembly; /* borrowed */
    struct arena arena;
    uint8_t *memory; /* [capacity], messages in [begin, end) */
    size_t capacity, begin, end, most;
    uint64_t arrived, passed; /* Forwards of this assembly */
};

void relay_init(struct relay *r, struct assembly *a);
void relay_fini(struct relay *r);

/* Forgets what waits; an assembly begins or is over.  most: bytes that may
 * wait. */
void relay_clear(struct relay *r, size_t most);

/* Passes m on, as soon as all Forwards before it have been.  Breaks the
 * assembly if too much waits. */
void relay_send(struct relay *r, enum method method, const ProtobufCMessage *m);

/* A Forward came, or was passed on. */
void relay_arrived(struct relay *r);
void relay_passed(struct relay *r);

#endif
