/* rig_index.c - The router's copy of the index, from Index messages. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"

#define ENTRIES 16384

static uint64_t read64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static uint32_t find(const struct rig_index *x, struct prefix_hash h)
{
    uint32_t i = 0;

    while (i < x->n && !prefix_hash_same(x->events[i].hash, h)) {
        i++;
    }
    return i;
}

/* Events add only absent prefixes and remove only present ones, but for a
 * snapshot under way:
 * it may not have come to the position yet. */
static void apply(struct rig_index *x, struct prefix_hash h, uint32_t n_tokens,
                  bool exact)
{
    uint32_t i = find(x, h);

    assert_true(!exact || (i < x->n) == (n_tokens == 0));
    if (n_tokens > 0) {
        assert_in_range(i, 0, ENTRIES - 1);
        x->n += i == x->n;
        x->events[i] = (struct prefix_event){h, n_tokens};
    } else if (i < x->n) {
        x->events[i] = x->events[--x->n];
    }
}

void rig_index_hear(struct rig *r, const Sluice__V1__IndexMessage *m)
{
    struct rig_index *x = &r->index;
    bool exact = !x->copying && !m->snapshot;

    if (x->events == NULL) {
        x->events = malloc(ENTRIES * sizeof *x->events);
    }
    assert_false(r->keyless);
    assert_int_equal(m->hashes.len, m->n_tokens * PREFIX_HASH_BYTES);
    assert_in_range(m->n_tokens, 0, INDEX_EVENTS_MAX);
    if (m->snapshot) {
        x->n = 0;
        x->n_snapshots++;
    } else {
        assert_true(x->n_messages > 0 && m->first == x->next);
    }
    x->next = m->first + m->n_tokens;
    x->copying = m->more;
    x->n_messages++;
    for (size_t i = 0; i < m->n_tokens; i++) {
        const uint8_t *at = m->hashes.data + i * PREFIX_HASH_BYTES;

        assert_int_equal(m->tokens[i] % PREFIX_UNIT, 0);
        apply(x, (struct prefix_hash){read64(at), read64(at + 8)}, m->tokens[i],
              exact);
    }
}

uint32_t rig_index_find(const struct rig *r, const char *tenant,
                        const uint32_t *ids, uint32_t n)
{
    struct prefix_key key;
    struct prefix_hash h;
    uint32_t deepest = 0;

    memset(&key, r->key_byte, sizeof key);
    h = prefix_hash_root(&key, tenant, tenant != NULL ? strlen(tenant) : 0);
    for (uint32_t at = 0; at + PREFIX_UNIT <= n; at += PREFIX_UNIT) {
        uint32_t i;

        h = prefix_hash_next(&key, h, ids + at);
        i = find(&r->index, h);
        if (i < r->index.n) {
            deepest = at + PREFIX_UNIT;
            assert_int_equal(r->index.events[i].n_tokens, deepest);
        }
    }
    return deepest;
}

void rig_index_snapshot(struct rig *r)
{
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;

    assert_int_equal(
        peer_oneway(r->peer, METHOD_WORKER_INDEX_SNAPSHOT, &m.base), ST_OK);
}
