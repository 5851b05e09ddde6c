/* calls.h - the open calls of one direction of one peer.
 *
 * Open addressing by call number; small at birth.  Deadlines need no heap: a
 * scan finds those that have passed, and one is made only when the earliest
 * deadline that was ever set since the last scan has come.
 *
 * Threading: none.  Memory: grows up to twice PEER_CALLS_MAX entries, kept. */
#ifndef COMMON_WIRE_CALLS_H
#define COMMON_WIRE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/method.h"

struct call {
    uint64_t number; /* 0: an empty entry */
    uint64_t tag;
    int64_t deadline_us; /* INT64_MAX: none */
    const struct method_row *row;
};

struct calls {
    struct call *entries; /* [capacity], a power of two */
    uint32_t n, capacity;
    int64_t due_us; /* no deadline is earlier */
};

void calls_init(struct calls *cs);
void calls_fini(struct calls *cs);

/* c->number is not 0 and not in there; there are fewer than PEER_CALLS_MAX. */
void calls_add(struct calls *cs, const struct call *c);

/* NULL if there is none; valid until the next change. */
const struct call *calls_find(const struct calls *cs, uint64_t number);

/* Take out the call of this number; false if there is none. */
bool calls_take(struct calls *cs, uint64_t number, struct call *out);

/* Take out one whose deadline has passed, false if there is none. */
bool calls_take_due(struct calls *cs, int64_t now_us, struct call *out);

/* Take out any one. */
bool calls_take_any(struct calls *cs, struct call *out);

#endif
