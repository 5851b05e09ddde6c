/* prefixes.h - Which worker can restore which prefixes: Index messages, and the
 * prompts that are compared with them.
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
 * A prompt is hashed once per request, before its choices wait.  SipHash takes
 * about 1 ms per MB of ids, 250,000 tokens.  The match is kept with the hashes
 * while the tree stays the same.
 *
 * Threading: the core's thread only.  Memory: a tree while a worker of the
 * model is connected; 16 bytes per unit of a prompt.  Limits: PREFIX_TREE_MAX
 * nodes per model. */
#ifndef ROUTER_SCHEDULE_PREFIXES_H
#define ROUTER_SCHEDULE_PREFIXES_H

#include "common/wire/prefix_hash.h"
#include "proto/registry.pb-c.h"
#include "router/fleet/workers.h"
#include "router/schedule/prefix_tree.h"

struct queue_entry;
struct schedule;

/* The tree of a model, and the bits of its workers. */
struct prefix_model {
    const struct model *model;
    struct prefix_tree *tree;
    uint64_t bits;
};

struct prefixes {
    struct prefix_key key; /* random, of this life of the router */
    struct prefix_model models[ROUTER_MODELS_MAX];
    uint32_t n_models;
};

/* The hashes of a prompt, shared by the choices of its request. */
struct prefix_prompt {
    struct prefix_hash *units; /* [n_units]; NULL: it is not to be reused */
    uint32_t n_units;
    uint64_t version; /* version of the tree that gave depth; 0: none */
    uint32_t depth[PREFIX_TREE_WORKERS];
    uint64_t mate; /* session of the place that got a choice last; 0: none */
};

/* Initialise x with a random key of hashes, and free all trees. */
void prefixes_init(struct prefixes *x, struct node_io *io);
void prefixes_fini(struct prefixes *x);

/* Applies an Index message of w.  Returns ST_DATA_LOSS with a sentence in e if
 * the message violates the protocol: the session must end. */
MUST_CHECK enum status prefixes_receive(struct schedule *s, struct worker *w,
                                        const Sluice__V1__IndexMessage *m,
                                        struct error *e);

/* Forgets w, whose session is over. */
void prefixes_close(struct schedule *s, struct worker *w);

/* Returns the sum of prefix_hash_digest() over the prefixes that w has in the
 * tree of its model, for auditors.  *n: their number. */
uint64_t prefixes_digest(const struct schedule *s, const struct worker *w,
                         uint32_t *n);

/* Hashes the prompt ids[0, n) in a scope (prefix_hash.h) into *p, which is
 * zeroed; and frees its hashes. */
void prefix_prompt_init(struct prefix_prompt *p, const struct prefix_key *key,
                        ProtobufCBinaryData scope, const uint32_t *ids,
                        uint32_t n);
void prefix_prompt_fini(struct prefix_prompt *p);

/* Returns the tokens of the prompt of e that w could restore now: fewer than
 * the prompt has. */
uint32_t prefixes_restorable(struct schedule *s, const struct queue_entry *e,
                             const struct worker *w);

#endif
