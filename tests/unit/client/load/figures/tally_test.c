/* Tallies: what counts where, merging, rows and batches that double. */
#include "client/load/figures/tally.h"

#include <stdlib.h>

#include "tests/unit/client/load/figures/samples.h"
#include "tests/unit/cmocka.h"

static const struct objectives none = {.attain = 0.99};

static void assert_same(const struct histogram *a, const struct histogram *b)
{
    char *x = histogram_write(a), *y = histogram_write(b);

    assert_string_equal(x, y);
    free(x);
    free(y);
}

/* ---- what counts where ---- */

static void latencies_count_from_the_intended_start_and_the_send(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    struct sample s = sample_ok(1000000, 9000, 4, 2000, gaps);

    (void)state;
    s.queue_us = 700;
    tally_sample(t, &s, gaps);
    assert_int_equal(histogram_quantile(&t->metrics[METRIC_TTFT], 1), 9000);
    assert_int_equal(t->metrics[METRIC_TTFT_SENT].max, 8950);
    assert_int_equal(t->metrics[METRIC_E2E].max, 17010);
    assert_int_equal(t->metrics[METRIC_E2E_SENT].max, 16960);
    assert_int_equal(t->metrics[METRIC_ITL].n, 4);
    assert_int_equal(t->metrics[METRIC_ITL].min, 2000);
    assert_int_equal(t->metrics[METRIC_TPOT].max, 2000);
    assert_int_equal(t->metrics[METRIC_LAG].max, 50);
    assert_int_equal(t->metrics[METRIC_QUEUE].max, 700);
    assert_int_equal(t->metrics[METRIC_PROMPT].max, 100);
    assert_int_equal(t->metrics[METRIC_OUTPUT].max, 5);
    assert_int_equal(t->from_us, 1000000);
    assert_int_equal(t->to_us, 1017010);
    assert_int_equal(t->counts.n_output, 5);
    assert_int_equal(t->counts.n_prompt, 100);
    tally_free(&t);
    assert_null(t);
}

/* Checks where one outcome without and with a token is lost. */
static void loses(enum outcome outcome, uint64_t n_lost)
{
    uint32_t gaps[SAMPLES_GAPS];
    struct tally *t = tally_new(&none);
    struct sample early = sample_not_ok(0, outcome, 1, "why");
    struct sample late = sample_ok(0, 5000, 3, 1000, gaps);

    late.outcome = (uint8_t)outcome;
    tally_sample(t, &early, gaps);
    assert_int_equal(t->metrics[METRIC_TTFT].lost, n_lost);
    assert_int_equal(t->metrics[METRIC_TTFT_SENT].lost, n_lost);
    assert_int_equal(t->metrics[METRIC_E2E].lost, n_lost);
    assert_int_equal(t->metrics[METRIC_E2E_SENT].lost, n_lost);
    tally_sample(t, &late, gaps);
    assert_int_equal(t->metrics[METRIC_TTFT].lost, n_lost);
    assert_int_equal(t->metrics[METRIC_TTFT].n, 1);
    assert_int_equal(t->metrics[METRIC_E2E].lost, 2 * n_lost);
    assert_int_equal(t->metrics[METRIC_E2E].n, 0);
    assert_int_equal(t->metrics[METRIC_TPOT].n, 0);
    assert_int_equal(t->metrics[METRIC_ITL].n, 3);
    assert_int_equal(t->counts.n_outcomes[outcome], 2);
    assert_int_equal(tally_wanted(t), 2 * n_lost);
    assert_int_equal(t->counts.n_good, 0);
    assert_int_equal(t->rows[0].ttft.lost, n_lost);
    assert_int_equal(t->rows[0].e2e.lost, 2 * n_lost);
    assert_int_equal(t->rows[0].n_ended[outcome], 2);
    assert_int_equal(t->rows[0].n_output, n_lost > 0 ? 0 : 4);
    assert_int_equal(t->counts.n_output, n_lost > 0 ? 0 : 4);
    assert_int_equal(t->counts.n_prompt, 100); /* of the one with a token */
    tally_free(&t);
}

static void failures_stay_in_the_tail_and_injected_ends_do_not(void **state)
{
    (void)state;
    loses(OUTCOME_REFUSED, 1);
    loses(OUTCOME_FAILED, 1);
    loses(OUTCOME_TIMEOUT, 1);
    loses(OUTCOME_UNSENT, 1);
    loses(OUTCOME_CANCELLED, 0);
    loses(OUTCOME_DISCONNECTED, 0);
    loses(OUTCOME_SKIPPED, 0);
}

static void warm_up_counts_nowhere_else(void **state)
{
    struct tally *t = tally_new(&none), *empty = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    struct sample s = sample_ok(0, 5000, 3, 1000, gaps);

    (void)state;
    s.flags = SAMPLE_WARM | SAMPLE_LEAKED;
    tally_sample(t, &s, gaps);
    assert_int_equal(t->counts.n_warm, 1);
    t->counts.n_warm = 0;
    assert_memory_equal(t, empty, sizeof *t);
    tally_free(&t);
    tally_free(&empty);
}

static void a_turn_without_any_time_is_counted_and_lost(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    struct sample s = sample_ok(2000000, 5000, 0, 0, gaps);
    struct sample unsent = sample_not_ok(0, OUTCOME_UNSENT, 0, "its parent");

    (void)state;
    unsent.due_us = unsent.sent_us = unsent.end_us = SAMPLE_NEVER;
    tally_sample(t, &unsent, gaps);
    tally_sample(t, &s, gaps);
    assert_int_equal(t->counts.n_outcomes[OUTCOME_UNSENT], 1);
    assert_int_equal(t->metrics[METRIC_TTFT].lost, 1);
    assert_int_equal(t->metrics[METRIC_LAG].n, 1);
    assert_int_equal(t->metrics[METRIC_PROMPT].n, 1);
    assert_int_equal(t->from_us, 2000000);
    assert_int_equal(t->to_us, 2005010);
    tally_free(&t);
}

static void checks_are_counted_by_flags(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    struct sample s = sample_ok(0, 5000, 1, 1000, gaps);

    (void)state;
    s.flags = SAMPLE_SLOW_READER | SAMPLE_RECEIPT | SAMPLE_LEAKED |
              SAMPLE_RESUMED | SAMPLE_BAD_STREAM;
    s.gap_us = 77;
    s.n_moves = 3;
    s.n_cached = 40;
    tally_sample(t, &s, gaps);
    s.flags = 0;
    s.gap_us = 9999; /* not resumed: no pause */
    tally_sample(t, &s, gaps);
    assert_int_equal(t->counts.n_slow_readers, 1);
    assert_int_equal(t->counts.n_receipts, 1);
    assert_int_equal(t->counts.n_leaked, 1);
    assert_int_equal(t->counts.n_resumed, 1);
    assert_int_equal(t->counts.n_bad_streams, 1);
    assert_int_equal(t->gap_max_us, 77);
    assert_int_equal(t->counts.n_moves, 6);
    assert_int_equal(t->counts.n_cached, 80);
    tally_free(&t);
}

/* Tokens of a failed request are no output; those of an injected end are. */
static void tokens_of_failed_requests_are_no_output(void **state)
{
    static const struct {
        enum outcome outcome;
        bool counts;
    } rows[] = {
        {OUTCOME_OK, true},        {OUTCOME_FAILED, false},
        {OUTCOME_REFUSED, false},  {OUTCOME_TIMEOUT, false},
        {OUTCOME_CANCELLED, true}, {OUTCOME_DISCONNECTED, true},
    };
    uint32_t gaps[SAMPLES_GAPS];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tally *t = tally_new(&none);
        struct sample s = sample_ok(0, 5000, 9, 1000, gaps);

        s.outcome = (uint8_t)rows[i].outcome;
        s.flags = SAMPLE_CHUNKS;
        tally_sample(t, &s, gaps);
        assert_int_equal(t->counts.n_output, rows[i].counts ? 10 : 0);
        assert_int_equal(t->rows[0].n_output, rows[i].counts ? 10 : 0);
        assert_int_equal(t->counts.n_chunked,
                         rows[i].outcome == OUTCOME_OK ? 1 : 0);
        tally_free(&t);
    }
}

/* ---- reasons ---- */

static void reasons_that_differ_in_digits_are_one(void **state)
{
    static const char *const why[] = {"queue is full: 412 waiting",
                                      "queue is full: 7 waiting",
                                      "queue is full: waiting"};
    struct tally *t = tally_new(&none);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct sample s = sample_not_ok(0, OUTCOME_REFUSED, 429, why[i]);

        tally_sample(t, &s, NULL);
        s.code = 503;
        tally_sample(t, &s, NULL);
    }
    assert_int_equal(t->n_whys, 4);
    assert_string_equal(t->whys[0].why, why[0]);
    assert_int_equal(t->whys[0].code, 429);
    assert_int_equal(t->whys[0].n, 2);
    assert_int_equal(t->whys[2].n, 1);
    tally_free(&t);
}

static void reasons_past_the_table_are_counted_together(void **state)
{
    struct tally *t = tally_new(&none);

    (void)state;
    for (int i = 0; i < TALLY_WHYS + 8; i++) {
        char why[] = "reason A";
        struct sample s;

        why[7] = (char)('A' + i);
        s = sample_not_ok(0, OUTCOME_FAILED, 500, why);
        tally_sample(t, &s, NULL);
        assert_int_equal(t->n_whys, i + 1 < TALLY_WHYS ? i + 1 : TALLY_WHYS);
    }
    assert_string_equal(t->whys[TALLY_WHYS - 2].why, "reason _");
    assert_string_equal(t->whys[TALLY_WHYS - 1].why, TALLY_OTHER_WHYS);
    assert_int_equal(t->whys[TALLY_WHYS - 1].n, 9);
    tally_free(&t);
}

/* ---- rows ---- */

static void tokens_count_in_the_row_in_which_they_came(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    struct sample s = sample_ok(500000, 1000000, 3, 1000000, gaps);

    (void)state;
    s.n_output = 10; /* 2 or 3 a chunk */
    tally_sample(t, &s, gaps);
    assert_int_equal(t->n_rows, 5);
    assert_int_equal(t->rows[0].n_due, 1);
    assert_int_equal(t->rows[0].n_ended[OUTCOME_OK], 1);
    assert_int_equal(t->rows[0].n_prompt, 100);
    assert_int_equal(t->rows[0].n_output, 0);
    assert_int_equal(t->rows[0].ttft.max, 1000000);
    for (int i = 1; i <= 4; i++) {
        assert_in_range(t->rows[i].n_output, 2, 3);
        assert_int_equal(t->rows[i].n_due, 0);
        assert_int_equal(t->rows[i].itl.n, i > 1);
        assert_int_equal(t->rows[i].from_us, i * 1000000);
    }
    assert_int_equal(t->rows[1].n_output + t->rows[2].n_output +
                         t->rows[3].n_output + t->rows[4].n_output,
                     10);
    tally_free(&t);
}

static void rows_double_their_width_when_they_are_full(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    uint64_t n = 0, lost = 0;

    (void)state;
    for (int64_t second = 0; second <= 2 * TALLY_ROWS; second++) {
        struct sample s = sample_ok(second * 1000000, 5000, 2, 100, gaps);
        int64_t width = second < TALLY_ROWS       ? 1
                        : second < 2 * TALLY_ROWS ? 2
                                                  : 4;

        tally_sample(t, &s, gaps);
        assert_int_equal(t->row_us, width * 1000000);
        assert_int_equal(t->n_rows, second / width + 1);
    }
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct tally_row *r = &t->rows[i];

        assert_int_equal(r->from_us, i * 4000000);
        assert_int_equal(r->to_us, r->from_us + 4000000);
        assert_int_equal(r->n_due, i + 1 < t->n_rows ? 4 : 1);
        assert_int_equal(r->ttft.n, r->n_due);
        assert_int_equal(r->itl.n, 2 * r->n_due);
        assert_int_equal(r->n_output, 3 * r->n_due);
        n += r->n_due;
        lost += r->ttft.lost;
    }
    assert_int_equal(n, 2 * TALLY_ROWS + 1);
    assert_int_equal(lost, 0);
    tally_free(&t);
}

static void times_outside_of_any_run_do_not_break_rows(void **state)
{
    struct tally *t = tally_new(&none);
    struct sample s = sample_not_ok(-5, OUTCOME_FAILED, 0, "");

    (void)state;
    tally_sample(t, &s, NULL);
    assert_int_equal(t->rows[0].n_due, 1);
    s.due_us = INT64_MAX / 2;
    s.sent_us = s.end_us = s.due_us;
    tally_sample(t, &s, NULL);
    assert_in_range(t->n_rows, 1, TALLY_ROWS);
    assert_int_equal(t->rows[t->n_rows - 1].n_due, 1);
    tally_free(&t);
}

/* ---- levels and pulses ---- */

static void levels_are_powers_of_two_of_all_processes(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];
    struct sample s = sample_ok(0, 5000, 2, 100, gaps);
    struct pulse p = {.process = 3, .n_in_flight = 9};

    (void)state;
    s.n_in_flight = 1;
    tally_sample(t, &s, gaps);
    s.n_in_flight = 3;
    tally_sample(t, &s, gaps);
    s.n_in_flight = 4;
    tally_sample(t, &s, gaps);
    assert_int_equal(t->n_levels, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(t->levels[i].in_flight, 1u << i);
        assert_int_equal(t->levels[i].ttft.n, 1);
        assert_int_equal(t->levels[i].itl.n, 2);
    }
    tally_pulse(t, &p); /* four processes: 4 * 4 in flight */
    tally_sample(t, &s, gaps);
    assert_int_equal(t->n_levels, 5);
    s.n_in_flight = UINT32_MAX;
    tally_sample(t, &s, gaps);
    assert_int_equal(t->n_levels, TALLY_LEVELS);
    tally_free(&t);
}

static void pulses_add_up_over_processes(void **state)
{
    struct tally *t = tally_new(&none);

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        struct pulse p = {.at_us = i * 100000,
                          .process = i % 2,
                          .n_in_flight = i,
                          .lag_max_us = 10 * i,
                          .turn_max_us = i};

        tally_pulse(t, &p);
    }
    assert_int_equal(t->n_in_flight, 18 + 19);
    assert_int_equal(t->rows[0].in_flight_max, 8 + 9);
    assert_int_equal(t->rows[1].in_flight_max, 18 + 19);
    assert_int_equal(t->rows[1].lag_max_us, 190);
    assert_int_equal(t->turns.n, 20);
    assert_int_equal(t->turns.max, 19);
    assert_int_equal(t->n_pulses, 20);
    tally_free(&t);
}

/* ---- merging ---- */

static void assert_same_rows(const struct tally *a, const struct tally *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->row_us, b->row_us);
    for (uint32_t i = 0; i < a->n_rows; i++) {
        const struct tally_row *x = &a->rows[i], *y = &b->rows[i];

        assert_same(&x->ttft, &y->ttft);
        assert_same(&x->itl, &y->itl);
        assert_same(&x->e2e, &y->e2e);
        /* All plain members lie before the histograms. */
        assert_memory_equal(x, y, offsetof(struct tally_row, ttft));
    }
}

static void assert_same_levels(const struct tally *a, const struct tally *b)
{
    assert_int_equal(a->n_levels, b->n_levels);
    for (uint32_t i = 0; i < a->n_levels; i++) {
        assert_int_equal(a->levels[i].in_flight, b->levels[i].in_flight);
        assert_same(&a->levels[i].ttft, &b->levels[i].ttft);
        assert_same(&a->levels[i].itl, &b->levels[i].itl);
    }
}

static void assert_same_counts(const struct tally *a, const struct tally *b)
{
    assert_memory_equal(a->counts.n_outcomes, b->counts.n_outcomes,
                        sizeof a->counts.n_outcomes);
    assert_int_equal(a->counts.n_warm, b->counts.n_warm);
    assert_int_equal(a->counts.n_good, b->counts.n_good);
    assert_int_equal(a->counts.n_slow_readers, b->counts.n_slow_readers);
    assert_int_equal(a->counts.n_receipts, b->counts.n_receipts);
    assert_int_equal(a->counts.n_leaked, b->counts.n_leaked);
    assert_int_equal(a->counts.n_bad_streams, b->counts.n_bad_streams);
    assert_int_equal(a->counts.n_resumed, b->counts.n_resumed);
    assert_int_equal(a->counts.n_moves, b->counts.n_moves);
    assert_int_equal(a->counts.n_prompt, b->counts.n_prompt);
    assert_int_equal(a->counts.n_output, b->counts.n_output);
    assert_int_equal(a->counts.n_cached, b->counts.n_cached);
    assert_int_equal(a->gap_max_us, b->gap_max_us);
    assert_int_equal(a->from_us, b->from_us);
    assert_int_equal(a->to_us, b->to_us);
    assert_int_equal(a->n_pulses, b->n_pulses);
}

static uint64_t n_of_why(const struct tally *t, const struct tally_why *like)
{
    for (uint32_t i = 0; i < t->n_whys; i++) {
        if (strcmp(t->whys[i].why, like->why) == 0 &&
            t->whys[i].outcome == like->outcome &&
            t->whys[i].code == like->code) {
            return t->whys[i].n;
        }
    }
    return 0;
}

static void assert_same_tallies(const struct tally *a, const struct tally *b)
{
    assert_same_counts(a, b);
    for (int m = 0; m < METRICS; m++) {
        assert_same(&a->metrics[m], &b->metrics[m]);
    }
    assert_same(&a->turns, &b->turns);
    assert_same_rows(a, b);
    assert_same_levels(a, b);
    assert_int_equal(a->n_whys, b->n_whys);
    for (uint32_t i = 0; i < a->n_whys; i++) {
        assert_int_equal(n_of_why(b, &a->whys[i]), a->whys[i].n);
    }
}

/* Returns the metric of all batches together. */
static struct histogram batches_together(const struct tally *t, int m)
{
    struct histogram h = {0};

    for (uint32_t i = 0; i < t->n_batches; i++) {
        histogram_merge(&h, &t->batches[i].metrics[m]);
    }
    return h;
}

static void merging_equals_a_tally_of_all_samples(void **state)
{
    const struct objectives o = {.ttft_us = 30000, .attain = 0.99};

    (void)state;
    /* 10 s, and 750 s: rows double in the joint tally and in some parts. */
    for (uint64_t n = 1000, apart = 1; n <= 3000; n += 2000, apart = 25) {
        struct tally *parts[3], *joint = tally_new(&o), *all = tally_new(&o);
        struct draws d = {n};

        for (int i = 0; i < 3; i++) {
            parts[i] = tally_new(&o);
        }
        for (uint64_t i = 0; i < n; i++) {
            uint32_t gaps[SAMPLES_GAPS];
            struct sample s = sample_draw(&d, i * apart, gaps);

            tally_sample(joint, &s, gaps);
            tally_sample(parts[i < n / 9 ? 0 : 1 + i % 2], &s, gaps);
        }
        for (int i = 0; i < 3; i++) {
            tally_merge(all, parts[i]);
            tally_free(&parts[i]);
        }
        assert_same_tallies(all, joint);
        assert_in_range(all->n_batches, TALLY_BATCHES / 2 - 1, TALLY_BATCHES);
        for (int m = 0; m < METRICS; m++) {
            struct histogram h = batches_together(all, m);

            assert_same(&h, &joint->metrics[m]);
            histogram_fini(&h);
        }
        tally_free(&joint);
        tally_free(&all);
    }
}

static void merging_an_empty_tally_changes_nothing(void **state)
{
    struct tally *a = tally_new(&none), *b = tally_new(&none);
    struct tally *empty = tally_new(&none);
    struct draws d = {5};

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        uint32_t gaps[SAMPLES_GAPS];
        struct sample s = sample_draw(&d, i + 500, gaps);

        tally_sample(a, &s, gaps);
        tally_sample(b, &s, gaps);
    }
    tally_merge(a, empty);
    assert_same_tallies(a, b);
    tally_merge(empty, b);
    assert_same_tallies(empty, b);
    tally_free(&a);
    tally_free(&b);
    tally_free(&empty);
}

/* ---- batches and intervals ---- */

static void batches_double_so_that_their_number_stays(void **state)
{
    struct tally *t = tally_new(&none);
    uint32_t gaps[SAMPLES_GAPS];

    (void)state;
    for (uint64_t n = 1; n <= 5000; n++) {
        struct sample s = sample_ok((int64_t)n, (int64_t)n, 1, 1, gaps);
        uint64_t sum = 0;

        tally_sample(t, &s, gaps);
        assert_in_range(t->n_batches, n < 11 ? n : 11, TALLY_BATCHES);
        for (uint32_t i = 0; i < t->n_batches; i++) {
            const struct tally_batch *b = &t->batches[i];

            assert_int_equal(b->n, b->metrics[METRIC_TTFT].n);
            assert_true(b->n == t->batch_size ||
                        (i + 1 == t->n_batches && b->n < t->batch_size));
            assert_int_equal(b->metrics[METRIC_TTFT].min, sum + 1);
            sum += b->n;
        }
        assert_int_equal(sum, n);
    }
    tally_free(&t);
}

static struct tally *exponential(uint64_t n, uint64_t seed)
{
    struct tally *t = tally_new(&none);
    struct draws d = {seed};

    for (uint64_t i = 0; i < n; i++) {
        uint32_t gaps[SAMPLES_GAPS];
        int64_t ttft = (int64_t)(-100000 * log(draw_unit(&d)));
        struct sample s = sample_ok((int64_t)i * 1000, ttft, 0, 0, gaps);

        tally_sample(t, &s, gaps);
    }
    return t;
}

static void intervals_hold_the_truth_as_often_as_they_say(void **state)
{
    static const struct {
        double q, truth;
    } figures[] = {{-1, 100000}, {0.5, 69315}, {0.99, 460517}};
    int n[3] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tally *t = exponential(1000, seed);

        for (int i = 0; i < 3; i++) {
            double truth = figures[i].truth;
            struct tally_span span;

            assert_true(tally_interval(t, METRIC_TTFT, figures[i].q, &span));
            assert_true(span.low <= span.high && span.low >= 0);
            n[i] += span.low <= truth && truth <= span.high;
        }
        tally_free(&t);
    }
    /* 190 of 200 are expected; the standard deviation is 3.1.  The quantile
     * of a batch is biased, so its interval is looser. */
    assert_in_range(n[0], 180, 199);
    assert_in_range(n[1], 180, 199);
    assert_in_range(n[2], 174, 200);
}

static void there_is_no_interval_of_few_requests(void **state)
{
    struct tally_span span;
    struct tally *few = exponential(4, 1), *some = exponential(400, 1);
    struct tally *more = exponential(1200, 1);

    (void)state;
    assert_false(tally_interval(few, METRIC_TTFT, -1, &span));
    assert_true(tally_interval(some, METRIC_TTFT, -1, &span));
    assert_true(tally_interval(some, METRIC_TTFT, 0.5, &span));
    assert_false(tally_interval(some, METRIC_TTFT, 0.99, &span));
    assert_true(tally_interval(more, METRIC_TTFT, 0.99, &span));
    assert_false(tally_interval(more, METRIC_TTFT, 0.999, &span));
    assert_false(tally_interval(more, METRIC_TTFT, 0, &span));
    assert_false(tally_interval(more, METRIC_TTFT, 1, &span));
    assert_false(tally_interval(more, METRIC_ITL, 0.5, &span));
    tally_free(&few);
    tally_free(&some);
    tally_free(&more);
}

static void there_is_no_interval_of_a_lost_quantile(void **state)
{
    struct tally *t = exponential(1000, 1);
    struct tally_span span;

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct sample s = sample_not_ok(i, OUTCOME_FAILED, 1, "");

        tally_sample(t, &s, NULL);
    }
    assert_false(tally_interval(t, METRIC_TTFT, 0.99, &span));
    tally_free(&t);
}

/* ---- rates and validity ---- */

static void rates_are_over_the_measured_time(void **state)
{
    const struct objectives o = {.ttft_us = 5000};
    struct tally *t = tally_new(&o);
    uint32_t gaps[SAMPLES_GAPS];

    (void)state;
    assert_true(tally_requests_per_s(t) == 0 && tally_tokens_per_s(t) == 0);
    for (int64_t i = 0; i < 100; i++) {
        struct sample s =
            sample_ok(3000000 + i * 20000, i < 80 ? 5000 : 5001, 9, 100, gaps);

        tally_sample(t, &s, gaps);
    }
    /* 3.0 s to 4.98 s and the last answer. */
    assert_true(fabs(tally_seconds(t) - (1.98 + 0.005911)) < 1e-9);
    assert_true(fabs(tally_requests_per_s(t) * tally_seconds(t) - 100) < 1e-6);
    assert_true(fabs(tally_tokens_per_s(t) * tally_seconds(t) - 1000) < 1e-6);
    assert_true(fabs(tally_goodput(t) * tally_seconds(t) - 80) < 1e-6);
    assert_int_equal(tally_wanted(t), 100);
    tally_free(&t);
}

static void a_run_is_invalid_if_its_own_lag_is_too_large(void **state)
{
    struct tally *t = tally_new(&none);
    char why[200] = "";

    (void)state;
    assert_true(tally_invalid(t, 10000, why, sizeof why));
    assert_non_null(strstr(why, "no request was measured"));
    for (int i = 0; i < 200; i++) {
        uint32_t gaps[SAMPLES_GAPS];
        struct sample s = sample_ok(0, 20000, 0, 0, gaps);

        s.sent_us = i < 3 ? 2000 : 1000;
        tally_sample(t, &s, gaps);
    }
    assert_true(tally_invalid(t, 1999, why, sizeof why));
    assert_non_null(strstr(why, "2.000 ms"));
    assert_false(tally_invalid(t, 2000, why, sizeof why));
    tally_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latencies_count_from_the_intended_start_and_the_send),
        cmocka_unit_test(failures_stay_in_the_tail_and_injected_ends_do_not),
        cmocka_unit_test(warm_up_counts_nowhere_else),
        cmocka_unit_test(a_turn_without_any_time_is_counted_and_lost),
        cmocka_unit_test(checks_are_counted_by_flags),
        cmocka_unit_test(tokens_of_failed_requests_are_no_output),
        cmocka_unit_test(reasons_that_differ_in_digits_are_one),
        cmocka_unit_test(reasons_past_the_table_are_counted_together),
        cmocka_unit_test(tokens_count_in_the_row_in_which_they_came),
        cmocka_unit_test(rows_double_their_width_when_they_are_full),
        cmocka_unit_test(times_outside_of_any_run_do_not_break_rows),
        cmocka_unit_test(levels_are_powers_of_two_of_all_processes),
        cmocka_unit_test(pulses_add_up_over_processes),
        cmocka_unit_test(merging_equals_a_tally_of_all_samples),
        cmocka_unit_test(merging_an_empty_tally_changes_nothing),
        cmocka_unit_test(batches_double_so_that_their_number_stays),
        cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
        cmocka_unit_test(there_is_no_interval_of_few_requests),
        cmocka_unit_test(there_is_no_interval_of_a_lost_quantile),
        cmocka_unit_test(rates_are_over_the_measured_time),
        cmocka_unit_test(a_run_is_invalid_if_its_own_lag_is_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
