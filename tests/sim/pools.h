/* pools.h - Rules for pools and prefix indexes.
 *
 * When the cluster is idle, the router has exactly what each index can
 * restore.  Then all indexes are cleared, and every page is free. */
#ifndef SIM_POOLS_H
#define SIM_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

/* Returns whether the router's entries are those of each index, and nothing is
 * left after the indexes were cleared; clears them once.  Otherwise *why. */
/* Checks that no tenant has more than its quota in the index of worker w. */
void pools_quotas(struct sim *s, uint32_t w);

bool pools_quiet(struct sim *s, char *why, size_t cap);

#endif
