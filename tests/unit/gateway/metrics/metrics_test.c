/* The gateway's metrics: routes, codes, tenants and times. */
#include "gateway/metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/metric_page.h"
#include "tests/unit/cmocka.h"

/* Returns the page of m with a NUL, owned by the caller. */
static char *page_of(struct gateway_metrics *m)
{
    struct metric_page p = {.text = NULL};
    struct metric_series s[GATEWAY_SETS_N];

    gateway_metrics_series(m, s);
    for (size_t i = 0; i < GATEWAY_SETS_N; i++) {
        metric_page_add(&p, &s[i]);
    }
    p.text = realloc(p.text, p.n + 1);
    assert_non_null(p.text);
    p.text[p.n] = '\0';
    return p.text;
}

static bool has(struct gateway_metrics *m, const char *sample)
{
    char *text = page_of(m);
    bool found = strstr(text, sample) != NULL;

    free(text);
    return found;
}

static struct gateway_metrics m;

static int begin(void **state)
{
    (void)state;
    gateway_metrics_init(&m);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gateway_metrics_fini(&m);
    return 0;
}

static void answers_count_by_route_and_code(void **state)
{
    static const struct {
        int code;
        const char *label;
    } odd[] = {{299, "2xx"}, {399, "3xx"}, {418, "4xx"},   {599, "5xx"},
               {600, "5xx"}, {0, "5xx"},   {20000, "5xx"}, {-1, "5xx"}};
    char want[128];

    (void)state;
    gateway_metrics_http(&m, GATEWAY_ROUTE_CHAT, 200);
    gateway_metrics_http(&m, GATEWAY_ROUTE_CHAT, 200);
    gateway_metrics_http(&m, GATEWAY_ROUTE_OTHER, 404);
    assert_true(has(&m, "sluice_gateway_http_requests_total{"
                        "route=\"chat_completions\",code=\"200\"} 2\n"));
    assert_true(has(&m, "sluice_gateway_http_requests_total{route=\"other\","
                        "code=\"404\"} 1\n"));
    assert_false(has(&m, "route=\"models\""));
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        gateway_metrics_fini(&m);
        gateway_metrics_init(&m);
        gateway_metrics_http(&m, GATEWAY_ROUTE_MODELS, odd[i].code);
        snprintf(want, sizeof want, "route=\"models\",code=\"%s\"} 1\n",
                 odd[i].label);
        assert_true(has(&m, want));
    }
}

static void tenants_have_their_own_figures(void **state)
{
    (void)state;
    gateway_metrics_tenant(&m, "acme")->tenant_refused = 3;
    gateway_metrics_tenant(&m, NULL)->tenant_requests++;
    gateway_metrics_tenant(&m, "acme")->tenant_tokens += 5;
    assert_true(has(&m, "tenant_refused_total{tenant=\"acme\"} 3\n"));
    assert_true(has(&m, "tenant_tokens_total{tenant=\"acme\"} 5\n"));
    assert_true(has(&m, "tenant_requests_total{tenant=\"default\"} 1\n"));
}

static unsigned n_series(const char *name)
{
    char *text = page_of(&m);
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, name)) != NULL; at++) {
        n++;
    }
    free(text);
    return n;
}

/* A stranger's name makes no series; a served one has its own from then on. */
static void models_have_their_own_figures(void **state)
{
    (void)state;
    assert_true(has(&m, "model_requests_total{model=\"other\"} 0\n"));
    assert_false(has(&m, "model=\"default\""));
    gateway_metrics_model(&m, "stranger", false)->model_refused++;
    gateway_metrics_model(&m, "m", true)->model_requests++;
    gateway_metrics_model(&m, "m", false)->model_tokens += 7;
    assert_true(has(&m, "model_refused_total{model=\"other\"} 1\n"));
    assert_true(has(&m, "model_requests_total{model=\"m\"} 1\n"));
    assert_true(has(&m, "model_tokens_total{model=\"m\"} 7\n"));
    assert_false(has(&m, "stranger"));
}

/* 64 models have series, the next one is counted with the strangers. */
static void the_number_of_models_has_a_limit(void **state)
{
    char name[8];

    (void)state;
    for (unsigned i = 0; i < METRIC_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "m%u", i);
        gateway_metrics_model(&m, name, true)->model_requests++;
    }
    assert_true(has(&m, "model_requests_total{model=\"m63\"} 1\n"));
    assert_true(has(&m, "model_requests_total{model=\"other\"} 0\n"));
    gateway_metrics_model(&m, "m64", true)->model_requests++;
    assert_true(has(&m, "model_requests_total{model=\"other\"} 1\n"));
    assert_int_equal(n_series("model_requests_total{"), METRIC_NAMES_MAX + 1);
}

static void times_are_those_of_the_answer(void **state)
{
    struct gateway_model_counts *k = gateway_metrics_model(&m, "m", true);

    (void)state;
    gateway_metrics_times(&m, k, 1000, 3000, 13000, 6); /* 2 ms per token */
    gateway_metrics_times(&m, k, 1000, 3000, 3000, 1);  /* no second token */
    gateway_metrics_times(&m, k, 1000, 0, 2000, 0);     /* no token */
    assert_int_equal(m.counts.first_token.sum, 4000);
    assert_int_equal(metric_observed(&m.counts.first_token), 2);
    assert_int_equal(m.counts.token.sum, 2000);
    assert_int_equal(metric_observed(&m.counts.token), 1);
    assert_int_equal(m.counts.request.sum, 15000);
    assert_int_equal(metric_observed(&m.counts.request), 3);
    assert_int_equal(k->model_first_token.sum, 4000);
    assert_int_equal(k->model_token.sum, 2000);
    assert_int_equal(k->model_request.sum, 15000);
    assert_true(has(&m, "model_request_seconds_count{model=\"m\"} 3\n"));
}

/* Every name that is listed is on the page, and the other way round. */
static void the_page_has_every_row_that_is_listed(void **state)
{
    char *listed = NULL, *line, *text = page_of(&m), *rest;
    size_t bytes = 0, n = 0, n_types = 0;
    FILE *to = open_memstream(&listed, &bytes);

    (void)state;
    for (size_t i = 0; i < GATEWAY_SETS_N; i++) {
        metric_list(to, gateway_sets[i]);
    }
    fclose(to);
    for (line = strtok_r(listed, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char want[160], kind[16], name[100];

        assert_int_equal(sscanf(line, "%99s %15s", name, kind), 2);
        snprintf(want, sizeof want, "# TYPE %s %s\n", name, kind);
        assert_non_null(strstr(text, want));
        n++;
    }
    for (line = text; (line = strstr(line, "# TYPE ")) != NULL; line++) {
        n_types++;
    }
    assert_int_equal(n, n_types);
    free(listed);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_count_by_route_and_code, begin,
                                        end),
        cmocka_unit_test_setup_teardown(tenants_have_their_own_figures, begin,
                                        end),
        cmocka_unit_test_setup_teardown(models_have_their_own_figures, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_number_of_models_has_a_limit, begin,
                                        end),
        cmocka_unit_test_setup_teardown(times_are_those_of_the_answer, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_page_has_every_row_that_is_listed,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
