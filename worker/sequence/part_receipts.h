/* part_receipts.h - Calls that wait until a sequence holds no memory.
 *
 * Used by: worker/sequences/receipts.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_RECEIPTS_H
#define WORKER_SEQUENCE_PART_RECEIPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/cache/pool.h"

/* A Cancel or RemoveSequence that waits until the memory is free. */
struct receipt_waiter {
    struct receipt_waiter *next;
    uint64_t call;
    int64_t since_us;
    int state;  /* proto's SequenceState when the call came */
    bool first; /* this call caused the release, so it reports what was freed */
    struct pool_need freed;
};

struct sequence_receipts {
    struct receipt_waiter *first, *last;
};

/* Returns whether a call waits. */
static inline bool receipts_are_awaited(const struct sequence_receipts *p)
{
    return p->first != NULL;
}

#endif
