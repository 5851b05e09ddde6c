/* lexer.h - Tokens of a template, as Jinja2 cuts them.
 *
 * The options are those of published chat templates: trim_blocks and
 * lstrip_blocks are on, the last newline of the source is dropped, and every
 * kind of newline becomes "\n".  Comments produce no token; raw blocks
 * produce text.
 *
 * Threading: one thread's.  Memory: the heap's. */
#ifndef TEXT_TEMPLATE_LEXER_H
#define TEXT_TEMPLATE_LEXER_H

#include "text/template/value.h"

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,        /* text outside of tags */
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* text is decoded */
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR
};

/* An operator's number: its first byte, and its second byte times 256. */
#define OPERATOR(first, second) ((unsigned)(first) | (unsigned)(second) << 8)

struct token {
    enum token_kind kind;
    unsigned line;
    unsigned op;
    struct str text;
    int64_t i;
    double f;
};

struct tokens {
    struct token *items; /* [n], the last one is TOKEN_END */
    size_t n, cap;
};

/* Cuts source[n], valid UTF-8.  Fails on what is no token. */
void lexer_run(struct heap *h, const char *source, size_t n,
               struct tokens *out);

#endif
