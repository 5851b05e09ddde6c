/* ast.h - The syntax tree of a template.
 *
 *     kind         text     a         b        c        d      list
 *     CONST        -        (value)
 *     NAME         name
 *     LIST, TUPLE  -        -         -        -        -      elements
 *     DICT         -        -         -        -        -      key, value, ...
 *     CONCAT       -        -         -        -        -      operands of ~
 *     BINARY       -        left      right                    (op)
 *     UNARY        -        operand                            (op)
 *     NOT          -        operand
 *     AND, OR      -        left      right
 *     COMPARE      -        left      -        -        -      OPERANDs
 *     OPERAND      -        right                              (op)
 *     CONDITION    -        test      then     else
 *     ATTRIBUTE    name     object
 *     ITEM         -        object    key
 *     SLICE        -        object    start    stop     step
 *     CALL         -        callee    -        -        -      arguments
 *     FILTER       -        operand   -        -        -      arguments
 *     TEST         -        operand   -        -        -      arguments
 *     NAMED        name     value
 *     HOLE         -        the text of a filter block
 *
 *     BLOCK        -        -         -        -        -      statements
 *     DATA         text
 *     PRINT        -        value
 *     IF           -        test      then     else
 *     FOR          -        target    iterable condition body  else (one)
 *     SET          -        target    value
 *     SET_BLOCK    -        target    filters  -        body
 *     MACRO        name     -         -        -        body   parameters
 *     CALL_BLOCK   -        call      macro
 *     FILTER_BLOCK -        filters   -        -        body
 *     BREAK, CONTINUE
 *
 * A MACRO's op holds MACRO_USES_*: names in its body that a call must set.
 * A parameter is a NAME whose `a` is its default or NULL.  NAMED arguments
 * follow those by position.
 *
 * Threading: read-only once parsed.  Memory: the heap of the compilation. */
#ifndef TEXT_TEMPLATE_AST_H
#define TEXT_TEMPLATE_AST_H

#include "text/template/builtin.h"

enum node_kind {
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,
    NODE_CONCAT,
    NODE_BINARY,
    NODE_UNARY,
    NODE_NOT,
    NODE_AND,
    NODE_OR,
    NODE_COMPARE,
    NODE_OPERAND,
    NODE_CONDITION,
    NODE_ATTRIBUTE,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NAMED,
    NODE_HOLE,
    NODE_BLOCK,
    NODE_DATA,
    NODE_PRINT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_BREAK,
    NODE_CONTINUE
};

/* Operators of OPERAND beside those of lexer.h. */
#define OPERATOR_IN     1u
#define OPERATOR_NOT_IN 2u

#define MACRO_USES_VARARGS 1u
#define MACRO_USES_KWARGS  2u
#define MACRO_USES_CALLER  4u

struct node {
    enum node_kind kind;
    unsigned line;
    unsigned op;
    struct str text;
    struct value value;
    const struct builtin *builtin; /* FILTER and TEST */
    struct node *a, *b, *c, *d;
    struct node **list; /* [n] */
    size_t n, cap;
};

#endif
