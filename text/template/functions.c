#include "text/template/functions.h"

#include <string.h>
#include <time.h>

#include "text/template/print.h"

static struct value run_range(struct heap *h, struct value in,
                              const struct args *a)
{
    bool one = a->slot[1].kind == VALUE_MISSING;
    int64_t from = one ? 0 : args_int(h, a, 0, 0);
    int64_t to = need_int(h, args_need(h, a, one ? 0 : 1, "stop"), "range");
    int64_t step = args_int(h, a, 2, 1);
    struct value v = value_list(h, SHAPE_RANGE, 0);

    (void)in;
    if (step == 0) {
        heap_fail(h, ST_INVALID_ARGUMENT, "the step of range() is 0");
    }
    while (step > 0 ? from < to : from > to) {
        if (v.list->n == TEMPLATE_RANGE) {
            heap_fail(h, ST_OUT_OF_RANGE, "range() has more than %d numbers",
                      TEMPLATE_RANGE);
        }
        list_add(h, v.list, value_int(from));
        if (__builtin_add_overflow(from, step, &from)) {
            break;
        }
    }
    return v;
}

/* Copies a dict, and adds the arguments with names. */
static struct value make_dict(struct heap *h, const struct args *a)
{
    struct value v = value_dict(h);

    if (a->n > 1 || (a->n == 1 && a->items[0].kind != VALUE_DICT)) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "dict() and namespace() take one dict, and names");
    }
    for (size_t i = 0; a->n == 1 && i < a->items[0].dict->n; i++) {
        dict_set(h, v.dict, a->items[0].dict->items[i].key,
                 a->items[0].dict->items[i].value);
    }
    for (size_t i = 0; i < a->n_named; i++) {
        dict_set(h, v.dict, value_str(a->named[i].name), a->named[i].value);
    }
    return v;
}

static struct value run_dict(struct heap *h, struct value in,
                             const struct args *a)
{
    (void)in;
    return make_dict(h, a);
}

static struct value run_namespace(struct heap *h, struct value in,
                                  const struct args *a)
{
    struct value v = make_dict(h, a);

    (void)in;
    v.kind = VALUE_NAMESPACE;
    return v;
}

static struct value run_raise(struct heap *h, struct value in,
                              const struct args *a)
{
    struct str s = print_str(h, args_need(h, a, 0, "message"));

    (void)in;
    heap_raise(h, s.text, s.n);
}

/* Only conversions whose length is bounded and that need no locale. */
static void check_format(struct heap *h, struct str f)
{
    static const char known[] = "aAbBdeFHIjlmMpSTuwyY%";

    if (f.n >= TEMPLATE_TIME_BYTES) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "the format of strftime_now is %zu bytes long, at most %d "
                  "are allowed",
                  f.n, TEMPLATE_TIME_BYTES - 1);
    }
    for (size_t i = 0; i < f.n; i++) {
        if (f.text[i] != '%') {
            continue;
        }
        i++;
        i += i < f.n && f.text[i] == '-';
        if (i >= f.n || f.text[i] == '\0' || strchr(known, f.text[i]) == NULL) {
            heap_fail(h, ST_UNIMPLEMENTED,
                      "a conversion of strftime_now is not one of %s", known);
        }
    }
}

/* The time is UTC, so that replicas agree. */
static struct value run_strftime_now(struct heap *h, struct value in,
                                     const struct args *a)
{
    struct str f = need_str(h, args_need(h, a, 0, "format"), "strftime_now");
    char format[TEMPLATE_TIME_BYTES + 1], text[TEMPLATE_TIME_BYTES * 16];
    time_t now = (time_t)in.i;
    struct tm tm;
    size_t n;

    check_format(h, f);
    memcpy(format, f.text, f.n);
    /* strftime() returns 0 for an empty result too; a blank
     * behind the format makes them differ.
     */
    format[f.n] = ' ';
    format[f.n + 1] = '\0';
    if (gmtime_r(&now, &tm) == NULL) {
        heap_fail(h, ST_INVALID_ARGUMENT, "the time has no date");
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    n = strftime(text, sizeof text, format, &tm);
#pragma GCC diagnostic pop
    return value_str(str_copy(h, text, n > 0 ? n - 1 : 0, str_untrusted(f)));
}

static const struct builtin rows[] = {
    {"dict", "*", run_dict},
    {"namespace", "*", run_namespace},
    {"raise_exception", "message", run_raise},
    {"range", "start stop step", run_range},
    {"strftime_now", "format", run_strftime_now},
};

const struct builtin *function_find(struct str name)
{
    static const struct builtins table = {rows, sizeof rows / sizeof *rows};

    return builtin_find(&table, name);
}
