/* figures.h - All metrics of the gateway: its own, and those of its HTTP
 * server.
 *
 * --list-metrics, the page /metrics and the log lines `counted` on exit come
 * from one table of sets, so they have the same rows.
 *
 * Threading: that of struct service.  Memory: nothing is kept. */
#ifndef GATEWAY_CALLS_FIGURES_H
#define GATEWAY_CALLS_FIGURES_H

#include "common/base/metric_page.h"
#include "gateway/calls/service.h"

/* Prints all rows for --list-metrics. */
void figures_list(FILE *to);

/* Adds all figures to a page; those with the names of tenants only with
 * tenants. */
void figures_page(struct service *c, bool tenants, struct metric_page *page);

/* Logs the figures that are not 0 under the event `counted`. */
void figures_log(struct service *c);

#endif
