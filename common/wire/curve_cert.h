/* curve_cert.h - The text of one certificate, as czmq's zcert writes it (ZPL):
 *
 *     metadata
 *         name = "w1"
 *         role = "worker"
 *     curve
 *         public-key = "..."     40 characters of Z85
 *         secret-key = "..."     in a secret certificate only
 *
 * Threading: none, but czmq's own state.  Memory: the caller's storage.
 * Limits: CURVE_CERT_BYTES_MAX. */
#ifndef COMMON_WIRE_CURVE_CERT_H
#define COMMON_WIRE_CURVE_CERT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"
#include "common/wire/node_io.h"

#define CURVE_CERT_BYTES_MAX 8192
#define CURVE_SUFFIX_MAX     5 /* '+' and at most four digits */

struct curve_cert {
    /* The name as written, with its suffix. */
    char name[KEY_NAME_MAX + CURVE_SUFFIX_MAX + 1];
    struct identity identity; /* roles: 0 if none are written */
    bool has_secret;
    uint8_t secret[KEY_BYTES];
};

/* Parses text, n bytes and a NUL.  Returns ST_INVALID_ARGUMENT and a sentence
 * without the file's name: the syntax is not ZPL's, a name or role is invalid,
 * or a key is not one of CURVE. */
MUST_CHECK enum status curve_cert_parse(struct curve_cert *out,
                                        const char *text, size_t n,
                                        struct error *e);

#endif
