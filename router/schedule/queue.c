#include "router/schedule/queue.h"

#include "common/base/plant.h"
#include "router/schedule/bypass.h"
#include "router/schedule/fair.h"
#include "router/schedule/policy.h"
#include "router/schedule/predict.h"

static void queue_insert(struct schedule *s, struct queue_entry *e, bool again)
{
    struct list *before = s->policy->order(s, e, again);

    if (!again || !PLANT(REQUEUE_LOST)) {
        list_insert(before, &e->queue);
    }
    predict_entered(e);
    fair_entered(s, e);
    e->model->n_waiting++;
    s->n_waiting++;
}

void queue_add(struct schedule *s, struct queue_entry *e)
{
    length_groups_arrived(&scheduling_of(e->model)->lengths, e->tenant,
                          &e->group);
    queue_insert(s, e, false);
}

void queue_return(struct schedule *s, struct queue_entry *e)
{
    queue_insert(s, e, true);
}

void queue_remove(struct schedule *s, struct queue_entry *e)
{
    if (list_linked(&e->queue)) {
        list_remove(&e->queue);
        predict_left(e);
        fair_left(s, e);
        e->model->n_waiting--;
        s->n_waiting--;
        /* The next entry may fit where this one did not. */
        model_touch(s->fleet, e->model);
    }
}

static void walk(struct schedule *s, struct model *m)
{
    struct list *at = m->waiting.next;
    uint32_t n_aside = 0, n_skipped = 0;

    s->n_runs++;
    bypass_begin(s);
    while (at != &m->waiting) {
        struct queue_entry *e = LIST_OF(at, struct queue_entry, queue);
        struct worker *w;

        at = at->next;
        if (e->keeper == NULL && bypass_skips(s, e)) {
            if (++n_skipped == BYPASS_SKIP_MAX) {
                return;
            }
            continue;
        }
        w = s->policy->place(s, e);
        /* An entry without a place ends the walk, unless the policy lets
         * others go ahead of it. */
        if (w == NULL && n_aside < TRIALS_ASIDE_MAX &&
            s->policy->yields(s, e)) {
            n_aside++;
        } else if (w == NULL || s->events->grant(s->above, e, w) != ST_OK) {
            return;
        }
    }
}

void queue_run(struct schedule *s, struct model *m)
{
    walk(s, m);
    scheduling_of(m)->blocked = m->n_waiting > 0;
}
