/* memory.h - The part of a sequence that counts what it holds: pages of the
 * pool, and of the host tier.
 *
 *     granted     need
 *     taken       blocks, window blocks and slot; each block is its own, or
 *                 shared with other tables and the index
 *     reserved    checkpoints of decode, from free pages only
 *     away        a chain of host pages (worker/cache/host.h)
 *
 * Threading: the core's.  Memory: tables of numbers are in the slab of the
 * table (sequence.h). */
#ifndef WORKER_SEQUENCE_MEMORY_H
#define WORKER_SEQUENCE_MEMORY_H

#include <stdint.h>

#include "worker/cache/paged.h"
#include "worker/cache/pool.h"

struct sequence_memory {
    /* `need` is granted, taken or shared; n_blocks and slot are taken or
     * shared. */
    struct pool_need need;
    struct paged blocks; /* the block table, [n_blocks] in use: logical numbers,
                          * a reference for each */
    uint32_t n_blocks;
    /* Window blocks [window_first, window_first + n_windows), a ring of
     * window_room (windows.h): [window_room, pages] logical numbers, a
     * reference for each. */
    struct paged windows;
    uint32_t window_room, window_first, n_windows;
    uint32_t slot; /* SLOT_NONE: not taken */

    /* Reserved checkpoints of decode: the newest one and its position, and the
     * one that a plan in flight saves.  SLOT_NONE: there is none. */
    uint32_t rolling, rolling_at, rolling_next;

    uint32_t host;   /* first host page of its slot and blocks; HOST_NONE */
    uint32_t n_host; /* pages there: of the slot, then of the blocks, */
    uint32_t n_host_windows; /* then this many of the window blocks */
    uint32_t n_dropped;      /* blocks before those, which the index had */
};

#endif
