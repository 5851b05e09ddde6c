/* The cache of a stage: its refusals, and the table after a restore. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "worker/stages/stage_cache.h"

#define BT 32u /* 2 blocks a node */

struct world {
    struct pool pool;
    struct sequence_table table;
    struct stage_cache cache;
    struct error e;
};

static struct world *world_new(uint32_t n_pages, bool blocks, bool states)
{
    struct world *w = calloc(1, sizeof *w);
    struct pool_options o = {
        .n_pages = n_pages,
        .pages_per = {blocks, states ? 3 : 0, states ? 3 : 0}};
    struct sequence_limits l = {
        .capacity = 8, .longest = 64, .values = 4096, .n_rings = 1};

    assert_non_null(w);
    assert_true(pool_init(&w->pool, &o, false));
    assert_true(sequence_table_init(&w->table, &l, &w->pool));
    assert_true(stage_cache_init(&w->cache, &w->table, BT));
    return w;
}

static void world_free(struct world *w)
{
    stage_cache_clear(&w->cache);
    while (w->table.all.head != NULL) {
        struct sequence *s = w->table.all.head;

        sequence_release(&w->table, s);
        sequence_free(&w->table, &s);
    }
    assert_int_equal(w->pool.free, w->pool.o.n_pages);
    assert_int_equal(w->pool.violations, 0);
    stage_cache_fini(&w->cache);
    sequence_table_fini(&w->table);
    pool_fini(&w->pool);
    free(w);
}

/* Opens a sequence that has computed [0, end). */
static struct sequence *computed(struct world *w, uint32_t n, uint32_t end)
{
    bool states = w->cache.has_states;
    struct pool_need need = {{w->cache.has_blocks ? n : 0, states, 0}};
    struct sequence *s;

    assert_int_equal(pool_grant(&w->pool, &need, &w->e), ST_OK);
    s = sequence_new(&w->table, 0, need.n[POOL_BLOCKS]);
    assert_non_null(s);
    s->memory.need = need;
    assert_int_equal(stage_cache_take(&w->cache, s, end, &w->e), ST_OK);
    if (end > 0 && states) {
        assert_true(pool_take(&w->pool, POOL_SLOTS, 1, &s->memory.slot));
    }
    return s;
}

static uint32_t block(const struct world *w, const struct sequence *s,
                      uint32_t i)
{
    return paged_get(&w->table.slab, &s->memory.blocks, i);
}

static void keep(struct world *w, const struct sequence *s, uint32_t node,
                 uint32_t parent, uint32_t end)
{
    if (stage_cache_keep(&w->cache, s, node, parent, end, &w->e) != ST_OK) {
        fail_msg("%s", w->e.text);
    }
}

static struct stage_restore to_node(uint32_t position, uint32_t node,
                                    uint32_t checkpoint)
{
    return (struct stage_restore){
        .position = position, .node = node, .checkpoint = checkpoint};
}

static void refused(struct world *w, enum status st, enum status expected,
                    const char *text)
{
    assert_int_equal(st, expected);
    if (strstr(w->e.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", w->e.text, text);
    }
}

static void shares_the_blocks_of_a_path(void **state)
{
    struct world *w = world_new(40, true, true);
    struct sequence *a = computed(w, 6, 150), *b = computed(w, 6, 0);
    struct stage_restore r = to_node(128, 9, 77);
    struct stage_copies copies;
    uint32_t page, free_before;

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    keep(w, a, 9, 5, 128);
    assert_int_equal(stage_cache_save(&w->cache, 77, &page, &w->e), ST_OK);
    free_before = w->pool.free;
    assert_int_equal(stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
                     ST_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(block(w, a, i), block(w, b, i));
    }
    assert_int_equal(b->memory.n_blocks, 4);
    assert_int_equal(w->pool.free, free_before + 4); /* of its grant */
    assert_int_equal(copies.of[0].from, page);
    assert_int_equal(copies.of[0].to, b->memory.slot);
    assert_int_equal(copies.of[0].n, 3);
    /* Again: it has the blocks already. */
    assert_int_equal(stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(w->pool.free, free_before + 4);
    world_free(w);
}

/* A sequence that computed the blocks before it was kept anew. */
static void replaces_its_own_blocks(void **state)
{
    struct world *w = world_new(40, true, false);
    struct sequence *a = computed(w, 4, 128), *b = computed(w, 4, 128);
    struct stage_restore r = to_node(64, 5, NAME_NONE);
    struct stage_copies copies;
    uint32_t last = block(w, b, 2), free_before = w->pool.free;

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    assert_int_equal(stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(copies.n, 0);
    assert_int_equal(block(w, a, 1), block(w, b, 1));
    assert_int_equal(block(w, b, 2), last);
    assert_int_equal(b->memory.n_blocks, 4);
    assert_int_equal(w->pool.free, free_before + 2);
    world_free(w);
}

static void keeps_blocks_after_their_sequence(void **state)
{
    struct world *w = world_new(10, true, false);
    struct sequence *a = computed(w, 4, 128);

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    sequence_release(&w->table, a);
    assert_int_equal(w->pool.cached.n[POOL_BLOCKS], 2);
    assert_int_equal(w->pool.free, 8);
    assert_int_equal(stage_cache_gone_node(&w->cache, 5, &w->e), ST_OK);
    assert_int_equal(w->pool.free, 10);
    world_free(w);
}

static void refuses_an_unknown_name(void **state)
{
    struct world *w = world_new(40, true, true);
    struct sequence *a = computed(w, 4, 128), *b = computed(w, 4, 0);
    struct stage_restore r = to_node(128, 9, 77);
    struct stage_copies copies;
    uint32_t page;

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_NOT_FOUND, "node 9, for positions below 128, is not kept");
    r.node = 5;
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_INVALID_ARGUMENT, "node 5 ends at 64, not at 128");
    r.position = 63;
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_INVALID_ARGUMENT, "no node ends at 63");
    r.position = 64;
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_NOT_FOUND, "checkpoint 77 is not kept");
    refused(w, stage_cache_gone_node(&w->cache, 6, &w->e), ST_NOT_FOUND,
            "node 6 is not kept");
    refused(w, stage_cache_gone_checkpoint(&w->cache, 6, &w->e), ST_NOT_FOUND,
            "checkpoint 6 is not kept");
    assert_int_equal(stage_cache_save(&w->cache, 6, &page, &w->e), ST_OK);
    refused(w, stage_cache_save(&w->cache, 6, &page, &w->e), ST_ALREADY_EXISTS,
            "checkpoint 6 is kept already");
    assert_int_equal(b->memory.n_blocks, 0);
    assert_int_equal(b->memory.slot, SLOT_NONE);
    world_free(w);
}

static void refuses_a_node_out_of_place(void **state)
{
    struct world *w = world_new(40, true, false);
    struct sequence *a = computed(w, 4, 128), *b = computed(w, 4, 64);
    struct stage_cache *c = &w->cache;

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    refused(w, stage_cache_keep(c, b, 5, NAME_NONE, 64, &w->e),
            ST_ALREADY_EXISTS, "node 5 is kept already");
    refused(w, stage_cache_keep(c, a, 6, NAME_NONE, 64, &w->e),
            ST_INVALID_ARGUMENT, "where another node has the blocks");
    refused(w, stage_cache_keep(c, a, 6, NAME_NONE, 128, &w->e),
            ST_INVALID_ARGUMENT, "node 6 ends at 128 and has no parent");
    refused(w, stage_cache_keep(c, a, 6, 5, 64, &w->e), ST_INVALID_ARGUMENT,
            "node 6 ends at 64 and has a parent");
    refused(w, stage_cache_keep(c, a, 6, 5, 100, &w->e), ST_INVALID_ARGUMENT,
            "node 6 ends at 100");
    refused(w, stage_cache_keep(c, a, 6, 4, 128, &w->e), ST_NOT_FOUND,
            "its parent 4 does not end at 64");
    refused(w, stage_cache_keep(c, b, 6, 5, 128, &w->e), ST_INVALID_ARGUMENT,
            "node 6 ends at 128, but the sequence has 2 blocks");
    assert_int_equal(w->cache.nodes.n, 1);
    world_free(w);
}

static void takes_over_another_sequence(void **state)
{
    struct world *w = world_new(40, true, true);
    struct sequence *a = computed(w, 4, 100), *b = computed(w, 6, 0);
    struct stage_restore r = to_node(100, NAME_NONE, NAME_NONE);
    uint32_t slot = a->memory.slot, last = block(w, a, 3),
             free_before = w->pool.free;
    struct stage_copies copies;

    (void)state;
    r.from = a;
    assert_int_equal(stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(b->memory.slot, slot);
    assert_int_equal(a->memory.slot, SLOT_NONE);
    assert_int_equal(block(w, b, 3), last);
    assert_int_equal(w->pool.free, free_before + 4 + 3);
    sequence_release(&w->table, a);
    assert_int_equal(w->pool.blocks[last].refs, 1);
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_INVALID_ARGUMENT, "it has 4 blocks already");
    world_free(w);
}

/* A range was removed in the middle of a block that the index has. */
static void copies_a_block_that_others_have(void **state)
{
    struct world *w = world_new(40, true, false);
    struct sequence *a = computed(w, 4, 128), *b = computed(w, 6, 0);
    struct stage_restore r = to_node(50, NAME_NONE, NAME_NONE);
    struct stage_copies copies;
    uint32_t free_before;

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    r.cut = true;
    assert_int_equal(stage_cache_restore(&w->cache, a, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(a->memory.n_blocks, 2);
    r.cut = false;
    r.from = a;
    free_before = w->pool.free;
    assert_int_equal(stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(b->memory.n_blocks, 2);
    assert_int_equal(block(w, a, 0), block(w, b, 0));
    assert_int_not_equal(block(w, a, 1), block(w, b, 1));
    assert_int_equal(w->pool.free, free_before + 1);
    assert_int_equal(copies.n, 1);
    assert_int_equal(copies.of[0].from, pool_page(&w->pool, block(w, a, 1)));
    assert_int_equal(copies.of[0].to, pool_page(&w->pool, block(w, b, 1)));
    world_free(w);
}

static void refuses_to_take_over_what_is_not_there(void **state)
{
    struct world *w = world_new(60, true, true);
    struct sequence *a = computed(w, 4, 64), *b = computed(w, 6, 0);
    struct sequence *c = computed(w, 4, 0), *d = computed(w, 1, 0);
    struct stage_restore r = to_node(65, NAME_NONE, NAME_NONE);
    struct stage_copies copies;

    (void)state;
    r.from = a;
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_INVALID_ARGUMENT, "it takes over 3 blocks and a state");
    r.position = 64;
    refused(w, stage_cache_restore(&w->cache, d, &r, &copies, &w->e),
            ST_RESOURCE_EXHAUSTED, "after 2 blocks, but 1 are granted");
    r.position = 0;
    r.from = c;
    refused(w, stage_cache_restore(&w->cache, b, &r, &copies, &w->e),
            ST_INVALID_ARGUMENT, "has 0 blocks and no state");
    world_free(w);
}

static void cuts_a_range(void **state)
{
    struct world *w = world_new(40, true, true);
    struct sequence *a = computed(w, 6, 150);
    struct stage_restore r = to_node(70, NAME_NONE, 3);
    struct stage_copies copies;
    uint32_t page;

    (void)state;
    assert_int_equal(stage_cache_save(&w->cache, 3, &page, &w->e), ST_OK);
    r.cut = true;
    assert_int_equal(stage_cache_restore(&w->cache, a, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(a->memory.n_blocks, 3);
    assert_int_equal(a->memory.need.n[POOL_BLOCKS], 3);
    assert_int_equal(copies.of[0].to, a->memory.slot);
    assert_int_equal(w->pool.free, 40 - 3 - 3 - 3);
    r = to_node(0, NAME_NONE, NAME_NONE);
    r.cut = true;
    assert_int_equal(stage_cache_restore(&w->cache, a, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(a->memory.slot, SLOT_NONE);
    assert_int_equal(w->pool.free, 40 - 3);
    world_free(w);
}

static void a_twin_shares_full_blocks(void **state)
{
    struct world *w = world_new(40, true, true);
    struct sequence *a = computed(w, 4, 70), *b = computed(w, 4, 0);
    uint32_t free_before = w->pool.free;

    (void)state;
    assert_int_equal(stage_cache_twin(&w->cache, a, b, 70, &w->e), ST_OK);
    assert_int_equal(b->memory.n_blocks, 2);
    assert_int_equal(block(w, a, 1), block(w, b, 1));
    assert_int_equal(w->pool.free, free_before + 2);
    refused(w, stage_cache_twin(&w->cache, a, b, 70, &w->e),
            ST_INVALID_ARGUMENT, "a twin with 2 blocks of a source with 3");
    world_free(w);
}

static void ignores_a_class_that_the_stage_lacks(void **state)
{
    struct world *w = world_new(12, false, true);
    struct sequence *a = computed(w, 4, 128);
    struct stage_restore r = to_node(128, 9, 4);
    struct stage_copies copies;
    uint32_t page;

    (void)state;
    keep(w, a, 9, 5, 128); /* whatever its parent */
    assert_int_equal(w->cache.nodes.n, 0);
    assert_int_equal(stage_cache_gone_node(&w->cache, 9, &w->e), ST_OK);
    assert_int_equal(stage_cache_save(&w->cache, 4, &page, &w->e), ST_OK);
    assert_int_equal(stage_cache_restore(&w->cache, a, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(copies.of[0].from, page);
    world_free(w);

    w = world_new(12, true, false);
    a = computed(w, 4, 128);
    assert_int_equal(stage_cache_save(&w->cache, 4, &page, &w->e), ST_OK);
    assert_int_equal(page, SLOT_NONE);
    assert_int_equal(stage_cache_gone_checkpoint(&w->cache, 9, &w->e), ST_OK);
    keep(w, a, 9, NAME_NONE, 64);
    r = to_node(64, 9, 4);
    assert_int_equal(stage_cache_restore(&w->cache, a, &r, &copies, &w->e),
                     ST_OK);
    assert_int_equal(copies.n, 0);
    world_free(w);
}

static void takes_as_many_checkpoints_as_fit(void **state)
{
    struct world *w = world_new(7, false, true);
    uint32_t page;

    (void)state;
    assert_int_equal(stage_cache_save(&w->cache, 1, &page, &w->e), ST_OK);
    assert_int_equal(stage_cache_save(&w->cache, 2, &page, &w->e), ST_OK);
    refused(w, stage_cache_save(&w->cache, 3, &page, &w->e),
            ST_RESOURCE_EXHAUSTED,
            "no room for checkpoint 3: 1 pages are free, it takes 3");
    world_free(w);
}

struct tally {
    uint32_t n[POOL_CLASSES];
};

static void count(void *ctx, enum pool_class c, uint32_t number)
{
    (void)number;
    ((struct tally *)ctx)->n[c]++;
}

static void walks_over_everything(void **state)
{
    struct world *w = world_new(40, true, true);
    struct sequence *a = computed(w, 4, 128);
    struct tally t = {{0}};
    uint32_t page;

    (void)state;
    keep(w, a, 5, NAME_NONE, 64);
    keep(w, a, 0, 5, 128);
    assert_int_equal(stage_cache_save(&w->cache, 1, &page, &w->e), ST_OK);
    stage_cache_walk(&w->cache, count, &t);
    assert_int_equal(t.n[POOL_BLOCKS], 4);
    assert_int_equal(t.n[POOL_CHECKPOINTS], 1);
    stage_cache_clear(&w->cache);
    stage_cache_walk(&w->cache, count, &t);
    assert_int_equal(t.n[POOL_BLOCKS], 4);
    keep(w, a, 0, NAME_NONE, 64);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_the_blocks_of_a_path),
        cmocka_unit_test(replaces_its_own_blocks),
        cmocka_unit_test(keeps_blocks_after_their_sequence),
        cmocka_unit_test(refuses_an_unknown_name),
        cmocka_unit_test(refuses_a_node_out_of_place),
        cmocka_unit_test(takes_over_another_sequence),
        cmocka_unit_test(copies_a_block_that_others_have),
        cmocka_unit_test(refuses_to_take_over_what_is_not_there),
        cmocka_unit_test(cuts_a_range),
        cmocka_unit_test(a_twin_shares_full_blocks),
        cmocka_unit_test(ignores_a_class_that_the_stage_lacks),
        cmocka_unit_test(takes_as_many_checkpoints_as_fit),
        cmocka_unit_test(walks_over_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
