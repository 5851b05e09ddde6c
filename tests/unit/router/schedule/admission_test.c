/* Every limit of admission: at the limit, and one past it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

static void says(const struct record *x, enum status status, const char *part)
{
    assert_true(x->ended);
    assert_int_equal(x->status, status);
    if (strstr(x->error, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", x->error, part);
    }
}

static void blocks(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 4, 0); /* 128 tokens */
    struct fake *c = rig_client(rig, "c1");
    struct record *past = client_generate(c, 1, 100, 29);
    struct record *at = client_generate(c, 2, 100, 28);

    (void)state;
    rig_run(rig);
    says(past, ST_RESOURCE_EXHAUSTED,
         "129 tokens (prompt 100, max_tokens 29) "
         "need 5 blocks and 0 slots, 5 pages, but the largest pool of tiny "
         "has 4 pages for at most 4 blocks and 0 slots: it can never run");
    assert_int_equal(past->retry_ms, 0);
    assert_false(at->ended);
    assert_int_equal(worker_sequence_of(w, 2)->blocks, 4);
    assert_int_equal(worker_sequence_of(w, 2)->slots, 0);
    rig_free(&rig);
}

/* Room is counted to the last block, including needs that no ledger includes
 * yet. */
static void blocks_of_many(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 10, 0);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    for (uint8_t i = 1; i <= 6; i++) {
        client_generate(c, i, 32, 32); /* 2 blocks each */
    }
    rig_run(rig);
    assert_int_equal(w->n_submits, 5);
    assert_int_equal(rig_state(rig, 5), CHOICE_PREFILL);
    assert_int_equal(rig_state(rig, 6), CHOICE_WAITING);
    rig_free(&rig);
}

static void slots(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1000, 3);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    for (uint8_t i = 1; i <= 4; i++) {
        client_generate(c, i, 10, 10);
    }
    rig_run(rig);
    assert_int_equal(w->n_submits, 3);
    assert_int_equal(rig_state(rig, 3), CHOICE_PREFILL);
    assert_int_equal(rig_state(rig, 4), CHOICE_WAITING);
    worker_make(w, worker_sequence_of(w, 2), 10, LENGTH);
    worker_step(w);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 4), CHOICE_PREFILL);
    rig_free(&rig);
}

/* Pages are the limit where blocks and slots share memory. */
static void pages(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w1", 8, 8);
    struct fake *c;

    (void)state;
    w->shard.pages_per_block = 2;
    w->shard.pages_per_slot = 5;
    w->own_pages = true;
    w->classes[1].total = w->classes[1].free = 5;
    w->classes[3].total = w->classes[3].free = 27; /* 3 of 2 * 2 + 5 */
    fake_hello(w);
    assert_true(w->up);
    c = rig_client(rig, "c1");
    for (uint8_t i = 1; i <= 4; i++) {
        client_generate(c, i, 32, 32);
    }
    rig_run(rig);
    assert_int_equal(w->n_submits, 3);
    assert_int_equal(rig_state(rig, 4), CHOICE_WAITING);
    rig_free(&rig);
}

static void the_queue(void **state)
{
    const struct rig_options o = {
        .max_peers = 8, .max_requests = 100, .max_waiting = 3};
    struct rig *rig = rig_new(&o);
    struct fake *w = rig_worker(rig, "w1", 2, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *x[6];

    (void)state;
    for (uint8_t i = 1; i <= 5; i++) {
        x[i] = client_generate(c, i, 40, 20);
        rig_run(rig);
    }
    assert_int_equal(rig_state(rig, 4),
                     CHOICE_WAITING); /* the third in the queue */
    says(x[5], ST_RESOURCE_EXHAUSTED,
         "3 sequences wait for room, 3 of them the tenant's, at most 3 may");
    assert_int_equal(x[5]->retry_ms, 1000); /* no interval was measured yet */
    /* Two sequences end 200 ms apart: the queue of 3 takes 4 such intervals. */
    for (uint8_t i = 1; i <= 2; i++) {
        worker_make(w, worker_sequence_of(w, i), 20, LENGTH);
        worker_step(w);
        rig_advance(rig, 200000);
    }
    for (uint8_t i = 6; i <= 7; i++) {
        client_generate(c, i, 40, 20);
    }
    x[0] = client_generate(c, 8, 40, 20);
    rig_run(rig);
    says(x[0], ST_RESOURCE_EXHAUSTED, "wait for room");
    assert_int_equal(x[0]->retry_ms, 800);
    rig_free(&rig);
}

static void requests(void **state)
{
    const struct rig_options o = {
        .max_peers = 8, .max_requests = 3, .max_waiting = 100};
    struct rig *rig = rig_new(&o);
    struct fake *w = rig_worker(rig, "w1", 100, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *x[6];

    (void)state;
    for (uint8_t i = 1; i <= 4; i++) {
        x[i] = client_generate(c, i, 40, 20);
    }
    rig_run(rig);
    assert_int_equal(w->n_submits, 3);
    says(x[4], ST_RESOURCE_EXHAUSTED, "3 sequences are open, at most 3 may be");
    assert_true(x[4]->retry_ms > 0);
    client_cancel(c, 2);
    rig_run(rig);
    x[5] = client_generate(c, 5, 40, 20);
    rig_run(rig);
    assert_false(x[5]->ended);
    rig_free(&rig);
}

/* A worker that answers no Submit receives as many as may be open.  The next
 * one goes to another worker, although that has less room. */
static void open_calls(void **state)
{
    const struct rig_options o = {.max_peers = 8,
                                  .max_requests = 2 * PEER_CALLS_MAX,
                                  .max_waiting = 2 * PEER_CALLS_MAX};
    struct rig *rig = rig_new(&o);
    struct fake *stuck = rig_worker(rig, "w1", 8000, 8000), *idle;
    struct fake *c = rig_client(rig, "c1");
    uint8_t id = 0;

    (void)state;
    stuck->deaf = true;
    while (id < PEER_CALLS_MAX / 64) {
        client_generate_n(c, ++id, 64, 10, 10);
        rig_run(rig);
    }
    assert_int_equal(fake_view(stuck).n_sequences, PEER_CALLS_MAX);
    idle = rig_worker(rig, "w2", 8, 8);
    client_generate(c, ++id, 10, 10);
    rig_run(rig);
    assert_int_equal(fake_view(stuck).n_sequences, PEER_CALLS_MAX);
    assert_int_equal(idle->n_submits, 1);
    rig_free(&rig);
}

static void length(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w1", 100, 0);
    struct fake *c;
    struct record *prompt, *both, *at, *none, *last;

    (void)state;
    w->shard.context = 1000;
    fake_hello(w);
    c = rig_client(rig, "c1");
    prompt = client_generate(c, 1, 1000, 1);
    both = client_generate(c, 2, 900, 101);
    at = client_generate(c, 3, 900, 100);
    none = client_generate(c, 4, 10, 0);
    last = client_generate(c, 5, 900, 0);
    rig_run(rig);
    says(prompt, ST_INVALID_ARGUMENT,
         "the prompt has 1000 tokens, but the context of tiny is 1000");
    says(both, ST_INVALID_ARGUMENT,
         "prompt (900) and max_tokens (101) exceed the context of tiny, 1000 "
         "tokens");
    assert_false(at->ended || none->ended || last->ended);
    assert_int_equal(worker_sequence_of(w, 3)->max_tokens, 100);
    assert_int_equal(worker_sequence_of(w, 4)->max_tokens, GENERATE_MAX_TOKENS);
    assert_int_equal(worker_sequence_of(w, 5)->max_tokens, 100);
    rig_free(&rig);
}

/* A prompt of 40000 ids is sent in parts of at most SUBMIT_IDS_MAX ids. */
static void long_prompts(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 4000, 0);
    struct fake *c = rig_client(rig, "c1");
    struct sequence *s;

    (void)state;
    client_generate(c, 1, 39000, 10);
    client_generate(c, 2, SUBMIT_IDS_MAX, 10);
    client_generate(c, 3, SUBMIT_IDS_MAX + 1, 10);
    rig_advance(rig, 100000);
    for (uint8_t id = 1; id <= 3; id++) {
        s = worker_sequence_of(w, id);
        assert_int_equal(s->n_ids, s->n_prompt);
        for (uint32_t i = 0; i < s->n_prompt; i++) {
            assert_int_equal(s->ids[i], (i * 3 + id) % RIG_VOCAB);
        }
    }
    assert_int_equal(w->n_parts, 3 + 0 + 1);
    assert_true(w->grants_in_order);
    rig_free(&rig);
}

/* A cancel does not wait behind a prompt that is still being sent. */
static void a_cancel_overtakes_parts(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8000, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *k;

    (void)state;
    w->mute = true; /* no acknowledgements: the submit window fills */
    for (uint8_t i = 1; i <= 5; i++) {
        client_generate(c, i, 39000, 10);
    }
    rig_run(rig);
    assert_true(w->n_submits < 5);
    assert_true(worker_sequence_of(w, 1)->n_ids < 39000);
    k = client_cancel(c, 1);
    rig_run(rig);
    assert_int_equal(w->n_cancels, 1);
    w->mute = false;
    rig_advance(rig, 2000000);
    assert_true(k->ended);
    for (uint8_t i = 2; i <= 5; i++) {
        assert_int_equal(worker_sequence_of(w, i)->n_ids, 39000);
    }
    assert_true(w->grants_in_order);
    rig_free(&rig);
}

static void most_free_pages_first(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_worker(rig, "a", 10, 0);
    struct fake *b = rig_worker(rig, "b", 12, 0);
    struct fake *d = rig_worker(rig, "d", 12, 0);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    /* 10 12 12 -> b, d (10 10 10) -> a, b, d -> a ... */
    for (uint8_t i = 1; i <= 6; i++) {
        client_generate(c, i, 32, 32);
        rig_run(rig);
    }
    assert_non_null(worker_sequence_of(b, 1));
    assert_non_null(worker_sequence_of(d, 2));
    assert_non_null(worker_sequence_of(a, 3));
    assert_non_null(worker_sequence_of(b, 4));
    assert_non_null(worker_sequence_of(d, 5));
    assert_non_null(worker_sequence_of(a, 6));
    rig_free(&rig);
}

/* A request goes to the only worker whose context is long enough. */
static void a_longer_context_elsewhere(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = fake_worker_new(rig, "a", 1000, 0);
    struct fake *b = rig_worker(rig, "b", 100, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    a->shard.context = 500;
    fake_hello(a);
    client_generate(c, 1, 600, 10);
    rig_run(rig);
    assert_non_null(worker_sequence_of(b, 1));
    /* A request that only b can run ends when b is lost, because a is too
     * short. */
    x = client_generate(c, 2, 600, 2500);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 2), CHOICE_WAITING);
    fake_lost(b);
    rig_run(rig);
    says(x, ST_RESOURCE_EXHAUSTED, "can never run");
    rig_free(&rig);
}

static void a_refused_submit_goes_back(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 20), *y;

    (void)state;
    w->refuse_submits = ST_RESOURCE_EXHAUSTED;
    rig_run(rig);
    assert_int_equal(w->n_submits, 1);
    assert_int_equal(rig_state(rig, 1), CHOICE_WAITING);
    rig_advance(rig, 100000);
    assert_int_equal(w->n_submits,
                     1); /* not before a ledger includes the grant */
    w->refuse_submits = ST_OK;
    worker_report(w);
    rig_run(rig);
    assert_int_equal(w->n_submits, 2);
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    assert_false(x->ended);
    w->refuse_submits = ST_INTERNAL; /* any other refusal ends the request */
    y = client_generate(c, 2, 40, 20);
    rig_run(rig);
    says(y, ST_INTERNAL, "worker w1 refused the sequence: not now");
    rig_free(&rig);
}

/* A tombstone of an earlier request with this id costs one grant only. */
static void an_old_tombstone(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 20);

    (void)state;
    w->refuse_submits = ST_CANCELLED;
    rig_run(rig);
    w->refuse_submits = ST_OK;
    worker_report(w);
    rig_run(rig);
    assert_false(x->ended);
    assert_int_equal(w->n_submits, 2);
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    rig_free(&rig);
}

static void a_worker_that_always_refuses(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100, 0);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 20);

    (void)state;
    w->refuse_submits = ST_RESOURCE_EXHAUSTED;
    for (int i = 0; i <= REFUSALS_MAX; i++) {
        rig_run(rig);
        assert_false(x->ended && i < REFUSALS_MAX);
        worker_report(w);
    }
    rig_run(rig);
    says(x, ST_RESOURCE_EXHAUSTED, "refused the sequence");
    assert_int_equal(w->n_submits, REFUSALS_MAX + 1);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),
        cmocka_unit_test(blocks_of_many),
        cmocka_unit_test(slots),
        cmocka_unit_test(pages),
        cmocka_unit_test(the_queue),
        cmocka_unit_test(requests),
        cmocka_unit_test(open_calls),
        cmocka_unit_test(length),
        cmocka_unit_test(long_prompts),
        cmocka_unit_test(a_cancel_overtakes_parts),
        cmocka_unit_test(most_free_pages_first),
        cmocka_unit_test(a_longer_context_elsewhere),
        cmocka_unit_test(a_refused_submit_goes_back),
        cmocka_unit_test(an_old_tombstone),
        cmocka_unit_test(a_worker_that_always_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
