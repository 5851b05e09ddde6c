/* offers.h - Workers that have no layers yet, and the assignment of layers to
 * them.
 *
 *     Hello {offer} --> free --Assign--> assigned --End OK, Goodbye--> gone
 *                        ^                  |
 *                        +-----refused------+
 *
 * A worker that refuses layers receives no others for ASSIGN_RETRY_US.  A
 * worker that does not answer Assign loses its session.
 *
 * Offers may become stages of one replica if they agree in the model, in the
 * costs of its layers, and in the number of stages.  router/replicas/deal.h
 * assigns the layers.  Two kinds of shards count as present:
 *
 *     waiting   staged workers in no replica that are not draining and may
 *               receive sequences (lineage.h)
 *     expected  shards that were assigned, or whose session ended, recently
 *
 * The router identifies an expected shard by its lineage and layers.  Workers
 * without a lineage of their own may share one on the same machine.  An
 * expectation ends in one of these ways:
 *
 *     - A shard of that lineage with those layers arrives.
 *     - An offer of that lineage arrives, or a shard of that lineage with
 *       layers that were not expected.  All expectations of the lineage end,
 *       because the worker may be any of them.
 *     - ASSIGN_US have passed since Assign, or RETURN_US since the session
 *       ended.
 *
 * A router that has just started deals no layers for gaps until RETURN_US have
 * passed, because shards may still come back.
 *
 * Threading: the core's.  Memory: one heap block per offer and per expectation.
 * Limits: OFFERS_MAX offers; EXPECTED_MAX expectations, a new one replaces the
 * oldest.  One deal considers the first STAGES_MAX offers. */
#ifndef ROUTER_REPLICAS_OFFERS_H
#define ROUTER_REPLICAS_OFFERS_H

#include "proto/admin.pb-c.h"
#include "proto/registry.pb-c.h"
#include "router/fleet/workers.h"
#include "router/replicas/replicas.h"

struct offer;

/* Initialises r->offers as empty.  r->base and r->fleet are set. */
void offers_init(struct replicas *r);

/* Frees all expectations.  No offer is left. */
void offers_fini(struct replicas *r);

/* Checks each field of a Hello's offer against its limit.  keyed: this router
 * has keys, so other hosts may be named.  Returns INVALID_ARGUMENT, and in *e
 * the first field that is wrong. */
MUST_CHECK enum status offer_check(const Sluice__V1__WorkerOffer *o, bool keyed,
                                   struct error *e);

/* The room's part of a session. */
struct session_offer {
    struct offer *offer; /* to take layers; NULL: none */
};

static inline struct session_offer *offer_of(const struct router_peer *p)
{
    return p->parts[PART_REPLICAS];
}

/* Adds the offer o of peer p, which offer_check() has accepted.  Sets
 * offer_of(p); the peer's name and lineage are set.  The caller has checked
 * OFFERS_MAX.  Returns false without memory. */
MUST_CHECK bool offer_open(struct replicas *r, struct router_peer *p,
                           const Sluice__V1__WorkerOffer *o);

/* Frees an offer whose session is over, and sets *o to NULL.  A no-op if *o is
 * NULL. */
void offer_close(struct replicas *r, struct offer **o);

/* Records that the worker has sent Goodbye: it leaves to load its layers, which
 * stay expected. */
void offer_leaves(struct offer *o);

/* Takes the worker's answer to Assign.  e is the reason if status is not OK;
 * DEADLINE_EXCEEDED ends the session. */
void offer_answered(struct replicas *r, struct offer *o, enum status status,
                    const struct error *e);

/* Lists offers by name, and workers that are loading layers by lineage, for
 * operators.  Returns the number of rows.  The rows point into r and are valid
 * until r changes. */
uint32_t offers_list(const struct replicas *r,
                     Sluice__V1__OfferRow rows[OFFERS_MAX]);

/* Ends the expectations that the new worker w fulfils. */
void offers_arrived(struct replicas *r, const struct worker *w);

/* Adds an expectation of RETURN_US for the shard of w, whose session is over.
 * Adds none if w has asked to leave, is back already, or the router stops.  w
 * must be staged. */
void offers_departed(struct replicas *r, const struct worker *w);

/* Deals layers again before this tick returns.  Call it when a worker is
 * readmitted, drained or undrained, because its shard may count or no longer
 * count. */
void offers_touch(struct replicas *r);

/* Returns whether layers could be dealt now, for auditors: false when all that
 * is due has run, because every change that allows a deal calls
 * offers_touch(). */
bool offers_undealt(const struct replicas *r);

#endif
