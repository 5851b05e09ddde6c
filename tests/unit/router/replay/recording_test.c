/* Recordings: what is written is read, and each broken field is refused with a
 * sentence that names its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/replay/recording.h"

#define HEAD  RECORD_FIRST_LINE "\no 0 expected 1000 60000000 10000000 9 9 0 0\n"
#define PLACE "p 1 1 w1 tiny 1 32 1 1 100 8 4096 64 0 0 0\n"
#define ASKED "a 2 1 tiny anna 70 20 2 0 1 0 0\n"

static enum status parse(const char *text, struct recording **out,
                         struct error *e)
{
    FILE *f = fmemopen((char *)(uintptr_t)text, strlen(text), "r");
    enum status st;

    assert_non_null(f);
    st = recording_read(out, f, e);
    fclose(f);
    return st;
}

static void accepts(const char *text)
{
    struct recording *r;
    struct error e = {.text = ""};

    if (parse(text, &r, &e) != ST_OK) {
        fail_msg("%s: %s", text, e.text);
    }
    recording_free(&r);
}

/* Checks that text is refused, with line `line` and these words. */
static void refuses(const char *text, const char *line, const char *words)
{
    struct recording *r;
    struct error e = {.text = ""};

    assert_int_equal(parse(text, &r, &e), ST_INVALID_ARGUMENT);
    assert_null(r);
    if (strncmp(e.text, line, strlen(line)) != 0 ||
        strstr(e.text, words) == NULL) {
        fail_msg("%s is not \"%s ... %s\"", e.text, line, words);
    }
}

/* ---- writing and reading ---- */

struct file_sink {
    struct record_sink sink;
    FILE *to;
    bool full;
};

static bool put(struct record_sink *s, const char *text, size_t n)
{
    struct file_sink *f = (struct file_sink *)(void *)s;

    return !f->full && fwrite(text, 1, n, f->to) == n;
}

static const struct record_place place = {.session = 77,
                                          .name = "w 1%",
                                          .model = "-",
                                          .grows = true,
                                          .block_tokens = 32,
                                          .block_pages = 1,
                                          .slot_pages = 3,
                                          .pages = 500,
                                          .slots = 8,
                                          .context = 4096,
                                          .max_rows = 64};

static struct recorder *begin(struct file_sink *f, char **text, size_t *n)
{
    const struct record_options o = {.strict = true,
                                     .suspensions = 5,
                                     .max_requests = 7,
                                     .max_waiting = 6,
                                     .kept = 4,
                                     .tenant_quota = 9000,
                                     .retry_budget = 8,
                                     .queue_timeout_us = 3,
                                     .worker_wait_us = 2,
                                     .headroom = true};
    struct recorder *w;

    *f = (struct file_sink){.sink = {put}, .to = open_memstream(text, n)};
    w = recorder_new(&f->sink);
    assert_true(w != NULL && f->to != NULL);
    record_options(w, 1000, &o);
    record_weight(w, 1000, "anna", 3);
    record_place(w, 1000, &place);
    record_places_seen(w, 1000);
    return w;
}

static struct recording *end(struct recorder **w, struct file_sink *f,
                             char **text)
{
    struct recording *r;
    struct error e = {.text = ""};

    recorder_free(w);
    fclose(f->to);
    if (parse(*text, &r, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    free(*text);
    return r;
}

static uint64_t ask(struct recorder *w, int64_t now_us, const char *tenant,
                    const struct prefix_hash *units, uint32_t n_units)
{
    const struct record_arrival a = {.model = "-",
                                     .tenant = tenant,
                                     .n_prompt = 200,
                                     .max_tokens = 50,
                                     .n_choices = 2,
                                     .deadline_us = 9,
                                     .cache = true,
                                     .tier = RECORD_FLEX,
                                     .guaranteed = true,
                                     .route = "chat",
                                     .units = units,
                                     .n_units = n_units};

    return record_arrival(w, now_us, &a);
}

static void what_is_written_is_read(void **state)
{
    const struct prefix_hash one[] = {{1, 1}, {2, 2}}, two[] = {{1, 1}, {3, 3}};
    struct file_sink f;
    char *text;
    size_t n;
    struct recorder *w = begin(&f, &text, &n);
    struct recording *r;
    const struct recorded_choice *c;

    (void)state;
    assert_int_equal(ask(w, 1010, "", one, 2), 1);
    assert_int_equal(ask(w, 1020, "b\xc3\xa9", two, 2), 2);
    record_granted(w, 1030, 1, 1, 77, 4);
    record_first(w, 1040, 1, 1, 64);
    record_suspended(w, 1050, 1, 1);
    record_ended(w, 1060, 1, 1, 33, RECORD_LENGTH);
    record_refused(w, 1070, 2, "RESOURCE_EXHAUSTED");
    for (uint32_t i = 1; i <= 10; i++) {
        record_step(w, 77, 10000 + 500 * i, i, 0);
        record_step(w, 77, 10000 + 500 * i + 2000, i, 100);
    }
    record_place(w, 1080, &place);
    record_places_seen(w, 1080);
    record_places_seen(w, 1090); /* it is gone */
    r = end(&w, &f, &text);
    assert_true(r->options.strict && r->options.headroom);
    assert_int_equal(r->options.suspensions, 5);
    assert_int_equal(r->options.queue_timeout_us, 3);
    assert_int_equal(r->options.tenant_quota, 9000);
    assert_int_equal(r->options.retry_budget, 8);
    assert_string_equal(r->weights[0].tenant, "anna");
    assert_string_equal(r->places[0].name, "w 1%");
    assert_string_equal(r->places[0].model, "-");
    assert_int_equal(r->places[0].shape.slot_pages, 3);
    assert_int_equal(r->places[0].until_us, 90);
    assert_int_equal(r->n_costs, 1);
    assert_in_range(r->costs[0].cost.base_ns, 9999990, 10000010);
    assert_in_range(r->costs[0].cost.row_ns, 499990, 500010);
    assert_in_range(r->costs[0].cost.token_ns, 19990, 20010);
    assert_int_equal(r->costs[0].cost.chunk, 100);
    assert_int_equal(r->n_requests, 2);
    assert_string_equal(r->requests[0].tenant, "");
    assert_string_equal(r->requests[1].tenant, "b\xc3\xa9");
    assert_int_equal(r->requests[1].tier, RECORD_FLEX);
    assert_true(r->requests[1].guaranteed);
    assert_string_equal(r->requests[1].route, "chat");
    assert_int_equal(r->requests[0].shared, 0);
    assert_int_equal(r->requests[1].shared, PREFIX_UNIT);
    assert_int_equal(r->requests[1].like, 0);
    assert_true(r->requests[1].refused && !r->requests[0].refused);
    c = &r->choices[1];
    assert_int_equal(c->granted_us, 30);
    assert_int_equal(c->first_us, 40);
    assert_int_equal(c->end_us, 60);
    assert_int_equal(c->n_tokens, 33);
    assert_int_equal(c->n_restored, 64);
    assert_int_equal(c->n_suspended, 1);
    assert_int_equal(c->how, RECORD_LENGTH);
    assert_int_equal(r->choices[0].granted_us, RECORDING_NEVER);
    recording_free(&r);
}

/* A router of before tiers, guarantees, routes, quotas and budgets. */
static void an_older_recording_has_the_defaults(void **state)
{
    struct recording *r;
    struct error e = {.text = ""};

    (void)state;
    assert_int_equal(parse(HEAD PLACE ASKED, &r, &e), ST_OK);
    assert_int_equal(r->options.tenant_quota, 0);
    assert_int_equal(r->options.retry_budget, 0);
    assert_int_equal(r->requests[0].tier, RECORD_DEFAULT);
    assert_false(r->requests[0].guaranteed);
    assert_string_equal(r->requests[0].route, "");
    recording_free(&r);
}

/* A sink without room loses lines.  What refers to them is left out. */
static void lost_lines_are_counted(void **state)
{
    struct file_sink f;
    char *text;
    size_t n;
    struct recorder *w = begin(&f, &text, &n);
    struct recording *r;

    (void)state;
    f.full = true;
    assert_int_equal(ask(w, 1010, "a", NULL, 0), 1);
    assert_int_equal(ask(w, 1020, "a", NULL, 0), 2);
    f.full = false;
    record_granted(w, 1030, 2, 0, 77, 4);
    assert_int_equal(ask(w, 1040, "a", NULL, 0), 3);
    record_granted(w, 1050, 1, 0, 77, 4);
    record_granted(w, 1060, 3, 0, 77, 4);
    r = end(&w, &f, &text);
    assert_int_equal(r->n_lost, 2);
    assert_int_equal(r->n_requests, 3);
    assert_true(r->requests[0].lost && r->requests[1].lost);
    assert_false(r->requests[2].lost);
    assert_int_equal(r->choices[r->requests[2].choices].granted_us, 60);
    recording_free(&r);
}

static void no_recorder_is_a_recorder(void **state)
{
    (void)state;
    assert_int_equal(ask(NULL, 1, "a", NULL, 0), 0);
    record_granted(NULL, 1, 0, 0, 1, 1);
    record_ended(NULL, 1, 0, 0, 1, RECORD_STOP);
    record_step(NULL, 1, 1, 1, 1);
    record_places_seen(NULL, 1);
}

/* ---- broken files ---- */

static void the_head_is_checked(void **state)
{
    (void)state;
    refuses("x", "line 1", "the recording ends here");
    refuses("sluice-record 2\n", "line 1", "begins with");
    refuses(RECORD_FIRST_LINE "\n", "line 2", "the recording ends here");
    refuses(RECORD_FIRST_LINE "\n" PLACE, "line 2", "must have the options");
    refuses(HEAD "o 0 strict 0 0 0 1 0 0 0\n", "line 3",
            "may only be the second line");
    refuses(RECORD_FIRST_LINE "\no 0 lenient 0 0 0 1 0 0 0\n", "line 2",
            "is not \"strict\"");
    refuses(RECORD_FIRST_LINE "\no 0 strict 0 0 0 0 0 0 0\n", "line 2",
            "max requests is \"0\", must be 1..1048576");
    accepts(HEAD);
    accepts(HEAD PLACE ASKED "a 3 "); /* its router was killed */
}

/* A line with each field missing, not a number, and one past its range. */
static void each_field_is_checked(void **state)
{
    static const struct {
        const char *before; /* lines before it, and its kind and time */
        const char *fields;
        const char *newer; /* NULL: none; older recordings lack them all */
    } rows[] = {
        {RECORD_FIRST_LINE "\no 0", "strict 500000 0 0 1 0 0 1",
         " 1000000000 100"},
        {HEAD "t 1", "anna 1000", NULL},
        {HEAD "p 1", "1 w1 tiny 1 64 65536 1 100 8 4194304 512 0 0 8192", NULL},
        {HEAD PLACE "c 1", "1 60000000000 0 0 8192", NULL},
        {HEAD PLACE "x 1", "1", NULL},
        {HEAD "a 2", "1 tiny anna 4194304 20 64 0 1 0 0", " priority 1 chat"},
        {HEAD ASKED "r 2", "1 RESOURCE_EXHAUSTED", NULL},
        {HEAD PLACE ASKED "g 2", "1 1 1 7", NULL},
        {HEAD PLACE ASKED "f 2", "1 1 64", NULL},
        {HEAD PLACE ASKED "s 2", "1 1", NULL},
        {HEAD PLACE ASKED "e 2", "1 1 4194304 stop", NULL},
        {HEAD "l 2", "4", NULL},
    };
    struct recording *r;
    struct error e;
    char text[1024], fields[256];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *newer = rows[i].newer != NULL ? rows[i].newer : "";

        snprintf(fields, sizeof fields, "%s%s", rows[i].fields, newer);
        snprintf(text, sizeof text, "%s %s\n", rows[i].before, fields);
        accepts(text);
        snprintf(text, sizeof text, "%s %s 1\n", rows[i].before, fields);
        assert_int_equal(parse(text, &r, &e), ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "a field too many"));
        for (char *at = fields; at != NULL;) {
            char *next = strchr(at, ' ');
            char was = at == fields ? '\0' : at[-1];

            if (was != '\0') {
                at[-1] = '\0';
            }
            snprintf(text, sizeof text, "%s%s%s\n", rows[i].before,
                     was == '\0' ? "" : " ", was == '\0' ? "" : fields);
            if (newer[0] != '\0' && strcmp(fields, rows[i].fields) == 0) {
                accepts(text);
            } else {
                assert_int_equal(parse(text, &r, &e), ST_INVALID_ARGUMENT);
                assert_non_null(strstr(e.text, "is missing"));
            }
            if (was != '\0') {
                at[-1] = was;
            }
            at = next == NULL ? NULL : next + 1;
        }
    }
}

static void limits_are_exact(void **state)
{
    char line[RECORD_LINE_MAX + 64];
    char text[sizeof line + 256];

    (void)state;
    refuses(HEAD "t 1 anna 1001\n", "line 3", "must be 1..1000");
    refuses(HEAD "t 1 - 1\n", "line 3", "tenant is empty");
    refuses(HEAD "t 1 %0 1\n", "line 3", "not written as %XX");
    refuses(HEAD "t 1 %00 1\n", "line 3", "not written as %XX");
    refuses(HEAD "p 1 2 w1 tiny 1 32 1 1 100 8 4096 64 0 0 0\n", "line 3",
            "place is \"2\", must be 1..1");
    refuses(HEAD "p 1 1 w1 tiny 1 24 1 1 100 8 4096 64 0 0 0\n", "line 3",
            "does not divide");
    refuses(HEAD "p 1 1 w1 tiny 1 32 0 0 100 8 4096 64 0 0 0\n", "line 3",
            "is 0, and so is");
    refuses(HEAD "p 1 1 w1 tiny 1 32 1 1 0 8 4096 64 0 0 0\n", "line 3",
            "pages is \"0\"");
    refuses(HEAD PLACE "x 1 1\nx 1 1\n", "line 5", "is gone already");
    refuses(HEAD PLACE "x 1 2\n", "line 4", "must be 1..1");
    refuses(HEAD PLACE "x 0 1\n", "line 4", "time is \"0\"");
    refuses(HEAD ASKED "s 2 1 2\n", "line 4", "is not one of its request");
    refuses(HEAD ASKED "e 2 1 1 3 nicely\n", "line 4", "is not \"stop\"");
    refuses(HEAD "a 2 1 tiny anna 70 20 65 0 1 0 0\n", "line 3", "1..64");
    refuses(HEAD "a 2 1 tiny anna 70 20 1 0 1 1 0\n", "line 3", "like");
    refuses(HEAD ASKED "a 2 2 tiny anna 70 20 1 0 1 1 71\n", "line 4",
            "shared is \"71\", must be 0..70");
    refuses(HEAD ASKED "a 2 2 tiny anna 70 20 1 0 1 0 64\n", "line 4",
            "no request is named");
    refuses(HEAD "a 2 1 tiny anna 70 20 1 0 1 0 0 urgent 0 -\n", "line 3",
            "tier is not \"priority\", \"default\" or \"flex\"");
    refuses(HEAD "a 2 1 tiny anna 70 20 1 0 1 0 0 flex 2 -\n", "line 3",
            "guarantee is \"2\", must be 0..1");
    refuses(RECORD_FIRST_LINE "\no 0 strict 0 0 0 1 0 0 0 1000000001 0\n",
            "line 2", "must be 0..1000000000");
    refuses(RECORD_FIRST_LINE "\no 0 strict 0 0 0 1 0 0 0 0 101\n", "line 2",
            "must be 0..100");
    refuses(HEAD "l 1 0\n", "line 3", "lines is \"0\"");
    refuses(HEAD "q 1 0\n", "line 3", "kind \"q\" is unknown");
    refuses(HEAD "e 1125899906842625 1\n", "line 3", "time");
    /* A line of RECORD_LINE_MAX bytes with its newline, and one more. */
    for (size_t n = RECORD_LINE_MAX - 1; n <= RECORD_LINE_MAX; n++) {
        memset(line, 'x', n);
        line[0] = 'q';
        line[1] = line[3] = ' ';
        line[2] = '1';
        line[n] = '\0';
        snprintf(text, sizeof text, HEAD "%s\n", line);
        refuses(text, "line 3",
                n < RECORD_LINE_MAX ? "is unknown" : "more than 1024 bytes");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(an_older_recording_has_the_defaults),
        cmocka_unit_test(lost_lines_are_counted),
        cmocka_unit_test(no_recorder_is_a_recorder),
        cmocka_unit_test(the_head_is_checked),
        cmocka_unit_test(each_field_is_checked),
        cmocka_unit_test(limits_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
