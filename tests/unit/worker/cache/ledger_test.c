/* Sequences, the ledger, and an audit that finds planted errors. */
#include "worker/cache/ledger.h"

#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"

#define LIVE 4

struct bench {
    struct pool pool;
    struct sequence_table table;
    struct ledger ledger;
    char text[1024];
};

static struct sequence_key key_of(uint32_t i)
{
    struct sequence_key k = {.choice = i % 2};

    memset(k.request_id, 1, sizeof k.request_id);
    k.request_id[0] = (uint8_t)(i / 2);
    return k;
}

static int begin(void **state)
{
    static struct bench b;
    struct pool_need total = {{16, 4, 0}}, pages = {{1, 1, 1}};
    struct sequence_limits l = {
        .capacity = LIVE, .longest = 64, .values = 512, .hash_seed = 1};

    assert_true(pool_init(&b.pool, &total, &pages));
    assert_true(sequence_table_init(&b.table, &l, &b.pool));
    assert_true(ledger_init(&b.ledger, &b.pool));
    *state = &b;
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;

    ledger_fini(&b->ledger);
    sequence_table_fini(&b->table);
    pool_fini(&b->pool);
    return 0;
}

static uint32_t audit(struct bench *b)
{
    return ledger_audit(&b->ledger, &b->pool, &b->table, b->text,
                        sizeof b->text);
}

/* Takes two of five blocks, and the slot. */
static struct sequence *one(struct bench *b, uint32_t i)
{
    struct sequence *s = sequence_new(&b->table, 40, 5);
    struct sequence_key key = key_of(i);
    struct pool_need need = {{5, 1, 0}};

    assert_non_null(s);
    assert_int_equal(pool_grant(&b->pool, &need, NULL), ST_OK);
    s->need = need;
    sequence_set_key(&b->table, s, &key);
    sequence_set_grant(&b->table, s, i + 1);
    for (; s->n_blocks < 2; s->n_blocks++) {
        uint32_t block;

        assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &block));
        paged_write(&b->table.slab, &s->blocks, s->n_blocks, &block, 1);
    }
    assert_true(pool_take(&b->pool, POOL_SLOTS, 1, &s->slot));
    return s;
}

static void finds_by_key_and_by_grant(void **state)
{
    struct bench *b = *state;
    struct sequence *s[3];
    struct sequence_key key;

    for (uint32_t i = 0; i < 3; i++) {
        s[i] = one(b, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        key = key_of(i);
        assert_ptr_equal(sequence_by_key(&b->table, &key), s[i]);
        assert_ptr_equal(sequence_by_grant(&b->table, i + 1), s[i]);
    }
    key = key_of(3);
    assert_null(sequence_by_key(&b->table, &key));
    assert_null(sequence_by_grant(&b->table, 4));
    sequence_set_grant(&b->table, s[1], 9);
    assert_null(sequence_by_grant(&b->table, 2));
    assert_ptr_equal(sequence_by_grant(&b->table, 9), s[1]);
    sequence_release(&b->table, s[1]);
    sequence_free(&b->table, &s[1]);
    assert_null(s[1]);
    key = key_of(1);
    assert_null(sequence_by_key(&b->table, &key));
    assert_null(sequence_by_grant(&b->table, 9));
    assert_int_equal(audit(b), 0);
}

static void is_full_at_its_capacity(void **state)
{
    struct bench *b = *state;
    struct sequence *s[LIVE];
    uint32_t room = slab_room(&b->table.slab);

    for (int i = 0; i < LIVE; i++) {
        s[i] = sequence_new(&b->table, 1, 1);
        assert_non_null(s[i]);
    }
    assert_null(sequence_new(&b->table, 1, 1));
    for (int i = 0; i < LIVE; i++) {
        sequence_free(&b->table, &s[i]);
    }
    assert_int_equal(slab_room(&b->table.slab), room);
    assert_int_equal(b->table.n_live, 0);
    assert_non_null(sequence_new(&b->table, 1, 1));
}

static void releases_what_is_held_and_promised(void **state)
{
    struct bench *b = *state;
    struct sequence *s = one(b, 0);

    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS)->held, 2);
    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS)->granted, 3);
    sequence_release(&b->table, s);
    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS)->free, 16);
    assert_int_equal(pool_account(&b->pool, POOL_SLOTS)->free, 4);
    sequence_release(&b->table, s); /* nothing left to release */
    assert_int_equal(b->pool.violations, 0);
    assert_int_equal(audit(b), 0);
}

static void numbers_snapshots_of_a_session(void **state)
{
    struct bench *b = *state;
    struct ledger_message m;

    one(b, 0);
    ledger_begin(&b->ledger, 0);
    ledger_fill(&b->ledger, &b->pool, &b->table, &m);
    assert_int_equal(m.ledger.snapshot, 0);
    ledger_begin(&b->ledger, 77);
    b->ledger.grant = 3;
    assert_int_equal(ledger_next_snapshot(&b->ledger), 1);
    ledger_fill(&b->ledger, &b->pool, &b->table, &m);
    assert_int_equal(m.ledger.snapshot, 1);
    ledger_fill(&b->ledger, &b->pool, &b->table, &m);
    assert_int_equal(m.ledger.snapshot, 2);
    assert_int_equal(m.ledger.session, 77);
    assert_int_equal(m.ledger.grant, 3);
    assert_int_equal(m.ledger.blocks->total, 16);
    assert_int_equal(m.ledger.blocks->free, 11);
    assert_int_equal(m.ledger.blocks->held, 2);
    assert_int_equal(m.ledger.blocks->granted, 3);
    assert_int_equal(m.ledger.n_queued, 1); /* it is RECEIVING */
}

static void finds_what_is_put_wrong(void **state)
{
    struct bench *b = *state;
    struct sequence *s = one(b, 0), *t = one(b, 1);
    uint32_t mine = paged_get(&b->table.slab, &s->blocks, 0);
    uint32_t yours = paged_get(&b->table.slab, &t->blocks, 0);

    assert_int_equal(audit(b), 0);
    paged_write(&b->table.slab, &s->blocks, 0, &yours, 1);
    assert_int_equal(audit(b), 2);
    assert_non_null(strstr(b->text, "in two places"));
    assert_non_null(strstr(b->text, "nowhere"));
    paged_write(&b->table.slab, &s->blocks, 0, &mine, 1);
    b->pool.classes[POOL_SLOTS].a.held++;
    assert_int_equal(audit(b), 2); /* held, and the total */
    b->pool.classes[POOL_SLOTS].a.held--;
    s->need.n[POOL_BLOCKS] = 1;
    assert_int_equal(audit(b), 2); /* more than its need, and granted */
    s->need.n[POOL_BLOCKS] = 5;
    b->table.in_state[SEQUENCE_QUEUED]++;
    assert_int_equal(audit(b), 1);
    b->table.in_state[SEQUENCE_QUEUED]--;
    b->pool.classes[POOL_BLOCKS].n_idle--;
    assert_int_equal(audit(b), 2); /* one number leaked, one too few counted */
    b->pool.classes[POOL_BLOCKS].n_idle++;
    assert_int_equal(audit(b), 0);
    assert_int_equal(b->text[0], '\0');
}

static void cuts_a_long_audit(void **state)
{
    struct bench *b = *state;
    char text[24];

    b->pool.classes[POOL_BLOCKS].n_idle = 0;
    memset(text, 'x', sizeof text);
    assert_int_equal(
        ledger_audit(&b->ledger, &b->pool, &b->table, text, sizeof text), 17);
    assert_non_null(memchr(text, '\0', sizeof text));
    assert_int_equal(ledger_audit(&b->ledger, &b->pool, &b->table, NULL, 0),
                     17);
    b->pool.classes[POOL_BLOCKS].n_idle = 16;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_by_key_and_by_grant, begin, end),
        cmocka_unit_test_setup_teardown(is_full_at_its_capacity, begin, end),
        cmocka_unit_test_setup_teardown(releases_what_is_held_and_promised,
                                        begin, end),
        cmocka_unit_test_setup_teardown(numbers_snapshots_of_a_session, begin,
                                        end),
        cmocka_unit_test_setup_teardown(finds_what_is_put_wrong, begin, end),
        cmocka_unit_test_setup_teardown(cuts_a_long_audit, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
