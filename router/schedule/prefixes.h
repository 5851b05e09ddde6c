/* prefixes.h - Prompts, compared with what workers can restore
 * (router/placement/prefix_feed.h).
 *
 * A prompt is hashed once per request, before its choices wait.  SipHash takes
 * about 1 ms per MB of ids, 250,000 tokens.  The match is kept with the hashes
 * while the tree stays the same.
 *
 * Threading: the core's thread only.  Memory: 16 bytes per unit of a prompt. */
#ifndef ROUTER_SCHEDULE_PREFIXES_H
#define ROUTER_SCHEDULE_PREFIXES_H

#include "common/wire/prefix_hash.h"
#include "proto/common.pb-c.h"
#include "router/fleet/workers.h"
#include "router/placement/prefix_tree.h"

struct queue_entry;
struct schedule;

/* The hashes of a prompt, shared by the choices of its request. */
struct prefix_prompt {
    struct prefix_hash *units; /* [n_units]; NULL: it is not to be reused */
    uint32_t n_units;
    uint64_t version; /* version of the tree that gave depth; 0: none */
    uint32_t depth[PREFIX_TREE_WORKERS];
    uint64_t mate; /* session of the place that got a choice last; 0: none */
};

/* Hashes the prompt ids[0, n) in a scope (prefix_hash.h) into *p, which is
 * zeroed; and frees its hashes.  Without memory there are none. */
void prefix_prompt_init(struct prefix_prompt *p, const struct prefix_key *key,
                        ProtobufCBinaryData scope, const uint32_t *ids,
                        uint32_t n);
void prefix_prompt_fini(struct prefix_prompt *p);

/* Returns the tokens of the prompt of e that w could restore now: fewer than
 * the prompt has. */
uint32_t prefixes_restorable(struct schedule *s, const struct queue_entry *e,
                             const struct worker *w);

#endif
