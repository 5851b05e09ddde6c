/* Kept sequences that give way: to whom, in which order, and what becomes of
 * those that wanted to go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/requests/choice_state.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define PROMPT 60 /* with 4 tokens: two blocks of 32 */
#define TOKENS 4
#define PLACES 3 /* sequences that the worker has room for */

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static void bring_with(struct scene *s, const struct rig_options *o)
{
    memset(s, 0, sizeof *s);
    s->rig = rig_new(o);
    s->w = rig_worker(s->rig, "w1", 2 * PLACES, 64);
    s->c = rig_client(s->rig, "c1");
}

static void bring(struct scene *s)
{
    bring_with(s, NULL);
}

static struct record *generate(struct scene *s, uint8_t id, const char *tenant,
                               uint32_t keep_ms, uint8_t from)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];
    struct record *x;

    memset(full, from, sizeof full);
    ref.request_id = (ProtobufCBinaryData){sizeof full, full};
    m.model = wire_text("tiny");
    m.has_keep_ms = keep_ms > 0;
    m.keep_ms = keep_ms;
    m.has_tenant = true;
    m.tenant = wire_text(tenant);
    m.continue_from = from > 0 ? &ref : NULL;
    x = client_generate_with(s->c, id, from > 0 ? 0 : PROMPT, TOKENS, &m, 0);
    rig_run(s->rig);
    return x;
}

/* A request that is kept after its end. */
static void keep(struct scene *s, uint8_t id, const char *tenant)
{
    generate(s, id, tenant, 60000, 0);
    assert_non_null(worker_sequence_of(s->w, id));
    worker_give(s->w, id, 0, TOKENS, LENGTH);
    worker_report(s->w);
    rig_run(s->rig);
    assert_int_equal(rig_state(s->rig, id), CHOICE_ENDED);
}

static bool has_memory(const struct scene *s, uint8_t id)
{
    return worker_sequence_of(s->w, id) != NULL;
}

static void report(struct scene *s)
{
    worker_report(s->w);
    rig_run(s->rig);
}

static struct router_metrics counts(const struct scene *s)
{
    struct router_metrics k;

    router_counts(s->rig->router, &k);
    return k;
}

/* A full pool of leases: a new request runs at once, in place of the oldest. */
static void the_oldest_gives_way(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    for (uint8_t i = 1; i <= PLACES; i++) {
        keep(&s, i, "anna");
    }
    generate(&s, 9, "bert", 0, 0);
    report(&s);
    assert_int_equal(rig_state(s.rig, 9), CHOICE_PREFILL);
    assert_false(has_memory(&s, 1));
    assert_true(has_memory(&s, 2));
    assert_true(has_memory(&s, 3));
    assert_int_equal(counts(&s).lapsed, 1);
    rig_free(&s.rig);
}

/* The leases of the tenant that asks go before older ones of others. */
static void own_leases_go_first(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    keep(&s, 1, "anna");
    keep(&s, 2, "bert");
    keep(&s, 3, "anna");
    generate(&s, 9, "bert", 0, 0);
    report(&s);
    assert_int_equal(rig_state(s.rig, 9), CHOICE_PREFILL);
    assert_true(has_memory(&s, 1));
    assert_false(has_memory(&s, 2));
    assert_true(has_memory(&s, 3));
    rig_free(&s.rig);
}

/* With room nothing gives way, and a lease that gave way is one only. */
static void no_more_than_needed(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    keep(&s, 1, "anna");
    keep(&s, 2, "anna");
    generate(&s, 8, "bert", 0, 0); /* the third place */
    report(&s);
    assert_int_equal(counts(&s).lapsed, 0);
    s.w->hold_receipts = true;
    generate(&s, 9, "bert", 0, 0);
    report(&s);
    report(&s); /* the first one's room is on its way */
    assert_int_equal(counts(&s).lapsed, 1);
    assert_true(has_memory(&s, 2));
    rig_free(&s.rig);
}

/* One that gave way goes on from its ids, with all of them. */
static void it_goes_on_from_its_ids(void **state)
{
    struct scene s;
    struct sequence *q;
    struct record *x;

    (void)state;
    bring(&s);
    for (uint8_t i = 1; i <= PLACES; i++) {
        keep(&s, i, "anna");
    }
    generate(&s, 9, "bert", 0, 0);
    report(&s);
    worker_give(s.w, 9, 0, TOKENS, LENGTH);
    report(&s);
    x = generate(&s, 10, "anna", 0, 1); /* three blocks: another one lapses */
    report(&s);
    q = worker_sequence_of(s.w, 10);
    assert_non_null(q);
    assert_false(q->continues);
    assert_int_equal(q->n_prompt, PROMPT + TOKENS);
    assert_int_equal(q->n_spans, 2);
    assert_int_equal(q->spans[0], PROMPT);
    assert_int_equal(q->spans[1], TOKENS);
    for (uint32_t i = 0; i < PROMPT; i++) {
        assert_int_equal(q->ids[i], (i * 3 + 1) % RIG_VOCAB);
    }
    worker_give(s.w, 10, 0, TOKENS, LENGTH);
    record_check(x, 10, 0, TOKENS);
    assert_int_equal(counts(&s).continued_from_ids, 1);
    /* It has passed on its ids. */
    x = generate(&s, 11, "anna", 0, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    rig_free(&s.rig);
}

/* The lease goes on without memory, for its tenant alone, and ends in time. */
static void the_lease_ends_in_time(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s);
    for (uint8_t i = 1; i <= PLACES; i++) {
        keep(&s, i, "anna");
    }
    generate(&s, 9, "bert", 0, 0);
    report(&s);
    assert_false(has_memory(&s, 1));
    x = generate(&s, 10, "bert", 0, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    rig_advance(s.rig, 61100000);
    report(&s);
    x = generate(&s, 11, "anna", 0, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    rig_free(&s.rig);
}

/* A worker that is lost takes the memory of its kept sequences, not their ids.
 */
static void a_lost_worker_keeps_no_lease_from_going_on(void **state)
{
    struct scene s;
    struct fake *other;
    struct sequence *q;

    (void)state;
    bring(&s);
    keep(&s, 1, "anna");
    other = rig_worker(s.rig, "w2", 64, 64);
    fake_lost(s.w);
    rig_run(s.rig);
    generate(&s, 10, "anna", 0, 1);
    q = worker_sequence_of(other, 10);
    assert_non_null(q);
    assert_int_equal(q->n_prompt, PROMPT + TOKENS);
    rig_free(&s.rig);
}

/* RemoveSequence ends a lease that lapsed, and a call with its id may begin. */
static void it_can_be_removed(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s);
    for (uint8_t i = 1; i <= PLACES; i++) {
        keep(&s, i, "anna");
    }
    generate(&s, 9, "bert", 0, 0);
    report(&s);
    x = client_remove(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->receipt.blocks, 0);
    x = generate(&s, 10, "anna", 0, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    rig_free(&s.rig);
}

/* --kept, at the quota and one past it. */
static void a_tenant_has_a_quota(void **state)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 64,
                                  .max_waiting = 64,
                                  .worker_wait_us = 1000000,
                                  .kept = 2};
    struct scene s;

    (void)state;
    bring_with(&s, &o);
    keep(&s, 1, "anna");
    keep(&s, 2, "anna");
    report(&s);
    assert_int_equal(counts(&s).lapsed, 0);
    keep(&s, 3, "anna");
    report(&s);
    assert_int_equal(counts(&s).lapsed, 1);
    assert_false(has_memory(&s, 1));
    keep(&s, 4, "bert"); /* a quota of its own */
    report(&s);
    assert_int_equal(counts(&s).lapsed, 1);
    rig_free(&s.rig);
}

/* Leases without memory give way to new requests at max_requests. */
static void the_table_is_not_full_of_them(void **state)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 4,
                                  .max_waiting = 64,
                                  .worker_wait_us = 1000000};
    struct scene s;
    struct record *x;

    (void)state;
    bring_with(&s, &o);
    for (uint8_t i = 1; i <= PLACES; i++) {
        keep(&s, i, "anna");
    }
    generate(&s, 9, "bert", 0, 0); /* the fourth; 1 lapses */
    report(&s);
    x = generate(&s, 10, "bert", 0, 0);
    assert_false(x->ended);
    x = generate(&s, 11, "anna", 0, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_gives_way),
        cmocka_unit_test(own_leases_go_first),
        cmocka_unit_test(no_more_than_needed),
        cmocka_unit_test(it_goes_on_from_its_ids),
        cmocka_unit_test(the_lease_ends_in_time),
        cmocka_unit_test(a_lost_worker_keeps_no_lease_from_going_on),
        cmocka_unit_test(it_can_be_removed),
        cmocka_unit_test(a_tenant_has_a_quota),
        cmocka_unit_test(the_table_is_not_full_of_them),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
