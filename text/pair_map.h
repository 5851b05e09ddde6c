/* pair_map.h - A hash table from two 32-bit numbers to two others.
 *
 * Filled once, then only read: merges (left, right) -> (rank, id), and the
 * edges of a trie (node, byte) -> (node, -).
 *
 * Threading: any number of readers after the last pair_map_put().  Memory: at
 * least two slots of 16 bytes per pair, allocated by pair_map_init(). */
#ifndef TEXT_PAIR_MAP_H
#define TEXT_PAIR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pair_slot {
    uint64_t key;
    uint32_t x, y;
};

struct pair_map {
    struct pair_slot *slots;
    size_t mask;
    size_t room; /* pairs that may still be put */
    uint64_t seed;
};

/* Makes room for n pairs.  The seed keeps the author of a file from choosing
 * collisions; derive it from the whole file.  Returns false if memory is
 * exhausted. */
bool pair_map_init(struct pair_map *m, size_t n, uint64_t seed);
void pair_map_fini(struct pair_map *m);

/* Puts a pair.  Returns false, and changes nothing, if (a, b) exists.  At
 * most n pairs; (UINT32_MAX, UINT32_MAX) is no key. */
bool pair_map_put(struct pair_map *m, uint32_t a, uint32_t b, uint32_t x,
                  uint32_t y);

/* Gets the slot of (a, b), NULL if there is none. */
const struct pair_slot *pair_map_get(const struct pair_map *m, uint32_t a,
                                     uint32_t b);

#endif
