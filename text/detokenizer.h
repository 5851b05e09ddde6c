/* detokenizer.h - Token ids to text, one at a time.
 *
 * Each chunk of a stream is valid UTF-8.  The chunks add up to the decoding
 * of all ids at once: the tokens' bytes in a row, with one U+FFFD for each
 * maximal part that is no UTF-8 (Python's errors='replace').  The start of a
 * character, at most 3 bytes, is held back until the rest arrives.
 *
 * Threading: a detokenizer is one thread's; its tokenizer may be shared.
 * Memory: the caller's storage; nothing is allocated or freed.  Time: a push
 * is linear in the token's bytes. */
#ifndef TEXT_DETOKENIZER_H
#define TEXT_DETOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer.h"

/* Special tokens produce no text. */
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

/* Returns the most bytes that one push or finish writes. */
size_t detokenizer_max(const struct tokenizer *t);

/* Takes the next id.  Writes the text that is now certain to
 * out[detokenizer_max()] and returns its length, which may be 0.  An id that
 * is no token produces nothing. */
size_t detokenizer_push(struct detokenizer *d, uint32_t id, char *out);

/* Ends the stream: writes the bytes held back as one U+FFFD and returns the
 * length.  d is then as after detokenizer_init(). */
size_t detokenizer_finish(struct detokenizer *d, char *out);

#endif
