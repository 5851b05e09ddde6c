/* eval.h - Evaluation of the syntax tree.
 *
 * A scope holds the names that one loop round, macro call or the template
 * itself has set.  Names are searched from the innermost scope outward, then
 * among the functions of builtin.h.
 *
 * Threading: one thread's.  Memory: the heap's. */
#ifndef TEXT_TEMPLATE_EVAL_H
#define TEXT_TEMPLATE_EVAL_H

#include "text/template/ast.h"

struct binding {
    struct str name;
    struct value value;
};

struct scope {
    struct scope *parent;
    struct binding *items;
    size_t n, cap;
    bool kept; /* a macro refers to it */
};

struct macro {
    const struct node *node;
    struct scope *scope; /* in which it was defined */
};

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

struct eval {
    struct heap *h;
    struct scope *scope;
    struct builder *out; /* where printed text goes */
    enum flow flow;      /* a loop is being left or continued */
    struct value hole;   /* the text of the filter block */
    struct value now;    /* Unix time in seconds */
};

/* Makes a scope inside *parent. */
struct scope *scope_new(struct heap *h, struct scope *parent);

/* Sets a name in this scope. */
void scope_set(struct heap *h, struct scope *s, struct str name,
               struct value v);

/* Finds a name; NULL if no scope has it. */
const struct value *scope_get(struct heap *h, const struct scope *s,
                              struct str name);

/* Returns an expression's value. */
struct value eval_expression(struct eval *x, const struct node *n);

/* Calls a macro, function or method; caller may be NULL. */
struct value eval_call(struct eval *x, const struct node *call,
                       const struct macro *caller);

/* Runs statements; printed text goes to x->out. */
void exec_statement(struct eval *x, const struct node *n);

/* Runs statements and returns what they print. */
struct str exec_capture(struct eval *x, const struct node *body);

/* Returns what a macro prints. */
struct value macro_call(struct eval *x, const struct macro *m,
                        const struct args *a);

#endif
