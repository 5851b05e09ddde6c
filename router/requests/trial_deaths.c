#include "router/requests/trial_deaths.h"

#include "common/base/plant.h"
#include "router/replicas/replica.h"
#include "router/requests/choice.h"

/* The death's bit was that of an older one, which is forgotten. */
static uint32_t remember(struct requests *r, struct worker *w)
{
    uint32_t slot = trial_remember(r->schedule, w);

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
    uint32_t slot = remember(r, w);
    bool charged = false;

    if (place == NULL) {
        return false;
    }
    for (struct list *at = place->running.next; at != &place->running;
         at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, running);
        bool tried = &choice->entry == place->on_trial;

        if (PLANT(INNOCENT_CHARGED)) {
            tried = place->on_trial != NULL && at->next == &place->running;
        }
        if (!choice_may_have_run(choice)) {
            continue;
        }
        choice->entry.trial.aboard |= 1u << slot;
        if (trial_proven(&choice->entry, choice->n_generated)) {
            continue;
        }
        charged = charged || tried;
        if (choice->state == CHOICE_ENDING || choice->state == CHOICE_ENDED) {
            continue; /* nobody will run it again */
        }
        r->base->metrics.suspects += !choice->entry.trial.suspect;
        trial_count(r->schedule, w, &choice->entry, tried);
    }
    return charged;
}

void trial_alive(struct requests *r, uint64_t life)
{
    trial_forget(r->schedule, life);
    for (struct list *at = r->all_choices.next; at != &r->all_choices;
         at = at->next) {
        trial_absolve(r->schedule, &LIST_OF(at, struct choice, all)->entry,
                      life);
    }
}
