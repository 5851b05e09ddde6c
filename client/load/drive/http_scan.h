/* http_scan.h - JSON that is read once, from left to right, without a tree.
 *
 *     scan_begin(&s, bytes, n);
 *     scan_object(&s);
 *     while (scan_member(&s, &key)) {
 *         if (scan_is(&key, "usage")) {
 *             ...
 *         } else {
 *             scan_skip(&s);
 *         }
 *     }
 *
 * Every value must be read or skipped.  Errors are sticky: after one, every
 * function returns false or nothing, and s.bad is set.  What is skipped is
 * checked for balance, not for grammar.
 *
 * Threading, memory: none; slices point into the bytes.  Pure.  Limits:
 * SCAN_DEPTH_MAX. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_SCAN_H
#define CLIENT_LOAD_DRIVE_HTTP_SCAN_H

#include <stdbool.h>

#include "client/load/drive/http_text.h"

#define SCAN_DEPTH_MAX 64

struct scan {
    const char *at, *end;
    bool bad;
    bool first; /* a bracket was just opened */
};

struct scan_slice {
    const char *bytes; /* between the quotes, escaped */
    size_t n;
    bool escaped;
};

void scan_begin(struct scan *s, const char *bytes, size_t n);

/* Returns the first byte of the next value, '\0' at the end. */
char scan_peek(struct scan *s);

/* Enter a bracket.  Return false if the next value is none: it is skipped. */
bool scan_object(struct scan *s);
bool scan_array(struct scan *s);

/* Move to the next member or element.  Return false behind the last. */
bool scan_member(struct scan *s, struct scan_slice *key);
bool scan_element(struct scan *s);

/* Read a string or a number.  Return false if the next value is none, and skip
 * it. */
bool scan_string(struct scan *s, struct scan_slice *out);
bool scan_u64(struct scan *s, uint64_t *out);

/* Skips a value. */
void scan_skip(struct scan *s);

bool scan_is(const struct scan_slice *key, const char *text);

/* Appends a string without its escapes, as UTF-8.  Lone surrogates and unknown
 * escapes become U+FFFD. */
void scan_text(const struct scan_slice *string, struct http_text *out);

#endif
