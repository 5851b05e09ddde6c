/* merge_queue.h - Possible merges of a word, by rank, then by position.
 *
 * The queue is a heap of runs.  Pairs of one rank mostly arrive in the order
 * of their positions; they form a list of which only the first is in the
 * heap. A megabyte of one letter is thus one entry, walked in order.  A plain
 * heap of a million entries would miss the cache at every level.
 *
 *     push   O(1) after a run of the rank, else O(log entries)
 *     pop    O(log entries)
 *
 * Threading: one thread's.  Memory: 8 bytes per pair and 16 per run, grown as
 * needed and kept until merge_queue_fini(). */
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

/* The newest run of the ranks that share this slot. */
struct merge_run {
    uint32_t rank, epoch;
    uint32_t last; /* its last node; none once it was popped */
};

struct merge_queue {
    struct merge_entry *heap; /* [cap_heap] */
    struct merge_node *nodes; /* [cap_nodes] */
    size_t n_heap, cap_heap, cap_nodes;
    uint32_t n_nodes, free; /* nodes ever used; list of freed nodes */
    uint32_t epoch;
    uint64_t steps; /* pops, plus levels that entries moved; never reset */
    struct merge_run runs[MERGE_QUEUE_RUNS];
};

/* Resets the queue to empty.  Zeroed storage needs a reset before use. */
void merge_queue_reset(struct merge_queue *q);
void merge_queue_fini(struct merge_queue *q);

/* Pushes a pair.  Returns false if memory is exhausted. */
bool merge_queue_push(struct merge_queue *q, uint32_t rank, uint32_t pos);

/* Pops the first pair.  Returns false if there is none. */
bool merge_queue_pop(struct merge_queue *q, uint32_t *rank, uint32_t *pos);

#endif
