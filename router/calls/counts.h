/* counts.h - the router's counters and gauges as they are now.
 *
 * Threading: the core's. */
#ifndef ROUTER_CALLS_COUNTS_H
#define ROUTER_CALLS_COUNTS_H

#include "router/base/metrics.h"

struct router_core;

/* Copies the metrics that the rooms count, and fills in the gauges that are
 * kept elsewhere: choices open, waiting and held early. */
void counts_take(const struct router_core *r, struct router_metrics *out);

#endif
