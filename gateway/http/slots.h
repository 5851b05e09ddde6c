/* slots.h - Numbers for things that come and go.
 *
 * An id is a slot and, above SLOT_BITS, a generation: events that name a thing
 * that is gone do not reach the next owner of its slot.
 *
 * Threading: none.  Memory: 16 bytes for each slot that was ever used.
 * Limits: SLOTS_MAX. */
#ifndef GATEWAY_HTTP_SLOTS_H
#define GATEWAY_HTTP_SLOTS_H

#include <stdint.h>

#include "gateway/http/http_limits.h"

#define SLOT_BITS 17
#define SLOTS_MAX (HTTP_CONNECTIONS_MOST + HTTP_HANDSHAKES_MAX)
#define SLOT_NONE UINT32_MAX /* never an id, nor is SLOT_NONE - 1 */

struct slot {
    void *item; /* NULL: free */
    uint32_t id;
    uint32_t next; /* free slot */
};

/* Start with slots_init(). */
struct slots {
    struct slot *rows; /* [n] */
    uint32_t n, first_free, generation;
};

void slots_init(struct slots *s);
/* Frees the table; the items are the caller's. */
void slots_fini(struct slots *s);

/* Adds an item, not NULL.  Returns its id, SLOT_NONE if there is no slot or no
 * memory. */
uint32_t slots_add(struct slots *s, void *item);

/* Returns the item, NULL if the id names none now. */
void *slots_find(const struct slots *s, uint32_t id);

/* Removes the item with this id, which is there. */
void slots_remove(struct slots *s, uint32_t id);

#endif
