#include <string.h>

#include "text/template/filters.h"
#include "text/template/methods.h"
#include "text/template/parser.h"

static struct node *parse_unary(struct parser *p, bool filters);
static struct node *parse_primary(struct parser *p);
static struct node *parse_postfix(struct parser *p, struct node *n);

static struct node *two(struct parser *p, enum node_kind kind, struct node *a,
                        struct node *b)
{
    struct node *n = parser_node(p, kind);

    n->a = a;
    n->b = b;
    return n;
}

_Noreturn static void refuse(struct parser *p, const char *kind,
                             struct str name)
{
    p->h->line = parser_token(p, 0)->line;
    heap_fail(p->h, ST_UNIMPLEMENTED, "the %s \"%.*s\" is not supported", kind,
              (int)(name.n < 64 ? name.n : 64), name.text);
}

/* ---- operators, from the weakest to the strongest ---- */

/* Powers group from the left in Jinja2, unlike Python. */
static struct node *parse_pow(struct parser *p)
{
    struct node *n = parse_unary(p, true);

    while (parser_is_op(p, OPERATOR('*', '*'))) {
        p->at++;
        n = two(p, NODE_BINARY, n, parse_unary(p, true));
        n->op = OPERATOR('*', '*');
    }
    return n;
}

static struct node *parse_product(struct parser *p)
{
    struct node *n = parse_pow(p);

    while (parser_is_op(p, '*') || parser_is_op(p, '/') ||
           parser_is_op(p, '%') || parser_is_op(p, OPERATOR('/', '/'))) {
        unsigned op = parser_token(p, 0)->op;

        p->at++;
        n = two(p, NODE_BINARY, n, parse_pow(p));
        n->op = op;
    }
    return n;
}

static struct node *parse_concat(struct parser *p)
{
    struct node *n = parse_product(p), *all;

    if (!parser_is_op(p, '~')) {
        return n;
    }
    all = parser_node(p, NODE_CONCAT);
    parser_add(p, all, n);
    while (parser_skip_op(p, '~')) {
        parser_add(p, all, parse_product(p));
    }
    return all;
}

static struct node *parse_sum(struct parser *p)
{
    struct node *n = parse_concat(p);

    while (parser_is_op(p, '+') || parser_is_op(p, '-')) {
        unsigned op = parser_token(p, 0)->op;

        p->at++;
        n = two(p, NODE_BINARY, n, parse_concat(p));
        n->op = op;
    }
    return n;
}

/* Consumes an operator of a comparison; returns 0 if there is none. */
static unsigned comparison(struct parser *p)
{
    const struct token *t = parser_token(p, 0);
    const struct token *next = parser_token(p, 1);
    bool is_not = t->kind == TOKEN_NAME && str_is(t->text, "not") &&
                  next->kind == TOKEN_NAME && str_is(next->text, "in");

    if (is_not) {
        p->at += 2;
        return OPERATOR_NOT_IN;
    }
    if (parser_skip_name(p, "in")) {
        return OPERATOR_IN;
    }
    if (t->kind == TOKEN_OPERATOR &&
        (t->op == '<' || t->op == '>' || t->op == OPERATOR('=', '=') ||
         t->op == OPERATOR('!', '=') || t->op == OPERATOR('<', '=') ||
         t->op == OPERATOR('>', '='))) {
        p->at++;
        return t->op;
    }
    return 0;
}

/* "a < b < c" is one node: each operand is evaluated once. */
static struct node *parse_compare(struct parser *p)
{
    struct node *n = parse_sum(p), *all = NULL;
    unsigned op;

    while ((op = comparison(p)) != 0) {
        struct node *operand = parser_node(p, NODE_OPERAND);

        operand->op = op;
        operand->a = parse_sum(p);
        if (all == NULL) {
            all = two(p, NODE_COMPARE, n, NULL);
        }
        parser_add(p, all, operand);
    }
    return all == NULL ? n : all;
}

static struct node *parse_not(struct parser *p)
{
    struct node *n;

    if (!parser_skip_name(p, "not")) {
        return parse_compare(p);
    }
    parser_enter(p);
    n = two(p, NODE_NOT, parse_not(p), NULL);
    p->nesting--;
    return n;
}

static struct node *parse_and(struct parser *p)
{
    struct node *n = parse_not(p);

    while (parser_skip_name(p, "and")) {
        n = two(p, NODE_AND, n, parse_not(p));
    }
    return n;
}

static struct node *parse_or(struct parser *p)
{
    struct node *n = parse_and(p);

    while (parser_skip_name(p, "or")) {
        n = two(p, NODE_OR, n, parse_and(p));
    }
    return n;
}

struct node *expression_parse(struct parser *p)
{
    struct node *n;

    parser_enter(p);
    n = parse_or(p);
    while (parser_skip_name(p, "if")) {
        struct node *test = parser_node(p, NODE_CONDITION);

        test->b = n;
        test->a = parse_or(p);
        if (parser_skip_name(p, "else")) {
            test->c = expression_parse(p);
        }
        n = test;
    }
    p->nesting--;
    return n;
}

/* A comma may end a tuple, so what follows decides. */
static bool ends_tuple(const struct parser *p)
{
    enum token_kind kind = parser_token(p, 0)->kind;

    return kind == TOKEN_PRINT_END || kind == TOKEN_BLOCK_END ||
           parser_is_op(p, ')') || parser_is_name(p, "in") ||
           parser_is_name(p, "recursive");
}

static struct node *tuple_item(struct parser *p, bool conditions)
{
    struct node *n;

    if (conditions) {
        return expression_parse(p);
    }
    parser_enter(p);
    n = parse_or(p);
    p->nesting--;
    return n;
}

struct node *expression_tuple(struct parser *p, bool conditions)
{
    struct node *first = tuple_item(p, conditions), *all;

    if (!parser_is_op(p, ',')) {
        return first;
    }
    all = parser_node(p, NODE_TUPLE);
    parser_add(p, all, first);
    while (parser_skip_op(p, ',') && !ends_tuple(p)) {
        parser_add(p, all, tuple_item(p, conditions));
    }
    return all;
}

/* ---- targets ---- */

static struct node *target_name(struct parser *p)
{
    struct node *n = parser_node(p, NODE_NAME);

    n->text = parser_need_name(p);
    parser_note(p, &p->assigned, n->text);
    return n;
}

struct node *expression_target(struct parser *p, bool attributes)
{
    bool bracket = parser_skip_op(p, '(');
    struct node *first = target_name(p), *all = first;

    if (attributes && !bracket && parser_skip_op(p, '.')) {
        struct node *n = two(p, NODE_ATTRIBUTE, first, NULL);

        n->text = parser_need_name(p);
        return n;
    }
    if (parser_is_op(p, ',')) {
        all = parser_node(p, NODE_TUPLE);
        parser_add(p, all, first);
        while (parser_skip_op(p, ',') && !ends_tuple(p)) {
            parser_add(p, all, target_name(p));
        }
    }
    if (bracket) {
        parser_need_op(p, ')');
    }
    return all;
}

/* ---- calls, filters and tests ---- */

void expression_arguments(struct parser *p, struct node *node)
{
    bool named = false;

    while (!parser_is_op(p, ')')) {
        const struct token *name = parser_token(p, 0);
        const struct token *eq = parser_token(p, 1);
        struct node *n = NULL;

        if (parser_is_op(p, '*') || parser_is_op(p, OPERATOR('*', '*'))) {
            refuse(p, "argument form", (struct str){"*", NULL, 1});
        }
        if (name->kind == TOKEN_NAME && eq->kind == TOKEN_OPERATOR &&
            eq->op == '=') {
            n = parser_node(p, NODE_NAMED);
            n->text = name->text;
            p->at += 2;
            n->a = expression_parse(p);
            named = true;
        } else if (named) {
            parser_fail(p, "an argument with a name, as the one before it");
        } else {
            n = expression_parse(p);
        }
        parser_add(p, node, n);
        if (!parser_skip_op(p, ',')) {
            break;
        }
    }
    parser_need_op(p, ')');
}

void expression_parameters(struct parser *p, struct node *macro)
{
    bool optional = false;

    while (!parser_is_op(p, ')')) {
        struct node *n = target_name(p);

        if (parser_skip_op(p, '=')) {
            n->a = expression_parse(p);
            optional = true;
        } else if (optional) {
            parser_fail(p, "a default, as the parameter before has one");
        }
        parser_add(p, macro, n);
        if (!parser_skip_op(p, ',')) {
            break;
        }
    }
    parser_need_op(p, ')');
}

/* Filters such as map('upper') name another filter, select('odd') a test. */
static void check_named(struct parser *p, const struct node *n)
{
    const char *name = n->builtin->name;
    bool tests =
        strncmp(name, "select", 6) == 0 || strncmp(name, "reject", 6) == 0;
    size_t at = strstr(name, "attr") != NULL ? 1 : 0;
    const struct node *arg = n->n > at ? n->list[at] : NULL;

    if ((!tests && strcmp(name, "map") != 0) || arg == NULL ||
        arg->kind != NODE_CONST || arg->value.kind != VALUE_STRING) {
        return;
    }
    if (tests && test_find(arg->value.s) == NULL) {
        refuse(p, "test", arg->value.s);
    }
    if (!tests && filter_find(arg->value.s) == NULL) {
        refuse(p, "filter", arg->value.s);
    }
}

static struct node *parse_filter(struct parser *p, struct node *operand)
{
    struct node *n = two(p, NODE_FILTER, operand, NULL);

    n->text = parser_need_name(p);
    n->builtin = filter_find(n->text);
    if (n->builtin == NULL) {
        refuse(p, "filter", n->text);
    }
    if (parser_skip_op(p, '(')) {
        expression_arguments(p, n);
    }
    check_named(p, n);
    return n;
}

struct node *expression_filters(struct parser *p, struct node *operand,
                                bool first)
{
    if (first) {
        operand = parse_filter(p, operand);
    }
    while (parser_skip_op(p, '|')) {
        operand = parse_filter(p, operand);
    }
    return operand;
}

/* A test may take one argument without brackets: "is divisibleby 3". */
static bool has_argument(const struct parser *p)
{
    enum token_kind kind = parser_token(p, 0)->kind;

    if (kind == TOKEN_NAME) {
        return !parser_is_name(p, "else") && !parser_is_name(p, "or") &&
               !parser_is_name(p, "and");
    }
    return kind == TOKEN_STRING || kind == TOKEN_INT || kind == TOKEN_FLOAT ||
           parser_is_op(p, '[') || parser_is_op(p, '{');
}

static struct node *parse_test(struct parser *p, struct node *operand)
{
    bool negate = parser_skip_name(p, "not");
    struct node *n = two(p, NODE_TEST, operand, NULL);

    n->text = parser_need_name(p);
    n->builtin = test_find(n->text);
    if (n->builtin == NULL) {
        refuse(p, "test", n->text);
    }
    if (parser_skip_op(p, '(')) {
        expression_arguments(p, n);
    } else if (has_argument(p)) {
        if (parser_is_name(p, "is")) {
            parser_fail(p, "\"and\" between two tests");
        }
        parser_add(p, n, parse_postfix(p, parse_primary(p)));
    }
    return negate ? two(p, NODE_NOT, n, NULL) : n;
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *n = two(p, NODE_CALL, callee, NULL);

    if (callee->kind == NODE_ATTRIBUTE &&
        !template_method_exists(callee->text)) {
        refuse(p, "method", callee->text);
    }
    if (callee->kind == NODE_NAME) {
        parser_note(p, &p->called, callee->text);
    }
    expression_arguments(p, n);
    return n;
}

/* ---- access ---- */

static struct node *parse_attribute(struct parser *p, struct node *object)
{
    const struct token *t = parser_token(p, 0);
    struct node *n = two(p, NODE_ATTRIBUTE, object, NULL);

    if (t->kind == TOKEN_INT) {
        n->kind = NODE_ITEM;
        n->b = parser_node(p, NODE_CONST);
        n->b->value = value_int(t->i);
        p->at++;
        return n;
    }
    n->text = parser_need_name(p);
    return n;
}

static struct node *slice_part(struct parser *p)
{
    return parser_is_op(p, ':') || parser_is_op(p, ']') ? NULL
                                                        : expression_parse(p);
}

static struct node *parse_item(struct parser *p, struct node *object)
{
    struct node *n = two(p, NODE_ITEM, object, slice_part(p));

    if (parser_skip_op(p, ':')) {
        n->kind = NODE_SLICE;
        n->c = slice_part(p);
        if (parser_skip_op(p, ':')) {
            n->d = slice_part(p);
        }
    } else if (n->b == NULL) {
        parser_fail(p, "a key");
    }
    parser_need_op(p, ']');
    return n;
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
    for (;;) {
        if (parser_skip_op(p, '.')) {
            n = parse_attribute(p, n);
        } else if (parser_skip_op(p, '[')) {
            n = parse_item(p, n);
        } else if (parser_skip_op(p, '(')) {
            n = parse_call(p, n);
        } else {
            return n;
        }
    }
}

/* Calls are legal after filters and tests as well. */
static struct node *parse_suffixes(struct parser *p, struct node *n)
{
    for (;;) {
        if (parser_skip_op(p, '|')) {
            n = parse_filter(p, n);
        } else if (parser_skip_name(p, "is")) {
            n = parse_test(p, n);
        } else if (parser_skip_op(p, '(')) {
            n = parse_call(p, n);
        } else {
            return n;
        }
    }
}

static struct node *parse_unary(struct parser *p, bool filters)
{
    struct node *n;
    unsigned op = parser_token(p, 0)->op;

    if (parser_is_op(p, '-') || parser_is_op(p, '+')) {
        p->at++;
        parser_enter(p);
        n = two(p, NODE_UNARY, parse_unary(p, false), NULL);
        p->nesting--;
        n->op = op;
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    return filters ? parse_suffixes(p, n) : n;
}

/* ---- literals ---- */

static struct node *constant(struct parser *p, struct value v)
{
    struct node *n = parser_node(p, NODE_CONST);

    n->value = v;
    p->at++;
    return n;
}

static struct node *parse_name(struct parser *p)
{
    struct node *n;

    if (parser_is_name(p, "true") || parser_is_name(p, "True")) {
        return constant(p, value_bool(true));
    }
    if (parser_is_name(p, "false") || parser_is_name(p, "False")) {
        return constant(p, value_bool(false));
    }
    if (parser_is_name(p, "none") || parser_is_name(p, "None")) {
        return constant(p, value_none());
    }
    p->uses |= parser_is_name(p, "varargs") ? MACRO_USES_VARARGS : 0;
    p->uses |= parser_is_name(p, "kwargs") ? MACRO_USES_KWARGS : 0;
    p->uses |= parser_is_name(p, "caller") ? MACRO_USES_CALLER : 0;
    p->reads_tools = p->reads_tools || parser_is_name(p, "tools");
    n = parser_node(p, NODE_NAME);
    n->text = parser_need_name(p);
    return n;
}

/* Literals that follow one another are one string. */
static struct node *parse_string(struct parser *p)
{
    struct node *n = parser_node(p, NODE_CONST);
    struct str s = parser_token(p, 0)->text;

    p->at++;
    while (parser_token(p, 0)->kind == TOKEN_STRING) {
        s = str_concat(p->h, s, parser_token(p, 0)->text);
        p->at++;
    }
    n->value = value_str(s);
    return n;
}

static struct node *parse_list(struct parser *p)
{
    struct node *n = parser_node(p, NODE_LIST);

    p->at++;
    while (!parser_is_op(p, ']')) {
        parser_add(p, n, expression_parse(p));
        if (!parser_skip_op(p, ',')) {
            break;
        }
    }
    parser_need_op(p, ']');
    return n;
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = parser_node(p, NODE_DICT);

    p->at++;
    while (!parser_is_op(p, '}')) {
        parser_add(p, n, expression_parse(p));
        parser_need_op(p, ':');
        parser_add(p, n, expression_parse(p));
        if (!parser_skip_op(p, ',')) {
            break;
        }
    }
    parser_need_op(p, '}');
    return n;
}

static struct node *parse_brackets(struct parser *p)
{
    struct node *n;

    p->at++;
    if (parser_skip_op(p, ')')) {
        return parser_node(p, NODE_TUPLE);
    }
    n = expression_tuple(p, true);
    parser_need_op(p, ')');
    return n;
}

static struct node *parse_primary(struct parser *p)
{
    const struct token *t = parser_token(p, 0);

    switch (t->kind) {
    case TOKEN_NAME:
        return parse_name(p);
    case TOKEN_STRING:
        return parse_string(p);
    case TOKEN_INT:
        return constant(p, value_int(t->i));
    case TOKEN_FLOAT:
        return constant(p, value_float(t->f));
    default:
        if (parser_is_op(p, '(')) {
            return parse_brackets(p);
        }
        if (parser_is_op(p, '[')) {
            return parse_list(p);
        }
        if (parser_is_op(p, '{')) {
            return parse_dict(p);
        }
        parser_fail(p, "an expression");
    }
}
