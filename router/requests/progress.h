/* progress.h - Progress of sequences at their workers, judged by what the
 * router receives.
 *
 * A worker whose engine ticks, or which is idle, is alive (fleet/liveness.h).
 * It may still hold a sequence that it never plans, or whose rows it never
 * sends.  A sequence makes progress when new tokens, restored positions or a
 * resumption of it arrive.  Without progress it stalls
 *
 *     idle   if its place has had no plan and no tick for STALL_IDLE_US
 *     passed over
 *            if STALL_US have passed, and its place has completed twice the
 *            steps that everything there needs:
 *                STALL_STEPS + 2 * sum over its sequences of (2 + n / 64)
 *            where n is the most tokens of a sequence.  Each step with prompts
 *            computes 64 of their tokens at least, or as many as a step takes,
 *            or the end of one, and
 *            decoding sequences take turns (worker/plan/batcher.h).
 *
 * The session of a worker with a stalled sequence ends as that of a hung one.
 * Its sequences continue elsewhere.
 *
 * A step that ticks is neither idle nor completed: it may last.  Where
 * sequences are suspended, any may wait for their pages: they can stall at an
 * idle place only.  Delays of the machine extend STALL_IDLE_US as they extend
 * the limits of liveness.h.  A worker without an engine state is not judged.
 * At most HUNG_GAP_US between two ledgers count as idle.
 *
 * Threading: the core's thread only.  Memory: parts of the choice and of its
 * worker. */
#ifndef ROUTER_REQUESTS_PROGRESS_H
#define ROUTER_REQUESTS_PROGRESS_H

#include "router/requests/choice.h"

/* Adds choice, which was just granted, to the work of its place; and removes
 * it.  leave: before the choice loses its worker. */
void progress_enter(struct requests *r, struct choice *choice);
void progress_leave(struct choice *choice);

/* Notes that something new of choice has arrived. */
void progress_note(struct requests *r, struct choice *choice);

/* Judges the sequences of w, whose newest ledger has just been taken.  May end
 * the session of w.  A no-op for a worker that leads no place. */
void progress_look(struct requests *r, struct worker *w);

#endif
