/* route_metrics.c - /metrics. */
#include "gateway/calls/access.h"
#include "gateway/calls/figures.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"

void route_metrics(struct service *c, struct http_exchange *x,
                   struct tenant *tenant)
{
    struct metric_page page = {0};
    struct respond_headers h;
    struct http_answer a = {.status = 200, .content_type = METRIC_PAGE_TYPE};

    (void)tenant;
    figures_page(c, access_is_operator(c, x), &page);
    a.body = page.text;
    a.n = page.n;
    if (page.broken) {
        respond_memory(c, x);
    } else {
        respond_headers_init(&h, c, x);
        respond(c, x, &h, &a);
    }
    metric_page_fini(&page);
}
