/* The rows of METHOD_MAP compared with the text of proto/, and rules of the
 * schema on which the decoder relies. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/frame.h"
#include "common/wire/method_message.h"
#include "common/wire/wire_type.h"
#include "proto/frame.pb-c.h"
#include "tests/unit/cmocka.h"

static const char *const files[] = {"frame",     "common",   "registry",
                                    "inference", "admin",    "worker",
                                    "stage",     "transfer", "health"};

#define N_FILES (sizeof files / sizeof files[0])

static char *read_proto(const char *name)
{
    char path[128];
    char *text = calloc(1, 1 << 16);
    FILE *f;

    snprintf(path, sizeof path, "proto/%s.proto", name);
    f = fopen(path, "r");
    if (f == NULL) {
        fail_msg("%s: not found; run from the root", path);
    }
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

static unsigned n_rows(void)
{
    unsigned n = 0;

    while (method_at(n) != NULL) {
        n++;
    }
    return n;
}

/* One rpc as written in the schema. */
struct rpc {
    char service[64], method[64], request[64], reply[64];
    bool streaming, oneway, unimplemented;
};

static const struct method_row *row_of(const struct rpc *r)
{
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        const struct method_row *m = method_at(i);

        if (strcmp(m->service, r->service) == 0 &&
            strcmp(m->method, r->method) == 0) {
            return m;
        }
    }
    fail_msg("%s/%s has no row", r->service, r->method);
    return NULL;
}

static void check_rpc(const struct rpc *r)
{
    const struct method_row *m = row_of(r);
    char name[160];

    snprintf(name, sizeof name, "/sluice.v1.%s/%s", r->service, r->method);
    assert_string_equal(m->name, name);
    assert_string_equal(m->request->short_name, r->request);
    assert_string_equal(m->reply->short_name, r->reply);
    assert_int_equal(m->kind == STREAM, r->streaming);
    if (r->oneway) {
        assert_int_equal(m->kind, ONEWAY);
    }
    if (m->kind == ONEWAY) {
        assert_string_equal(r->reply, "Nothing");
        assert_int_equal(m->reply_cap, 0);
    }
    if (r->unimplemented) {
        assert_false(m->built);
    }
}

/* Reads line by line: a comment belongs to the rpc that follows or to the rpc
 * on its line. */
static unsigned check_file(const char *name)
{
    char *text = read_proto(name), *save = NULL;
    struct rpc r = {.oneway = false};
    unsigned n = 0;

    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *rpc = strstr(line, "rpc "), *comment = strstr(line, "//");

        if (comment != NULL && rpc == NULL) {
            r.oneway = r.oneway || strstr(comment, "One way") != NULL;
            continue;
        }
        if (sscanf(line, "service %63[A-Za-z]", r.service) == 1) {
            r.oneway = false;
        }
        if (rpc == NULL) {
            continue;
        }
        assert_int_equal(sscanf(rpc,
                                "rpc %63[A-Za-z](%63[A-Za-z]) returns "
                                "(%63[A-Za-z])",
                                r.method, r.request, r.reply),
                         3);
        r.streaming = comment != NULL && strstr(comment, "server streaming");
        r.unimplemented = comment != NULL && strstr(comment, "UNIMPLEMENTED");
        check_rpc(&r);
        r.oneway = false;
        n++;
    }
    free(text);
    return n;
}

static void rows_are_those_of_the_schema(void **state)
{
    unsigned n = 0;

    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        n += check_file(files[i]);
    }
    assert_int_equal(n,
                     n_rows()); /* each rpc has a row, so no row is left over */
}

static void message_types_are_those_of_the_rows(void **state)
{
    (void)state;
#define X(name, ...)                                                      \
    assert_int_equal(method_find(METHOD_##name)->request->sizeof_message, \
                     sizeof(request_of_##name));                          \
    assert_int_equal(method_find(METHOD_##name)->reply->sizeof_message,   \
                     sizeof(reply_of_##name));
    METHOD_MAP(X)
#undef X
}

static void numbers_are_unique_and_found(void **state)
{
    unsigned found = 0;

    (void)state;
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_int_not_equal(method_at(i)->number, method_at(j)->number);
        }
        assert_ptr_equal(method_find(method_at(i)->number), method_at(i));
    }
    for (uint32_t number = 0; number <= UINT16_MAX; number++) {
        found += method_find((uint16_t)number) != NULL;
    }
    assert_int_equal(found, n_rows());
    assert_null(method_find(METHOD_NONE));
    assert_null(method_at(n_rows() + 1000));
}

/* Returns the number of an enumerator of proto/frame.proto. */
static int number_of(const ProtobufCEnumDescriptor *type, const char *name)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value_by_name(type, name);

    if (v == NULL) {
        fail_msg("proto/frame.proto lacks %s", name);
    }
    return v->value;
}

/* Appends a name in capitals, with _ between its words: StepOutput becomes
 * STEP_OUTPUT. */
static void append_capitals(char *out, const char *name)
{
    size_t n = strlen(out);

    for (const char *s = name; *s != '\0'; s++) {
        if (s > name && isupper((unsigned char)*s)) {
            out[n++] = '_';
        }
        out[n++] = (char)toupper((unsigned char)*s);
    }
    out[n] = '\0';
}

static void methods_have_their_numbers_in_the_schema(void **state)
{
    (void)state;
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        char name[160] = "METHOD_";

        append_capitals(name, method_at(i)->service);
        strcat(name, "_");
        append_capitals(name, method_at(i)->method);
        assert_int_equal(number_of(&sluice__v1__method__descriptor, name),
                         method_at(i)->number);
    }
    assert_int_equal(number_of(&sluice__v1__method__descriptor, "METHOD_NONE"),
                     METHOD_NONE);
    assert_int_equal(sluice__v1__method__descriptor.n_values, n_rows() + 1);
}

static void statuses_have_their_numbers_in_the_schema(void **state)
{
    (void)state;
    for (int s = 0; s < ST_NR; s++) {
        char name[64];

        snprintf(name, sizeof name, "STATUS_%s", status_name((enum status)s));
        assert_int_equal(number_of(&sluice__v1__status__descriptor, name), s);
    }
    assert_int_equal(sluice__v1__status__descriptor.n_values, ST_NR);
}

static void kinds_have_their_numbers_in_the_schema(void **state)
{
    const ProtobufCEnumDescriptor *type =
        &sluice__v1__envelope_kind__descriptor;

    (void)state;
    assert_int_equal(number_of(type, "ENVELOPE_NONE"), 0);
    assert_int_equal(number_of(type, "ENVELOPE_CALL"), ENVELOPE_CALL);
    assert_int_equal(number_of(type, "ENVELOPE_REPLY"), ENVELOPE_REPLY);
    assert_int_equal(number_of(type, "ENVELOPE_END"), ENVELOPE_END);
    assert_int_equal(number_of(type, "ENVELOPE_CANCEL"), ENVELOPE_CANCEL);
    assert_int_equal(number_of(type, "ENVELOPE_ONEWAY"), ENVELOPE_ONEWAY);
    assert_int_equal(type->n_values, ENVELOPE_ONEWAY + 1);
}

static void rows_make_sense(void **state)
{
    (void)state;
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        const struct method_row *m = method_at(i);

        assert_true(m->callers != 0 && (m->callers & ~BY_ALL) == 0);
        assert_true(m->servers != 0 && (m->servers & ~BY_ALL) == 0);
        assert_true(m->request_cap > 0);
        assert_true(m->request_cap <=
                    FRAME_BYTES_MAX - FRAME_HEADER - ENVELOPE_HEADER);
        assert_true(m->reply_cap <=
                    FRAME_BYTES_MAX - FRAME_HEADER - ENVELOPE_HEADER);
        assert_int_equal(m->kind != ONEWAY, m->reply_cap > 0);
        if (m->lane == LANE_STATE) {
            assert_int_equal(m->kind, ONEWAY);
        }
    }
}

/* Accepts only types that wire_pack() and wire_unpack() support. */
static void check_field(const ProtobufCFieldDescriptor *f)
{
    assert_int_not_equal(f->type, PROTOBUF_C_TYPE_STRING); /* bytes instead */
    assert_int_not_equal(wire_type_of(f->type), WIRE_UNUSED);
    assert_int_not_equal(f->label, PROTOBUF_C_LABEL_NONE); /* proto3 only */
    assert_int_equal(f->flags & ~(uint32_t)PROTOBUF_C_FIELD_FLAG_PACKED, 0);
    if (f->flags & PROTOBUF_C_FIELD_FLAG_PACKED) {
        assert_true(wire_type_of(f->type) == WIRE_VARINT ||
                    wire_type_of(f->type) == WIRE_4_BYTES);
    }
}

/* No message contains itself, so the schema bounds the decoder's depth. */
static unsigned depth_of(const ProtobufCMessageDescriptor *type, unsigned level)
{
    unsigned deepest = level;

    if (level > 8) {
        fail_msg("%s is recursive or nests too deep", type->name);
    }
    assert_true(type->n_fields <= WIRE_FIELDS_MAX);
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];

        check_field(f);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            unsigned d = depth_of(f->descriptor, level + 1);

            deepest = d > deepest ? d : deepest;
        } else if (f->label == PROTOBUF_C_LABEL_REPEATED &&
                   f->type != PROTOBUF_C_TYPE_BYTES) {
            assert_true(f->flags & PROTOBUF_C_FIELD_FLAG_PACKED);
        }
    }
    return deepest;
}

static void no_message_is_recursive(void **state)
{
    (void)state;
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        assert_true(depth_of(method_at(i)->request, 1) <= 4);
        assert_true(depth_of(method_at(i)->reply, 1) <= 5);
    }
}

static void every_file_is_proto2(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        char *text = read_proto(files[i]);

        assert_non_null(strstr(text, "syntax = \"proto2\";"));
        assert_non_null(strstr(text, "package sluice.v1;"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_schema),
        cmocka_unit_test(message_types_are_those_of_the_rows),
        cmocka_unit_test(numbers_are_unique_and_found),
        cmocka_unit_test(methods_have_their_numbers_in_the_schema),
        cmocka_unit_test(statuses_have_their_numbers_in_the_schema),
        cmocka_unit_test(kinds_have_their_numbers_in_the_schema),
        cmocka_unit_test(rows_make_sense),
        cmocka_unit_test(no_message_is_recursive),
        cmocka_unit_test(every_file_is_proto2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
