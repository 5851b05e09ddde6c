/* normalizer.h - The normalizer of a tokenizer: Unicode normal forms, and the
 * spaces of byte_fallback.h.
 *
 * Accepts NFC, NFD, NFKC, NFKD, Replace of " " by U+2581, Prepend of U+2581,
 * and sequences of these; refuses any other by name.  Time is linear in the
 * text: canonical ordering is a counting sort, while utf8proc's own is
 * quadratic in a run of combining marks.
 *
 * Threading: read-only once parsed.  Memory: about 20 bytes per byte of a
 * text that the normal form changes. */
#ifndef TEXT_NORMALIZER_H
#define TEXT_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/text_limits.h"

#define NORMALIZER_SPACES (-1) /* replace each space by U+2581 */

struct normalizer {
    unsigned n;
    int forms[TEXT_STAGES]; /* utf8proc options, or NORMALIZER_SPACES */
    bool prepend;           /* U+2581 before each piece that is not empty */
};

/* Reads the file's "normalizer"; NULL means none. */
MUST_CHECK enum status normalizer_parse(struct normalizer *z, const json_t *v,
                                        struct error *e);

/* Normalises text[0..n), valid UTF-8, without what is prepended.  If nothing
 * changes, *owned is NULL and *out is text; otherwise *owned is what *out
 * points to, the caller's to free(). Returns ST_OUT_OF_RANGE if the result is
 * longer than TEXT_ENCODE_BYTES. */
MUST_CHECK enum status normalizer_run(const struct normalizer *z,
                                      const char *text, size_t n,
                                      const char **out, size_t *out_n,
                                      char **owned, struct error *e);

/* A text shrinks to a quarter at most under one form: U+1D7CE has 4 bytes and
 * becomes "0" under NFKC.  A test computes the bound over all characters. */
#define NORMALIZER_SHRINK 4

/* Returns a lower bound on the bytes of text[0..n) after normalisation. */
size_t normalizer_fewest(const struct normalizer *z, const char *text,
                         size_t n);

/* A normalisation in steps.  Text and normalizer are borrowed. */
struct normalizer_cursor {
    const struct normalizer *z;
    const char *text; /* [n] */
    size_t n, at;
    const char *out; /* [n_out] the result so far: `text`, or `owned` */
    size_t n_out;
    char *owned; /* [cap] NULL: no byte has changed */
    size_t cap;
};

/* Starts on text[0..n).  A zeroed cursor may be started, and a used one
 * again. */
void normalizer_start(struct normalizer_cursor *c, const struct normalizer *z,
                      const char *text, size_t n);

/* Normalises about *left bytes, takes them off *left, and sets *done at the
 * end.  The text is cut before ASCII only: no form joins an ASCII character
 * with one before it.  Returns as normalizer_run(). */
MUST_CHECK enum status normalizer_step(struct normalizer_cursor *c,
                                       size_t *left, bool *done,
                                       struct error *e);
void normalizer_cursor_fini(struct normalizer_cursor *c);

#endif
