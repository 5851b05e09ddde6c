/* engine_thread.h - The engine over worker/engine/forward.h: one thread that
 * runs plans one after the other.
 *
 * Plans and results pass through two rings of ENGINE_DEPTH_MAX under one lock.
 * The lock is held for a copy, and never while a plan runs.  A descriptor
 * becomes readable when a result waits, so that the core's loop can sleep.
 *
 * Threading: the core's thread calls engine_thread_new/free and the functions
 * of base/engine.h.  The engine's thread uses the forward pass until
 * engine_thread_free().  Memory: the forward pass is borrowed; nothing is
 * allocated after new. */
#ifndef WORKER_ENGINE_ENGINE_THREAD_H
#define WORKER_ENGINE_ENGINE_THREAD_H

#include "worker/base/engine.h"
#include "worker/engine/forward.h"

struct engine_thread;

/* Starts the engine.  depth: plans in flight, 1..ENGINE_DEPTH_MAX.  The forward
 * pass has its pool and, if it writes hidden states, room for depth + 1 plans:
 * the one polled last, and all in flight.  Returns ST_RESOURCE_EXHAUSTED if the
 * thread cannot start. */
MUST_CHECK enum status engine_thread_new(struct engine_thread **out,
                                         struct forward *forward,
                                         uint32_t depth, struct error *e);

/* Waits for the plan that runs, drops the others, and joins the thread. */
void engine_thread_free(struct engine_thread **t);

/* Returns the handle for the core. */
struct engine *engine_thread_engine(struct engine_thread *t);

/* Returns an eventfd that is readable while a result waits. */
int engine_thread_fd(const struct engine_thread *t);
/* Makes the descriptor unreadable until the next result. */
void engine_thread_quiet(struct engine_thread *t);

#endif
