/* Every state against Cancel, RemoveSequence and the loss of the session, at
 * both depths: the contents and the time of the receipt, and a whole pool
 * afterwards. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define STATE(s) SLUICE__V1__SEQUENCE_STATE__SEQUENCE_##s

/* 200 prompt ids and 40 more: 30 blocks of 8. */
#define NEED 30u

/* It ended with 203 ids, of which the last is not computed: what it was granted
 * beyond 202 positions became free then. */
#define KEPT_BLOCKS 26u

enum at { RECEIVING, QUEUED, PREFILL, DECODE, KEPT, FINISHED, UNKNOWN, ATS };

static const int said[ATS] = {STATE(QUEUED), STATE(QUEUED), STATE(PREFILL),
                              STATE(DECODE), STATE(KEPT),   STATE(FINISHED),
                              STATE(UNKNOWN)};

static struct rig *with_depth(uint32_t depth)
{
    struct worker_options o;

    rig_defaults(&o);
    o.engine_depth = depth;
    o.max_rows = 2;
    return rig_new(&o);
}

/* Brings sequence 1 into a state; it runs alone, except in QUEUED. */
static struct rig *bring(enum at at, uint32_t depth)
{
    struct rig *r = with_depth(depth);
    struct rig_submit s = {.id = 1, .n_prompt = 200, .max_tokens = 40};
    struct rig_submit other = {.id = 8, .n_prompt = 190, .max_tokens = 20};

    if (at == UNKNOWN) {
        return r;
    }
    if (at == QUEUED) { /* two other sequences take the rows */
        rig_submit(r, &other);
        other.id = 9;
        rig_submit(r, &other);
    }
    s.n_first = at == RECEIVING ? 50 : 0;
    s.keep_ms = at == KEPT ? 60000 : 0;
    r->acknowledge = at != FINISHED;
    r->eos_at = at == KEPT || at == FINISHED ? 2 : UINT32_MAX;
    rig_submit(r, &s);
    rig_turn(r);
    for (int i = 0; at == DECODE && i < 5; i++) {
        rig_step(r);
    }
    if (at == KEPT || at == FINISHED) {
        rig_run(r);
    }
    rig_advance(r, 11000); /* a ledger has it */
    assert_int_equal(rig_state(r, 1), said[at]);
    return r;
}

static bool holds(enum at at)
{
    return at != FINISHED && at != UNKNOWN;
}

static bool runs(enum at at)
{
    return at == PREFILL || at == DECODE;
}

static void finish(struct rig *r)
{
    r->acknowledge = true;
    rig_run(r);
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static uint32_t blocks_at(enum at at)
{
    return at == KEPT ? KEPT_BLOCKS : holds(at) ? NEED : 0;
}

static void check_first(const struct rig *r, uint64_t tag, enum at at)
{
    const struct rig_end *e = &r->ends[tag];

    assert_true(e->ended);
    assert_int_equal(e->status, ST_OK);
    assert_int_equal(e->receipt.state, said[at]);
    assert_int_equal(e->receipt.blocks, blocks_at(at));
    assert_int_equal(e->receipt.slots, holds(at) ? 1 : 0);
    assert_int_equal(e->receipt.checkpoints, 0);
    if (!holds(at)) {
        assert_int_equal(e->receipt.snapshot, 0);
    }
}

/* The snapshot of a receipt is the first that shows the release. */
static void check_snapshot(const struct rig *r, uint64_t snapshot,
                           uint32_t used, uint32_t freed)
{
    assert_in_range(snapshot, 1, r->ledger.snapshot);
    assert_int_equal(r->used_blocks_at[snapshot % RIG_SNAPSHOTS], used - freed);
    if (snapshot > 1) {
        assert_int_equal(r->used_blocks_at[(snapshot - 1) % RIG_SNAPSHOTS],
                         used);
    }
}

/* Each way twice: the second call finds nothing to free. */
static void one_removal(enum at at, uint32_t depth, bool remove)
{
    struct rig *r = bring(at, depth);
    uint64_t grant = at == QUEUED ? 3 : 1;
    uint32_t generated = r->heard[grant].n;
    uint32_t used = rig_used_blocks(r);
    uint64_t first, second, third;
    uint32_t in_flight = rig_inflight(r);

    first = remove ? rig_remove(r, 1) : rig_cancel(r, 1);
    second = rig_cancel(r, 1);
    rig_turn(r);
    /* The memory is free at once, or when the plans that name it have
     * returned. */
    for (uint32_t i = 0; runs(at) && i < in_flight; i++) {
        assert_false(r->ends[first].ended);
        assert_false(r->ends[second].ended);
        assert_int_equal(rig_used_blocks(r), used);
        rig_step(r);
    }
    check_first(r, first, at);
    if (runs(at)) {
        assert_true(r->ends[first].receipt.micros >= 100 * in_flight);
    }
    assert_int_equal(r->ends[first].receipt.n_generated, generated);
    assert_true(r->ends[second].ended);
    assert_int_equal(r->ends[second].receipt.blocks, 0);
    assert_int_equal(r->ends[second].receipt.slots, 0);
    if (at == RECEIVING || at == UNKNOWN || at == KEPT) {
        /* A sequence that was never accepted, or was acknowledged, is not
         * remembered. */
        assert_int_equal(r->ends[second].receipt.state, STATE(UNKNOWN));
    } else {
        assert_int_equal(r->ends[second].receipt.state, STATE(FINISHED));
    }
    if (holds(at)) {
        assert_int_equal(rig_used_blocks(r), used - blocks_at(at));
        rig_advance(r, 11000);
        check_snapshot(r, r->ends[first].receipt.snapshot, used, blocks_at(at));
    }
    assert_int_equal(r->heard[grant].n, generated); /* no row after it */
    if (at == RECEIVING) {
        assert_int_equal(r->heard[grant].rows,
                         0); /* it was never accepted: no row */
        assert_int_equal(r->ends[1].status, ST_CANCELLED);
    } else if (holds(at) && at != KEPT) {
        assert_int_equal(r->heard[grant].finish,
                         SLUICE__V1__FINISH__FINISH_CANCELLED);
    }
    third = rig_remove(r, 1);
    rig_turn(r);
    assert_true(r->ends[third].ended);
    assert_int_equal(r->ends[third].receipt.blocks, 0);
    finish(r);
}

static void removes_in_every_state(void **state)
{
    for (int at = 0; at < ATS; at++) {
        for (uint32_t depth = 1; depth <= 2; depth++) {
            one_removal((enum at)at, depth, false);
            one_removal((enum at)at, depth, true);
        }
    }
    (void)state;
}

/* Running sequences, and endings that were not sent, become orphans:
 * orphans_test.c. */
static bool goes_with_its_session(enum at at)
{
    return at == RECEIVING || at == KEPT || at == UNKNOWN;
}

static void frees_what_goes_with_its_session(void **state)
{
    for (int at = 0; at < ATS; at++) {
        for (uint32_t depth = 1;
             depth <= 2 && goes_with_its_session((enum at)at); depth++) {
            struct rig *r = bring((enum at)at, depth);
            struct rig_submit s = {.id = 1, .n_prompt = 10, .max_tokens = 4};
            uint32_t expect[4];
            uint64_t tag;

            rig_cancel(r, 55); /* a tombstone */
            rig_turn(r);
            rig_lose(r);
            /* Only memory that a plan names stays held. */
            assert_int_equal(rig_state(r, 1), STATE(UNKNOWN));
            assert_int_equal(
                rig_account(r).blocks.granted == 0 || rig_inflight(r) > 0, 1);
            rig_reconnect(r);
            assert_int_equal(rig_account(r).grant, 0);
            rig_run(r);
            rig_check_empty(r);
            r->acknowledge = true;
            r->eos_at = UINT32_MAX;
            /* The same name again, from grant 1; no tombstone is left. */
            rig_submit(r, &s);
            s.id = 55;
            tag = rig_submit(r, &s);
            rig_turn(r);
            assert_int_equal(r->ends[tag].status, ST_OK);
            rig_run(r);
            rig_expect(1, 10, 4, expect);
            assert_int_equal(r->heard[1].n, 4);
            assert_memory_equal(r->heard[1].tokens, expect, sizeof expect);
            finish(r);
        }
    }
    (void)state;
}

/* The sequences of a new session run beside memory that an old plan still
 * holds. */
static void starts_while_an_old_plan_runs(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = bring(DECODE, depth);
        struct rig_submit s = {.id = 1, .n_prompt = 10, .max_tokens = 4};

        rig_lose(r);
        rig_reconnect(r);
        assert_int_equal(rig_inflight(r), depth);
        assert_int_equal(r->ledger.blocks == NULL, 0);
        assert_int_equal(rig_used_blocks(r), NEED);
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(r->heard[1].n, 4);
        finish(r);
    }
    (void)state;
}

static void leaves_a_tombstone(void **state)
{
    struct rig *r = with_depth(1);
    struct rig_submit s = {.id = 1, .n_prompt = 10, .max_tokens = 4};
    uint64_t cancel, first, second;

    (void)state;
    cancel = rig_cancel(r, 1);
    rig_cancel(r, 1); /* the same tombstone, not another */
    rig_turn(r);
    assert_int_equal(r->ends[cancel].receipt.state, STATE(UNKNOWN));
    first = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[first].status, ST_CANCELLED);
    assert_int_equal(rig_account(r).grant, 1);
    rig_check_empty(r);
    second = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[second].status, ST_OK);
    finish(r);
}

/* Two Submits of one name are on their way; both are cancelled before they
 * come. */
static void strikes_each_of_a_name(void **state)
{
    struct rig *r = with_depth(1);
    struct rig_submit s = {.id = 1, .n_prompt = 10, .max_tokens = 4};
    uint64_t tags[3];

    (void)state;
    rig_cancel_grant(r, 1, 1);
    rig_cancel_grant(r, 1, 3);
    rig_turn(r);
    for (int i = 0; i < 3; i++) {
        tags[i] = rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
    }
    assert_int_equal(r->ends[tags[0]].status, ST_CANCELLED);
    assert_int_equal(r->ends[tags[1]].status, ST_OK);
    assert_int_equal(r->ends[tags[2]].status, ST_CANCELLED);
    finish(r);
}

/* The sequence that is here is not meant; the meant one has yet to come. */
static void strikes_behind_one_of_its_name(void **state)
{
    struct rig *r = with_depth(1);
    struct rig_submit s = {.id = 1, .n_prompt = 10, .max_tokens = 4};
    uint64_t cancel, second;

    (void)state;
    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r); /* finished and not acknowledged */
    assert_int_equal(rig_state(r, 1), STATE(FINISHED));
    cancel = rig_cancel_grant(r, 1, 2);
    rig_turn(r);
    assert_int_equal(r->ends[cancel].receipt.state, STATE(UNKNOWN));
    second = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[second].status, ST_CANCELLED);
    r->acknowledge = true;
    rig_ack(r, 1, UINT32_MAX);
    rig_turn(r);
    finish(r);
}

static void drops_the_oldest_tombstone(void **state)
{
    struct rig *r = with_depth(1);
    struct rig_submit s = {.n_prompt = 10, .max_tokens = 4};
    uint64_t tag;

    (void)state;
    for (uint32_t i = 0; i <= TOMBSTONES_MAX; i++) {
        rig_cancel(r, 100 + i);
        if (i % 100 == 0) {
            rig_turn(r);
        }
    }
    rig_turn(r);
    s.id = 100; /* one tombstone too many: its own was replaced */
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_OK);
    s.id = 101; /* the oldest one at the limit */
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_CANCELLED);
    s.id = 100 + TOMBSTONES_MAX;
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_CANCELLED);
    finish(r);
}

static void answers_all_that_wait_for_one(void **state)
{
    struct rig *r = bring(DECODE, 2);
    uint64_t tags[20];

    (void)state;
    for (int i = 0; i < 20; i++) {
        tags[i] = i % 2 ? rig_cancel(r, 1) : rig_remove(r, 1);
    }
    rig_turn(r);
    rig_run(r);
    for (int i = 0; i < 20; i++) {
        assert_true(r->ends[tags[i]].ended);
        assert_int_equal(r->ends[tags[i]].receipt.blocks, i == 0 ? NEED : 0);
        assert_int_equal(r->ends[tags[i]].receipt.state,
                         i == 0 ? STATE(DECODE) : STATE(FINISHED));
    }
    finish(r);
}

static void does_not_disturb_the_others(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        uint32_t expect[30];
        struct rig *r;

        rig_defaults(&o);
        o.engine_depth = depth;
        r = rig_new(&o);
        for (uint32_t i = 1; i <= 4; i++) {
            struct rig_submit s = {
                .id = i, .n_prompt = 70 + i, .max_tokens = 30};

            rig_submit(r, &s);
        }
        rig_turn(r);
        for (uint32_t i = 1; i <= 3; i++) {
            rig_step(r);
            rig_cancel(r, i);
            rig_turn(r);
        }
        rig_run(r);
        rig_expect(4, 74, 30, expect);
        assert_int_equal(r->heard[4].n, 30);
        assert_memory_equal(r->heard[4].tokens, expect, sizeof expect);
        finish(r);
    }
    (void)state;
}

static void refuses_a_range_without_an_id(void **state)
{
    struct rig *r = bring(KEPT, 1);
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t id[16] = {1};

    (void)state;
    ref.request_id = (ProtobufCBinaryData){16, id};
    m.sequence = &ref;
    m.has_begin = true;
    m.begin = 0;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_REMOVE, &m.base, 0, 90, NULL), ST_OK);
    ref.request_id.len = 3;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_REMOVE, &m.base, 0, 91, NULL), ST_OK);
    rig_turn(r);
    assert_int_equal(r->ends[90].status, ST_NOT_FOUND);
    assert_int_equal(r->ends[91].status, ST_INVALID_ARGUMENT);
    assert_int_equal(rig_state(r, 1), STATE(KEPT));
    r->tag = 100;
    rig_remove(r, 1);
    rig_turn(r);
    finish(r);
}

static void gives_up_a_submit_that_is_called_off(void **state)
{
    struct rig *r = with_depth(1);
    struct rig_submit s = {
        .id = 1, .n_prompt = 100, .max_tokens = 4, .n_first = 5};
    struct rig_message m;
    uint64_t call;

    (void)state;
    rig_message(r, &s, &m);
    r->grant = 1;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_SUBMIT, &m.m.base, 50, 1, &call),
        ST_OK);
    rig_turn(r);
    assert_int_equal(rig_state(r, 1), STATE(QUEUED));
    rig_advance(r, 60000); /* past its deadline */
    rig_check_empty(r);
    rig_message(r, &s, &m);
    r->grant = 2;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_SUBMIT, &m.m.base, 0, 2, &call),
        ST_OK);
    rig_turn(r);
    peer_cancel(r->peer, call);
    rig_turn(r);
    rig_check_empty(r);
    finish(r);
}

/* An acknowledgement that was sent before the end proves nothing about the
 * end. */
static void does_not_take_an_old_acknowledgement_for_the_end(void **state)
{
    struct rig *r = bring(DECODE, 1);
    uint32_t n = r->heard[1].n;

    (void)state;
    r->acknowledge = false;
    rig_cancel(r, 1);
    rig_turn(r);
    rig_run(r);
    rig_ack(r, 1, n);
    rig_turn(r);
    assert_int_equal(rig_state(r, 1), STATE(FINISHED));
    rig_ack(r, 1, UINT32_MAX);
    rig_turn(r);
    rig_check_empty(r);
    finish(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removes_in_every_state),
        cmocka_unit_test(frees_what_goes_with_its_session),
        cmocka_unit_test(starts_while_an_old_plan_runs),
        cmocka_unit_test(leaves_a_tombstone),
        cmocka_unit_test(strikes_each_of_a_name),
        cmocka_unit_test(strikes_behind_one_of_its_name),
        cmocka_unit_test(drops_the_oldest_tombstone),
        cmocka_unit_test(answers_all_that_wait_for_one),
        cmocka_unit_test(does_not_disturb_the_others),
        cmocka_unit_test(refuses_a_range_without_an_id),
        cmocka_unit_test(gives_up_a_submit_that_is_called_off),
        cmocka_unit_test(does_not_take_an_old_acknowledgement_for_the_end),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
