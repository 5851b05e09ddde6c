/* request_id.h - 16 random bytes that name a request.
 *
 * The text form has 32 hexadecimal digits.  All zeros names no request.
 *
 * Threading: none. */
#ifndef COMMON_WIRE_REQUEST_ID_H
#define COMMON_WIRE_REQUEST_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/chars.h"

#define REQUEST_ID_BYTES 16
#define REQUEST_ID_TEXT  33

static inline void request_id_format(const uint8_t id[REQUEST_ID_BYTES],
                                     char text[REQUEST_ID_TEXT])
{
    static const char hex[] = "0123456789abcdef";

    for (int i = 0; i < REQUEST_ID_BYTES; i++) {
        text[2 * i] = hex[id[i] >> 4];
        text[2 * i + 1] = hex[id[i] & 15];
    }
    text[REQUEST_ID_TEXT - 1] = '\0';
}

/* Parses exactly 32 hexadecimal digits. */
static inline bool request_id_parse(const char *text,
                                    uint8_t id[REQUEST_ID_BYTES])
{
    if (strlen(text) != REQUEST_ID_TEXT - 1) {
        return false;
    }
    for (int i = 0; i < REQUEST_ID_BYTES; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        id[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static inline bool request_id_is_zero(const uint8_t id[REQUEST_ID_BYTES])
{
    static const uint8_t zero[REQUEST_ID_BYTES];

    return memcmp(id, zero, REQUEST_ID_BYTES) == 0;
}

/* Mixes the id.  Ids are random, but clients choose them and must not control
 * the layout of a table. */
static inline uint64_t request_id_hash(const uint8_t id[REQUEST_ID_BYTES],
                                       uint64_t salt)
{
    uint64_t a, b;

    memcpy(&a, id, sizeof a);
    memcpy(&b, id + sizeof a, sizeof b);
    a = (a ^ salt) * 0x9e3779b97f4a7c15u;
    b = (b ^ (a >> 32) ^ a) * 0xbf58476d1ce4e5b9u;
    return b ^ (b >> 29);
}

#endif
