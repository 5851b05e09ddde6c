/* intern.h - Arrays that grow within a budget, and tables of equal records.
 *
 * A record is found by its hash and a comparison of its owner.  Threading: as
 * the owner.  Memory: counted in struct arena_budget; a request beyond the
 * budget sets `failed`, which its owner tests at the end of an operation. */
#ifndef TEXT_GRAMMAR_INTERN_H
#define TEXT_GRAMMAR_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_budget {
    size_t bytes, max;
    bool failed;
};

/* Makes room for `need` items of `size` bytes in an array, [*cap], whose
 * pointer is at p.  Returns false, and sets failed, if memory or budget do not
 * suffice. */
bool arena_grow(struct arena_budget *b, void *p, uint32_t *cap, uint64_t need,
                size_t size);

struct intern_slot {
    uint32_t hash, id; /* id + 1; 0: free */
};

struct intern {
    struct intern_slot *slots; /* [cap], a power of two */
    uint32_t cap, n;
};

typedef bool intern_same_fn(const void *owner, uint32_t id, const void *key);

/* Returns the id of an equal record, or UINT32_MAX. */
uint32_t intern_find(const struct intern *t, uint64_t hash,
                     intern_same_fn *same, const void *owner, const void *key);

/* Adds an id that intern_find() did not find. */
bool intern_add(struct intern *t, struct arena_budget *b, uint64_t hash,
                uint32_t id);

/* A map from a number that is not 0 to a number. */
struct number_map {
    uint64_t *keys; /* [cap] */
    uint32_t *values;
    uint32_t cap, n, cap_values;
};

/* Sets *value, and returns whether key is there. */
bool number_map_get(const struct number_map *m, uint64_t key, uint32_t *value);
bool number_map_put(struct number_map *m, struct arena_budget *b, uint64_t key,
                    uint32_t value);

#endif
