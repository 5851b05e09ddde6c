/* calls.h - Open calls of one direction of one peer.
 *
 * A hash table with open addressing by call number; it starts small.
 * Deadlines need no heap: a scan finds the deadlines that have passed.  A
 * scan runs only when the earliest deadline set since the last scan has come.
 *
 * Threading: none.  Memory: grows to at most twice PEER_CALLS_MAX entries and
 * is kept. */
#ifndef COMMON_WIRE_CALLS_H
#define COMMON_WIRE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
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

/* Makes room for n more calls.  Returns false without memory. */
MUST_CHECK bool calls_reserve(struct calls *cs, uint32_t n);

/* Adds a call, for which there is room.  c->number is not 0 and not in the
 * table, which holds fewer than PEER_CALLS_MAX calls. */
void calls_add(struct calls *cs, const struct call *c);

/* Finds a call, NULL if there is none.  The result is valid until the next
 * change. */
const struct call *calls_find(const struct calls *cs, uint64_t number);

/* Takes out the call with this number.  Returns false if there is none. */
bool calls_take(struct calls *cs, uint64_t number, struct call *out);

/* Takes out one call whose deadline has passed.  Returns false if there is
 * none. */
bool calls_take_due(struct calls *cs, int64_t now_us, struct call *out);

/* Takes out any one call.  Returns false if the table is empty. */
bool calls_take_any(struct calls *cs, struct call *out);

#endif
