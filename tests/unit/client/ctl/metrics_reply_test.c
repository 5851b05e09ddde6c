/* The metrics of a StatusReply as text for Prometheus and as JSON. */
#include "client/ctl/metrics_reply.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"
#include "tests/unit/cmocka.h"

#define COUNTER SLUICE__V1__METRIC_KIND__METRIC_COUNTER
#define GAUGE   SLUICE__V1__METRIC_KIND__METRIC_GAUGE

struct reply {
    Sluice__V1__StatusReply m;
    Sluice__V1__Metric metrics[8], *list[8];
};

static void add(struct reply *r, const char *name, Sluice__V1__MetricKind kind,
                const char *help, uint64_t value)
{
    Sluice__V1__Metric *x = &r->metrics[r->m.n_metrics];

    sluice__v1__metric__init(x);
    x->name = wire_text(name);
    x->kind = kind;
    x->help = wire_text(help);
    x->value = value;
    r->list[r->m.n_metrics++] = x;
    r->m.metrics = r->list;
}

static char *printed(const struct reply *r)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    metrics_reply_print(&r->m, "sluice_router", to);
    fclose(to);
    return text;
}

static char *dumped(const struct reply *r)
{
    json_t *j = metrics_reply_json(&r->m);
    char *text = json_dumps(j, JSON_COMPACT);

    json_decref(j);
    return text;
}

static void rows_are_printed_by_kind(void **state)
{
    struct reply r = {.m = SLUICE__V1__STATUS_REPLY__INIT};
    char *text;

    (void)state;
    add(&r, "requests", COUNTER, "Generate calls", UINT64_MAX);
    add(&r, "choices_open", GAUGE, "open choices", 0);
    text = printed(&r);
    assert_string_equal(text,
                        "# HELP sluice_router_requests_total Generate calls\n"
                        "# TYPE sluice_router_requests_total counter\n"
                        "sluice_router_requests_total 18446744073709551615\n"
                        "# HELP sluice_router_choices_open open choices\n"
                        "# TYPE sluice_router_choices_open gauge\n"
                        "sluice_router_choices_open 0\n");
    free(text);
}

static void json_has_each_value_by_name(void **state)
{
    struct reply r = {.m = SLUICE__V1__STATUS_REPLY__INIT};
    char *text = dumped(&r);

    (void)state;
    assert_string_equal(text, "{}");
    free(text);
    add(&r, "requests", COUNTER, "Generate calls", 3);
    add(&r, "choices_open", GAUGE, "open choices", 0);
    text = dumped(&r);
    assert_string_equal(text, "{\"requests\":3,\"choices_open\":0}");
    free(text);
}

static void names_that_prometheus_refuses_are_left_out(void **state)
{
    static const char *const names[] = {"",    "1st",     "two words",
                                        "a\n", "caf\xc3", "UPPER"};
    struct reply r = {.m = SLUICE__V1__STATUS_REPLY__INIT};
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        add(&r, names[i], COUNTER, "a row", i);
    }
    text = printed(&r);
    assert_string_equal(text, "");
    free(text);
    text = dumped(&r);
    assert_string_equal(text, "{}");
    free(text);
}

static void help_stays_on_its_line_and_is_no_terminal_command(void **state)
{
    struct reply r = {.m = SLUICE__V1__STATUS_REPLY__INIT};
    char *text;

    (void)state;
    add(&r, "a1", GAUGE, "one\ntwo \x1b[2J", 1);
    text = printed(&r);
    assert_string_equal(text, "# HELP sluice_router_a1 one\\\\ntwo \\\\x1b[2J\n"
                              "# TYPE sluice_router_a1 gauge\n"
                              "sluice_router_a1 1\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_printed_by_kind),
        cmocka_unit_test(json_has_each_value_by_name),
        cmocka_unit_test(names_that_prometheus_refuses_are_left_out),
        cmocka_unit_test(help_stays_on_its_line_and_is_no_terminal_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
