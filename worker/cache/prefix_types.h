/* prefix_types.h - Options, results and figures of the prefix index
 * (worker/cache/prefix.h), for its callers and for its own files. */
#ifndef WORKER_CACHE_PREFIX_TYPES_H
#define WORKER_CACHE_PREFIX_TYPES_H

#include "common/wire/prefix_hash.h"
#include "worker/cache/host.h"
#include "worker/cache/pool.h"

#define PREFIX_TENANTS_MAX 1024
#define PREFIX_EVENTS_MAX  4096
/* Reservations that were taken back and are in a plan still, at most, that a
 * new reservation has to avoid. */
#define PREFIX_TAKEN_BACK_MAX 64
#define PREFIX_NONE           UINT32_MAX

struct prefix_options {
    uint32_t block_tokens;         /* divides PREFIX_UNIT */
    uint32_t n_nodes;              /* most nodes */
    bool has_blocks, has_states;   /* classes of the shard, or of any stage */
    uint32_t window, window_pages; /* positions of a window, and its tables; 0:
                                    * no window layer */
    float checkpoint_share;        /* most pages of the pool for checkpoints */
    float tenant_share; /* most cached pages of one tenant, of the pool, and of
                         * the host tier */
    struct host *host;  /* borrowed, with its pages; NULL: no host tier */
    bool on;            /* false: nothing is ever found or kept */
};

/* A restorable position that appeared or went. */
struct prefix_event {
    struct prefix_hash hash;
    uint32_t n_tokens; /* 0: it went */
};

struct prefix; /* prefix.c */

struct prefix_hit {
    uint32_t n_tokens;   /* a multiple of PREFIX_UNIT; 0: none */
    uint32_t node;       /* PREFIX_NONE: none */
    uint32_t checkpoint; /* first page; SLOT_NONE without linear layers, or: */
    uint32_t host;       /* the checkpoint's first host page; HOST_NONE: it is
                          * in the pool.  The chain stays until the next match */
    uint32_t n_pool;     /* positions that would be restored without the host
                          * tier; <= n_tokens */
    uint32_t branch;     /* positions whose blocks equal the prompt's, without a
                          * checkpoint: a branch point worth one; >= n_tokens */
};

/* The other stages of a replica (worker/stages/leader.c), which keep what this
 * index keeps; may be NULL. */
struct prefix_watch {
    void *self;
    /* Called by prefix_insert() for each new node, from the root on.  parent:
     * PREFIX_NONE for the first unit; end: the position after its last one. */
    void (*added)(void *self, uint32_t node, uint32_t parent, uint32_t end);
    /* Returns whether they can keep a unit that ends there of the sequence that
     * is inserted; may be NULL. */
    bool (*keeps)(void *self, uint32_t end);
    /* Called when a checkpoint is reserved. */
    void (*reserved)(void *self, uint32_t checkpoint);
    /* Called before a node, a checkpoint, or both go: evicted, dropped,
     * forgotten, or a reservation taken back.  PREFIX_NONE, SLOT_NONE: none. */
    void (*gone)(void *self, uint32_t node, uint32_t checkpoint);
    /* Returns whether `need` fits into free pages of the other stages too.
     * prefix_make_room() and prefix_reserve() evict until it does. */
    bool (*fits)(void *self, const struct pool_need *need);
};

struct prefix_figures {
    uint32_t n_nodes, n_checkpoints, n_tenants;
    uint64_t lookups, hits, hit_tokens, prompt_tokens;
    uint64_t inserted, evicted, evicted_checkpoints;
    uint64_t at_quota; /* additions for which a tenant had to evict its own */
    /* Pages copied to the host tier, copied back, and dropped there. */
    uint64_t host_out, host_in, host_dropped;
};

#endif
