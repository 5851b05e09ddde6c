/* Events of the prefix index.
 *
 * A snapshot walks over the entries of the table.  An entry behind the cursor
 * has been sent, so its changes are events; one at or after the cursor will be
 * sent as it is then.  Events that are due go out before the walk continues:
 * a prefix that went behind the cursor may have appeared again before it. */
#include "common/base/plant.h"
#include "worker/cache/prefix.h"
#include "worker/cache/prefix_state.h"

void prefix_events_clear(struct prefix *x)
{
    x->n_events = 0;
    x->snapshot = true;
    x->copying = false;
    x->cursor = 0;
}

void prefix_event(struct prefix *x, uint32_t node, bool appears)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t at;

    if (x->snapshot || (x->copying && node >= x->cursor)) {
        return;
    }
    if (PLANT(EVENT_LOST) && !appears && n->depth % 3 == 0) {
        return;
    }
    if (x->n_events == PREFIX_EVENTS_MAX) {
        prefix_events_clear(x);
        return;
    }
    at = (x->events_at + x->n_events++) % PREFIX_EVENTS_MAX;
    x->events[at] = (struct prefix_event){
        .hash = n->hash, .n_tokens = appears ? n->depth * PREFIX_UNIT : 0};
}

uint64_t prefix_digest(const struct prefix *x, uint32_t *n)
{
    uint64_t sum = 0;

    *n = 0;
    for (uint32_t i = 0; i < x->n_fresh; i++) {
        const struct prefix_node *node = &x->nodes[i];

        if (prefix_is_restorable(x, i)) {
            sum += prefix_hash_digest(node->hash, node->depth * PREFIX_UNIT);
            (*n)++;
        }
    }
    return sum;
}

static uint32_t copy_nodes(struct prefix *x, struct prefix_event *out,
                           uint32_t cap)
{
    uint32_t n = 0;

    for (; n < cap && x->cursor < x->n_fresh; x->cursor++) {
        const struct prefix_node *node = &x->nodes[x->cursor];

        if (prefix_is_restorable(x, x->cursor)) {
            out[n++] = (struct prefix_event){
                .hash = node->hash, .n_tokens = node->depth * PREFIX_UNIT};
        }
    }
    x->copying = x->cursor < x->n_fresh;
    return n;
}

uint64_t prefix_events(struct prefix *x, struct prefix_event *out, uint32_t cap,
                       uint32_t *n, bool *snapshot, bool *more)
{
    uint64_t first = x->next_event;

    *n = 0;
    *snapshot = x->snapshot;
    if (x->snapshot) {
        x->snapshot = false;
        x->copying = true;
    }
    while (x->n_events > 0 && *n < cap) {
        out[(*n)++] = x->events[x->events_at];
        x->events_at = (x->events_at + 1) % PREFIX_EVENTS_MAX;
        x->n_events--;
    }
    if (x->copying && *n < cap) {
        *n += copy_nodes(x, out + *n, cap - *n);
    }
    *more = x->copying;
    x->next_event += *n;
    return first;
}

/* Numbers go on: the receiver might otherwise take a later part of a snapshot
 * whose first part is lost for events that it waits for. */
void prefix_restart(struct prefix *x)
{
    prefix_events_clear(x);
}
