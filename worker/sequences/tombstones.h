/* tombstones.h - Cancels that overtook their Submit.
 *
 * A Cancel for a sequence that is not here yet leaves a tombstone; the Submit
 * that it names is refused when it comes.  Several Submits of one name may be
 * on their way, so a tombstone names a grant, or GRANT_ANY.
 *
 * Threading: the core's.  Memory: the caller's; all zeros is empty.  Limits:
 * TOMBSTONES_MAX; one more replaces the oldest. */
#ifndef WORKER_SEQUENCES_TOMBSTONES_H
#define WORKER_SEQUENCES_TOMBSTONES_H

#include "worker/base/options.h"
#include "worker/sequence/key.h"

#define GRANT_ANY UINT64_MAX /* the Cancel named no grant */

struct tombstone {
    struct sequence_key key;
    uint64_t grant;
};

struct tombstones {
    struct tombstone ring[TOMBSTONES_MAX];
    uint32_t first, n;
};

/* Adds a tombstone, unless there is an equal one. */
void tombstones_add(struct tombstones *t, const struct sequence_key *key,
                    uint64_t grant);

/* Removes the oldest tombstone for this Submit.  Returns false if there is
 * none. */
bool tombstones_take(struct tombstones *t, const struct sequence_key *key,
                     uint64_t grant);

void tombstones_clear(struct tombstones *t);

#endif
