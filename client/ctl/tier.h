/* tier.h - Host memory and tokens computed twice, for sluicectl workers and
 * sluicectl status.
 *
 * Threading: none.  Memory: the sums, in a struct of the caller. */
#ifndef CLIENT_CTL_TIER_H
#define CLIENT_CTL_TIER_H

#include <stdio.h>

#include <jansson.h>

#include "client/ctl/columns.h"
#include "proto/common.pb-c.h"

/* Sums over workers; all 0 is an empty sum. */
struct tier_sum {
    uint64_t n_workers; /* that reported something */
    uint64_t suspended_now;
    uint64_t total, used, waiting, kept, cached; /* pages of host memory */
    uint64_t bytes_out, bytes_in, restored_tokens;
    uint64_t n_suspended, n_swapped, n_recomputed;
    uint64_t wasted_suspended, wasted_failed, wasted_moved;
};

/* Adds a worker's ledger. */
void tier_add(struct tier_sum *sum, const Sluice__V1__Ledger *l);

/* Starts a table of workers, and adds a row if the ledger reports something. */
void tier_columns(struct columns *t);
void tier_row(struct columns *t, const char *worker,
              const Sluice__V1__Ledger *l);

/* Prints the lines of sluicectl status; nothing if no worker reported. */
void tier_print(const struct tier_sum *sum, FILE *to);

/* Returns the object `host` of sluicectl status --json. */
json_t *tier_json(const struct tier_sum *sum);

#endif
