#include "common/wire.h"

#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

#define ARENA_ALIGN 16u

/* Zeroed: 1.4.1 reads some fields of a message that it has not set. */
static void *arena_alloc(void *data, size_t size)
{
    struct arena *a = data;
    size_t room = a->budget - a->used;
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    void *p;

    if (size > room || rounded > room) {
        a->exhausted = true;
        return NULL;
    }
    p = a->memory + a->used;
    a->used += rounded;
    memset(p, 0, rounded);
    return p;
}

/* Nothing comes back before the whole does: what a merge throws away stays
 * counted, so that merging again and again runs out. */
static void arena_free(void *data, void *p)
{
    (void)data;
    (void)p;
}

void arena_init(struct arena *a)
{
    memset(a, 0, sizeof *a);
    a->allocator.alloc = arena_alloc;
    a->allocator.free = arena_free;
    a->allocator.allocator_data = a;
}

void arena_fini(struct arena *a)
{
    free(a->memory);
    arena_init(a);
}

void arena_reset(struct arena *a)
{
    a->used = 0;
    a->exhausted = false;
}

static void arena_begin(struct arena *a, size_t bytes)
{
    arena_reset(a);
    a->budget = 4 * bytes + ARENA_SLACK;
    if (a->budget > a->capacity) {
        free(a->memory);
        a->memory = malloc(a->budget);
        if (a->memory == NULL) {
            abort();
        }
        a->capacity = a->budget;
    }
}

static void forget_unknown(ProtobufCMessage *m);

static void forget_in_field(ProtobufCMessage *m,
                            const ProtobufCFieldDescriptor *field)
{
    uint8_t *base = (uint8_t *)m;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n = *(size_t *)(void *)(base + field->quantifier_offset);
        ProtobufCMessage **all =
            *(ProtobufCMessage ***)(void *)(base + field->offset);

        for (size_t i = 0; i < n; i++) {
            forget_unknown(all[i]);
        }
    } else {
        ProtobufCMessage *one =
            *(ProtobufCMessage **)(void *)(base + field->offset);

        if (one != NULL) {
            forget_unknown(one);
        }
    }
}

/* What is not understood is not passed on if the message is packed again. */
static void forget_unknown(ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *type = m->descriptor;

    m->n_unknown_fields = 0;
    m->unknown_fields = NULL;
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) {
            forget_in_field(m, &type->fields[i]);
        }
    }
}

enum status wire_unpack(struct arena *a, const ProtobufCMessageDescriptor *type,
                        const uint8_t *body, size_t bytes,
                        ProtobufCMessage **out, struct error *e)
{
    arena_begin(a, bytes);
    *out = protobuf_c_message_unpack(type, &a->allocator, bytes, body);
    if (*out == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         a->exhausted
                             ? "%s: %zu bytes ask for more memory than they may"
                             : "%s: %zu bytes do not parse",
                         type->short_name, bytes);
    }
    forget_unknown(*out);
    return ST_OK;
}

ProtobufCBinaryData wire_text(const char *s)
{
    /* protobuf-c has no const; packing only reads. */
    return (ProtobufCBinaryData){.len = strlen(s), .data = (uint8_t *)s};
}

bool wire_text_ok(ProtobufCBinaryData d, size_t min, size_t max)
{
    return d.len >= min && d.len <= max &&
           (d.len == 0 ||
            (memchr(d.data, 0, d.len) == NULL && utf8_ok(d.data, d.len)));
}
