/* certificate.h - Certificates of CURVE keys as files: NAME.key and NAME.cert.
 *
 * Both are files of czmq's zcert (ZPL), which other ZeroMQ programs read too.
 * NAME.key has the secret and the public key, mode 0600; NAME.cert has the
 * public key, mode 0644.  Metadata: name, role (a comma-separated list), and
 * created.  common/wire/curve_keys.h is the reader of the daemons.
 *
 * NAME may end in '+' and a number: a later key of the same name, for a
 * rotation.
 *
 * Threading: none.  Memory: lists are on the heap; aborts without memory.
 * Limits: CERTIFICATE_NUMBER_MAX, and those of curve_cert.h. */
#ifndef CLIENT_CLUSTER_CERTIFICATE_H
#define CLIENT_CLUSTER_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"
#include "common/wire/curve_cert.h"

#define CERTIFICATE_NAME_TEXT  (KEY_NAME_MAX + CURVE_SUFFIX_MAX + 1)
#define CERTIFICATE_KEY_TEXT   41 /* Z85, with its NUL */
#define CERTIFICATE_ROLES_TEXT 40
#define CERTIFICATE_PATH_MAX   4096
#define CERTIFICATE_NUMBER_MAX 9999 /* limit of a suffix */
#define CERTIFICATE_IGNORED                          \
    "*.key\n*.apikey" /* by git, in a folder of keys \
                       */

/* Parses "router,client" to a set of BY_*.  Returns ST_INVALID_ARGUMENT and the
 * roles that exist. */
MUST_CHECK enum status certificate_roles(const char *text, uint8_t *roles,
                                         struct error *e);

/* Writes a set of roles as text, an admin without "client".  Returns out. */
const char *certificate_roles_text(char out[CERTIFICATE_ROLES_TEXT],
                                   uint8_t roles);

/* Writes a public key as text.  Returns out. */
const char *certificate_key_text(char out[CERTIFICATE_KEY_TEXT],
                                 const uint8_t key[KEY_BYTES]);

/* Returns the number of a name's suffix: 2 of "w1+2", 1 without one. */
unsigned certificate_number(const char *name);

/* Makes a new pair of keys, and writes DIR/NAME.key and DIR/NAME.cert.  Creates
 * DIR with mode 0700 if it is missing.  Never replaces a file unless `force`:
 * ST_ALREADY_EXISTS.  The name must be valid, with a suffix or without. */
MUST_CHECK enum status certificate_write(struct curve_cert *out,
                                         const char *dir, const char *name,
                                         uint8_t roles, bool force,
                                         struct error *e);

/* Reads a file of either kind.  Returns ST_NOT_FOUND if there is none,
 * ST_INVALID_ARGUMENT if it is no certificate, or if a secret key is there that
 * others may read. */
MUST_CHECK enum status certificate_read(struct curve_cert *out,
                                        const char *path, struct error *e);

/* A certificate in a directory. */
struct certificate_entry {
    char file[CERTIFICATE_NAME_TEXT + 8]; /* "w1+2.cert" */
    bool readable;
    struct curve_cert cert; /* if readable */
    char fault[ERROR_TEXT]; /* else */
};

struct certificate_list {
    struct certificate_entry *item; /* [n], by name, then number */
    size_t n;
};

/* Lists the files of dir that end in suffix (".cert" or ".key").  Returns
 * ST_NOT_FOUND if there is no such directory.  The caller frees the list. */
MUST_CHECK enum status certificate_list(struct certificate_list *out,
                                        const char *dir, const char *suffix,
                                        struct error *e);
void certificate_list_free(struct certificate_list *l);

/* Returns the entry of that name, without suffix, with the highest number, or
 * NULL.  Entries that are not readable count by their file's name. */
const struct certificate_entry *
certificate_newest(const struct certificate_list *l, const char *name);

#endif
