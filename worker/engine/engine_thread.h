/* engine_thread.h - the engine over worker/engine/forward.h: one thread that
 * runs plans, one after the other.
 *
 * Plans and results cross in two rings of ENGINE_DEPTH_MAX under one lock,
 * held for a copy and never while a plan runs.  A descriptor becomes readable
 * when a result waits, so that the core's loop can sleep.
 *
 * Threading: engine_thread_new/free and what engine.h lists belong to the
 * core's thread; forward is the engine's own until engine_thread_free().
 * Memory: the forward pass is borrowed; nothing is allocated after new. */
#ifndef WORKER_ENGINE_ENGINE_THREAD_H
#define WORKER_ENGINE_ENGINE_THREAD_H

#include "worker/base/engine.h"
#include "worker/engine/forward.h"

struct engine_thread;

/* depth is 1..ENGINE_DEPTH_MAX; the forward pass has its pool and, where it
 * gives hidden states, room for those of depth + 1 plans: the one that was
 * polled last, and all in flight. */
MUST_CHECK enum status engine_thread_new(struct engine_thread **out,
                                         struct forward *forward,
                                         uint32_t depth, struct error *e);

/* Lets the plan that runs come to its end, drops the rest, joins. */
void engine_thread_free(struct engine_thread **t);

struct engine *engine_thread_engine(struct engine_thread *t);

/* An eventfd; engine_thread_quiet() reads it. */
int engine_thread_fd(const struct engine_thread *t);
void engine_thread_quiet(struct engine_thread *t);

#endif
