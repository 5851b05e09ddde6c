/* Frames outside a session, and frames that only look similar. */
#include <string.h>

#include "common/wire/peer.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

static struct arena arena;
static struct frame *kept; /* the memory that the last envelope points into */

typedef bool is_fn(const struct frame *f, const struct frame_header *h,
                   struct envelope *out);

/* Returns whether `is` accepts a frame of one envelope; takes f. */
static bool asks(is_fn *is, struct frame *f, struct envelope *out)
{
    struct frame_header h;

    frame_free(&kept);
    kept = f;
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    return is(f, &h, out);
}

static struct frame *make(uint64_t session, uint16_t method, uint8_t kind,
                          uint32_t body_bytes, unsigned n)
{
    static uint8_t body[32768], envelopes[2 * 32768];
    struct frame_header h = {.session = session, .n_state = (uint16_t)n};
    struct envelope e = {.call = kind == ENVELOPE_ONEWAY ? 0 : 1,
                         .method = method,
                         .kind = kind,
                         .body = body,
                         .body_bytes = body_bytes};

    for (unsigned i = 0; i < n; i++) {
        h.envelopes_bytes +=
            (uint32_t)envelope_write(envelopes + h.envelopes_bytes, &e);
    }
    return frame_make(&h, envelopes, NULL);
}

static void knows_a_hello(void **state)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    struct envelope e;

    (void)state;
    m.name = wire_text("me");
    assert_true(asks(hello_is_call, hello_make(&m.base), &e));
    assert_false(asks(hello_is_answer, hello_make(&m.base), &e));
    assert_false(asks(hello_is_goodbye, hello_make(&m.base), &e));
}

static void what_is_none(void **state)
{
    const uint16_t hello = METHOD_REGISTRY_HELLO;
    const uint16_t bye = METHOD_REGISTRY_GOODBYE;
    uint32_t cap = method_find(hello)->request_cap;
    struct envelope e;

    (void)state;
    assert_true(asks(hello_is_call, make(0, hello, ENVELOPE_CALL, cap, 1), &e));
    assert_false(
        asks(hello_is_call, make(0, hello, ENVELOPE_CALL, cap + 1, 1), &e));
    assert_false(asks(hello_is_call, make(9, hello, ENVELOPE_CALL, 8, 1), &e));
    assert_false(asks(hello_is_call, make(0, hello, ENVELOPE_CALL, 8, 2), &e));
    assert_false(asks(hello_is_call, make(0, hello, ENVELOPE_CALL, 8, 0), &e));
    assert_false(asks(hello_is_call, make(0, bye, ENVELOPE_CALL, 8, 1), &e));
    assert_false(asks(hello_is_answer, make(9, hello, ENVELOPE_END, 8, 1), &e));
    assert_true(asks(hello_is_answer, make(0, hello, ENVELOPE_END, 8, 1), &e));
    assert_true(
        asks(hello_is_goodbye, make(9, bye, ENVELOPE_ONEWAY, 8, 1), &e));
    assert_false(asks(hello_is_goodbye, make(9, bye, ENVELOPE_CALL, 8, 1), &e));
}

/* Makes a frame whose only envelope is ordered. */
static struct frame *ordered(uint64_t session, uint16_t method, uint8_t kind)
{
    uint8_t envelope[ENVELOPE_HEADER];
    struct envelope e = {.call = kind == ENVELOPE_ONEWAY ? 0 : 1,
                         .method = method,
                         .kind = kind};
    struct frame_header h = {.session = session,
                             .n_ordered = 1,
                             .number = 1,
                             .envelopes_bytes =
                                 (uint32_t)envelope_write(envelope, &e)};

    return frame_make(&h, envelope, NULL);
}

/* In a session, an ordered Goodbye is a strike (peer_forged_test). */
static void none_of_them_is_ordered(void **state)
{
    const uint16_t hello = METHOD_REGISTRY_HELLO;
    const uint16_t bye = METHOD_REGISTRY_GOODBYE;
    struct envelope e;

    (void)state;
    assert_false(asks(hello_is_call, ordered(0, hello, ENVELOPE_CALL), &e));
    assert_false(asks(hello_is_answer, ordered(0, hello, ENVELOPE_END), &e));
    assert_false(asks(hello_is_goodbye, ordered(9, bye, ENVELOPE_ONEWAY), &e));
}

static void an_answer_carries_the_session(void **state)
{
    Sluice__V1__HelloReply m = SLUICE__V1__HELLO_REPLY__INIT;
    ProtobufCMessage *got;
    struct envelope e;

    (void)state;
    m.name = wire_text("router");
    assert_true(asks(hello_is_answer, hello_answer(77, &m.base, NULL, 0), &e));
    assert_int_equal(e.status, ST_OK);
    assert_int_equal(wire_unpack(&arena, &sluice__v1__hello_reply__descriptor,
                                 e.body, e.body_bytes, &got, NULL),
                     ST_OK);
    assert_int_equal(((Sluice__V1__HelloReply *)(void *)got)->session, 77);
}

static void a_refusal_says_why(void **state)
{
    struct error why, got;
    struct envelope e;
    uint32_t retry_ms = 1;

    (void)state;
    error_set(&why, ST_RESOURCE_EXHAUSTED, "there are too many");
    assert_true(asks(hello_is_answer, hello_answer(0, NULL, &why, 250), &e));
    failure_read(&arena, &e, &got, &retry_ms);
    assert_int_equal(got.code, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(got.text, "there are too many"));
    assert_int_equal(retry_ms, 250);
    assert_true(asks(hello_is_answer, hello_answer(0, NULL, &why, 0), &e));
    failure_read(&arena, &e, &got, &retry_ms);
    assert_int_equal(retry_ms, 0);
}

/* An unknown code, and a body that does not parse or is empty. */
static void a_poor_refusal_is_read_all_the_same(void **state)
{
    static const uint8_t broken[] = {0xff, 0xff, 0xff};
    struct envelope e = {.status = ST_NR, .body = broken, .body_bytes = 3};
    struct error got;
    uint32_t retry_ms = 1;

    (void)state;
    failure_read(&arena, &e, &got, &retry_ms);
    assert_int_equal(got.code, ST_UNKNOWN);
    assert_string_equal(got.text, status_text(ST_UNKNOWN));
    assert_int_equal(retry_ms, 0);
    e = (struct envelope){.status = ST_ABORTED};
    failure_read(&arena, &e, &got, &retry_ms);
    assert_int_equal(got.code, ST_ABORTED);
    assert_string_equal(got.text, status_text(ST_ABORTED));
}

static void a_goodbye_may_have_a_reason(void **state)
{
    struct envelope e;

    (void)state;
    assert_true(asks(hello_is_goodbye, goodbye_make(5, "enough"), &e));
    assert_true(e.body_bytes > 6);
    assert_true(asks(hello_is_goodbye, goodbye_make(5, NULL), &e));
    assert_int_equal(e.body_bytes, 0);
}

static int start(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    frame_free(&kept);
    arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_a_hello),
        cmocka_unit_test(what_is_none),
        cmocka_unit_test(none_of_them_is_ordered),
        cmocka_unit_test(an_answer_carries_the_session),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(a_poor_refusal_is_read_all_the_same),
        cmocka_unit_test(a_goodbye_may_have_a_reason),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
