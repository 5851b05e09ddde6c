/* The metrics of a StatusReply as text for Prometheus and as JSON. */
#include "client/ctl/metrics_reply.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/metric.h"
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

/* ---- tables ---- */

#define N_HISTOGRAM (METRIC_BUCKETS + 1) /* values */

/* A reply with one table of two rows, a counter and a histogram. */
struct tabled {
    struct reply r;
    Sluice__V1__MetricTable t, *tables[1];
    Sluice__V1__MetricRow rows[2], *list[2];
    uint64_t values[2 * (1 + N_HISTOGRAM)];
};

static void set_row(struct tabled *x, int i, const char *name,
                    Sluice__V1__MetricKind kind)
{
    sluice__v1__metric_row__init(&x->rows[i]);
    x->rows[i].name = wire_text(name);
    x->rows[i].kind = kind;
    x->rows[i].help = wire_text("a row");
    x->list[i] = &x->rows[i];
}

/* Two series, of "w1" and of a name that could command a terminal. */
static void tabled_init(struct tabled *x)
{
    static const char labels[] = "w1\0blocks\0w\x1b[2\"\0slots";

    *x = (struct tabled){.r.m = SLUICE__V1__STATUS_REPLY__INIT,
                         .t = SLUICE__V1__METRIC_TABLE__INIT};
    set_row(x, 0, "calls", COUNTER);
    set_row(x, 1, "step", SLUICE__V1__METRIC_KIND__METRIC_TIMES);
    x->t.n_rows = 2;
    x->t.rows = x->list;
    x->t.has_label_names = x->t.has_labels = true;
    x->t.label_names = wire_text("worker,class");
    x->t.labels =
        (ProtobufCBinaryData){sizeof labels, (uint8_t *)(uintptr_t)labels};
    x->t.values = x->values;
    x->t.n_values = sizeof x->values / sizeof x->values[0];
    x->values[0] = 5;
    x->values[1 + N_HISTOGRAM] = 6;
    x->values[2 + N_HISTOGRAM] = 3; /* the first bucket of the second */
    x->values[1 + 2 * N_HISTOGRAM] = 250;
    x->tables[0] = &x->t;
    x->r.m.n_tables = 1;
    x->r.m.tables = x->tables;
}

static void tables_are_printed_by_series(void **state)
{
    struct tabled x;
    char *text;

    (void)state;
    tabled_init(&x);
    text = printed(&x.r);
    assert_non_null(strstr(
        text, "# TYPE sluice_router_calls_total counter\n"
              "sluice_router_calls_total{worker=\"w1\",class=\"blocks\"} 5\n"
              "sluice_router_calls_total{worker=\"w\\\\x1b[2\\\"\","
              "class=\"slots\"} 6\n"));
    assert_non_null(strstr(text, "class=\"slots\",le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(text, "class=\"slots\"} 0.000250\n"));
    free(text);
}

static void json_has_an_array_of_series(void **state)
{
    struct tabled x;
    json_t *j, *one;

    (void)state;
    tabled_init(&x);
    j = metrics_reply_json(&x.r.m);
    assert_int_equal(json_array_size(json_object_get(j, "calls")), 2);
    one = json_array_get(json_object_get(j, "calls"), 1);
    assert_string_equal(json_string_value(json_object_get(one, "class")),
                        "slots");
    assert_int_equal(json_integer_value(json_object_get(one, "value")), 6);
    one = json_array_get(json_object_get(j, "step"), 1);
    one = json_object_get(one, "value");
    assert_int_equal(json_integer_value(json_object_get(one, "count")), 3);
    assert_int_equal(json_integer_value(json_object_get(one, "sum_us")), 250);
    one = json_object_get(one, "buckets");
    assert_int_equal(json_integer_value(json_object_get(one, "0.0001")), 3);
    json_decref(j);
}

static void spoil_nothing(struct tabled *x)
{
    (void)x;
}
static void spoil_a_value(struct tabled *x)
{
    x->t.n_values--;
}
static void spoil_labels(struct tabled *x)
{
    x->t.labels.len--; /* the last one is not ended */
}
static void spoil_label_names(struct tabled *x)
{
    x->t.label_names = wire_text("worker,");
}
static void spoil_many_labels(struct tabled *x)
{
    x->t.label_names = wire_text("a,b,c,d,e");
}
static void spoil_a_name(struct tabled *x)
{
    x->rows[1].name = wire_text("a b");
}
static void spoil_a_kind(struct tabled *x)
{
    x->rows[1].kind = (Sluice__V1__MetricKind)77;
}
static void spoil_rows(struct tabled *x)
{
    x->t.n_rows = 0;
}
static void spoil_series(struct tabled *x)
{
    x->t.has_label_names = false; /* then there is one series */
}

static void a_table_that_does_not_fit_is_left_out(void **state)
{
    static void (*const spoil[])(struct tabled *) = {
        spoil_nothing,     spoil_a_value,     spoil_labels,
        spoil_label_names, spoil_many_labels, spoil_a_name,
        spoil_a_kind,      spoil_rows,        spoil_series,
    };

    (void)state;
    for (size_t i = 0; i < sizeof spoil / sizeof spoil[0]; i++) {
        struct tabled x;
        char *text;

        tabled_init(&x);
        spoil[i](&x);
        text = printed(&x.r);
        assert_int_equal(*text == '\0', i > 0);
        free(text);
        text = dumped(&x.r);
        assert_int_equal(strcmp(text, "{}") == 0, i > 0);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_printed_by_kind),
        cmocka_unit_test(json_has_each_value_by_name),
        cmocka_unit_test(names_that_prometheus_refuses_are_left_out),
        cmocka_unit_test(help_stays_on_its_line_and_is_no_terminal_command),
        cmocka_unit_test(tables_are_printed_by_series),
        cmocka_unit_test(json_has_an_array_of_series),
        cmocka_unit_test(a_table_that_does_not_fit_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
