/* wire.h - bodies of envelopes to and from protobuf, within a budget.
 *
 * protobuf-c takes what a message asks for: a megabyte of empty
 * sub-messages becomes 68.  Here it unpacks into an arena whose total (not
 * only its peak) is capped by 4 times the body plus ARENA_SLACK, so that a
 * hostile body fails early and everything a message owns is freed at once.
 *
 * Threading: none.  Memory: a decoded message lives until the arena's next
 * arena_reset() or wire_unpack(); it is never freed by itself. */
#ifndef COMMON_WIRE_H
#define COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/status.h"

#define ARENA_SLACK (64u << 10)

struct arena {
    uint8_t *memory; /* [capacity], grown to the largest budget seen */
    size_t capacity, used, budget;
    bool exhausted;
    ProtobufCAllocator allocator;
};

void arena_init(struct arena *a);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a);

/* Resets the arena, unpacks, and refuses: what does not parse, what breaks
 * the budget, duplicates of a singular sub-message by the budget, unknown
 * fields never (a newer minor version may send them; they are not kept). */
MUST_CHECK enum status wire_unpack(struct arena *a,
                                   const ProtobufCMessageDescriptor *type,
                                   const uint8_t *body, size_t bytes,
                                   ProtobufCMessage **out, struct error *e);

/* ProtobufCBinaryData of a C string, borrowed. */
ProtobufCBinaryData wire_text(const char *s);

/* UTF-8 without NUL, min..max bytes. */
bool wire_text_ok(ProtobufCBinaryData d, size_t min, size_t max);

#endif
