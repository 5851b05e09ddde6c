#include "text/template/access.h"
#include "text/template/filters.h"
#include "text/template/lexer.h"
#include "text/template/operators.h"
#include "text/template/print.h"

/* Filters that are generators in Jinja2 give an iterator, without length. */
static struct value iterator(struct heap *h)
{
    return value_list(h, SHAPE_ITERATOR, 0);
}

static bool given(const struct args *a, size_t slot)
{
    return a->slot[slot].kind != VALUE_MISSING &&
           a->slot[slot].kind != VALUE_NONE;
}

/* ---- simple ---- */

static struct value run_length(struct heap *h, struct value in,
                               const struct args *a)
{
    (void)a;
    return value_int((int64_t)value_length(h, in));
}

static struct value run_list(struct heap *h, struct value in,
                             const struct args *a)
{
    const struct list *l = value_iterate(h, in);
    struct value v = value_list(h, SHAPE_LIST, l->n);

    (void)a;
    for (size_t i = 0; i < l->n; i++) {
        list_add(h, v.list, l->items[i]);
    }
    v.untrusted = in.untrusted;
    return v;
}

/* An undefined value, not an error, stands for the element of an empty list. */
static struct value run_first(struct heap *h, struct value in,
                              const struct args *a)
{
    const struct list *l = value_iterate(h, in);

    (void)a;
    return l->n > 0 ? l->items[0]
                    : value_undefined((struct str){"first", NULL, 5});
}

static struct value run_last(struct heap *h, struct value in,
                             const struct args *a)
{
    const struct list *l;

    (void)a;
    if (in.kind == VALUE_LIST && in.list->shape == SHAPE_ITERATOR) {
        heap_fail(h, ST_INVALID_ARGUMENT, "an iterator has no last element");
    }
    l = value_iterate(h, in);
    return l->n > 0 ? l->items[l->n - 1]
                    : value_undefined((struct str){"last", NULL, 4});
}

static struct value run_reverse(struct heap *h, struct value in,
                                const struct args *a)
{
    struct value v = iterator(h);
    const struct list *l;

    (void)a;
    if (in.kind == VALUE_STRING) {
        return operator_slice(h, in, value_none(), value_none(), value_int(-1));
    }
    l = value_iterate(h, in);
    for (size_t i = l->n; i > 0; i--) {
        list_add(h, v.list, l->items[i - 1]);
    }
    return v;
}

static struct value run_join(struct heap *h, struct value in,
                             const struct args *a)
{
    const struct list *l = value_iterate(h, in);
    struct builder b = {.h = h};
    struct str between = a->slot[0].kind == VALUE_MISSING
                             ? str_copy(h, "", 0, false)
                             : print_str(h, a->slot[0]);

    for (size_t i = 0; i < l->n; i++) {
        if (i > 0) {
            builder_put(&b, between);
        }
        heap_steps(h, 1);
        print_value(&b, given(a, 1) ? access_path(h, l->items[i], a->slot[1])
                                    : l->items[i]);
    }
    return value_str(builder_str(&b));
}

static struct value pair(struct heap *h, struct entry e)
{
    struct value v = value_list(h, SHAPE_TUPLE, 2);

    list_add(h, v.list, e.key);
    list_add(h, v.list, e.value);
    return v;
}

static struct value run_items(struct heap *h, struct value in,
                              const struct args *a)
{
    struct value v = iterator(h);

    (void)a;
    if (in.kind == VALUE_UNDEFINED) {
        return v;
    }
    if (in.kind != VALUE_DICT) {
        heap_fail(h, ST_INVALID_ARGUMENT, "items needs a dict, found %s",
                  value_kind_name(in));
    }
    for (size_t i = 0; i < in.dict->n; i++) {
        list_add(h, v.list, pair(h, in.dict->items[i]));
    }
    return v;
}

static struct value run_batch(struct heap *h, struct value in,
                              const struct args *a)
{
    int64_t size = need_int(h, args_need(h, a, 0, "linecount"), "batch");
    const struct list *l = value_iterate(h, in);
    struct value v = iterator(h), row = value_none();

    if (size < 1) {
        heap_fail(h, ST_INVALID_ARGUMENT, "batch needs a size of at least 1");
    }
    for (size_t i = 0; i < l->n; i++) {
        if (i % (size_t)size == 0) {
            row = value_list(h, SHAPE_LIST, 0);
            list_add(h, v.list, row);
        }
        list_add(h, row.list, l->items[i]);
    }
    while (l->n > 0 && given(a, 1) && row.list->n < (size_t)size) {
        list_add(h, row.list, a->slot[1]);
    }
    return v;
}

/* ---- order ---- */

struct by {
    bool case_sensitive, reverse;
    struct value attribute; /* VALUE_MISSING: the element itself */
    int64_t at;             /* of a pair; -1: not a pair */
};

/* Without case_sensitive, strings compare in lower case. */
static struct value sort_key(struct heap *h, const struct by *by,
                             struct value v)
{
    if (by->at >= 0) {
        v = v.list->items[by->at];
    } else if (by->attribute.kind != VALUE_MISSING &&
               by->attribute.kind != VALUE_NONE) {
        v = access_path(h, v, by->attribute);
    }
    return v.kind == VALUE_STRING && !by->case_sensitive
               ? value_str(case_lower(h, v.s))
               : v;
}

static bool before(struct heap *h, void *arg, const struct value *b,
                   const struct value *a)
{
    const struct by *by = arg;
    int c = value_compare(h, sort_key(h, by, *b), sort_key(h, by, *a));

    return by->reverse ? c > 0 : c < 0;
}

static struct value run_sort(struct heap *h, struct value in,
                             const struct args *a)
{
    struct by by = {.reverse = args_bool(a, 0, false),
                    .case_sensitive = args_bool(a, 1, false),
                    .attribute = a->slot[2],
                    .at = -1};
    struct value v = run_list(h, in, a);

    value_sort(h, v.list->items, v.list->n, before, &by);
    return v;
}

static struct value run_dictsort(struct heap *h, struct value in,
                                 const struct args *a)
{
    struct str which = args_str(h, a, 1, "key");
    struct by by = {.case_sensitive = args_bool(a, 0, false),
                    .reverse = args_bool(a, 2, false),
                    .at = str_is(which, "key") ? 0 : 1};
    struct value v = run_items(h, in, a);

    if (in.kind != VALUE_DICT || (by.at == 1 && !str_is(which, "value"))) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "dictsort needs a dict, and by must be key or value");
    }
    v.list->shape = SHAPE_LIST;
    value_sort(h, v.list->items, v.list->n, before, &by);
    return v;
}

static struct value extreme(struct heap *h, struct value in,
                            const struct args *a, bool greatest)
{
    struct by by = {.case_sensitive = args_bool(a, 0, false),
                    .reverse = greatest,
                    .attribute = a->slot[1],
                    .at = -1};
    const struct list *l = value_iterate(h, in);
    struct value best = value_undefined((struct str){"min", NULL, 3});

    for (size_t i = 0; i < l->n; i++) {
        if (i == 0 || before(h, &by, &l->items[i], &best)) {
            best = l->items[i];
        }
    }
    return best;
}

static struct value run_min(struct heap *h, struct value in,
                            const struct args *a)
{
    return extreme(h, in, a, false);
}

static struct value run_max(struct heap *h, struct value in,
                            const struct args *a)
{
    return extreme(h, in, a, true);
}

/* Values need not have an order or a hash, so every pair is compared; steps
 * bound the square. */
static struct value run_unique(struct heap *h, struct value in,
                               const struct args *a)
{
    const struct by by = {.case_sensitive = args_bool(a, 0, false),
                          .attribute = a->slot[1],
                          .at = -1};
    const struct list *l = value_iterate(h, in);
    struct value v = iterator(h), seen = value_list(h, SHAPE_LIST, 0);

    for (size_t i = 0; i < l->n; i++) {
        struct value key = sort_key(h, &by, l->items[i]);

        if (!value_in(h, key, seen)) {
            list_add(h, seen.list, key);
            list_add(h, v.list, l->items[i]);
        }
    }
    return v;
}

static struct value run_sum(struct heap *h, struct value in,
                            const struct args *a)
{
    const struct list *l = value_iterate(h, in);
    struct value sum =
        a->slot[1].kind == VALUE_MISSING ? value_int(0) : a->slot[1];

    for (size_t i = 0; i < l->n; i++) {
        heap_steps(h, 1);
        sum = operator_binary(h, '+', sum,
                              given(a, 0)
                                  ? access_path(h, l->items[i], a->slot[0])
                                  : l->items[i]);
    }
    return sum;
}

/* ---- map and select ---- */

static const struct value *named(const struct args *a, const char *name)
{
    for (size_t i = 0; i < a->n_named; i++) {
        if (str_is(a->named[i].name, name)) {
            return &a->named[i].value;
        }
    }
    return NULL;
}

/* The other form of map: an attribute, not a filter. */
static struct value map_attribute(struct heap *h, const struct list *l,
                                  const struct args *a)
{
    const struct value *path = named(a, "attribute");
    const struct value *otherwise = named(a, "default");
    struct value v = iterator(h);

    if (a->n > 0 || a->n_named > (otherwise != NULL ? 2u : 1u)) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "map(attribute=...) takes only a default as well");
    }
    for (size_t i = 0; i < l->n; i++) {
        struct value item = access_path(h, l->items[i], *path);

        list_add(h, v.list,
                 item.kind == VALUE_UNDEFINED && otherwise != NULL ? *otherwise
                                                                   : item);
    }
    return v;
}

static struct value run_map(struct heap *h, struct value in,
                            const struct args *a)
{
    const struct list *l = value_iterate(h, in);
    const struct builtin *filter;
    struct value v = iterator(h);
    struct str name;

    if (named(a, "attribute") != NULL) {
        return map_attribute(h, l, a);
    }
    if (a->n == 0) {
        heap_fail(h, ST_INVALID_ARGUMENT, "map needs the name of a filter");
    }
    name = need_str(h, a->items[0], "map");
    filter = filter_find(name);
    if (filter == NULL) {
        heap_fail(h, ST_UNIMPLEMENTED, "the filter \"%.*s\" is not supported",
                  (int)(name.n < 64 ? name.n : 64), name.text);
    }
    heap_enter(h);
    for (size_t i = 0; i < l->n; i++) {
        list_add(h, v.list, builtin_call_named(h, filter, l->items[i], a, 1));
    }
    heap_leave(h);
    return v;
}

/* Calls the test that is named by argument `at`; without one, asks for the
 * truth of the value. */
static bool passes(struct heap *h, struct value v, const struct args *a,
                   size_t at)
{
    const struct builtin *test;
    struct str name;

    if (a->n <= at) {
        return value_true(v);
    }
    name = need_str(h, a->items[at], "the name of a test");
    test = test_find(name);
    if (test == NULL) {
        heap_fail(h, ST_UNIMPLEMENTED, "the test \"%.*s\" is not supported",
                  (int)(name.n < 64 ? name.n : 64), name.text);
    }
    return value_true(builtin_call_named(h, test, v, a, at + 1));
}

static struct value pick(struct heap *h, struct value in, const struct args *a,
                         bool attribute, bool wanted)
{
    const struct list *l = value_iterate(h, in);
    struct value v = iterator(h);

    if (attribute && a->n == 0) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "selectattr and rejectattr need the name of an attribute");
    }
    for (size_t i = 0; i < l->n; i++) {
        struct value item =
            attribute ? access_path(h, l->items[i], a->items[0]) : l->items[i];

        if (passes(h, item, a, attribute) == wanted) {
            list_add(h, v.list, l->items[i]);
        }
    }
    return v;
}

static struct value run_select(struct heap *h, struct value in,
                               const struct args *a)
{
    return pick(h, in, a, false, true);
}

static struct value run_reject(struct heap *h, struct value in,
                               const struct args *a)
{
    return pick(h, in, a, false, false);
}

static struct value run_selectattr(struct heap *h, struct value in,
                                   const struct args *a)
{
    return pick(h, in, a, true, true);
}

static struct value run_rejectattr(struct heap *h, struct value in,
                                   const struct args *a)
{
    return pick(h, in, a, true, false);
}

static const struct builtin rows[] = {
    {"batch", "linecount fill_with", run_batch},
    {"count", "", run_length},
    {"dictsort", "case_sensitive by reverse", run_dictsort},
    {"first", "", run_first},
    {"items", "", run_items},
    {"join", "d attribute", run_join},
    {"last", "", run_last},
    {"length", "", run_length},
    {"list", "", run_list},
    {"map", "*", run_map},
    {"max", "case_sensitive attribute", run_max},
    {"min", "case_sensitive attribute", run_min},
    {"reject", "*", run_reject},
    {"rejectattr", "*", run_rejectattr},
    {"reverse", "", run_reverse},
    {"select", "*", run_select},
    {"selectattr", "*", run_selectattr},
    {"sort", "reverse case_sensitive attribute", run_sort},
    {"sum", "attribute start", run_sum},
    {"unique", "case_sensitive attribute", run_unique},
};

const struct builtins filters_of_lists = {rows, sizeof rows / sizeof *rows};

const struct builtin *filter_find(struct str name)
{
    const struct builtin *b = builtin_find(&filters_of_text, name);

    return b != NULL ? b : builtin_find(&filters_of_lists, name);
}
