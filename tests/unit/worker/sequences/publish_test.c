/* The index as the router sees it. */
#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define PROMPT 320u

static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pool.n_pages = 512;
    o->reuse = true;
}

/* Runs prompt `first` and returns the positions that were reused. */
static uint32_t run(struct rig *r, uint32_t first, const char *tenant)
{
    static uint32_t id;
    struct rig_submit s = {
        .id = ++id, .n_prompt = PROMPT, .max_tokens = 1, .tenant = tenant};
    uint32_t ids[PROMPT];

    for (uint32_t i = 0; i < PROMPT; i++) {
        ids[i] = rig_prompt_id(first, i);
    }
    s.prompt = ids;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 20000);
    return r->heard[r->grant].reused;
}

/* Returns the deepest position that the prompt can be restored at: its last
 * token is computed in any case. */
static uint32_t find(const struct rig *r, uint32_t first, const char *tenant)
{
    uint32_t ids[PROMPT];

    for (uint32_t i = 0; i < PROMPT; i++) {
        ids[i] = rig_prompt_id(first, i);
    }
    return rig_index_find(r, tenant, ids, PROMPT - 1);
}

static void shows_what_can_be_restored(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    assert_int_equal(r->index.n_snapshots, 1); /* an empty one */
    assert_int_equal(find(r, 1, NULL), 0);
    run(r, 1, NULL);
    assert_int_equal(find(r, 1, NULL), 256);
    assert_int_equal(find(r, 2, NULL), 0);
    assert_int_equal(find(r, 1, "a"), 0);
    run(r, 1, "a");
    assert_int_equal(find(r, 1, "a"), 256);
    assert_int_equal(r->index.n_snapshots, 1);
    rig_free(&r);
}

/* The router's view equals the worker's index, also under eviction. */
static void follows_evictions(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t hits = 0;

    (void)state;
    defaults(&o);
    o.pool.n_pages = 140;
    r = rig_new(&o);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t first = i * i % 7 + i % 3, expect = find(r, first, NULL);

        assert_int_equal(run(r, first, NULL), expect);
        hits += expect > 0;
    }
    assert_in_range(hits, 5, 50);
    assert_int_equal(r->index.n_snapshots, 1);
    rig_free(&r);
}

static void begins_a_session_with_a_snapshot(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    run(r, 1, NULL);
    rig_lose(r);
    rig_reconnect(r);
    rig_advance(r, 20000);
    assert_int_equal(r->index.n_snapshots, 2);
    assert_int_equal(find(r, 1, NULL), 256);
    assert_int_equal(run(r, 1, NULL), 256);
    rig_lose(r);
    r->key_byte = 9; /* another router: all is hashed anew */
    rig_reconnect(r);
    rig_advance(r, 20000);
    assert_int_equal(find(r, 1, NULL), 256);
    assert_int_equal(run(r, 1, NULL), 256);
    rig_free(&r);
}

static void repeats_everything_on_request(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    run(r, 1, NULL);
    r->index.n = 0; /* the router lost it */
    rig_index_snapshot(r);
    rig_advance(r, 20000);
    assert_int_equal(r->index.n_snapshots, 2);
    assert_int_equal(find(r, 1, NULL), 256);
    run(r, 2, NULL);
    assert_int_equal(find(r, 2, NULL), 256);
    rig_free(&r);
}

/* Without linear layers each unit is restorable: more than one message. */
static void divides_a_snapshot(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t n;

    (void)state;
    defaults(&o);
    o.pool.pages_per_slot = 0;
    o.pool.n_pages = 300 * PROMPT / 8;
    r = rig_new(&o);
    for (uint32_t i = 0; i < 250; i++) {
        run(r, i, NULL);
    }
    n = r->index.n;
    assert_in_range(n, INDEX_EVENTS_MAX + 1, 250 * 5);
    r->index.n_messages = 0;
    rig_index_snapshot(r);
    rig_advance(r, 50000);
    assert_int_equal(r->index.n_messages, 2);
    assert_int_equal(r->index.n, n);
    assert_false(r->index.copying);
    rig_free(&r);
}

static void sends_nothing_without_a_key(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    rig_lose(r);
    r->keyless = true;
    rig_reconnect(r);
    run(r, 1, NULL);
    assert_int_equal(run(r, 1, NULL), 256);
    assert_int_equal(r->index.n_messages, 0);
    rig_free(&r);
    defaults(&o);
    o.reuse = false;
    r = rig_new(&o);
    run(r, 1, NULL);
    rig_index_snapshot(r);
    rig_advance(r, 50000);
    assert_int_equal(r->index.n_messages, 0);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_what_can_be_restored),
        cmocka_unit_test(follows_evictions),
        cmocka_unit_test(begins_a_session_with_a_snapshot),
        cmocka_unit_test(repeats_everything_on_request),
        cmocka_unit_test(divides_a_snapshot),
        cmocka_unit_test(sends_nothing_without_a_key),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
