/* offers.h - workers that have no layers yet, and who gets which.
 *
 *     Hello {offer} --> free --Assign--> assigned --End OK, Goodbye--> gone
 *                        ^                  |
 *                        +-----refused------+
 *
 * One that refuses is passed by for ASSIGN_RETRY_US, one that does not answer
 * loses its session.
 *
 * Offers that agree in the model, its costs, and how many stages it is to have
 * may be stages together: router/replicas/deal.h says who gets what.  What is
 * there counts first: shards that wait in no replica, not drained nor kept out
 * by their lineage, and those that are expected, because they were assigned
 * lately or were here a moment ago.
 *
 * Expected is known by lineage, which several without a name may share on one
 * machine.  A shard of that lineage and those layers takes its place; so does
 * an offer of that lineage, or a shard of others, of all that are expected of
 * it, for it may be any of them.  So does time, ASSIGN_US after Assign,
 * RETURN_US after a session that ended.  A router that has just begun waits
 * RETURN_US for what may come back before it fills gaps.
 *
 * Threading: the core's.  Memory: an offer or expectation on the heap each.
 * Limits: OFFERS_MAX; EXPECTED_MAX, the oldest goes; STAGES_MAX offers
 * are looked at at a time, the first that came. */
#ifndef ROUTER_REPLICAS_OFFERS_H
#define ROUTER_REPLICAS_OFFERS_H

#include "proto/admin.pb-c.h"
#include "proto/registry.pb-c.h"
#include "router/fleet/workers.h"
#include "router/replicas/replicas.h"

struct replicas;
struct offer;

/* init: nothing is here or expected. */
void offers_init(struct replicas *r);
void offers_fini(struct replicas *r);

/* Check the offer of a Hello field by field: a sentence on the first that is
 * wrong. */
MUST_CHECK enum status offer_check(const Sluice__V1__WorkerOffer *o,
                                   struct error *e);

/* o is checked, the peer's name is known. */
void offer_open(struct replicas *r, struct router_peer *p,
                const Sluice__V1__WorkerOffer *o);

/* Its session is over.  Frees. */
void offer_close(struct replicas *r, struct offer **o);

/* It says Goodbye: what it was assigned, it loads. */
void offer_leaves(struct offer *o);

/* It has answered Assign. */
void offer_answered(struct replicas *r, struct offer *o, enum status status,
                    const struct error *e);

/* What there is, for operators, and who loads its layers, by lineage: rows is
 * [OFFERS_MAX]; how many. */
uint32_t offers_list(const struct replicas *r,
                     Sluice__V1__OfferRow rows[OFFERS_MAX]);

/* A worker has come; the session of a staged one is over. */
void offers_arrived(struct replicas *r, const struct worker *w);
void offers_departed(struct replicas *r, const struct worker *w);

/* Shards may count that did not, or the other way round: one was let in, is
 * drained, or is drained no more.  Looks before the tick returns. */
void offers_touch(struct replicas *r);

#endif
