#include "worker/sequences/publish.h"

#include <string.h>

#include "common/base/bytes.h"
#include "proto/registry.pb-c.h"
#include "worker/sequences/sequences.h"

/* Later stages publish nothing: the index of the leader stands for all. */
void publish_begin(struct sequences *q, const uint8_t *key)
{
    struct publish *b = &q->publish;

    b->on = key != NULL && q->base->o.reuse &&
            worker_options_role(&q->base->o) != ROLE_STAGE;
    b->sent_us = base_now_us(q->base) - PUBLISH_US; /* due at once */
    if (!b->on) {
        return;
    }
    /* The same router has the same key: then nothing is hashed anew. */
    if (!b->has_key || memcmp(b->key.bytes, key, PREFIX_KEY_BYTES) != 0) {
        memcpy(b->key.bytes, key, PREFIX_KEY_BYTES);
        b->has_key = true;
        prefix_set_key(q->reuse.index, &b->key);
    }
    prefix_restart(q->reuse.index);
}

void publish_restart(struct sequences *q)
{
    if (q->publish.on) {
        prefix_restart(q->reuse.index);
    }
}

/* Fills the columns with the next events; returns how many. */
static uint32_t fill(struct sequences *q, Sluice__V1__IndexMessage *m)
{
    struct publish *b = &q->publish;
    bool snapshot, more;
    uint32_t n;

    m->first = prefix_events(q->reuse.index, b->events, INDEX_EVENTS_MAX, &n,
                             &snapshot, &more);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *out = b->hashes + (size_t)i * PREFIX_HASH_BYTES;

        put_u64(out, b->events[i].hash.lo);
        put_u64(out + 8, b->events[i].hash.hi);
        b->tokens[i] = b->events[i].n_tokens;
    }
    m->has_snapshot = m->snapshot = snapshot;
    m->has_more = m->more = more;
    m->hashes = (ProtobufCBinaryData){(size_t)n * PREFIX_HASH_BYTES, b->hashes};
    m->n_tokens = n;
    m->tokens = b->tokens;
    return n;
}

int64_t publish_send(struct sequences *q, int64_t now_us)
{
    struct publish *b = &q->publish;
    struct peer *p = base_peer(q->base);
    Sluice__V1__IndexMessage m = SLUICE__V1__INDEX_MESSAGE__INIT;

    if (p == NULL || !b->on) {
        return NODE_IDLE;
    }
    if (now_us < b->sent_us + PUBLISH_US) {
        return b->sent_us + PUBLISH_US;
    }
    /* Without room the events wait; too many of them become a snapshot. */
    if (peer_room(p, LANE_CONTROL) < PUBLISH_ROOM) {
        return now_us + PUBLISH_US;
    }
    if (fill(q, &m) == 0 && !m.snapshot) {
        return NODE_IDLE;
    }
    b->sent_us = now_us;
    /* Events that were taken and not sent are lost here; a snapshot has them.
     */
    if (peer_oneway(p, METHOD_REGISTRY_INDEX, &m.base) != ST_OK) {
        prefix_restart(q->reuse.index);
    }
    return now_us + PUBLISH_US;
}
