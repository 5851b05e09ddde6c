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
    x->outbox.n = 0;
    x->outbox.snapshot = true;
    x->outbox.copying = false;
    x->outbox.cursor = 0;
}

void prefix_event(struct prefix *x, uint32_t node, bool appears)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t at;

    if (x->outbox.snapshot || (x->outbox.copying && node >= x->outbox.cursor)) {
        return;
    }
    if (PLANT(EVENT_LOST) && !appears && n->depth % 3 == 0) {
        return;
    }
    if (x->outbox.n == PREFIX_EVENTS_MAX) {
        prefix_events_clear(x);
        return;
    }
    at = (x->outbox.at + x->outbox.n++) % PREFIX_EVENTS_MAX;
    x->outbox.events[at] = (struct prefix_event){
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

    for (; n < cap && x->outbox.cursor < x->n_fresh; x->outbox.cursor++) {
        const struct prefix_node *node = &x->nodes[x->outbox.cursor];

        if (prefix_is_restorable(x, x->outbox.cursor)) {
            out[n++] = (struct prefix_event){
                .hash = node->hash, .n_tokens = node->depth * PREFIX_UNIT};
        }
    }
    x->outbox.copying = x->outbox.cursor < x->n_fresh;
    return n;
}

uint64_t prefix_events(struct prefix *x, struct prefix_event *out, uint32_t cap,
                       uint32_t *n, bool *snapshot, bool *more)
{
    uint64_t first = x->outbox.next;

    *n = 0;
    *snapshot = x->outbox.snapshot;
    if (x->outbox.snapshot) {
        x->outbox.snapshot = false;
        x->outbox.copying = true;
    }
    while (x->outbox.n > 0 && *n < cap) {
        out[(*n)++] = x->outbox.events[x->outbox.at];
        x->outbox.at = (x->outbox.at + 1) % PREFIX_EVENTS_MAX;
        x->outbox.n--;
    }
    if (x->outbox.copying && *n < cap) {
        *n += copy_nodes(x, out + *n, cap - *n);
    }
    *more = x->outbox.copying;
    x->outbox.next += *n;
    return first;
}

/* Numbers go on: the receiver might otherwise take a later part of a snapshot
 * whose first part is lost for events that it waits for. */
void prefix_restart(struct prefix *x)
{
    prefix_events_clear(x);
}
