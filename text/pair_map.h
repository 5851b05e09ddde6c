/* pair_map.h - a hash table from two 32-bit numbers to two others.
 *
 * Filled once, then only read: merges (left, right) -> (rank, id), and the
 * edges of a trie (node, byte) -> (node, -).
 *
 * Threading: any number of readers after the last pair_map_put().
 * Memory: two slots of 16 bytes or more per pair, taken by pair_map_init(). */
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

/* Room for n pairs.  The seed keeps whoever writes a file from choosing its
 * collisions; derive it from the whole file.  False if memory is out. */
bool pair_map_init(struct pair_map *m, size_t n, uint64_t seed);
void pair_map_fini(struct pair_map *m);

/* False, and nothing changes, if (a, b) is there.  At most n pairs;
 * (UINT32_MAX, UINT32_MAX) is no key. */
bool pair_map_put(struct pair_map *m, uint32_t a, uint32_t b, uint32_t x,
                  uint32_t y);

/* The slot of (a, b), or NULL. */
const struct pair_slot *pair_map_get(const struct pair_map *m, uint32_t a,
                                     uint32_t b);

#endif
