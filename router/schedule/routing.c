#include "router/schedule/routing.h"

#include "router/replicas/place.h"
#include "router/schedule/policy.h"

/* Pages are the one currency in which pools of another shape compare.  Where
 * a worker publishes none, its blocks and slots are priced in them. */
static uint64_t free_pages(const struct worker *w)
{
    const struct shard *shard = &w->shard;

    if (w->ledger.classes[PAGES].total > 0) {
        return worker_room(w, PAGES);
    }
    return worker_room(w, BLOCKS) *
               (shard->pages_per_block == 0 ? 1 : shard->pages_per_block) +
           worker_room(w, SLOTS) *
               (shard->pages_per_slot == 0 ? 1 : shard->pages_per_slot);
}

/* Of the stage that has fewest. */
static uint64_t spare(const struct worker *w)
{
    uint64_t least = free_pages(w);

    for (uint32_t i = 1; i < worker_n_stages(w); i++) {
        uint64_t n = free_pages(worker_stage(w, i));
        least = n < least ? n : least;
    }
    return least;
}

/* Most free pages first spreads load without any memory of past choices:
 * each grant lowers the room of its worker at once, before any ledger tells,
 * so a burst goes round instead of herding to whoever looked best.  Of equal
 * ones the oldest session wins, so the same events give the same choice. */
struct worker *routing_pick(struct schedule *s, const struct queue_entry *e)
{
    struct worker *best = NULL;
    uint64_t most = 0;

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        struct worker *w = s->fleet->workers[i];
        struct need need;

        if (w->model != e->model || !place_takes(w) || !place_readmitted(w) ||
            !trial_allows(s, w, e)) {
            continue;
        }
        need = place_need(w, e->n_tokens);
        if (e->n_tokens <= worker_context(w) && place_has_room(w, &need) &&
            (best == NULL || spare(w) > most) &&
            s->policy->admit(s, e, w, &need)) {
            best = w;
            most = spare(w);
        }
    }
    return best;
}
