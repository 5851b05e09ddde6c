/* encoding.h - The encode of one text in slices, for threads that serve many.
 *
 *     encoding_new()  encoding_step()* until done  encoding_take()
 *
 * A text of megabytes takes long.  A thread encodes a slice of it, then one of
 * another text.  A step handles TEXT_SLICE_BYTES, give or take one word or
 * window (encoder.h), and frees its work memory.
 *
 * Threading: one thread's at a time.  Memory: the ids so far, and the text if
 * the normalizer changes it. */
#ifndef TEXT_ENCODING_H
#define TEXT_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer.h"

struct encoding;

/* The text to encode; text and spans are borrowed until encoding_free(). */
struct encoding_input {
    const char *text;
    size_t len;
    const struct text_span *untrusted; /* [n_spans], as for */
    size_t n_spans;                    /* tokenizer_encode_spans() */
    unsigned flags;
    size_t max_ids; /* the encode fails past these; 0: no limit */
};

/* Starts to encode.  Returns ST_OUT_OF_RANGE and ST_INVALID_ARGUMENT as
 * tokenizer_encode(); *out is then NULL. */
MUST_CHECK enum status encoding_new(struct encoding **out,
                                    const struct tokenizer *t,
                                    const struct encoding_input *in,
                                    struct error *e);

/* Encodes a slice of about `bytes` bytes, and sets *done at the end.  Returns
 * the errors of tokenizer_encode(). */
MUST_CHECK enum status encoding_step(struct encoding *g, size_t bytes,
                                     bool *done, struct error *e);

/* Returns whether the encode failed because the text has more than max_ids. */
bool encoding_is_over(const struct encoding *g);

/* Returns the ids, [*n], which the caller then owns. */
uint32_t *encoding_take(struct encoding *g, size_t *n);

/* Frees *g and sets it to NULL; NULL is legal. */
void encoding_free(struct encoding **g);

#endif
