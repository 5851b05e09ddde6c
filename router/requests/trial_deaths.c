#include "router/requests/trial_deaths.h"

#include "common/base/plant.h"
#include "router/placement/placement.h"
#include "router/replicas/replica.h"
#include "router/requests/choice.h"

/* Records the death of w and returns its bit.  The ring is full of older
 * deaths, so the bit is cleared in all sequences that had it for the death that
 * it replaces. */
static uint32_t record_death(struct requests *r, struct worker *w)
{
    uint32_t slot = trial_remember(r->placement, w);

    for (struct list *at = r->all_choices.next; at != &r->all_choices;
         at = at->next) {
        struct queue_entry *e = &LIST_OF(at, struct choice, all)->entry;

        if (e->model == w->model) {
            e->trial.aboard &= ~(1u << slot);
        }
    }
    return slot;
}

bool trial_death(struct requests *r, struct worker *w)
{
    const struct worker *place = worker_place(w);
    uint32_t slot = record_death(r, w);
    bool charged = false;

    if (place == NULL) {
        return false;
    }
    for (struct list *at = choices_of(place)->running.next;
         at != &choices_of(place)->running; at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, grant.running);
        bool tried = &choice->entry.trial == placement_of(place)->on_trial;

        if (PLANT(INNOCENT_CHARGED)) {
            tried = placement_of(place)->on_trial != NULL &&
                    at->next == &choices_of(place)->running;
        }
        /* A worker cannot die of ids that it has not received. */
        if (!choice_may_have_run(choice)) {
            continue;
        }
        /* Even a proven sequence took part: the death is no mercy for it. */
        choice->entry.trial.aboard |= 1u << slot;
        if (trial_proven(&choice->entry.trial, choice->out.n_generated)) {
            continue;
        }
        charged = charged || tried;
        if (choice->state == CHOICE_ENDING || choice->state == CHOICE_ENDED) {
            continue; /* it will not run again */
        }
        r->base->metrics.suspects += !trial_suspected(&choice->entry.trial);
        trial_count(r->placement, w, &choice->entry.trial, tried);
    }
    return charged;
}

void trial_alive(struct requests *r, uint64_t life)
{
    trial_forget(r->placement, life);
    for (struct list *at = r->all_choices.next; at != &r->all_choices;
         at = at->next) {
        trial_absolve(r->placement,
                      &LIST_OF(at, struct choice, all)->entry.trial, life);
    }
}
