/* curve_keys.h - The CURVE key of this program, and the keys that it trusts.
 *
 *     --key FILE     this program's certificate with its secret key
 *     --trust DIR    public certificates, *.cert: each has a name and roles
 *
 * A certificate is a file of czmq's zcert (ZPL).  Its metadata are `name`, at
 * most KEY_NAME_MAX bytes of [A-Za-z0-9._-], and `role`, a comma-separated list
 * of router, worker, client and admin.  An admin is also a client.
 *
 * A connection proves its key, and the key gives its name and roles.  Names and
 * keys are unique in --trust: a second certificate of a name is accepted if its
 * name has a suffix of '+' and digits ("w1+2"), which is not part of the
 * identity.  Old and new keys of one program thus overlap during a rotation.
 *
 * Threading: one thread.  Memory: struct curve_keys on the heap; identities are
 * valid until the next curve_keys_reload().  Limits: CURVE_KEYS_MAX
 * certificates. */
#ifndef COMMON_WIRE_CURVE_KEYS_H
#define COMMON_WIRE_CURVE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/node_io.h"

#define CURVE_KEYS_MAX 4096

/* Rows for the option table of a program with keys. */
#define CURVE_KEYS_OPTIONS(X)                                                 \
    X(key, STRING, "FILE", NULL,                                              \
      "certificate with this program's secret key (sluicectl keygen); needs " \
      "--trust",                                                              \
      0, 0)                                                                   \
    X(trust, STRING, "DIR", NULL,                                             \
      "public certificates of the peers that are trusted, *.cert; needs "     \
      "--key",                                                                \
      0, 0)

struct curve_keys;

/* Reads both.  Both NULL: *out is NULL and the program has no keys.  Returns
 * ST_INVALID_ARGUMENT and a sentence with the file and the fault: only one of
 * the two is given, the secret key is readable by others (mode & 007) or
 * writable by the group, a name or a key is there twice, a role is unknown. */
MUST_CHECK enum status curve_keys_load(struct curve_keys **out,
                                       const char *key_file,
                                       const char *trust_dir, struct error *e);

/* Reads both again.  On an error the keys stay as they were.  If the program's
 * own key has changed, later connections to others use the new one; a port that
 * listens keeps the old one until the program restarts. */
MUST_CHECK enum status curve_keys_reload(struct curve_keys *k, struct error *e);

/* Makes a fresh key that trusts itself alone, with every role; for the
 * self-test of the transport.  It cannot be reloaded. */
MUST_CHECK enum status curve_keys_alone(struct curve_keys **out,
                                        struct error *e);

void curve_keys_free(struct curve_keys **k);

/* Returns this program's own name. */
const char *curve_keys_name(const struct curve_keys *k);
const uint8_t *curve_keys_public(const struct curve_keys *k); /* [KEY_BYTES] */
const uint8_t *curve_keys_secret(const struct curve_keys *k); /* [KEY_BYTES] */

/* Returns the roles in this program's own certificate, a set of BY_*; 0 if none
 * are written.  Others decide by their own copy. */
uint8_t curve_keys_roles(const struct curve_keys *k);

/* Returns the number of trusted certificates. */
unsigned curve_keys_n(const struct curve_keys *k);

/* Finds a trusted public key of KEY_BYTES.  Returns NULL if it is not trusted.
 */
const struct identity *curve_keys_find(const struct curve_keys *k,
                                       const uint8_t *key);

/* Returns the trusted certificate number i of those with a role in `roles` (a
 * set of BY_*; BY_ROUTER), in the order of their names, or NULL.  A program
 * that dials a router tries them in turn. */
const struct identity *curve_keys_nth(const struct curve_keys *k, uint8_t roles,
                                      unsigned i);

#endif
