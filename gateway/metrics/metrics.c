#include "gateway/metrics/metrics.h"

#include <assert.h>
#include <string.h>

static const char *const routes[GATEWAY_ROUTES_N] = {
#define X(name, label) label,
    GATEWAY_ROUTES(X)
#undef X
};

/* The codes that the gateway answers with, and one series per class for any
 * other. */
static const struct {
    int code;
    const char *label;
} codes[GATEWAY_CODES_N] = {
    {200, "200"}, {204, "204"}, {304, "304"}, {400, "400"}, {401, "401"},
    {403, "403"}, {404, "404"}, {405, "405"}, {408, "408"}, {409, "409"},
    {411, "411"}, {413, "413"}, {414, "414"}, {415, "415"}, {417, "417"},
    {422, "422"}, {429, "429"}, {431, "431"}, {499, "499"}, {500, "500"},
    {501, "501"}, {502, "502"}, {503, "503"}, {504, "504"}, {529, "529"},
    {2, "2xx"},   {3, "3xx"},   {4, "4xx"},   {5, "5xx"},
};

const struct metric_set *const gateway_sets[GATEWAY_SETS_N] = {
    &gateway_counts_set, &gateway_http_counts_set, &gateway_model_counts_set,
    &gateway_tenant_counts_set};

void gateway_metrics_init(struct gateway_metrics *m)
{
    memset(m, 0, sizeof *m);
    metric_family_init(&m->http_family, &gateway_http_counts_set);
    metric_family_init(&m->model_family, &gateway_model_counts_set);
    metric_family_init(&m->tenant_family, &gateway_tenant_counts_set);
}

void gateway_metrics_fini(struct gateway_metrics *m)
{
    metric_family_fini(&m->http_family);
    metric_family_fini(&m->model_family);
    metric_family_fini(&m->tenant_family);
}

static size_t code_index(int code)
{
    for (size_t i = 0; code < 600 && i < GATEWAY_CODES_N; i++) {
        if (codes[i].code == code || codes[i].code == code / 100) {
            return i;
        }
    }
    return GATEWAY_CODES_N - 1;
}

void gateway_metrics_http(struct gateway_metrics *m, enum gateway_route route,
                          int code)
{
    assert(route < GATEWAY_ROUTES_N);
    m->http[route][code_index(code)]++;
}

struct gateway_model_counts *
gateway_metrics_model(struct gateway_metrics *m, const char *name, bool served)
{
    size_t n = strlen(name);

    return &m->models[served ? metric_slot(&m->model_names, name, n)
                             : metric_slot_of(&m->model_names, name, n)];
}

struct gateway_tenant_counts *gateway_metrics_tenant(struct gateway_metrics *m,
                                                     const char *tenant)
{
    size_t n = tenant != NULL ? strlen(tenant) : 0;

    return &m->tenants[metric_slot(&m->names, tenant, n)];
}

void gateway_metrics_times(struct gateway_metrics *m,
                           struct gateway_model_counts *model,
                           int64_t arrived_us, int64_t first_us,
                           int64_t ended_us, uint64_t n_generated)
{
    if (first_us != 0) {
        metric_time(&m->counts.first_token, first_us - arrived_us);
        metric_time(&model->model_first_token, first_us - arrived_us);
    }
    if (first_us != 0 && n_generated > 1) {
        int64_t us = (ended_us - first_us) / (int64_t)(n_generated - 1);

        metric_time(&m->counts.token, us);
        metric_time(&model->model_token, us);
    }
    metric_time(&m->counts.request, ended_us - arrived_us);
    metric_time(&model->model_request, ended_us - arrived_us);
}

/* A model without a name does not exist: "default" has series only if a model
 * of that name had requests. */
const char *gateway_route_name(enum gateway_route route)
{
    return routes[route];
}

static const char *model_name(const struct gateway_metrics *m, size_t slot)
{
    const struct gateway_model_counts *k = &m->models[slot];

    return slot == METRIC_DEFAULT && k->model_requests + k->model_refused == 0
               ? NULL
               : metric_slot_name(&m->model_names, slot);
}

static void gather(struct gateway_metrics *m)
{
    metric_family_clear(&m->http_family);
    for (size_t r = 0; r < GATEWAY_ROUTES_N; r++) {
        for (size_t c = 0; c < GATEWAY_CODES_N; c++) {
            const char *const labels[] = {routes[r], codes[c].label};

            if (m->http[r][c] > 0) {
                struct gateway_http_counts *k =
                    metric_family_add(&m->http_family, labels);

                k->http_requests = m->http[r][c];
            }
        }
    }
    metric_family_clear(&m->model_family);
    metric_family_clear(&m->tenant_family);
    for (size_t i = 0; i < METRIC_SLOTS; i++) {
        const char *name = metric_slot_name(&m->names, i);
        const char *model = model_name(m, i);

        if (model != NULL) {
            memcpy(metric_family_add(&m->model_family, &model), &m->models[i],
                   sizeof m->models[i]);
        }
        if (name != NULL) {
            memcpy(metric_family_add(&m->tenant_family, &name), &m->tenants[i],
                   sizeof m->tenants[i]);
        }
    }
}

void gateway_metrics_series(struct gateway_metrics *m,
                            struct metric_series s[GATEWAY_SETS_N])
{
    gather(m);
    s[0] = (struct metric_series){&gateway_counts_set, NULL, &m->counts, 1};
    metric_family_series(&m->http_family, &s[1]);
    metric_family_series(&m->model_family, &s[2]);
    metric_family_series(&m->tenant_family, &s[3]);
}
