/* The live view at fixed times. */
#include <stdlib.h>
#include <string.h>

#include "client/load/report/recent.h"
#include "client/load/report/report.h"
#include "tests/unit/cmocka.h"

#define S 1000000

struct view {
    char *text;
    size_t size;
    FILE *file;
    struct progress *progress;
    struct tally *tally;
};

static void open_view(struct view *v, unsigned width, const char *title)
{
    static const struct objectives none;

    memset(v, 0, sizeof *v);
    v->file = open_memstream(&v->text, &v->size);
    assert_non_null(v->file);
    v->progress = progress_new(v->file, width, title);
    v->tally = tally_new(&none);
}

/* Returns what was printed since the last call. */
static const char *printed(struct view *v)
{
    static char last[8192];

    fflush(v->file);
    assert_true(v->size < sizeof last);
    memcpy(last, v->text, v->size);
    last[v->size] = '\0';
    rewind(v->file);
    return last;
}

static void close_view(struct view *v)
{
    progress_free(&v->progress);
    assert_null(v->progress);
    tally_free(&v->tally);
    fclose(v->file);
    free(v->text);
}

/* One request that was due at a time: TTFT 100 ms, two gaps of 20 ms. */
static void answer(struct view *v, int64_t due_us)
{
    static const uint32_t gaps[] = {20000, 20000};
    struct sample s = {.due_us = due_us, .n_prompt = 10, .n_output = 3};

    s.sent_us = due_us + 50;
    s.first_us = due_us + 100000;
    s.last_us = due_us + 140000;
    s.end_us = due_us + 140000;
    s.queue_us = SAMPLE_NEVER;
    s.n_gaps = 2;
    s.n_events = 3;
    tally_sample(v->tally, &s, gaps);
}

static void failure(struct view *v, int64_t due_us, enum outcome outcome,
                    const char *why)
{
    struct sample s = {.due_us = due_us, .outcome = (uint8_t)outcome};

    s.sent_us = due_us + 50;
    s.end_us = due_us + 1000;
    s.first_us = s.last_us = s.queue_us = SAMPLE_NEVER;
    snprintf(s.why, sizeof s.why, "%s", why);
    tally_sample(v->tally, &s, NULL);
}

static void in_flight(struct view *v, int64_t at_us, uint32_t n)
{
    struct pulse p = {.at_us = at_us, .n_in_flight = n};

    tally_pulse(v->tally, &p);
}

static void terminal_shows_lines(void **state)
{
    struct view v;

    (void)state;
    open_view(&v, 100, "nightly");
    for (int i = 0; i < 20; i++) {
        answer(&v, i * S / 10);
    }
    in_flight(&v, 2 * S, 4);
    progress_show(v.progress, v.tally, 2 * S, 10 * S);
    assert_string_equal(
        printed(&v),
        "nightly  [######---------------------------] 2 s of 10 s\033[K\n"
        "requests  12.0/s sent, 10.0/s ended, 4 in flight, 20 ended in "
        "all\033[K\n"
        "tokens    30.0/s, own lag p99 50 us\033[K\n"
        "p50, p99  TTFT 100 ms, 100 ms; ITL 20.0 ms, 20.0 ms; E2E 140 ms, "
        "140 ms\033[K\n"
        "\033[J");
    close_view(&v);
}

static void wait_for_the_last_requests_is_shown(void **state)
{
    struct view v;

    (void)state;
    open_view(&v, 60, NULL);
    progress_show(v.progress, v.tally, 12 * S, 10 * S);
    assert_memory_equal(
        printed(&v),
        "[####################] 12 s; starts ended at 10 s\033[K\n", 53);
    close_view(&v);
}

static void lines_are_redrawn_in_place(void **state)
{
    struct view v;

    (void)state;
    open_view(&v, 100, NULL);
    progress_show(v.progress, v.tally, 0, 0);
    assert_string_equal(printed(&v),
                        "0 s\033[K\n"
                        "requests  0.00/s sent, 0.00/s ended, 0 in flight, 0 "
                        "ended in all\033[K\n"
                        "tokens    0.00/s, own lag p99 -\033[K\n"
                        "p50, p99  TTFT -, -; ITL -, -; E2E -, -\033[K\n"
                        "\033[J");
    progress_show(v.progress, v.tally, 199999, 0);
    assert_string_equal(printed(&v), "");
    progress_show(v.progress, v.tally, 200000, 0);
    assert_memory_equal(printed(&v), "\033[4A0 s\033[K\n", 10);
    progress_free(&v.progress);
    assert_string_equal(printed(&v), "\033[4A\033[J");
    close_view(&v);
}

static void event_stays_above_the_lines(void **state)
{
    struct view v;

    (void)state;
    open_view(&v, 60, NULL);
    progress_show(v.progress, v.tally, 700 * S, 0);
    printed(&v);
    progress_event(v.progress, "kill -9 12\033[2J\r\n\x9b");
    assert_string_equal(printed(&v), "\033[4A\033[J11 min 40 s: kill -9 "
                                     "12\\x1b[2J\\x0d\\x0a\\x9b\n");
    progress_show(v.progress, v.tally, 700 * S + 1, 0);
    assert_memory_equal(printed(&v), "11 min 40 s\033[K\n", 15);
    close_view(&v);
}

static void lines_are_cut_at_the_width(void **state)
{
    struct view v;
    const char *text, *end;

    (void)state;
    open_view(&v, 21,
              "gr\xc3\xb6\xc3\x9f"
              "e \xe6\xb8\xac\xe5\xae\x9a");
    progress_show(v.progress, v.tally, S, 2 * S);
    text = printed(&v);
    assert_memory_equal(text,
                        "gr\xc3\xb6\xc3\x9f"
                        "e \xe6\xb8\xac\xe5\xae\x9a  [###----\033[K\n",
                        28);
    for (; (end = strstr(text, "\033[K\n")) != NULL; text = end + 4) {
        assert_true(end - text <= 20 + 4); /* bytes that are no columns */
    }
    close_view(&v);
}

static void failures_are_counted_with_the_main_reason(void **state)
{
    struct view v;

    (void)state;
    open_view(&v, 200, NULL);
    failure(&v, 0, OUTCOME_FAILED, "rare");
    failure(&v, 1, OUTCOME_REFUSED, "no room\n\033now");
    failure(&v, 2, OUTCOME_REFUSED, "no room\n\033now");
    failure(&v, 3, OUTCOME_CANCELLED, "injected");
    failure(&v, 4, OUTCOME_CANCELLED, "injected");
    failure(&v, 5, OUTCOME_CANCELLED, "injected");
    progress_show(v.progress, v.tally, S, 0);
    assert_non_null(strstr(printed(&v),
                           "\nnot ok    2 refused, 1 failed, 3 cancelled; "
                           "mostly: no room\\x0a\\x1bnow\033[K\n"));
    close_view(&v);
}

static void cluster_has_a_line(void **state)
{
    const struct cluster_point c = {.n_workers = 2,
                                    .n_waiting = 3,
                                    .n_running = 40,
                                    .pages_total = 1000,
                                    .pages_held = 509,
                                    .pages_cached = 100};
    struct cluster_point more = c;
    struct view v;

    (void)state;
    open_view(&v, 200, NULL);
    progress_cluster(v.progress, &c);
    progress_show(v.progress, v.tally, S, 0);
    assert_non_null(strstr(printed(&v),
                           "\ncluster   2 workers, 3 waiting, 40 running, "
                           "pages 50 % held, 10 % cached\033[K\n"));
    more.n_suspended = 5;
    progress_cluster(v.progress, &more);
    progress_show(v.progress, v.tally, 2 * S, 0);
    assert_non_null(
        strstr(printed(&v), " 40 running, 5 suspended, pages 50 %"));
    close_view(&v);
}

static void without_terminal_a_line_comes_each_5_s(void **state)
{
    struct view v;

    (void)state;
    open_view(&v, 0, "title");
    answer(&v, 0);
    failure(&v, 0, OUTCOME_TIMEOUT, "10 s");
    progress_show(v.progress, v.tally, 4999999, 20 * S);
    assert_string_equal(printed(&v), "");
    progress_show(v.progress, v.tally, 5 * S, 20 * S);
    assert_string_equal(
        printed(&v),
        "5 s of 20 s; requests 0.400/s sent, 0.400/s ended, 0 in flight, 2 "
        "ended in all; tokens 0.600/s, own lag p99 50 us; p50, p99 TTFT 100 "
        "ms, lost; ITL 20.0 ms, 20.0 ms; E2E 140 ms, lost; not ok 1 timeout; "
        "mostly: 10 s\n");
    progress_event(v.progress, "kill");
    assert_string_equal(printed(&v), "5 s: kill\n");
    progress_show(v.progress, v.tally, 9999999, 20 * S);
    assert_string_equal(printed(&v), "");
    progress_show(v.progress, v.tally, 10 * S, 20 * S);
    assert_memory_equal(printed(&v), "10 s of 20 s; ", 14);
    progress_free(&v.progress);
    assert_string_equal(printed(&v), "");
    close_view(&v);
}

static void figures_are_of_the_last_seconds(void **state)
{
    struct recent recent = {0};
    struct recent_figures f;
    struct view v;

    (void)state;
    open_view(&v, 0, NULL);
    answer(&v, 0);
    failure(&v, 0, OUTCOME_FAILED, "x");
    for (int i = 1; i <= RECENT_S + 1; i++) {
        recent_take(&recent, v.tally, i * S, &f);
        assert_int_equal(f.metrics[RECENT_TTFT].n,
                         i <= RECENT_S + 1 ? i == 1 : 0);
        assert_int_equal(f.metrics[RECENT_TTFT].lost, i == 1);
        recent_figures_fini(&f);
    }
    for (int i = 0; i < 10; i++) {
        answer(&v, 7 * S + i);
    }
    recent_take(&recent, v.tally, 11 * S, &f);
    assert_int_equal(f.metrics[RECENT_TTFT].n, 10);
    assert_int_equal(f.metrics[RECENT_ITL].n, 20);
    assert_int_equal(f.metrics[RECENT_TTFT].lost, 0);
    assert_float_equal(f.ended_per_s, 1.0, 1e-9);
    assert_float_equal(f.tokens_per_s, 3.0, 1e-9);
    recent_figures_fini(&f);
    recent_fini(&recent);
    close_view(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminal_shows_lines),
        cmocka_unit_test(wait_for_the_last_requests_is_shown),
        cmocka_unit_test(lines_are_redrawn_in_place),
        cmocka_unit_test(event_stays_above_the_lines),
        cmocka_unit_test(lines_are_cut_at_the_width),
        cmocka_unit_test(failures_are_counted_with_the_main_reason),
        cmocka_unit_test(cluster_has_a_line),
        cmocka_unit_test(without_terminal_a_line_comes_each_5_s),
        cmocka_unit_test(figures_are_of_the_last_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
