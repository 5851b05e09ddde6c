/* watch.h - Watchdog over the engine's progress.
 *
 *     moving    ticks grew since the last look, or no plan is in flight
 *     stalled   no tick for ENGINE_STILL_US: the worker opens no new session,
 *               because it could compute nothing for it
 *     dead      no tick for ENGINE_DEAD_US: the worker ends
 *
 * Only watched time counts, at most WATCH_GAP_US between two looks.  A process
 * that was suspended as a whole, with its engine, therefore finds no dead
 * engine when it resumes.  A plan may take any time as long as ticks grow.
 *
 * Threading: the core's.  Memory: the caller's; all zeros is the initial
 * state. */
#ifndef WORKER_BASE_WATCH_H
#define WORKER_BASE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define ENGINE_STILL_US 1500000
#define ENGINE_DEAD_US  10000000
#define WATCH_LOOK_US   250000 /* between looks while plans are in flight */
#define WATCH_GAP_US    500000

struct engine_watch {
    uint64_t ticks;
    int64_t looked_us, still_us;
    bool planned; /* plans were in flight at the last look */
};

/* Records a look.  ticks: the engine's progress; planned: plans are in
 * flight. */
void watch_look(struct engine_watch *w, uint64_t ticks, bool planned,
                int64_t now_us);

bool watch_is_stalled(const struct engine_watch *w);
bool watch_is_dead(const struct engine_watch *w);

/* Returns when to look again; INT64_MAX if no plan is in flight. */
int64_t watch_due(const struct engine_watch *w);

#endif
