/* Summaries and comparisons: their sentences and their width. */
#include <stdlib.h>
#include <string.h>

#include "client/load/report/cell.h"
#include "client/load/report/report.h"
#include "tests/unit/client/load/report/made_result.h"
#include "tests/unit/cmocka.h"

#define COLUMNS 80

static void assert_fits(const char *text)
{
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");

        if (n > COLUMNS || (n > 0 && line[n - 1] == ' ')) {
            print_error("%.*s|\n", (int)n, line);
            fail();
        }
        for (size_t i = 0; i < n; i++) {
            assert_in_range(line[i], ' ', '~');
        }
        line += n + (line[n] == '\n');
    }
}

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("no \"%s\" in:\n%s\n", part, text);
        fail();
    }
}

static void says_not(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        print_error("\"%s\" in:\n%s\n", part, text);
        fail();
    }
}

static char *summary(const struct result *r)
{
    char *text = made_text(report_summary, r);

    assert_fits(text);
    return text;
}

static void one_run_is_printed_in_full(void **state)
{
    struct result r = made_result();
    struct run *run = made_run(&r, RUN_PLAIN, 100, 4000, 1, false);
    char *text;

    (void)state;
    made_cluster(run);
    run->tally->counts.n_receipts = 5;
    run->tally->counts.n_resumed = 2;
    run->tally->counts.n_moves = 1200;
    run->tally->gap_max_us = 1250000;
    text = summary(&r);
    says(text, "sluice-load: 4,000 requests in 40.");
    says(text, " s to tcp://127.0.0.1:7071 (tiny-hybrid)\n");
    says(text, "\n  100 requests/s, Poisson;");
    says(text, "\n  TTFT ");
    says(text, "\n    from the send ");
    says(text, "\n    +- (95 %)");
    says(text, "\n  end-to-end ");
    says(text, "\n  lag (own)            50 us     50 us");
    says(text, "\n  requests/s, ok ");
    says(text, "good: 4,000 of 4,000, 100 % (95 %: 99.90..100.00 %), 99 % "
               "wanted: met");
    says(text, "ttft <= 40.0 ms");
    says(text, "\n  4,000 ok\n");
    says(text, "outputs equal to the solo run: 2,000 of 2,000");
    says(text, " % of them reused\n");
    says(text, "cancels: 0, receipts 5, leaked 0");
    says(text, "resumed: 2, moved 1,200 times, longest pause 1.25 s");
    says(text, "at 2.50 s: kill -9 4711");
    says(text, "audit: every block and slot of 2 workers");
    says(text, "suspended: up to 98 at once, then ");
    says(text, " of 64 host pages in use");
    says(text, "\n  drafts: 4,000, 80.5 % accepted, 4.22 tokens a step with "
               "drafts\n");
    says_not(text, "lost");
    says_not(text, "INVALID");
    says_not(text, "queue (server)");
    free(text);
    result_fini(&r);
}

static void failures_are_counted_by_kind_and_reason(void **state)
{
    struct result r = made_result();
    struct run *run = made_run(&r, RUN_PLAIN, 100, 4000, 1, true);
    char *text;

    (void)state;
    for (uint32_t i = 0; i < run->tally->n_whys; i++) {
        run->tally->whys[i].n = 10;
    }
    run->tally->whys[0].n = 77777;
    snprintf(run->tally->whys[0].why, SAMPLE_WHY, "evil \x1b[31m text");
    text = summary(&r);
    says(text, " refused, ");
    says(text, " cancelled");
    says(text, "\n      77,777 ");
    says(text, "\"evil \\x1b[31m text\"");
    says(text, "more reasons");
    says(text, "wanted: missed");
    says(text, "lost");
    says(text, "requests that did not end ok;");
    says(text, "BAD STREAMS");
    free(text);
    result_fini(&r);
}

static void an_invalid_run_is_said_first(void **state)
{
    struct result r = made_result();
    struct run *run = made_run(&r, RUN_PLAIN, 100, 100, 1, false);
    char *text;

    (void)state;
    run->invalid = true;
    tally_invalid(run->tally, 10, run->why_invalid, sizeof run->why_invalid);
    run->audited = true;
    snprintf(run->audit, sizeof run->audit, "3 blocks are held");
    text = made_text(report_summary, &r);
    assert_memory_equal(text, "INVALID: run 1 of 1", 19);
    says(text, "p99 of the generator's own lag is 0.050 ms, at most 0.010 ms");
    says(text, "audit: FAILED: 3 blocks are held");
    free(text);
    result_fini(&r);
}

/* A run without an audit gives the reason, and is no failure. */
static void an_audit_that_is_left_out_has_a_reason(void **state)
{
    struct result r = made_result();
    struct run *run = made_run(&r, RUN_PLAIN, 100, 100, 1, false);
    char *text;

    (void)state;
    snprintf(run->audit, sizeof run->audit, "no audit: a reason");
    text = made_text(report_summary, &r);
    says(text, "\n  no audit: a reason\n");
    assert_null(strstr(text, "FAILED"));
    free(text);
    result_fini(&r);
}

static void chunks_as_tokens_are_a_warning(void **state)
{
    struct result r = made_result();
    struct run *run = made_run(&r, RUN_PLAIN, 100, 100, 1, false);
    char *text;

    (void)state;
    text = made_text(report_summary, &r);
    assert_null(strstr(text, "WARNING"));
    free(text);
    run->tally->counts.n_chunked = 40;
    text = made_text(report_summary, &r);
    says(text, "WARNING: the server does not report the tokens of 40 of 100");
    says(text, "--tokenizer DIR");
    free(text);
    result_fini(&r);
}

static void print_csv(FILE *to, const struct result *r)
{
    struct error e;

    assert_int_equal(report_csv(to, r, &e), ST_OK);
}

/* A head and a row for each run, with as many cells. */
static void runs_are_rows_of_a_spreadsheet(void **state)
{
    struct result r = made_result();
    char *text, *line, *rest;
    unsigned cells = 0, lines = 0;

    (void)state;
    made_run(&r, RUN_PLAIN, 100, 100, 1, true);
    made_run(&r, RUN_PLAIN, 200, 100, 1, false);
    text = made_text(print_csv, &r);
    for (line = strtok_r(text, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest)) {
        unsigned n = 1;

        for (char *c = line; *c != '\0'; c++) {
            n += *c == ',';
        }
        cells = lines++ == 0 ? n : cells;
        assert_int_equal(n, cells);
    }
    assert_int_equal(lines, 3);
    assert_memory_equal(text, "target,model,run,load,", 22);
    free(text);
    result_fini(&r);
}

static void repeats_are_merged_and_their_spread_is_printed(void **state)
{
    struct result r = made_result();
    double rate = 0;
    char *text, row[128];

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        struct run *run = made_run(&r, RUN_REPEAT, 100, 3000 + i, 1, false);

        rate += tally_requests_per_s(run->tally) / 3;
    }
    text = summary(&r);
    says(text, "sluice-load: 9,003 requests in 3 runs of 30.");
    says(text, " over 3 runs");
    /* The mean, not the sum. */
    snprintf(row, sizeof row, "requests/s, ok%16s ", cell_number(rate).text);
    says(text, row);
    free(text);
    result_fini(&r);
}

static void loads_of_a_sweep_have_a_line_each(void **state)
{
    struct result r = made_result();
    char *text;

    (void)state;
    made_run(&r, RUN_PLAIN, 10, 300, 1, false);
    made_run(&r, RUN_PLAIN, 20, 300, 1, false);
    made_run(&r, RUN_PLAIN, 40, 300, 9, true);
    text = summary(&r);
    says(text, "3 loads to tcp://127.0.0.1:7071");
    says(text, "     10 requests/s");
    says(text, "     40 requests/s");
    says(text, "\n  20 requests/s:");
    free(text);
    result_fini(&r);
}

static void a_search_prints_its_trials_and_conclusion(void **state)
{
    struct result r = made_result();
    char *text;

    (void)state;
    made_search(&r);
    text = summary(&r);
    says(text, "\n  bracket            8     1       100 %");
    says(text, "\n  beyond          34.5");
    says(text, "The largest load that meets is 30 requests/s:\n  confirmed by "
               "a second run, and missed at 34.5.");
    says(text, "sluice-load: 60 requests"); /* the confirming run */
    free(text);
    r.search.confirmed = false;
    r.search.invalid = true;
    text = summary(&r);
    says(text, "NOT CONFIRMED:\n  a run was invalid");
    free(text);
    r.search.invalid = false;
    r.search.capped = true;
    text = summary(&r);
    says(text, "the limit of the search");
    free(text);
    r.search.low = 0;
    text = summary(&r);
    says(text, "No load meets the objectives.");
    free(text);
    result_fini(&r);
}

static void nothing_at_all_is_printed_without_a_figure(void **state)
{
    struct result r = made_result();
    char *text = summary(&r);

    (void)state;
    says(text, "no run");
    free(text);
    result_add(&r)->tally = tally_new(&r.objectives);
    text = summary(&r);
    says(text, "sluice-load: 0 requests in 0.0 s");
    free(text);
    result_fini(&r);
}

/* ---- comparisons ---- */

static char *comparison(const struct result *a, const struct result *b)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    report_compare(f, a, b);
    fclose(f);
    assert_fits(text);
    return text;
}

/* Expects the verdict at the end of the row of a figure. */
static void judges(const char *text, const char *figure, const char *verdict)
{
    const char *row = strstr(text, figure);
    size_t n = row == NULL ? 0 : strcspn(row, "\n");

    if (n < strlen(verdict) ||
        strncmp(row + n - strlen(verdict), verdict, strlen(verdict)) != 0) {
        print_error("%s is not %s:\n%s\n", figure, verdict, text);
        fail();
    }
}

static void equal_servers_differ_by_noise_only(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    made_run(&a, RUN_PLAIN, 100, 6000, 1, false);
    made_run(&b, RUN_PLAIN, 100, 6001, 1, false);
    text = comparison(&a, &b);
    judges(text, "TTFT mean", "noise");
    judges(text, "TTFT p50", "noise");
    judges(text, "TTFT p99 ", "noise");
    judges(text, "TTFT max", "-");
    judges(text, "requests/s", "noise");
    judges(text, "not OK share", "noise");
    says_not(text, "different");
    free(text);
    result_fini(&a);
    result_fini(&b);
}

static void slower_servers_are_worse_and_faster_ones_better(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    made_run(&a, RUN_PLAIN, 100, 6000, 1, false);
    made_run(&b, RUN_PLAIN, 100, 6001, 1.1, false);
    free(b.target);
    b.target = strdup("http://elsewhere:8000");
    text = comparison(&a, &b);
    judges(text, "TTFT p50", "worse");
    judges(text, "TTFT p99 ", "worse");
    judges(text, "ITL mean", "worse");
    says(text, "different targets:\n    A: tcp://127.0.0.1:7071\n    B: "
               "http://elsewhere:8000");
    free(text);
    text = comparison(&b, &a);
    judges(text, "TTFT p50", "better");
    free(text);
    result_fini(&a);
    result_fini(&b);
}

static void lost_tails_and_failures_are_worse(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    made_run(&a, RUN_PLAIN, 100, 6000, 1, false);
    made_run(&b, RUN_PLAIN, 100, 6000, 1, true);
    text = comparison(&a, &b);
    judges(text, "TTFT p99 ", "worse");
    judges(text, "good share", "worse");
    judges(text, "not OK share", "worse");
    judges(text, "requests/s", "worse");
    free(text);
    text = comparison(&b, &b);
    judges(text, "TTFT p99 ", "-"); /* lost in both */
    free(text);
    result_fini(&a);
    result_fini(&b);
}

static void repeats_are_judged_by_their_runs(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    /* Runs differ by more than the batches of any of them. */
    for (uint64_t i = 0; i < COMPARE_RUNS_MIN; i++) {
        made_run(&a, RUN_REPEAT, 100, 3000, 1 + 0.2 * (double)i, false);
        made_run(&b, RUN_REPEAT, 100, 3000, 1.05 + 0.2 * (double)i, false);
    }
    text = comparison(&a, &b);
    judges(text, "TTFT p50", "noise");
    free(text);
    a.n_runs--; /* one less: batches */
    tally_free(&a.runs[a.n_runs].tally);
    free(a.runs[a.n_runs].plan);
    free(a.runs[a.n_runs].started);
    text = comparison(&a, &b);
    says(text, "TTFT p50");
    free(text);
    result_fini(&a);
    result_fini(&b);
}

static void few_requests_have_no_verdict(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    made_run(&a, RUN_PLAIN, 100, 100, 1, false);
    made_run(&b, RUN_PLAIN, 100, 100, 3, false);
    text = comparison(&a, &b);
    judges(text, "TTFT p99 ", "-");
    judges(text, "TTFT mean", "worse");
    judges(text, "requests/s", "-");
    free(text);
    result_fini(&a);
    result_fini(&b);
}

static void sweeps_compare_the_loads_that_both_have(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    made_run(&a, RUN_PLAIN, 10, 100, 1, false);
    made_run(&a, RUN_PLAIN, 20, 100, 1, false);
    made_run(&b, RUN_PLAIN, 20, 100, 1, false);
    made_run(&b, RUN_PLAIN, 40, 100, 1, false);
    text = comparison(&a, &b);
    says(text, "\n20 requests/s\n");
    says_not(text, "\n10 requests/s\n");
    says_not(text, "\n40 requests/s\n");
    free(text);
    result_fini(&b);
    b = made_result();
    text = comparison(&a, &b);
    says(text, "no load that both results have");
    free(text);
    result_fini(&a);
    result_fini(&b);
}

static void searches_compare_their_results(void **state)
{
    struct result a = made_result(), b = made_result();
    char *text;

    (void)state;
    made_search(&a);
    made_search(&b);
    b.search.low *= 1.04;
    text = comparison(&a, &b);
    judges(text, "largest load", "noise"); /* within the tolerance */
    free(text);
    b.search.low *= 1.04;
    text = comparison(&a, &b);
    judges(text, "largest load", "better");
    free(text);
    result_fini(&a);
    result_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_is_printed_in_full),
        cmocka_unit_test(failures_are_counted_by_kind_and_reason),
        cmocka_unit_test(an_invalid_run_is_said_first),
        cmocka_unit_test(an_audit_that_is_left_out_has_a_reason),
        cmocka_unit_test(chunks_as_tokens_are_a_warning),
        cmocka_unit_test(runs_are_rows_of_a_spreadsheet),
        cmocka_unit_test(repeats_are_merged_and_their_spread_is_printed),
        cmocka_unit_test(loads_of_a_sweep_have_a_line_each),
        cmocka_unit_test(a_search_prints_its_trials_and_conclusion),
        cmocka_unit_test(nothing_at_all_is_printed_without_a_figure),
        cmocka_unit_test(equal_servers_differ_by_noise_only),
        cmocka_unit_test(slower_servers_are_worse_and_faster_ones_better),
        cmocka_unit_test(lost_tails_and_failures_are_worse),
        cmocka_unit_test(repeats_are_judged_by_their_runs),
        cmocka_unit_test(few_requests_have_no_verdict),
        cmocka_unit_test(sweeps_compare_the_loads_that_both_have),
        cmocka_unit_test(searches_compare_their_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
