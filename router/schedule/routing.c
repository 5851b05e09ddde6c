#include "router/schedule/routing.h"

#include "router/replicas/place.h"
#include "router/schedule/policy.h"

/* Pages are the only unit in which pools of different shapes compare.  For a
 * worker that publishes no pages, blocks and slots are converted by their sizes
 * in pages. */
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

/* Returns the free pages of the stage with the fewest: that stage limits the
 * whole place. */
static uint64_t tightest_free_pages(const struct worker *w)
{
    uint64_t least = free_pages(w);

    for (uint32_t i = 1; i < worker_n_stages(w); i++) {
        uint64_t n = free_pages(worker_stage(w, i));
        least = n < least ? n : least;
    }
    return least;
}

/* Choosing by most free pages spreads load without state of past choices.  Each
 * grant lowers the room of its worker at once, before the next ledger arrives,
 * so a burst is spread instead of all going to one worker.  Among equals the
 * oldest session wins, so that the same events always lead to the same
 * choice. */
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
        /* The policy is asked last: its headroom check walks all workers
         * again. */
        need = place_need(w, e->n_tokens);
        if (e->n_tokens <= worker_context(w) && place_has_room(w, &need) &&
            (best == NULL || tightest_free_pages(w) > most) &&
            s->policy->admit(s, e, w, &need)) {
            best = w;
            most = tightest_free_pages(w);
        }
    }
    return best;
}
