#include "gateway/http/slots.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#define FIRST_SLOTS 64

_Static_assert(SLOTS_MAX < (1 << SLOT_BITS) - 2,
               "no id is SLOT_NONE or SLOT_NONE - 1");

static uint32_t slot_of(uint32_t id)
{
    return id & ((1u << SLOT_BITS) - 1);
}

void slots_init(struct slots *s)
{
    *s = (struct slots){.first_free = SLOT_NONE};
}

void slots_fini(struct slots *s)
{
    free(s->rows);
    slots_init(s);
}

static bool grow(struct slots *s)
{
    uint32_t n = s->n == 0 ? FIRST_SLOTS : 2 * s->n;
    struct slot *rows;

    n = n > SLOTS_MAX ? SLOTS_MAX : n;
    rows = n == s->n ? NULL : realloc(s->rows, n * sizeof *rows);
    if (rows == NULL) {
        return false;
    }
    /* From the last to the first: low slots are used first, so that few
     * connections share few cache lines. */
    for (uint32_t i = n; i-- > s->n;) {
        rows[i] = (struct slot){.next = s->first_free};
        s->first_free = i;
    }
    s->rows = rows;
    s->n = n;
    return true;
}

uint32_t slots_add(struct slots *s, void *item)
{
    uint32_t i;

    if (s->first_free == SLOT_NONE && !grow(s)) {
        return SLOT_NONE;
    }
    i = s->first_free;
    s->first_free = s->rows[i].next;
    /* Generations wrap after 32,768 additions.  Events name things of the
     * present turn, which adds far fewer. */
    s->rows[i] =
        (struct slot){.item = item, .id = i | s->generation++ << SLOT_BITS};
    return s->rows[i].id;
}

void *slots_find(const struct slots *s, uint32_t id)
{
    uint32_t i = slot_of(id);

    return i < s->n && s->rows[i].id == id ? s->rows[i].item : NULL;
}

void slots_remove(struct slots *s, uint32_t id)
{
    uint32_t i = slot_of(id);

    assert(slots_find(s, id) != NULL);
    s->rows[i] = (struct slot){.next = s->first_free};
    s->first_free = i;
}
