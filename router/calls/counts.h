/* counts.h - The router's metrics as they are now, in the order of
 * --list-metrics.
 *
 * Threading: the core's.  Memory: struct counts is part of the core; its
 * families grow to the largest number of workers and tenants. */
#ifndef ROUTER_CALLS_COUNTS_H
#define ROUTER_CALLS_COUNTS_H

#include "common/base/metric_family.h"
#include "common/wire/node_io.h"
#include "router/base/metrics.h"

#define COUNTS_SETS 12 /* the first is router_metrics */

struct router_core;

struct counts {
    struct router_metrics metrics;
    struct router_denials denials[DENIED_NR];
    struct metric_family models, workers, refusals, tenants, pools, growth,
        lengths, drafts, host;
};

/* The sets of rows. */
extern const struct metric_set *const counts_sets[COUNTS_SETS];

void counts_init(struct counts *c);
void counts_fini(struct counts *c);

/* Copies the metrics that the rooms count, and fills in the gauges that are
 * kept elsewhere: choices open, waiting and held early. */
void counts_take(const struct router_core *r, struct router_metrics *out);

/* Writes one line for a person, such as "3 workers, 12 sequences, 2 waiting,
 * 40 % of pages free", at most cap bytes with its NUL. */
void counts_line(const struct router_core *r, char *text, size_t cap);

/* Fills out with the series of all sets, borrowed until the next call. */
void counts_series(struct router_core *r,
                   struct metric_series out[COUNTS_SETS]);

#endif
