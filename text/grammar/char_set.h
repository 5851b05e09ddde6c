/* char_set.h - Sets of characters, and their expressions over bytes.
 *
 * In JSON every character has exactly one spelling here: as it is, or the
 * short escape, or \u00XX in lower case for other control characters.
 * Because spellings are unique, intersection and complement of expressions over
 * bytes are those of the texts that they stand for.
 *
 * Threading: one thread.  Memory: in the pool's budget, to char_set_fini(). */
#ifndef TEXT_GRAMMAR_CHAR_SET_H
#define TEXT_GRAMMAR_CHAR_SET_H

#include "text/grammar/expr.h"

#define CHAR_LAST 0x10FFFFu

struct char_range {
    uint32_t lo, hi;
};

struct char_set {
    struct char_range *ranges; /* [n] */
    uint32_t n, cap;
};

void char_set_fini(struct char_set *s, struct expr_pool *p);
void char_set_add(struct char_set *s, struct expr_pool *p, uint32_t lo,
                  uint32_t hi);
void char_set_add_all(struct char_set *s, struct expr_pool *p,
                      const struct char_set *from);
/* Sorts and joins the ranges, and complements the set if asked. */
void char_set_finish(struct char_set *s, struct expr_pool *p, bool invert);

/* Returns the expression of one character of a finished set, in UTF-8 or as
 * inside a JSON string.  Surrogates are left out. */
uint32_t char_set_expr(struct expr_pool *p, const struct char_set *s,
                       bool json);

/* Returns the expression of a text inside a JSON string, without quotes. */
uint32_t char_json_text(struct expr_pool *p, const char *s, size_t n);

/* Expressions that every pool has, with the same ids. */
struct char_constants {
    uint32_t any;      /* a character of a JSON string, in its one spelling */
    uint32_t any_full; /* the same in every spelling */
    uint32_t raw;      /* a character in UTF-8 */
    uint32_t quote;
    uint32_t rest_full; /* any characters in every spelling, and a quote */
    uint32_t rest;      /* any characters in their one spelling, and a quote */
};

/* Makes them; call it first on a new pool. */
void char_constants_init(struct char_constants *c, struct expr_pool *p);

#endif
