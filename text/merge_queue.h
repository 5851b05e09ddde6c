/* merge_queue.h - the merges that a word can do, lowest rank first, leftmost
 * of equals first.
 *
 * A heap, but of runs: pairs of one rank mostly come in the order of their
 * positions, and those form a list of which the heap knows the first only.  A
 * megabyte of one letter is one entry, walked through in order; a plain heap
 * of a million entries would miss the cache at every level.
 *
 *     push   O(1) behind a run of the rank, else O(log entries)
 *     pop    O(log entries)
 *
 * Threading: one thread's.  Memory: 8 bytes per pair in it and 16 per run,
 * grown as needed and kept until merge_queue_fini(). */
#ifndef TEXT_MERGE_QUEUE_H
#define TEXT_MERGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MERGE_QUEUE_RUNS 512

struct merge_node {
    uint32_t pos, next;
};

struct merge_entry {
    uint64_t key; /* rank << 32 | position of its first node */
    uint32_t node;
};

/* The run that was begun last of the ranks that share this slot. */
struct merge_run {
    uint32_t rank, epoch;
    uint32_t last; /* its last node; none once that was popped */
};

struct merge_queue {
    struct merge_entry *heap; /* [cap_heap] */
    struct merge_node *nodes; /* [cap_nodes] */
    size_t n_heap, cap_heap, cap_nodes;
    uint32_t n_nodes, free; /* nodes ever used; list of those given back */
    uint32_t epoch;
    uint64_t steps; /* pops, and levels that entries moved; never reset */
    struct merge_run runs[MERGE_QUEUE_RUNS];
};

/* Zeroed storage, then reset, is an empty queue. */
void merge_queue_reset(struct merge_queue *q);
void merge_queue_fini(struct merge_queue *q);

/* False if memory is out. */
bool merge_queue_push(struct merge_queue *q, uint32_t rank, uint32_t pos);

/* Take the first; false if there is none. */
bool merge_queue_pop(struct merge_queue *q, uint32_t *rank, uint32_t *pos);

#endif
