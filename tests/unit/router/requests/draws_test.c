/* The draws of requests that continue kept sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/hello.h"
#include "router/requests/choice_state.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define OLD    (WIRE_DRAWS_MINOR - 1)

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

/* A Generate of at most 4 tokens, kept; from: the request that it continues,
 * 0: none. */
struct ask {
    Sluice__V1__GenerateRequest m;
    Sluice__V1__SequenceRef from;
    Sluice__V1__Sampling sampling;
    uint8_t full[16];
};

static void ask_init(struct ask *a, uint8_t from)
{
    sluice__v1__generate_request__init(&a->m);
    sluice__v1__sequence_ref__init(&a->from);
    sluice__v1__sampling__init(&a->sampling);
    memset(a->full, from, sizeof a->full);
    a->from.request_id = (ProtobufCBinaryData){sizeof a->full, a->full};
    a->sampling.has_seed = true;
    a->sampling.seed = 5;
    a->m.model = wire_text("tiny");
    a->m.has_keep_ms = true;
    a->m.keep_ms = 60000;
    a->m.sampling = &a->sampling;
    a->m.continue_from = from > 0 ? &a->from : NULL;
}

static struct record *send(struct scene *s, struct ask *a, uint8_t id,
                           uint32_t n_prompt)
{
    struct record *x = client_generate_with(s->c, id, n_prompt, 4, &a->m, 0);

    rig_run(s->rig);
    return x;
}

static struct record *generate(struct scene *s, uint8_t id, uint32_t n_prompt,
                               uint8_t from)
{
    struct ask a;

    ask_init(&a, from);
    return send(s, &a, id, n_prompt);
}

static struct fake *worker_of(struct rig *rig, const char *name, uint32_t minor)
{
    struct fake *w = fake_worker_new(rig, name, 64, 8);

    w->minor = minor;
    fake_hello(w);
    rig_run(rig);
    assert_true(w->up);
    return w;
}

/* Request 1 of 40 ids and 4 tokens is kept at w. */
static void bring(struct scene *s, uint32_t minor)
{
    s->rig = rig_new(NULL);
    s->w = worker_of(s->rig, "w1", minor);
    s->c = rig_client(s->rig, "c1");
    generate(s, 1, 40, 0);
    worker_give(s->w, 1, 0, 4, LENGTH);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_ENDED);
}

static void check(struct fake *w, uint8_t id, uint32_t index, uint32_t choice)
{
    const struct sequence *q = worker_sequence_of(w, id);

    assert_non_null(q);
    assert_int_equal(q->seed, 5);
    assert_int_equal(q->draw_index, index);
    assert_int_equal(q->draw_choice, choice);
}

/* With more prompt and without, and again. */
static void draws_go_on(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, WIRE_VERSION_MINOR);
    check(s.w, 1, 0, 0);
    generate(&s, 2, 0, 1);
    check(s.w, 2, 4, 0);
    worker_give(s.w, 2, 0, 4, LENGTH);
    generate(&s, 3, 10, 2);
    check(s.w, 3, 8, 0);
    worker_give(s.w, 3, 0, 4, LENGTH);
    generate(&s, 4, 0, 3);
    check(s.w, 4, 12, 0);
    worker_give(s.w, 4, 0, 4, LENGTH);
    rig_free(&s.rig);
}

static void a_choice_goes_on_as_that_choice(void **state)
{
    struct scene s;
    struct ask a;

    (void)state;
    s.rig = rig_new(NULL);
    s.w = worker_of(s.rig, "w1", WIRE_VERSION_MINOR);
    s.c = rig_client(s.rig, "c1");
    ask_init(&a, 0);
    a.m.has_n = true;
    a.m.n = 3;
    send(&s, &a, 1, 40);
    for (uint32_t c = 0; c < 3; c++) {
        worker_give(s.w, 1, c, 4, LENGTH);
    }
    ask_init(&a, 1);
    a.from.has_choice = true;
    a.from.choice = 2;
    send(&s, &a, 2, 0);
    check(s.w, 2, 4, 2);
    worker_give(s.w, 2, 0, 4, LENGTH);
    generate(&s, 3, 0, 2);
    check(s.w, 3, 8, 2);
    rig_free(&s.rig);
}

/* Tokens that were cut off are drawn again; in its prompt, too. */
static void a_removed_range_is_not_counted(void **state)
{
    static const struct {
        uint32_t begin, index;
    } cases[] = {{46, 6}, {44, 4}, {42, 2}, {40, 0}, {20, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene s;
        struct record *x;

        bring(&s, WIRE_VERSION_MINOR);
        generate(&s, 2, 0, 1);
        worker_give(s.w, 2, 0, 4, LENGTH);
        x = client_range(s.c, 2, cases[i].begin);
        rig_run(s.rig);
        assert_int_equal(x->status, ST_OK);
        generate(&s, 3, 5, 2);
        check(s.w, 3, cases[i].index, 0);
        rig_free(&s.rig);
    }
}

/* As a client does that sends the whole prompt, because nothing is kept. */
static void a_client_may_name_them(void **state)
{
    struct scene s;
    struct ask a;

    (void)state;
    bring(&s, WIRE_VERSION_MINOR);
    ask_init(&a, 0);
    a.sampling.has_draw_index = a.sampling.has_draw_choice = true;
    a.sampling.draw_index = 9;
    a.sampling.draw_choice = 3;
    send(&s, &a, 2, 10);
    check(s.w, 2, 9, 3);
    worker_give(s.w, 2, 0, 4, LENGTH);
    ask_init(&a, 1);
    a.sampling.has_draw_index = true;
    a.sampling.draw_index = 100;
    send(&s, &a, 3, 10);
    check(s.w, 3, 100, 0);
    worker_give(s.w, 3, 0, 4, LENGTH);
    generate(&s, 4, 0, 3);
    check(s.w, 4, 104, 0);
    rig_free(&s.rig);
}

static void an_older_worker_begins_at_0(void **state)
{
    struct scene s;
    struct fake *other;

    (void)state;
    bring(&s, OLD);
    generate(&s, 2, 0, 1);
    check(s.w, 2, 0, 0);
    worker_give(s.w, 2, 0, 2, 0);
    other = worker_of(s.rig, "w2", WIRE_VERSION_MINOR);
    fake_lost(s.w);
    rig_run(s.rig);
    check(other, 2, 0, 0); /* the same tokens elsewhere */
    worker_give(other, 2, 0, 2, LENGTH);
    rig_free(&s.rig);
}

/* It would draw other tokens there. */
static void it_does_not_move_to_an_older_worker(void **state)
{
    struct fake *old, *other;
    struct scene s;

    (void)state;
    bring(&s, WIRE_VERSION_MINOR);
    old = worker_of(s.rig, "w0", OLD);
    generate(&s, 2, 0, 1);
    worker_give(s.w, 2, 0, 2, 0);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_null(worker_sequence_of(old, 2));
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    other = worker_of(s.rig, "w2", WIRE_VERSION_MINOR);
    check(other, 2, 4, 0);
    generate(&s, 3, 10, 0); /* it may go anywhere */
    assert_non_null(worker_sequence_of(old, 3));
    rig_free(&s.rig);
}

static void older_workers_alone_refuse_the_fields(void **state)
{
    struct record *x;
    struct scene s;
    struct ask a;

    (void)state;
    bring(&s, OLD);
    ask_init(&a, 0);
    a.sampling.has_draw_index = true;
    a.sampling.draw_index = 9;
    x = send(&s, &a, 2, 10);
    assert_int_equal(x->status, ST_FAILED_PRECONDITION);
    assert_non_null(strstr(x->error, "draw_index and draw_choice need"));
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_go_on),
        cmocka_unit_test(a_choice_goes_on_as_that_choice),
        cmocka_unit_test(a_removed_range_is_not_counted),
        cmocka_unit_test(a_client_may_name_them),
        cmocka_unit_test(an_older_worker_begins_at_0),
        cmocka_unit_test(it_does_not_move_to_an_older_worker),
        cmocka_unit_test(older_workers_alone_refuse_the_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
