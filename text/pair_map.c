#include "text/pair_map.h"

#include <assert.h>
#include <stdlib.h>

#define NO_KEY UINT64_MAX

static uint64_t key_of(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

/* MurmurHash3's finalizer: every bit of the key affects every bit of the
 * result. */
static size_t hash(const struct pair_map *m, uint64_t key)
{
    uint64_t h = key ^ m->seed;

    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDu;
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53u;
    return (size_t)(h ^ (h >> 33)) & m->mask;
}

/* Returns the slot of key, or the free slot where it would go.  At most half
 * of the slots are full, so probes stay short. */
static struct pair_slot *slot_of(const struct pair_map *m, uint64_t key)
{
    size_t i = hash(m, key);

    while (m->slots[i].key != key && m->slots[i].key != NO_KEY) {
        i = (i + 1) & m->mask;
    }
    return &m->slots[i];
}

bool pair_map_init(struct pair_map *m, size_t n, uint64_t seed)
{
    size_t size = 4;

    while (size < 2 * n) {
        size *= 2;
    }
    m->slots = malloc(size * sizeof *m->slots);
    if (m->slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        m->slots[i].key = NO_KEY;
    }
    m->mask = size - 1;
    m->room = n;
    m->seed = seed;
    return true;
}

void pair_map_fini(struct pair_map *m)
{
    free(m->slots);
    m->slots = NULL;
}

bool pair_map_put(struct pair_map *m, uint32_t a, uint32_t b, uint32_t x,
                  uint32_t y)
{
    uint64_t key = key_of(a, b);
    struct pair_slot *s = slot_of(m, key);

    assert(key != NO_KEY);
    if (s->key == key) {
        return false;
    }
    assert(m->room > 0);
    m->room--;
    *s = (struct pair_slot){key, x, y};
    return true;
}

const struct pair_slot *pair_map_get(const struct pair_map *m, uint32_t a,
                                     uint32_t b)
{
    uint64_t key = key_of(a, b);
    const struct pair_slot *s = slot_of(m, key);

    return s->key == key && key != NO_KEY ? s : NULL;
}
