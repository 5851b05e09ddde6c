/* watch.h - does the engine move?
 *
 *     moves     its ticks grew since they were last looked at, or no plan is
 *               in flight
 *     stands    they did not for ENGINE_STILL_US: no new session is begun, as
 *               nothing could be computed for it
 *     is dead   ... for ENGINE_DEAD_US: the worker ends
 *
 * Only time in which somebody looked counts, at most WATCH_GAP_US between two
 * looks: a process that was stopped whole, its engine with it, has no dead
 * engine.  However long a plan takes, an engine that ticks moves.
 *
 * Threading: the core's.  Memory: the caller's; all zeros is a watch that has
 * seen nothing. */
#ifndef WORKER_ENGINE_WATCH_H
#define WORKER_ENGINE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define ENGINE_STILL_US 1500000
#define ENGINE_DEAD_US  10000000
#define WATCH_LOOK_US   250000 /* between looks, while plans are in flight */
#define WATCH_GAP_US    500000

struct watch {
    uint64_t ticks;
    int64_t looked_us, still_us;
    bool planned; /* when it was last looked at */
};

/* ticks: the engine's progress; planned: are plans in flight? */
void watch_look(struct watch *w, uint64_t ticks, bool planned, int64_t now_us);

bool watch_stands(const struct watch *w);
bool watch_is_dead(const struct watch *w);

/* When to look again; INT64_MAX: no plan is in flight. */
int64_t watch_due(const struct watch *w);

#endif
