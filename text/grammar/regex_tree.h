/* regex_tree.h - The tree of a regular expression, between parser and compiler.
 *
 * Threading: one thread.  Memory: nodes in the budget of the pool. */
#ifndef TEXT_GRAMMAR_REGEX_TREE_H
#define TEXT_GRAMMAR_REGEX_TREE_H

#include "text/grammar/char_set.h"

#define RE_NIL UINT32_MAX

enum re_kind {
    RE_EXPR, /* e: an expression of one character */
    RE_ALT,  /* children: sequences */
    RE_SEQ,  /* children */
    RE_REP,  /* child, m to n times */
    RE_BOL,  /* ^ */
    RE_EOL,  /* $ */
    RE_LOOK, /* child follows, or m != 0: does not follow */
};

struct re {
    enum re_kind kind;
    uint32_t child, next; /* RE_NIL: none */
    uint32_t e, m, n;
    bool anchors; /* has BOL, EOL or LOOK */
};

struct re_tree {
    struct expr_pool *p;
    struct re *nodes; /* [n] */
    uint32_t n, cap;
    bool json;
};

/* Parses s[0..n) to *root, an ALT.  Errors as regex_compile(). */
MUST_CHECK enum status re_parse(struct re_tree *t, const char *s, size_t n,
                                uint32_t *root, struct error *e);
void re_tree_fini(struct re_tree *t);

#endif
