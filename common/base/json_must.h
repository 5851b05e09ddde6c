/* json_must.h - Building JSON in programs that end without memory.
 *
 * Threading: none.  Memory: each function takes the reference to v; NULL, or no
 * memory, ends the program (memory_must()). */
#ifndef COMMON_BASE_JSON_MUST_H
#define COMMON_BASE_JSON_MUST_H

#include <jansson.h>

#include "common/base/memory.h"

static inline void json_must_set(json_t *object, const char *key, json_t *v)
{
    if (json_object_set_new(object, key, v) != 0) {
        (void)memory_must(NULL);
    }
}

#endif
