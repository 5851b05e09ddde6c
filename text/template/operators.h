/* operators.h - Arithmetic, comparison and slices, as in Python.
 *
 * Integers have 64 bits; an overflow is refused.
 *
 * Threading: one thread's.  Memory: the heap's. */
#ifndef TEXT_TEMPLATE_OPERATORS_H
#define TEXT_TEMPLATE_OPERATORS_H

#include "text/template/value.h"

/* Returns a op b; op is an OPERATOR() of lexer.h. */
struct value operator_binary(struct heap *h, unsigned op, struct value a,
                             struct value b);

/* Returns -v or +v. */
struct value operator_unary(struct heap *h, unsigned op, struct value v);

/* Returns whether a op b; op may be OPERATOR_IN or OPERATOR_NOT_IN. */
bool operator_compare(struct heap *h, unsigned op, struct value a,
                      struct value b);

/* Returns v[start:stop:step]; each may be missing or None. */
struct value operator_slice(struct heap *h, struct value v, struct value start,
                            struct value stop, struct value step);

#endif
