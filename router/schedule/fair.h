/* fair.h - The order of a queue: fair among tenants, by cost, and by tier among
 * the entries of a tenant.
 *
 * Start-time fair queueing (Goyal, Vin, Cheng 1996).  Each entry e of tenant t
 * and tier k gets a start when it arrives, and moves the ends of its tier and
 * of those behind it:
 *
 *     start(e)  = max(clock of the queue, end(t, k), start(t, k))
 *     start(t, j) = max(start(t, j), start(e)),
 *     end(t, j)   = max(end(t, j), start(e)) + cost(e) / weight(t), for j >= k
 *     clock     = the largest start of an entry that was granted; when none
 *                 waits, the largest end
 *     cost(e)   = tokens of the prompt + expected length of the output
 *
 * Entries wait in order of start, then of tier, then of arrival.  Consequences:
 *
 *   - One tenant alone has a FIFO queue for each tier.
 *   - An entry waits for none of a later tier of its tenant that waits, and
 *     takes nothing from others: what its tenant gets is charged to the ends
 *     behind it.  Entries of the tenant that had their starts already keep
 *     them, so it may be ahead by what waited when the entry came, once.
 *   - While two tenants wait, the cost that they were granted, over weight,
 *     differs by at most one entry of each: a light tenant is not slowed by the
 *     backlog of a heavy one.
 *   - A tenant that used an idle cluster owes nothing later, since the clock
 *     then passes its end.
 *   - No entry starves: others are put before it only until their ends, which
 *     grow with their cost, pass its start.
 *
 * When a sequence ends, its length replaces the expected one in end(t).  An
 * entry that comes back keeps its start.
 *
 * A tenant is a slot of base.tenant_names: METRIC_NAMES_MAX names, and one that
 * all later ones share.  Weights come from options.weights.
 *
 * Threading: the core's thread only.  Memory: part of the model.  Cost: O(1)
 * for an entry that goes to the end, else the entries that it passes. */
#ifndef ROUTER_SCHEDULE_FAIR_H
#define ROUTER_SCHEDULE_FAIR_H

#include "router/schedule/schedule.h"

/* Gives e, which has just arrived, its start. */
void fair_arrived(const struct schedule *s, struct queue_entry *e);

/* Count e, which comes to the queue or leaves it, for its tenant. */
void fair_entered(const struct schedule *s, const struct queue_entry *e);
void fair_left(const struct schedule *s, const struct queue_entry *e);

/* Returns the entries of a tenant that wait for m. */
uint32_t fair_waiting(const struct model *m, uint32_t tenant);

/* Returns the share that a tenant has of n places in the queue of m, by weight
 * among the tenants that wait, itself among them. */
uint32_t fair_share(const struct schedule *s, const struct model *m,
                    uint32_t tenant, uint32_t n);

/* Returns the node in front of which e waits.  early: e is probably among the
 * first. */
struct list *fair_position(const struct queue_entry *e, bool early);

/* Returns true if e has started before the clock or at it, so that it is early.
 */
bool fair_is_early(const struct queue_entry *e);

/* Returns true if x waits before y. */
bool fair_before(const struct queue_entry *x, const struct queue_entry *y);

/* Returns the start of an entry of a tier of a tenant that arrives now. */
uint64_t fair_start(const struct model *m, uint32_t tenant,
                    enum fair_tier tier);

/* Returns the cost of the entries of m that wait and start before `start`, in
 * tokens, by the ends of their tenants.  It is no less than the true one while
 * lengths are as expected and no tier has passed another. */
uint64_t fair_ahead(const struct model *m, uint64_t start);

/* Moves the clock to e, which is granted. */
void fair_granted(struct queue_entry *e);

/* Charges the tokens that e used, which has ended, in place of its cost. */
void fair_ended(struct queue_entry *e, uint64_t n_used);

/* Returns true if the entries of m wait in order of start.  For auditors. */
bool fair_is_ordered(const struct model *m);

#endif
