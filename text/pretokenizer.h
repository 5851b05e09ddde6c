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
 * ByteLevel, or with it beside byte_fallback.
 *
 * Threading: read-only once parsed; a pretokenizer_cursor belongs to one call.
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
    bool removes;    /* some split drops parts of the text */
    struct stage stages[TEXT_STAGES];
};

/* Reads the file's "pre_tokenizer", which has ByteLevel if byte_level is
 * true.  Zeroes p first, so pretokenizer_fini()
 * is legal after a failure too. */
MUST_CHECK enum status pretokenizer_parse(struct pretokenizer *p,
                                          const json_t *v, bool byte_level,
                                          struct error *e);
void pretokenizer_fini(struct pretokenizer *p);

/* The position in a text: one piece of each stage's input.  Stages and text
 * are borrowed. */
struct pretokenizer_cursor {
    const struct pretokenizer *p;
    const char *word; /* [n_word] the whole text, if no stage splits it */
    size_t n_word;
    unsigned stage; /* the last split that has a piece */
    struct pattern_cursor at[TEXT_STAGES];
    char *spaced; /* a piece with a space in front; kept until fini */
    size_t spaced_cap;
};

/* Starts to cut text[0..n), valid UTF-8.  A zeroed cursor may be started, and
 * a used one again. */
MUST_CHECK enum status pretokenizer_start(struct pretokenizer_cursor *c,
                                          const struct pretokenizer *p,
                                          const char *text, size_t n,
                                          struct error *e);

/* Sets *s and *n to the next word.  *n is 0 if this step found none, and *s
 * NULL at the end. */
MUST_CHECK enum status pretokenizer_next(struct pretokenizer_cursor *c,
                                         struct pattern_split_work *w,
                                         const char **s, size_t *n,
                                         struct error *e);
void pretokenizer_cursor_fini(struct pretokenizer_cursor *c);

#endif
