/* expr.h - Regular expressions over bytes, and their derivatives.
 *
 * Equal expressions have equal ids, so that states of a lexer are ids.  The
 * derivative of an expression by a byte is what may follow that byte
 * (Brzozowski 1964; Owens, Reppy, Turon 2009).  Intersection and complement
 * cost no more than union.  Two kinds are no regular expressions: CALL enters
 * a rule of the grammar, and OBJECT lists the members of a JSON object that may
 * come next.  The machine (machine.h) steps over both; neither may be inside
 * AND or NOT.
 *
 * Threading: one thread at a time.  Memory: one budget; when it is exhausted
 * functions return EXPR_NONE, and `failed` of the budget is set.  Limits:
 * GRAMMAR_BYTES_MAX. */
#ifndef TEXT_GRAMMAR_EXPR_H
#define TEXT_GRAMMAR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/grammar/intern.h"

#define EXPR_NONE 0u         /* matches nothing */
#define EXPR_EPS  1u         /* matches the empty text */
#define EXPR_ALL  2u         /* matches every text */
#define EXPR_INF  UINT32_MAX /* a repetition without end */

enum expr_kind {
    EXPR_K_NONE,
    EXPR_K_EPS,
    EXPR_K_SET,    /* a: set of bytes */
    EXPR_K_CAT,    /* a, then b; a is no CAT but of expr_pair() */
    EXPR_K_OR,     /* children lists[a..a + b), ascending */
    EXPR_K_AND,    /* the same */
    EXPR_K_NOT,    /* a */
    EXPR_K_REP,    /* a, m to n times */
    EXPR_K_CALL,   /* a: rule, which never matches the empty text */
    EXPR_K_OBJECT, /* a: see objects.h */
    EXPR_K_MOD,    /* digits of a number that is -b modulo a */
};

enum expr_flag {
    EXPR_NULLABLE = 1, /* matches the empty text */
    EXPR_CALLS = 2,    /* has CALL or OBJECT */
    EXPR_HAS_AND = 4,  /* has AND, so it may be empty without being NONE */
    EXPR_ANY_END = 8,  /* ends with any characters of a JSON string */
    EXPR_CHAR = 16,    /* one character: no match is the start of another */
    EXPR_LIVE = 32,    /* matches some text */
    EXPR_DEAD = 64,    /* matches none */
};

struct byte_set {
    uint64_t w[4];
};

struct expr {
    uint32_t a, b, m, n;
    uint32_t first; /* set of bytes outside which the derivative is NONE */
    uint8_t kind, flags;
};

struct expr_pool {
    struct arena_budget budget;
    struct expr *exprs; /* [n] */
    uint32_t n, cap;
    struct intern table;
    uint32_t *lists; /* children of OR and AND, [n_lists] */
    uint32_t n_lists, cap_lists;
    struct byte_set *sets; /* [n_sets] */
    uint32_t n_sets, cap_sets;
    struct intern set_table;
    struct number_map steps; /* (expr, byte) -> derivative */
    uint32_t *marks;         /* [cap_marks], epoch of the last visit */
    uint32_t cap_marks, epoch;
    bool final;         /* whether calls are live no longer changes */
    uint32_t any_chars; /* any characters of a JSON string, without quotes */
    /* Returns what stands for an OBJECT.  NULL: there are none. */
    uint32_t (*unfold)(void *arg, uint32_t object);
    /* Returns whether a rule, or an object, can match any text. */
    bool (*calls_live)(void *arg, uint32_t rule);
    bool (*object_live)(void *arg, uint32_t object);
    void *arg;
};

/* Prepares a pool of at most max bytes. */
MUST_CHECK enum status expr_pool_init(struct expr_pool *p, size_t max,
                                      struct error *e);
void expr_pool_fini(struct expr_pool *p);

/* Make expressions.  They simplify, so the kind may differ from the name. */
uint32_t expr_set(struct expr_pool *p, const struct byte_set *s);
uint32_t expr_byte(struct expr_pool *p, uint8_t b);
uint32_t expr_range(struct expr_pool *p, uint8_t lo, uint8_t hi);
uint32_t expr_text(struct expr_pool *p, const char *s, size_t n);
uint32_t expr_cat(struct expr_pool *p, uint32_t a, uint32_t b);
/* As expr_cat(), but does not copy a sequence in front: for many different b.
 */
uint32_t expr_pair(struct expr_pool *p, uint32_t a, uint32_t b);
uint32_t expr_or(struct expr_pool *p, uint32_t a, uint32_t b);
uint32_t expr_or_n(struct expr_pool *p, const uint32_t *es, uint32_t n);
uint32_t expr_and(struct expr_pool *p, uint32_t a, uint32_t b);
uint32_t expr_not(struct expr_pool *p, uint32_t a);
uint32_t expr_rep(struct expr_pool *p, uint32_t a, uint32_t m, uint32_t n);
uint32_t expr_opt(struct expr_pool *p, uint32_t a);
uint32_t expr_call(struct expr_pool *p, uint32_t rule);
uint32_t expr_object(struct expr_pool *p, uint32_t object);
uint32_t expr_mod(struct expr_pool *p, uint32_t modulus, uint32_t rest);

/* Marks e as one character of a text: see EXPR_CHAR. */
uint32_t expr_mark_char(struct expr_pool *p, uint32_t e);

/* Returns the derivative by a byte; calls at the front do not take part. */
uint32_t expr_step(struct expr_pool *p, uint32_t e, uint8_t b);

bool expr_nullable(const struct expr_pool *p, uint32_t e);

/* Returns whether e matches any text.  Time: the states of its ANDs. */
bool expr_live(struct expr_pool *p, uint32_t e);

/* Returns whether e, which has no calls, matches s[0..n). */
bool expr_matches(struct expr_pool *p, uint32_t e, const char *s, size_t n);

/* Divides the bytes: those of one class have equal derivatives of every
 * expression that was refined.  Begins with one class. */
struct byte_classes {
    uint8_t of[256];
    uint8_t representative[256];
    unsigned n;
};
void byte_classes_init(struct byte_classes *c);
void expr_refine(struct expr_pool *p, uint32_t e, struct byte_classes *c);

bool byte_set_has(const struct byte_set *s, uint8_t b);
void byte_set_add(struct byte_set *s, uint8_t b);

#endif
