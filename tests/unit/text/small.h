/* small.h - A small, readable tokenizer.json, for tests and fuzzers. */
#ifndef TESTS_UNIT_TEXT_SMALL_H
#define TESTS_UNIT_TEXT_SMALL_H

#include <jansson.h>

/* Makes the file: the 256 byte letters are ids 0..255 by byte, then "ab" 256,
 * "abc" 257, "Ġa" 258; merges a b, ab c, Ġ a.  No added tokens, no
 * normalizer, ByteLevel without regex and space.  The caller's, to
 * json_decref(). */
json_t *fixture_small(void);

/* Makes one with byte_fallback: "<0xNN>" are ids 0..255, then a 256, b 257,
 * U+2581 258, "ab" 259, U+2581 "a" 260, "é" 261, "aé" 262; merges a b, U+2581 a,
 * a é.  The caller's, to json_decref(). */
json_t *fixture_fallback(void);

#endif
