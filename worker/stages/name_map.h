/* name_map.h - A map from 32-bit names, which another process chose, to 32-bit
 * values.
 *
 * Threading: the core's.  Memory: name_map_init() allocates; no other call
 * does.  Limits: `capacity` names. */
#ifndef WORKER_STAGES_NAME_MAP_H
#define WORKER_STAGES_NAME_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

struct name_entry {
    uint32_t name, value;
    bool used;
};

struct name_map {
    struct name_entry *entries; /* [mask + 1], linear probing */
    uint32_t mask, n, capacity;
};

/* Makes an empty map.  Returns false if memory runs out. */
MUST_CHECK bool name_map_init(struct name_map *m, uint32_t capacity);
/* Accepts a map of all zeros. */
void name_map_fini(struct name_map *m);
void name_map_clear(struct name_map *m);

/* Adds a name that is not in the map.  Returns false if the map is full. */
MUST_CHECK bool name_map_add(struct name_map *m, uint32_t name, uint32_t value);

/* Finds a name.  Returns false if it is not in the map; *value is then
 * unchanged. */
bool name_map_find(const struct name_map *m, uint32_t name, uint32_t *value);

/* Removes a name.  Returns false if it is not in the map. */
bool name_map_remove(struct name_map *m, uint32_t name);

#endif
