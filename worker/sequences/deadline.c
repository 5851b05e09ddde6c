#include "worker/sequences/deadline.h"

#include "common/base/minmax.h"
#include "common/base/plant.h"

void deadline_open(const struct sequences *q, struct sequence *s,
                   const Sluice__V1__SubmitRequest *m)
{
    s->deadline_us = m->deadline_ms > 0
                         ? base_now_us(q->base) + (int64_t)m->deadline_ms * 1000
                         : INT64_MAX;
}

void deadline_arm(struct sequences *q, struct sequence *s)
{
    /* The timer is the lease of one that has ended. */
    if (s->finish == FINISH_NONE && s->state != SEQUENCE_RECEIVING &&
        !PLANT(WORKER_DEADLINE_IGNORED)) {
        timer_set(&q->timers, &s->keep, s->deadline_us);
    }
}

int64_t deadline_late_us(const struct sequences *q)
{
    int64_t first_us = INT64_MAX, now_us = base_now_us(q->base);

    for (const struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (s->finish == FINISH_NONE && s->state != SEQUENCE_RECEIVING) {
            first_us = min_i64(first_us, s->deadline_us);
        }
    }
    return first_us < now_us ? now_us - first_us : 0;
}
