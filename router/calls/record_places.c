/* record_places.c - The places of a recording, and what their steps cost. */
#include "common/base/minmax.h"
#include "router/calls/router_state.h"
#include "router/calls/tick.h"
#include "router/record/record.h"
#include "router/replicas/place.h"
#include "router/schedule/claims.h"

#define COSTS_US 250000 /* between two looks at them */

_Static_assert(ROUTER_WORKERS_MAX <= RECORD_PLACES, "places of a recording");

/* The account of a replica is that of its tightest stage. */
static struct record_place place_of(const struct worker *w)
{
    return (struct record_place){
        .session = w->peer->session,
        .name = w->peer->name,
        .model = w->model->name,
        .grows = member_of(w)->replica == NULL && w->peer->minor >= GROWS_MINOR,
        .block_tokens = w->shard.block_tokens,
        .block_pages = w->shard.pages_per_block,
        .slot_pages = w->shard.pages_per_slot,
        .pages = (uint32_t)min_u64(place_total(w, PAGES), UINT32_MAX),
        .slots = (uint32_t)min_u64(place_total(w, SLOTS), UINT32_MAX),
        .context = w->shard.context,
        .max_rows = w->shard.max_rows,
        .window_tokens = w->shard.window_tokens,
        .window_pages = w->shard.window_pages,
        .chunk_tokens = w->chunk_tokens};
}

/* The sum of sessions shows that a place came or went, without a list of
 * them: sessions are random numbers. */
void record_places(struct router_core *r)
{
    uint64_t sum = 0;

    if (r->base.options.recorder == NULL) {
        return;
    }
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];

        sum += worker_can_serve(w) ? w->peer->session : 0;
    }
    if (sum == r->recorded.sessions &&
        r->base.now_us < r->recorded.at_us + COSTS_US) {
        return;
    }
    r->recorded.sessions = sum;
    r->recorded.at_us = r->base.now_us;
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        if (worker_can_serve(r->fleet.workers[i])) {
            struct record_place p = place_of(r->fleet.workers[i]);

            record_place(r->base.options.recorder, r->base.now_us, &p);
        }
    }
    record_places_seen(r->base.options.recorder, r->base.now_us);
}
