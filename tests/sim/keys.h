/* keys.h - Keys of the nodes, and strangers with keys.
 *
 * One seed in four has keys; an independent stream draws them.  Then every
 * connection proves the keys of both ends, as CURVE does.  In half of these
 * seeds all workers share one key, and are known as "pool/NAME".
 *
 *     names       no session has a name, a lineage or a role that its key does
 *                 not give
 *     strangers   have valid keys of their own, and try the name and lineage of
 *                 a node, a role that their key does not have, a Hello without
 *                 a key, and a Hello to a stage of an assembly.  No worker's
 *                 session, sequence or assembly changes
 *     removal     a key is removed while its sessions run: they end, and later
 *                 connections fail.  Then it is trusted again, or replaced by
 *                 another key of the same name
 *     edges       a stage connects with the key that Assemble names; another
 *                 key at that endpoint fails
 *
 * The rules for requests hold in these seeds too: a removal loses no token. */
#ifndef SIM_KEYS_H
#define SIM_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"
#include "proto/limits.h"
#include "tests/sim/network.h"
#include "tests/sim/options.h"
#include "tests/sim/rng.h"

struct sim;

#define KEYS_CONN    0x50000000u /* strangers' connections, up to CROWD_CONN */
#define SIM_KNOWN_AS (PEER_NAME_MAX + 1)
#define KEYS_NODES   (1 + SIM_WORKERS + SIM_CLIENTS + SIM_GATEWAYS)

struct keys {
    struct rng chance;
    /* By the node that the key is named after. */
    uint32_t generation[KEYS_NODES];
    bool removed[KEYS_NODES];

    /* The stranger that is there now, and the answer to its Hello. */
    bool stranger_keyed;
    struct identity stranger;
    uint32_t conn;
    bool answered;
    enum status answer;
};

/* ---- keys.c ---- */

void keys_init(struct sim *s);

/* Writes the name of a node at the router. */
void keys_known_as(const struct sim *s, uint32_t node, char out[SIM_KNOWN_AS]);

/* Returns the number that stands for the key of a node. */
uint32_t keys_of(const struct sim *s, uint32_t node);

/* Fills in the identity of a node's present key. */
void keys_make(const struct sim *s, uint32_t node, struct identity *out);

/* Implements node_io.identity. */
const struct identity *keys_identity(struct sim *s, uint32_t node,
                                     struct peer_id who);

/* Records the key with which a node connects to a stage; NULL: without. */
void keys_wanted(struct sim *s, struct peer_id who, const uint8_t *key);

/* Exchanges the keys of both ends of a connection.  Returns false if one is not
 * trusted, or the listener has another key than the wanted one. */
bool keys_admit(struct sim *s, struct conn *c);

/* Checks that the router's sessions have names, lineages and roles of their
 * keys. */
void keys_audit(struct sim *s);

/* Starts strangers and removals. */
void keys_start(struct sim *s);

/* ---- keys_strangers.c ---- */

/* Takes a frame that a node sends to a stranger. */
void keys_answered(struct sim *s, struct frame **f);
void keys_strangers_start(struct sim *s);

/* ---- keys_remove.c ---- */

void keys_remove_start(struct sim *s);
/* Trusts every key again: the faults are over. */
void keys_restore(struct sim *s);

#endif
