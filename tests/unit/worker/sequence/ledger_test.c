/* Sequences, the ledger, and an audit that finds planted errors. */
#include "worker/sequence/ledger.h"

#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"

#define LIVE 4

struct bench {
    struct pool pool;
    struct sequence_table table;
    struct ledger ledger;
    struct prefix *index;
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
    struct pool_options o = {.n_pages = 20, .pages_per = {1, 1, 1}};
    struct prefix_options x = {.block_tokens = 64,
                               .n_nodes = 16,
                               .has_blocks = true,
                               .has_states = true,
                               .checkpoint_share = 1,
                               .tenant_share = 1,
                               .on = true};
    struct sequence_limits l = {
        .capacity = LIVE, .longest = 64, .values = 512, .hash_seed = 1};

    assert_true(pool_init(&b.pool, &o, false));
    assert_true(prefix_init(&b.index, &x, &b.pool));
    assert_true(sequence_table_init(&b.table, &l, &b.pool));
    assert_true(ledger_init(&b.ledger, &b.pool, b.index));
    *state = &b;
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;

    ledger_fini(&b->ledger);
    sequence_table_fini(&b->table);
    prefix_free(&b->index);
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
    s->memory.need = need;
    sequence_set_key(&b->table, s, &key);
    sequence_set_grant(&b->table, s, i + 1);
    for (; s->memory.n_blocks < 2; s->memory.n_blocks++) {
        uint32_t block;

        assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &block));
        paged_write(&b->table.slab, &s->memory.blocks, s->memory.n_blocks,
                    &block, 1);
    }
    assert_true(pool_take(&b->pool, POOL_SLOTS, 1, &s->memory.slot));
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

    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS).held, 2);
    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS).granted, 3);
    sequence_release(&b->table, s);
    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS).free, 20);
    assert_int_equal(pool_account(&b->pool, POOL_SLOTS).free, 20);
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
    assert_int_equal(m.ledger.blocks->total, 20);
    assert_int_equal(m.ledger.blocks->free, 14);
    assert_int_equal(m.ledger.blocks->held, 2);
    assert_int_equal(m.ledger.blocks->granted, 3);
    assert_int_equal(m.ledger.n_queued, 1); /* it is RECEIVING */
}

static void finds_what_is_put_wrong(void **state)
{
    struct bench *b = *state;
    struct sequence *s = one(b, 0), *t = one(b, 1);
    uint32_t mine = paged_get(&b->table.slab, &s->memory.blocks, 0);
    uint32_t yours = paged_get(&b->table.slab, &t->memory.blocks, 0);

    assert_int_equal(audit(b), 0);
    paged_write(&b->table.slab, &s->memory.blocks, 0, &yours, 1);
    assert_int_equal(audit(b), 3); /* both references, and held */
    assert_non_null(strstr(b->text, "has 1 references, found 2"));
    assert_non_null(strstr(b->text, "has 1 references, found 0"));
    paged_write(&b->table.slab, &s->memory.blocks, 0, &mine, 1);
    b->pool.held.n[POOL_SLOTS]++;
    assert_int_equal(audit(b), 2); /* held, and the total */
    b->pool.held.n[POOL_SLOTS]--;
    s->memory.need.n[POOL_BLOCKS] = 1;
    assert_int_equal(audit(b), 2); /* more than its need, and granted */
    s->memory.need.n[POOL_BLOCKS] = 5;
    b->table.in_state[SEQUENCE_QUEUED]++;
    assert_int_equal(audit(b), 1);
    b->table.in_state[SEQUENCE_QUEUED]--;
    b->pool.n_idle--;
    assert_int_equal(audit(b), 2); /* nowhere, and without a page */
    assert_non_null(strstr(b->text, "nowhere"));
    b->pool.n_idle++;
    b->pool.blocks[mine].indexed = true;
    assert_int_equal(audit(b), 1);
    b->pool.blocks[mine].indexed = false;
    b->pool.blocks[mine].page++;
    assert_int_equal(audit(b), 2); /* seen from the block and from the page */
    b->pool.blocks[mine].page--;
    assert_int_equal(audit(b), 0);
    assert_int_equal(b->text[0], '\0');
}

static void cuts_a_long_audit(void **state)
{
    struct bench *b = *state;
    char text[24];
    uint32_t n;

    b->pool.n_idle = 0;
    memset(text, 'x', sizeof text);
    n = ledger_audit(&b->ledger, &b->pool, &b->table, text, sizeof text);
    assert_int_equal(n, 40);
    assert_non_null(memchr(text, '\0', sizeof text));
    assert_int_equal(ledger_audit(&b->ledger, &b->pool, &b->table, NULL, 0), n);
    b->pool.n_idle = 20;
}

/* Two sequences share the first block of the first one. */
static void shared_blocks_have_a_reference_each(void **state)
{
    struct bench *b = *state;
    struct sequence *s = one(b, 0), *t = one(b, 1);
    uint32_t block = paged_get(&b->table.slab, &s->memory.blocks, 0);

    pool_share(&b->pool, block, true);
    paged_write(&b->table.slab, &t->memory.blocks, t->memory.n_blocks++, &block,
                1);
    assert_int_equal(audit(b), 0);
    sequence_release(&b->table, s);
    assert_int_equal(audit(b), 0);
    assert_int_equal(pool_account(&b->pool, POOL_BLOCKS).held, 3);
    sequence_release(&b->table, t);
    assert_int_equal(audit(b), 0);
    assert_int_equal(pool_pages(&b->pool).free, 20);
    assert_int_equal(b->pool.violations, 0);
}

static void index_and_reservations_are_owned(void **state)
{
    struct bench *b = *state;
    struct sequence *s = one(b, 0);
    uint32_t checkpoint, block;
    struct paged tokens;

    assert_true(paged_make(&b->table.slab, &tokens, 64));
    for (uint32_t i = 0; i < 64; i++) {
        paged_write(&b->table.slab, &tokens, i, &i, 1);
    }
    block = paged_get(&b->table.slab, &s->memory.blocks, 0);
    assert_true(prefix_reserve(b->index, &checkpoint));
    assert_int_equal(audit(b), 0);
    prefix_put(b->index,
               prefix_insert(b->index, "", 0, &b->table.slab, &tokens,
                             &s->memory.blocks, 64),
               checkpoint);
    assert_int_equal(audit(b), 0);
    sequence_release(&b->table, s);
    assert_int_equal(audit(b), 0);
    assert_int_equal(pool_pages(&b->pool).cached, 2);
    assert_int_equal(ledger_reap(&b->ledger, &b->pool, &b->table), 0);
    /* The index does not have it any more. */
    prefix_clear(b->index);
    assert_int_equal(pool_pages(&b->pool).free, 20);
    assert_false(b->pool.blocks[block].indexed);
    paged_free(&b->table.slab, &tokens);
}

static void leaks_are_reaped(void **state)
{
    struct bench *b = *state;
    struct sequence *s = one(b, 0);
    struct pool_need need = {{3, 1, 0}};
    uint32_t block, slot, checkpoint;

    /* Nothing owns them: a block, another one's second reference, a slot, a
     * checkpoint, an indexed block, and two granted blocks. */
    assert_int_equal(pool_grant(&b->pool, &need, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &block));
    assert_true(pool_take(&b->pool, POOL_SLOTS, 1, &slot));
    assert_true(pool_cache(&b->pool, &checkpoint));
    pool_index(&b->pool, block);
    pool_share(&b->pool, paged_get(&b->table.slab, &s->memory.blocks, 0),
               false);
    assert_true(audit(b) > 0);
    assert_int_equal(b->pool.violations, 0);
    assert_int_equal(ledger_reap(&b->ledger, &b->pool, &b->table), 7);
    assert_int_equal(b->pool.violations, 6); /* grants of a class are one */
    assert_int_equal(b->ledger.leaks, 7);
    assert_int_equal(audit(b), 0);
    assert_int_equal(ledger_reap(&b->ledger, &b->pool, &b->table), 0);
    sequence_release(&b->table, s);
    assert_int_equal(pool_pages(&b->pool).free, 20);
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
        cmocka_unit_test_setup_teardown(shared_blocks_have_a_reference_each,
                                        begin, end),
        cmocka_unit_test_setup_teardown(index_and_reservations_are_owned, begin,
                                        end),
        cmocka_unit_test_setup_teardown(leaks_are_reaped, begin, end),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
