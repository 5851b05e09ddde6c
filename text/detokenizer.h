/* detokenizer.h - token ids to text, one at a time.
 *
 * The chunks of a stream are valid UTF-8 each and add up to what decoding all
 * ids at once gives: the tokens' bytes in a row, with one U+FFFD for each
 * maximal part that is no UTF-8 (Python's errors='replace').  The beginning
 * of a character, at most 3 bytes, is held back until the rest comes.
 *
 * Threading: a detokenizer is one thread's; its tokenizer may be shared.
 * Memory: the caller's storage; nothing is allocated, nothing to free.
 * Time: of one push, linear in the token's bytes. */
#ifndef TEXT_DETOKENIZER_H
#define TEXT_DETOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer.h"

/* Special tokens give no text. */
#define DETOK_SKIP_SPECIAL 1u

#define DETOK_HELD_MAX 3

struct detokenizer {
    const struct tokenizer *t; /* borrowed */
    unsigned flags;
    uint8_t held[DETOK_HELD_MAX];
    uint8_t n_held;
};

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t,
                      unsigned flags);

/* The most bytes that one push or finish writes. */
size_t detokenizer_max(const struct tokenizer *t);

/* Take the next id; write the text that is certain now to
 * out[detokenizer_max()] and return its length, which may be 0.  An id that
 * is no token gives none. */
size_t detokenizer_push(struct detokenizer *d, uint32_t id, char *out);

/* The ids are at their end: write what was held back, as a U+FFFD.  d is as
 * after detokenizer_init(). */
size_t detokenizer_finish(struct detokenizer *d, char *out);

#endif
