#include "text/merge_queue.h"

#include <stdlib.h>

#define NONE UINT32_MAX

void merge_queue_reset(struct merge_queue *q)
{
    q->n_heap = 0;
    q->n_nodes = 0;
    q->free = NONE;
    q->epoch++; /* makes all runs stale */
}

void merge_queue_fini(struct merge_queue *q)
{
    free(q->heap);
    free(q->nodes);
    q->heap = NULL;
    q->nodes = NULL;
    q->cap_heap = q->cap_nodes = 0;
}

/* --- nodes --------------------------------------------------------------- */

static bool nodes_grow(struct merge_queue *q)
{
    size_t cap = q->cap_nodes == 0 ? 64 : 2 * q->cap_nodes;
    struct merge_node *grown = realloc(q->nodes, cap * sizeof *grown);

    if (grown == NULL) {
        return false;
    }
    q->nodes = grown;
    q->cap_nodes = cap;
    return true;
}

static uint32_t node_take(struct merge_queue *q, uint32_t pos)
{
    uint32_t node = q->free;

    if (node != NONE) {
        q->free = q->nodes[node].next;
    } else {
        if (q->n_nodes == q->cap_nodes && !nodes_grow(q)) {
            return NONE;
        }
        node = q->n_nodes++;
    }
    q->nodes[node] = (struct merge_node){pos, NONE};
    return node;
}

static void node_give(struct merge_queue *q, uint32_t node)
{
    q->nodes[node].next = q->free;
    q->free = node;
}

/* --- heap ---------------------------------------------------------------- */

static bool heap_grow(struct merge_queue *q)
{
    size_t cap = q->cap_heap == 0 ? 64 : 2 * q->cap_heap;
    struct merge_entry *grown = realloc(q->heap, cap * sizeof *grown);

    if (grown == NULL) {
        return false;
    }
    q->heap = grown;
    q->cap_heap = cap;
    return true;
}

static bool heap_push(struct merge_queue *q, struct merge_entry entry)
{
    size_t i = q->n_heap;

    if (i == q->cap_heap && !heap_grow(q)) {
        return false;
    }
    q->n_heap++;
    /* .key > entry.key) {] Steps are counted for the tests, which check the
     * cost rather than the time. */
    while (i > 0 && q->heap[(i - 1) / 2].key > entry.key) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
        q->steps++;
    }
    q->heap[i] = entry;
    return true;
}

/* Replaces the top of the heap by entry. */
static void heap_replace(struct merge_queue *q, struct merge_entry entry)
{
    size_t i = 0, child;

    while ((child = 2 * i + 1) < q->n_heap) {
        if (child + 1 < q->n_heap &&
            q->heap[child + 1].key < q->heap[child].key) {
            child++;
        }
        if (q->heap[child].key >= entry.key) {
            break;
        }
        q->heap[i] = q->heap[child];
        i = child;
        q->steps++;
    }
    q->heap[i] = entry;
}

/* --- queue --------------------------------------------------------------- */

static struct merge_run *run_of(struct merge_queue *q, uint32_t rank)
{
    /* ;] Ranks that share a slot displace each other, which costs heap
     * entries but no correctness. */
    return &q->runs[rank % MERGE_QUEUE_RUNS];
}

static uint64_t key_of(uint32_t rank, uint32_t pos)
{
    return (uint64_t)rank << 32 | pos;
}

bool merge_queue_push(struct merge_queue *q, uint32_t rank, uint32_t pos)
{
    struct merge_run *run = run_of(q, rank);
    uint32_t node = node_take(q, pos);

    if (node == NONE) {
        return false;
    }
    /* Behind the run's last pair: the pair joins the list, and the heap does
     * not grow. */
    if (run->epoch == q->epoch && run->rank == rank && run->last != NONE &&
        q->nodes[run->last].pos < pos) {
        q->nodes[run->last].next = node;
        run->last = node;
        return true;
    }
    *run = (struct merge_run){rank, q->epoch, node};
    return heap_push(q, (struct merge_entry){key_of(rank, pos), node});
}

bool merge_queue_pop(struct merge_queue *q, uint32_t *rank, uint32_t *pos)
{
    struct merge_run *run;
    uint32_t node, next;

    if (q->n_heap == 0) {
        return false;
    }
    q->steps++;
    *rank = (uint32_t)(q->heap[0].key >> 32);
    *pos = (uint32_t)q->heap[0].key;
    node = q->heap[0].node;
    next = q->nodes[node].next;
    node_give(q, node);
    if (next != NONE) {
        heap_replace(
            q, (struct merge_entry){key_of(*rank, q->nodes[next].pos), next});
        return true;
    }
    run = run_of(q, *rank);
    /* The run is empty; a later pair of this rank must start a new one. */
    if (run->epoch == q->epoch && run->last == node) {
        run->last = NONE;
    }
    if (--q->n_heap > 0) {
        heap_replace(q, q->heap[q->n_heap]);
    }
    return true;
}
