#include "text/template/methods.h"

#include <string.h>

#include "text/template/print.h"

/* ---- strings: white space and case ---- */

static struct value strip(struct heap *h, struct value in, const struct args *a,
                          bool left, bool right)
{
    struct str set;
    bool all =
        a->slot[0].kind == VALUE_MISSING || a->slot[0].kind == VALUE_NONE;

    if (!all) {
        set = need_str(h, a->slot[0], "strip()");
    }
    return value_str(str_strip(h, in.s, all ? NULL : &set, left, right));
}

static struct value run_strip(struct heap *h, struct value in,
                              const struct args *a)
{
    return strip(h, in, a, true, true);
}

static struct value run_lstrip(struct heap *h, struct value in,
                               const struct args *a)
{
    return strip(h, in, a, true, false);
}

static struct value run_rstrip(struct heap *h, struct value in,
                               const struct args *a)
{
    return strip(h, in, a, false, true);
}

static struct value run_lower(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return value_str(case_lower(h, in.s));
}

static struct value run_upper(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return value_str(case_upper(h, in.s));
}

static struct value run_capitalize(struct heap *h, struct value in,
                                   const struct args *a)
{
    (void)a;
    return value_str(case_capitalize(h, in.s));
}

static struct value run_title(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return value_str(case_title(h, in.s, false));
}

/* ---- strings: search ---- */

static bool affix(struct str s, struct str part, bool end)
{
    size_t at = end ? s.n - part.n : 0;

    return part.n <= s.n && memcmp(s.text + at, part.text, part.n) == 0;
}

/* Takes one string, or a tuple of which any may match. */
static struct value has_affix(struct heap *h, struct value in,
                              const struct args *a, bool end)
{
    struct value part = args_need(h, a, 0, "prefix");

    if (part.kind != VALUE_LIST || part.list->shape != SHAPE_TUPLE) {
        return value_bool(
            affix(in.s, need_str(h, part, "startswith() and endswith()"), end));
    }
    for (size_t i = 0; i < part.list->n; i++) {
        heap_steps(h, 1);
        if (affix(in.s, need_str(h, part.list->items[i], "startswith()"),
                  end)) {
            return value_bool(true);
        }
    }
    return value_bool(false);
}

static struct value run_startswith(struct heap *h, struct value in,
                                   const struct args *a)
{
    return has_affix(h, in, a, false);
}

static struct value run_endswith(struct heap *h, struct value in,
                                 const struct args *a)
{
    return has_affix(h, in, a, true);
}

static struct value run_find(struct heap *h, struct value in,
                             const struct args *a)
{
    size_t at =
        str_find(h, in.s, need_str(h, args_need(h, a, 0, "sub"), "find()"), 0);

    return value_int(
        at == SIZE_MAX ? -1 : (int64_t)str_length(h, str_part(in.s, 0, at)));
}

/* Occurrences do not overlap. */
static struct value run_count(struct heap *h, struct value in,
                              const struct args *a)
{
    struct str sub = need_str(h, args_need(h, a, 0, "sub"), "count()");
    int64_t n = 0;

    if (sub.n == 0) {
        return value_int((int64_t)str_length(h, in.s) + 1);
    }
    for (size_t at = 0; (at = str_find(h, in.s, sub, at)) != SIZE_MAX;
         at += sub.n) {
        n++;
    }
    return value_int(n);
}

static struct value run_replace(struct heap *h, struct value in,
                                const struct args *a)
{
    return value_str(str_replace(
        h, in.s, need_str(h, args_need(h, a, 0, "old"), "replace()"),
        need_str(h, args_need(h, a, 1, "new"), "replace()"),
        args_int(h, a, 2, -1)));
}

/* ---- strings: parts ---- */

/* Without a separator, a run of white space separates, and none is left at
 * the ends. */
static void split_space(struct heap *h, struct list *out, struct str s,
                        int64_t max)
{
    size_t len, from;

    s = str_strip(h, s, NULL, true, false);
    while (s.n > 0) {
        if (max >= 0 && (int64_t)out->n == max) {
            list_add(h, out, value_str(s));
            return;
        }
        for (from = 0; from < s.n; from += len) {
            if (code_is_space(str_code(s, from, &len))) {
                break;
            }
        }
        heap_bytes(h, from);
        list_add(h, out, value_str(str_part(s, 0, from)));
        s = str_strip(h, str_part(s, from, s.n), NULL, true, false);
    }
}

static struct str separator(struct heap *h, const struct args *a)
{
    struct str sep = need_str(h, a->slot[0], "split()");

    if (sep.n == 0) {
        heap_fail(h, ST_INVALID_ARGUMENT, "the separator of split() is empty");
    }
    return sep;
}

static bool by_space(const struct args *a)
{
    return a->slot[0].kind == VALUE_MISSING || a->slot[0].kind == VALUE_NONE;
}

static struct value run_split(struct heap *h, struct value in,
                              const struct args *a)
{
    struct value v = value_list(h, SHAPE_LIST, 0);
    int64_t max = args_int(h, a, 1, -1);
    size_t from = 0, at;
    struct str sep;

    if (by_space(a)) {
        split_space(h, v.list, in.s, max);
        return v;
    }
    sep = separator(h, a);
    while (max < 0 || (int64_t)v.list->n < max) {
        at = str_find(h, in.s, sep, from);
        if (at == SIZE_MAX) {
            break;
        }
        list_add(h, v.list, value_str(str_part(in.s, from, at)));
        from = at + sep.n;
    }
    list_add(h, v.list, value_str(str_part(in.s, from, in.s.n)));
    return v;
}

/* There is no memrmem(). */
static size_t find_back(struct heap *h, struct str s, struct str sep,
                        size_t end)
{
    for (size_t at = end; at >= sep.n; at--) {
        heap_steps(h, 1);
        if (memcmp(s.text + at - sep.n, sep.text, sep.n) == 0) {
            return at - sep.n;
        }
    }
    return SIZE_MAX;
}

static struct value reversed(struct heap *h, const struct list *l)
{
    struct value v = value_list(h, SHAPE_LIST, l->n);

    for (size_t i = l->n; i > 0; i--) {
        list_add(h, v.list, l->items[i - 1]);
    }
    return v;
}

static struct value run_rsplit(struct heap *h, struct value in,
                               const struct args *a)
{
    struct value v = value_list(h, SHAPE_LIST, 0);
    int64_t max = args_int(h, a, 1, -1);
    size_t end = in.s.n, at;
    struct str sep;

    if (max < 0) {
        return run_split(h, in, a);
    }
    if (by_space(a)) {
        heap_fail(h, ST_UNIMPLEMENTED,
                  "rsplit() with a limit needs a separator");
    }
    sep = separator(h, a);
    while ((int64_t)v.list->n < max &&
           (at = find_back(h, in.s, sep, end)) != SIZE_MAX) {
        list_add(h, v.list, value_str(str_part(in.s, at + sep.n, end)));
        end = at;
    }
    list_add(h, v.list, value_str(str_part(in.s, 0, end)));
    return reversed(h, v.list);
}

static struct value run_splitlines(struct heap *h, struct value in,
                                   const struct args *a)
{
    struct value v = value_list(h, SHAPE_LIST, 0);
    bool keep = args_bool(a, 0, false);
    size_t from = 0, len;

    for (size_t i = 0; i < in.s.n; i += len) {
        uint32_t code = str_code(in.s, i, &len);

        heap_steps(h, 1);
        if ((code < 0x0A || code > 0x0D) && (code < 0x1C || code > 0x1E) &&
            code != 0x85 && code != 0x2028 && code != 0x2029) {
            continue;
        }
        len += code == '\r' && i + 1 < in.s.n && in.s.text[i + 1] == '\n';
        list_add(h, v.list,
                 value_str(str_part(in.s, from, keep ? i + len : i)));
        from = i + len;
    }
    if (from < in.s.n) {
        list_add(h, v.list, value_str(str_part(in.s, from, in.s.n)));
    }
    return v;
}

static struct value run_join(struct heap *h, struct value in,
                             const struct args *a)
{
    const struct list *l = value_iterate(h, args_need(h, a, 0, "iterable"));
    struct builder b = {.h = h};

    for (size_t i = 0; i < l->n; i++) {
        if (i > 0) {
            builder_put(&b, in.s);
        }
        builder_put(&b, need_str(h, l->items[i], "join()"));
    }
    return value_str(builder_str(&b));
}

static struct value run_format(struct heap *h, struct value in,
                               const struct args *a)
{
    return format_braces(h, in.s, a);
}

/* ---- dicts ---- */

/* A copy: changes of the dict during a loop do not reach the loop. */
static struct value view(struct heap *h, const struct dict *d, bool keys,
                         bool values)
{
    struct value v = value_list(h, SHAPE_VIEW, d->n);

    for (size_t i = 0; i < d->n; i++) {
        struct value item = d->items[i].key;

        if (keys && values) {
            item = value_list(h, SHAPE_TUPLE, 2);
            list_add(h, item.list, d->items[i].key);
        }
        if (values && keys) {
            list_add(h, item.list, d->items[i].value);
        } else if (values) {
            item = d->items[i].value;
        }
        list_add(h, v.list, item);
    }
    return v;
}

static struct value run_items(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return view(h, in.dict, true, true);
}

static struct value run_keys(struct heap *h, struct value in,
                             const struct args *a)
{
    (void)a;
    return view(h, in.dict, true, false);
}

static struct value run_values(struct heap *h, struct value in,
                               const struct args *a)
{
    (void)a;
    return view(h, in.dict, false, true);
}

static struct value run_get(struct heap *h, struct value in,
                            const struct args *a)
{
    const struct value *v = dict_get(h, in.dict, args_need(h, a, 0, "key"));

    if (v != NULL) {
        return *v;
    }
    return a->slot[1].kind == VALUE_MISSING ? value_none() : a->slot[1];
}

static struct value run_dict_pop(struct heap *h, struct value in,
                                 const struct args *a)
{
    struct value key = args_need(h, a, 0, "key");
    const struct value *found = dict_get(h, in.dict, key);
    struct value v = a->slot[1];

    if (found != NULL) {
        v = *found;
        (void)dict_remove(h, in.dict, key);
    } else if (v.kind == VALUE_MISSING) {
        heap_fail(h, ST_INVALID_ARGUMENT, "pop() of a key that is not there");
    }
    return v;
}

/* The sandbox of transformers refuses methods that change a value, yet some
 * published templates call them. */
static struct value run_update(struct heap *h, struct value in,
                               const struct args *a)
{
    struct value other = a->n > 0 ? a->items[0] : value_dict(h);

    if (a->n > 1 || other.kind != VALUE_DICT) {
        heap_fail(h, ST_INVALID_ARGUMENT, "update() needs one dict");
    }
    for (size_t i = 0; i < other.dict->n; i++) {
        dict_set(h, in.dict, other.dict->items[i].key,
                 other.dict->items[i].value);
    }
    for (size_t i = 0; i < a->n_named; i++) {
        dict_set(h, in.dict, value_str(a->named[i].name), a->named[i].value);
    }
    return value_none();
}

/* ---- lists ---- */

static struct value run_append(struct heap *h, struct value in,
                               const struct args *a)
{
    list_add(h, in.list, args_need(h, a, 0, "object"));
    return value_none();
}

static struct value run_extend(struct heap *h, struct value in,
                               const struct args *a)
{
    const struct list *l = value_iterate(h, args_need(h, a, 0, "iterable"));

    for (size_t i = 0; i < l->n; i++) {
        list_add(h, in.list, l->items[i]);
    }
    return value_none();
}

/* An index past an end means that end, as in Python. */
static struct value run_insert(struct heap *h, struct value in,
                               const struct args *a)
{
    int64_t n = (int64_t)in.list->n;
    int64_t at = need_int(h, args_need(h, a, 0, "index"), "insert()");

    at = at < 0 ? at + n : at;
    at = at < 0 ? 0 : at > n ? n : at;
    list_add(h, in.list, args_need(h, a, 1, "object"));
    heap_steps(h, (size_t)(n - at) / 16);
    memmove(&in.list->items[at + 1], &in.list->items[at],
            (size_t)(n - at) * sizeof *in.list->items);
    in.list->items[at] = a->slot[1];
    return value_none();
}

static struct value run_list_pop(struct heap *h, struct value in,
                                 const struct args *a)
{
    int64_t n = (int64_t)in.list->n, at = args_int(h, a, 0, -1);
    struct value v;

    at = at < 0 ? at + n : at;
    if (at < 0 || at >= n) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "pop() of an element that is not "
                  "there");
    }
    v = in.list->items[at];
    heap_steps(h, (size_t)(n - at) / 16);
    memmove(&in.list->items[at], &in.list->items[at + 1],
            (size_t)(n - at - 1) * sizeof *in.list->items);
    in.list->n--;
    return v;
}

static struct value run_index(struct heap *h, struct value in,
                              const struct args *a)
{
    struct value v = args_need(h, a, 0, "value");

    for (size_t i = 0; i < in.list->n; i++) {
        if (value_equal(h, in.list->items[i], v)) {
            return value_int((int64_t)i);
        }
    }
    heap_fail(h, ST_INVALID_ARGUMENT, "index() of a value that is not there");
}

static struct value run_list_count(struct heap *h, struct value in,
                                   const struct args *a)
{
    struct value v = args_need(h, a, 0, "value");
    int64_t n = 0;

    for (size_t i = 0; i < in.list->n; i++) {
        n += value_equal(h, in.list->items[i], v);
    }
    return value_int(n);
}

/* ---- loop ---- */

static struct value run_cycle(struct heap *h, struct value in,
                              const struct args *a)
{
    if (a->n == 0) {
        heap_fail(h, ST_INVALID_ARGUMENT, "loop.cycle() needs a value");
    }
    return a->items[in.loop->at % a->n];
}

static struct value run_changed(struct heap *h, struct value in,
                                const struct args *a)
{
    struct value now = value_list(h, SHAPE_TUPLE, a->n);
    bool changed;

    for (size_t i = 0; i < a->n; i++) {
        list_add(h, now.list, a->items[i]);
    }
    changed = !value_equal(h, in.loop->changed, now);
    in.loop->changed = now;
    return value_bool(changed);
}

static const struct builtin string_rows[] = {
    {"capitalize", "", run_capitalize},
    {"count", "sub", run_count},
    {"endswith", "suffix", run_endswith},
    {"find", "sub", run_find},
    {"format", "*", run_format},
    {"join", "iterable", run_join},
    {"lower", "", run_lower},
    {"lstrip", "chars", run_lstrip},
    {"replace", "old new count", run_replace},
    {"rsplit", "sep maxsplit", run_rsplit},
    {"rstrip", "chars", run_rstrip},
    {"split", "sep maxsplit", run_split},
    {"splitlines", "keepends", run_splitlines},
    {"startswith", "prefix", run_startswith},
    {"strip", "chars", run_strip},
    {"title", "", run_title},
    {"upper", "", run_upper},
};

static const struct builtin dict_rows[] = {
    {"get", "key default", run_get}, {"items", "", run_items},
    {"keys", "", run_keys},          {"pop", "key default", run_dict_pop},
    {"update", "*", run_update},     {"values", "", run_values},
};

static const struct builtin list_rows[] = {
    {"append", "object", run_append},       {"count", "value", run_list_count},
    {"extend", "iterable", run_extend},     {"index", "value", run_index},
    {"insert", "index object", run_insert}, {"pop", "index", run_list_pop},
};

static const struct builtin loop_rows[] = {
    {"changed", "*", run_changed},
    {"cycle", "*", run_cycle},
};

#define ROWS(rows)                          \
    {                                       \
        rows, sizeof(rows) / sizeof *(rows) \
    }

static const struct builtins strings = ROWS(string_rows);
static const struct builtins dicts = ROWS(dict_rows);
static const struct builtins lists = ROWS(list_rows);
static const struct builtins loops = ROWS(loop_rows);

bool template_method_exists(struct str name)
{
    return builtin_find(&strings, name) != NULL ||
           builtin_find(&dicts, name) != NULL ||
           builtin_find(&lists, name) != NULL ||
           builtin_find(&loops, name) != NULL;
}

/* Only lists have the methods of a list: a tuple or an iterator has none. */
const struct builtin *template_method_find(struct value v, struct str name)
{
    switch (v.kind) {
    case VALUE_STRING:
        return builtin_find(&strings, name);
    case VALUE_LIST:
        return v.list->shape == SHAPE_LIST ? builtin_find(&lists, name) : NULL;
    case VALUE_DICT:
        return builtin_find(&dicts, name);
    case VALUE_LOOP:
        return builtin_find(&loops, name);
    default:
        return NULL;
    }
}
