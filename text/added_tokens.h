/* added_tokens.h - Search for added tokens, the first step of an encode.
 *
 * There are two sets: "normalized" tokens are searched in normalised text,
 * the others in the original text.  In each set, the leftmost match counts,
 * and of several matches with one start the longest.  Matches do not overlap.
 * Two flags restrict a match:
 *
 * - special: it counts only if control tokens are requested;
 * - structural: it counts only outside untrusted spans.  Special tokens are
 *   structural, and so are tokens spelt as control tokens, "<|name|>" and
 *   "[NAME]", and those that added_tokens_protect() has marked;
 * - single_word: it counts only without a word character before or after it.
 *
 * A match includes the white space before it (lstrip) and after it (rstrip).
 *
 * Threading: read-only once parsed.  Limits: TEXT_ADDED_TOKENS,
 * TEXT_ADDED_BYTES.  A search looks at most the longest token's bytes ahead
 * of each byte, so it is linear in the text. */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/normalizer.h"
#include "text/pair_map.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

struct added_token {
    const char *content; /* the spelling to search for */
    size_t n;
    char *owned; /* content, if the normalizer changed it; else NULL */
    uint32_t id;
    bool special, normalized, single_word, lstrip, rstrip;
    bool structural;
};

struct added_trie {
    struct pair_map edges; /* (node, byte) -> (node, 0) */
    uint32_t
        *token; /* [nodes]: 1 + index of the token that ends here; 0: none */
    bool first[256]; /* some token starts with this byte */
    bool any;
};

struct added_tokens {
    struct added_token *tokens;
    size_t n;
    struct added_trie raw, normalized;
    size_t longest; /* bytes of the longest spelling that is searched for */
    bool strips;    /* some token takes white space, of any length */
};

/* Reads the file's "added_tokens" (NULL means none) and enters them into
 * vocab, which has room for them.  Contents stay borrowed from list's strings
 * unless normalised; list must outlive only the parse, as the tries hold
 * copies.  Zeroes a first, so added_tokens_fini() is legal after a failure
 * too. */
MUST_CHECK enum status added_tokens_parse(struct added_tokens *a,
                                          const json_t *list,
                                          struct vocab *vocab,
                                          const struct normalizer *z,
                                          struct error *e);
void added_tokens_fini(struct added_tokens *a);

/* Marks the tokens that text[0..n) spells as structural.  Short tokens, and
 * those of letters, digits and white space alone, stay as they are: any text
 * spells them. */
void added_tokens_protect(struct added_tokens *a, const struct vocab *vocab,
                          const char *text, size_t n);

/* The state of a search through one text. */
struct added_search {
    const struct added_tokens *added;
    const struct added_trie *trie;
    const char *text;
    size_t n;
    bool special;       /* control tokens count */
    bool all_untrusted; /* no structural token counts */
    size_t at;          /* position at which the search continues */
    size_t pause;       /* position at which it pauses; SIZE_MAX: nowhere */
    size_t gap;         /* start of the text that is no token */
    size_t space_end;   /* white space up to here was already walked over */
    /* No structural token has a byte in these; offsets are those of text plus
     * `base`. */
    const struct text_span *untrusted;
    size_t n_untrusted, base;
};

struct added_match {
    size_t gap, start, end; /* text[gap..start) is plain; the token follows */
    uint32_t id;
};

/* Starts a search without untrusted spans; the caller may set them. */
void added_search_init(struct added_search *s, const struct added_tokens *a,
                       bool normalized, bool special, const char *text,
                       size_t n);

/* Finds the next token.  Returns false at s->pause, where it can go on, and at
 * the end; s->gap is then the start of the remaining text.  start may be before
 * gap if neighbouring tokens take each other's white space. */
bool added_search_next(struct added_search *s, struct added_match *m);

/* Returns whether the search has paused before the end. */
bool added_search_paused(const struct added_search *s);

#endif
