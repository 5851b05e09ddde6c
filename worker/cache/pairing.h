/* pairing.h - Pairing heaps (Fredman, Sedgewick, Sleator and Tarjan, 1986):
 * lowest key first.
 *
 * Many heaps share one array of entries, which are named by their index.  An
 * entry is in at most one heap.  A heap is the index of its lowest entry;
 * PAIRING_NONE: empty.
 *
 * An entry enters in constant time and leaves in logarithmic time, amortised,
 * from any place.
 *
 * Threading: the caller's.  Memory: the caller's array; nothing is
 * allocated. */
#ifndef WORKER_CACHE_PAIRING_H
#define WORKER_CACHE_PAIRING_H

#include <stdint.h>

#define PAIRING_NONE UINT32_MAX

struct pairing {
    double key;           /* must not change while the entry is in a heap */
    uint32_t child, next; /* the lists of children */
    uint32_t prev;        /* sibling before it, or parent of the first child */
};

/* Adds an entry that is in no heap, and has its key, to the heap root.  Returns
 * the heap's new root. */
uint32_t pairing_add(struct pairing *entries, uint32_t root, uint32_t entry);

/* Takes an entry out of the heap root, which it is in.  Returns the heap's new
 * root. */
uint32_t pairing_drop(struct pairing *entries, uint32_t root, uint32_t entry);

#endif
