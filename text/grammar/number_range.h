/* number_range.h - Expressions of the numbers on one side of a bound.
 *
 * They match decimal numbers without exponent, as JSON spells them.
 *
 * Threading: one thread.  Memory: in the pool. */
#ifndef TEXT_GRAMMAR_NUMBER_RANGE_H
#define TEXT_GRAMMAR_NUMBER_RANGE_H

#include <jansson.h>

#include "text/grammar/expr.h"

/* Returns -?digits without a leading zero. */
uint32_t number_integer(struct expr_pool *p);

/* Returns an integer with an optional fraction, and with an optional exponent
 * of at most two digits if asked, so that every value is finite. */
uint32_t number_decimal(struct expr_pool *p, bool exponent);

/* Returns the numbers at or above a bound, or at or below it; strict: not the
 * bound itself.  v: a JSON number. */
uint32_t number_at_least(struct expr_pool *p, const json_t *v, bool strict);
uint32_t number_at_most(struct expr_pool *p, const json_t *v, bool strict);

/* Returns the multiples of v.  Returns EXPR_NONE if v is neither an integer up
 * to NUMBER_MULTIPLE_MAX nor a negative power of ten. */
uint32_t number_multiple(struct expr_pool *p, const json_t *v);

#define NUMBER_MULTIPLE_MAX 100000

/* Prints a number as its shortest text that reads back equal. */
#define NUMBER_TEXT 32
void number_text(char out[NUMBER_TEXT], const json_t *v);

#endif
