/* twins.h - The choices of one request, which have one prompt.
 *
 * The first one leads: it alone computes the prompt.  The others wait, and
 * when the leader's last prompt row is planned, each becomes a row without
 * tokens beside it, a twin:
 *
 *     leader   | prompt ...... | last row, sample
 *     twin     (waits)           same logits, its own sample
 *              after the plan: its slot is a copy of the leader's, full blocks
 *              are shared, the partly filled last one is copied
 *
 * A twin that does not fit into that plan waits until its result has come.
 * Then, or when the leader ends or fails, the first one that waits leads in its
 * place, and finds in the index what was computed.  A leader's place in the
 * prefill queue goes to its successor, so no other sequence loses its turn.
 *
 * Threading, memory: the batcher's. */
#ifndef WORKER_PLAN_TWINS_H
#define WORKER_PLAN_TWINS_H

#include "worker/plan/batcher.h"

/* Lets s wait for a sibling that computes its prompt.  Returns false if there
 * is none. */
MUST_CHECK bool twins_join(struct batcher *b, struct sequence *s);

/* Adds the twins of row i of the batch that is being made, which samples the
 * first token of `leader`.  Stops if the plan is full, or at b->stuck. */
void twins_add(struct batcher *b, struct batch *t, struct sequence *leader,
               uint32_t i);

/* Lets the twins that still wait for s go on without it. */
void twins_release(struct batcher *b, struct sequence *s);

/* Removes s from the twins of its leader, if it waits. */
void twins_leave(struct sequence *s);

#endif
