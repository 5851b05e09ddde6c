/* wire_pack() and wire_unpack() compared with protobuf-c, for random messages
 * of every method, whole and damaged. */
#include <stdlib.h>
#include <string.h>

#include "common/wire/method.h"
#include "common/wire/wire.h"
#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"

#define ROUNDS   60
#define DAMAGES  20
#define LIST_MAX 9

/* xorshift64* */
static uint64_t state_of_chance = 88172645463325252u;

static uint64_t chance(uint64_t n)
{
    uint64_t x = state_of_chance;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    state_of_chance = x;
    return (x * 0x2545f4914f6cdd1du >> 11) % n;
}

/* Draws a value of a random length, so that every length of a varint occurs. */
static uint64_t number(unsigned bits)
{
    uint64_t v = (chance(UINT32_MAX) << 32 | chance(UINT32_MAX));

    return v >> (64 - bits + chance(bits));
}

static ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *type);

static uint8_t *random_bytes(size_t n)
{
    uint8_t *p = malloc(n + 1);

    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)chance(256);
    }
    return p;
}

static void fill_value(const ProtobufCFieldDescriptor *f, void *p)
{
    ProtobufCBinaryData *d = p;

    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)p = (uint32_t)number(32);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(uint32_t *)p = (uint32_t)chance(5);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)p = number(64);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)p = (protobuf_c_boolean)chance(2);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)p = (float)chance(1000) / 7;
        break;
    case PROTOBUF_C_TYPE_BYTES:
        d->len = chance(4) ? chance(40) : chance(400);
        d->data = d->len ? random_bytes(d->len) : NULL;
        break;
    default:
        assert_int_equal(f->type, PROTOBUF_C_TYPE_MESSAGE);
        *(ProtobufCMessage **)p = random_message(f->descriptor);
    }
}

static size_t value_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT64:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return 4;
    }
}

static void fill_list(const ProtobufCFieldDescriptor *f, uint8_t *base)
{
    size_t n = chance(3) ? chance(LIST_MAX) : chance(LIST_MAX * 30);
    size_t each = value_bytes(f->type);
    uint8_t *list;

    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        n %= LIST_MAX;
    }
    list = calloc(n + 1, each);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++) {
        fill_value(f, list + i * each);
    }
    *(size_t *)(void *)(base + f->quantifier_offset) = n;
    *(void **)(void *)(base + f->offset) = list;
}

static ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = calloc(1, type->sizeof_message);
    uint8_t *base = (uint8_t *)m;

    assert_non_null(m);
    protobuf_c_message_init(type, m);
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            fill_list(f, base);
        } else if (f->label == PROTOBUF_C_LABEL_REQUIRED || chance(2)) {
            fill_value(f, base + f->offset);
            if (f->label == PROTOBUF_C_LABEL_OPTIONAL &&
                f->type != PROTOBUF_C_TYPE_MESSAGE) {
                *(protobuf_c_boolean *)(base + f->quantifier_offset) = 1;
            }
        }
    }
    return m;
}

/* Both decoders read the same message: unknown fields, at any depth, are not
 * packed again. */
static void assert_same(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    size_t n = wire_size(a);
    uint8_t *x = malloc(n + 1), *y = malloc(n + 1);

    assert_int_equal(wire_size(b), n);
    assert_int_equal(wire_pack(a, x), n);
    assert_int_equal(wire_pack(b, y), n);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void check_whole(struct arena *a, const ProtobufCMessage *m,
                        const uint8_t *body, size_t n)
{
    uint8_t *ours = malloc(n + 1);
    ProtobufCMessage *back;

    assert_int_equal(wire_size(m), n);
    ours[n] = 0xee;
    assert_int_equal(wire_pack(m, ours), n);
    assert_int_equal(ours[n], 0xee);
    assert_memory_equal(ours, body, n);
    free(ours);
    assert_int_equal(wire_unpack(a, m->descriptor, body, n, &back, NULL),
                     ST_OK);
    assert_true(protobuf_c_message_check(back));
    assert_same(m, back);
}

/* A damaged body that we accept is also accepted by protobuf-c, with the same
 * result. */
static bool check_damaged(struct arena *a, const ProtobufCMessage *m,
                          const uint8_t *body, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    ProtobufCMessage *ours, *theirs;
    size_t cut = chance(3) ? n : chance(n + 1);
    bool taken;

    memcpy(copy, body, n);
    for (uint64_t i = chance(3) + (cut == n); i && cut; i--) {
        copy[chance(cut)] ^= (uint8_t)(1u << chance(8));
    }
    taken = wire_unpack(a, m->descriptor, copy, cut, &ours, NULL) == ST_OK;
    if (taken) {
        assert_int_equal(ours->n_unknown_fields, 0);
        theirs = protobuf_c_message_unpack(m->descriptor, NULL, cut, copy);
        assert_non_null(theirs);
        assert_same(ours, theirs);
        protobuf_c_message_free_unpacked(theirs, NULL);
    }
    free(copy);
    return taken;
}

static unsigned check_type(struct arena *a,
                           const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = random_message(type);
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *body = malloc(n + 1);
    unsigned taken = 0;

    protobuf_c_message_pack(m, body);
    check_whole(a, m, body, n);
    for (unsigned i = 0; i < DAMAGES; i++) {
        taken += check_damaged(a, m, body, n);
    }
    free(body);
    protobuf_c_message_free_unpacked(m, NULL);
    return taken;
}

static void random_messages_are_read_alike(void **state)
{
    struct arena a;
    unsigned taken = 0;

    (void)state;
    arena_init(&a);
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        for (unsigned k = 0; k < ROUNDS; k++) {
            taken += check_type(&a, method_at(i)->request);
            taken += check_type(&a, method_at(i)->reply);
        }
    }
    assert_true(taken > ROUNDS * DAMAGES); /* damage is not always detected */
    arena_fini(&a);
}

/* Lists shorter and longer than a block of wire_pack.c, of the numbers on both
 * sides of each length. */
static void lists_of_any_numbers_are_written_alike(void **state)
{
    static const uint32_t bounds[] = {
        0,        0x7f,     0x80,      0x3fff,     0x4000,
        0x1fffff, 0x200000, 0xfffffff, 0x10000000, UINT32_MAX};
    Sluice__V1__TokenizeReply m = SLUICE__V1__TOKENIZE_REPLY__INIT;
    uint32_t tokens[50];
    uint8_t body[5 * 50 + 8];
    struct arena a;

    (void)state;
    arena_init(&a);
    m.tokens = tokens;
    for (size_t first = 0; first < 10; first++) {
        for (m.n_tokens = 0; m.n_tokens < 50; m.n_tokens++) {
            tokens[m.n_tokens] = bounds[(first + m.n_tokens) % 10];
            check_whole(&a, &m.base, body,
                        protobuf_c_message_pack(&m.base, body));
        }
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_messages_are_read_alike),
        cmocka_unit_test(lists_of_any_numbers_are_written_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
