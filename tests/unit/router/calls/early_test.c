/* A router that has just started: requests before its first worker is back, how
 * long they wait, and how they end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define QUEUED    SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED
#define FINISHED  SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED
#define UNKNOWN   SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN
#define MS        1000
#define WAIT_US   (1000 * MS)

/* A router that has just started, and one client. */
struct scene {
    struct rig *rig;
    struct fake *c;
};

static struct scene young(uint32_t max_waiting, int64_t wait_us)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 64,
                                  .max_waiting = max_waiting,
                                  .worker_wait_us = wait_us};
    struct scene s = {.rig = rig_new(&o)};

    s.c = rig_client(s.rig, "c1");
    return s;
}

static struct router_metrics counts(const struct scene *s)
{
    struct router_metrics k;

    router_counts(s->rig->router, &k);
    return k;
}

static void end(struct scene *s)
{
    rig_advance(s->rig, 10000);
    assert_int_equal(counts(s).choices_early, 0);
    assert_int_equal(counts(s).early_bytes, 0);
    rig_end(&s->rig);
}

static struct record *unnamed(struct scene *s, uint8_t id)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    return client_generate_with(s->c, id, 40, 10, &m, 0);
}

/* Resumes a call of which the client has two tokens. */
static struct record *resumed(struct fake *c, uint8_t id)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint32_t count = 2, text = 0, tokens[2];
    protobuf_c_boolean ended = false;
    uint8_t full[16];

    memset(full, id, 16);
    for (uint32_t i = 0; i < 2; i++) {
        tokens[i] = fake_token(full, i);
    }
    m.model = wire_text("tiny");
    m.n_have_count = m.n_have_text = m.n_have_ended = 1;
    m.n_have_tokens = 2;
    m.have_count = &count;
    m.have_tokens = tokens;
    m.have_text = &text;
    m.have_ended = &ended;
    return client_generate_with(c, id, 40, 10, &m, 0);
}

static void refused(const struct record *x, enum status status, const char *why)
{
    assert_true(x->ended);
    assert_int_equal(x->status, status);
    assert_non_null(strstr(x->error, why));
}

static void open(const struct scene *s, const struct record *x, uint32_t early)
{
    assert_false(x->ended);
    assert_int_equal(counts(s).choices_early, early);
}

static void the_first_worker_comes(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x, *y, *z;
    struct fake *w;

    (void)state;
    x = client_generate(s.c, 1, 40, 10);
    rig_run(s.rig);
    y = unnamed(&s, 2);
    rig_run(s.rig);
    z = resumed(s.c, 3);
    rig_run(s.rig);
    open(&s, z, 3);
    rig_advance(s.rig, WAIT_US - 1 * MS);
    assert_int_equal(counts(&s).choices_early, 3);
    w = rig_worker(s.rig, "w1", 64, 8);
    assert_int_equal(counts(&s).choices_early, 0);
    assert_int_equal(counts(&s).requests, 3);
    /* In order of arrival. */
    assert_int_equal(worker_sequence_of(w, 1)->grant, 1);
    assert_int_equal(worker_sequence_of(w, 2)->grant, 2);
    assert_int_equal(worker_sequence_of(w, 3)->grant, 3);
    assert_int_equal(worker_sequence_of(w, 3)->n_given, 2);
    worker_give(w, 1, 0, 10, LENGTH);
    worker_give(w, 2, 0, 10, LENGTH);
    worker_give(w, 3, 0, 8, LENGTH);
    record_check(x, 1, 0, 10);
    record_check(y, 2, 0, 10);
    assert_int_equal(z->n_tokens, 8);
    assert_int_equal(z->status, ST_OK);
    assert_true(x->figures.queued_us >= WAIT_US - 1 * MS);
    end(&s);
}

static void none_comes(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x, *y, *z, *late;

    (void)state;
    x = client_generate(s.c, 1, 40, 10);
    y = unnamed(&s, 2);
    z = resumed(s.c, 3);
    rig_advance(s.rig, WAIT_US - 1 * MS);
    open(&s, x, 3);
    rig_advance(s.rig, 1 * MS);
    refused(x, ST_NOT_FOUND, "model tiny is not served here");
    refused(y, ST_UNAVAILABLE, "no worker is up");
    refused(z, ST_UNAVAILABLE, "no worker of model tiny is up yet");
    assert_int_equal(z->retry_ms, RETRY_MS_MIN);
    assert_int_equal(counts(&s).refused, 3);
    late = client_generate(s.c, 4, 40, 10);
    rig_run(s.rig);
    refused(late, ST_NOT_FOUND, "model tiny is not served here");
    end(&s);
}

static void with_text_it_is_known(void **state)
{
    struct fake_text t;
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .worker_wait_us = WAIT_US};
    struct scene s;
    struct record *x;

    (void)state;
    fake_text_init(&t, NULL);
    o.text = &t.seam;
    s.rig = rig_new(&o);
    s.c = rig_client(s.rig, "c1");
    x = client_generate(s.c, 1, 40, 10);
    rig_run(s.rig);
    open(&s, x, 1);
    rig_advance(s.rig, WAIT_US);
    refused(x, ST_UNAVAILABLE, "no worker of model tiny is up");
    end(&s);
    fake_text_fini(&t);
}

static void nobody_waits(void **state)
{
    struct scene s = young(16, 0);
    struct record *x = client_generate(s.c, 1, 40, 10);

    (void)state;
    rig_run(s.rig);
    refused(x, ST_NOT_FOUND, "model tiny is not served here");
    end(&s);
}

static void another_model_comes(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x = client_generate(s.c, 1, 40, 10);
    struct record *any = unnamed(&s, 2);
    struct fake *other, *w;

    (void)state;
    rig_run(s.rig);
    other = fake_worker_new(s.rig, "w2", 64, 8);
    strcpy(other->model, "other");
    other->shard.model = wire_text(other->model);
    fake_hello(other);
    open(&s, x, 1);
    worker_give(other, 2, 0, 10, LENGTH); /* the only model */
    record_check(any, 2, 0, 10);
    w = rig_worker(s.rig, "w1", 64, 8);
    worker_give(w, 1, 0, 10, LENGTH);
    record_check(x, 1, 0, 10);
    end(&s);
}

/* A wrong request is refused when it is checked. */
static void one_is_wrong(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x = client_generate(s.c, 1, 40, RIG_CONTEXT);
    struct record *y = client_generate(s.c, 2, 40, 10);
    struct fake *w;

    (void)state;
    rig_run(s.rig);
    w = rig_worker(s.rig, "w1", 64, 8);
    refused(x, ST_INVALID_ARGUMENT, "exceed the context");
    worker_give(w, 2, 0, 10, LENGTH);
    record_check(y, 2, 0, 10);
    end(&s);
}

static void callers_go(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s = young(16, WAIT_US);
    struct fake *other = rig_client(s.rig, "c2");
    struct record *given_up, *hasty;
    struct fake *w;

    (void)state;
    given_up = client_generate(s.c, 1, 40, 10);
    hasty = client_generate_with(s.c, 2, 40, 10, &m, 100);
    (void)client_generate(other, 3, 40, 10);
    rig_run(s.rig);
    assert_int_equal(counts(&s).choices_early, 3);
    client_give_up(s.c, given_up);
    rig_run(s.rig);
    assert_int_equal(counts(&s).choices_early, 2);
    rig_advance(s.rig, 200 * MS);
    assert_int_equal(hasty->status, ST_DEADLINE_EXCEEDED);
    assert_int_equal(counts(&s).choices_early, 1);
    fake_lost(other);
    rig_run(s.rig);
    assert_int_equal(counts(&s).choices_early, 0);
    assert_int_equal(counts(&s).cancelled, 3);
    w = rig_worker(s.rig, "w1", 64, 8);
    assert_int_equal(w->n_submits, 0);
    end(&s);
}

/* The deadline includes the time held. */
static void the_deadline_is_kept(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s = young(16, WAIT_US);
    struct record *x = client_generate_with(s.c, 1, 40, 10, &m, 500);

    (void)state;
    rig_advance(s.rig, 400 * MS);
    (void)rig_worker(s.rig, "w1", 64, 8);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
    rig_advance(s.rig, 110 * MS);
    assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
    end(&s);
}

static void so_many_wait(void **state)
{
    struct scene s = young(4, WAIT_US);
    struct record *x, *y, *z, *huge;
    struct fake *w;

    (void)state;
    huge = client_generate_n(s.c, 9, 5, 40, 10);
    rig_run(s.rig);
    refused(huge, ST_RESOURCE_EXHAUSTED, "5 choices, at most");
    x = client_generate_n(s.c, 1, 3, 40, 10);
    z = client_generate(s.c, 2, 40, 10);
    rig_run(s.rig);
    open(&s, x, 4);
    y = client_generate(s.c, 3, 40, 10);
    rig_run(s.rig);
    refused(y, ST_UNAVAILABLE, "4 choices of ");
    assert_int_equal(y->retry_ms, RETRY_MS_ABSENT);
    w = rig_worker(s.rig, "w1", 64, 8);
    for (uint32_t c = 0; c < 3; c++) {
        worker_give(w, 1, c, 10, LENGTH);
        record_check(x, 1, c, 10);
    }
    worker_give(w, 2, 0, 10, LENGTH);
    record_check(z, 2, 0, 10);
    end(&s);
}

/* Sends a request that brings the held bytes to `target`. */
static struct record *fill(struct scene *s, uint8_t id, size_t target)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    size_t left = target - counts(s).early_bytes, bytes = 0;
    uint8_t full[16];
    struct record *x;
    char *text;

    memset(full, id, 16);
    text = malloc(left);
    memset(text, 'a', left);
    m.request_id = (ProtobufCBinaryData){16, full};
    m.model = wire_text("tiny");
    m.has_text = m.has_max_tokens = true;
    m.max_tokens = 10;
    m.text = (ProtobufCBinaryData){left, (uint8_t *)text};
    bytes = wire_size(&m.base);
    m.text.len -= bytes - left;
    assert_int_equal(wire_size(&m.base), left);
    x = client_call(s->c, METHOD_INFERENCE_GENERATE, &m.base, 0);
    rig_run(s->rig);
    free(text);
    return x;
}

static void so_many_bytes_wait(void **state)
{
    struct scene s = young(1000, WAIT_US);
    const size_t piece = 1 << 19;
    struct record *x;
    uint8_t id = 1;

    (void)state;
    for (size_t n = piece; n < EARLY_BYTES_MAX; n += piece) {
        (void)fill(&s, id++, n);
        assert_int_equal(counts(&s).early_bytes, n);
    }
    x = fill(&s, id++, EARLY_BYTES_MAX + 1);
    refused(x, ST_UNAVAILABLE, "already wait for one");
    assert_int_equal(x->retry_ms, RETRY_MS_ABSENT);
    x = fill(&s, id++, EARLY_BYTES_MAX);
    assert_false(x->ended);
    assert_int_equal(counts(&s).early_bytes, EARLY_BYTES_MAX);
    fake_lost(s.c);
    end(&s);
}

static void a_receipt(const struct record *x, Sluice__V1__SequenceState state,
                      uint32_t n_generated)
{
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->receipt.state, state);
    assert_int_equal(x->receipt.n_generated, n_generated);
    assert_int_equal(x->receipt.blocks, 0);
    assert_int_equal(x->receipt.slots, 0);
}

static void cancels(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x = client_generate(s.c, 1, 40, 10);
    struct record *y = resumed(s.c, 2), *r;

    (void)state;
    rig_run(s.rig);
    r = client_cancel(s.c, 1);
    rig_run(s.rig);
    a_receipt(r, QUEUED, 0);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->finish, CANCELLED);
    assert_int_equal(x->figures.n_prompt, 40);
    r = client_remove(s.c, 2);
    rig_run(s.rig);
    a_receipt(r, QUEUED, 2);
    assert_int_equal(y->finish, CANCELLED);
    assert_int_equal(y->figures.n_generated, 2);
    r = client_cancel(s.c, 1);
    rig_run(s.rig);
    a_receipt(r, UNKNOWN, 0);
    assert_int_equal(counts(&s).choices_early, 0);
    assert_int_equal(counts(&s).cancelled, 2);
    (void)rig_worker(s.rig, "w1", 64, 8);
    end(&s);
}

static void cancels_of_choices(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x = client_generate_n(s.c, 1, 2, 40, 10);
    struct record *y = client_generate_n(s.c, 2, 2, 40, 10), *r;
    struct fake *w;

    (void)state;
    rig_run(s.rig);
    for (uint32_t c = 0; c < 2; c++) {
        r = client_cancel_choice(s.c, 1, c);
        rig_run(s.rig);
        a_receipt(r, QUEUED, 0);
    }
    assert_int_equal(record_choice(x, 0)->finish, CANCELLED);
    assert_int_equal(record_choice(x, 1)->finish, CANCELLED);
    assert_true(x->ended);
    r = client_cancel_choice(s.c, 2, 2);
    rig_run(s.rig);
    a_receipt(r, UNKNOWN, 0);
    for (int again = 0; again < 2; again++) {
        r = client_cancel_choice(s.c, 2, 1);
        rig_run(s.rig);
        a_receipt(r, again ? FINISHED : QUEUED, 0);
    }
    open(&s, y, 2);
    w = rig_worker(s.rig, "w1", 64, 8);
    assert_int_equal(record_choice(y, 1)->finish, CANCELLED);
    assert_int_equal(w->n_submits, 1);
    worker_give(w, 2, 0, 10, LENGTH);
    record_check(y, 2, 0, 10);
    assert_true(y->ended);
    end(&s);
}

static void an_id_is_taken(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct fake *other = rig_client(s.rig, "c2");
    struct record *x = client_generate(s.c, 1, 40, 10), *y, *z;
    struct fake *w;

    (void)state;
    rig_run(s.rig);
    y = client_generate(other, 1, 40, 10);
    z = resumed(s.c, 1);
    rig_run(s.rig);
    refused(y, ST_ALREADY_EXISTS, "already waits for the first worker");
    refused(z, ST_ALREADY_EXISTS, "already waits for the first worker");
    assert_int_equal(z->retry_ms, 0);
    y = resumed(other, 1);
    rig_run(s.rig);
    refused(x, ST_ALREADY_EXISTS, "resumed in another session");
    assert_int_equal(x->retry_ms, RESUME_RETRY_MS);
    open(&s, y, 1);
    w = rig_worker(s.rig, "w1", 64, 8);
    worker_give(w, 1, 0, 8, LENGTH);
    assert_int_equal(y->n_tokens, 8);
    end(&s);
}

static void the_router_stops(void **state)
{
    struct scene s = young(16, WAIT_US);
    struct record *x = client_generate(s.c, 1, 40, 10);

    (void)state;
    rig_run(s.rig);
    open(&s, x, 1);
    router_stop(s.rig->router);
    rig_run(s.rig);
    assert_false(x->ended); /* the end of the session ends the call */
    rig_free(&s.rig);
    s = young(16, WAIT_US);
    (void)client_generate(s.c, 1, 40, 10);
    rig_run(s.rig);
    rig_free(&s.rig); /* also without router_stop() */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_worker_comes),
        cmocka_unit_test(none_comes),
        cmocka_unit_test(with_text_it_is_known),
        cmocka_unit_test(nobody_waits),
        cmocka_unit_test(another_model_comes),
        cmocka_unit_test(one_is_wrong),
        cmocka_unit_test(callers_go),
        cmocka_unit_test(the_deadline_is_kept),
        cmocka_unit_test(so_many_wait),
        cmocka_unit_test(so_many_bytes_wait),
        cmocka_unit_test(cancels),
        cmocka_unit_test(cancels_of_choices),
        cmocka_unit_test(an_id_is_taken),
        cmocka_unit_test(the_router_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
