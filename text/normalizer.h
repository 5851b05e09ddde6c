/* normalizer.h - The normalizer of a tokenizer: Unicode normal forms.
 *
 * Accepts NFC, NFD, NFKC, NFKD and sequences of these; refuses any other by
 * name.  Time is linear in the text: canonical ordering is a counting sort,
 * while utf8proc's own is quadratic in a run of combining marks.
 *
 * Threading: read-only once parsed.  Memory: about 20 bytes per byte of a
 * text that the normal form changes. */
#ifndef TEXT_NORMALIZER_H
#define TEXT_NORMALIZER_H

#include <stddef.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/text_limits.h"

struct normalizer {
    unsigned n;
    int forms[TEXT_STAGES]; /* utf8proc options */
};

/* Reads the file's "normalizer"; NULL means none. */
MUST_CHECK enum status normalizer_parse(struct normalizer *z, const json_t *v,
                                        struct error *e);

/* Normalises text[0..n), valid UTF-8.  If nothing changes, *owned is NULL and
 * *out is text; otherwise *owned is what *out points to, the caller's to
 * free(). Returns ST_OUT_OF_RANGE if the result is longer than
 * TEXT_ENCODE_BYTES. */
MUST_CHECK enum status normalizer_run(const struct normalizer *z,
                                      const char *text, size_t n,
                                      const char **out, size_t *out_n,
                                      char **owned, struct error *e);

#endif
