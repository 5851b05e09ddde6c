#include "text/template/value.h"

#include <string.h>

struct value value_undefined(struct str name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .s = name};
}

struct value value_none(void)
{
    return (struct value){.kind = VALUE_NONE};
}

struct value value_bool(bool b)
{
    return (struct value){.kind = VALUE_BOOL, .b = b};
}

struct value value_int(int64_t i)
{
    return (struct value){.kind = VALUE_INT, .i = i};
}

struct value value_float(double f)
{
    return (struct value){.kind = VALUE_FLOAT, .f = f};
}

struct value value_str(struct str s)
{
    return (struct value){.kind = VALUE_STRING, .s = s};
}

struct value value_c(struct heap *h, const char *text)
{
    return value_str(str_copy(h, text, strlen(text), false));
}

struct value value_list(struct heap *h, enum list_shape shape, size_t cap)
{
    struct list *l = heap_alloc(h, sizeof *l);

    l->shape = shape;
    if (cap > 0) {
        l->items = heap_alloc(h, cap * sizeof *l->items);
        l->cap = cap;
    }
    return (struct value){.kind = VALUE_LIST, .list = l};
}

struct value value_dict(struct heap *h)
{
    return (struct value){.kind = VALUE_DICT,
                          .dict = heap_alloc(h, sizeof(struct dict))};
}

void list_add(struct heap *h, struct list *l, struct value v)
{
    heap_steps(h, 1);
    if (l->n == l->cap) {
        l->items = heap_grow(h, l->items, l->n, sizeof *l->items, &l->cap);
    }
    l->items[l->n++] = v;
}

/* ---- dicts ---- */

/* A linear search: dicts of templates are small, and steps bound large ones. */
struct value *dict_get(struct heap *h, const struct dict *d, struct value key)
{
    if (key.kind == VALUE_STRING) {
        return dict_get_str(h, d, key.s);
    }
    if (key.kind == VALUE_DICT || key.kind == VALUE_NAMESPACE ||
        (key.kind == VALUE_LIST && key.list->shape != SHAPE_TUPLE)) {
        heap_fail(h, ST_INVALID_ARGUMENT, "%s cannot be a key",
                  value_kind_name(key));
    }
    for (size_t i = 0; i < d->n; i++) {
        if (value_equal(h, d->items[i].key, key)) {
            return &d->items[i].value;
        }
    }
    return NULL;
}

struct value *dict_get_str(struct heap *h, const struct dict *d, struct str key)
{
    heap_steps(h, 1 + d->n / 16);
    for (size_t i = 0; i < d->n; i++) {
        const struct value *k = &d->items[i].key;

        if (k->kind == VALUE_STRING && str_equal(k->s, key)) {
            heap_bytes(h, key.n);
            return &d->items[i].value;
        }
    }
    return NULL;
}

void dict_set(struct heap *h, struct dict *d, struct value key,
              struct value value)
{
    struct value *old = dict_get(h, d, key);

    if (old != NULL) {
        *old = value;
        return;
    }
    if (d->n == d->cap) {
        d->items = heap_grow(h, d->items, d->n, sizeof *d->items, &d->cap);
    }
    d->items[d->n++] = (struct entry){key, value};
}

bool dict_remove(struct heap *h, struct dict *d, struct value key)
{
    struct value *v = dict_get(h, d, key);
    size_t at;

    if (v == NULL) {
        return false;
    }
    at = (size_t)((const struct entry *)(const void *)((const char *)v -
                                                       offsetof(struct entry,
                                                                value)) -
                  d->items);
    heap_steps(h, 1 + d->n / 16);
    memmove(&d->items[at], &d->items[at + 1],
            (d->n - at - 1) * sizeof *d->items);
    d->n--;
    return true;
}

/* ---- questions about values ---- */

static const char *list_name(const struct list *l)
{
    static const char *const names[] = {"a list", "a tuple", "a range",
                                        "a view of a dict", "an iterator"};

    return names[l->shape];
}

const char *value_kind_name(struct value v)
{
    static const char *const names[] = {"nothing",    "an undefined value",
                                        "None",       "a boolean",
                                        "an integer", "a float",
                                        "a string",   "a list",
                                        "a dict",     "a namespace",
                                        "a loop",     "a macro",
                                        "a function", "a method"};

    return v.kind == VALUE_LIST ? list_name(v.list) : names[v.kind];
}

void value_fail_undefined(struct heap *h, struct value v)
{
    heap_fail(h, ST_INVALID_ARGUMENT, "%.*s is undefined",
              (int)(v.s.n < 100 ? v.s.n : 100), v.s.text);
}

bool value_is_iterable(struct value v)
{
    return v.kind == VALUE_UNDEFINED || v.kind == VALUE_STRING ||
           v.kind == VALUE_LIST || v.kind == VALUE_DICT || v.kind == VALUE_LOOP;
}

/* Each character is a part of the string, without a copy of its bytes. */
static const struct list *characters(struct heap *h, struct str s)
{
    struct value v = value_list(h, SHAPE_LIST, 0);
    size_t len;

    for (size_t i = 0; i < s.n; i += len) {
        (void)str_code(s, i, &len);
        list_add(h, v.list, value_str(str_part(s, i, i + len)));
    }
    return v.list;
}

static const struct list *keys(struct heap *h, const struct dict *d)
{
    struct value v = value_list(h, SHAPE_LIST, d->n);

    for (size_t i = 0; i < d->n; i++) {
        list_add(h, v.list, d->items[i].key);
    }
    return v.list;
}

/* Returns a copy, as the loop's body may change the list. */
static const struct list *elements(struct heap *h, struct list *l)
{
    struct value v = value_list(h, SHAPE_LIST, l->n);

    for (size_t i = 0; i < l->n; i++) {
        list_add(h, v.list, l->items[i]);
    }
    if (l->shape == SHAPE_ITERATOR) {
        l->n = 0;
    }
    return v.list;
}

const struct list *value_iterate(struct heap *h, struct value v)
{
    switch (v.kind) {
    case VALUE_UNDEFINED:
        return value_list(h, SHAPE_LIST, 0).list;
    case VALUE_STRING:
        return characters(h, v.s);
    case VALUE_LIST:
        return elements(h, v.list);
    case VALUE_DICT:
        return keys(h, v.dict);
    default:
        heap_fail(h, ST_INVALID_ARGUMENT, "%s cannot be iterated",
                  value_kind_name(v));
    }
}

size_t value_length(struct heap *h, struct value v)
{
    if (v.kind == VALUE_UNDEFINED) {
        return 0;
    }
    if (v.kind == VALUE_STRING) {
        return str_length(h, v.s);
    }
    if (v.kind == VALUE_LIST && v.list->shape != SHAPE_ITERATOR) {
        return v.list->n;
    }
    if (v.kind == VALUE_DICT) {
        return v.dict->n;
    }
    if (v.kind == VALUE_LOOP) {
        return v.loop->items->n;
    }
    heap_fail(h, ST_INVALID_ARGUMENT, "%s has no length", value_kind_name(v));
}

bool value_is_number(struct value v)
{
    return v.kind == VALUE_INT || v.kind == VALUE_FLOAT || v.kind == VALUE_BOOL;
}

double value_double(struct value v)
{
    return v.kind == VALUE_FLOAT ? v.f
           : v.kind == VALUE_INT ? (double)v.i
                                 : (double)v.b;
}

bool value_true(struct value v)
{
    switch (v.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v.b;
    case VALUE_INT:
        return v.i != 0;
    case VALUE_FLOAT:
        return v.f != 0;
    case VALUE_STRING:
        return v.s.n > 0;
    case VALUE_LIST:
        return v.list->n > 0 || v.list->shape == SHAPE_ITERATOR;
    case VALUE_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

/* ---- comparisons ---- */

/* Two integers are not compared as doubles, which would lose digits. */
static bool numbers_equal(struct value a, struct value b)
{
    if (a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT) {
        return value_double(a) == value_double(b);
    }
    return (a.kind == VALUE_BOOL ? a.b : a.i) ==
           (b.kind == VALUE_BOOL ? b.b : b.i);
}

static bool lists_equal(struct heap *h, const struct list *a,
                        const struct list *b)
{
    if (a == b) {
        return true;
    }
    if (a->shape != b->shape || a->n != b->n || a->shape == SHAPE_ITERATOR) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!value_equal(h, a->items[i], b->items[i])) {
            return false;
        }
    }
    return true;
}

static bool dicts_equal(struct heap *h, const struct dict *a,
                        const struct dict *b)
{
    if (a == b) {
        return true;
    }
    if (a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        const struct value *other = dict_get(h, b, a->items[i].key);

        if (other == NULL || !value_equal(h, a->items[i].value, *other)) {
            return false;
        }
    }
    return true;
}

static bool same_kind_equal(struct heap *h, struct value a, struct value b)
{
    switch (a.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_STRING:
        heap_bytes(h, a.s.n < b.s.n ? a.s.n : b.s.n);
        return str_equal(a.s, b.s);
    case VALUE_LIST:
        return lists_equal(h, a.list, b.list);
    case VALUE_DICT:
        return dicts_equal(h, a.dict, b.dict);
    case VALUE_NAMESPACE:
        return a.dict == b.dict;
    case VALUE_LOOP:
        return a.loop == b.loop;
    case VALUE_MACRO:
        return a.macro == b.macro;
    case VALUE_FUNCTION:
        return a.function == b.function;
    default:
        return false;
    }
}

bool value_equal(struct heap *h, struct value a, struct value b)
{
    bool equal;

    heap_steps(h, 1);
    if (value_is_number(a) && value_is_number(b)) {
        return numbers_equal(a, b);
    }
    if (a.kind != b.kind) {
        return false;
    }
    heap_enter(h);
    equal = same_kind_equal(h, a, b);
    heap_leave(h);
    return equal;
}

static int compare_bytes(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n == 0 ? 0 : memcmp(a.text, b.text, n);

    /* The order of UTF-8 bytes is the order of code points. */
    return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

/* The first elements that differ decide. */
static int compare_lists(struct heap *h, const struct list *a,
                         const struct list *b)
{
    size_t n = a->n < b->n ? a->n : b->n;

    for (size_t i = 0; i < n; i++) {
        if (!value_equal(h, a->items[i], b->items[i])) {
            return value_compare(h, a->items[i], b->items[i]);
        }
    }
    return (a->n > b->n) - (a->n < b->n);
}

int value_compare(struct heap *h, struct value a, struct value b)
{
    int order;

    heap_steps(h, 1);
    if (value_is_number(a) && value_is_number(b)) {
        if (a.kind == VALUE_INT && b.kind == VALUE_INT) {
            return (a.i > b.i) - (a.i < b.i);
        }
        return (value_double(a) > value_double(b)) -
               (value_double(a) < value_double(b));
    }
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        heap_bytes(h, a.s.n < b.s.n ? a.s.n : b.s.n);
        return compare_bytes(a.s, b.s);
    }
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, a.kind == VALUE_UNDEFINED ? a : b);
    }
    if (a.kind != VALUE_LIST || b.kind != VALUE_LIST ||
        a.list->shape != b.list->shape || a.list->shape > SHAPE_TUPLE) {
        heap_fail(h, ST_INVALID_ARGUMENT, "%s and %s have no order",
                  value_kind_name(a), value_kind_name(b));
    }
    heap_enter(h);
    order = compare_lists(h, a.list, b.list);
    heap_leave(h);
    return order;
}

static bool in_list(struct heap *h, struct value v, struct list *l)
{
    bool found = false;

    for (size_t i = 0; i < l->n && !found; i++) {
        found = value_equal(h, l->items[i], v);
    }
    if (l->shape == SHAPE_ITERATOR) {
        l->n = 0;
    }
    return found;
}

bool value_in(struct heap *h, struct value v, struct value container)
{
    switch (container.kind) {
    case VALUE_UNDEFINED:
        return false;
    case VALUE_STRING:
        if (v.kind != VALUE_STRING) {
            heap_fail(h, ST_INVALID_ARGUMENT,
                      "'in' of a string needs a string, found %s",
                      value_kind_name(v));
        }
        return str_find(h, container.s, v.s, 0) != SIZE_MAX;
    case VALUE_LIST:
        return in_list(h, v, container.list);
    case VALUE_DICT:
        return dict_get(h, container.dict, v) != NULL;
    default:
        heap_fail(h, ST_INVALID_ARGUMENT, "'in' needs a container, found %s",
                  value_kind_name(container));
    }
}

/* ---- order ---- */

struct order {
    struct heap *h;
    value_before_fn *before;
    void *arg;
};

/* Merges [a, mid) and [mid, end). */
static void merge(const struct order *o, struct value *to,
                  const struct value *a, const struct value *mid,
                  const struct value *end)
{
    const struct value *b = mid;

    while (a < mid || b < end) {
        bool take_b = a == mid || (b < end && o->before(o->h, o->arg, b, a));

        *to++ = take_b ? *b++ : *a++;
    }
}

/* Not qsort(): a comparison may fail, and a jump out of qsort() leaks. */
void value_sort(struct heap *h, struct value *items, size_t n,
                value_before_fn *before, void *arg)
{
    const struct order o = {h, before, arg};
    struct value *from = items;
    struct value *to = heap_alloc(h, n * sizeof *items);

    for (size_t run = 1; run < n; run *= 2) {
        struct value *swap = from;

        for (size_t i = 0; i < n; i += 2 * run) {
            size_t mid = i + run < n ? i + run : n;
            size_t end = mid + run < n ? mid + run : n;

            merge(&o, to + i, from + i, from + mid, from + end);
        }
        from = to;
        to = swap;
    }
    if (from != items) {
        memcpy(items, from, n * sizeof *items);
    }
}
