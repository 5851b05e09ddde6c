/* Envelopes that a peer of ours never sends: their answers, which of them are
 * strikes, and how many strikes end the session. */
#include "common/wire/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/common.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/peer_pair.h"

/* Delivers envelopes that a peer of ours never sends. */
static enum peer_verdict forge(struct end *to, const struct envelope *e,
                               bool ordered)
{
    uint8_t *buffer = malloc(ENVELOPE_HEADER + (size_t)e->body_bytes);
    struct frame_header h = {.session = PAIR_SESSION};
    enum peer_verdict v;
    struct frame *f;

    h.envelopes_bytes = (uint32_t)envelope_write(buffer, e);
    h.n_ordered = ordered;
    h.n_state = !ordered;
    h.number = ordered ? ++to->forged : 0;
    f = frame_make(&h, buffer, NULL);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    v = peer_recv(to->peer, f, &h, pair_clock_us);
    frame_free(&f);
    free(buffer);
    return v;
}

/* Returns the status and text of the one End in the last frame to e. */
static enum status last_end(struct end *e, char *text, size_t bytes)
{
    struct frame_header h;
    struct envelope env;
    struct error why;
    uint32_t at = 0, retry;
    struct arena a;
    struct frame *f;

    peer_flush(e->other->peer, pair_clock_us);
    assert_true(e->n_in > 0);
    f = e->in[--e->n_in];
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_true(envelope_next(f, &h, &at, &env));
    assert_int_equal(env.kind, ENVELOPE_END);
    arena_init(&a);
    failure_read(&a, &env, &why, &retry);
    snprintf(text, bytes, "%s", why.text);
    arena_fini(&a);
    frame_free(&f);
    return why.code;
}

static void unbuilt_method_is_unimplemented(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    const Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct envelope e = {.kind = ENVELOPE_CALL, .call = 1, .method = 0x7777};
    char text[ERROR_TEXT];

    (void)state;
    assert_int_equal(
        peer_call(p->a.peer, METHOD_HEALTH_WATCH, &nothing.base, 0, 1, NULL),
        ST_OK);
    pair_settle(p);
    assert_int_equal(p->a.status, ST_UNIMPLEMENTED);
    assert_string_equal(p->a.text, "/sluice.v1.Health/Watch: not built");
    assert_int_equal(p->b.n_calls, 0);
    pair_free(p);

    p = pair_new(BY_CLIENT, BY_ROUTER);
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_UNIMPLEMENTED);
    assert_string_equal(text, "call: unknown method");
    pair_free(p);
}

static void wrong_role_is_denied_and_struck(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {
        .kind = ENVELOPE_CALL, .call = 1, .method = METHOD_ADMIN_STATUS};
    char text[ERROR_TEXT];

    (void)state;
    assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_PERMISSION_DENIED);
    assert_string_equal(text, "/sluice.v1.Admin/Status: not for this peer");
    e = (struct envelope){.kind = ENVELOPE_ONEWAY,
                          .method = METHOD_REGISTRY_REPORT};
    assert_int_equal(forge(&p->b, &e, false), PEER_STRIKE);
    e = (struct envelope){.kind = ENVELOPE_CALL,
                          .call = 2,
                          .method = METHOD_WORKER_AUDIT}; /* not served here */
    assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE);
    assert_int_equal(p->b.n_calls, 0);
    /* A method that the other end may call, but not here. */
    e.call = 1;
    assert_int_equal(forge(&p->a, &e, true), PEER_STRIKE);
    assert_int_equal(last_end(&p->b, text, sizeof text), ST_PERMISSION_DENIED);
    assert_int_equal(p->a.n_calls, 0);
    pair_free(p);
}

static void their_calls_are_bounded(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL, .method = METHOD_HEALTH_CHECK};
    char text[ERROR_TEXT];

    (void)state;
    for (e.call = 1; e.call <= PEER_CALLS_MAX; e.call++) {
        assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    }
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(text, "too many open calls"));
    pair_free(p);
}

/* Answers that a server may not send: our call ends, and it is a strike. */
static void bad_answers_end_the_call(void **state)
{
    static uint8_t body[8192];
    const struct {
        bool stream; /* the kind of our call */
        struct envelope e;
        enum peer_verdict verdict;
        enum status status;
    } cases[] = {
        {false, {.kind = ENVELOPE_REPLY}, PEER_STRIKE, ST_INTERNAL},
        {true,
         {.kind = ENVELOPE_END, .body_bytes = 1},
         PEER_STRIKE,
         ST_INTERNAL},
        {false,
         {.kind = ENVELOPE_END, .body_bytes = 1025},
         PEER_STRIKE,
         ST_INTERNAL},
        {false, {.kind = ENVELOPE_END}, PEER_FINE, ST_INTERNAL}, /* required */
        {true,
         {.kind = ENVELOPE_REPLY, .body_bytes = 1},
         PEER_FINE,
         ST_INTERNAL},
        {false,
         {.kind = ENVELOPE_END, .status = ST_ABORTED, .body_bytes = 4097},
         PEER_STRIKE,
         ST_UNKNOWN},
        {false,
         {.kind = ENVELOPE_END, .status = ST_ABORTED, .body_bytes = 1},
         PEER_FINE,
         ST_ABORTED},
        {false, {.kind = ENVELOPE_END, .status = 99}, PEER_FINE, ST_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
        struct envelope e = cases[i].e;

        assert_int_equal(cases[i].stream ? pair_call_generate(&p->a, 0, 7, NULL)
                                         : pair_call_health(&p->a, 0, 7, NULL),
                         ST_OK);
        e.call = 1;
        e.body = body; /* zeros: no field has number 0 */
        assert_int_equal(forge(&p->a, &e, true), cases[i].verdict);
        assert_int_equal(p->a.n_ends, 1);
        assert_int_equal(p->a.n_replies, 0);
        assert_int_equal(p->a.status, cases[i].status);
        pair_free(p);
    }
}

static void oversize_reply_is_struck(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint8_t *body = calloc(1, 131073);
    struct envelope e = {.kind = ENVELOPE_REPLY, .call = 1, .body = body};

    (void)state;
    assert_int_equal(pair_call_generate(&p->a, 0, 7, NULL), ST_OK);
    /* GenerateChunk{first_index: 0, text: ...}: at the cap, then past it. */
    memcpy(body, "\x08\x00\x1a\xfa\xff\x07", 6);
    e.body_bytes = 131072;
    assert_int_equal(forge(&p->a, &e, true), PEER_FINE);
    assert_int_equal(p->a.n_replies, 1);
    body[3] = 0xfb;
    e.body_bytes = 131073;
    assert_int_equal(forge(&p->a, &e, true), PEER_STRIKE);
    assert_int_equal(p->a.n_replies, 1);
    assert_int_equal(p->a.status, ST_INTERNAL);
    free(body);
    pair_free(p);
}

static void oversize_body_is_refused(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint8_t body[17] = {0x9a, 0x06, 14}; /* field 99: 14 unknown bytes */
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .call = 1,
                         .method = METHOD_HEALTH_CHECK,
                         .body = body,
                         .body_bytes = 16};
    char text[ERROR_TEXT];

    (void)state;
    body[2] = 13;
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(p->b.n_calls, 1); /* at the cap */
    body[2] = 14;
    e.call = 2;
    e.body_bytes = 17;
    assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE);
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_INVALID_ARGUMENT);
    pair_free(p);
}

static void undecodable_body_is_invalid_and_session_lives(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint8_t body[2] = {0xff, 0xff};
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .method = METHOD_INFERENCE_GENERATE,
                         .body = body,
                         .body_bytes = 2};
    char text[ERROR_TEXT];

    (void)state;
    for (e.call = 1; e.call < 4 * PEER_STRIKES; e.call++) {
        assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
        assert_int_equal(last_end(&p->a, text, sizeof text),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(text, "do not parse"));
    }
    assert_int_equal(p->b.n_calls, 0);
    pair_free(p);
}

static void strikes_end_the_session(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .call = 5,
                         .method = METHOD_INFERENCE_LIST_MODELS};

    (void)state;
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    for (int i = 1; i < PEER_STRIKES; i++) {
        assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE); /* duplicated */
    }
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(forge(&p->b, &e, true), PEER_OUT);
    pair_free(p);
}

static void kinds_out_of_place_are_struck(void **state)
{
    const struct {
        struct envelope e;
        bool ordered;
    } bad[] = {
        {{.kind = ENVELOPE_CALL, .call = 1, .method = METHOD_HEALTH_CHECK},
         false},
        {{.kind = ENVELOPE_END, .call = 1}, false},
        {{.kind = ENVELOPE_CALL, .call = 0, .method = METHOD_HEALTH_CHECK},
         true},
        {{.kind = ENVELOPE_CALL, .call = 1, .method = METHOD_REGISTRY_GOODBYE},
         true},
        {{.kind = ENVELOPE_ONEWAY, .method = METHOD_HEALTH_CHECK}, true},
        {{.kind = ENVELOPE_ONEWAY, .method = METHOD_REGISTRY_GOODBYE}, true},
        {{.kind = ENVELOPE_ONEWAY,
          .call = 3,
          .method = METHOD_REGISTRY_GOODBYE},
         false},
    };
    const struct envelope fine[] = {
        {.kind = ENVELOPE_END, .call = 77},
        {.kind = ENVELOPE_REPLY, .call = 77},
        {.kind = ENVELOPE_CANCEL, .call = 77},
        {.kind = 0},
        {.kind = 200},
        {.kind = ENVELOPE_ONEWAY, .method = 0x7777},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

        assert_int_equal(forge(&p->b, &bad[i].e, bad[i].ordered), PEER_STRIKE);
        assert_int_equal(p->b.n_calls, 0);
        pair_free(p);
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

        assert_int_equal(forge(&p->b, &fine[i], true), PEER_FINE);
        assert_int_equal(p->b.n_calls, 0);
        pair_free(p);
    }
}

static void silent_reader_is_refused(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL, .method = METHOD_HEALTH_CHECK};
    enum peer_verdict v = PEER_FINE;
    size_t most = LINK_OUTBOX_BYTES;

    (void)state;
    p->b.answer_calls = true;
    p->b.send_status = ST_RESOURCE_EXHAUSTED; /* the peer never reads */
    for (e.call = 1; e.call < 1000000 && v != PEER_OUT; e.call++) {
        v = forge(&p->b, &e, true);
        peer_flush(p->b.peer, pair_clock_us);
        if (peer_room(p->b.peer, LANE_CONTROL) < most) {
            most = peer_room(p->b.peer, LANE_CONTROL);
        }
    }
    assert_int_equal(v, PEER_OUT);
    assert_true(most > 0); /* its answers never filled the lane */
    pair_free(p);
}

static void hello_in_a_session_is_refused(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {
        .kind = ENVELOPE_CALL, .call = 1, .method = METHOD_REGISTRY_HELLO};
    char text[ERROR_TEXT];

    (void)state;
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(last_end(&p->a, text, sizeof text),
                     ST_FAILED_PRECONDITION);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unbuilt_method_is_unimplemented),
        cmocka_unit_test(wrong_role_is_denied_and_struck),
        cmocka_unit_test(their_calls_are_bounded),
        cmocka_unit_test(bad_answers_end_the_call),
        cmocka_unit_test(oversize_reply_is_struck),
        cmocka_unit_test(oversize_body_is_refused),
        cmocka_unit_test(undecodable_body_is_invalid_and_session_lives),
        cmocka_unit_test(strikes_end_the_session),
        cmocka_unit_test(kinds_out_of_place_are_struck),
        cmocka_unit_test(silent_reader_is_refused),
        cmocka_unit_test(hello_in_a_session_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
