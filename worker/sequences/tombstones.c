#include "worker/sequences/tombstones.h"

#include <string.h>

#include "common/base/plant.h"

static struct tombstone *tombstone_at(struct tombstones *t, uint32_t i)
{
    return &t->ring[(t->first + i) % TOMBSTONES_MAX];
}

static bool tombstone_names(const struct tombstone *t,
                            const struct sequence_key *key)
{
    return t->key.choice == key->choice &&
           memcmp(t->key.request_id, key->request_id, sizeof key->request_id) ==
               0;
}

/* The search is linear: tombstones are rare, and only a Submit looks for one.
 */
bool tombstones_take(struct tombstones *t, const struct sequence_key *key,
                     uint64_t grant)
{
    uint32_t i = 0;

    for (; i < t->n; i++) {
        const struct tombstone *x = tombstone_at(t, i);

        if (tombstone_names(x, key) &&
            (x->grant == grant || x->grant == GRANT_ANY ||
             PLANT(LATE_TOMBSTONE))) {
            break;
        }
    }
    if (i == t->n) {
        return false;
    }
    /* Later ones move down, so that the ring stays in order of age. */
    for (; i + 1 < t->n; i++) {
        *tombstone_at(t, i) = *tombstone_at(t, i + 1);
    }
    t->n--;
    return true;
}

void tombstones_add(struct tombstones *t, const struct sequence_key *key,
                    uint64_t grant)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct tombstone *x = tombstone_at(t, i);

        if (tombstone_names(x, key) && x->grant == grant) {
            return;
        }
    }
    /* The oldest one goes: its Submit is the least likely to come still. */
    if (t->n == TOMBSTONES_MAX) {
        t->first = (t->first + 1) % TOMBSTONES_MAX;
        t->n--;
    }
    *tombstone_at(t, t->n++) = (struct tombstone){*key, grant};
}

void tombstones_clear(struct tombstones *t)
{
    t->first = t->n = 0;
}
