/* The drafts of a request: their limit, and every Submit of the request. */
#include <stdlib.h>
#include <string.h>

#include "router/base/router_limits.h"
#include "router/calls/counts.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define LEARNT 60 /* ends after which grants are of the expected length */

typedef Sluice__V1__GenerateRequest generate_message;

/* Calls Generate with a prompt of 32 ids. */
static struct record *ask(struct fake *c, uint8_t id, generate_message *m)
{
    uint32_t ids[32];
    uint8_t full[16];
    struct record *x;

    memset(full, id, sizeof full);
    for (uint32_t i = 0; i < 32; i++) {
        ids[i] = i;
    }
    m->model = wire_text("tiny");
    m->request_id = (ProtobufCBinaryData){sizeof full, full};
    m->n_tokens = 32;
    m->tokens = ids;
    m->max_tokens = m->has_max_tokens ? m->max_tokens : 20;
    m->has_max_tokens = true;
    x = client_call(c, METHOD_INFERENCE_GENERATE, &m->base, 0);
    rig_run(c->rig);
    return x;
}

static struct record *ask_drafts(struct fake *c, uint8_t id, uint32_t drafts)
{
    generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.has_drafts = true;
    m.drafts = drafts;
    return ask(c, id, &m);
}

static void has_drafts(struct fake *w, uint8_t id, uint32_t drafts)
{
    const struct sequence *s = worker_sequence_of(w, id);

    assert_non_null(s);
    assert_true(s->has_drafts);
    assert_int_equal(s->drafts, drafts);
}

static void the_worker_gets_what_the_client_asked_for(void **state)
{
    generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1000, 64);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    for (uint32_t k = 0; k <= DRAFTS_MAX; k++) {
        ask_drafts(c, (uint8_t)(1 + k), k);
        has_drafts(w, (uint8_t)(1 + k), k);
    }
    ask(c, 100, &m);
    assert_false(worker_sequence_of(w, 100)->has_drafts);
    rig_free(&rig);
}

static void a_call_with_a_deadline_is_urgent(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1000, 64);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    for (uint8_t id = 1; id <= 2; id++) {
        generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;

        client_generate_with(c, id, 32, 20, &m, id == 2 ? 60000 : 0);
        rig_run(rig);
        assert_int_equal(worker_sequence_of(w, id)->urgent, id == 2);
    }
    rig_free(&rig);
}

static void more_than_the_most_is_refused(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = ask_drafts(c, 1, DRAFTS_MAX + 1);

    (void)state;
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(x->error, "drafts is 9, at most 8 is allowed");
    x = ask_drafts(c, 1, UINT32_MAX);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_int_equal(w->n_submits, 0);
    rig_free(&rig);
}

static void they_move_with_their_choices(void **state)
{
    generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1000, 64), *w2;
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    m.has_n = m.has_drafts = true;
    m.n = 2;
    m.drafts = 3;
    x = ask(c, 1, &m);
    worker_give(w, 1, 0, 4, 0);
    worker_give(w, 1, 1, 1, 0);
    w2 = rig_worker(rig, "w2", 1000, 64);
    fake_lost(w);
    rig_advance(rig, 1000000);
    for (uint32_t choice = 0; choice < 2; choice++) {
        const struct sequence *s = worker_choice_of(w2, 1, choice);

        assert_non_null(s);
        assert_int_equal(s->n_given, choice == 0 ? 4 : 1);
        assert_true(s->has_drafts);
        assert_int_equal(s->drafts, 3);
        worker_give(w2, 1, choice, 20 - s->n_given, LENGTH);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    rig_end(&rig);
}

static void they_come_with_a_resumed_request(void **state)
{
    generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1000, 64);
    struct fake *c = rig_client(rig, "c1");
    uint32_t count = 2, text = 0, tokens[] = {1, 2};
    protobuf_c_boolean ended = false;

    (void)state;
    m.has_drafts = true;
    m.drafts = DRAFTS_MAX;
    m.n_have_count = m.n_have_text = m.n_have_ended = 1;
    m.have_count = &count;
    m.have_text = &text;
    m.have_ended = &ended;
    m.n_have_tokens = 2;
    m.have_tokens = tokens;
    ask(c, 1, &m);
    assert_int_equal(worker_sequence_of(w, 1)->n_given, 2);
    has_drafts(w, 1, DRAFTS_MAX);
    rig_free(&rig);
}

/* Drafts need no memory of their own: the grant is the same. */
static void a_growing_sequence_has_them_too(void **state)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 1000000,
                                  .expected = true};
    generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_new(&o);
    struct fake *c = rig_client(rig, "c1");
    struct fake *w = rig_worker(rig, "w1", 64, 64);

    (void)state;
    for (uint32_t i = 0; i < LEARNT; i++) {
        client_generate(c, 255, 32, 256);
        rig_run(rig);
        worker_give(w, 255, 0, 64, SLUICE__V1__FINISH__FINISH_STOP);
    }
    m.has_max_tokens = true;
    m.max_tokens = 256;
    ask(c, 1, &m);
    m.has_drafts = true;
    m.drafts = 4;
    ask(c, 2, &m);
    assert_true(worker_sequence_of(w, 2)->grows);
    assert_int_equal(worker_sequence_of(w, 2)->blocks,
                     worker_sequence_of(w, 1)->blocks);
    has_drafts(w, 2, 4);
    rig_free(&rig);
}

/* ---- their counts ---- */

/* w reports these counts of its life. */
static void count(struct fake *w, uint64_t rows, uint64_t verified,
                  uint64_t accepted)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    Sluice__V1__DraftCounts d = SLUICE__V1__DRAFT_COUNTS__INIT;

    d.rows = rows;
    d.verified = verified;
    d.accepted = accepted;
    m.drafts = &d;
    worker_say(w, &m);
    rig_run(w->rig);
}

static void counted(struct rig *rig, uint64_t rows, uint64_t verified,
                    uint64_t accepted)
{
    struct metric_series s[COUNTS_SETS];

    counts_series(rig->router, s);
    for (size_t i = 0; i < COUNTS_SETS; i++) {
        if (strstr(s[i].set->rows[0].name, "draft_rows") != NULL) {
            assert_int_equal(s[i].n, 1);
            assert_string_equal(s[i].labels, "tiny");
            assert_int_equal(((const uint64_t *)s[i].values)[0], rows);
            assert_int_equal(((const uint64_t *)s[i].values)[1], verified);
            assert_int_equal(((const uint64_t *)s[i].values)[2], accepted);
            return;
        }
    }
    fail_msg("no series of drafts");
}

/* A worker that comes back has counted in its earlier session too. */
static void a_model_counts_those_of_its_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *v = rig_worker(rig, "w2", 64, 8);

    (void)state;
    counted(rig, 0, 0, 0);
    count(w, 1000, 4000, 2000);
    counted(rig, 0, 0, 0);
    count(w, 1010, 4080, 2030);
    counted(rig, 10, 80, 30);
    count(v, 0, 0, 0);
    count(v, 1, 2, 2);
    counted(rig, 11, 82, 32);
    fake_lost(w);
    rig_advance(rig, 100000);
    w = rig_worker(rig, "w1", 64, 8);
    count(w, 1020, 4090, 2031);
    counted(rig, 11, 82, 32);
    rig_free(&rig);
}

static void counts_that_cannot_be_end_the_session(void **state)
{
    static const struct {
        uint64_t rows, verified, accepted;
        bool taken;
    } cases[] = {
        {10, 80, 30, true},          {10, 80, 80, true},  {11, 88, 30, true},
        {10, 81, 30, false},         {10, 80, 81, false}, {10, 9, 9, false},
        {9, 40, 30, false},          {10, 39, 30, false}, {10, 40, 29, false},
        {10, UINT64_MAX, 30, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w = rig_worker(rig, "w1", 64, 8);

        count(w, 10, 40, 30);
        count(w, cases[i].rows, cases[i].verified, cases[i].accepted);
        if (w->gone == cases[i].taken) {
            fail_msg("case %zu", i);
        }
        rig_free(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worker_gets_what_the_client_asked_for),
        cmocka_unit_test(a_call_with_a_deadline_is_urgent),
        cmocka_unit_test(more_than_the_most_is_refused),
        cmocka_unit_test(they_move_with_their_choices),
        cmocka_unit_test(they_come_with_a_resumed_request),
        cmocka_unit_test(a_growing_sequence_has_them_too),
        cmocka_unit_test(a_model_counts_those_of_its_workers),
        cmocka_unit_test(counts_that_cannot_be_end_the_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
