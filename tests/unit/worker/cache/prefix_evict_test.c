/* The order of eviction, and the limits of the prefix index. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/cache/prefix_bench.h"

static uint32_t text[8192];

static const struct bench_options hybrid = {
    .n_pages = 400, .pages_per_slot = 8, .block_tokens = 16, .n_nodes = 100};
static const struct bench_options attention = {
    .n_pages = 64, .block_tokens = 16, .n_nodes = 32, .no_states = true};

/* Runs prompt `what` of n tokens; returns what was reused. */
static uint32_t run(struct bench *b, const char *tenant, uint32_t what,
                    uint32_t n)
{
    bench_text(text, n, what);
    return bench_run(b, tenant, text, n);
}

static struct prefix_hit find(struct bench *b, const char *tenant,
                              uint32_t what, uint32_t n)
{
    bench_text(text, n, what);
    return bench_match(b, tenant, text, n);
}

/* Evicts until n pages more than now are free. */
static void make_room(struct bench *b, uint32_t n, uint32_t spare)
{
    struct pool_need need = {{pool_pages(&b->pool).free + n, 0, 0}};

    prefix_make_room(b->x, &need, spare);
}

/* ---- order ---- */

static void blocks_that_lead_to_no_state_go_first(void **state)
{
    struct request r;
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, 300);
    bench_text(text, 300, 2);
    assert_true(bench_start(&b, &r, "", text, 300));
    bench_failed(&b, &r); /* no state */
    bench_computed(&b, &r);
    bench_stop(&b, &r);
    assert_int_equal(find(&b, "", 2, 300).branch, 256);
    make_room(&b, 16, PREFIX_NONE);
    assert_int_equal(find(&b, "", 2, 300).branch, 0);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 256);
    bench_end(&b);
}

static void an_earlier_turn_goes_before_another_session(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, 300);
    run(&b, "", 2, 300);
    assert_int_equal(run(&b, "", 2, 600), 256); /* the session went on */
    make_room(&b, 16, PREFIX_NONE); /* also its state on the grid, at 512 */
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 256);
    assert_int_equal(find(&b, "", 2, 600).n_tokens, 576);
    assert_int_equal(find(&b, "", 2, 300).n_tokens, 0);
    bench_end(&b);
}

static void what_is_used_stays(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, 300);
    run(&b, "", 2, 300);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 256);
    make_room(&b, 8, PREFIX_NONE);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 256);
    assert_int_equal(find(&b, "", 2, 300).n_tokens, 0);
    bench_end(&b);
}

/* Turn 1 restores the state at 256 twice; later its turns restore deeper ones,
 * ten times each. */
static void only_the_state_that_is_restored_counts_as_used(void **state)
{
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.n_pages = 200;
    bench_begin(&b, &o);
    run(&b, "", 1, 300);
    for (uint32_t turn = 2; turn < 4; turn++) {
        bench_text(text, 300, 1);
        bench_text(text + 300, 200, turn);
        assert_int_equal(bench_run(&b, "", text, 500), 256);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(bench_match(&b, "", text, 500).n_tokens, 448);
        }
    }
    run(&b, "", 9, 300);
    for (int i = 0; i < 12; i++) {
        find(&b, "", 9, 300);
    }
    make_room(&b, 8, PREFIX_NONE);
    assert_int_equal(find(&b, "", 9, 300).n_tokens, 256);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 0);
    bench_end(&b);
}

/* However often it was used, if that is long ago. */
static void what_was_used_long_ago_goes(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, 300);
    for (uint32_t i = 0; i < 4; i++) {
        find(&b, "", 1, 300);
    }
    for (uint32_t i = 0; i < 400; i++) {
        run(&b, "", 10 + i, 300);
        find(&b, "", 10 + i, 300);
    }
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 0);
    assert_int_equal(find(&b, "", 409, 300).n_tokens, 256);
    bench_end(&b);
}

static void dear_states_stay_before_cheap_ones(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, 500);
    run(&b, "", 2, 100);
    make_room(&b, 8, PREFIX_NONE);
    assert_int_equal(find(&b, "", 1, 500).n_tokens, 448);
    assert_int_equal(find(&b, "", 2, 100).n_tokens, 0);
    bench_end(&b);
}

static void what_is_spared_goes_last(void **state)
{
    struct bench b;
    struct prefix_hit cheap;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, 500);
    run(&b, "", 2, 100);
    cheap = find(&b, "", 2, 100);
    make_room(&b, 8, cheap.node);
    assert_int_equal(find(&b, "", 1, 500).n_tokens, 0);
    assert_int_equal(find(&b, "", 2, 100).n_tokens, 64);
    make_room(&b, pool_pages(&b.pool).cached, cheap.node);
    assert_int_equal(pool_pages(&b.pool).cached, 0);
    bench_end(&b);
}

static void without_states_the_end_of_a_path_goes_first(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &attention);
    run(&b, "", 1, 300);
    make_room(&b, 4, PREFIX_NONE);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 192);
    make_room(&b, 4, PREFIX_NONE);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 128);
    bench_end(&b);
}

static void what_is_held_is_not_evicted(void **state)
{
    struct request r;
    struct bench b;

    (void)state;
    bench_begin(&b, &attention);
    bench_text(text, 300, 1);
    assert_true(bench_start(&b, &r, "", text, 300));
    bench_computed(&b, &r);
    run(&b, "", 2, 300);
    make_room(&b, 64, PREFIX_NONE);
    assert_int_equal(pool_pages(&b.pool).cached, 0);
    assert_int_equal(pool_pages(&b.pool).held, 19);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 256);
    assert_int_equal(find(&b, "", 2, 300).n_tokens, 0);
    bench_stop(&b, &r);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 256);
    bench_end(&b);
}

/* B97.11: two prompts that share units have states of their own. */
static void a_shared_path_leaks_no_state(void **state)
{
    struct bench b;
    struct prefix_hit first, second;

    (void)state;
    bench_begin(&b, &hybrid);
    bench_text(text, 300, 1);
    bench_run(&b, "", text, 140);
    bench_run(&b, "", text, 300);
    first = bench_match(&b, "", text, 140);
    second = bench_match(&b, "", text, 300);
    assert_int_equal(first.n_tokens, 128);
    assert_int_equal(second.n_tokens, 256);
    assert_int_not_equal(first.checkpoint, second.checkpoint);
    bench_end(&b);
}

/* ---- limits ---- */

static void a_tenant_keeps_its_share(void **state)
{
    struct bench_options o = attention;
    struct bench b;

    (void)state;
    o.tenant_share = 0.25f; /* 16 pages, 4 units */
    bench_begin(&b, &o);
    run(&b, "other", 9, 257);
    run(&b, "a", 1, 257);
    assert_int_equal(find(&b, "a", 1, 257).n_tokens, 256);
    run(&b, "a", 2, 129); /* two units of the first go */
    assert_int_equal(find(&b, "a", 1, 257).n_tokens, 128);
    assert_int_equal(find(&b, "a", 2, 129).n_tokens, 128);
    run(&b, "a", 3, 321); /* one unit more than its share */
    assert_int_equal(find(&b, "a", 3, 321).n_tokens, 256);
    assert_int_equal(find(&b, "a", 1, 257).n_tokens, 0);
    assert_int_equal(find(&b, "other", 9, 257).n_tokens, 256);
    bench_end(&b);
}

/* A client chooses the salts of its requests. */
static void salts_share_the_share_of_their_tenant(void **state)
{
    struct bench_options o = attention;
    struct bench b;

    (void)state;
    o.tenant_share = 0.25f; /* 16 pages, 4 units */
    bench_begin(&b, &o);
    run(&b, "other", 9, 257);
    run(&b, "ab", 9, 257); /* the name of one begins with that of another */
    run(&b, "a", 1, 129);
    run(&b, "a|x", 1, 129);
    run(&b, "a|y", 1, 129);
    assert_int_equal(find(&b, "a|y", 1, 129).n_tokens, 128);
    assert_int_equal(
        find(&b, "a", 1, 129).n_tokens + find(&b, "a|x", 1, 129).n_tokens, 128);
    assert_int_equal(find(&b, "other", 9, 257).n_tokens, 256);
    assert_int_equal(find(&b, "ab", 9, 257).n_tokens, 256);
    bench_end(&b);
}

static void states_keep_their_share(void **state)
{
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.checkpoint_share = 0.1f; /* 40 pages, 5 states */
    bench_begin(&b, &o);
    for (uint32_t i = 0; i < 5; i++) {
        run(&b, "", i, 100);
    }
    assert_int_equal(prefix_figures(b.x).n_checkpoints, 5);
    assert_int_equal(prefix_figures(b.x).evicted_checkpoints, 0);
    run(&b, "", 5, 100);
    assert_int_equal(prefix_figures(b.x).n_checkpoints, 5);
    assert_int_equal(prefix_figures(b.x).evicted_checkpoints, 1);
    assert_int_equal(find(&b, "", 5, 100).n_tokens, 64);
    bench_end(&b);
}

static void nodes_are_limited(void **state)
{
    struct bench_options o = attention;
    struct bench b;

    (void)state;
    o.n_nodes = 4;
    bench_begin(&b, &o);
    run(&b, "", 1, 257);
    assert_int_equal(find(&b, "", 1, 257).n_tokens, 256);
    run(&b, "", 2, 65);
    assert_int_equal(find(&b, "", 1, 257).n_tokens, 192);
    assert_int_equal(find(&b, "", 2, 65).n_tokens, 64);
    run(&b, "", 3, 321); /* one unit more than there are nodes */
    assert_int_equal(find(&b, "", 3, 321).n_tokens, 256);
    assert_int_equal(prefix_figures(b.x).n_nodes, 4);
    bench_end(&b);
}

static void tenants_are_limited(void **state)
{
    struct bench_options o = {.n_pages = 2048,
                              .block_tokens = 64,
                              .n_nodes = 2048,
                              .no_states = true};
    struct bench b;
    char name[16];

    (void)state;
    bench_begin(&b, &o);
    for (uint32_t i = 0; i < PREFIX_TENANTS_MAX; i++) {
        snprintf(name, sizeof name, "t%u", i);
        run(&b, name, 1, 65);
    }
    assert_int_equal(find(&b, "t0", 1, 65).n_tokens, 64); /* t1 is older now */
    run(&b, "one more", 1, 65);
    assert_int_equal(find(&b, "one more", 1, 65).n_tokens, 64);
    assert_int_equal(find(&b, "t0", 1, 65).n_tokens, 64);
    assert_int_equal(find(&b, "t1", 1, 65).n_tokens, 0);
    assert_int_equal(find(&b, "t2", 1, 65).n_tokens, 64);
    assert_int_equal(prefix_figures(b.x).n_nodes, PREFIX_TENANTS_MAX);
    bench_end(&b);
}

/* Many salts of one tenant push out its own prefixes only. */
static void salts_push_out_no_other_tenant(void **state)
{
    struct bench_options o = {.n_pages = 2048,
                              .block_tokens = 64,
                              .n_nodes = 2048,
                              .no_states = true};
    struct bench b;
    char salt[16];

    (void)state;
    bench_begin(&b, &o);
    run(&b, "other", 1, 65);
    for (uint32_t i = 0; i < 2 * PREFIX_TENANTS_MAX; i++) {
        snprintf(salt, sizeof salt, "a|%u", i);
        run(&b, salt, 1, 65);
    }
    assert_int_equal(find(&b, "other", 1, 65).n_tokens, 64);
    assert_int_equal(run(&b, salt, 1, 65), 64);
    assert_int_equal(prefix_figures(b.x).n_tenants, PREFIX_TENANTS_MAX);
    bench_end(&b);
}

static void names_of_tenants_are_limited(void **state)
{
    struct bench b;
    char name[PREFIX_SCOPE_MAX + 2];

    (void)state;
    bench_begin(&b, &attention);
    memset(name, 'x', sizeof name);
    name[PREFIX_SCOPE_MAX + 1] = '\0';
    run(&b, name, 1, 65);
    assert_int_equal(find(&b, name, 1, 65).n_tokens, 0);
    name[PREFIX_SCOPE_MAX] = '\0';
    run(&b, name, 1, 65);
    assert_int_equal(find(&b, name, 1, 65).n_tokens, 64);
    bench_end(&b);
}

static void events_are_limited(void **state)
{
    struct bench_options o = {.n_pages = PREFIX_EVENTS_MAX + 64,
                              .block_tokens = 64,
                              .n_nodes = PREFIX_EVENTS_MAX + 64,
                              .no_states = true};
    static struct prefix_event events[PREFIX_EVENTS_MAX + 64];
    bool snapshot, more;
    struct bench b;
    uint32_t n;

    (void)state;
    bench_begin(&b, &o);
    assert_int_equal(prefix_events(b.x, events, 8, &n, &snapshot, &more), 1);
    assert_true(snapshot && !more && n == 0);
    for (uint32_t i = 0; i < PREFIX_EVENTS_MAX; i++) {
        run(&b, "", i, 65);
    }
    assert_int_equal(
        prefix_events(b.x, events, PREFIX_EVENTS_MAX, &n, &snapshot, &more), 1);
    assert_true(!snapshot && !more && n == PREFIX_EVENTS_MAX);
    prefix_clear(b.x); /* as many */
    run(&b, "", 1, 65);
    assert_int_equal(
        prefix_events(b.x, events, PREFIX_EVENTS_MAX, &n, &snapshot, &more),
        PREFIX_EVENTS_MAX + 1);
    assert_true(snapshot && !more && n == 1);
    bench_end(&b);
}

/* ---- other stages ---- */

static uint32_t n_gone, n_fits;

static bool fits(void *self, const struct pool_need *need)
{
    (void)self;
    (void)need;
    return n_gone >= n_fits;
}

static void gone(void *self, uint32_t node, uint32_t checkpoint)
{
    (void)self;
    (void)checkpoint;
    n_gone += node != PREFIX_NONE;
}

static void evicts_until_the_other_stages_have_room(void **state)
{
    struct prefix_watch w = {.gone = gone, .fits = fits};
    struct bench b;

    (void)state;
    n_gone = n_fits = 0;
    bench_begin(&b, &attention);
    prefix_set_watch(b.x, &w);
    run(&b, "", 1, 300);
    n_fits = 3;
    make_room(&b, 0, PREFIX_NONE);
    assert_int_equal(n_gone, 3);
    assert_int_equal(find(&b, "", 1, 300).n_tokens, 64);
    bench_end(&b);
}

/* This stage has no linear layers, another one has. */
static void states_of_other_stages_are_mere_numbers(void **state)
{
    struct bench b;
    struct request r;
    uint32_t checkpoint, other, node;

    (void)state;
    bench_begin(&b, &attention);
    prefix_set_classes(b.x, true, true);
    bench_text(text, 300, 1);
    assert_true(bench_start(&b, &r, "", text, 300));
    assert_true(prefix_reserve(b.x, &checkpoint));
    assert_true(prefix_reserve(b.x, &other));
    assert_int_not_equal(checkpoint, other);
    node = prefix_insert(b.x, "", 0, &b.slab, &r.ids, &r.blocks, 256);
    assert_int_equal(bench_match(&b, "", text, 300).n_tokens, 0);
    prefix_put(b.x, node, checkpoint);
    prefix_drop(b.x, other);
    assert_int_equal(bench_match(&b, "", text, 300).n_tokens, 256);
    assert_int_equal(bench_match(&b, "", text, 300).checkpoint, checkpoint);
    bench_stop(&b, &r);
    prefix_clear(b.x);
    assert_int_equal(pool_pages(&b.pool).free, 64);
    bench_end(&b);
}

static void a_new_key_renames_everything(void **state)
{
    struct prefix_key key = {{7}};
    struct prefix_event before[8], after[8];
    bool snapshot, more;
    struct bench b;
    uint32_t n;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "a", 1, 300);
    run(&b, "", 2, 300);
    prefix_events(b.x, before, 8, &n, &snapshot, &more);
    assert_int_equal(n, 2);
    prefix_set_key(b.x, &key);
    prefix_events(b.x, after, 8, &n, &snapshot, &more);
    assert_true(snapshot && n == 2);
    for (int i = 0; i < 4; i++) {
        assert_false(prefix_hash_same(before[i % 2].hash, after[i / 2].hash));
    }
    assert_int_equal(find(&b, "a", 1, 300).n_tokens, 256);
    assert_int_equal(find(&b, "", 2, 300).n_tokens, 256);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_lead_to_no_state_go_first),
        cmocka_unit_test(an_earlier_turn_goes_before_another_session),
        cmocka_unit_test(what_is_used_stays),
        cmocka_unit_test(only_the_state_that_is_restored_counts_as_used),
        cmocka_unit_test(what_was_used_long_ago_goes),
        cmocka_unit_test(dear_states_stay_before_cheap_ones),
        cmocka_unit_test(what_is_spared_goes_last),
        cmocka_unit_test(without_states_the_end_of_a_path_goes_first),
        cmocka_unit_test(what_is_held_is_not_evicted),
        cmocka_unit_test(a_shared_path_leaks_no_state),
        cmocka_unit_test(a_tenant_keeps_its_share),
        cmocka_unit_test(salts_share_the_share_of_their_tenant),
        cmocka_unit_test(states_keep_their_share),
        cmocka_unit_test(nodes_are_limited),
        cmocka_unit_test(tenants_are_limited),
        cmocka_unit_test(salts_push_out_no_other_tenant),
        cmocka_unit_test(names_of_tenants_are_limited),
        cmocka_unit_test(events_are_limited),
        cmocka_unit_test(evicts_until_the_other_stages_have_room),
        cmocka_unit_test(states_of_other_stages_are_mere_numbers),
        cmocka_unit_test(a_new_key_renames_everything),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
