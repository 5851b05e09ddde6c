/* normalizer.h - the normalizer of a tokenizer: Unicode normal forms.
 *
 * NFC, NFD, NFKC, NFKD, and sequences of these; any other is refused by name.
 * Linear in the text: canonical ordering is a counting sort, where utf8proc's
 * own is quadratic in a run of combining marks.
 *
 * Threading: read-only once parsed.
 * Memory: about 20 bytes per byte of a text that is not plain already. */
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

/* From the file's "normalizer"; NULL is none. */
MUST_CHECK enum status normalizer_parse(struct normalizer *z, const json_t *v,
                                        struct error *e);

/* Normalise text[0..n), valid UTF-8.  *owned is NULL if that changes nothing
 * (*out is text then), else what *out points to, the caller's to free().
 * ST_OUT_OF_RANGE if the result is longer than TEXT_ENCODE_BYTES. */
MUST_CHECK enum status normalizer_run(const struct normalizer *z,
                                      const char *text, size_t n,
                                      const char **out, size_t *out_n,
                                      char **owned, struct error *e);

#endif
