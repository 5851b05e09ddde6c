/* wire_unpack.c - Bytes to messages, by protobuf-c's descriptors.
 *
 * One pass, and one allocation per message, list or bytes field.  The result
 * is protobuf-c's struct, with two differences.  A repeated singular
 * sub-message is refused instead of merged; no packer writes that.  Unknown
 * fields are skipped, not kept.  Every read is checked against the end of the
 * body. */
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/memory.h"
#include "common/wire/wire.h"
#include "common/wire/wire_type.h"

struct reader {
    const uint8_t *at, *end;
};

static size_t left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

/* Returns the end of the varint, or NULL. */
static const uint8_t *long_varint(const uint8_t *at, const uint8_t *end,
                                  uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70 && at < end; shift += 7) {
        uint8_t byte = *at++;

        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return at;
        }
    }
    return NULL;
}

/* Most varints have one byte or two.  r stays in registers, as its address is
 * never taken. */
static inline bool read_varint(struct reader *r, uint64_t *out)
{
    const uint8_t *end;
    uint64_t v;

    if (r->at < r->end && *r->at < 0x80) {
        *out = *r->at++;
        return true;
    }
    if (left(r) >= 2 && r->at[1] < 0x80) {
        *out = (r->at[0] & 0x7fu) | (uint64_t)r->at[1] << 7;
        r->at += 2;
        return true;
    }
    end = long_varint(r->at, r->end, &v);
    if (end == NULL) {
        return false;
    }
    r->at = end;
    *out = v;
    return true;
}

/* Reads a length and that many bytes, which must be there. */
static bool read_span(struct reader *r, struct reader *span)
{
    uint64_t n;

    if (!read_varint(r, &n) || n > left(r)) {
        return false;
    }
    span->at = r->at;
    span->end = r->at += n;
    return true;
}

static bool skip_bytes(struct reader *r, size_t n)
{
    if (n > left(r)) {
        return false;
    }
    r->at += n;
    return true;
}

static bool skip_value(struct reader *r, unsigned wire)
{
    struct reader span;
    uint64_t v;

    switch (wire) {
    case WIRE_VARINT:
        return read_varint(r, &v);
    case WIRE_8_BYTES:
        return skip_bytes(r, 8);
    case WIRE_BYTES:
        return read_span(r, &span);
    case WIRE_4_BYTES:
        return skip_bytes(r, 4);
    default:
        return false; /* groups belong to proto1 */
    }
}

/* ---- one value ---- */

static bool read_message(struct arena *a, const struct reader *r,
                         const ProtobufCMessageDescriptor *type,
                         ProtobufCMessage **out);

static bool read_bytes(struct arena *a, struct reader *r,
                       ProtobufCBinaryData *d)
{
    struct reader span;

    if (!read_span(r, &span)) {
        return false;
    }
    d->len = left(&span);
    d->data = NULL;
    if (d->len == 0) {
        return true;
    }
    d->data = arena_take(a, d->len);
    if (d->data == NULL) {
        return false;
    }
    memcpy(d->data, span.at, d->len);
    return true;
}

/* Returns false if the type does not travel as a varint. */
static inline bool put_number(ProtobufCType type, uint64_t v, void *p)
{
    if (type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_ENUM) {
        *(uint32_t *)p = (uint32_t)v;
    } else if (type == PROTOBUF_C_TYPE_UINT64) {
        *(uint64_t *)p = v;
    } else if (type == PROTOBUF_C_TYPE_BOOL) {
        *(protobuf_c_boolean *)p = v != 0;
    } else {
        return false;
    }
    return true;
}

/* The caller has checked that the bytes are there. */
static void put_floats(const uint8_t *at, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < 4 * n; i += 4) {
        uint32_t bits = get_u32(at + i);

        memcpy(to + i, &bits, sizeof bits);
    }
}

/* The caller has checked that the wire type fits the field's. */
static bool read_value(struct arena *a, struct reader *r,
                       const ProtobufCFieldDescriptor *f, void *p)
{
    struct reader span;
    uint64_t v;

    switch (wire_type_of(f->type)) {
    case WIRE_VARINT:
        return read_varint(r, &v) && put_number(f->type, v, p);
    case WIRE_4_BYTES:
        if (left(r) < 4) {
            return false;
        }
        put_floats(r->at, p, 1);
        return skip_bytes(r, 4);
    case WIRE_8_BYTES:
        if (left(r) < 8) {
            return false;
        }
        *(uint64_t *)p = get_u64(r->at);
        return skip_bytes(r, 8);
    case WIRE_BYTES:
        if (f->type == PROTOBUF_C_TYPE_BYTES) {
            return read_bytes(a, r, p);
        }
        return read_span(r, &span) && read_message(a, &span, f->descriptor, p);
    default:
        return false;
    }
}

/* ---- lists ---- */

/* Makes room for this many more values after those that are there. */
/* Values that are already there are copied: a list may come in several runs,
 * and the arena cannot extend memory in place. */
static uint8_t *grow(struct arena *a, const ProtobufCFieldDescriptor *f,
                     uint8_t *base, size_t more)
{
    size_t n = *(size_t *)(void *)(base + f->quantifier_offset);
    uint8_t **list = (uint8_t **)(void *)(base + f->offset);
    size_t bytes = wire_value_bytes(f->type);
    uint8_t *grown = arena_take(a, (n + more) * bytes);

    if (grown == NULL) {
        return NULL;
    }
    if (n > 0) {
        memcpy(grown, *list, n * bytes);
    }
    *list = grown;
    return grown + n * bytes;
}

/* Counts the values of a packed run.  Returns false if the last one is cut,
 * or the type is never packed here. */
static bool count_run(const struct reader *run, enum wire_type wire, size_t *n)
{
    size_t bytes = left(run), ends = 0;

    if (wire != WIRE_VARINT) {
        *n = bytes / 4;
        return wire == WIRE_4_BYTES && bytes % 4 == 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        /* < 0x80;] The last byte of a varint has its high bit clear, so the
         * count needs no decoding. */
        ends += run->at[i] < 0x80;
    }
    *n = ends;
    return bytes == 0 || run->end[-1] < 0x80;
}

static bool read_numbers(struct reader r, ProtobufCType type, uint8_t *to,
                         size_t n)
{
    size_t step = wire_value_bytes(type);
    uint64_t v;

    for (size_t i = 0; i < n; i++) {
        if (!read_varint(&r, &v) || !put_number(type, v, to + i * step)) {
            return false;
        }
    }
    return true;
}

static bool read_run(struct arena *a, struct reader *r,
                     const ProtobufCFieldDescriptor *f, uint8_t *base)
{
    size_t *n = (size_t *)(void *)(base + f->quantifier_offset), more;
    enum wire_type wire = wire_type_of(f->type);
    struct reader run;
    uint8_t *to;

    if (!read_span(r, &run) || !count_run(&run, wire, &more)) {
        return false;
    }
    if (more == 0) {
        return true;
    }
    to = grow(a, f, base, more);
    if (to == NULL) {
        return false;
    }
    *n += more;
    if (wire == WIRE_4_BYTES) {
        put_floats(run.at, to, more);
        return true;
    }
    return read_numbers(run, f->type, to, more);
}

/* Counts consecutive fields with one tag; r is after the first tag.  The list
 * is then allocated once. */
static size_t count_same(const struct reader *r, uint64_t tag)
{
    struct reader ahead = *r;
    uint64_t next = tag;
    size_t n = 0;

    while (next == tag && skip_value(&ahead, (unsigned)tag & 7)) {
        n++;
        if (!read_varint(&ahead, &next)) {
            break;
        }
    }
    return n;
}

static bool read_list(struct arena *a, struct reader *r,
                      const ProtobufCFieldDescriptor *f, uint64_t tag,
                      uint8_t *base)
{
    size_t *n = (size_t *)(void *)(base + f->quantifier_offset);
    size_t bytes = wire_value_bytes(f->type), more;
    uint8_t *to;
    uint64_t same;

    /* A packed list has the wire type of bytes, whatever its values are. */
    if ((tag & 7) != wire_type_of(f->type)) {
        return (tag & 7) == WIRE_BYTES && read_run(a, r, f, base);
    }
    more = count_same(r, tag);
    to = more > 0 ? grow(a, f, base, more) : NULL;
    for (size_t i = 0; i < more; i++) {
        if (to == NULL || (i > 0 && !read_varint(r, &same)) ||
            !read_value(a, r, f, to + i * bytes)) {
            return false;
        }
    }
    *n += more;
    return more > 0;
}

/* ---- messages ---- */

static bool read_field(struct arena *a, struct reader *r,
                       const ProtobufCFieldDescriptor *f, uint64_t tag,
                       bool again, uint8_t *base)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return read_list(a, r, f, tag, base);
    }
    /* A merged sub-message would have to be decoded twice. */
    if ((tag & 7) != wire_type_of(f->type) ||
        (again && f->type == PROTOBUF_C_TYPE_MESSAGE)) {
        return false;
    }
    if (f->label == PROTOBUF_C_LABEL_OPTIONAL &&
        f->type != PROTOBUF_C_TYPE_MESSAGE) {
        *(protobuf_c_boolean *)(base + f->quantifier_offset) = 1;
    }
    return read_value(a, r, f, base + f->offset);
}

/* Linear: WIRE_FIELDS_MAX is small, and fields out of order are rare. */
static unsigned search_field(const ProtobufCMessageDescriptor *type,
                             uint64_t number)
{
    unsigned i = 0;

    while (i < type->n_fields && type->fields[i].id != number) {
        i++;
    }
    return i;
}

/* Fields usually come in order: look first after the last one. */
static inline unsigned find_field(const ProtobufCMessageDescriptor *type,
                                  uint64_t number, unsigned next)
{
    if (next < type->n_fields && type->fields[next].id == number) {
        return next;
    }
    return search_field(type, number);
}

/* A set of 64 bits is enough, as a message has at most WIRE_FIELDS_MAX
 * fields. */
static bool is_whole(const ProtobufCMessageDescriptor *type, uint64_t seen)
{
    uint64_t required = 0;

    for (unsigned i = 0; i < type->n_fields; i++) {
        required |=
            (uint64_t)(type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED) << i;
    }
    return (required & ~seen) == 0;
}

/* Reads a single number in its place, the most common case. */
static inline bool read_number(struct reader *r,
                               const ProtobufCFieldDescriptor *f, uint64_t tag,
                               uint8_t *base)
{
    uint64_t v;

    if (f->label == PROTOBUF_C_LABEL_OPTIONAL) {
        *(protobuf_c_boolean *)(base + f->quantifier_offset) = 1;
    }
    return (tag & 7) == WIRE_VARINT && read_varint(r, &v) &&
           put_number(f->type, v, base + f->offset);
}

static bool is_number(const ProtobufCFieldDescriptor *f)
{
    return f->label != PROTOBUF_C_LABEL_REPEATED &&
           (f->type == PROTOBUF_C_TYPE_UINT32 ||
            f->type == PROTOBUF_C_TYPE_UINT64);
}

static bool read_fields(struct arena *a, struct reader r, ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *type = m->descriptor;
    uint64_t seen = 0, tag;
    unsigned i, next = 0;
    struct reader rest;
    bool fine = true;

    while (fine && r.at < r.end) {
        if (!read_varint(&r, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
            return false;
        }
        i = find_field(type, tag >> 3, next);
        if (i < type->n_fields && is_number(&type->fields[i])) {
            fine = read_number(&r, &type->fields[i], tag, (uint8_t *)m);
        } else {
            /* A copy, so that r itself can stay in registers. */
            rest = r;
            fine = i == type->n_fields
                       ? skip_value(&rest, (unsigned)tag & 7)
                       : read_field(a, &rest, &type->fields[i], tag,
                                    seen >> i & 1, (uint8_t *)m);
            r.at = rest.at;
        }
        seen |= i < type->n_fields ? UINT64_C(1) << i : 0;
        next = i + 1;
    }
    return fine && is_whole(type, seen);
}

static bool read_message(struct arena *a, const struct reader *r,
                         const ProtobufCMessageDescriptor *type,
                         ProtobufCMessage **out)
{
    ProtobufCMessage *m = arena_take(a, type->sizeof_message);

    if (m == NULL) {
        return false;
    }
    /* Sets the schema's defaults; the arena's memory is not zeroed. */
    type->message_init(m);
    *out = m;
    return read_fields(a, *r, m);
}

enum status wire_unpack(struct arena *a, const ProtobufCMessageDescriptor *type,
                        const uint8_t *body, size_t bytes,
                        ProtobufCMessage **out, struct error *e)
{
    struct reader r = {body, bytes == 0 ? body : body + bytes};

    if (!arena_begin(a, bytes)) {
        *out = NULL;
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         MEMORY_SENTENCE "there is none to read a %s",
                         type->short_name);
    }
    if (!read_message(a, &r, type, out)) {
        *out = NULL;
        return error_set(e, ST_INVALID_ARGUMENT,
                         a->exhausted
                             ? "%s: %zu bytes ask for more memory than they may"
                             : "%s: %zu bytes do not parse",
                         type->short_name, bytes);
    }
    return ST_OK;
}
