/* encoder.h - One encode of a text, in slices.
 *
 *     text -> added tokens -> normalizer -> normalized added tokens
 *          -> pre-tokenizer -> BPE -> ids
 *
 * Each step moves the positions of all stages.  Every position is in the
 * struct, so that another text can be encoded between two steps.  A step is
 * bounded by its bytes, by one match of a split expression, by one window of a
 * word, and by one piece that the normalizer cannot cut.
 *
 * Threading: an encoder is one thread's at a time; its tokenizer may be
 * shared.  Memory: the work memory grows with the longest word, until
 * encoder_pause(); a text that the normalizer changes is kept until
 * encoder_fini(). */
#ifndef TEXT_ENCODER_H
#define TEXT_ENCODER_H

#include <stddef.h>

#include "common/base/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

/* A search for added tokens, and the one that follows the gap in use. */
struct encoder_search {
    struct added_search search;
    struct added_match match;
    bool has_match, ended;
};

/* The innermost stage at work. */
enum encoder_stage {
    ENCODER_RAW,       /* search for raw added tokens */
    ENCODER_NORMALIZE, /* a piece between them */
    ENCODER_SEARCH,    /* search for normalized added tokens in it */
    ENCODER_WORDS,     /* a piece between those */
    ENCODER_WORD,
    ENCODER_AFTER /* the post-processor's ids */
};

struct encoder_words {
    struct pattern_split_work split;
};

struct encoder {
    const struct tokenizer *t; /* borrowed */
    struct encoder_words words;
    struct bpe_work bpe;
    enum encoder_stage stage;
    struct encoder_search raw, normalized;
    struct normalizer_cursor normal;
    struct pretokenizer_cursor pieces;
    struct bpe_cursor word;
    unsigned flags;
    struct id_sink *out;
    const char *text; /* the whole text */
    size_t base;      /* offset of the piece that is searched */
    const struct text_span *untrusted; /* [n_untrusted]; none: NULL and 0 */
    size_t n_untrusted;
};

MUST_CHECK enum status encoder_init(struct encoder *c,
                                    const struct tokenizer *t, struct error *e);
void encoder_fini(struct encoder *c);

/* Starts to encode text[0..len), borrowed until the end, into out.  Checks
 * its size, UTF-8 and spans. */
MUST_CHECK enum status encoder_start(struct encoder *c, const char *text,
                                     size_t len, unsigned flags,
                                     struct id_sink *out, struct error *e);

/* Handles about `bytes` bytes, and sets *done at the end. */
MUST_CHECK enum status encoder_step(struct encoder *c, size_t bytes, bool *done,
                                    struct error *e);

/* Frees the work memory between two steps. */
void encoder_pause(struct encoder *c);

/* Appends the ids of a text to out, as tokenizer_encode() or, if
 * c->untrusted is set, tokenizer_encode_spans().
 * c->bpe.queue.steps and c->words.split.matches count the work done. */
MUST_CHECK enum status encoder_run(struct encoder *c, const char *text,
                                   size_t len, unsigned flags,
                                   struct id_sink *out, struct error *e);

#endif
