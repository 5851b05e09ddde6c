/* Index messages: order, gaps, snapshots, false ones, and the end of a session.
 * The tree shows in Explain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

struct scene {
    struct rig *rig;
    struct fake *w, *c, *a;
};

/* Request 1 of 700 tokens, 10 whole units, waits: the worker has no room for
 * it, so that its places are judged at each Explain. */
static void bring(struct scene *s)
{
    static const struct rig_options o = {.max_peers = 16,
                                         .max_requests = 16,
                                         .max_waiting = 16,
                                         .worker_wait_us = 5000000};

    s->rig = rig_new(&o);
    s->w = rig_worker(s->rig, "w1", 24, 8);
    s->c = rig_client(s->rig, "c1");
    s->a = rig_admin(s->rig, "a1");
    client_generate(s->c, 99, 8, 20);
    client_generate(s->c, 1, 700, 60);
    rig_run(s->rig);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_WAITING);
}

static uint32_t restorable(struct scene *s)
{
    Sluice__V1__ExplainRequest m = SLUICE__V1__EXPLAIN_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    const Sluice__V1__ExplainReply *r;
    uint8_t id[16];
    struct record *x;

    memset(id, 1, sizeof id);
    ref.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.sequence = &ref;
    x = client_call(s->a, METHOD_ADMIN_EXPLAIN, &m.base, 0);
    rig_run(s->rig);
    assert_int_equal(x->status, ST_OK);
    r = (const void *)x->reply;
    assert_int_equal(r->n_places, 1);
    return r->places[0]->restorable;
}

static void the_key_goes_to_workers_alone(void **state)
{
    struct scene s, other;
    struct fake *w2;

    (void)state;
    bring(&s);
    bring(&other);
    w2 = rig_worker(s.rig, "w2", 8, 8);
    assert_true(s.w->has_prefix_key && w2->has_prefix_key);
    assert_false(s.c->has_prefix_key || s.a->has_prefix_key);
    assert_memory_equal(&s.w->prefix_key, &w2->prefix_key, PREFIX_KEY_BYTES);
    rig_free(&s.rig);
    rig_free(&other.rig);
}

static void events_are_applied_in_order(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    assert_int_equal(restorable(&s), 0);
    worker_index(s.w, 1, 0, 4, true, true);
    assert_int_equal(restorable(&s), 256);
    worker_index(s.w, 1, 4, 3, true, false);
    assert_int_equal(restorable(&s), 448);
    worker_index(s.w, 1, 5, 2, false, false);
    assert_int_equal(restorable(&s), 320);
    worker_index(s.w, 2, 0, 9, true, false); /* another prompt */
    assert_int_equal(restorable(&s), 320);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* The last token of a prompt is computed, for its logits. */
static void a_whole_prompt_is_never_restored(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    client_cancel(s.c, 1);
    rig_run(s.rig);
    client_generate(s.c, 1, 640, 120); /* 10 units exactly */
    rig_run(s.rig);
    worker_index(s.w, 1, 0, 10, true, true);
    assert_int_equal(restorable(&s), 576);
    rig_free(&s.rig);
}

static void a_gap_forgets_until_the_snapshot(void **state)
{
    struct router_metrics n;
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.w, 1, 0, 4, true, true);
    s.w->index_next++; /* an event is lost */
    worker_index(s.w, 1, 4, 1, true, false);
    assert_int_equal(s.w->n_index_snapshots, 1);
    assert_int_equal(restorable(&s), 0);
    worker_index(s.w, 1, 0, 6, true, false); /* still before the snapshot */
    assert_int_equal(restorable(&s), 0);
    assert_int_equal(s.w->n_index_snapshots, 1);
    worker_index(s.w, 1, 0, 5, true, true);
    assert_int_equal(restorable(&s), 320);
    router_counts(s.rig->router, &n);
    assert_int_equal(n.index_gaps, 1);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* A session that does not begin with event 1 has a gap. */
static void the_first_event_has_number_1(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->index_next = 2;
    worker_index(s.w, 1, 0, 4, true, false);
    assert_int_equal(s.w->n_index_snapshots, 1);
    assert_int_equal(restorable(&s), 0);
    rig_free(&s.rig);
}

/* A snapshot replaces what was there, and may count from 1 again. */
static void a_snapshot_starts_from_nothing(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.w, 1, 0, 4, true, true);
    worker_index(s.w, 1, 0, 2, true, true);
    assert_int_equal(restorable(&s), 128);
    s.w->index_next = 1;
    worker_index(s.w, 1, 0, 1, true, true);
    assert_int_equal(restorable(&s), 64);
    worker_index(s.w, 1, 1, 1, true, false);
    assert_int_equal(restorable(&s), 128);
    assert_false(s.w->gone);
    assert_int_equal(s.w->n_index_snapshots, 0);
    rig_free(&s.rig);
}

static void the_end_of_the_session_forgets(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_index(s.w, 1, 0, 4, true, true);
    assert_int_equal(restorable(&s), 256);
    s.w->survives = true; /* its room stays taken */
    fake_lost(s.w);
    rig_run(s.rig);
    fake_reconnect(s.w);
    worker_live(s.w, 1000);
    rig_run(s.rig);
    assert_int_equal(restorable(&s), 0);
    rig_free(&s.rig);
}

/* ---- false messages ---- */

static void say(struct scene *s, uint64_t first, size_t hash_bytes, size_t n,
                uint32_t n_tokens)
{
    static uint8_t hashes[(INDEX_EVENTS_MAX + 1) * PREFIX_HASH_BYTES];
    uint32_t tokens[INDEX_EVENTS_MAX + 1];
    Sluice__V1__IndexMessage m = SLUICE__V1__INDEX_MESSAGE__INIT;

    for (size_t i = 0; i < n; i++) {
        tokens[i] = n_tokens;
    }
    m.first = first;
    m.hashes = (ProtobufCBinaryData){hash_bytes, hashes};
    m.tokens = tokens;
    m.n_tokens = n;
    assert_int_equal(peer_oneway(s->w->peer, METHOD_REGISTRY_INDEX, &m.base),
                     ST_OK);
    rig_run(s->rig);
}

static void false_messages_end_the_session(void **state)
{
    static const struct {
        uint64_t first;
        size_t bytes, n;
        uint32_t n_tokens;
        const char *why;
    } rows[] = {
        {2, 16, 1, 65, "65 tokens, must be a multiple of 64"},
        {2, 16, 1, 40064, "40064 tokens, must be a multiple of 64, at most"},
        {2, 15, 1, 64, "1 events and 15 bytes of hashes"},
        {2, 32, 1, 64, "1 events and 32 bytes of hashes"},
        {1, 16, 1, 64, "begins with event 1, but the next one is 2"},
        {0, 16, 1, 64, "begins with event 0"},
        {UINT64_MAX, 16, 1, 64, "begins with event 18446744073709551615"},
        {2, 16 * (INDEX_EVENTS_MAX + 1), INDEX_EVENTS_MAX + 1, 64,
         "has 1025 events"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene s;

        bring(&s);
        worker_index(s.w, 1, 0, 1, true, true);
        say(&s, rows[i].first, rows[i].bytes, rows[i].n, rows[i].n_tokens);
        if (!s.w->gone || strstr(s.w->goodbye, rows[i].why) == NULL) {
            fail_msg("row %zu: \"%s\" is not in \"%s\"", i, rows[i].why,
                     s.w->goodbye);
        }
        rig_free(&s.rig);
    }
}

/* At the limits: as many events as a message may have, as long as the context
 * may be. */
static void messages_at_the_limit_are_taken(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    say(&s, 1, 16 * INDEX_EVENTS_MAX, INDEX_EVENTS_MAX, RIG_CONTEXT / 64 * 64);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

static void only_the_first_stage_sends_events(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[3];

    (void)state;
    rig_replica(rig, w, 3);
    worker_index(w[0], 1, 0, 2, true, true);
    assert_false(w[0]->gone);
    worker_index(w[1], 1, 0, 2, true, true);
    assert_true(w[1]->gone);
    assert_non_null(strstr(w[1]->goodbye, "only the first stage may send it"));
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_goes_to_workers_alone),
        cmocka_unit_test(events_are_applied_in_order),
        cmocka_unit_test(a_whole_prompt_is_never_restored),
        cmocka_unit_test(a_gap_forgets_until_the_snapshot),
        cmocka_unit_test(the_first_event_has_number_1),
        cmocka_unit_test(a_snapshot_starts_from_nothing),
        cmocka_unit_test(the_end_of_the_session_forgets),
        cmocka_unit_test(false_messages_end_the_session),
        cmocka_unit_test(messages_at_the_limit_are_taken),
        cmocka_unit_test(only_the_first_stage_sends_events),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
