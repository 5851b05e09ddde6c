/* wire_pack.c - Messages to bytes, by protobuf-c's descriptors.
 *
 * Writes the same bytes as protobuf_c_message_pack(): fields in ascending
 * order, presence as in the struct, lists of numbers packed where the schema
 * has "packed".  Unknown fields are never kept, so there are none to pack.
 * tests/wire/schema_test.c checks that the schema uses only the types below. */
#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/wire.h"
#include "common/wire/wire_type.h"

static size_t varint_size(uint64_t v)
{
    unsigned bits = 64u - (unsigned)__builtin_clzll(v | 1);

    return (bits * 9 + 64) / 64;
}

static uint8_t *put_varint(uint8_t *out, uint64_t v)
{
    while (v >= 0x80) {
        *out++ = (uint8_t)v | 0x80;
        v >>= 7;
    }
    *out++ = (uint8_t)v;
    return out;
}

/* The wire type takes the low three bits, so it does not change the size. */
static size_t tag_size(const ProtobufCFieldDescriptor *f)
{
    return varint_size((uint64_t)f->id << 3);
}

static uint8_t *put_tag(uint8_t *out, const ProtobufCFieldDescriptor *f,
                        unsigned wire)
{
    return put_varint(out, (uint64_t)f->id << 3 | wire);
}

/* ---- one value, without its tag ---- */

/* Returns whether the value travels as a varint, and its number. */
static inline bool get_number(ProtobufCType type, const void *p, uint64_t *v)
{
    if (type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_ENUM) {
        *v = *(const uint32_t *)p;
    } else if (type == PROTOBUF_C_TYPE_UINT64) {
        *v = *(const uint64_t *)p;
    } else if (type == PROTOBUF_C_TYPE_BOOL) {
        *v = *(const protobuf_c_boolean *)p != 0;
    } else {
        return false;
    }
    return true;
}

static size_t other_size(const ProtobufCFieldDescriptor *f, const void *p)
{
    size_t n;

    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        return 4;
    case PROTOBUF_C_TYPE_FIXED64:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        n = ((const ProtobufCBinaryData *)p)->len;
        return varint_size(n) + n;
    case PROTOBUF_C_TYPE_MESSAGE:
        n = wire_size(*(const ProtobufCMessage *const *)p);
        return varint_size(n) + n;
    default:
        /* Guaranteed by the schema. */
        assert(wire_type_of(f->type) != WIRE_UNUSED);
        return 0;
    }
}

/* Writes the length of the bytes from *at on, which left one byte for it;
 * moves them if the length needs more.  Returns their end. */
/* One pass instead of two: sizes of nested messages need not be computed
 * again. */
static uint8_t *close_span(uint8_t *at, uint8_t *end)
{
    size_t n = (size_t)(end - at) - 1, places = varint_size(n);

    if (places > 1) {
        memmove(at + places, at + 1, n);
    }
    (void)put_varint(at, n);
    return at + places + n;
}

static uint8_t *put_bytes(uint8_t *out, const ProtobufCBinaryData *d)
{
    out = put_varint(out, d->len);
    if (d->len > 0) {
        memcpy(out, d->data, d->len);
    }
    return out + d->len;
}

static uint8_t *put_float(uint8_t *out, const void *p)
{
    uint32_t bits;

    /* By value: the list's floats may be unaligned for an integer. */
    memcpy(&bits, p, sizeof bits);
    put_u32(out, bits);
    return out + sizeof bits;
}

static uint8_t *put_other(uint8_t *out, const ProtobufCFieldDescriptor *f,
                          const void *p)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        return put_float(out, p);
    case PROTOBUF_C_TYPE_FIXED64:
        put_u64(out, *(const uint64_t *)p);
        return out + 8;
    case PROTOBUF_C_TYPE_BYTES:
        return put_bytes(out, p);
    case PROTOBUF_C_TYPE_MESSAGE:
        return close_span(
            out,
            out + 1 + wire_pack(*(const ProtobufCMessage *const *)p, out + 1));
    default:
        return out; /* other_size() has asserted the type */
    }
}

static inline size_t value_size(const ProtobufCFieldDescriptor *f,
                                const void *p)
{
    uint64_t v;

    return get_number(f->type, p, &v) ? varint_size(v) : other_size(f, p);
}

static inline uint8_t *
put_value(uint8_t *out, const ProtobufCFieldDescriptor *f, const void *p)
{
    uint64_t v;

    return get_number(f->type, p, &v) ? put_varint(out, v)
                                      : put_other(out, f, p);
}

/* ---- lists ----
 *
 * The ids of a prompt are a list of up to 262,144 uint32, so these have loops
 * of their own. */

#define NUMBERS_BLOCK 16

/* Without a branch, and in blocks, which compilers turn into vectors. */
static size_t numbers_size(const uint32_t *v, size_t n)
{
    size_t sum = n, i = 0;

    for (; i + NUMBERS_BLOCK <= n; i += NUMBERS_BLOCK) {
        uint32_t more = 0; /* bytes after the first, of a block */

        for (size_t k = i; k < i + NUMBERS_BLOCK; k++) {
            more += (uint32_t)(v[k] > 0x7f) + (uint32_t)(v[k] > 0x3fff) +
                    (uint32_t)(v[k] > 0x1fffff) + (uint32_t)(v[k] > 0xfffffff);
        }
        sum += more;
    }
    for (; i < n; i++) {
        sum += varint_size(v[i]) - 1;
    }
    return sum;
}

/* Most ids of a large vocabulary take three bytes. */
static uint8_t *put_numbers(uint8_t *out, const uint32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i] > 0x3fff && v[i] <= 0x1fffff) {
            *out++ = (uint8_t)(v[i] | 0x80);
            *out++ = (uint8_t)(v[i] >> 7 | 0x80);
            *out++ = (uint8_t)(v[i] >> 14);
        } else {
            out = put_varint(out, v[i]);
        }
    }
    return out;
}

static size_t run_size(const ProtobufCFieldDescriptor *f, const uint8_t *at,
                       size_t n)
{
    size_t step = wire_value_bytes(f->type), sum = 0;

    if (f->type == PROTOBUF_C_TYPE_FLOAT) {
        return n * 4;
    }
    if (f->type == PROTOBUF_C_TYPE_UINT32) {
        return numbers_size((const uint32_t *)(const void *)at, n);
    }
    for (size_t i = 0; i < n; i++) {
        sum += value_size(f, at + i * step);
    }
    return sum;
}

static bool is_packed(const ProtobufCFieldDescriptor *f)
{
    return (f->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0;
}

static size_t list_size(const ProtobufCFieldDescriptor *f, const uint8_t *at,
                        size_t n)
{
    size_t run;

    if (n == 0) {
        return 0;
    }
    run = run_size(f, at, n);
    return is_packed(f) ? tag_size(f) + varint_size(run) + run
                        : n * tag_size(f) + run;
}

static uint8_t *put_run(uint8_t *out, const ProtobufCFieldDescriptor *f,
                        const uint8_t *at, size_t n)
{
    size_t step = wire_value_bytes(f->type);
    uint8_t *begin = put_tag(out, f, WIRE_BYTES);

    out = begin + 1;
    if (f->type == PROTOBUF_C_TYPE_UINT32) {
        out = put_numbers(out, (const uint32_t *)(const void *)at, n);
        return close_span(begin, out);
    }
    for (size_t i = 0; i < n; i++) {
        out = put_value(out, f, at + i * step);
    }
    return close_span(begin, out);
}

static uint8_t *put_list(uint8_t *out, const ProtobufCFieldDescriptor *f,
                         const uint8_t *at, size_t n)
{
    size_t step = wire_value_bytes(f->type);

    if (n == 0) {
        return out;
    }
    if (is_packed(f)) {
        return put_run(out, f, at, n);
    }
    for (size_t i = 0; i < n; i++) {
        out = put_tag(out, f, wire_type_of(f->type));
        out = put_value(out, f, at + i * step);
    }
    return out;
}

/* ---- messages ---- */

/* A message's pointer is its presence; other optional fields have a flag. */
static bool present(const ProtobufCFieldDescriptor *f, const uint8_t *base)
{
    if (f->label == PROTOBUF_C_LABEL_REQUIRED) {
        return true;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        return *(void *const *)(const void *)(base + f->offset) != NULL;
    }
    return *(const protobuf_c_boolean *)(base + f->quantifier_offset) != 0;
}

size_t wire_size(const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *type = m->descriptor;
    const uint8_t *base = (const uint8_t *)m;
    size_t sum = 0;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        const uint8_t *at = base + f->offset;

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            sum += list_size(
                f, *(const uint8_t *const *)(const void *)at,
                *(const size_t *)(const void *)(base + f->quantifier_offset));
        } else if (present(f, base)) {
            sum += tag_size(f) + value_size(f, at);
        }
    }
    return sum;
}

size_t wire_pack(const ProtobufCMessage *m, uint8_t *out)
{
    const ProtobufCMessageDescriptor *type = m->descriptor;
    const uint8_t *base = (const uint8_t *)m, *begin = out;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        const uint8_t *at = base + f->offset;

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            out = put_list(
                out, f, *(const uint8_t *const *)(const void *)at,
                *(const size_t *)(const void *)(base + f->quantifier_offset));
        } else if (present(f, base)) {
            out = put_tag(out, f, wire_type_of(f->type));
            out = put_value(out, f, at);
        }
    }
    return (size_t)(out - begin);
}
