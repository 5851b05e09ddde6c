/* prefix_state.h - The parts of the prefix index (worker/cache/prefix.h), for
 * its own files.
 *
 *     prefix.c         match, insert, checkpoints: the calls of the core
 *     prefix_tree.c    nodes, tenants, hash table
 *     prefix_evict.c   keys, eviction
 *     prefix_events.c  events
 *     prefix_states.c  checkpoints and their reservations; window pages
 *     prefix_tier.c    copies in the host tier
 *
 * The pairing heaps (pairing.h) hold what may be evicted, the lowest key first.
 * A node is in the heap `leaf` of its tenant if the pool has its blocks and
 * none of a node below it, it has no checkpoint in the pool, and its blocks are
 * not held; it is in the heap `state` if it has a checkpoint in the pool.  All
 * other nodes cannot be evicted now.
 *
 * With a host tier, the parts of a node are in the pool, in the host tier, or
 * both: both have the same bits.
 *
 *     pool --evicted: copied out, unless a copy is there--> host
 *       ^                                                    |
 *       +--blocks: shared by a hit, or inserted again--------+--the oldest copy
 *                                                                goes: gone
 *
 * A checkpoint comes back to the slot of a sequence, not to the pool.  Below a
 * node `outside`, whose blocks only the host tier has, all nodes are so too.
 * Their copies are older than its own, so they go before it. */
#ifndef WORKER_CACHE_PREFIX_STATE_H
#define WORKER_CACHE_PREFIX_STATE_H

#include "worker/cache/host.h"
#include "worker/cache/pairing.h"
#include "worker/cache/prefix_types.h"

#define PREFIX_GRID_MIN 512 /* tokens between checkpoints on the grid */

enum prefix_heap {
    HEAP_LEAF,
    HEAP_STATE,
    HEAPS,
    HEAP_NONE = HEAPS,
    HEAP_ASIDE /* in the list `aside` */
};

struct prefix_node {
    struct prefix_hash hash;
    double stamp;                       /* the index's age at its last use */
    uint32_t parent, child, next, prev; /* tree; parent PREFIX_NONE: a tenant's
                                         * first unit */
    uint32_t chain;                     /* in the hash table */
    uint32_t depth;      /* units, from 1; 0: the entry is free */
    uint32_t checkpoint; /* first page; SLOT_NONE: none */
    uint32_t n_states;   /* checkpoints at the node and below, here or in the
                          * host tier */
    uint32_t n_inside;   /* children whose blocks the pool has */
    uint32_t mark;       /* the walk that it belongs to: not evicted by it */
    uint16_t tenant;
    uint8_t uses;      /* restored so often, at most USES_MAX */
    uint8_t n_held;    /* its blocks with references */
    uint8_t heap;      /* enum prefix_heap */
    uint8_t windows;   /* enum prefix_windows_use */
    bool hole;         /* prefix_set_hole() */
    uint8_t window_at; /* the first block of the unit that has window pages */
    bool outside;      /* its blocks are only in the host tier */
};

/* The parts of a node that go to the host tier. */
enum prefix_part { PART_BLOCKS, PART_STATE, PART_WINDOWS, PARTS };

/* A copy in the host tier, in the list of its tenant by use. */
struct prefix_copy {
    uint32_t first;      /* host page of its chain; HOST_NONE: no copy */
    uint32_t prev, next; /* older and newer; PREFIX_NONE: none */
    uint64_t stamp;
};

/* Window pages of a node. */
enum prefix_windows_use {
    WINDOWS_NONE,
    WINDOWS_LIVE,  /* a request may go on at the node, or soon below */
    WINDOWS_SPENT, /* only one that goes back needs them */
    WINDOWS_USES
};

struct prefix_link {
    uint32_t prev, next;
};

/* A scope: a tenant, or a tenant with a salt. */
struct prefix_tenant {
    char name[PREFIX_SCOPE_MAX];
    uint8_t n_name;
    struct prefix_hash root;
    uint32_t child; /* first of its first units */
    uint32_t chain;
    uint32_t n_nodes;
    uint32_t group;      /* in its tenant */
    uint32_t group_next; /* the next scope of the same tenant */
    uint64_t last_use;
    uint32_t heaps[HEAPS];
};

/* All scopes of a tenant, which share one quota: clients choose their salts. */
struct prefix_group {
    uint32_t first;    /* scope */
    uint32_t n_scopes; /* 0: the entry is free */
    uint32_t pages;
    uint32_t host_pages;     /* those of its copies in the host tier, */
    uint32_t oldest, newest; /* and their list; PREFIX_NONE: none */
};

/* The node that an array of ids was last inserted to: the next insertion of the
 * same sequence goes on there. */
struct prefix_memo {
    uint32_t root; /* the array's; PREFIX_NONE: none */
    uint32_t node; /* the entry may be another node by now */
};

#define PREFIX_MEMOS 4096 /* by root; a power of two */

/* Reservation of an extent. */
enum { RESERVED_NOT, RESERVED, RESERVED_TAKEN_BACK };

/* Pages of window layers that nodes have. */
struct prefix_windows {
    uint32_t unit;             /* pages of a node; 0: no such class */
    uint32_t units;            /* units that a window reaches at most */
    uint32_t *pages;           /* [n_nodes, unit] from window_at on */
    uint32_t *node_of;         /* [n_pages] node of an indexed page */
    struct prefix_link *links; /* [n_nodes] in the list of its use */
    struct prefix_link lists[WINDOWS_USES]; /* prev: the tail, next: the head;
                                             * the least recently used first */
};

/* Copies in the host tier. */
struct prefix_tier {
    struct host *host;          /* NULL: no host tier */
    struct prefix_copy *copies; /* [n_nodes, PARTS] */
    uint32_t n, most;           /* pages of all copies, most of a tenant's */
    uint32_t pinned;            /* the node that is about to be restored */
    uint64_t clock;
};

/* Tenants and their quotas. */
struct prefix_accounts {
    struct prefix_tenant *tenants; /* [PREFIX_TENANTS_MAX] */
    struct prefix_group *groups;   /* [PREFIX_TENANTS_MAX] */
    uint32_t *lowest[HEAPS];       /* [2 * PREFIX_TENANTS_MAX] a tournament of
                                    * the heaps' roots; [1]: the lowest */
    uint32_t n;                    /* entries in use are below */
    uint32_t *buckets;             /* [2 * PREFIX_TENANTS_MAX] */
};

/* Room for checkpoints. */
struct prefix_extents {
    uint8_t *reserved; /* [n_checkpoints] by page / checkpoint_pages */
    uint32_t n_reserved;
    uint32_t *numbers; /* [n_numbers] free checkpoints that are mere numbers */
    uint32_t n_numbers;
};

/* Changes that are still to be sent to the router. */
struct prefix_outbox {
    struct prefix_event *events; /* [PREFIX_EVENTS_MAX] ring */
    uint32_t at, n;
    uint64_t next;
    bool snapshot;   /* a snapshot is due */
    bool copying;    /* it has begun, and */
    uint32_t cursor; /* nodes below have been sent */
};

struct prefix {
    struct prefix_options o;
    struct pool *pool;
    struct prefix_key key;
    struct prefix_watch watch;
    uint32_t unit_blocks;      /* blocks of a node; 0: no such class */
    uint32_t checkpoint_pages; /* 0: checkpoints are mere numbers */
    uint32_t most_checkpoints; /* with those that are reserved */
    uint32_t most_pages;       /* a tenant's */

    struct prefix_node *nodes; /* [n_nodes] */
    struct pairing *heap;      /* [n_nodes] */
    uint32_t *tokens;          /* [n_nodes, PREFIX_UNIT] */
    uint32_t *blocks;          /* [n_nodes, unit_blocks] */
    uint32_t free_node;        /* list through chain */
    uint32_t n_fresh;          /* entries from here on were never used */
    uint32_t *buckets, mask;   /* hash table of nodes */
    uint32_t *node_of;         /* [n_pages] node of an indexed block */

    struct prefix_windows windows;
    struct prefix_tier tier;
    struct prefix_accounts accounts;
    uint64_t clock;
    struct prefix_memo *memos; /* [PREFIX_MEMOS] */
    bool hole;                 /* new nodes have it */

    struct prefix_extents extents;
    double age;     /* the highest key that was evicted */
    uint32_t walk;  /* the newest mark */
    uint32_t aside; /* list through heap[].next: not evicted by this walk */

    struct prefix_outbox outbox;
    struct prefix_figures figures;
};

/* ---- prefix_tree.c ---- */

static inline struct prefix_node *prefix_at(const struct prefix *x, uint32_t n)
{
    return &x->nodes[n];
}

static inline const uint32_t *prefix_tokens(const struct prefix *x, uint32_t n)
{
    return x->tokens + (size_t)n * PREFIX_UNIT;
}

static inline uint32_t *prefix_unit(const struct prefix *x, uint32_t n)
{
    return x->blocks + (size_t)n * x->unit_blocks;
}

/* Returns the account of the tenant whose scope it is. */
static inline struct prefix_group *prefix_group_of(const struct prefix *x,
                                                   uint32_t tenant)
{
    return &x->accounts.groups[x->accounts.tenants[tenant].group];
}

/* Adds the blocks of a node to the index, or removes them. */
void prefix_index_blocks(struct prefix *x, uint32_t node,
                         const uint32_t *blocks);
void prefix_unindex_blocks(struct prefix *x, uint32_t node);

/* Returns the node of these tokens below parent, PREFIX_NONE if there is none.
 * hash: that of the child. */
uint32_t prefix_child(const struct prefix *x, uint32_t tenant, uint32_t parent,
                      struct prefix_hash hash, const uint32_t *tokens);

/* Adds a node below parent with blocks[unit_blocks], which it indexes.  An
 * entry must be free. */
uint32_t prefix_add(struct prefix *x, uint32_t tenant, uint32_t parent,
                    struct prefix_hash hash, const uint32_t *tokens,
                    const uint32_t *blocks);
/* Removes a node without children. */
void prefix_remove(struct prefix *x, uint32_t node);
/* Removes a node and everything below it. */
void prefix_remove_tree(struct prefix *x, uint32_t node);
bool prefix_has_entry(const struct prefix *x);

/* Returns PREFIX_NONE if there is no such tenant, or no room for one. */
uint32_t prefix_tenant_find(struct prefix *x, const void *name, size_t n);
uint32_t prefix_tenant_make(struct prefix *x, const void *name, size_t n);

/* Hashes everything anew. */
void prefix_rehash(struct prefix *x);

void prefix_set_checkpoint(struct prefix *x, uint32_t node, uint32_t page);
/* Frees the checkpoint of a node, here and in the host tier. */
void prefix_drop_checkpoint(struct prefix *x, uint32_t node);

/* ---- prefix_tier.c ---- */

/* Allocates for x->o; false: out of memory. */
MUST_CHECK bool prefix_tier_init(struct prefix *x);
/* A new node has no copies. */
void prefix_tier_begin(struct prefix *x, uint32_t node);

bool prefix_has_copy(const struct prefix *x, uint32_t node,
                     enum prefix_part part);
/* Returns the first host page of a copy; HOST_NONE: there is none. */
uint32_t prefix_copy_at(const struct prefix *x, uint32_t node,
                        enum prefix_part part);
void prefix_drop_copy(struct prefix *x, uint32_t node, enum prefix_part part);
/* Drops the least recently used copy; false: there is none. */
bool prefix_tier_drop(struct prefix *x);

/* Frees the checkpoint, or the blocks, of a node in the pool.  The host tier
 * keeps them if it has room; otherwise what leads to nothing then leaves the
 * index.  dear: other copies may go for a checkpoint. */
void prefix_demote_state(struct prefix *x, uint32_t node, bool dear);
void prefix_demote(struct prefix *x, uint32_t node);
void prefix_demote_windows(struct prefix *x, uint32_t node);
/* The copies of a node are used. */
void prefix_use_copies(struct prefix *x, uint32_t node);
/* The pool has the blocks of an `outside` node again. */
void prefix_take_in(struct prefix *x, uint32_t node, const uint32_t *blocks);
/* Returns the units of the path down to node that are `outside`. */
uint32_t prefix_outside(const struct prefix *x, uint32_t node);

/* Returns whether the node has a checkpoint, here or in the host tier. */
static inline bool prefix_has_state(const struct prefix *x, uint32_t node)
{
    return x->nodes[node].checkpoint != SLOT_NONE ||
           prefix_has_copy(x, node, PART_STATE);
}

/* Returns whether the node has window pages, here or in the host tier. */
static inline bool prefix_has_windows(const struct prefix *x, uint32_t node)
{
    return x->nodes[node].windows != WINDOWS_NONE ||
           prefix_has_copy(x, node, PART_WINDOWS);
}

/* ---- restorable ---- */

/* Returns whether a prompt may go on at the node.  With window layers, nodes
 * above may lack what its window needs, which the events do not show. */
static inline bool prefix_is_restorable(const struct prefix *x, uint32_t node)
{
    const struct prefix_node *n = &x->nodes[node];

    return n->depth > 0 && (!x->o.has_states || prefix_has_state(x, node)) &&
           (x->windows.unit == 0 || prefix_has_windows(x, node));
}

/* ---- prefix_states.c: window pages ---- */

/* Allocates for x->o; false: out of memory.  prefix_windows_fini() accepts what
 * was never made. */
MUST_CHECK bool prefix_windows_init(struct prefix *x);
void prefix_windows_fini(struct prefix *x);

/* Returns the first block of the path down to the node from which on all have
 * window pages; above: the same for its parent.  UINT32_MAX: its last one has
 * none.  pool: pages in the host tier do not count. */
uint32_t prefix_windows_from(const struct prefix *x, uint32_t node,
                             uint32_t above, bool pool);
/* Returns the first block that a prompt needs window pages of to go on behind
 * `depth` units. */
uint32_t prefix_windows_need(const struct prefix *x, uint32_t depth);
/* Returns the window pages of a node in the pool. */
uint32_t prefix_windows_of(const struct prefix *x, uint32_t node);

/* A prompt goes on at the node: its window is used. */
void prefix_use_windows(struct prefix *x, uint32_t node);
/* Frees the window pages of a node, here and in the host tier, if it has any.
 */
void prefix_drop_windows(struct prefix *x, uint32_t node);
/* Takes its window pages out of the pool; their contents are elsewhere. */
void prefix_leave_windows(struct prefix *x, uint32_t node);
/* Returns the i-th of its window pages, in the pool. */
uint32_t prefix_window_page(const struct prefix *x, uint32_t node, uint32_t i);
/* Drops the window pages that were used longest ago, of nodes that are not
 * marked; false: there are none of that use. */
bool prefix_evict_windows(struct prefix *x, enum prefix_windows_use use);

/* ---- prefix_states.c: checkpoints ---- */

/* Frees a checkpoint that no node has. */
void prefix_give_state(struct prefix *x, uint32_t checkpoint);
/* Takes reservations back until the need has room. */
void prefix_take_back(struct prefix *x, const struct pool_need *need);

/* ---- prefix_evict.c ---- */

/* Puts the node into the heap where it belongs now, with a new key. */
void prefix_place(struct prefix *x, uint32_t node);
/* Takes the node out of its heap, if it is in one. */
void prefix_unplace(struct prefix *x, uint32_t node);
/* Counts a use of the node. */
void prefix_use(struct prefix *x, uint32_t node);
/* Marks the path to node for the walk that begins. */
void prefix_mark(struct prefix *x, uint32_t node);

/* Returns whether the pages of need are free, here and at the other stages. */
bool prefix_has_room(const struct prefix *x, const struct pool_need *need);

/* Each evicts, sparing what is marked, until there is room; they return false
 * if there is none.  The last one evicts only from the scopes of one tenant. */
bool prefix_free_pages(struct prefix *x, const struct pool_need *need);
bool prefix_free_entry(struct prefix *x);
bool prefix_free_state(struct prefix *x);
bool prefix_free_share(struct prefix *x, uint32_t tenant, uint32_t pages);

/* ---- prefix_events.c ---- */

/* The node is restorable from now on, or no longer. */
void prefix_event(struct prefix *x, uint32_t node, bool appears);
/* Forgets what is not sent; a snapshot is due. */
void prefix_events_clear(struct prefix *x);

#endif
