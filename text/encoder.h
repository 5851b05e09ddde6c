/* encoder.h - One encode of a text, with its work memory.
 *
 *     text -> added tokens -> normalizer -> normalized added tokens
 *          -> pre-tokenizer -> BPE -> ids
 *
 * Threading: an encoder is one thread's; its tokenizer may be shared.
 * Memory: grows with the longest word, until encoder_fini(). */
#ifndef TEXT_ENCODER_H
#define TEXT_ENCODER_H

#include <stddef.h>

#include "common/base/status.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

struct encoder {
    const struct tokenizer *t; /* borrowed */
    struct pretokenizer_work words;
    struct bpe_work bpe;
    unsigned flags;
    struct id_sink *out;
};

MUST_CHECK enum status encoder_init(struct encoder *c,
                                    const struct tokenizer *t, struct error *e);
void encoder_fini(struct encoder *c);

/* Appends the ids of a text to out, as tokenizer_encode().
 * c->bpe.queue.steps and c->words.split.matches count the work done. */
MUST_CHECK enum status encoder_run(struct encoder *c, const char *text,
                                   size_t len, unsigned flags,
                                   struct id_sink *out, struct error *e);

#endif
