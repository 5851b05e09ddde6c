/* wire.h - bodies of envelopes to and from protobuf, within a budget.
 *
 * The messages are protobuf-c's structs and descriptors; packing and
 * unpacking are ours, in half its instructions.  protobuf-c also takes what a
 * message asks for: a megabyte of empty sub-messages becomes 68.  Here a
 * message is unpacked into an arena whose total is capped by 4 times the body
 * plus ARENA_SLACK, so that a hostile body fails early and everything that a
 * message owns is freed at once.
 *
 * Threading: none.  Memory: a decoded message lives until the arena's next
 * arena_reset() or wire_unpack(); it is never freed by itself.  Limits: the
 * types of common/wire/wire_type.h, WIRE_FIELDS_MAX fields a message. */
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

/* For wire_unpack(): the budget of a body, and memory out of it; NULL: it is
 * spent. */
void arena_begin(struct arena *a, size_t body_bytes);
void *arena_take(struct arena *a, size_t bytes);

/* Resets the arena and unpacks.  Refused is what does not parse, what breaks
 * the budget, and a singular sub-message that comes twice; of another
 * singular field the last one counts.  Unknown fields are skipped: a newer
 * minor version may send them. */
MUST_CHECK enum status wire_unpack(struct arena *a,
                                   const ProtobufCMessageDescriptor *type,
                                   const uint8_t *body, size_t bytes,
                                   ProtobufCMessage **out, struct error *e);

/* Bytes that m has when packed; pack it into so many, which it returns. */
size_t wire_size(const ProtobufCMessage *m);
size_t wire_pack(const ProtobufCMessage *m, uint8_t *out);

/* ProtobufCBinaryData of a C string, borrowed. */
ProtobufCBinaryData wire_text(const char *s);

/* UTF-8 without NUL, min..max bytes. */
bool wire_text_ok(ProtobufCBinaryData d, size_t min, size_t max);

#endif
