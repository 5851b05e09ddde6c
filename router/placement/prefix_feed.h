/* prefix_feed.h - Which worker can restore which prefixes: Index messages.
 *
 * Each model has a tree (prefix_tree.h).  The leader of a place sends changes
 * of its prefix index as numbered events, without gaps in a session:
 *
 *     (Hello) --> LISTENS --a number is missing--> WAITS
 *                    ^     forget, IndexSnapshot     |
 *                    +---------- snapshot -----------+
 *
 * A snapshot begins with a message that is marked: the router forgets the
 * worker's entries before it, and all that follow are events.  It is numbered
 * like other events, or from 1 again.  While the router waits for it, events
 * are dropped, and the worker counts as one that restores nothing.  The end of
 * the session forgets the worker's entries.
 *
 * The entries are hints: a worker that has evicted a prefix meanwhile computes
 * the prompt.  A false entry costs time, never a wrong token, because workers
 * compare tokens before they reuse memory.
 *
 * Threading: the core's thread only.  Memory: a tree while a worker of the
 * model is connected.  Limits: PREFIX_TREE_MAX
 * nodes per model. */
#ifndef ROUTER_PLACEMENT_PREFIX_FEED_H
#define ROUTER_PLACEMENT_PREFIX_FEED_H

#include "common/wire/prefix_hash.h"
#include "proto/registry.pb-c.h"
#include "router/fleet/workers.h"
#include "router/placement/prefix_tree.h"

struct placement;

#define PREFIX_BIT_NONE UINT32_MAX

/* The states of the picture above.  In WAITS and ASKED an event was lost, and
 * all are dropped to a snapshot.  ASKED: the snapshot was asked for. */
enum feed_state { FEED_LISTENS, FEED_WAITS, FEED_ASKED, FEED_STATES };

/* The events of a worker's prefix index. */
struct prefix_feed {
    enum feed_state state;
    uint64_t next;   /* number of the next event */
    uint32_t bit;    /* its number in the tree; PREFIX_BIT_NONE: none */
    uint64_t n_made; /* restorable positions that appeared, of its session */
};

/* The tree of a model, and the bits of its workers. */
struct prefix_model {
    const struct model *model;
    struct prefix_tree *tree;
    uint64_t bits;
};

struct prefix_feeds {
    struct prefix_key key; /* random, of this life of the router */
    struct prefix_model models[ROUTER_MODELS_MAX];
    uint32_t n_models;
};

/* Initialise f with a random key of hashes, and free all trees. */
void prefix_feeds_init(struct prefix_feeds *f, struct node_io *io);
void prefix_feeds_fini(struct prefix_feeds *f);

/* Initialises the feed of a new worker: the next event is 1. */
void prefix_feed_init(struct prefix_feed *feed);

/* Applies an Index message of w.  Returns ST_DATA_LOSS with a sentence in e if
 * the message violates the protocol: the session must end. */
MUST_CHECK enum status prefix_feed_receive(struct placement *x,
                                           struct worker *w,
                                           const Sluice__V1__IndexMessage *m,
                                           struct error *e);

/* Forgets w, whose session is over. */
void prefix_feed_close(struct placement *x, struct worker *w);

/* Returns the sum of prefix_hash_digest() over the prefixes that w has in the
 * tree of its model, for auditors.  *n: their number. */
uint64_t prefix_feed_digest(const struct placement *x, const struct worker *w,
                            uint32_t *n);

/* Returns the tree of m; NULL: no worker has sent events. */
struct prefix_tree *prefix_feed_tree(const struct placement *x,
                                     const struct model *m);

#endif
