#include "text/template/eval.h"
#include "text/template/print.h"

/* ---- assignment ---- */

static void assign(struct eval *x, const struct node *target, struct value v);

static void unpack(struct eval *x, const struct node *target, struct value v)
{
    const struct list *l = value_iterate(x->h, v);

    if (l->n != target->n) {
        heap_fail(x->h, ST_INVALID_ARGUMENT,
                  "%zu values cannot be assigned to %zu names", l->n,
                  target->n);
    }
    for (size_t i = 0; i < l->n; i++) {
        assign(x, target->list[i], l->items[i]);
    }
}

static void assign(struct eval *x, const struct node *target, struct value v)
{
    struct value ns;

    if (target->kind == NODE_NAME) {
        scope_set(x->h, x->scope, target->text, v);
    } else if (target->kind == NODE_TUPLE) {
        unpack(x, target, v);
    } else {
        ns = eval_expression(x, target->a);
        if (ns.kind != VALUE_NAMESPACE) {
            heap_fail(x->h, ST_INVALID_ARGUMENT,
                      "only a namespace takes attributes, found %s",
                      value_kind_name(ns));
        }
        dict_set(x->h, ns.dict, value_str(target->text), v);
    }
}

/* ---- text ---- */

struct str exec_capture(struct eval *x, const struct node *body)
{
    struct builder b = {.h = x->h}, *out = x->out;

    x->out = &b;
    exec_statement(x, body);
    x->out = out;
    return builder_str(&b);
}

/* Runs a body in a scope of its own, and returns its text. */
static struct str capture_scoped(struct eval *x, const struct node *body)
{
    struct scope *scope = x->scope;
    struct str s;

    x->scope = scope_new(x->h, scope);
    s = exec_capture(x, body);
    x->scope = scope;
    return s;
}

/* Runs the chain of filters on a text, which its HOLE stands for. */
static struct value filtered(struct eval *x, const struct node *filters,
                             struct str text)
{
    struct value hole = x->hole, v;

    x->hole = value_str(text);
    v = eval_expression(x, filters);
    x->hole = hole;
    return v;
}

/* ---- loops ---- */

/* The elements that meet the loop's condition. */
/* The condition is evaluated before the first round, so that loop.length and
 * loop.last are right. */
static const struct list *selected(struct eval *x, const struct node *n,
                                   const struct list *all)
{
    struct scope *scope = x->scope;
    struct list *l = value_list(x->h, SHAPE_LIST, 0).list;

    x->scope = scope_new(x->h, scope);
    for (size_t i = 0; i < all->n; i++) {
        x->scope->n = 0;
        assign(x, n->a, all->items[i]);
        if (value_true(eval_expression(x, n->c))) {
            list_add(x->h, l, all->items[i]);
        }
    }
    x->scope = scope;
    return l;
}

/* Each round has an empty scope.  The memory of the last one is used again,
 * unless a macro was defined there. */
static struct scope *next_round(struct heap *h, struct scope *last,
                                struct scope *parent)
{
    if (last == NULL || last->kept) {
        return scope_new(h, parent);
    }
    last->n = 0;
    return last;
}

static void exec_for(struct eval *x, const struct node *n)
{
    struct scope *scope = x->scope, *round = NULL;
    struct loop *loop = heap_alloc(x->h, sizeof *loop);
    const struct list *all = value_iterate(x->h, eval_expression(x, n->b));

    loop->items = n->c == NULL ? all : selected(x, n, all);
    for (loop->at = 0; loop->at < loop->items->n; loop->at++) {
        heap_steps(x->h, 1);
        round = next_round(x->h, round, scope);
        x->scope = round;
        scope_set(x->h, x->scope, (struct str){"loop", NULL, 4},
                  (struct value){.kind = VALUE_LOOP, .loop = loop});
        assign(x, n->a, loop->items->items[loop->at]);
        exec_statement(x, n->d);
        if (x->flow == FLOW_BREAK) {
            x->flow = FLOW_ON;
            break;
        }
        x->flow = FLOW_ON;
    }
    x->scope = scope;
    if (loop->items->n == 0 && n->n > 0) {
        x->scope = scope_new(x->h, scope);
        exec_statement(x, n->list[0]);
        x->scope = scope;
    }
}

/* ---- macros ---- */

static struct macro *define(struct eval *x, const struct node *n)
{
    struct macro *m = heap_alloc(x->h, sizeof *m);

    m->node = n;
    m->scope = x->scope;
    for (struct scope *s = x->scope; s != NULL && !s->kept; s = s->parent) {
        s->kept = true;
    }
    return m;
}

static const struct value *named_argument(const struct args *a, struct str name)
{
    for (size_t i = 0; i < a->n_named; i++) {
        if (str_equal(a->named[i].name, name)) {
            return &a->named[i].value;
        }
    }
    return NULL;
}

static bool is_parameter(const struct node *macro, struct str name)
{
    for (size_t i = 0; i < macro->n; i++) {
        if (str_equal(macro->list[i]->text, name)) {
            return true;
        }
    }
    return false;
}

/* Arguments that no parameter takes become varargs and kwargs, if the macro's
 * body uses these names; otherwise they are an error. */
static void bind_rest(struct eval *x, const struct node *n,
                      const struct args *a)
{
    struct value varargs = value_list(x->h, SHAPE_TUPLE, 0);
    struct value kwargs = value_dict(x->h);
    struct value caller = value_undefined((struct str){"caller", NULL, 6});

    for (size_t i = n->n; i < a->n; i++) {
        list_add(x->h, varargs.list, a->items[i]);
    }
    if (varargs.list->n > 0 && !(n->op & MACRO_USES_VARARGS)) {
        heap_fail(x->h, ST_INVALID_ARGUMENT,
                  "the macro %.*s takes %zu arguments, %zu are given",
                  (int)(n->text.n < 64 ? n->text.n : 64), n->text.text, n->n,
                  a->n);
    }
    for (size_t i = 0; i < a->n_named; i++) {
        struct str name = a->named[i].name;

        if (is_parameter(n, name)) {
            continue;
        }
        if (str_is(name, "caller") && (n->op & MACRO_USES_CALLER)) {
            caller = a->named[i].value;
        } else if (n->op & MACRO_USES_KWARGS) {
            dict_set(x->h, kwargs.dict, value_str(name), a->named[i].value);
        } else {
            heap_fail(x->h, ST_INVALID_ARGUMENT,
                      "a macro has no parameter \"%.*s\"",
                      (int)(name.n < 64 ? name.n : 64), name.text);
        }
    }
    if (n->op & MACRO_USES_VARARGS) {
        scope_set(x->h, x->scope, (struct str){"varargs", NULL, 7}, varargs);
    }
    if (n->op & MACRO_USES_KWARGS) {
        scope_set(x->h, x->scope, (struct str){"kwargs", NULL, 6}, kwargs);
    }
    if ((n->op & MACRO_USES_CALLER) &&
        !is_parameter(n, (struct str){"caller", NULL, 6})) {
        scope_set(x->h, x->scope, (struct str){"caller", NULL, 6}, caller);
    }
}

/* Defaults are evaluated at the call, in the macro's scope, so that they see
 * the parameters before them. */
static void bind(struct eval *x, const struct node *n, const struct args *a)
{
    bind_rest(x, n, a);
    for (size_t i = 0; i < n->n; i++) {
        const struct node *param = n->list[i];
        const struct value *named = named_argument(a, param->text);
        struct value v;

        if (i < a->n && named != NULL) {
            heap_fail(x->h, ST_INVALID_ARGUMENT,
                      "the parameter \"%.*s\" of a macro is given twice",
                      (int)(param->text.n < 64 ? param->text.n : 64),
                      param->text.text);
        }
        if (i < a->n) {
            v = a->items[i];
        } else if (named != NULL) {
            v = *named;
        } else {
            v = param->a != NULL ? eval_expression(x, param->a)
                                 : value_undefined(param->text);
        }
        scope_set(x->h, x->scope, param->text, v);
    }
}

struct value macro_call(struct eval *x, const struct macro *m,
                        const struct args *a)
{
    struct scope *scope = x->scope;
    struct value v;

    heap_enter(x->h);
    x->scope = scope_new(x->h, m->scope);
    bind(x, m->node, a);
    v = value_str(exec_capture(x, m->node->d));
    x->scope = scope;
    heap_leave(x->h);
    return v;
}

static void exec_call_block(struct eval *x, const struct node *n)
{
    print_value(x->out, eval_call(x, n->a, define(x, n->b)));
}

/* ---- all ---- */

static void exec_block(struct eval *x, const struct node *n)
{
    for (size_t i = 0; i < n->n && x->flow == FLOW_ON; i++) {
        exec_statement(x, n->list[i]);
    }
}

/* Branches are a chain, which may be long; no recursion. */
static void exec_if(struct eval *x, const struct node *n)
{
    while (n != NULL && n->kind == NODE_IF) {
        if (value_true(eval_expression(x, n->a))) {
            exec_statement(x, n->b);
            return;
        }
        n = n->c;
    }
    if (n != NULL) {
        exec_statement(x, n);
    }
}

static void dispatch(struct eval *x, const struct node *n)
{
    switch (n->kind) {
    case NODE_BLOCK:
        exec_block(x, n);
        break;
    case NODE_DATA:
        builder_put(x->out, n->text);
        break;
    case NODE_PRINT:
        print_value(x->out, eval_expression(x, n->a));
        break;
    case NODE_IF:
        exec_if(x, n);
        break;
    case NODE_FOR:
        exec_for(x, n);
        break;
    case NODE_SET:
        assign(x, n->a, eval_expression(x, n->b));
        break;
    case NODE_SET_BLOCK:
        assign(x, n->a, filtered(x, n->b, capture_scoped(x, n->d)));
        break;
    case NODE_MACRO:
        scope_set(x->h, x->scope, n->text,
                  (struct value){.kind = VALUE_MACRO, .macro = define(x, n)});
        break;
    case NODE_CALL_BLOCK:
        exec_call_block(x, n);
        break;
    case NODE_FILTER_BLOCK:
        print_value(x->out, filtered(x, n->a, capture_scoped(x, n->d)));
        break;
    default:
        x->flow = n->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        break;
    }
}

void exec_statement(struct eval *x, const struct node *n)
{
    heap_steps(x->h, 1);
    heap_enter(x->h);
    x->h->line = n->line;
    dispatch(x, n);
    heap_leave(x->h);
}
