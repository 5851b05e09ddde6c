/* RemoveSequence with a range, of a kept sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/requests/choice_state.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

/* Request 1 of 40 ids and 4 tokens is kept. */
static void bring(struct scene *s)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    s->rig = rig_new(NULL);
    s->w = rig_worker(s->rig, "w1", 64, 8);
    s->c = rig_client(s->rig, "c1");
    m.has_keep_ms = true;
    m.keep_ms = 60000;
    client_generate_with(s->c, 1, 40, 4, &m, 0);
    rig_run(s->rig);
    worker_give(s->w, 1, 0, 4, LENGTH);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_ENDED);
}

/* Continues request 1 with 10 ids. */
static struct record *go_on(struct scene *s, uint8_t id)
{
    struct record *x = client_continue(s->c, id, 1, 10, 4);

    rig_run(s->rig);
    return x;
}

/* Checks that a sequence has the ids of request 1, its tokens up to n_kept ids,
 * and then those of its own prompt. */
static void check_ids(const struct sequence *s, uint32_t n_kept, uint8_t id)
{
    uint8_t first[16];

    memset(first, 1, sizeof first);
    for (uint32_t i = 0; i < s->n_prompt; i++) {
        uint32_t want = i < 40 && i < n_kept ? (i * 3 + 1) % RIG_VOCAB
                        : i < n_kept         ? fake_token(first, i - 40)
                                     : ((i - n_kept) * 3 + id) % RIG_VOCAB;
        assert_int_equal(s->ids[i], want);
    }
}

static void a_range_is_removed(void **state)
{
    struct record *k;
    struct sequence *q;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->range_position = 32;
    k = client_range(s.c, 1, 42);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(s.w->begin_of_range, 42);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT);
    assert_true(k->receipt.has_position);
    assert_int_equal(k->receipt.position, 32);
    assert_string_equal(k->worker, "w1");
    /* Its copy is cut at `begin`: 40 of the prompt, and two tokens. */
    go_on(&s, 2);
    q = worker_sequence_of(s.w, 2);
    assert_non_null(q);
    assert_true(q->continues);
    assert_int_equal(q->n_prompt, 52);
    check_ids(q, 42, 2);
    assert_int_equal(q->spans[1], 2);
    rig_free(&s.rig);
}

static void of_one_block_and_slot(Sluice__V1__Receipt *r)
{
    r->blocks = r->slots = 1;
}

/* 44 tokens were granted two blocks and a slot. */
static void the_list_shows_what_a_range_leaves(void **state)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    const Sluice__V1__ListSequencesReply *l;
    struct record *k;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->spoil_receipt = of_one_block_and_slot;
    k = client_range(s.c, 1, 20);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    k = client_call(rig_admin(s.rig, "a1"), METHOD_ADMIN_LIST_SEQUENCES,
                    &m.base, 0);
    rig_run(s.rig);
    l = (const void *)k->reply;
    assert_int_equal(l->n_sequences, 1);
    assert_int_equal(l->sequences[0]->blocks, 1);
    assert_int_equal(l->sequences[0]->slots, 0);
    /* No later receipt may free the slot once more. */
    k = client_range(s.c, 1, 10);
    rig_run(s.rig);
    assert_int_not_equal(k->status, ST_OK);
    rig_free(&s.rig);
}

/* Runs of prompt join: the range reaches into the prompt. */
static void a_range_of_the_prompt(void **state)
{
    struct sequence *q;
    struct scene s;

    (void)state;
    bring(&s);
    client_range(s.c, 1, 35);
    rig_run(s.rig);
    client_range(s.c, 1, 30);
    rig_run(s.rig);
    assert_int_equal(s.w->n_ranges, 2);
    go_on(&s, 2);
    q = worker_sequence_of(s.w, 2);
    assert_int_equal(q->n_prompt, 40);
    check_ids(q, 30, 2);
    assert_int_equal(q->n_spans, 1);
    assert_int_equal(q->spans[0], 40);
    rig_free(&s.rig);
}

static void ranges_that_cannot_be(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    x = client_range(s.c, 1, 45);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_OUT_OF_RANGE);
    assert_non_null(strstr(x->error, "begin is 45, must be 1..44"));
    x = client_range(s.c, 1, 0);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_OUT_OF_RANGE);
    x = client_range(s.c, 8, 3);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_NOT_FOUND);
    client_generate(s.c, 5, 10, 4);
    rig_run(s.rig);
    x = client_range(s.c, 5, 3);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_FAILED_PRECONDITION);
    assert_int_equal(s.w->n_ranges, 0);
    x = client_range(s.c, 1, 44); /* the end itself: nothing goes */
    s.w->range_position = 43;
    rig_run(s.rig);
    assert_int_equal(x->status, ST_OK);
    rig_free(&s.rig);
}

static void one_range_at_a_time(void **state)
{
    struct record *x, *k;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_ranges = true;
    k = client_range(s.c, 1, 42);
    x = client_range(s.c, 1, 41);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_FAILED_PRECONDITION);
    x = go_on(&s, 2);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_true(x->retry_ms > 0);
    worker_range(s.w);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    go_on(&s, 3);
    assert_non_null(worker_sequence_of(s.w, 3));
    rig_free(&s.rig);
}

/* The whole sequence is removed while a range is under way. */
static void a_removal_follows_a_range(void **state)
{
    struct record *x, *k;
    struct scene s;

    (void)state;
    bring(&s);
    x = client_range(s.c, 1, 42);
    k = client_remove(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(k->status, ST_OK);
    assert_false(k->receipt.has_position);
    assert_int_equal(k->receipt.blocks, 2);
    rig_end(&s.rig);
}

static void the_worker_of_a_range_is_lost(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_ranges = true;
    x = client_range(s.c, 1, 42);
    rig_run(s.rig);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    rig_end(&s.rig);
}

static void the_caller_of_a_range_is_lost(void **state)
{
    struct fake *c2;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_ranges = true;
    c2 = rig_client(s.rig, "c2");
    client_range(c2, 1, 42);
    rig_run(s.rig);
    fake_lost(c2);
    rig_run(s.rig);
    worker_range(s.w);
    rig_run(s.rig);
    s.w->hold_ranges = false;
    go_on(&s, 2);
    assert_int_equal(worker_sequence_of(s.w, 2)->n_prompt, 52);
    rig_free(&s.rig);
}

static void too_far(Sluice__V1__Receipt *r)
{
    r->position = 43;
}

static void no_position(Sluice__V1__Receipt *r)
{
    r->has_position = false;
}

static void not_kept(Sluice__V1__Receipt *r)
{
    r->state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
}

static void false_receipts_of_ranges_end_the_session(void **state)
{
    void (*const spoil[])(Sluice__V1__Receipt *) = {too_far, no_position,
                                                    not_kept};

    (void)state;
    for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
        struct scene s;

        bring(&s);
        s.w->spoil_receipt = spoil[i];
        client_range(s.c, 1, 42);
        rig_run(s.rig);
        assert_true(s.w->gone);
        assert_non_null(strstr(s.w->goodbye, "for a range"));
        rig_free(&s.rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_removed),
        cmocka_unit_test(the_list_shows_what_a_range_leaves),
        cmocka_unit_test(a_range_of_the_prompt),
        cmocka_unit_test(ranges_that_cannot_be),
        cmocka_unit_test(one_range_at_a_time),
        cmocka_unit_test(a_removal_follows_a_range),
        cmocka_unit_test(the_worker_of_a_range_is_lost),
        cmocka_unit_test(the_caller_of_a_range_is_lost),
        cmocka_unit_test(false_receipts_of_ranges_end_the_session),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
