#include "text/template/access.h"

#include "text/template/methods.h"

static struct value loop_item(const struct loop *l, size_t at, bool exists,
                              struct str name)
{
    return exists ? l->items->items[at] : value_undefined(name);
}

static bool loop_attribute(const struct loop *l, struct str name,
                           struct value *out)
{
    size_t n = l->items->n, at = l->at;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", (int64_t)at + 1},
                   {"index0", (int64_t)at},
                   {"revindex", (int64_t)(n - at)},
                   {"revindex0", (int64_t)(n - at) - 1},
                   {"length", (int64_t)n},
                   {"depth", 1},
                   {"depth0", 0}};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (str_is(name, numbers[i].name)) {
            *out = value_int(numbers[i].value);
            return true;
        }
    }
    if (str_is(name, "first")) {
        *out = value_bool(at == 0);
    } else if (str_is(name, "last")) {
        *out = value_bool(at + 1 == n);
    } else if (str_is(name, "previtem")) {
        *out = loop_item(l, at - 1, at > 0, name);
    } else if (str_is(name, "nextitem")) {
        *out = loop_item(l, at + 1, at + 1 < n, name);
    } else {
        return false;
    }
    return true;
}

/* A method is a value of its own: templates test "d.items is defined". */
static bool method(struct heap *h, struct value v, struct str name,
                   struct value *out)
{
    const struct builtin *b = template_method_find(v, name);
    struct method *m;

    if (b == NULL) {
        return false;
    }
    m = heap_alloc(h, sizeof *m);
    *m = (struct method){v, b};
    *out = (struct value){.kind = VALUE_METHOD, .method = m};
    return true;
}

static bool in_dict(struct heap *h, struct value v, struct value key,
                    struct value *out)
{
    const struct value *found;

    if (v.kind != VALUE_DICT) {
        return false;
    }
    found = dict_get(h, v.dict, key);
    if (found != NULL) {
        *out = *found;
    }
    return found != NULL;
}

/* Jinja2 tries the object's own attributes first, then its keys. */
struct value access_attribute(struct heap *h, struct value v, struct str name)
{
    struct value out = value_undefined(name);
    const struct value *found;

    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (v.kind == VALUE_NAMESPACE) {
        found = dict_get_str(h, v.dict, name);
        return found == NULL ? out : *found;
    }
    if (v.kind == VALUE_LOOP && loop_attribute(v.loop, name, &out)) {
        return out;
    }
    if (!method(h, v, name, &out)) {
        (void)in_dict(h, v, value_str(name), &out);
    }
    return out;
}

bool access_at(struct heap *h, struct value v, int64_t i, struct value *out)
{
    size_t n, at = 0, len;

    if (v.kind == VALUE_LIST && v.list->shape <= SHAPE_RANGE) {
        n = v.list->n;
        i += i < 0 ? (int64_t)n : 0;
        if (i >= 0 && (size_t)i < n) {
            *out = v.list->items[i];
            return true;
        }
    }
    if (v.kind == VALUE_STRING) {
        n = str_length(h, v.s);
        i += i < 0 ? (int64_t)n : 0;
        if (i >= 0 && (size_t)i < n) {
            heap_bytes(h, (size_t)i);
            for (; i > 0; i--, at += len) {
                (void)str_code(v.s, at, &len);
            }
            (void)str_code(v.s, at, &len);
            *out = value_str(str_part(v.s, at, at + len));
            return true;
        }
    }
    return false;
}

/* Jinja2 tries the keys first, then the attributes. */
struct value access_item(struct heap *h, struct value v, struct value key)
{
    struct value out = value_undefined((struct str){"the element", NULL, 11});

    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (key.kind == VALUE_STRING) {
        out = value_undefined(key.s);
    }
    if (in_dict(h, v, key, &out)) {
        return out;
    }
    if (key.kind == VALUE_STRING) {
        return v.kind == VALUE_DICT && !method(h, v, key.s, &out)
                   ? out
                   : access_attribute(h, v, key.s);
    }
    if (key.kind == VALUE_INT || key.kind == VALUE_BOOL) {
        (void)access_at(h, v, need_int(h, key, "a key"), &out);
    }
    return out;
}

static bool all_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.text[i] < '0' || s.text[i] > '9') {
            return false;
        }
    }
    return s.n > 0 && s.n < 10;
}

/* Digits are an index. */
static struct value path_key(struct str part)
{
    int64_t i = 0;

    if (!all_digits(part)) {
        return value_str(part);
    }
    for (size_t j = 0; j < part.n; j++) {
        i = 10 * i + (part.text[j] - '0');
    }
    return value_int(i);
}

struct value access_path(struct heap *h, struct value v, struct value path)
{
    size_t from = 0;

    if (path.kind != VALUE_STRING) {
        return access_item(h, v, path);
    }
    while (from <= path.s.n) {
        size_t len = 0;

        while (from + len < path.s.n && path.s.text[from + len] != '.') {
            len++;
        }
        heap_steps(h, 1);
        v = access_item(h, v, path_key(str_part(path.s, from, from + len)));
        from += len + 1;
    }
    return v;
}
