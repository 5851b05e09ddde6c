#include "router/base/parts.h"

#include <stdlib.h>

/* Rounds up to where an object of any type may begin. */
static size_t aligned(size_t bytes)
{
    size_t align = _Alignof(max_align_t);

    return (bytes + align - 1) / align * align;
}

void *parts_alloc(const struct part_sizes *sizes, size_t bytes, size_t parts_at)
{
    size_t size = aligned(bytes);
    unsigned char *block;
    void **parts;

    for (int p = 0; p < PARTS; p++) {
        size += aligned(sizes->of[p]);
    }
    block = calloc(1, size);
    if (block == NULL) {
        return NULL;
    }
    parts = (void **)(void *)(block + parts_at);
    size = aligned(bytes);
    for (int p = 0; p < PARTS; p++) {
        parts[p] = sizes->of[p] > 0 ? block + size : NULL;
        size += aligned(sizes->of[p]);
    }
    return block;
}
