/* quota.h - The tokens that the sequences of a tenant may occupy
 * (options.tenant_quota).
 *
 * A sequence occupies, from its arrival until its memory is free:
 *
 *     waits, runs   prompt + expected length of its output (length_groups.h);
 * with strict admission or a guarantee: prompt + max_tokens is kept prompt +
 * output, until its memory is asked for
 *
 * Rules:
 *
 *   - The sum over all sequences of a tenant, of all models, is its quota at
 *     most.  A request that would exceed it makes kept sequences of its tenant
 *     give way, the oldest first (router/requests/leases.h), or is refused.
 *   - A sequence is charged once.  One that becomes longer than expected is
 *     settled by suspension, and charged with its length when it is kept.
 *   - One that its client resumes had its place: it is charged, and never
 *     refused.  One that continues a kept sequence is charged beside it, until
 *     its worker has taken that over.
 *   - Cached prefixes are not charged.  They give way to every grant, and the
 *     worker bounds a tenant's share of them.
 *
 * Tenants past METRIC_NAMES_MAX share an account, and so do all requests
 * without a tenant.
 *
 * Threading: the core's thread only.  Memory: part of the schedule.  Cost: that
 * of one lengths_expect(). */
#ifndef ROUTER_SCHEDULE_QUOTA_H
#define ROUTER_SCHEDULE_QUOTA_H

#include "router/schedule/overload.h"

/* Returns the tokens that one choice of a occupies when it comes. */
uint64_t quota_tokens(const struct schedule *s, const struct arrival *a);

/* Returns by how many tokens the tenant would exceed its quota with n more; 0:
 * it would not, or there is no quota. */
uint64_t quota_excess(const struct schedule *s, uint32_t tenant, uint64_t n);

/* Checks that n tokens of a request of m fit the quota of its tenant.  Returns
 * ST_RESOURCE_EXHAUSTED with the figures if not, and sets *retry_ms to the time
 * after which to retry; 0: never. */
MUST_CHECK enum status quota_check(const struct schedule *s,
                                   const struct model *m, uint32_t tenant,
                                   uint64_t n, uint32_t *retry_ms,
                                   struct error *e);

/* Charges n tokens to the tenant of e in place of what e was charged. */
void quota_charge(struct schedule *s, struct queue_entry *e, uint64_t n);

#endif
