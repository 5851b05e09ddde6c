/* wire_type.h - Types that the schema uses, on the wire and in memory.
 *
 * wire_pack.c and wire_unpack.c share these; tests/wire/schema_test.c checks
 * that proto/ uses no other. */
#ifndef COMMON_WIRE_WIRE_TYPE_H
#define COMMON_WIRE_WIRE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_8_BYTES = 1,
    WIRE_BYTES = 2, /* a length, then that many bytes */
    WIRE_4_BYTES = 5,
    WIRE_UNUSED = 7
};

#define WIRE_FIELDS_MAX 64 /* fields of one message */

static inline enum wire_type wire_type_of(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
        return WIRE_VARINT;
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_4_BYTES;
    case PROTOBUF_C_TYPE_FIXED64:
        return WIRE_8_BYTES;
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_UNUSED;
    }
}

/* Returns the bytes of a value in a list or struct. */
static inline size_t wire_value_bytes(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return 4;
    }
}

#endif
