/* An assembly of a worker: its edges, the answer to Assemble, its endings. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

static void hello_says_where_to_come(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    assert_string_equal(b->endpoint, "ipc:///test/stage");
    assert_int_equal(b->hidden, BENCH_HIDDEN);
    assert_int_equal(b->step_tokens, b->o.step_tokens);
    bench_free(&b);
}

static void is_up_with_both_edges(void **state)
{
    struct bench *b = bench_new(false);
    struct worker_account a;
    uint64_t call = bench_order(b);

    (void)state;
    assert_non_null(b->in);
    assert_false(b->ends[call].ended);
    assert_int_equal(bench_account(b).assembly, 0);
    bench_connect(b, b->assembly, 0);
    assert_true(b->ends[call].ended);
    assert_int_equal(b->ends[call].status, ST_OK);
    a = bench_account(b);
    assert_int_equal(a.assembly, b->assembly);
    assert_int_equal(a.stage, 1);
    assert_int_equal(a.n_stages, 3);
    bench_free(&b);
}

static void refused(struct bench *b, const Sluice__V1__AssembleRequest *m,
                    enum status status, const char *text)
{
    uint64_t call = bench_send_assemble(b, m);

    assert_true(b->ends[call].ended);
    assert_int_equal(b->ends[call].status, status);
    if (strstr(b->ends[call].text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", b->ends[call].text, text);
    }
}

static void refuses_a_wrong_place(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;
    static const struct {
        uint32_t stage, n_stages;
        const char *text;
    } wrong[] = {
        {0, 3, "layers 2-3 of 4 cannot be stage 0 of 3"},
        {2, 3, "cannot be stage 2 of 3"},
        {3, 3, "stage is 3 of 3, a replica has 2 to 16 stages"},
        {0, 1, "stage is 0 of 1"},
        {1, STAGES_MAX + 1, "stage is 1 of 17"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bench_message(b, &m);
        m.stage = wrong[i].stage;
        m.n_stages = wrong[i].n_stages;
        refused(b, &m, ST_INVALID_ARGUMENT, wrong[i].text);
    }
    bench_message(b, &m);
    m.assembly = 0;
    refused(b, &m, ST_INVALID_ARGUMENT, "assembly is 0");
    bench_message(b, &m);
    m.has_max_rows = true;
    m.max_rows = b->o.max_rows + 1;
    refused(b, &m, ST_INVALID_ARGUMENT, "max_rows is 9, this stage takes 1 to");
    m.max_rows = 0;
    refused(b, &m, ST_INVALID_ARGUMENT, "max_rows is 0");
    bench_message(b, &m);
    m.has_step_tokens = true;
    m.step_tokens = b->o.step_tokens + 1;
    refused(b, &m, ST_INVALID_ARGUMENT, "step_tokens is 65");
    bench_message(b, &m);
    m.n_stages = STAGES_MAX;
    bench_send_assemble(b, &m);
    assert_false(b->ends[b->calls].ended); /* the most allowed */
    bench_free(&b);
}

/* Another worker chose the name, so this one dials neighbours only: loopback,
 * and files beside its own.  The bench dials nothing in any case. */
static void refuses_to_dial_what_is_no_neighbour(void **state)
{
    static const char *const strange[] = {"",
                                          "nowhere",
                                          "tcp://192.0.2.1:7070",
                                          "tcp://example.org:7070",
                                          "tcp://127.0.0.1:1;192.0.2.1:7070",
                                          "tcp://127.0.0.1:0",
                                          "ipc:///etc/passwd",
                                          "ipc:///test/../etc/passwd",
                                          "ipc://next",
                                          "ipc://@next"};
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;

    (void)state;
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        bench_message(b, &m);
        m.next = wire_text(strange[i]);
        refused(b, &m, ST_INVALID_ARGUMENT, "next: \"");
    }
    bench_assemble(b); /* beside its own */
    bench_free(&b);
}

/* Checks the refusal that the previous stage received. */
static void turned_away(struct bench *b, uint64_t assembly, uint32_t index,
                        const char *text)
{
    bench_connect(b, assembly, index);
    assert_null(b->out);
    if (strstr(b->refused, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", b->refused, text);
    }
}

static void lets_only_the_stage_before_in(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    turned_away(b, 501, 0, "FAILED_PRECONDITION: this worker has no assembly");
    bench_order(b);
    turned_away(b, b->assembly - 1, 0,
                "FAILED_PRECONDITION: this worker belongs to another assembly");
    turned_away(b, b->assembly, 2,
                "FAILED_PRECONDITION: stage 0 comes before stage 1 of 3, not "
                "stage 2");
    bench_connect(b, b->assembly, 0);
    assert_non_null(b->out);
    bench_order(b);
    assert_null(b->out);
    turned_away(b, b->assembly - 1, 0, "another assembly");
    bench_free(&b);
}

/* The worker retries the next stage until its time is over, then reports the
 * reason. */
static void gives_up_in_time(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;
    uint64_t call, tries;

    (void)state;
    bench_message(b, &m);
    m.assembly = b->assembly + 7; /* which is unknown to the next stage */
    call = bench_send_assemble(b, &m);
    tries = b->next_id.v;
    bench_advance(b, EDGES_US - 1000);
    assert_false(b->ends[call].ended);
    assert_true(b->next_id.v > tries + 3);
    bench_advance(b, 1000);
    assert_int_equal(b->ends[call].status, ST_DEADLINE_EXCEEDED);
    assert_non_null(
        strstr(b->ends[call].text,
               "no edge to stage 2 at ipc:///test/next in 5000 ms: not "
               "yet ordered"));
    tries = b->next_id.v;
    bench_advance(b, EDGES_US);
    assert_int_equal(b->next_id.v, tries); /* no more */
    call = bench_order(b);
    bench_advance(b, EDGES_US);
    assert_int_equal(b->ends[call].status, ST_DEADLINE_EXCEEDED);
    assert_string_equal(b->ends[call].text,
                        "stage 0 has not connected in 5000 ms");
    assert_int_equal(b->n_broken, 0);
    bench_assemble(b);
    bench_free(&b);
}

/* The next stage gets its Assemble later. */
static void waits_for_the_others(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;
    uint64_t call;

    (void)state;
    b->assembly++;
    bench_message(b, &m);
    b->assembly--;
    call = bench_send_assemble(b, &m);
    bench_advance(b, 1000000);
    assert_null(b->in);
    b->assembly++;
    bench_connect(b, b->assembly, 0);
    bench_advance(b, 2000000);
    assert_int_equal(b->ends[call].status, ST_OK);
    assert_true(b->ends[call].ended);
    bench_free(&b);
}

/* An edge that ends before the assembly is up may come again. */
static void an_edge_may_come_twice(void **state)
{
    struct bench *b = bench_new(false);
    uint64_t call = bench_order(b);

    (void)state;
    greeter_end(&b->next, "for a test");
    bench_turn(b);
    assert_null(b->in);
    bench_advance(b, 100000);
    assert_non_null(b->in);
    bench_connect(b, b->assembly, 0);
    assert_int_equal(b->ends[call].status, ST_OK);
    assert_true(b->ends[call].ended);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* Everything held is freed, except what a plan in flight names. */
static void ends_with_an_edge(void **state)
{
    struct bench *b = bench_new(false);
    uint64_t grant;

    (void)state;
    bench_assemble(b);
    grant = bench_open_plain(b, 8, 8);
    bench_open_plain(b, 8, 8);
    bench_forward(b, grant, false, 0, 8, 0);
    assert_non_null(b->plan);
    assert_int_equal(bench_account(b).n_sequences, 2);
    greeter_end(&b->next, "the stage after goes");
    bench_check_broken(b, "the edge to stage 2 ended");
    assert_null(b->out); /* the previous stage was notified */
    assert_int_equal(bench_account(b).pages.free, BENCH_PAGES);
    bench_run(b);
    assert_int_equal(bench_account(b).pages.free, BENCH_PAGES);
    bench_assemble(b);
    session_restart(&b->before, "the stage before goes");
    bench_check_broken(b, "the edge from stage 0 ended");
    assert_null(b->in);
    bench_free(&b);
}

/* No frame arrives any more, but the connections stay open. */
static void ends_with_a_silent_edge(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    bench_assemble(b);
    bench_advance(b, 10000000);
    assert_int_equal(b->n_broken, 0); /* it is kept alive */
    b->mute = true;
    bench_advance(b, SESSION_SILENT_US + 10000);
    bench_check_broken(b, "no frame arrived from");
    b->mute = false;
    bench_free(&b);
}

/* The assembly ends with the router's session: no orphan, no Broken. */
static void ends_with_the_session(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    bench_assemble(b);
    bench_open_plain(b, 8, 8);
    worker_node_ops.lost(b->worker, b->router_id);
    bench_turn(b);
    assert_int_equal(bench_account(b).n_sequences, 0);
    assert_int_equal(bench_account(b).n_orphans, 0);
    assert_null(b->in);
    assert_null(b->out);
    bench_advance(b, 1000000); /* Hello has n_live 0, which the bench checks */
    assert_int_equal(b->n_hellos, 2);
    assert_int_equal(b->n_broken, 0);
    bench_assemble(b);
    bench_open_plain(b, 8, 8);
    bench_free(&b);
}

static void another_assemble_ends_it(void **state)
{
    struct bench *b = bench_new(false);
    uint64_t call = bench_order(b);

    (void)state;
    bench_order(b);
    assert_int_equal(b->ends[call].status, ST_ABORTED);
    assert_string_equal(b->ends[call].text, "another Assemble came");
    bench_connect(b, b->assembly, 0);
    assert_int_equal(bench_account(b).assembly, b->assembly);
    bench_open_plain(b, 8, 8);
    assert_int_equal(bench_account(b).n_sequences, 1);
    bench_assemble(b);
    assert_int_equal(bench_account(b).n_sequences, 0);
    assert_int_equal(b->n_broken, 0);
    bench_open_plain(b, 8, 8); /* its grants continue */
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* The router cancels its call. */
static void a_cancel_ends_it(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;
    uint64_t call;

    (void)state;
    b->assembly++;
    bench_message(b, &m);
    b->calls++;
    assert_int_equal(peer_call(b->router, METHOD_WORKER_ASSEMBLE, &m.base, 0,
                               b->calls, &call),
                     ST_OK);
    bench_turn(b);
    assert_non_null(b->in);
    peer_cancel(b->router, call);
    bench_turn(b);
    assert_null(b->in);
    turned_away(b, b->assembly, 0, "this worker has no assembly");
    bench_free(&b);
}

static void stops_in_an_assembly(void **state)
{
    struct bench *b = bench_new(true);
    uint64_t grant;

    (void)state;
    bench_assemble(b);
    grant = bench_open_plain(b, 8, 8);
    bench_forward(b, grant, false, 0, 8, 0);
    bench_forward(b, bench_open_plain(b, 8, 8), false, 0, 8, 0);
    worker_stop(b->worker);
    bench_turn(b);
    assert_null(b->in);
    bench_free(&b); /* the plan in flight comes back first */
}

/* Sequences are the leader's business. */
static void refuses_the_routers_sequences(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__CancelRequest cancel = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SubmitRequest submit = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__Need need = SLUICE__V1__NEED__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    static uint8_t id[16] = {1};

    (void)state;
    ref.request_id = (ProtobufCBinaryData){sizeof id, id};
    cancel.sequence = submit.sequence = &ref;
    submit.grant = 1;
    submit.need = &need;
    submit.sampling = &sampling;
    assert_int_equal(
        peer_call(b->router, METHOD_WORKER_CANCEL, &cancel.base, 0, 1, NULL),
        ST_OK);
    assert_int_equal(
        peer_call(b->router, METHOD_WORKER_SUBMIT, &submit.base, 0, 2, NULL),
        ST_OK);
    bench_turn(b);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(b->ends[i].status, ST_FAILED_PRECONDITION);
        assert_non_null(strstr(b->ends[i].text,
                               ": layers 2-3 of 4 obey the stage that has "
                               "layer 0"));
    }
    b->calls = 2;
    bench_assemble(b);
    bench_open_plain(b, 8, 8); /* grant 1 was not used */
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* Each of these has a gap in the stream, or goes against the ring. */
static void a_wrong_message_breaks_it(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__StageResult result = SLUICE__V1__STAGE_RESULT__INIT;
    Sluice__V1__StageRemove remove = SLUICE__V1__STAGE_REMOVE__INIT;

    (void)state;
    bench_assemble(b);
    result.step = 1;
    remove.grant = 1;
    bench_say(b, METHOD_STAGE_RESULT, &result.base);
    bench_check_broken(b, "Result came to stage 1, which does not lead");
    bench_assemble(b);
    assert_int_equal(peer_oneway(b->in, METHOD_STAGE_REMOVE, &remove.base),
                     ST_OK);
    bench_check_broken(b, "Remove came from stage 2, against the ring");
    bench_assemble(b);
    /* A one-way message of the router. */
    assert_int_equal(
        peer_oneway(b->out, METHOD_WORKER_SUBMIT_PART,
                    &(Sluice__V1__SubmitPartMessage)
                         SLUICE__V1__SUBMIT_PART_MESSAGE__INIT.base),
        ST_OK);
    bench_check_broken(b, "stage 0 sent an invalid frame");
    bench_free(&b);
}

/* No message may come before the other edge is up. */
static void a_message_too_early_breaks_it(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;
    Sluice__V1__StageRemove remove = SLUICE__V1__STAGE_REMOVE__INIT;
    uint64_t call;

    (void)state;
    bench_message(b, &m);
    m.assembly = b->assembly + 7;
    call = bench_send_assemble(b, &m);
    bench_connect(b, m.assembly, 0);
    assert_non_null(b->out);
    bench_say(b, METHOD_STAGE_REMOVE, &remove.base);
    assert_int_equal(b->ends[call].status, ST_ABORTED);
    assert_string_equal(b->ends[call].text,
                        "Remove came before the assembly was up");
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_says_where_to_come),
        cmocka_unit_test(is_up_with_both_edges),
        cmocka_unit_test(refuses_a_wrong_place),
        cmocka_unit_test(refuses_to_dial_what_is_no_neighbour),
        cmocka_unit_test(lets_only_the_stage_before_in),
        cmocka_unit_test(gives_up_in_time),
        cmocka_unit_test(waits_for_the_others),
        cmocka_unit_test(an_edge_may_come_twice),
        cmocka_unit_test(ends_with_an_edge),
        cmocka_unit_test(ends_with_a_silent_edge),
        cmocka_unit_test(ends_with_the_session),
        cmocka_unit_test(another_assemble_ends_it),
        cmocka_unit_test(a_cancel_ends_it),
        cmocka_unit_test(stops_in_an_assembly),
        cmocka_unit_test(refuses_the_routers_sequences),
        cmocka_unit_test(a_wrong_message_breaks_it),
        cmocka_unit_test(a_message_too_early_breaks_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
