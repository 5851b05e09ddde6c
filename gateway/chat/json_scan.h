/* json_scan.h - Checks one JSON value (RFC 8259), character by character.
 *
 * The scan keeps no text, so a value of any length costs the same.  It differs
 * from the RFC in one place: control characters may stand in strings, because
 * models write raw newlines there.
 *
 * Threading: a scan is one thread's.  Memory: the caller's storage.
 * Limits: OUTPUT_JSON_DEPTH; deeper values are bad. */
#ifndef GATEWAY_CHAT_JSON_SCAN_H
#define GATEWAY_CHAT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Arrays and objects inside each other. */
#define OUTPUT_JSON_DEPTH 64

enum json_scan_verdict {
    JSON_SCAN_MORE,  /* the value goes on */
    JSON_SCAN_DONE,  /* the value ends with this byte */
    JSON_SCAN_ENDED, /* the value, a number, ended before this byte */
    JSON_SCAN_BAD    /* no value goes on like this */
};

/* State of a scan; all zeros is the start of a value. */
struct json_scan {
    uint64_t objects; /* bit per level: the level is an object */
    uint8_t depth;
    uint8_t state;
    uint8_t n; /* bytes of a literal or hexadecimal digits so far */
    bool key;  /* the string is a key */
    const char *literal;
};

/* Scans the next byte.  White space before the value is accepted.  No call
 * may follow a verdict other than JSON_SCAN_MORE. */
enum json_scan_verdict json_scan_step(struct json_scan *s, char c);

/* Returns whether the next byte belongs to a string. */
bool json_scan_in_string(const struct json_scan *s);

/* Returns whether text[0..n) is one JSON value with white space around. */
bool json_scan_whole(const char *text, size_t n);

#endif
