/* tier.h - Figures of the host tier, for metrics and for the router.
 *
 *     used = waiting + kept + cached
 *
 * Threading: the core's.  Memory: none. */
#ifndef WORKER_SEQUENCES_TIER_H
#define WORKER_SEQUENCES_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/common.pb-c.h"

struct sequences;

/* Owners of the used pages: sequences that are suspended or about to resume,
 * kept sequences, the prefix index. */
struct tier_pages {
    uint32_t waiting, kept, cached;
};

struct tier_pages tier_pages(const struct sequences *q);

/* Bytes copied to the host tier and back since the start, by sequences and by
 * the index. */
uint64_t tier_bytes_out(const struct sequences *q);
uint64_t tier_bytes_in(const struct sequences *q);

/* Fills a message.  Returns false if this worker has no host tier, has
 * suspended no sequence and has computed nothing twice: then there is nothing
 * to report. */
bool tier_message(const struct sequences *q, Sluice__V1__HostTier *out);

#endif
