/* Two peers that keep the rules: calls, ends, deadlines, oneways, room. */
#include "common/wire/peer.h"

#include <stdlib.h>

#include "proto/common.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/peer_pair.h"

static enum status reply_chunk(struct end *e, uint64_t call, uint32_t first)
{
    Sluice__V1__GenerateChunk c = SLUICE__V1__GENERATE_CHUNK__INIT;
    uint32_t tokens[3] = {1, 2, 3};

    c.first_index = first;
    c.n_tokens = 3;
    c.tokens = tokens;
    return peer_reply(e->peer, call, &c.base);
}

static void unary_call_is_answered(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call = 0;

    (void)state;
    p->b.answer_calls = true;
    assert_int_equal(pair_call_health(&p->a, 0, 42, &call), ST_OK);
    assert_int_equal(call, 1);
    pair_settle(p);
    assert_int_equal(p->b.n_calls, 1);
    assert_true(p->b.deadline_us == NODE_IDLE);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.tag, 42);
    assert_int_equal(p->a.status, ST_OK);
    assert_int_equal(p->a.value, 1);
    pair_free(p);
}

static void stream_is_answered_and_ended(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    assert_int_equal(pair_call_generate(&p->a, 0, 7, NULL), ST_OK);
    pair_settle(p);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(reply_chunk(&p->b, p->b.call, i), ST_OK);
    }
    pair_settle(p);
    assert_int_equal(p->a.n_replies, 5);
    assert_int_equal(p->a.value, 3);
    assert_int_equal(p->a.n_ends, 0);
    peer_end(p->b.peer, p->b.call, NULL);
    pair_settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_OK);
    assert_int_equal(reply_chunk(&p->b, p->b.call, 5), ST_NOT_FOUND);
    peer_end(p->b.peer, p->b.call, NULL); /* a no-op */
    pair_settle(p);
    assert_int_equal(p->a.n_ends, 1);
    pair_free(p);
}

static void failure_carries_its_sentence(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct error e;

    (void)state;
    assert_int_equal(pair_call_generate(&p->a, 0, 7, NULL), ST_OK);
    pair_settle(p);
    error_set(&e, ST_RESOURCE_EXHAUSTED, "17 are waiting already");
    peer_fail(p->b.peer, p->b.call, &e, 250);
    pair_settle(p);
    assert_int_equal(p->a.status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(p->a.text, "17 are waiting already");
    assert_int_equal(p->a.retry_after_ms, 250);
    pair_free(p);
}

static void caller_cancels(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call;

    (void)state;
    assert_int_equal(pair_call_generate(&p->a, 0, 7, &call), ST_OK);
    pair_settle(p);
    peer_cancel(p->a.peer, call);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_CANCELLED);
    assert_int_equal(reply_chunk(&p->b, p->b.call, 0),
                     ST_OK); /* crosses the cancel */
    pair_settle(p);
    assert_int_equal(p->b.n_cancels, 1);
    assert_int_equal(p->a.n_replies, 0);
    assert_int_equal(reply_chunk(&p->b, p->b.call, 1), ST_NOT_FOUND);
    peer_cancel(p->a.peer, call); /* a no-op */
    pair_settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->b.n_cancels, 1);
    pair_free(p);
}

static void cancel_crosses_the_end(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call;

    (void)state;
    assert_int_equal(pair_call_generate(&p->a, 0, 7, &call), ST_OK);
    pair_settle(p);
    peer_end(p->b.peer, p->b.call, NULL);
    peer_cancel(p->a.peer, call);
    pair_settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->b.n_cancels, 0);
    pair_free(p);
}

static void deadline_ends_both_sides(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    assert_int_equal(pair_call_generate(&p->a, 50, 7, NULL), ST_OK);
    pair_settle(p);
    assert_int_equal(p->b.deadline_us, pair_clock_us + 50000);
    pair_clock_us += 10000;
    pair_settle(p); /* no more acks are due */
    assert_int_equal(peer_due(p->b.peer), pair_clock_us + 40000);
    pair_clock_us += 39999;
    pair_settle(p);
    assert_int_equal(p->a.n_ends + p->b.n_cancels, 0);
    pair_clock_us += 1;
    peer_flush(p->b.peer, pair_clock_us);
    assert_int_equal(p->b.n_cancels, 1);
    peer_flush(p->a.peer, pair_clock_us);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_DEADLINE_EXCEEDED);
    pair_settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->b.n_cancels, 1);
    pair_free(p);
}

static void many_deadlines_pass_at_once(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    for (uint32_t i = 0; i < PEER_CALLS_MAX; i++) {
        assert_int_equal(pair_call_health(&p->a, 10 + i % 7, i, NULL), ST_OK);
    }
    pair_settle(p);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    pair_clock_us += 12000;
    pair_settle(p);
    assert_int_equal(p->a.n_ends, PEER_CALLS_MAX / 7 * 3 + 2);
    assert_true(peer_due(p->a.peer) > pair_clock_us); /* not an old due time */
    pair_clock_us += 10000;
    pair_settle(p);
    assert_int_equal(p->a.n_ends, PEER_CALLS_MAX);
    assert_int_equal(p->b.n_cancels, PEER_CALLS_MAX);
    pair_free(p);
}

static void calls_are_bounded(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call = 0;

    (void)state;
    for (uint32_t i = 0; i < PEER_CALLS_MAX; i++) {
        assert_int_equal(peer_calls_left(p->a.peer), PEER_CALLS_MAX - i);
        assert_int_equal(pair_call_health(&p->a, 0, i, &call), ST_OK);
    }
    assert_int_equal(peer_calls_left(p->a.peer), 0);
    assert_int_equal(pair_call_health(&p->a, 0, 0, NULL),
                     ST_RESOURCE_EXHAUSTED);
    pair_settle(p);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    peer_cancel(p->a.peer, call);
    assert_int_equal(peer_calls_left(p->a.peer), 1);
    assert_int_equal(pair_call_health(&p->a, 0, 0, NULL), ST_OK);
    pair_settle(p);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX + 1);
    pair_free(p);
}

static void own_oversize_is_not_sent(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    Sluice__V1__GenerateRequest r;
    uint8_t *text = calloc(1, 1 << 20);

    (void)state;
    pair_fill_generate(&r);
    r.has_text = true;
    r.text = (ProtobufCBinaryData){.len = (1 << 20) - 25, .data = text};
    assert_int_equal(protobuf_c_message_get_packed_size(&r.base), 1 << 20);
    assert_int_equal(
        peer_call(p->a.peer, METHOD_INFERENCE_GENERATE, &r.base, 0, 1, NULL),
        ST_OK);
    r.text.len++;
    assert_int_equal(
        peer_call(p->a.peer, METHOD_INFERENCE_GENERATE, &r.base, 0, 1, NULL),
        ST_INVALID_ARGUMENT);
    pair_settle(p);
    assert_int_equal(p->b.n_calls, 1);
    free(text);
    pair_free(p);
}

static void goodbye_is_told(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    Sluice__V1__GoodbyeMessage g = SLUICE__V1__GOODBYE_MESSAGE__INIT;

    (void)state;
    g.has_reason = true;
    g.reason = wire_text("drain\x1b[2J");
    assert_int_equal(peer_oneway(p->a.peer, METHOD_REGISTRY_GOODBYE, &g.base),
                     ST_OK);
    peer_flush(p->a.peer, pair_clock_us);
    assert_int_equal(pair_take_in(&p->b), PEER_GOODBYE);
    assert_string_equal(peer_goodbye(p->b.peer), "drain?[2J");
    pair_free(p);
}

static enum status report(struct end *e, uint64_t snapshot)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;
    Sluice__V1__Ledger l = SLUICE__V1__LEDGER__INIT;
    Sluice__V1__ClassLedger c = SLUICE__V1__CLASS_LEDGER__INIT;

    l.session = PAIR_SESSION;
    l.snapshot = snapshot;
    l.blocks = l.slots = l.checkpoints = l.pages = &c;
    m.ledger = &l;
    return peer_oneway(e->peer, METHOD_REGISTRY_REPORT, &m.base);
}

static void newest_report_wins(void **state)
{
    struct pair *p = pair_new(BY_WORKER, BY_ROUTER);

    (void)state;
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(report(&p->a, i), ST_OK);
    }
    pair_settle(p);
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(p->b.value, 20);
    assert_int_equal(p->b.call, 0);
    pair_free(p);
}

static void dirty_is_told_once(void **state)
{
    struct pair *p = pair_new(BY_WORKER, BY_ROUTER);

    (void)state;
    assert_int_equal(report(&p->a, 1), ST_OK);
    assert_int_equal(report(&p->a, 2), ST_OK);
    assert_int_equal(p->a.n_dirty, 1);
    assert_int_equal(peer_due(p->a.peer), 0); /* now, not NODE_STOP */
    peer_flush(p->a.peer, pair_clock_us);
    assert_int_equal(report(&p->a, 3), ST_OK);
    assert_int_equal(p->a.n_dirty, 2);
    assert_int_equal(pair_take_in(&p->b), PEER_FINE);
    assert_int_equal(p->b.n_dirty, 0); /* state needs no ack */
    assert_int_equal(pair_call_health(&p->a, 0, 1, NULL), ST_OK);
    peer_flush(p->a.peer, pair_clock_us);
    assert_int_equal(pair_take_in(&p->b), PEER_FINE);
    assert_int_equal(p->b.n_dirty, 1); /* an ack is due later */
    pair_free(p);
}

static void freeing_ends_all_calls(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pair_call_generate(&p->a, 0, 7, NULL), ST_OK);
    }
    pair_settle(p);
    peer_free(&p->a.peer);
    assert_null(p->a.peer);
    assert_int_equal(p->a.n_ends, 100);
    assert_int_equal(p->a.status, ST_UNAVAILABLE);
    peer_free(&p->b.peer);
    assert_int_equal(p->b.n_cancels, 100);
    pair_free(p);
}

static void full_transport_is_tried_again(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    p->b.answer_calls = true;
    p->a.send_status = ST_RESOURCE_EXHAUSTED;
    assert_int_equal(pair_call_health(&p->a, 0, 1, NULL), ST_OK);
    peer_flush(p->a.peer, pair_clock_us);
    p->a.send_status = ST_OK;
    pair_settle(p);
    assert_int_equal(p->b.n_calls, 0);
    assert_int_equal(peer_due(p->a.peer), pair_clock_us + LINK_HOLD_US);
    pair_clock_us += LINK_HOLD_US;
    pair_settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_OK);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_call_is_answered),
        cmocka_unit_test(stream_is_answered_and_ended),
        cmocka_unit_test(failure_carries_its_sentence),
        cmocka_unit_test(caller_cancels),
        cmocka_unit_test(cancel_crosses_the_end),
        cmocka_unit_test(deadline_ends_both_sides),
        cmocka_unit_test(many_deadlines_pass_at_once),
        cmocka_unit_test(calls_are_bounded),
        cmocka_unit_test(own_oversize_is_not_sent),
        cmocka_unit_test(goodbye_is_told),
        cmocka_unit_test(newest_report_wins),
        cmocka_unit_test(dirty_is_told_once),
        cmocka_unit_test(freeing_ends_all_calls),
        cmocka_unit_test(full_transport_is_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
