/* The loads and the table of `sluice bench`. */
#include "client/front/bench_table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static void command_is(const struct bench_common *c,
                       const struct bench_load *load, const char *want)
{
    const char *argv[BENCH_WORDS];
    char text[1024] = "";

    bench_command(c, load, argv);
    for (size_t i = 0; argv[i] != NULL; i++) {
        size_t n = strlen(text);

        snprintf(text + n, sizeof text - n, "%s%s", i > 0 ? " " : "", argv[i]);
    }
    assert_string_equal(text, want);
}

static struct bench_common common(void)
{
    return (struct bench_common){.program = "P",
                                 .target = "ipc://t",
                                 .duration = "500ms",
                                 .json = "/d/load.json"};
}

static void the_first_load_warms_up_quietly(void **state)
{
    struct bench_common c = common();

    (void)state;
    c.profile = "chat"; /* the warm-up has its own words */
    command_is(&c, &bench_standard[0],
               "P --target ipc://t --concurrency 1 --requests 1 --prompt 64 "
               "--output 16 --quiet --json /d/load.json");
}

static void loads_have_a_duration_and_a_model(void **state)
{
    struct bench_common c = common();

    (void)state;
    c.model = "m";
    command_is(&c, &bench_standard[1],
               "P --target ipc://t --model m --concurrency 1 --sweep 1,8,32 "
               "--prompt 128 --output 128 --duration 500ms --json "
               "/d/load.json");
}

static void a_profile_replaces_the_words(void **state)
{
    static const struct bench_load named = {"", {NULL}};
    struct bench_common c = common();

    (void)state;
    c.profile = "chat";
    command_is(&c, &named,
               "P --target ipc://t --duration 500ms --profile chat --json "
               "/d/load.json");
}

static void every_standard_load_fits(void **state)
{
    struct bench_common c = common();
    const char *argv[BENCH_WORDS];
    size_t n = 0;

    (void)state;
    c.model = c.profile = "x";
    for (; bench_standard[n].words[0] != NULL; n++) {
        bench_command(&c, &bench_standard[n], argv);
    }
    assert_int_equal(n, 3);
    assert_null(bench_standard[n].name);
}

/* ---- the table ---- */

static struct run *add_run(struct result *r, double load, bool closed)
{
    struct run *run = result_add(r);
    struct objectives none = {0};

    run->load = load;
    run->closed = closed;
    run->tally = tally_new(&none);
    return run;
}

/* A request of 1 s: the first token after 100 ms, 10 tokens in and 5 out. */
static void add_sample(struct run *run, uint8_t outcome)
{
    static const uint32_t gaps[] = {225000, 225000, 225000, 225000};
    struct sample s = {
        .sent_us = 0,
        .first_us = outcome == OUTCOME_OK ? 100000 : SAMPLE_NEVER,
        .last_us = outcome == OUTCOME_OK ? 1000000 : SAMPLE_NEVER,
        .end_us = 1000000,
        .queue_us = SAMPLE_NEVER,
        .n_prompt = 10,
        .n_output = outcome == OUTCOME_OK ? 5 : 0,
        .n_events = outcome == OUTCOME_OK ? 5 : 0,
        .outcome = outcome,
        .n_gaps = outcome == OUTCOME_OK ? 4 : 0};

    tally_sample(run->tally, &s, gaps);
}

static char *table_of(const struct result *r, const char *const *names)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);

    assert_non_null(to);
    bench_table(to, r, names);
    fclose(to);
    return text;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static void rows_show_rates_and_quantiles(void **state)
{
    static const char *const names[] = {"decode", "chat", "trace:x"};
    struct result r = {0};
    struct run *run = add_run(&r, 8, true);
    char *text;

    (void)state;
    add_sample(run, OUTCOME_OK);
    add_sample(run, OUTCOME_OK);
    add_run(&r, 2.5, false);
    add_run(&r, 0, false);
    text = table_of(&r, names);
    has(text, "decode x8 ");
    has(text, "100.0 ms");
    has(text, "225.0 ms");
    has(text, " 20.0 "); /* two prompts of 10 tokens in a second */
    has(text, " 10.0 ");
    has(text, "chat 2.5/s ");
    has(text, "trace:x ");
    has(text, "TTFT p99");
    free(text);
    result_fini(&r);
}

static void a_quantile_among_failures_is_failed(void **state)
{
    static const char *const names[] = {"decode"};
    struct result r = {0};
    struct run *run = add_run(&r, 1, true);
    char *text;

    (void)state;
    for (int i = 0; i < 9; i++) {
        add_sample(run, OUTCOME_OK);
    }
    add_sample(run, OUTCOME_REFUSED);
    text = table_of(&r, names);
    has(text, "100.0 ms");
    has(text, "failed");
    has(text, " 9 ");
    free(text);
    result_fini(&r);
}

static void what_is_no_measurement_is_named_below(void **state)
{
    static const char *const names[] = {"decode", "prefill"};
    struct result r = {0};
    struct run *run = add_run(&r, 1, true);
    char *text;

    (void)state;
    run->invalid = true;
    strcpy(run->why_invalid, "the generator was late");
    run = add_run(&r, 4, true);
    run->audited = true;
    strcpy(run->audit, "3 blocks are held");
    text = table_of(&r, names);
    has(text, "row 1 is no measurement: the generator was late\n");
    has(text, "row 2: 3 blocks are held\n");
    free(text);
    result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_load_warms_up_quietly),
        cmocka_unit_test(loads_have_a_duration_and_a_model),
        cmocka_unit_test(a_profile_replaces_the_words),
        cmocka_unit_test(every_standard_load_fits),
        cmocka_unit_test(rows_show_rates_and_quantiles),
        cmocka_unit_test(a_quantile_among_failures_is_failed),
        cmocka_unit_test(what_is_no_measurement_is_named_below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
