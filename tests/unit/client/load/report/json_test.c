/* Results to JSON and back. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/load/report/report.h"
#include "tests/unit/client/load/figures/draws.h"
#include "tests/unit/client/load/report/made_result.h"
#include "tests/unit/cmocka.h"

static void write_json(FILE *to, const struct result *r)
{
    struct error e;

    assert_int_equal(report_json(to, r, &e), ST_OK);
}

static void everything(struct result *r)
{
    *r = made_result();
    made_cluster(made_run(r, RUN_PLAIN, 100, 600, 1, true));
    made_run(r, RUN_REPEAT, 100, 1, 1, false);
    r->runs[1].invalid = r->runs[1].closed = true;
    snprintf(r->runs[1].why_invalid, sizeof r->runs[1].why_invalid, "lag");
    made_search(r);
    r->search.trials[0].load = 1.0 / 3;
}

/* The second text has every count, time and histogram of the first. */
static void what_is_read_writes_the_same_text(void **state)
{
    struct result r, back;
    struct error e;
    char *text, *again;

    (void)state;
    everything(&r);
    text = made_text(write_json, &r);
    assert_int_equal(report_parse(&back, text, strlen(text), &e), ST_OK);
    again = made_text(write_json, &back);
    assert_string_equal(text, again);
    assert_int_equal(back.n_runs, r.n_runs);
    assert_string_equal(back.target, r.target);
    assert_null(back.host);
    assert_int_equal(back.runs[0].n_points, r.runs[0].n_points);
    assert_int_equal(back.runs[0].points[9].n_waiting,
                     r.runs[0].points[9].n_waiting);
    assert_memory_equal(back.runs[0].tally->counts.n_outcomes,
                        r.runs[0].tally->counts.n_outcomes,
                        sizeof r.runs[0].tally->counts.n_outcomes);
    assert_memory_equal(back.runs[0].tally->whys, r.runs[0].tally->whys,
                        sizeof r.runs[0].tally->whys);
    assert_int_equal(back.runs[0].events[1].exit_code, -1);
    free(text);
    free(again);
    result_fini(&r);
    result_fini(&back);
}

/* Members that came later read as 0 where they are absent, others are needed.
 */
static void points_of_earlier_versions_are_read(void **state)
{
    static const char *const names[] = {"windows_held", "n_suspended",
                                        "host_used", "pages_held"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct result r, back;
        struct error e;
        json_t *j, *points;
        char *text;
        enum status st;
        size_t k;
        json_t *point;

        everything(&r);
        text = made_text(write_json, &r);
        j = json_loads(text, 0, NULL);
        points = json_object_get(json_array_get(json_object_get(j, "runs"), 0),
                                 "points");
        json_array_foreach(points, k, point)
        {
            assert_int_equal(json_object_del(point, names[i]), 0);
        }
        free(text);
        text = json_dumps(j, 0);
        st = report_parse(&back, text, strlen(text), &e);
        assert_int_equal(st == ST_OK, i < 3);
        if (st == ST_OK) {
            assert_int_equal(back.runs[0].points[9].windows_held,
                             i == 0 ? 0 : r.runs[0].points[9].windows_held);
            assert_int_equal(back.runs[0].points[9].n_suspended,
                             i == 1 ? 0 : r.runs[0].points[9].n_suspended);
            result_fini(&back);
        }
        json_decref(j);
        free(text);
        result_fini(&r);
    }
}

static void intervals_and_merging_work_on_what_was_read(void **state)
{
    struct result r, back;
    struct error e;
    char *text;
    struct tally_span x, y;

    (void)state;
    everything(&r);
    text = made_text(write_json, &r);
    assert_int_equal(report_parse(&back, text, strlen(text), &e), ST_OK);
    assert_true(tally_interval(r.runs[0].tally, METRIC_ITL, 0.9, &x));
    assert_true(tally_interval(back.runs[0].tally, METRIC_ITL, 0.9, &y));
    assert_true(x.low == y.low && x.high == y.high);
    tally_merge(r.runs[0].tally, r.runs[1].tally);
    tally_merge(back.runs[0].tally, back.runs[1].tally);
    free(text);
    text = made_text(write_json, &r);
    result_fini(&r);
    r = back;
    {
        char *again = made_text(write_json, &r);

        assert_string_equal(text, again);
        free(again);
    }
    free(text);
    result_fini(&r);
}

static double number_at(const json_t *j, const char *a, const char *b)
{
    return json_number_value(json_object_get(json_object_get(j, a), b));
}

static void plain_numbers_are_milliseconds(void **state)
{
    struct result r = made_result();
    const struct tally *t = made_run(&r, RUN_PLAIN, 100, 2000, 1, false)->tally;
    char *text = made_text(write_json, &r);
    json_t *j = json_loads(text, 0, NULL), *run, *metrics;

    (void)state;
    assert_string_equal(json_string_value(json_object_get(j, "format")),
                        "sluice-load 2");
    run = json_array_get(json_object_get(j, "runs"), 0);
    metrics = json_object_get(json_object_get(run, "tally"), "metrics");
    assert_true(fabs(number_at(metrics, "ttft", "p99") * 1000 -
                     (double)histogram_quantile(&t->metrics[METRIC_TTFT],
                                                0.99)) < 1e-6);
    assert_true(number_at(metrics, "ttft", "n") == 2000);
    assert_true(number_at(metrics, "prompt", "mean") == 100); /* tokens */
    assert_true(fabs(number_at(run, "rates", "requests_per_s") -
                     tally_requests_per_s(t)) < 1e-9);
    assert_true(number_at(run, "rates", "good_share") == 1);
    json_decref(j);
    free(text);
    result_fini(&r);
}

static void drafts_have_a_share_and_tokens_per_row(void **state)
{
    (void)state;
    for (int drafts = 0; drafts < 2; drafts++) {
        struct result r = made_result();
        struct run *run = made_run(&r, RUN_PLAIN, 100, 20, 1, false);
        json_t *j, *rates;
        char *text;

        run->draft_rows = drafts ? 10 : 0;
        run->drafts_verified = drafts ? 40 : 0;
        run->drafts_accepted = drafts ? 15 : 0;
        text = made_text(write_json, &r);
        j = json_loads(text, 0, NULL);
        rates = json_object_get(json_array_get(json_object_get(j, "runs"), 0),
                                "rates");
        if (drafts) {
            assert_true(json_real_value(json_object_get(
                            rates, "drafts_accepted_share")) == 0.375);
            assert_true(json_real_value(json_object_get(
                            rates, "tokens_per_draft_row")) == 2.5);
        } else {
            assert_true(
                json_is_null(json_object_get(rates, "drafts_accepted_share")));
            assert_true(
                json_is_null(json_object_get(rates, "tokens_per_draft_row")));
        }
        json_decref(j);
        free(text);
        result_fini(&r);
    }
}

/* They read as 0. */
static void runs_without_counts_of_drafts_are_read(void **state)
{
    static const char *const names[] = {"draft_rows", "drafts_verified",
                                        "drafts_accepted"};
    struct result r, back;
    struct error e;
    json_t *j, *run;
    char *text;

    (void)state;
    everything(&r);
    text = made_text(write_json, &r);
    assert_int_equal(report_parse(&back, text, strlen(text), &e), ST_OK);
    assert_int_equal(back.runs[0].drafts_accepted, r.runs[0].drafts_accepted);
    assert_true(back.runs[0].drafts_accepted > 0);
    result_fini(&back);
    j = json_loads(text, 0, NULL);
    free(text);
    run = json_array_get(json_object_get(j, "runs"), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_object_del(run, names[i]), 0);
    }
    text = json_dumps(j, 0);
    assert_int_equal(report_parse(&back, text, strlen(text), &e), ST_OK);
    assert_int_equal(back.runs[0].draft_rows, 0);
    assert_int_equal(back.runs[0].drafts_accepted, 0);
    free(text);
    json_decref(j);
    result_fini(&back);
    result_fini(&r);
}

static void lost_figures_are_null(void **state)
{
    struct result r = made_result();
    char *text;
    json_t *j, *ttft;

    (void)state;
    made_run(&r, RUN_PLAIN, 100, 2000, 1, true);
    text = made_text(write_json, &r);
    j = json_loads(text, 0, NULL);
    ttft = json_array_get(json_object_get(j, "runs"), 0);
    ttft = json_object_get(json_object_get(ttft, "tally"), "metrics");
    ttft = json_object_get(ttft, "ttft");
    assert_true(json_is_null(json_object_get(ttft, "p99")));
    assert_true(json_is_null(json_object_get(ttft, "max")));
    assert_true(json_is_real(json_object_get(ttft, "p50")));
    assert_true(json_integer_value(json_object_get(ttft, "lost")) > 0);
    json_decref(j);
    free(text);
    result_fini(&r);
}

static void bytes_that_are_no_utf8_become_question_marks(void **state)
{
    struct result r = made_result(), back;
    struct run *run = made_run(&r, RUN_PLAIN, 100, 10, 1, false);
    struct error e;
    char *text;

    (void)state;
    run->tally->n_whys = 1;
    run->tally->whys[0].n = 1;
    memcpy(run->tally->whys[0].why, "caf\xc3\xa9 \xff\xc3", 9);
    text = made_text(write_json, &r);
    assert_int_equal(report_parse(&back, text, strlen(text), &e), ST_OK);
    assert_string_equal(back.runs[0].tally->whys[0].why, "caf\xc3\xa9 ??");
    free(text);
    result_fini(&r);
    result_fini(&back);
}

/* ---- refusals ---- */

static void refuses(const char *text, size_t n, const char *in_sentence)
{
    struct result back;
    struct error e = {0};

    assert_int_not_equal(report_parse(&back, text, n, &e), ST_OK);
    assert_true(back.runs == NULL && back.target == NULL);
    if (strstr(e.text, in_sentence) == NULL) {
        print_error("wanted %s: %s\n", in_sentence, e.text);
        fail();
    }
}

/* Replaces the first `from` by `to` and expects a sentence. */
static void refuses_change(const char *text, const char *from, const char *to,
                           const char *in_sentence)
{
    const char *at = strstr(text, from);
    size_t head, n = strlen(text) + strlen(to) + 1;
    char *changed = malloc(n);

    assert_non_null(changed);
    if (at == NULL) {
        print_error("no %s\n", from);
        fail();
        return;
    }
    head = (size_t)(at - text);
    snprintf(changed, n, "%.*s%s%s", (int)head, text, to, at + strlen(from));
    refuses(changed, strlen(changed), in_sentence);
    free(changed);
}

static void malformed_results_are_refused_by_member(void **state)
{
    static const char *const changes[][3] = {
        {"sluice-load 2", "sluice-load 3", "format is \"sluice-load 3\""},
        {"\"format\"", "\"fromat\"", "format is missing"},
        {"\"lag_max_us\": 10000", "\"lag_max_us\": \"x\"",
         "lag_max_us is no whole number"},
        {"\"searched\": true", "\"searched\": 1",
         "searched is not true or false"},
        {"\"attain\": 0.99", "\"attain\": null", "attain is no number"},
        {"\"runs\": [", "\"runs\": 3, \"x\": [", "runs is no array"},
        {"\"role\": \"plain\"", "\"role\": \"plan\"",
         "runs[0]: role is unknown: \"plan\""},
        {"\"stride\": 2", "\"stride\": 5000000000",
         "runs[0]: stride is out of range"},
        {"\"n_workers\": 2", "\"n_workers\": -1",
         "runs[0]: points[0]: n_workers is out of range"},
        {"\"exit_code\": -1", "\"exit_code\": 3000000000",
         "runs[0]: events[1]: exit_code is out of range"},
        {"\"n_good\": ", "\"n_good\": 1.5, \"x\": ",
         "runs[0]: tally: n_good is no whole number"},
        {"\"n_good\": ", "\"n_good\": 999999, \"x\": ",
         "n_good is more than the requests"},
        {"\"row_us\": 1000000", "\"row_us\": 3000000", "row_us is not"},
        {"\"row_us\": 1000000", "\"row_us\": 0", "row_us is not"},
        {"\"row_us\": 1000000", "\"row_us\": 2000000",
         "tally: rows[0]: from_us and to_us do not follow"},
        {"\"batch_size\": ", "\"batch_size\": 3, \"x\": ",
         "batch_size is no power of two"},
        {"\"batch_size\": ", "\"batch_size\": 0, \"x\": ",
         "batch_size is no power of two"},
        {"\"refused\": ", "\"refused\": true, \"x\": ",
         "refused is no whole number"},
        {"\"histogram\": \"", "\"histogram\": \"!",
         "tally: metrics: ttft: histogram is no histogram"},
        {"\"in_flight\": 2", "\"in_flight\": 3",
         "levels[1]: in_flight is not 2"},
        {"\"outcome\": \"", "\"outcome\": \"x",
         "tally: whys[0]: outcome is unknown"},
        {"\"verdict\": \"meets\"", "\"verdict\": \"\"",
         "search: trials[0]: verdict is unknown"},
        {"\"n_good\": 400,\n    \"n_wanted\": 400",
         "\"n_good\": 401, \"n_wanted\": 400",
         "search: trials[0]: n_good is more"},
        {"\"title\": ", "\"title\": 1, \"title\": ", "no JSON"},
    };
    struct result r;
    char *text;

    (void)state;
    everything(&r);
    text = made_text(write_json, &r);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        refuses_change(text, changes[i][0], changes[i][1], changes[i][2]);
    }
    free(text);
    result_fini(&r);
}

static void texts_cut_anywhere_are_refused(void **state)
{
    struct result r = made_result();
    char *text;
    size_t n;

    (void)state;
    made_run(&r, RUN_PLAIN, 100, 30, 1, true);
    text = made_text(write_json, &r);
    n = strlen(text) - 2; /* the last bracket and newline */
    for (size_t cut = 0; cut < n; cut += 1 + cut / 40) {
        refuses(text, cut, "");
    }
    free(text);
    result_fini(&r);
}

/* A member that is missing anywhere is named. */
static void each_member_is_needed(void **state)
{
    static const char *const members[] = {
        "title",     "objectives", "runs",   "role",     "load",
        "tally",     "points",     "events", "outcomes", "ttft",
        "rows",      "levels",     "whys",   "batches",  "turns",
        "e2e",       "itl",        "n_due",  "search",   "options",
        "tolerance", "trials",     "n_runs", "audit",    "exit_code"};
    struct result r;
    char *text;

    (void)state;
    everything(&r);
    text = made_text(write_json, &r);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char from[40], to[44], sentence[48];

        snprintf(from, sizeof from, "\"%s\": ", members[i]);
        snprintf(to, sizeof to, "\"x_%s\": ", members[i]);
        snprintf(sentence, sizeof sentence, "%s is missing", members[i]);
        refuses_change(text, from, to, sentence);
    }
    free(text);
    result_fini(&r);
}

static char *nested(size_t depth)
{
    char *text = malloc(2 * depth + 1);

    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

static void nesting_is_bounded(void **state)
{
    char *at = nested(REPORT_DEPTH_MAX), *past = nested(REPORT_DEPTH_MAX + 1);

    (void)state;
    refuses(at, strlen(at), "format is missing");
    refuses(past, strlen(past), "nest");
    free(at);
    free(past);
}

/* At the limit the first run is read, and refused; one past, none is. */
static void runs_are_bounded(void **state)
{
    struct result r = made_result();
    char *text = made_text(write_json, &r), *many;

    (void)state;
    many = malloc(5 * REPORT_RUNS_MAX + 20);
    assert_non_null(many);
    for (int n = REPORT_RUNS_MAX; n <= REPORT_RUNS_MAX + 1; n++) {
        char *to = many + sprintf(many, "\"runs\": [{}");

        for (int i = 1; i < n; i++) {
            to += sprintf(to, ",{}");
        }
        strcpy(to, "]");
        refuses_change(text, "\"runs\": []", many,
                       n == REPORT_RUNS_MAX
                           ? "runs[0]: role is missing"
                           : "runs has 1025 items, at most 1024");
    }
    free(many);
    free(text);
    result_fini(&r);
}

/* ---- files ---- */

static void files_are_read_and_named_in_errors(void **state)
{
    char path[] = "/tmp/load_json_test.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    struct result r, back;
    struct error e;

    (void)state;
    assert_non_null(f);
    everything(&r);
    write_json(f, &r);
    fclose(f);
    assert_int_equal(report_read(&back, path, &e), ST_OK);
    assert_int_equal(back.n_runs, r.n_runs);
    result_fini(&back);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(report_read(&back, path, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, path));
    unlink(path);
    assert_int_equal(report_read(&back, path, &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, path));
    result_fini(&r);
}

static void a_full_disk_is_an_error(void **state)
{
    FILE *full = fopen("/dev/full", "w");
    struct result r = made_result();
    struct error e = {0};

    (void)state;
    if (full == NULL) {
        skip();
    }
    assert_int_equal(report_json(full, &r, &e), ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "No space left"));
    fclose(full);
    result_fini(&r);
}

/* A limit of the size of files stands for a full disk. */
static void a_file_is_whole_or_absent_and_named_in_errors(void **state)
{
    char dir[] = "/tmp/load_json_test.XXXXXX", path[64], part[80], why[160];
    struct rlimit before, small;
    struct result r, back;
    struct error e;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/r.json", dir);
    snprintf(part, sizeof part, "%s.part", path);
    everything(&r);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(report_write(path, report_json, &r, &e), ST_UNAVAILABLE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    snprintf(why, sizeof why, "cannot write %s: File too large", path);
    assert_string_equal(e.text, why);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(part, F_OK), -1);

    assert_int_equal(report_write(path, report_json, &r, &e), ST_OK);
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(report_read(&back, path, &e), ST_OK);
    result_fini(&back);
    unlink(path);
    rmdir(dir);
    assert_int_equal(report_write(path, report_json, &r, &e), ST_UNAVAILABLE);
    snprintf(why, sizeof why, "cannot write %s: No such file or directory",
             path);
    assert_string_equal(e.text, why);
    result_fini(&r);
}

static void a_device_is_written_as_it_is(void **state)
{
    struct result r;
    struct error e;

    (void)state;
    everything(&r);
    assert_int_equal(report_write("/dev/null", report_csv, &r, &e), ST_OK);
    assert_int_equal(report_write("/dev/full", report_csv, &r, &e),
                     ST_UNAVAILABLE);
    assert_string_equal(e.text,
                        "cannot write /dev/full: No space left on device");
    result_fini(&r);
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    char path[4096];
    struct result r;
    struct error e;

    (void)state;
    everything(&r);
    memset(path, 'x', sizeof path);
    path[4091] = '\0';
    assert_int_equal(report_write(path, report_json, &r, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "cannot write a file whose name has 4091 "
                                "bytes; at most 4090 are possible");
    path[4090] = '\0'; /* the kernel refuses it, for a part of it is too long */
    assert_int_equal(report_write(path, report_json, &r, &e), ST_UNAVAILABLE);
    result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_writes_the_same_text),
        cmocka_unit_test(points_of_earlier_versions_are_read),
        cmocka_unit_test(drafts_have_a_share_and_tokens_per_row),
        cmocka_unit_test(runs_without_counts_of_drafts_are_read),
        cmocka_unit_test(intervals_and_merging_work_on_what_was_read),
        cmocka_unit_test(plain_numbers_are_milliseconds),
        cmocka_unit_test(lost_figures_are_null),
        cmocka_unit_test(bytes_that_are_no_utf8_become_question_marks),
        cmocka_unit_test(malformed_results_are_refused_by_member),
        cmocka_unit_test(texts_cut_anywhere_are_refused),
        cmocka_unit_test(each_member_is_needed),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(runs_are_bounded),
        cmocka_unit_test(files_are_read_and_named_in_errors),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_file_is_whole_or_absent_and_named_in_errors),
        cmocka_unit_test(a_device_is_written_as_it_is),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
