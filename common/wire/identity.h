/* identity.h - Roles and names that the key of a connection permits.
 *
 * A peer with a key has the name of its key.  Hello may add a part, so that
 * several processes can share a key:
 *
 *     key   name in Hello   name of the peer
 *     w1    w1              w1
 *     w1    gpu0            w1/gpu0
 *     none  gpu0            gpu0
 *
 * A key's name has no '/', so peers of two keys never have one name.  The same
 * holds for lineages.
 *
 * Threading: none.  Memory: the caller's.  Limits: PEER_NAME_MAX bytes for the
 * whole name. */
#ifndef COMMON_WIRE_IDENTITY_H
#define COMMON_WIRE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/status.h"
#include "common/wire/node_io.h"
#include "proto/limits.h"

/* Returns the identity of a connection; NULL without keys. */
const struct identity *identity_of(struct node_io *io, struct peer_id who);

/* Returns the name of a role for people, one of BY_*: "worker". */
const char *identity_role(uint8_t role);

/* Checks that the key permits a role, one of BY_*.  An administrator is also a
 * client.  id NULL permits every role.  Returns ST_PERMISSION_DENIED and a
 * sentence with the key and the role. */
MUST_CHECK enum status identity_check_role(const struct identity *id,
                                           uint8_t role, struct error *e);

/* Writes the name of a peer to out, from its key and `own` in its Hello.  id
 * NULL: `own` alone.  what: "name" or "lineage", for the sentence.  Returns
 * ST_INVALID_ARGUMENT if the whole is longer than PEER_NAME_MAX. */
MUST_CHECK enum status identity_name(const struct identity *id,
                                     ProtobufCBinaryData own, const char *what,
                                     char out[PEER_NAME_MAX + 1],
                                     struct error *e);

/* Returns whether id is the key of KEY_BYTES; false if id is NULL. */
bool identity_has_key(const struct identity *id, const uint8_t *key);

#endif
