/* intern.c - Growing arrays and open addressing. */
#include "text/grammar/intern.h"

#include <stdlib.h>
#include <string.h>

bool arena_grow(struct arena_budget *b, void *p, uint32_t *cap, uint64_t need,
                size_t size)
{
    uint64_t want = *cap == 0 ? 16 : *cap;
    size_t more;
    void *q;

    if (need <= *cap) {
        return true;
    }
    while (want < need) {
        want *= 2;
    }
    more = (size_t)(want - *cap) * size;
    memcpy(&q, p, sizeof q); /* the type of the pointer is its owner's */
    if (want > UINT32_MAX || b->bytes + more > b->max ||
        (q = realloc(q, (size_t)want * size)) == NULL) {
        b->failed = true;
        return false;
    }
    b->bytes += more;
    memset((char *)q + (size_t)*cap * size, 0, more);
    memcpy(p, &q, sizeof q);
    *cap = (uint32_t)want;
    return true;
}

uint32_t intern_find(const struct intern *t, uint64_t hash,
                     intern_same_fn *same, const void *owner, const void *key)
{
    uint32_t h = (uint32_t)(hash ^ hash >> 32), mask = t->cap - 1;

    if (t->cap == 0) {
        return UINT32_MAX;
    }
    for (uint32_t i = h & mask; t->slots[i].id != 0; i = (i + 1) & mask) {
        if (t->slots[i].hash == h && same(owner, t->slots[i].id - 1, key)) {
            return t->slots[i].id - 1;
        }
    }
    return UINT32_MAX;
}

static void place(struct intern_slot *slots, uint32_t mask,
                  struct intern_slot s)
{
    uint32_t i = s.hash & mask;

    while (slots[i].id != 0) {
        i = (i + 1) & mask;
    }
    slots[i] = s;
}

bool intern_add(struct intern *t, struct arena_budget *b, uint64_t hash,
                uint32_t id)
{
    struct intern_slot s = {(uint32_t)(hash ^ hash >> 32), id + 1};

    if (2 * (uint64_t)(t->n + 1) > t->cap) {
        struct intern_slot *slots = NULL;
        uint32_t cap = 0;

        if (!arena_grow(b, &slots, &cap,
                        t->cap == 0 ? 64 : 2 * (uint64_t)t->cap,
                        sizeof *slots)) {
            return false;
        }
        for (uint32_t i = 0; i < t->cap; i++) {
            if (t->slots[i].id != 0) {
                place(slots, cap - 1, t->slots[i]);
            }
        }
        free(t->slots);
        b->bytes -= t->cap * sizeof *slots;
        t->slots = slots;
        t->cap = cap;
    }
    place(t->slots, t->cap - 1, s);
    t->n++;
    return true;
}

/* ---- numbers ---- */

static uint32_t number_slot(const struct number_map *m, uint64_t key)
{
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    uint32_t i = (uint32_t)(h >> 32) & (m->cap - 1);

    while (m->keys[i] != 0 && m->keys[i] != key) {
        i = (i + 1) & (m->cap - 1);
    }
    return i;
}

bool number_map_get(const struct number_map *m, uint64_t key, uint32_t *value)
{
    uint32_t i;

    if (m->cap == 0) {
        return false;
    }
    i = number_slot(m, key);
    *value = m->values[i];
    return m->keys[i] == key;
}

static bool number_map_double(struct number_map *m, struct arena_budget *b)
{
    struct number_map to = {0};
    uint64_t cap = m->cap == 0 ? 1024 : 2 * (uint64_t)m->cap;

    if (!arena_grow(b, &to.keys, &to.cap, cap, sizeof *to.keys) ||
        !arena_grow(b, &to.values, &to.cap_values, cap, sizeof *to.values)) {
        free(to.keys);
        return false;
    }
    for (uint32_t i = 0; i < m->cap; i++) {
        if (m->keys[i] != 0) {
            uint32_t at = number_slot(&to, m->keys[i]);

            to.keys[at] = m->keys[i];
            to.values[at] = m->values[i];
        }
    }
    b->bytes -= m->cap * (sizeof *m->keys + sizeof *m->values);
    to.n = m->n;
    free(m->keys);
    free(m->values);
    *m = to;
    return true;
}

bool number_map_put(struct number_map *m, struct arena_budget *b, uint64_t key,
                    uint32_t value)
{
    uint32_t i;

    if (2 * (uint64_t)(m->n + 1) > m->cap && !number_map_double(m, b)) {
        return false;
    }
    i = number_slot(m, key);
    m->n += m->keys[i] == 0;
    m->keys[i] = key;
    m->values[i] = value;
    return true;
}
