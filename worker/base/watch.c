#include "worker/base/watch.h"

void watch_look(struct engine_watch *w, uint64_t ticks, bool planned,
                int64_t now_us)
{
    int64_t gap = now_us - w->looked_us;

    /* A plan that was submitted since the last look starts with its full
     * time. */
    if (ticks != w->ticks || !planned || !w->planned) {
        w->still_us = 0;
    } else {
        w->still_us += gap < WATCH_GAP_US ? gap : WATCH_GAP_US;
    }
    w->ticks = ticks;
    w->planned = planned;
    w->looked_us = now_us;
}

bool watch_is_stalled(const struct engine_watch *w)
{
    return w->still_us >= ENGINE_STILL_US;
}

bool watch_is_dead(const struct engine_watch *w)
{
    return w->still_us >= ENGINE_DEAD_US;
}

int64_t watch_due(const struct engine_watch *w)
{
    return w->planned ? w->looked_us + WATCH_LOOK_US : INT64_MAX;
}
