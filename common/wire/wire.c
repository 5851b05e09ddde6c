#include "common/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"

#define ARENA_ALIGN 16u

void *arena_take(struct arena *a, size_t bytes)
{
    size_t room = a->budget - a->used;
    size_t rounded = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    void *p;

    if (bytes > room || rounded > room) {
        a->exhausted = true;
        return NULL;
    }
    p = a->memory + a->used;
    a->used += rounded;
    return p;
}

void arena_init(struct arena *a)
{
    memset(a, 0, sizeof *a);
}

void arena_fini(struct arena *a)
{
    free(a->memory);
    arena_init(a);
}

void arena_reset(struct arena *a)
{
    a->used = 0;
    a->exhausted = false;
}

static size_t budget_of(size_t bytes)
{
    return 4 * bytes + ARENA_SLACK;
}

bool arena_reserve(struct arena *a, size_t bytes)
{
    size_t capacity = budget_of(bytes), grown = a->capacity + a->capacity / 2;
    uint8_t *memory;

    if (capacity <= a->capacity) {
        return true;
    }
    /* Frames that are each a little longer must not allocate each time. */
    capacity = capacity > grown ? capacity : grown;
    memory = malloc(capacity);
    if (memory == NULL) {
        return false;
    }
    free(a->memory); /* no message lives: nothing is copied */
    a->memory = memory;
    a->capacity = capacity;
    arena_reset(a);
    return true;
}

bool arena_begin(struct arena *a, size_t bytes)
{
    arena_reset(a);
    a->budget = 0;
    if (!arena_reserve(a, bytes)) {
        return false;
    }
    a->budget = budget_of(bytes);
    return true;
}

ProtobufCBinaryData wire_text(const char *s)
{
    /* protobuf-c has no const; packing only reads. */
    return (ProtobufCBinaryData){.len = strlen(s), .data = (uint8_t *)s};
}

bool wire_text_ok(ProtobufCBinaryData d, size_t min, size_t max)
{
    return d.len >= min && d.len <= max &&
           (d.len == 0 || (memchr(d.data, 0, d.len) == NULL &&
                           utf8_valid(d.data, d.len, NULL)));
}
