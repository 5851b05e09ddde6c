/* Orphans: which Submit adopts one, and what ends one. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/ids_hash.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_orphan.h"

/* ---- equal sequences ---- */

static void finds_only_the_same(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct worker_account before, after;
    struct rig_submit s = having(10);
    struct rig_message m;

    (void)state;
    rig_reconnect(r);
    before = rig_account(r);
    s.max_tokens = 31;
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    s.max_tokens = 30;
    s.n_prompt = 21;
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    s.n_prompt = 20;
    s.choice = 1;
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    s.choice = 0;
    rig_adopt_message(r, &s, &m);
    m.sampling.seed++;
    assert_int_equal(adopt_message(r, &m), ST_NOT_FOUND);
    rig_adopt_message(r, &s, &m); /* another prompt, or other tokens */
    m.m.ids_hash++;
    assert_int_equal(adopt_message(r, &m), ST_NOT_FOUND);
    rig_adopt_message(r, &s,
                      &m); /* the router is ahead: its ids cannot be compared */
    m.m.have_index = 12;
    assert_int_equal(adopt_message(r, &m), ST_NOT_FOUND);
    after = rig_account(r);
    assert_int_equal(after.grant, 6);
    assert_memory_equal(&before.blocks, &after.blocks, sizeof before.blocks);
    assert_memory_equal(&before.slots, &after.slots, sizeof before.slots);
    assert_int_equal(after.n_orphans, 1);
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_run(r);
    rig_check_tokens(r, 7, 6, 20, 30);
    rig_free(&r);
}

static void refuses_what_is_no_adoption(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct rig_submit s = having(10);
    struct rig_message m[8];

    (void)state;
    rig_reconnect(r);
    for (int i = 0; i < 8; i++) {
        rig_adopt_message(r, &s, &m[i]);
        m[i].m.grant = (uint64_t)i + 1;
    }
    m[0].m.has_ids_hash = false;
    m[1].m.has_have_index = false;
    m[2].m.n_tokens = 1;
    m[3].m.n_generated = 1;
    m[4].need.blocks = 1;
    m[5].m.has_keep_ms = true;
    m[5].m.keep_ms = KEEP_MS_MAX + 1;
    m[6].sampling.has_top_p = true;
    m[6].sampling.top_p = 2;
    m[7].id[0] = 0;
    memset(m[7].id, 0, sizeof m[7].id);
    for (int i = 0; i < 8; i++) {
        m[i].m.sequence = &m[i].ref;
        assert_int_equal(adopt_message(r, &m[i]), ST_INVALID_ARGUMENT);
    }
    s.keep_ms = KEEP_MS_MAX;
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_free(&r);
}

/* A sequence with a grant of this session is not adopted. */
static void finds_no_orphan_twice(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct rig_submit s = having(10);

    (void)state;
    rig_reconnect(r);
    assert_int_equal(adopt(r, &s), ST_OK);
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    rig_run(r);
    rig_check_tokens(r, 1, 6, 20, 30);
    rig_free(&r);
}

/* ---- other endings ---- */

/* The ids of a plain Submit have not all come, so the prompt may differ. */
static void makes_way_for_a_plain_submit(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = lost_after(10, depth);
        struct rig_submit s = usual;
        struct rig_message m;
        uint64_t tag;

        rig_reconnect(r);
        s.n_first = 5;
        rig_message(r, &s, &m);
        tag = rig_send_submit(r, &m);
        rig_turn(r);
        assert_int_equal(rig_account(r).n_orphans, 0);
        rig_part(r, 1, &m, 5, 15);
        rig_turn(r);
        rig_check_ok(r, tag);
        rig_run(r);
        rig_check_tokens(r, 1, 6, 20, 30);
        rig_advance(r, 20000);
        rig_check_empty(r);
        rig_free(&r);
    }
}

static void makes_way_after_its_end_too(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct rig_submit s = usual;

    (void)state;
    rig_run(r);
    rig_reconnect(r);
    s.max_tokens = 12; /* another request of this name */
    rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, r->tag);
    rig_run(r);
    rig_check_tokens(r, 1, 6, 20, 12);
    rig_free(&r);
}

static void ends_when_disowned(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        for (int ended = 0; ended < 2; ended++) {
            struct rig *r = lost_after(10, depth);

            if (ended) {
                rig_run(r);
            }
            rig_reconnect(r);
            rig_disown(r, 6, 1);
            rig_disown(r, 7, 0);
            rig_turn(r);
            assert_int_equal(rig_account(r).n_orphans, 1);
            rig_disown(r, 6, 0);
            rig_turn(r);
            rig_disown(r, 6, 0);
            rig_turn(r);
            assert_int_equal(rig_account(r).n_orphans, 0);
            assert_int_equal(rig_account(r).orphans_disowned, 1);
            rig_run(r);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
}

static void is_not_disowned_once_adopted(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct rig_submit s = having(10);

    (void)state;
    rig_reconnect(r);
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_disown(r, 6, 0);
    rig_turn(r);
    rig_run(r);
    rig_check_tokens(r, 1, 6, 20, 30);
    rig_free(&r);
}

static void disown_rows(struct rig *r, size_t bytes, size_t n)
{
    static uint8_t ids[(LIVE_ROWS_MAX + 1) * 16];
    static uint32_t choice[LIVE_ROWS_MAX + 1];
    Sluice__V1__DisownMessage m = SLUICE__V1__DISOWN_MESSAGE__INIT;

    m.request_ids = (ProtobufCBinaryData){bytes, ids};
    m.n_choice = n;
    m.choice = choice;
    assert_int_equal(peer_oneway(r->peer, METHOD_WORKER_DISOWN, &m.base),
                     ST_OK);
    rig_turn(r);
}

static void breaks_with_who_disowns_nonsense(void **state)
{
    static const size_t bad[][2] = {
        {16 * (size_t)(LIVE_ROWS_MAX + 1), LIVE_ROWS_MAX + 1},
        {16, 2},
        {17, 1},
        {16, 0}};
    struct rig *r = rig_new(NULL);

    (void)state;
    disown_rows(r, 16 * (size_t)LIVE_ROWS_MAX, LIVE_ROWS_MAX);
    disown_rows(r, 0, 0);
    assert_int_equal(r->n_goodbyes, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        disown_rows(r, bad[i][0], bad[i][1]);
        assert_int_equal(r->n_goodbyes, i + 1);
        rig_reconnect(r);
    }
    rig_free(&r);
}

/* A Cancel overtakes the Submit that would adopt the orphan: it ends both. */
static void is_cancelled_before_its_adoption_comes(void **state)
{
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        struct rig *r = lost_after(10, 1);
        struct rig_submit s = having(10);
        uint64_t tag;

        if (ended) {
            rig_run(r);
        }
        rig_reconnect(r);
        tag = rig_cancel_grant(r, 6, 1);
        rig_turn(r);
        rig_run(r);
        assert_true(r->ends[tag].ended);
        assert_int_equal(r->ends[tag].receipt.state,
                         ended ? STATE(FINISHED) : STATE(DECODE));
        assert_int_equal(r->ends[tag].receipt.blocks, ended ? 0 : NEED);
        rig_check_empty(r);
        assert_int_equal(adopt(r, &s), ST_CANCELLED);
        assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
        rig_free(&r);
    }
}

static void is_removed_by_name(void **state)
{
    struct rig *r = lost_after(10, 2);
    uint64_t tag;

    (void)state;
    rig_reconnect(r);
    tag = rig_remove(r, 6);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->ends[tag].receipt.blocks, NEED);
    rig_check_empty(r);
    rig_submit(r, &usual); /* no tombstone */
    rig_turn(r);
    rig_check_ok(r, r->tag);
    rig_free(&r);
}

/* ---- the hash ---- */

/* The hash is part of the protocol: the router computes the same. */
static void hashes_ids(void **state)
{
    static const uint32_t ids[3] = {0, 7, 4000000000u};
    uint64_t h = ids_hash(IDS_HASH_START, ids, 3);

    (void)state;
    assert_true(h == 0xa21ec31c526afa04u);
    assert_true(ids_hash(IDS_HASH_START, ids, 0) == IDS_HASH_START);
    assert_true(ids_hash(ids_hash(IDS_HASH_START, ids, 2), ids + 2, 1) == h);
    assert_true(ids_hash(IDS_HASH_START, ids, 2) != h);
    assert_true(ids_hash(IDS_HASH_START, ids + 1, 2) != h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_only_the_same),
        cmocka_unit_test(refuses_what_is_no_adoption),
        cmocka_unit_test(finds_no_orphan_twice),
        cmocka_unit_test(makes_way_for_a_plain_submit),
        cmocka_unit_test(makes_way_after_its_end_too),
        cmocka_unit_test(ends_when_disowned),
        cmocka_unit_test(is_not_disowned_once_adopted),
        cmocka_unit_test(breaks_with_who_disowns_nonsense),
        cmocka_unit_test(is_cancelled_before_its_adoption_comes),
        cmocka_unit_test(is_removed_by_name),
        cmocka_unit_test(hashes_ids),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
