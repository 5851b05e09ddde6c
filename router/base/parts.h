/* parts.h - Parts: what a room keeps in the objects of a room below.
 *
 * The fleet owns sessions, workers and models.  A room above that keeps
 * something of each worker has a part of the worker: zeroed memory in the
 * worker's block.  The room declares the type of its part and reads it through
 * its own accessor; the fleet never reads it.
 *
 *     room above, at its start:   sizes->of[PART_X] = sizeof(struct x);
 *     fleet, for each object:     parts_alloc(sizes, ..) --> object.parts[]
 *
 * Threading: the core's.  Memory: one heap block for an object with its parts;
 * free() of the object frees it.  Limits: PARTS parts. */
#ifndef ROUTER_BASE_PARTS_H
#define ROUTER_BASE_PARTS_H

#include <stddef.h>

/* The rooms with parts, from the lowest. */
enum room_part {
    PART_REPLICAS,
    PART_PLACEMENT,
    PART_SCHEDULE,
    PART_REQUESTS,
    PARTS
};

/* The bytes of the parts of one kind of object; 0: the room has none. */
struct part_sizes {
    size_t of[PARTS];
};

/* Allocates an object of `bytes` with its parts, zeroed.  parts_at: offset of
 * its array of void *[PARTS], which is set.  Returns NULL without memory. */
void *parts_alloc(const struct part_sizes *sizes, size_t bytes,
                  size_t parts_at);

#endif
