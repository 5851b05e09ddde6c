/* keys_line.h - One line of a key file.
 *
 * Threading: no state.  Pure. */
#ifndef GATEWAY_KEYS_KEYS_LINE_H
#define GATEWAY_KEYS_KEYS_LINE_H

#include "gateway/keys/keys.h"

struct keys_line {
    bool empty; /* blank, or a comment: the other fields are not set */
    uint8_t hash[KEYS_HASH_BYTES];
    char tenant[TENANT_NAME_MAX + 1];
    struct tenant_limits limits;
    bool is_operator; /* role=operator */
};

/* Parses line[0..n), which has no newline; untrusted bytes.  Returns
 * ST_INVALID_ARGUMENT and a sentence without the line's number. */
MUST_CHECK enum status keys_line_parse(const char *line, size_t n,
                                       struct keys_line *out, struct error *e);

/* Copies a tenant's name to out[TENANT_NAME_MAX + 1].  Returns
 * ST_INVALID_ARGUMENT if it is empty, too long or has other characters. */
MUST_CHECK enum status keys_name_parse(const char *name, size_t n, char *out,
                                       struct error *e);

#endif
