/* A sequence's life from Submit to its acknowledged end. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"

#define STOP   SLUICE__V1__FINISH__FINISH_STOP
#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define FAILED SLUICE__V1__FINISH__FINISH_FAILED

static void generates_to_the_length(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 10};
        uint64_t tag = rig_submit(r, &s);

        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(rig_inflight(r), depth);
        rig_run(r);
        rig_check_tokens(r, 1, 1, 20, 10);
        assert_int_equal(r->heard[1].finish, LENGTH);
        /* The first token comes from the prefill's own logits, and no step
         * follows the last token. */
        assert_int_equal(r->n_steps, 10);
        rig_advance(r, 20000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

static void counts_what_it_does(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 10};
    struct worker_metrics m;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    s.n_prompt = 0; /* refused */
    s.id = 2;
    rig_submit(r, &s);
    rig_turn(r);
    s.n_prompt = 5;
    s.id = 3;
    rig_submit(r, &s);
    rig_turn(r);
    rig_cancel(r, 3);
    rig_run(r);
    worker_counts(r->worker, &m);
    assert_int_equal(m.sessions, 1);
    assert_int_equal(m.submits, 3);
    assert_int_equal(m.refused, 1);
    assert_in_range(m.steps, 10, 12);
    assert_in_range(m.tokens, 10, 12);
    assert_int_equal(m.prompt_tokens, 25);
    assert_int_equal(m.full, 1);
    assert_int_equal(m.cancelled, 1);
    assert_int_equal(m.stopped + m.failed + m.dropped + m.orphans, 0);
    assert_int_equal(m.steps_failed + m.ledger_violations, 0);
    rig_free(&r);
}

static void stops_at_the_end_token_at_each_index(void **state)
{
    for (uint32_t at = 0; at < 12; at++) {
        for (uint32_t depth = 1; depth <= 2; depth++) {
            struct rig *r = rig_with_depth(depth);
            struct rig_submit s = {.id = 3, .n_prompt = 9, .max_tokens = 10};

            r->eos_at = at;
            rig_submit(r, &s);
            rig_turn(r);
            rig_run(r);
            if (at < 10) {
                assert_int_equal(r->heard[1].n, at + 1);
                assert_int_equal(r->heard[1].tokens[at], RIG_EOS);
                assert_int_equal(r->heard[1].finish, STOP);
            } else {
                assert_int_equal(r->heard[1].n, 10);
                assert_int_equal(r->heard[1].finish, LENGTH);
            }
            rig_advance(r, 20000);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
    (void)state;
}

static void ignores_the_end_token_if_told(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 3, .n_prompt = 9, .max_tokens = 10, .ignore_eos = true};

    (void)state;
    r->eos_at = 4;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->heard[1].n, 10);
    assert_int_equal(r->heard[1].tokens[4], RIG_EOS);
    assert_int_equal(r->heard[1].finish, LENGTH);
    rig_free(&r);
}

/* Tokens do not depend on chunks, on the other rows, or on the depth. */
static void says_the_same_whatever_the_batch(void **state)
{
    static const uint32_t chunks[] = {1, 7, 16, 64, 100, 128};

    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        for (uint32_t depth = 1; depth <= 2; depth++) {
            struct worker_options o;
            struct rig *r;

            rig_defaults(&o);
            o.chunk_tokens = chunks[c];
            o.engine_depth = depth;
            r = rig_new(&o);
            for (uint32_t i = 1; i <= 6; i++) {
                struct rig_submit s = {
                    .id = i, .n_prompt = 1 + 23 * i, .max_tokens = 5 + i};

                rig_submit(r, &s);
                rig_turn(r);
                rig_step(r);
            }
            rig_run(r);
            for (uint32_t i = 1; i <= 6; i++) {
                rig_check_tokens(r, i, i, 1 + 23 * i, 5 + i);
            }
            rig_advance(r, 20000);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
    (void)state;
}

static void serves_shards_of_one_kind(void **state)
{
    for (int kind = 0; kind < 2; kind++) {
        struct worker_options o;
        struct rig_submit s = {.id = 5, .n_prompt = 40, .max_tokens = 9};
        struct rig *r;

        rig_defaults(&o);
        o.pool.pages_per_block = kind == 0 ? 0 : 1;
        o.pool.pages_per_slot = kind == 1 ? 0 : 2;
        r = rig_new(&o);
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        rig_check_tokens(r, 1, 5, 40, 9);
        rig_free(&r);
    }
    (void)state;
}

static void lets_a_new_sequence_join_the_next_step(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        struct rig_submit a = {.id = 1, .n_prompt = 20, .max_tokens = 100};
        struct rig_submit b = {.id = 2, .n_prompt = 5, .max_tokens = 3};

        rig_submit(r, &a);
        rig_turn(r);
        for (int i = 0; i < 5; i++) {
            rig_step(r);
        }
        rig_submit(r, &b);
        rig_turn(r);
        /* Plans in flight were made before the cancel came; the next one was
         * not. */
        rig_step(r);
        assert_int_equal(rig_plan(r, depth - 1)->n_rows, 2);
        for (uint32_t i = 0; i < depth; i++) {
            rig_step(r);
        }
        assert_true(r->heard[2].n >= 1);
        rig_run(r);
        rig_check_tokens(r, 1, 1, 20, 100);
        rig_check_tokens(r, 2, 2, 5, 3);
        rig_free(&r);
    }
    (void)state;
}

static void takes_a_prompt_in_parts(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 9, .n_prompt = 300, .max_tokens = 4, .n_first = 100};
    struct rig_message m;
    uint64_t tag;

    (void)state;
    rig_message(r, &s, &m);
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    assert_false(r->ends[tag].ended);
    /* The need is charged from its arrival. */
    assert_int_equal(rig_account(r).blocks.granted, 38);
    assert_int_equal(rig_account(r).grant, 1);
    rig_part(r, 1, &m, 100, 150);
    rig_turn(r);
    assert_int_equal(rig_inflight(r), 0);
    rig_part(r, 1, &m, 250, 50);
    rig_turn(r);
    rig_check_ok(r, tag);
    rig_run(r);
    rig_check_tokens(r, 1, 9, 300, 4);
    rig_free(&r);
}

static void refuses_parts_that_do_not_fit(void **state)
{
    static const struct {
        uint32_t offset, n;
        const char *says;
    } wrong[] = {{99, 10, "a part starts at 99, the next one starts at 100"},
                 {101, 10, "a part starts at 101, the next one starts at 100"},
                 {0, 10, "a part starts at 0, the next one starts at 100"},
                 {100, 0, "a part has no ids, it must have at least 1"},
                 {100, 101, "a part has 101 ids, 100 are missing"}};
    struct rig *r = rig_new(NULL);

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        struct rig_submit s = {
            .id = 20 + i, .n_prompt = 200, .max_tokens = 4, .n_first = 100};
        struct rig_message m;
        uint64_t tag;

        rig_message(r, &s, &m);
        tag = rig_send_submit(r, &m);
        rig_part(r, r->grant, &m, wrong[i].offset, wrong[i].n);
        rig_turn(r);
        assert_int_equal(r->ends[tag].status, ST_INVALID_ARGUMENT);
        assert_string_equal(r->ends[tag].text, wrong[i].says);
        rig_check_empty(r);
        /* The rest of it was on its way when the session ended. */
        rig_part(r, r->grant, &m, 100, 100);
        rig_turn(r);
        rig_check_empty(r);
    }
    assert_int_equal(r->n_goodbyes, 0);
    rig_free(&r);
}

static void repeats_tokens_until_acknowledged(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};
    uint32_t outputs, rows;

    (void)state;
    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    rows = r->heard[1].rows;
    outputs = r->n_outputs;
    rig_advance(r, 1000000);
    /* On the report timer, and not more often. */
    assert_in_range(r->n_outputs - outputs, 3, 5);
    assert_int_equal(r->heard[1].rows - rows, r->n_outputs - outputs);
    rig_ack(r, 1, 3);
    rig_turn(r);
    assert_int_equal(rig_state(r, 6), 5);
    rig_ack(r, 1, 9); /* more than there are in the pool */
    rig_turn(r);
    assert_int_equal(rig_state(r, 6), 5);
    rig_ack(r, 1, 5);
    rig_turn(r);
    rig_check_empty(r);
    rig_ack(r, 1, 5);
    rig_ack(r, 0, 5);
    rig_ack(r, 77, UINT32_MAX);
    rig_turn(r);
    rig_free(&r);
}

static void cancels_what_the_router_forgot(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 50};

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    rig_step(r);
    rig_ack(r, 1, UINT32_MAX);
    rig_turn(r);
    rig_run(r);
    rig_check_empty(r);
    assert_in_range(r->n_steps, 1, 3);
    rig_free(&r);
}

static void fails_what_the_engine_does_not_take(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 40};

    (void)state;
    r->refuse_plans = true;
    rig_submit(r, &s);
    rig_advance(r, 20000);
    assert_int_equal(r->heard[1].finish, FAILED);
    assert_non_null(strstr(r->failure, "the engine refused a plan"));
    r->refuse_plans = false;
    s.id = 2;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    rig_check_tokens(r, 2, 2, 20, 40);
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static void holds_the_memory_of_a_kept_one(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        struct rig_submit s = {
            .id = 1, .n_prompt = 20, .max_tokens = 40, .keep_ms = 500};

        r->eos_at = 3;
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        rig_advance(r, 100000);
        assert_int_equal(rig_state(r, 1), 4);
        assert_int_equal(rig_account(r).slots.held, 1);
        /* 22 positions; the rest of its grant became free at its end. */
        assert_int_equal(rig_used_blocks(r), 3);
        assert_int_equal(r->ledger.n_kept, 1);
        rig_advance(r, 410000);
        rig_check_empty(r); /* the lease ended; its end was acknowledged */
        rig_free(&r);
    }
    (void)state;
}

static void reports_often_enough_and_not_more(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 1, .n_prompt = 20, .max_tokens = 4, .n_first = 1};
    uint32_t n;

    (void)state;
    rig_advance(r, 300000);
    n = r->n_reports;
    rig_advance(r, 1000000);
    assert_in_range(r->n_reports - n, 4, 5);
    n = r->n_reports;
    for (int i = 0; i < 50; i++) {
        s.id++;
        rig_submit(r, &s); /* waits for its parts: charged */
        rig_cancel(r, s.id);
        rig_advance(r, 1000);
    }
    assert_in_range(r->n_reports - n, 4, 6);
    rig_free(&r);
}

static void starts_anew_after_a_wrong_grant(void **state)
{
    static const uint64_t wrong[] = {0, 1, 3, UINT64_MAX};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig *r = rig_new(NULL);
        struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 4};
        struct rig_message m;
        uint64_t session = r->session;

        rig_submit(r, &s);
        rig_turn(r);
        s.id = 2;
        rig_message(r, &s, &m);
        m.m.grant = wrong[i];
        peer_call(r->peer, METHOD_WORKER_SUBMIT, &m.m.base, 0, ++r->tag, NULL)
            ? fail()
            : (void)0;
        rig_turn(r);
        assert_int_equal(r->n_goodbyes, 1);
        rig_reconnect(r);
        assert_true(r->session > session);
        assert_int_equal(rig_account(r).grant, 0);
        rig_run(r);
        rig_disown(r, 1, 0); /* it became an orphan and ran to its end */
        rig_turn(r);
        rig_check_empty(r);
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        rig_check_tokens(r, 1, 2, 20, 4);
        rig_free(&r);
    }
}

static void starts_anew_after_a_part_without_submit(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 4};
    struct rig_message m;

    (void)state;
    rig_message(r, &s, &m);
    rig_part(r, 1, &m, 0, 3);
    rig_turn(r);
    assert_int_equal(r->n_goodbyes, 1);
    rig_reconnect(r);
    rig_free(&r);
}

/* The router takes the ledger of an audit as any other. */
static void an_audit_has_the_figures_of_host_memory(void **state)
{
    (void)state;
    for (uint32_t pages = 0; pages <= 8; pages += 8) {
        Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;
        struct worker_options o;
        struct rig *r;

        rig_defaults(&o);
        o.pool.host_pages = pages;
        r = rig_new(&o);
        assert_int_equal(
            peer_call(r->peer, METHOD_WORKER_AUDIT, &m.base, 0, 2, NULL),
            ST_OK);
        rig_turn(r);
        assert_int_equal(r->ends[2].status, ST_OK);
        assert_int_equal(r->ends[2].has_host, pages > 0);
        rig_free(&r);
    }
}

static void answers_health_and_audit(void **state)
{
    struct rig *r = rig_new(NULL);
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;
    Sluice__V1__AssembleRequest assemble = SLUICE__V1__ASSEMBLE_REQUEST__INIT;
    Sluice__V1__AssignRequest assign = SLUICE__V1__ASSIGN_REQUEST__INIT;

    (void)state;
    assert_int_equal(
        peer_call(r->peer, METHOD_HEALTH_CHECK, &m.base, 0, 1, NULL), ST_OK);
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_AUDIT, &m.base, 0, 2, NULL), ST_OK);
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_ASSEMBLE, &assemble.base, 0, 3, NULL),
        ST_OK);
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_ASSIGN, &assign.base, 0, 4, NULL),
        ST_OK);
    rig_turn(r);
    assert_int_equal(r->ends[4].status, ST_FAILED_PRECONDITION);
    assert_int_equal(r->ends[1].status, ST_OK);
    assert_int_equal(r->ends[2].status, ST_OK);
    assert_int_equal(r->ends[2].differences, 0);
    assert_int_equal(r->ends[3].status, ST_FAILED_PRECONDITION);
    rig_free(&r);
}

static void says_hello_until_answered(void **state)
{
    struct rig *r = rig_new(NULL);
    uint32_t hellos = r->n_hellos;

    (void)state;
    rig_lose(r);
    r->answer_hello = false;
    rig_advance(r, 10000000);
    assert_in_range(r->n_hellos - hellos, 10, 60);
    r->answer_hello = true;
    rig_reconnect(r);
    rig_free(&r);
}

/* ---- windows in Hello ---- */

/* window 0: the model has no window layers; pages 0: the shard has none. */
static struct rig *with_windows(uint32_t window, uint32_t pages)
{
    struct worker_options o;

    rig_defaults(&o);
    o.window = window;
    o.pool.window_pages = pages;
    o.chunk_tokens = 48;
    o.step_tokens = 40;
    return rig_new(&o);
}

static void a_hello_states_windows_and_the_longest_chunk(void **state)
{
    struct rig *r = with_windows(100, 2);

    (void)state;
    assert_true(r->hello_windows.has_window && r->hello_windows.has_chunk);
    assert_int_equal(r->hello_windows.window_tokens, 100);
    assert_int_equal(r->hello_windows.window_pages, 2);
    assert_int_equal(r->hello_windows.chunk_tokens, 40);
    rig_free(&r);
    r = with_windows(100, 0); /* other stages have them */
    assert_false(r->hello_windows.has_window);
    assert_int_equal(r->hello_windows.chunk_tokens, 40);
    rig_free(&r);
    r = with_windows(0, 0);
    assert_false(r->hello_windows.has_window || r->hello_windows.has_chunk);
    rig_free(&r);
}

/* It would charge nothing for window blocks. */
static void windows_need_a_router_that_charges_them(void **state)
{
    (void)state;
    for (uint32_t pages = 0; pages <= 2; pages += 2) {
        struct rig *r = with_windows(pages > 0 ? 100 : 0, pages);
        struct worker_metrics m;

        r->minor = 3;
        rig_lose(r);
        for (int i = 0; i < 100; i++) {
            rig_advance(r, 50000);
        }
        worker_counts(r->worker, &m);
        assert_int_equal(m.sessions, pages > 0 ? 1 : 2);
        assert_in_range(r->n_hellos, 2, 100);
        rig_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generates_to_the_length),
        cmocka_unit_test(counts_what_it_does),
        cmocka_unit_test(a_hello_states_windows_and_the_longest_chunk),
        cmocka_unit_test(windows_need_a_router_that_charges_them),
        cmocka_unit_test(stops_at_the_end_token_at_each_index),
        cmocka_unit_test(ignores_the_end_token_if_told),
        cmocka_unit_test(says_the_same_whatever_the_batch),
        cmocka_unit_test(serves_shards_of_one_kind),
        cmocka_unit_test(lets_a_new_sequence_join_the_next_step),
        cmocka_unit_test(takes_a_prompt_in_parts),
        cmocka_unit_test(refuses_parts_that_do_not_fit),
        cmocka_unit_test(repeats_tokens_until_acknowledged),
        cmocka_unit_test(cancels_what_the_router_forgot),
        cmocka_unit_test(fails_what_the_engine_does_not_take),
        cmocka_unit_test(holds_the_memory_of_a_kept_one),
        cmocka_unit_test(reports_often_enough_and_not_more),
        cmocka_unit_test(starts_anew_after_a_wrong_grant),
        cmocka_unit_test(starts_anew_after_a_part_without_submit),
        cmocka_unit_test(answers_health_and_audit),
        cmocka_unit_test(an_audit_has_the_figures_of_host_memory),
        cmocka_unit_test(says_hello_until_answered),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
