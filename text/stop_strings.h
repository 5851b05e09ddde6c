/* stop_strings.h - where the first of some strings ends in a stream of text.
 *
 * The strings are made into one machine (Aho and Corasick, "Efficient String
 * Matching", 1975), read-only and shared by any number of streams.  A scan is
 * the state of one stream:
 *
 *     text      x x x a b a b a ...       strings: "abac", "ba"
 *     certain   ------|                   no string can begin before it
 *     found           |-b a|              the first to end; of those that end
 *                                         at one byte the one that begins
 *                                         first; of equal ones the first given
 *
 * Bytes are compared, whatever the text is and however it is cut.
 *
 * Threading: a machine is read-only once made; a scan is one thread's.
 * Memory: a machine is one allocation, 10 bytes per byte of the strings and
 * 100 beside: 41 KB at the limits.  A scan is the caller's storage; no byte
 * of text is kept.
 * Time: per byte at most 2 * STOP_STRINGS_MAX comparisons on average over any
 * text, STOP_STRINGS_MAX * (STOP_STRING_BYTES_MAX + 1) for a single one.
 * Limits: STOP_STRINGS_MAX, STOP_STRING_BYTES_MAX of
 * common/sampling/sampling.h. */
#ifndef TEXT_STOP_STRINGS_H
#define TEXT_STOP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/sampling/sampling.h"

struct stop_strings;

struct stop_string {
    const char *text; /* [n] UTF-8, NUL is a character like others */
    size_t n;
};

/* The machine of strings[n], 1..STOP_STRINGS_MAX, which are copied.
 * ST_INVALID_ARGUMENT: a sentence that names the string by its place. */
MUST_CHECK enum status stop_strings_new(struct stop_strings **out,
                                        const struct stop_string *strings,
                                        size_t n, struct error *e);

/* NULL is legal. */
void stop_strings_free(struct stop_strings **s);

/* All zeros is the beginning of a stream. */
struct stop_scan {
    uint64_t n;      /* bytes of the stream that were looked at */
    uint64_t begin;  /* of the string found */
    uint32_t string; /* its place among those given */
    uint16_t at;     /* where the machine is */
    bool found;
};

/* Look at the next bytes, up to the end of the first string.  True: found,
 * now or before; nothing is looked at from then on. */
bool stop_scan_push(const struct stop_strings *s, struct stop_scan *scan,
                    const char *text, size_t n);

/* So many bytes from the beginning belong to no string, whatever comes; with
 * one found: those before it.  At most STOP_STRING_BYTES_MAX - 1 less than
 * were looked at if none is found; never less than it was before. */
uint64_t stop_scan_certain(const struct stop_strings *s,
                           const struct stop_scan *scan);

#endif
