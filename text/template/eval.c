#include "text/template/eval.h"

#include "text/template/access.h"
#include "text/template/functions.h"
#include "text/template/operators.h"
#include "text/template/print.h"

static struct value eval(struct eval *x, const struct node *n)
{
    return eval_expression(x, n);
}

/* ---- scopes ---- */

struct scope *scope_new(struct heap *h, struct scope *parent)
{
    struct scope *s = heap_alloc(h, sizeof *s);

    s->parent = parent;
    return s;
}

static struct value *find(struct heap *h, const struct scope *s,
                          struct str name)
{
    heap_steps(h, s->n / 16);
    for (size_t i = 0; i < s->n; i++) {
        if (str_equal(s->items[i].name, name)) {
            return &s->items[i].value;
        }
    }
    return NULL;
}

void scope_set(struct heap *h, struct scope *s, struct str name, struct value v)
{
    struct value *old = find(h, s, name);

    if (old != NULL) {
        *old = v;
        return;
    }
    if (s->n == s->cap) {
        s->items = heap_grow(h, s->items, s->n, sizeof *s->items, &s->cap);
    }
    s->items[s->n++] = (struct binding){name, v};
}

const struct value *scope_get(struct heap *h, const struct scope *s,
                              struct str name)
{
    const struct value *v = NULL;

    for (; s != NULL && v == NULL; s = s->parent) {
        heap_steps(h, 1);
        v = find(h, s, name);
    }
    return v;
}

/* A name that nothing defines is a value: "x is defined" asks for it. */
static struct value name_value(struct eval *x, struct str name)
{
    const struct value *v = scope_get(x->h, x->scope, name);
    const struct builtin *b;

    if (v != NULL) {
        return *v;
    }
    b = function_find(name);
    return b == NULL ? value_undefined(name)
                     : (struct value){.kind = VALUE_FUNCTION, .function = b};
}

/* ---- literals ---- */

static struct value eval_list(struct eval *x, const struct node *n)
{
    struct value v = value_list(
        x->h, n->kind == NODE_TUPLE ? SHAPE_TUPLE : SHAPE_LIST, n->n);

    for (size_t i = 0; i < n->n; i++) {
        list_add(x->h, v.list, eval(x, n->list[i]));
    }
    return v;
}

static struct value eval_dict(struct eval *x, const struct node *n)
{
    struct value v = value_dict(x->h);

    for (size_t i = 0; i < n->n; i += 2) {
        struct value key = eval(x, n->list[i]);

        dict_set(x->h, v.dict, key, eval(x, n->list[i + 1]));
    }
    return v;
}

/* All operands are printed into one string; pairs would copy the text once
 * for every "~". */
static struct value eval_concat(struct eval *x, const struct node *n)
{
    struct builder b = {.h = x->h};

    for (size_t i = 0; i < n->n; i++) {
        print_value(&b, eval(x, n->list[i]));
    }
    return value_str(builder_str(&b));
}

/* ---- operators ---- */

static struct value eval_compare(struct eval *x, const struct node *n)
{
    struct value left = eval(x, n->a);

    for (size_t i = 0; i < n->n; i++) {
        struct value right = eval(x, n->list[i]->a);

        if (!operator_compare(x->h, n->list[i]->op, left, right)) {
            return value_bool(false);
        }
        left = right;
    }
    return value_bool(true);
}

static struct value eval_condition(struct eval *x, const struct node *n)
{
    if (value_true(eval(x, n->a))) {
        return eval(x, n->b);
    }
    return n->c != NULL ? eval(x, n->c)
                        : value_undefined((struct str){
                              "the inline if without else", NULL, 26});
}

static struct value eval_or_missing(struct eval *x, const struct node *n)
{
    return n == NULL ? (struct value){.kind = VALUE_MISSING} : eval(x, n);
}

static struct value eval_slice(struct eval *x, const struct node *n)
{
    struct value v = eval(x, n->a);
    struct value start = eval_or_missing(x, n->b);
    struct value stop = eval_or_missing(x, n->c);

    return operator_slice(x->h, v, start, stop, eval_or_missing(x, n->d));
}

static struct value eval_binary(struct eval *x, const struct node *n)
{
    struct value a = eval(x, n->a), b = eval(x, n->b);

    return operator_binary(x->h, n->op, a, b);
}

/* ---- calls ---- */

/* Evaluates the arguments of a call, filter or test; `caller` joins those
 * with a name. */
static struct args arguments(struct eval *x, const struct node *n,
                             const struct macro *caller)
{
    struct value *items = heap_alloc(x->h, (n->n + 1) * sizeof *items);
    struct named *named = heap_alloc(x->h, (n->n + 1) * sizeof *named);
    struct args a = {.items = items, .named = named};

    for (size_t i = 0; i < n->n; i++) {
        const struct node *arg = n->list[i];

        if (arg->kind == NODE_NAMED) {
            named[a.n_named].name = arg->text;
            named[a.n_named++].value = eval(x, arg->a);
        } else {
            items[a.n++] = eval(x, arg);
        }
    }
    if (caller != NULL) {
        named[a.n_named++] = (struct named){
            {"caller", NULL, 6}, {.kind = VALUE_MACRO, .macro = caller}};
    }
    return a;
}

static struct value call_value(struct eval *x, struct value callee,
                               const struct args *a)
{
    switch (callee.kind) {
    case VALUE_MACRO:
        return macro_call(x, callee.macro, a);
    case VALUE_FUNCTION:
        return builtin_call(x->h, callee.function, x->now, a);
    case VALUE_METHOD:
        return builtin_call(x->h, callee.method->builtin, callee.method->object,
                            a);
    case VALUE_UNDEFINED:
        value_fail_undefined(x->h, callee);
    default:
        heap_fail(x->h, ST_INVALID_ARGUMENT, "%s cannot be called",
                  value_kind_name(callee));
    }
}

struct value eval_call(struct eval *x, const struct node *call,
                       const struct macro *caller)
{
    struct value callee = eval(x, call->a);
    struct args a = arguments(x, call, caller);

    x->h->line = call->line;
    return call_value(x, callee, &a);
}

static struct value eval_builtin(struct eval *x, const struct node *n)
{
    struct value in = eval(x, n->a);
    struct args a = arguments(x, n, NULL);

    x->h->line = n->line;
    return builtin_call(x->h, n->builtin, in, &a);
}

/* ---- all ---- */

static struct value eval_access(struct eval *x, const struct node *n)
{
    struct value v = eval(x, n->a), key;

    if (n->kind == NODE_ATTRIBUTE) {
        x->h->line = n->line;
        return access_attribute(x->h, v, n->text);
    }
    key = eval(x, n->b);
    x->h->line = n->line;
    return access_item(x->h, v, key);
}

/* "and" and "or" return an operand, not a bool. */
static struct value eval_logic(struct eval *x, const struct node *n)
{
    struct value v = eval(x, n->a);

    if (n->kind == NODE_NOT) {
        return value_bool(!value_true(v));
    }
    return value_true(v) == (n->kind == NODE_OR) ? v : eval(x, n->b);
}

static struct value dispatch(struct eval *x, const struct node *n)
{
    switch (n->kind) {
    case NODE_CONST:
        return n->value;
    case NODE_NAME:
        return name_value(x, n->text);
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_list(x, n);
    case NODE_DICT:
        return eval_dict(x, n);
    case NODE_CONCAT:
        return eval_concat(x, n);
    case NODE_BINARY:
        return eval_binary(x, n);
    case NODE_UNARY:
        return operator_unary(x->h, n->op, eval(x, n->a));
    case NODE_NOT:
    case NODE_AND:
    case NODE_OR:
        return eval_logic(x, n);
    case NODE_COMPARE:
        return eval_compare(x, n);
    case NODE_CONDITION:
        return eval_condition(x, n);
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
        return eval_access(x, n);
    case NODE_SLICE:
        return eval_slice(x, n);
    case NODE_CALL:
        return eval_call(x, n, NULL);
    case NODE_FILTER:
    case NODE_TEST:
        return eval_builtin(x, n);
    default:
        return x->hole;
    }
}

struct value eval_expression(struct eval *x, const struct node *n)
{
    struct value v;

    heap_steps(x->h, 1);
    heap_enter(x->h);
    x->h->line = n->line;
    v = dispatch(x, n);
    heap_leave(x->h);
    return v;
}
