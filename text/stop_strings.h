/* stop_strings.h - Search for stop strings in a stream of text.
 *
 * The strings become one automaton (Aho and Corasick, "Efficient String
 * Matching", 1975), read-only and shared by any number of streams.  A scan is
 * the state of one stream:
 *
 *     text      x x x a b a b a ...       strings: "abac", "ba"
 *     certain   ------|                   no string can begin before it
 *     found           |-b a|              the first to end; among those that
 *                                         end at one byte, the one that begins
 *                                         first; among equals, the first given
 *
 * Bytes are compared, whatever the text is and however it is cut.
 *
 * Threading: an automaton is read-only once made; a scan is one thread's.
 * Memory: an automaton is one allocation, 10 bytes per byte of the strings
 * plus 100: 41 KB at the limits.  A scan is the caller's storage; no byte of
 * text is kept.
 *
 * Time: at most 2 * STOP_STRINGS_MAX comparisons per byte on average over any
 * text, STOP_STRINGS_MAX * (STOP_STRING_BYTES_MAX + 1) for a single byte.
 * Limits: STOP_STRINGS_MAX, STOP_STRING_BYTES_MAX of proto/limits.h. */
#ifndef TEXT_STOP_STRINGS_H
#define TEXT_STOP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/limits.h"

struct stop_strings;

struct stop_string {
    const char *text; /* [n] UTF-8; NUL is an ordinary character */
    size_t n;
};

/* Makes the automaton of strings[n], 1..STOP_STRINGS_MAX, which are copied.
 * Returns ST_INVALID_ARGUMENT and a sentence that names the string by its
 * place. */
MUST_CHECK enum status stop_strings_new(struct stop_strings **out,
                                        const struct stop_string *strings,
                                        size_t n, struct error *e);

/* Frees the automaton; NULL is legal. */
void stop_strings_free(struct stop_strings **s);

/* State of a scan; all zeros is the start of a stream. */
struct stop_scan {
    uint64_t n;      /* bytes of the stream scanned so far */
    uint64_t begin;  /* start of the string found */
    uint32_t string; /* its index among the strings given */
    uint16_t at;     /* state of the automaton */
    bool found;
};

/* Scans the next bytes, up to the end of the first string.  Returns true if a
 * string was found, now or before; no byte after it is scanned. */
bool stop_scan_push(const struct stop_strings *s, struct stop_scan *scan,
                    const char *text, size_t n);

/* Returns how many bytes from the start belong to no string, whatever
 * follows; if a string was found, the bytes before it.  Without a string, at
 * most STOP_STRING_BYTES_MAX - 1 fewer than were scanned.  Never decreases. */
uint64_t stop_scan_certain(const struct stop_strings *s,
                           const struct stop_scan *scan);

#endif
