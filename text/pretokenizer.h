/* pretokenizer.h - The pre-tokenizer of a tokenizer: text into words.
 *
 * A chain of stages; each stage processes every piece of the stage before.
 * The file's components become stages:
 *
 *     Split       a split
 *     Digits      a split by \p{N}
 *     ByteLevel   [a space put in front of a piece that has none,]
 *                 [a split by GPT-2's expression]; it must come last, and its
 *                 pieces are the words
 *     Sequence    its members
 *
 * Any other component is refused by name, and so is a chain without
 * ByteLevel.
 *
 * Threading: read-only once parsed; a pretokenizer_work belongs to one call.
 * Limits: TEXT_STAGES, TEXT_NESTING, TEXT_PATTERN_BYTES. */
#ifndef TEXT_PRETOKENIZER_H
#define TEXT_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/pattern_split.h"
#include "text/text_limits.h"

struct stage {
    bool prefix_space; /* otherwise the stage is a split */
    struct pattern_split split;
};

struct pretokenizer {
    unsigned n;
    bool byte_level; /* ByteLevel was read, so the chain is complete */
    struct stage stages[TEXT_STAGES];
};

/* Reads the file's "pre_tokenizer".  Zeroes p first, so pretokenizer_fini()
 * is legal after a failure too. */
MUST_CHECK enum status pretokenizer_parse(struct pretokenizer *p,
                                          const json_t *v, struct error *e);
void pretokenizer_fini(struct pretokenizer *p);

struct pretokenizer_work {
    struct pattern_split_work split;
    char *spaced; /* a piece with a space in front */
    size_t spaced_cap;
};

MUST_CHECK enum status pretokenizer_work_init(struct pretokenizer_work *w,
                                              struct error *e);
void pretokenizer_work_fini(struct pretokenizer_work *w);

/* Cuts text[0..n), valid UTF-8, and calls fn for the words in order. */
MUST_CHECK enum status pretokenizer_run(const struct pretokenizer *p,
                                        struct pretokenizer_work *w,
                                        const char *text, size_t n, piece_fn fn,
                                        void *ctx, struct error *e);

#endif
