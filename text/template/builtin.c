#include "text/template/builtin.h"

#include <string.h>

const struct builtin *builtin_find(const struct builtins *table,
                                   struct str name)
{
    for (size_t i = 0; i < table->n; i++) {
        if (str_is(name, table->rows[i].name)) {
            return &table->rows[i];
        }
    }
    return NULL;
}

/* Returns the place of a name in a list separated by blanks, and the number
 * of names; the number is also the place if the name is not there. */
static size_t param_place(const char *params, struct str name, size_t *count)
{
    size_t place = SIZE_MAX, n = 0;

    while (*params != '\0') {
        size_t len = strcspn(params, " ");

        if (len == name.n && memcmp(params, name.text, len) == 0) {
            place = n;
        }
        n++;
        params += len + (params[len] == ' ');
    }
    *count = n;
    return place;
}

struct value builtin_call(struct heap *h, const struct builtin *b,
                          struct value in, const struct args *a)
{
    struct args bound = *a;
    size_t count;

    if (strcmp(b->params, "*") == 0) {
        return b->run(h, in, a);
    }
    (void)param_place(b->params, (struct str){"", NULL, 0}, &count);
    if (a->n > count) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "%s takes at most %zu arguments, %zu are given", b->name,
                  count, a->n);
    }
    memset(bound.slot, 0, sizeof bound.slot);
    for (size_t i = 0; i < a->n; i++) {
        bound.slot[i] = a->items[i];
    }
    for (size_t i = 0; i < a->n_named; i++) {
        struct str name = a->named[i].name;
        size_t place = param_place(b->params, name, &count);

        if (place == SIZE_MAX || bound.slot[place].kind != VALUE_MISSING) {
            heap_fail(h, ST_INVALID_ARGUMENT,
                      "%s does not take the argument \"%.*s\" here", b->name,
                      (int)(name.n < 64 ? name.n : 64), name.text);
        }
        bound.slot[place] = a->named[i].value;
    }
    return b->run(h, in, &bound);
}

struct value builtin_call_named(struct heap *h, const struct builtin *b,
                                struct value in, const struct args *a,
                                size_t from)
{
    struct args rest = *a;

    rest.items = a->items + from;
    rest.n = a->n - from;
    return builtin_call(h, b, in, &rest);
}

/* ---- arguments ---- */

struct str need_str(struct heap *h, struct value v, const char *what)
{
    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (v.kind != VALUE_STRING) {
        heap_fail(h, ST_INVALID_ARGUMENT, "%s needs a string, found %s", what,
                  value_kind_name(v));
    }
    return v.s;
}

int64_t need_int(struct heap *h, struct value v, const char *what)
{
    if (v.kind == VALUE_BOOL) {
        return v.b;
    }
    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (v.kind != VALUE_INT) {
        heap_fail(h, ST_INVALID_ARGUMENT, "%s needs an integer, found %s", what,
                  value_kind_name(v));
    }
    return v.i;
}

int64_t args_int(struct heap *h, const struct args *a, size_t slot,
                 int64_t otherwise)
{
    return a->slot[slot].kind == VALUE_MISSING
               ? otherwise
               : need_int(h, a->slot[slot], "an argument");
}

bool args_bool(const struct args *a, size_t slot, bool otherwise)
{
    return a->slot[slot].kind == VALUE_MISSING ? otherwise
                                               : value_true(a->slot[slot]);
}

struct str args_str(struct heap *h, const struct args *a, size_t slot,
                    const char *otherwise)
{
    return a->slot[slot].kind == VALUE_MISSING
               ? str_copy(h, otherwise, strlen(otherwise), false)
               : need_str(h, a->slot[slot], "an argument");
}

struct value args_need(struct heap *h, const struct args *a, size_t slot,
                       const char *name)
{
    if (a->slot[slot].kind == VALUE_MISSING) {
        heap_fail(h, ST_INVALID_ARGUMENT, "the argument \"%s\" is missing",
                  name);
    }
    return a->slot[slot];
}
