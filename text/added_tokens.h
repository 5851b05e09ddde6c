/* added_tokens.h - tokens found in a text before anything else is.
 *
 * Two sets: "normalized" tokens are looked for in normalised text, the others
 * in the text as it came.  In each, the leftmost match counts, and of those
 * that start together the longest; matches do not overlap.  A match counts
 * further only if
 *     special      control tokens are asked for
 *     single_word  no word character stands before or behind it
 * and it takes the white space before (lstrip) and behind (rstrip) with it.
 *
 * Threading: read-only once parsed.
 * Limits: TEXT_ADDED_TOKENS, TEXT_ADDED_BYTES; a search looks at most the
 * longest token's bytes ahead of each byte, so it is linear in the text. */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/normalizer.h"
#include "text/pair_map.h"
#include "text/vocab.h"

struct added_token {
    const char *content; /* as it is looked for */
    size_t n;
    char *owned; /* content, if the normalizer changed it */
    uint32_t id;
    bool special, normalized, single_word, lstrip, rstrip;
};

struct added_trie {
    struct pair_map edges; /* (node, byte) -> (node, 0) */
    uint32_t *token;       /* [nodes]: index of the token ending here + 1 */
    bool first[256];       /* some token starts with this byte */
    bool any;
};

struct added_tokens {
    struct added_token *tokens;
    size_t n;
    struct added_trie raw, normalized;
};

/* Read the file's "added_tokens" (NULL is none) and enter them into vocab,
 * which has room for them.  Contents stay borrowed from list's strings unless
 * normalised, so list must outlive the parse only: the tries hold copies.
 * a is zeroed first; added_tokens_fini() is legal after a failure too. */
MUST_CHECK enum status added_tokens_parse(struct added_tokens *a,
                                          const json_t *list,
                                          struct vocab *vocab,
                                          const struct normalizer *z,
                                          struct error *e);
void added_tokens_fini(struct added_tokens *a);

/* A search through one text. */
struct added_search {
    const struct added_tokens *added;
    const struct added_trie *trie;
    const char *text;
    size_t n;
    bool special;     /* control tokens count */
    size_t at;        /* where to look on */
    size_t gap;       /* where the text that is no token starts */
    size_t space_end; /* white space up to here has been walked over */
};

struct added_match {
    size_t gap, start, end; /* text[gap..start) is plain, then the token */
    uint32_t id;
};

void added_search_init(struct added_search *s, const struct added_tokens *a,
                       bool normalized, bool special, const char *text,
                       size_t n);

/* The next token; false at the end, and then s->gap is where the rest of the
 * text starts.  start may lie before gap if tokens take each other's space. */
bool added_search_next(struct added_search *s, struct added_match *m);

#endif
