/* json_message.c - Conversion of protobuf messages to JSON, driven by their
 * descriptors. */
#include "client/ctl/json_message.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/escape.h"
#include "common/base/memory.h"
#include "common/wire/request_id.h"
#include "common/wire/wire_type.h"

json_t *json_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

void json_set_count(json_t *object, const char *name, uint64_t n)
{
    json_object_set_new(object, name, json_integer((json_int_t)n));
}

/* json_stringn() rejects text that is not UTF-8; only then it is escaped. */
json_t *json_text(const char *text, size_t n)
{
    json_t *j = json_stringn(text, n);
    char *shown;

    if (j != NULL) {
        return j;
    }
    shown = memory_must(malloc(n * ESCAPE_GROWTH + 1));
    j = json_stringn(shown, escape_text(text, n, shown));
    free(shown);
    return j;
}

static json_t *json_bytes(const char *name, const ProtobufCBinaryData *d)
{
    char id[REQUEST_ID_TEXT];

    if (strcmp(name, "request_id") == 0 && d->len == REQUEST_ID_BYTES) {
        request_id_format(d->data, id);
        return json_string(id);
    }
    return json_text((const char *)d->data, d->len);
}

static json_t *json_id64(uint64_t v)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}

/* Converts FINISH_STOP to "stop".  A value that this schema does not have
 * stays a number. */
static json_t *json_enum(const ProtobufCEnumDescriptor *type, int v)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(type, v);
    const char *word;
    char text[64];
    size_t i;

    if (value == NULL) {
        return json_integer(v);
    }
    word = strchr(value->name, '_');
    word = word == NULL ? value->name : word + 1;
    for (i = 0; word[i] != '\0' && i + 1 < sizeof text; i++) {
        text[i] = (char)tolower((unsigned char)word[i]);
    }
    text[i] = '\0';
    return json_string(text);
}

static json_t *json_value(const ProtobufCFieldDescriptor *f, const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
        return json_integer(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case PROTOBUF_C_TYPE_FIXED64:
        return json_id64(*(const uint64_t *)at);
    case PROTOBUF_C_TYPE_FLOAT:
        return json_number((double)*(const float *)at);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_ENUM:
        return json_enum(f->descriptor, *(const int *)at);
    case PROTOBUF_C_TYPE_BYTES:
        return json_bytes(f->name, at);
    case PROTOBUF_C_TYPE_MESSAGE:
        return json_message(*(const ProtobufCMessage *const *)at);
    default:
        return json_null(); /* the schema uses no other type */
    }
}

/* memcpy() reads the fields of any message type without breaking the aliasing
 * rules. */
static json_t *json_repeated(const ProtobufCFieldDescriptor *f,
                             const uint8_t *message)
{
    size_t n, size = wire_value_bytes(f->type);
    const uint8_t *items;
    json_t *list = json_array();

    memcpy(&n, message + f->quantifier_offset, sizeof n);
    memcpy(&items, message + f->offset, sizeof items);
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_value(f, items + i * size));
    }
    return list;
}

/* Returns whether a field is set or has a default.  protobuf-c has no has_ flag
 * for messages: an absent one is NULL. */
static bool is_present(const ProtobufCFieldDescriptor *f,
                       const uint8_t *message)
{
    const void *sub;
    protobuf_c_boolean has;

    if (f->label == PROTOBUF_C_LABEL_REQUIRED || f->default_value != NULL) {
        return true;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        memcpy(&sub, message + f->offset, sizeof sub);
        return sub != NULL;
    }
    memcpy(&has, message + f->quantifier_offset, sizeof has);
    return has != 0;
}

json_t *json_message(const ProtobufCMessage *m)
{
    const uint8_t *bytes = (const uint8_t *)m;
    json_t *j = json_object();

    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            json_object_set_new(j, f->name, json_repeated(f, bytes));
        } else if (is_present(f, bytes)) {
            json_object_set_new(j, f->name, json_value(f, bytes + f->offset));
        }
    }
    return j;
}
