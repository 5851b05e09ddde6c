/* tier.h - Figures of workers' host memory, and of tokens that they computed
 * twice (HostTier of proto/common.proto).
 *
 * The counts are of a worker's life.  A model's sums grow by the differences
 * between two ledgers, so a worker counts from its first ledger of a session
 * on.  A worker reports nothing while all is 0.
 *
 * Threading: the core's.  Memory: none. */
#ifndef ROUTER_FLEET_TIER_H
#define ROUTER_FLEET_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/common.pb-c.h"
#include "router/base/metrics.h"

struct tier {
    bool reported;
    uint32_t waiting, kept, cached; /* pages, by owner */
    struct router_host counts;
};

/* Reads a message that was checked; NULL: nothing was reported. */
struct tier tier_read(const Sluice__V1__HostTier *m);

/* Writes what was reported. */
void tier_write(const struct tier *t, Sluice__V1__HostTier *out);

/* Checks that the pages of l->host add up to l->host_used.  Returns `code` with
 * a sentence if they do not. */
MUST_CHECK enum status tier_pages_check(const Sluice__V1__Ledger *l,
                                        enum status code, struct error *e);

/* Checks a report that is newer than `had`: no count may have fallen.  Returns
 * ST_DATA_LOSS with a sentence that names the count. */
MUST_CHECK enum status tier_counts_check(const struct tier *had,
                                         const Sluice__V1__HostTier *m,
                                         struct error *e);

/* Lets *now follow *had, and adds to *sum what was counted between them; NULL:
 * *now is the first of its session. */
void tier_follow(struct tier *now, const struct tier *had,
                 struct router_host *sum);

#endif
