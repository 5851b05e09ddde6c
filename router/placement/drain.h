/* drain.h - Draining a worker: no new grants, and its sequences finish or move.
 *
 * A draining worker receives no new grants.  Its sequences may finish within
 * the grace period; after that, the router moves them to other workers.
 *
 *     OPEN --Drain, Leave--> draining --grace is over--> moving
 *      ^                        |                          |
 *      +------- Undrain --------+------ nothing left ------+--> drained
 *
 * This state is independent of the worker's state (workers.h): a draining
 * worker may be silent or lost.  It lasts until Undrain or the end of the
 * session, even if the caller of Drain disconnects.  Of several Drains, the
 * earliest end of grace counts.
 *
 * Moving: the router sends Cancel{CANCEL_MOVED}, waits for the receipt, and
 * requeues the sequence at its old position.  A sequence therefore never runs
 * on two workers at once, its worker is done with it when it is counted, and
 * the tokens of the step in progress are kept.  If the worker is lost
 * meanwhile, its sequences move as after any loss.  Moves during a drain do not
 * count against IDLE_MOVES_MAX.
 *
 * Exceptions:
 *
 *   - A sequence that no other worker could hold stays until it finishes,
 *     regardless of the grace period.  If the worker leaves, the sequence is
 *     moved all the same: without another worker of the model it waits for one
 *     (models.h); if there are others and none can ever hold it, it fails with
 *     an error that names the reason.
 *   - A kept sequence is kept until the end of the grace period.
 *   - A sequence that is ending has a receipt in flight, and the drain waits
 *     for that receipt.
 *
 * Draining a stage drains its replica (replica.h).  The other stages keep their
 * own drain state, and may be drained too.  The replica is open when none of
 * them drains; Undrain of any one undrains all.
 *
 * Threading: the core's thread only.  Memory: one heap block per call.  Limits:
 * DRAIN_CALLS_MAX calls per worker. */
#ifndef ROUTER_PLACEMENT_DRAIN_H
#define ROUTER_PLACEMENT_DRAIN_H

#include "router/fleet/pending.h"
#include "router/fleet/workers.h"

struct placement;

/* The drain of a worker, beside its state (workers.h). */
struct drain {
    int64_t move_us;     /* when the sequences that still run are moved */
    uint32_t n_stuck;    /* sequences that could not be moved; logged once */
    struct event due;    /* the end of the grace, or now: nothing is left */
    struct list waiting; /* struct drain_call */
};

/* Initialises the drain state of a new worker: not draining. */
void drain_init(struct placement *x, struct drain *d);

/* Drains w, or continues a drain that is under way.  The call of p is answered
 * at the end of the drain. leaving: p is the worker itself, which is
 * stopping. */
void drain_begin(struct placement *x, struct worker *w, struct router_peer *p,
                 uint64_t call, uint32_t grace_ms, bool leaving);

/* Ends the drain of w and of all other stages of its place: waiting calls end
 * with ST_ABORTED.  A stage that is leaving stays in its drain. */
void drain_end(struct placement *x, struct worker *w);

/* Closes the drain of w, whose session is over and whose sequences are gone:
 * answers its calls, or fails them if the router stops. */
void drain_close(struct placement *x, struct worker *w);

/* Checks all drains of m again: with one worker more, sequences that could not
 * be moved may now be. */
void drains_recheck(struct placement *x, const struct model *m);

/* Looks at the drain of w at the end of this turn: its last sequence has
 * gone. */
void drain_look(struct placement *x, struct worker *w);

/* Returns the drain state of w as ListWorkers names it; NULL: its place is not
 * drained. */
const char *drain_name(const struct worker *w);

#endif
