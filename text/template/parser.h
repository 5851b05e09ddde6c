/* parser.h - From tokens to the syntax tree.
 *
 * A construct, filter, test, method or function that is not supported is
 * refused here by its name and line.
 *
 * Threading: one thread's.  Memory: the heap's. */
#ifndef TEXT_TEMPLATE_PARSER_H
#define TEXT_TEMPLATE_PARSER_H

#include "text/template/ast.h"
#include "text/template/lexer.h"

struct names {
    struct str *items;
    unsigned *lines;
    size_t n, cap;
};

struct parser {
    struct heap *h;
    struct tokens tokens;
    size_t at;
    size_t nodes;
    unsigned nesting, loops;
    unsigned uses;         /* MACRO_USES_* of the macro around */
    bool reads_tools;      /* it names the variable "tools" */
    struct names assigned; /* names that the template gives a value */
    struct names called;   /* names that it calls */
};

/* Parses a whole template, valid UTF-8.  Sets *reads_tools: it names the
 * variable "tools". */
const struct node *parser_run(struct heap *h, const char *source, size_t n,
                              bool *reads_tools);

/* ---- between parser.c and expression.c ---- */

const struct token *parser_token(const struct parser *p, size_t ahead);
bool parser_is_name(const struct parser *p, const char *name);
bool parser_skip_name(struct parser *p, const char *name);
bool parser_is_op(const struct parser *p, unsigned op);
bool parser_skip_op(struct parser *p, unsigned op);
void parser_need_op(struct parser *p, unsigned op);
struct str parser_need_name(struct parser *p);
_Noreturn void parser_fail(struct parser *p, const char *expected);
struct node *parser_node(struct parser *p, enum node_kind kind);
void parser_add(struct parser *p, struct node *to, struct node *child);
void parser_enter(struct parser *p);
void parser_note(struct parser *p, struct names *names, struct str name);

/* Parse an expression; a tuple without brackets, too; without "if". */
struct node *expression_parse(struct parser *p);
struct node *expression_tuple(struct parser *p, bool conditions);

/* Parses the target of an assignment: a name, a tuple, or ns.name. */
struct node *expression_target(struct parser *p, bool attributes);

/* Parses "a | b | c" after a block's keyword, applied to a HOLE. */
struct node *expression_filters(struct parser *p, struct node *operand,
                                bool first);

/* Parses a call's arguments after its "(" into node->list. */
void expression_arguments(struct parser *p, struct node *node);

/* Parses the parameters of a macro after "(". */
void expression_parameters(struct parser *p, struct node *macro);

#endif
