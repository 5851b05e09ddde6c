#include "worker/stages/name_map.h"

#include <stdlib.h>
#include <string.h>

bool name_map_init(struct name_map *m, uint32_t capacity)
{
    uint64_t n = 16;

    /* At most half full, so that probes are short. */
    while (n < 2 * (uint64_t)capacity) {
        n *= 2;
    }
    m->entries = calloc(n, sizeof *m->entries);
    m->mask = (uint32_t)(n - 1);
    m->n = 0;
    m->capacity = capacity;
    return m->entries != NULL;
}

void name_map_fini(struct name_map *m)
{
    free(m->entries);
    memset(m, 0, sizeof *m);
}

void name_map_clear(struct name_map *m)
{
    if (m->n > 0) {
        memset(m->entries, 0, ((size_t)m->mask + 1) * sizeof *m->entries);
        m->n = 0;
    }
}

/* Names are page numbers and indices, which the multiplier spreads. */
static uint32_t home(const struct name_map *m, uint32_t name)
{
    return (uint32_t)((name * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & m->mask;
}

/* Returns the entry of the name, or the free one where it would be. */
static uint32_t probe(const struct name_map *m, uint32_t name)
{
    uint32_t i = home(m, name);

    while (m->entries[i].used && m->entries[i].name != name) {
        i = (i + 1) & m->mask;
    }
    return i;
}

bool name_map_add(struct name_map *m, uint32_t name, uint32_t value)
{
    if (m->n == m->capacity) {
        return false;
    }
    m->entries[probe(m, name)] = (struct name_entry){name, value, true};
    m->n++;
    return true;
}

bool name_map_find(const struct name_map *m, uint32_t name, uint32_t *value)
{
    const struct name_entry *e = &m->entries[probe(m, name)];

    if (e->used) {
        *value = e->value;
    }
    return e->used;
}

bool name_map_remove(struct name_map *m, uint32_t name)
{
    uint32_t hole = probe(m, name), i = hole;

    if (!m->entries[hole].used) {
        return false;
    }
    m->n--;
    /* Entries behind the hole move up unless their home is behind it (Knuth,
     * algorithm 6.4R). */
    for (;;) {
        uint32_t at;

        m->entries[hole].used = false;
        do {
            i = (i + 1) & m->mask;
            if (!m->entries[i].used) {
                return true;
            }
            at = home(m, m->entries[i].name);
        } while (((i - at) & m->mask) < ((i - hole) & m->mask));
        m->entries[hole] = m->entries[i];
        hole = i;
    }
}
