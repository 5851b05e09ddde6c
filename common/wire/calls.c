#include "common/wire/calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"

#define CALLS_MIN 8u

void calls_init(struct calls *cs)
{
    memset(cs, 0, sizeof *cs);
    cs->due_us = INT64_MAX;
}

void calls_fini(struct calls *cs)
{
    free(cs->entries);
    calls_init(cs);
}

/* Call numbers count up, so their low bits spread on their own.  A peer that
 * picks worse numbers makes a search walk PEER_CALLS_MAX entries at most. */
static uint32_t home(const struct calls *cs, uint64_t number)
{
    return (uint32_t)number & (cs->capacity - 1);
}

/* Returns where the number is, or the empty entry where it would go. */
static uint32_t probe(const struct calls *cs, uint64_t number)
{
    uint32_t i = home(cs, number);

    while (cs->entries[i].number != 0 && cs->entries[i].number != number) {
        i = (i + 1) & (cs->capacity - 1);
    }
    return i;
}

static bool has_room(const struct calls *cs, uint32_t capacity, uint32_t n)
{
    return n == 0 || 2 * (cs->n + n) <= capacity;
}

bool calls_reserve(struct calls *cs, uint32_t n)
{
    struct calls old = *cs;
    uint32_t capacity = max_u32(old.capacity, CALLS_MIN);
    struct call *entries;

    if (has_room(cs, old.capacity, n)) {
        return true;
    }
    while (!has_room(cs, capacity, n)) {
        capacity *= 2;
    }
    entries = calloc(capacity, sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    cs->capacity = capacity;
    cs->entries = entries;
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].number != 0) {
            cs->entries[probe(cs, old.entries[i].number)] = old.entries[i];
        }
    }
    free(old.entries);
    return true;
}

void calls_add(struct calls *cs, const struct call *c)
{
    uint32_t i;

    assert(c->number != 0 && has_room(cs, cs->capacity, 1));
    i = probe(cs, c->number);
    assert(cs->entries[i].number == 0);
    cs->entries[i] = *c;
    cs->n++;
    if (c->deadline_us < cs->due_us) {
        cs->due_us = c->deadline_us;
    }
}

const struct call *calls_find(const struct calls *cs, uint64_t number)
{
    const struct call *c;

    if (cs->n == 0 || number == 0) {
        return NULL;
    }
    c = &cs->entries[probe(cs, number)];
    return c->number == number ? c : NULL;
}

/* Closes the hole at i.  An entry after the hole moves up unless its home is
 * between the hole and the entry (Knuth, volume 3, section 6.4, algorithm R).
 * Tombstones are thus never needed. */
static void remove_at(struct calls *cs, uint32_t i)
{
    uint32_t mask = cs->capacity - 1;

    cs->n--;
    for (uint32_t j = (i + 1) & mask; cs->entries[j].number != 0;
         j = (j + 1) & mask) {
        uint32_t from_home = (j - home(cs, cs->entries[j].number)) & mask;

        if (from_home >= ((j - i) & mask)) {
            cs->entries[i] = cs->entries[j];
            i = j;
        }
    }
    cs->entries[i].number = 0;
    if (cs->n == 0) {
        cs->due_us = INT64_MAX;
    }
}

bool calls_take(struct calls *cs, uint64_t number, struct call *out)
{
    const struct call *c = calls_find(cs, number);

    if (c == NULL) {
        return false;
    }
    *out = *c;
    remove_at(cs, (uint32_t)(c - cs->entries));
    return true;
}

/* The earliest deadline is recomputed by the scan only; removing a call
 * leaves it too early, which costs one scan and never misses a deadline. */
bool calls_take_due(struct calls *cs, int64_t now_us, struct call *out)
{
    int64_t due = INT64_MAX;

    if (cs->due_us > now_us) {
        return false;
    }
    for (uint32_t i = 0; i < cs->capacity; i++) {
        const struct call *c = &cs->entries[i];

        if (c->number != 0 && c->deadline_us <= now_us) {
            *out = *c;
            remove_at(cs, i);
            return true;
        }
        if (c->number != 0 && c->deadline_us < due) {
            due = c->deadline_us;
        }
    }
    cs->due_us = due;
    return false;
}

bool calls_take_any(struct calls *cs, struct call *out)
{
    for (uint32_t i = 0; cs->n > 0 && i < cs->capacity; i++) {
        if (cs->entries[i].number != 0) {
            *out = cs->entries[i];
            remove_at(cs, i);
            return true;
        }
    }
    return false;
}
