/* Bodies that request more memory than they have bytes.  Each ends in an
 * error or in a message within the budget, in little time. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/wire/method.h"
#include "common/wire/wire.h"
#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/unit/cmocka.h"

#define BOMB_BYTES  (1u << 20)
#define BOMB_CPU_MS 50 /* goal 5; allows for sanitizers and a busy machine */

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Decodes a body that repeats the pattern. */
static enum status explode(const ProtobufCMessageDescriptor *type,
                           const void *pattern, size_t pattern_bytes,
                           struct arena *a)
{
    size_t n = BOMB_BYTES / pattern_bytes;
    uint8_t *body = malloc(n * pattern_bytes);
    ProtobufCMessage *m;
    double begin = cpu_ms(), took;
    enum status st;

    for (size_t i = 0; i < n; i++) {
        memcpy(body + i * pattern_bytes, pattern, pattern_bytes);
    }
    begin = cpu_ms();
    st = wire_unpack(a, type, body, n * pattern_bytes, &m, NULL);
    took = cpu_ms() - begin;
    assert_true(a->used <= 4 * n * pattern_bytes + ARENA_SLACK);
    assert_int_equal(a->budget, 4 * n * pattern_bytes + ARENA_SLACK);
    if (took > BOMB_CPU_MS * 10) {
        fail_msg("%s took %.1f ms", type->short_name, took);
    }
    free(body);
    return st;
}

static void bombs_fail_within_the_budget(void **state)
{
    const struct {
        const ProtobufCMessageDescriptor *type;
        const char *pattern;
        size_t bytes;
        bool fits; /* parses and stays within the budget */
    } bombs[] = {
        /* repeated empty sub-messages: AuditAllReply.workers = {} */
        {&sluice__v1__audit_all_reply__descriptor, "\x12\x00", 2, false},
        {&sluice__v1__list_models_reply__descriptor, "\x0a\x00", 2, false},
        /* a repeated singular sub-message: Receipt.sequence with 16 bytes,
         * quadratic if merged */
        {&sluice__v1__cancel_request__descriptor,
         "\x0a\x12\x0a\x10"
         "0123456789abcdef",
         20, false},
        {&sluice__v1__report_message__descriptor,
         "\x0a\x09\x09"
         "12345678",
         11, false},
        {&sluice__v1__generate_request__descriptor, "\x32\x02\x10\x01", 4,
         false},
        /* unknown fields, varint and bytes: skipped at no cost */
        {&sluice__v1__nothing__descriptor, "\xf8\x07\x01", 3, true},
        {&sluice__v1__nothing__descriptor, "\xfa\x07\x00", 3, true},
        /* one scalar, repeated */
        {&sluice__v1__generate_chunk__descriptor, "\x08\x01", 2, true},
        /* one bytes field, repeated */
        {&sluice__v1__tokenize_request__descriptor, "\x0a\x00", 2, false},
        /* unpacked, although packed is usual */
        {&sluice__v1__tokenize_reply__descriptor, "\x08\x01", 2, true},
        /* packed, one number per run */
        {&sluice__v1__tokenize_reply__descriptor, "\x0a\x01\x05", 3, false},
    };
    struct arena a;

    (void)state;
    arena_init(&a);
    for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
        enum status st =
            explode(bombs[i].type, bombs[i].pattern, bombs[i].bytes, &a);

        assert_int_equal(st, bombs[i].fits ? ST_OK : ST_INVALID_ARGUMENT);
    }
    arena_fini(&a);
}

/* The honest worst case: one megabyte of one-byte packed varints makes four
 * bytes of each and fits. */
static void packed_varints_fit(void **state)
{
    const size_t n = BOMB_BYTES - 4;
    uint8_t *body = malloc(BOMB_BYTES);
    const Sluice__V1__TokenizeReply *r;
    ProtobufCMessage *m;
    struct arena a;

    (void)state;
    arena_init(&a);
    memset(body, 7, BOMB_BYTES);
    body[0] = 0x0a;
    body[1] = (uint8_t)(n & 0x7f) | 0x80;
    body[2] = (uint8_t)(n >> 7 & 0x7f) | 0x80;
    body[3] = (uint8_t)(n >> 14);
    assert_int_equal(wire_unpack(&a, &sluice__v1__tokenize_reply__descriptor,
                                 body, BOMB_BYTES, &m, NULL),
                     ST_OK);
    r = (const Sluice__V1__TokenizeReply *)m;
    assert_int_equal(r->n_tokens, n);
    assert_int_equal(r->tokens[n - 1], 7);
    free(body);
    arena_fini(&a);
}

static size_t pack_submit(uint8_t *out)
{
    Sluice__V1__SubmitRequest s = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__Need need = SLUICE__V1__NEED__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint32_t tokens[5] = {1, 300, 70000, 4, 5};

    ref.request_id = wire_text("0123456789abcdef");
    s.sequence = &ref;
    s.grant = 3;
    s.need = &need;
    need.blocks = 4;
    s.n_prompt = 5;
    s.n_tokens = 5;
    s.tokens = tokens;
    s.max_tokens = 9;
    s.sampling = &sampling;
    sampling.has_seed = true;
    sampling.seed = 77;
    return protobuf_c_message_pack(&s.base, out);
}

static void cut_anywhere_never_reads_past_the_end(void **state)
{
    uint8_t whole[256];
    size_t bytes = pack_submit(whole);
    ProtobufCMessage *m;
    struct arena a;
    int n_ok = 0;

    (void)state;
    arena_init(&a);
    for (size_t n = 0; n <= bytes; n++) {
        uint8_t *cut = malloc(n == 0 ? 1 : n);

        memcpy(cut, whole, n);
        n_ok += wire_unpack(&a, &sluice__v1__submit_request__descriptor, cut, n,
                            &m, NULL) == ST_OK;
        free(cut);
    }
    assert_int_equal(n_ok, 1); /* sampling, required, is the last field */
    arena_fini(&a);
}

/* Flips every single bit, and changes many random bytes, in each type. */
static void flipped_bits_never_crash(void **state)
{
    uint8_t whole[256], changed[256];
    size_t bytes = pack_submit(whole);
    ProtobufCMessage *m;
    struct arena a;

    (void)state;
    arena_init(&a);
    srand(5);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        memcpy(changed, whole, bytes);
        changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)!wire_unpack(&a, &sluice__v1__submit_request__descriptor, changed,
                           bytes, &m, NULL);
        assert_true(a.used <= a.budget);
    }
    for (int turn = 0; turn < 100000; turn++) {
        const struct method_row *row = method_at((unsigned)(turn % 40));

        memcpy(changed, whole, bytes);
        for (int k = 0; k < 1 + turn % 8; k++) {
            changed[(size_t)rand() % bytes] = (uint8_t)rand();
        }
        if (row != NULL &&
            wire_unpack(&a, turn % 3 == 0 ? row->reply : row->request, changed,
                        bytes, &m, NULL) == ST_OK) {
            assert_int_equal(m->n_unknown_fields, 0);
        }
        assert_true(a.used <= a.budget);
    }
    arena_fini(&a);
}

static void unknown_fields_are_not_kept(void **state)
{
    /* Receipt{..., sequence{request_id, 99: 5}, 100: 7} in a CancelRequest */
    const uint8_t body[] = {0x0a, 0x07, 0x0a, 0x02, 'a',  'b',
                            0x98, 0x06, 0x05, 0xa0, 0x06, 0x07};
    const Sluice__V1__CancelRequest *c;
    ProtobufCMessage *m;
    struct arena a;

    (void)state;
    arena_init(&a);
    assert_int_equal(wire_unpack(&a, &sluice__v1__cancel_request__descriptor,
                                 body, sizeof body, &m, NULL),
                     ST_OK);
    c = (const Sluice__V1__CancelRequest *)m;
    assert_int_equal(m->n_unknown_fields, 0);
    assert_int_equal(c->sequence->base.n_unknown_fields, 0);
    assert_int_equal(protobuf_c_message_get_packed_size(m), 6);
    arena_fini(&a);
}

static void memory_ends(void **state)
{
    ProtobufCMessage *m;
    struct arena a;

    (void)state;
    arena_init(&a);
    assert_int_equal(
        wire_unpack(&a, &sluice__v1__nothing__descriptor, NULL, 0, &m, NULL),
        ST_OK);
    arena_reset(&a);
    assert_non_null(arena_take(&a, 512));
    assert_null(arena_take(&a, a.budget));
    assert_true(a.exhausted);
    assert_null(arena_take(&a, SIZE_MAX));
    assert_non_null(arena_take(&a, a.budget - 512));
    assert_null(arena_take(&a, 1));
    arena_fini(&a);
}

static void failure_says_which(void **state)
{
    const uint8_t bad[] = {0xff};
    ProtobufCMessage *m;
    struct arena a;
    struct error e;

    (void)state;
    arena_init(&a);
    assert_int_equal(
        wire_unpack(&a, &sluice__v1__receipt__descriptor, bad, 1, &m, &e),
        ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "Receipt: 1 bytes do not parse");
    arena_fini(&a);
}

static void text_is_checked(void **state)
{
    const struct {
        const char *text;
        size_t bytes;
        bool ok;
    } cases[] = {
        {"", 0, true},
        {"plain", 5, true},
        {"gr\xc3\xbc\xc3\x9f", 6, true},
        {"\xf0\x9f\x98\x80", 4, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"a\0b", 3, false},
        {"\xff", 1, false},
        {"\xc0\x80", 2, false},         /* overlong NUL */
        {"\xe0\x9f\xbf", 3, false},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 4, false}, /* overlong */
        {"\xed\xa0\x80", 3, false},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, false}, /* past U+10FFFF */
        {"\xe2\x82", 2, false},         /* cut short */
        {"\x80", 1, false},
        {"0123456789", 10, true},
        {"0123456789a", 11, false}, /* longer than 10 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ProtobufCBinaryData d = {.len = cases[i].bytes,
                                 .data = (uint8_t *)(uintptr_t)cases[i].text};

        assert_int_equal(wire_text_ok(d, 0, 10), cases[i].ok);
    }
    assert_false(wire_text_ok(wire_text(""), 1, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bombs_fail_within_the_budget),
        cmocka_unit_test(packed_varints_fit),
        cmocka_unit_test(cut_anywhere_never_reads_past_the_end),
        cmocka_unit_test(flipped_bits_never_crash),
        cmocka_unit_test(unknown_fields_are_not_kept),
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(failure_says_which),
        cmocka_unit_test(text_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
