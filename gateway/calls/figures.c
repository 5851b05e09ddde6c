#include "gateway/calls/figures.h"

#include <string.h>

#include "gateway/calls/generation.h"
#include "gateway/http/http_metrics.h"

#define SETS_N (GATEWAY_SETS_N + 1) /* the HTTP server's is last */

void figures_list(FILE *to)
{
    for (size_t i = 0; i < GATEWAY_SETS_N; i++) {
        metric_list(to, gateway_sets[i]);
    }
    metric_list(to, &http_metrics_set);
}

/* Sets the gauges, which are counted when somebody looks. */
static void set_gauges(struct service *c)
{
    struct gateway_counts *m = &c->metrics->counts;

    m->streams_open = m->generations_open = 0;
    for (const struct list *l = c->generations.next; l != &c->generations;
         l = l->next) {
        const struct generation *g = LIST_OF(l, struct generation, node);

        m->streams_open += g->request->stream;
        m->generations_open += openai_request_choices(g->request);
    }
    m->router_sessions = upstream_sessions_up(c->upstream);
}

static void read_series(struct service *c, struct metric_series s[SETS_N])
{
    set_gauges(c);
    gateway_metrics_series(c->metrics, s);
    s[GATEWAY_SETS_N] = (struct metric_series){&http_metrics_set, NULL,
                                               http_server_metrics(c->http), 1};
}

static bool has_tenants(const struct metric_set *set)
{
    return set->labels != NULL && strstr(set->labels, "tenant") != NULL;
}

void figures_page(struct service *c, bool tenants, struct metric_page *page)
{
    struct metric_series s[SETS_N];

    read_series(c, s);
    for (size_t i = 0; i < SETS_N; i++) {
        if (tenants || !has_tenants(s[i].set)) {
            metric_page_add(page, &s[i]);
        }
    }
}

void figures_log(struct service *c)
{
    struct metric_series s[SETS_N];

    read_series(c, s);
    for (size_t i = 0; i < SETS_N; i++) {
        metric_log("counted", &s[i]);
    }
}
