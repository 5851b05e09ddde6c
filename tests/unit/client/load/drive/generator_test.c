/* Sessions, loops, ends and limits of a generator, in virtual time, by drawn
 * plans. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/client/load/drive/drive_rig.h"
#include "tests/unit/client/load/drive/tiny_plan.h"
#include "tests/unit/cmocka.h"

#define SEEDS 40

static const struct virtual_rules quick = {
    .seed = 3,
    .first_min_us = 1000,
    .first_max_us = 50000,
    .n_chunks = 4,
    .chunk_us = 700,
    .call_bytes = 10,
};

static const struct tiny plain = {
    .seed = 11, .n_sessions = 500, .gap_us = 2000, .tokens_max = 100};

static const struct tiny trees = {.seed = 1,
                                  .n_sessions = 60,
                                  .gap_us = 9000,
                                  .turns_max = 12,
                                  .think_us = 30000,
                                  .tokens_max = 300};

static int by_turn(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    if (x->session != y->session) {
        return x->session < y->session ? -1 : 1;
    }
    return x->turn < y->turn ? -1 : x->turn > y->turn;
}

static bool is_unsent(const struct sample *s)
{
    return s->outcome == OUTCOME_UNSENT || s->outcome == OUTCOME_SKIPPED;
}

/* Returns the outcome of a turn that was not sent because of its parent. */
static uint8_t unsent_outcome(const struct sample *parent)
{
    if (is_unsent(parent)) {
        return parent->outcome;
    }
    return parent->outcome == OUTCOME_CANCELLED ||
                   parent->outcome == OUTCOME_DISCONNECTED
               ? OUTCOME_SKIPPED
               : OUTCOME_UNSENT;
}

/* Checks one sample against its turn of the plan.  of: the session's samples,
 * by turn. */
static void check_sample(const struct plan_session *s, const struct sample *of,
                         uint32_t i)
{
    const struct sample *x = &of[i];
    int32_t parent = s->turns[i].parent;

    assert_int_equal(x->turn, i);
    if (x->sent_us != SAMPLE_NEVER) {
        assert_true(x->sent_us >= x->due_us);
        assert_true(parent < 0 || of[parent].outcome == OUTCOME_OK);
    }
    if (parent >= 0) {
        int64_t from_us = of[parent].end_us != SAMPLE_NEVER ? of[parent].end_us
                                                            : of[parent].due_us;

        assert_int_equal(x->due_us, from_us + s->turns[i].think_us);
        assert_true(of[parent].outcome == OUTCOME_OK || is_unsent(x));
        if (is_unsent(x)) {
            assert_int_equal(x->outcome, unsent_outcome(&of[parent]));
            assert_int_equal(x->code, x->outcome == OUTCOME_SKIPPED
                                          ? ST_CANCELLED
                                          : ST_FAILED_PRECONDITION);
        }
    }
}

/* Expects exactly one sample for each turn of the first n sessions. */
static void check_all(struct rig *r, const struct tiny *t, uint64_t n_sessions)
{
    struct plan_session *s = malloc(sizeof *s);
    size_t at = 0;

    assert_non_null(s);
    qsort(r->samples, r->n, sizeof *r->samples, by_turn);
    for (uint64_t i = 0; i < n_sessions; i++) {
        tiny_session(t, i, s);
        assert_true(at + s->n_turns <= r->n);
        for (uint32_t turn = 0; turn < s->n_turns; turn++) {
            assert_int_equal(r->samples[at + turn].session, i);
            check_sample(s, &r->samples[at], turn);
        }
        at += s->n_turns;
    }
    assert_int_equal(at, r->n);
    free(s);
}

static void check_target(const struct rig *r)
{
    struct virtual_counts c = virtual_counts(r->target);

    assert_int_equal(c.n_prepared, c.n_started + c.n_dropped);
    assert_int_equal(c.n_started, c.n_ended);
    assert_int_equal(c.bytes, 0);
}

static void each_turn_makes_one_sample(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tiny t = trees;
        struct rig r = {.rules = quick};

        t.seed = r.rules.seed = r.options.seed = seed;
        t.n_slots = seed % 3 == 0 ? 1 + (uint32_t)seed / 3 : 0;
        r.rules.sends_ids = seed % 2 == 0;
        if (seed % 4 >= 2) {
            r.rules.broken = r.rules.refused = r.rules.unmakeable = 0.05;
            r.options.cancel = r.options.disconnect = r.options.slow = 0.1;
        }
        r.options.timeout_us = seed % 5 == 0 ? 40000 : 0;
        r.options.in_flight_max = seed % 7 == 0 ? 3 : 0;
        rig_begin(&r, tiny_plan(&t));
        rig_run(&r);
        check_all(&r, &t, t.n_sessions);
        check_target(&r);
        if (seed % 4 < 2 && r.options.timeout_us == 0) {
            assert_int_equal(rig_count(&r, OUTCOME_OK), r.n);
        }
        rig_end(&r);
    }
}

static void prepared_bytes_stay_within_their_limit(void **state)
{
    const size_t limit = 20000; /* the largest request has about 10,000 */

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tiny t = trees;
        struct rig r = {.rules = quick};
        size_t now, peak;

        t.seed = r.rules.seed = seed;
        t.turns_max = 3;
        t.gap_us = 500;
        r.options.memory_max = limit;
        rig_begin(&r, tiny_plan(&t));
        rig_run(&r);
        generator_memory(r.generator, &now, &peak);
        assert_int_equal(now, 0);
        /* One more is there to be measured, or to start at once. */
        assert_true(virtual_counts(r.target).bytes_peak <= limit + 10000);
        assert_true(virtual_counts(r.target).bytes_peak > limit / 2);
        check_all(&r, &t, t.n_sessions);
        rig_end(&r);
    }
}

static void requests_larger_than_expected_are_taken_back(void **state)
{
    struct rig r = {.rules = quick};
    struct virtual_counts c;

    (void)state;
    r.rules.uneven = true;
    r.options.memory_max = 20000; /* the largest request has 10,000 */
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    c = virtual_counts(r.target);
    assert_in_range(c.n_dropped, 1, 20); /* it learns to expect more */
    assert_true(r.memory_peak <= 20000);
    check_all(&r, &plain, plain.n_sessions);
    check_target(&r);
    rig_end(&r);
}

static void one_request_is_prepared_however_large(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    r.options.memory_max = 1;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    check_all(&r, &plain, plain.n_sessions);
    assert_int_equal(rig_count(&r, OUTCOME_OK), r.n);
    rig_end(&r);
}

/* Counts what a generator prepares before its run. */
static uint64_t prepared_ahead(const struct tiny *t)
{
    struct rig r = {.rules = quick};
    uint64_t n;

    r.rules.call_bytes = 0;
    rig_begin(&r, tiny_plan(t));
    while (generator_prepare(r.generator)) {
    }
    n = virtual_counts(r.target).n_prepared;
    rig_end(&r);
    return n;
}

static void sessions_ahead_have_a_limit(void **state)
{
    struct tiny t = plain;

    (void)state;
    t.gap_us = 1;
    t.n_sessions = GENERATOR_AHEAD_MAX;
    assert_int_equal(prepared_ahead(&t), GENERATOR_AHEAD_MAX);
    t.n_sessions = GENERATOR_AHEAD_MAX + 1;
    assert_int_equal(prepared_ahead(&t), GENERATOR_AHEAD_MAX);
    t.n_slots = 1000;
    assert_int_equal(prepared_ahead(&t), 1000 + GENERATOR_SPARE_MAX);
    t.n_slots = GENERATOR_SPARE_MAX - 1;
    assert_int_equal(prepared_ahead(&t), 2 * t.n_slots);
}

static void requests_start_when_due(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    for (size_t i = 0; i < r.n; i++) {
        assert_int_equal(r.samples[i].sent_us, r.samples[i].due_us);
        assert_int_equal(
            r.samples[i].first_us - r.samples[i].sent_us,
            virtual_first_us(&r.rules, r.samples[i].session * PLAN_TURNS_MAX));
        assert_int_equal(r.samples[i].end_us - r.samples[i].first_us, 2100);
        assert_int_equal(r.samples[i].n_gaps, 3);
        assert_int_equal(r.samples[i].n_output, 4);
    }
    assert_int_equal(r.n_gaps, 3 * r.n);
    rig_end(&r);
}

static void pulses_count_what_was_due_and_sent(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    assert_int_equal(r.last.n_due, plain.n_sessions);
    assert_int_equal(r.last.n_sent, plain.n_sessions);
    assert_int_equal(r.last.n_tokens, 4 * plain.n_sessions);
    assert_int_equal(r.last.n_in_flight, 0);
    assert_int_equal(r.n_pulses, r.last.at_us / GENERATOR_PULSE_US + 2);
    rig_end(&r);
}

/* ---- closed loops ---- */

static void closed_loop_keeps_its_slots_busy(void **state)
{
    struct tiny t = plain;
    struct rig r = {.rules = quick};
    uint32_t in_flight = 0;

    (void)state;
    t.n_slots = 7;
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    assert_int_equal(r.n, t.n_sessions);
    for (size_t i = 0; i < r.n; i++) {
        const struct sample *s = &r.samples[i];

        in_flight = s->n_in_flight > in_flight ? s->n_in_flight : in_flight;
        assert_int_equal(s->sent_us, s->due_us);
        if (s->session < t.n_slots) {
            assert_int_equal(s->due_us, 0);
        }
    }
    assert_int_equal(in_flight, t.n_slots);
    rig_end(&r);
}

/* Returns whether a sample ended at at_us. */
static bool ended_at(const struct rig *r, int64_t at_us)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->samples[i].end_us == at_us) {
            return true;
        }
    }
    return false;
}

static void closed_loop_thinks_between_sessions(void **state)
{
    struct tiny t = plain;
    struct rig r = {.rules = quick};
    struct plan_session *s = malloc(sizeof *s);

    (void)state;
    assert_non_null(s);
    t.n_slots = 3;
    t.think_us = 100000;
    t.n_sessions = 100;
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    for (size_t i = 0; i < r.n; i++) {
        tiny_session(&t, r.samples[i].session, s);
        if (r.samples[i].session >= t.n_slots) {
            assert_true(ended_at(&r, r.samples[i].due_us - s->think_us));
        }
    }
    free(s);
    rig_end(&r);
}

static void closed_loop_ends_at_its_duration(void **state)
{
    struct tiny t = plain;
    struct rig r = {.rules = quick};

    (void)state;
    t.n_slots = 5;
    r.rules.first_min_us = r.rules.first_max_us = 10000;
    r.rules.n_chunks = 1;
    r.options.duration_us = 300000; /* a session would start at it */
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    assert_int_equal(r.n, 5 * 30);
    for (size_t i = 0; i < r.n; i++) {
        assert_true(r.samples[i].due_us < r.options.duration_us);
        assert_int_equal(r.samples[i].outcome, OUTCOME_OK);
    }
    check_target(&r);
    rig_end(&r);
}

/* ---- limits ---- */

static void requests_above_the_limit_wait_and_are_late(void **state)
{
    struct tiny t = plain;
    struct rig r = {.rules = quick};
    int64_t last_us = 0;
    size_t n_late = 0;

    (void)state;
    t.gap_us = 500;
    r.options.in_flight_max = 4;
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    check_all(&r, &t, t.n_sessions);
    for (size_t i = 0; i < r.n; i++) {
        assert_true(r.samples[i].n_in_flight <= 4);
        assert_true(r.samples[i].sent_us >= last_us); /* in order of due time */
        last_us = r.samples[i].sent_us;
        n_late += r.samples[i].sent_us > r.samples[i].due_us;
    }
    assert_true(n_late > r.n / 2);
    rig_end(&r);
}

static void request_times_out_after_its_send(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    r.options.timeout_us = 20000;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    assert_true(rig_count(&r, OUTCOME_TIMEOUT) > 100);
    for (size_t i = 0; i < r.n; i++) {
        const struct sample *s = &r.samples[i];

        if (s->outcome == OUTCOME_TIMEOUT) {
            assert_int_equal(s->end_us, s->sent_us + 20000);
        } else {
            assert_int_equal(s->outcome, OUTCOME_OK);
            assert_true(s->end_us <= s->sent_us + 20000);
        }
    }
    check_target(&r);
    rig_end(&r);
}

static void open_requests_end_with_the_grace(void **state)
{
    struct rig r = {.rules = quick};
    int64_t last_us = 0;

    (void)state;
    r.rules.first_max_us = 10000000;
    r.options.grace_us = 1000000;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    assert_int_equal(r.n, plain.n_sessions);
    assert_true(rig_count(&r, OUTCOME_TIMEOUT) > 0);
    for (size_t i = 0; i < r.n; i++) {
        last_us =
            r.samples[i].sent_us > last_us ? r.samples[i].sent_us : last_us;
    }
    for (size_t i = 0; i < r.n; i++) {
        assert_true(r.samples[i].end_us <= last_us + 1000000);
    }
    rig_end(&r);
}

/* Answers after the generator's last time limit are in no sample. */
static void target_that_ends_nothing_does_not_hold_the_run(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    r.options.timeout_us = 20000;
    r.rules.first_min_us = GENERATOR_GIVE_UP_US + 50000;
    r.rules.first_max_us = GENERATOR_GIVE_UP_US + 200000;
    r.rules.deaf = 1;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    check_all(&r, &plain, plain.n_sessions);
    assert_int_equal(rig_count(&r, OUTCOME_TIMEOUT), r.n);
    for (size_t i = 0; i < r.n; i++) {
        assert_int_equal(r.samples[i].end_us,
                         r.samples[i].sent_us + 20000 + GENERATOR_GIVE_UP_US);
        assert_int_equal(r.samples[i].n_events, 0);
    }
    assert_int_equal(r.last.n_tokens, 0);
    assert_true(virtual_counts(r.target).n_ended > 100);
    rig_end(&r);
}

static void grace_ends_a_run_with_a_deaf_target(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    r.options.grace_us = 5000;
    r.rules.first_min_us = r.rules.first_max_us = 2 * GENERATOR_GIVE_UP_US;
    r.rules.deaf = 1;
    rig_begin(&r, tiny_plan(&plain));
    rig_run(&r);
    check_all(&r, &plain, plain.n_sessions);
    assert_int_equal(rig_count(&r, OUTCOME_TIMEOUT), r.n);
    rig_end(&r);
}

static void warm_up_is_marked_by_time_and_number(void **state)
{
    (void)state;
    for (uint32_t n_slots = 0; n_slots < 9; n_slots += 4) {
        struct tiny t = plain;
        struct rig r = {.rules = quick};
        size_t n_warm = 0;

        t.n_slots = n_slots;
        r.options.warm_us = 500000;
        r.options.n_warm = 20;
        rig_begin(&r, tiny_plan(&t));
        rig_run(&r);
        for (size_t i = 0; i < r.n; i++) {
            const struct sample *s = &r.samples[i];
            bool warm = s->due_us < 500000 || s->session < 20;

            assert_int_equal((s->flags & SAMPLE_WARM) != 0, warm);
            n_warm += warm;
        }
        assert_true(n_warm > 20 && n_warm < r.n);
        rig_end(&r);
    }
}

/* ---- injection ---- */

static void injection_has_its_shares_and_outcomes(void **state)
{
    struct tiny t = plain;
    struct rig r = {.rules = quick};
    size_t n_slow = 0;

    (void)state;
    t.n_sessions = 20000;
    r.options.cancel = 0.2;
    r.options.disconnect = 0.1;
    r.options.slow = 0.05;
    r.options.seed = 5;
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    check_all(&r, &t, t.n_sessions);
    for (size_t i = 0; i < r.n; i++) {
        n_slow += (r.samples[i].flags & SAMPLE_SLOW_READER) != 0;
    }
    /* Some requests end before their moment. */
    assert_in_range(rig_count(&r, OUTCOME_CANCELLED), 2800, 4200);
    assert_in_range(rig_count(&r, OUTCOME_DISCONNECTED), 1400, 2200);
    assert_in_range(n_slow, 850, 1150);
    rig_end(&r);
}

/* Cancels before the first token, between tokens, and in equal parts of the
 * time. */
static void cancels_come_at_any_moment(void **state)
{
    struct tiny t = plain;
    struct rig r = {.rules = quick};
    size_t n[5] = {0};

    (void)state;
    t.n_sessions = 5000;
    r.rules.first_min_us = r.rules.first_max_us = 1000;
    r.rules.chunk_us = 1000;
    r.options.cancel = 0.5;
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    for (size_t i = 0; i < r.n; i++) {
        if (r.samples[i].outcome == OUTCOME_CANCELLED) {
            n[r.samples[i].n_events]++;
        }
    }
    for (size_t i = 0; i < 4; i++) {
        assert_true(n[i] > 300);
    }
    assert_int_equal(n[4], 0);
    rig_end(&r);
}

static void equal_seeds_inject_into_the_same_requests(void **state)
{
    struct sample *first = NULL;

    (void)state;
    for (int run = 0; run < 2; run++) {
        struct rig r = {.rules = quick};

        r.options.disconnect = 0.3;
        r.options.seed = 9;
        rig_begin(&r, tiny_plan(&plain));
        rig_run(&r);
        qsort(r.samples, r.n, sizeof *r.samples, by_turn);
        if (run == 0) {
            first = malloc(r.n * sizeof *first);
            assert_non_null(first);
            memcpy(first, r.samples, r.n * sizeof *first);
        } else {
            assert_memory_equal(first, r.samples, r.n * sizeof *first);
        }
        rig_end(&r);
    }
    free(first);
}

/* ---- stopping ---- */

static void stop_lets_open_requests_end(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    rig_begin(&r, tiny_plan(&plain));
    assert_false(rig_run_until(&r, 200000));
    generator_stop(r.generator, r.now_us, false);
    rig_run(&r);
    assert_true(r.n > 50 && r.n < 150);
    assert_int_equal(rig_count(&r, OUTCOME_OK), r.n);
    for (size_t i = 0; i < r.n; i++) {
        assert_true(r.samples[i].sent_us <= 200000);
    }
    check_target(&r);
    rig_end(&r);
}

static void stop_at_once_cancels(void **state)
{
    struct rig r = {.rules = quick};

    (void)state;
    rig_begin(&r, tiny_plan(&plain));
    assert_false(rig_run_until(&r, 200000));
    generator_stop(r.generator, r.now_us, true);
    rig_run(&r);
    assert_int_equal(r.now_us, RIG_START_US + 200000);
    assert_true(rig_count(&r, OUTCOME_CANCELLED) > 5);
    check_target(&r);
    rig_end(&r);
}

/* Expects all turns of each session that has a sample. */
static void check_complete(struct rig *r, const struct tiny *t)
{
    struct plan_session *s = malloc(sizeof *s);
    size_t at = 0;

    assert_non_null(s);
    qsort(r->samples, r->n, sizeof *r->samples, by_turn);
    while (at < r->n) {
        tiny_session(t, r->samples[at].session, s);
        assert_true(at + s->n_turns <= r->n);
        for (uint32_t i = 0; i < s->n_turns; i++) {
            assert_int_equal(r->samples[at + i].session, s->number);
            assert_int_equal(r->samples[at + i].turn, i);
        }
        at += s->n_turns;
    }
    free(s);
}

/* Sessions that had begun, and requests that were due, are in the samples. */
static void stop_reports_what_was_not_sent(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tiny t = trees;
        struct rig r = {.rules = quick};

        t.seed = seed;
        t.n_slots = seed % 4 == 0 ? 4 : 0;
        r.options.in_flight_max = seed % 3 == 0 ? 3 : 0;
        rig_begin(&r, tiny_plan(&t));
        assert_false(rig_run_until(&r, 150000));
        generator_stop(r.generator, r.now_us, seed % 2 == 0);
        rig_run(&r);
        assert_true(r.n > rig_count(&r, OUTCOME_SKIPPED));
        assert_true(rig_count(&r, OUTCOME_SKIPPED) > 0);
        check_complete(&r, &t);
        check_target(&r);
        rig_end(&r);
    }
}

static void stop_counts_requests_that_waited_for_room(void **state)
{
    size_t n_due = 0;

    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        struct rig r = {.rules = quick};

        r.options.in_flight_max = stops ? 1 : 0;
        rig_begin(&r, tiny_plan(&plain));
        if (stops) {
            assert_false(rig_run_until(&r, 200000));
            generator_stop(r.generator, r.now_us, false);
        }
        rig_run(&r);
        for (size_t i = 0; i < r.n && !stops; i++) {
            n_due += r.samples[i].due_us <= 200000;
        }
        assert_true(!stops || r.n == n_due);
        rig_end(&r);
    }
}

static void generator_can_be_freed_in_the_middle(void **state)
{
    (void)state;
    for (uint32_t n_slots = 0; n_slots < 3; n_slots++) {
        struct tiny t = trees;
        struct rig r = {.rules = quick};

        t.n_slots = n_slots;
        rig_begin(&r, tiny_plan(&t));
        assert_false(rig_run_until(&r, 100000));
        rig_end(&r);
    }
}

/* ---- answers ---- */

static void prompts_grow_by_answers_of_their_ancestors(void **state)
{
    struct tiny t = trees;
    struct rig r = {.rules = quick};
    struct plan_session *s = malloc(sizeof *s);

    (void)state;
    assert_non_null(s);
    r.rules.sends_ids = true;
    rig_begin(&r, tiny_plan(&t));
    rig_run(&r);
    for (size_t i = 0; i < r.n; i++) {
        uint32_t want;

        tiny_session(&t, r.samples[i].session, s);
        want = s->turns[r.samples[i].turn].n_new;
        for (int32_t a = s->turns[r.samples[i].turn].parent; a >= 0;
             a = s->turns[a].parent) {
            want += s->turns[a].n_new + 4; /* its answer: four ids */
        }
        assert_int_equal(r.samples[i].n_prompt, want);
    }
    free(s);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_turn_makes_one_sample),
        cmocka_unit_test(prepared_bytes_stay_within_their_limit),
        cmocka_unit_test(requests_larger_than_expected_are_taken_back),
        cmocka_unit_test(one_request_is_prepared_however_large),
        cmocka_unit_test(sessions_ahead_have_a_limit),
        cmocka_unit_test(requests_start_when_due),
        cmocka_unit_test(pulses_count_what_was_due_and_sent),
        cmocka_unit_test(closed_loop_keeps_its_slots_busy),
        cmocka_unit_test(closed_loop_thinks_between_sessions),
        cmocka_unit_test(closed_loop_ends_at_its_duration),
        cmocka_unit_test(requests_above_the_limit_wait_and_are_late),
        cmocka_unit_test(request_times_out_after_its_send),
        cmocka_unit_test(open_requests_end_with_the_grace),
        cmocka_unit_test(target_that_ends_nothing_does_not_hold_the_run),
        cmocka_unit_test(grace_ends_a_run_with_a_deaf_target),
        cmocka_unit_test(warm_up_is_marked_by_time_and_number),
        cmocka_unit_test(injection_has_its_shares_and_outcomes),
        cmocka_unit_test(cancels_come_at_any_moment),
        cmocka_unit_test(equal_seeds_inject_into_the_same_requests),
        cmocka_unit_test(stop_lets_open_requests_end),
        cmocka_unit_test(stop_at_once_cancels),
        cmocka_unit_test(stop_reports_what_was_not_sent),
        cmocka_unit_test(stop_counts_requests_that_waited_for_room),
        cmocka_unit_test(generator_can_be_freed_in_the_middle),
        cmocka_unit_test(prompts_grow_by_answers_of_their_ancestors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
