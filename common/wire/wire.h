/* wire.h - Bodies of envelopes to and from protobuf, within a budget.
 *
 * Messages are protobuf-c's structs and descriptors.  Packing and unpacking
 * are our own code: it needs half the instructions of protobuf-c and bounds
 * memory. With protobuf-c, one megabyte of empty sub-messages becomes 68 MB.
 * Here a message is unpacked into an arena capped at 4 times the body plus
 * ARENA_SLACK, so a hostile body fails early, and all memory of a message is
 * freed at once.
 *
 * Threading: none.  Memory: a decoded message lives until the arena's next
 * arena_reset() or wire_unpack(); it is never freed alone.  Limits: the types
 * of common/wire/wire_type.h, WIRE_FIELDS_MAX fields per message. */
#ifndef COMMON_WIRE_WIRE_H
#define COMMON_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/status.h"

#define ARENA_SLACK (64u << 10)

struct arena {
    uint8_t *memory; /* [capacity], grown to the largest budget seen */
    size_t capacity, used, budget;
    bool exhausted;
};

void arena_init(struct arena *a);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a);

/* Allocates what a body of this length, or a shorter one, may need.  Returns
 * false without memory; the arena is then as it was. */
MUST_CHECK bool arena_reserve(struct arena *a, size_t body_bytes);

/* Start the budget of a body, and take memory from it, for wire_unpack().
 * arena_begin() returns false as arena_reserve() does, arena_take() returns
 * NULL if the budget is spent. */
MUST_CHECK bool arena_begin(struct arena *a, size_t body_bytes);
void *arena_take(struct arena *a, size_t bytes);

/* Resets the arena and unpacks.  Refuses a body that does not parse, exceeds
 * the budget, or repeats a singular sub-message; ST_RESOURCE_EXHAUSTED is the
 * lack of memory.  The last value of any other
 * repeated singular field counts.  Unknown fields are skipped: a newer minor
 * version may send them. */
MUST_CHECK enum status wire_unpack(struct arena *a,
                                   const ProtobufCMessageDescriptor *type,
                                   const uint8_t *body, size_t bytes,
                                   ProtobufCMessage **out, struct error *e);

/* Returns the bytes of m when packed; wire_pack() packs m into that many and
 * returns the number. */
size_t wire_size(const ProtobufCMessage *m);
size_t wire_pack(const ProtobufCMessage *m, uint8_t *out);

/* Makes ProtobufCBinaryData of a C string, borrowed. */
ProtobufCBinaryData wire_text(const char *s);

/* Checks for UTF-8 without NUL of min..max bytes. */
bool wire_text_ok(ProtobufCBinaryData d, size_t min, size_t max);

#endif
