#include "text/template/convert.h"

#include <string.h>

static struct value convert_array(struct heap *h, const json_t *json,
                                  bool untrusted)
{
    size_t n = json_array_size(json);
    struct value v = value_list(h, SHAPE_LIST, n);

    for (size_t i = 0; i < n; i++) {
        list_add(h, v.list,
                 convert_json(h, json_array_get(json, i), untrusted));
    }
    return v;
}

/* Keys of a JSON object differ, so no key is searched. */
static struct value convert_object(struct heap *h, const json_t *json,
                                   bool untrusted)
{
    struct value v = value_dict(h);
    size_t n = json_object_size(json);
    json_t *object = (json_t *)(uintptr_t)json; /* iterators are not const */

    v.dict->items = heap_alloc(h, (n + 1) * sizeof *v.dict->items);
    v.dict->cap = n + 1;
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        struct entry *e = &v.dict->items[v.dict->n];

        heap_steps(h, 1);
        e->key = value_str(
            str_copy(h, key, json_object_iter_key_len(at), untrusted));
        e->value = convert_json(h, json_object_iter_value(at), untrusted);
        v.dict->n++;
    }
    return v;
}

static struct value convert(struct heap *h, const json_t *json, bool untrusted)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return convert_object(h, json, untrusted);
    case JSON_ARRAY:
        return convert_array(h, json, untrusted);
    case JSON_STRING:
        return value_str(str_copy(h, json_string_value(json),
                                  json_string_length(json), untrusted));
    case JSON_INTEGER:
        return value_int(json_integer_value(json));
    case JSON_REAL:
        return value_float(json_real_value(json));
    case JSON_TRUE:
    case JSON_FALSE:
        return value_bool(json_is_true(json));
    case JSON_NULL:
        break;
    }
    return value_none();
}

struct value convert_json(struct heap *h, const json_t *json, bool untrusted)
{
    struct value v;

    heap_steps(h, 1);
    heap_enter(h);
    v = convert(h, json, untrusted);
    v.untrusted = untrusted;
    heap_leave(h);
    return v;
}

/* The only place that holds memory outside of the heap while it may fail. */
struct value convert_owned(struct heap *h, json_t *json, bool untrusted)
{
    jmp_buf out;
    struct value v;

    memcpy(&out, &h->out, sizeof out);
    if (setjmp(h->out) != 0) {
        json_decref(json);
        memcpy(&h->out, &out, sizeof out);
        longjmp(h->out, 1);
    }
    v = convert_json(h, json, untrusted);
    json_decref(json);
    memcpy(&h->out, &out, sizeof out);
    return v;
}

/* The five words cannot be parts of an attack: a client chooses among them,
 * and the template places them. */
static bool is_role(struct str s)
{
    static const char *const roles[] = {"system", "developer", "user",
                                        "assistant", "tool"};

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (str_is(s, roles[i])) {
            return true;
        }
    }
    return false;
}

static struct value *member(struct heap *h, const struct value *message,
                            const char *name)
{
    return message->kind != VALUE_DICT
               ? NULL
               : dict_get_str(h, message->dict,
                              (struct str){name, NULL, strlen(name)});
}

static size_t count(struct str s, const char *tag, size_t *at)
{
    size_t n = 0, len = strlen(tag);

    for (size_t i = 0; i + len <= s.n; i++) {
        if (memcmp(s.text + i, tag, len) == 0) {
            *at = i;
            n++;
        }
    }
    return n;
}

static bool is_blank(struct str s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr(" \t\r\n", s.text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Returns s with trusted tags, if it begins with a reasoning block. */
static struct str trust_reasoning(struct heap *h, struct str s, bool is_last)
{
    static const char open[] = "<think>", close[] = "</think>";
    size_t opens = 0, closes = 0;
    size_t n = count(s, close, &closes);
    uint8_t *marks;

    if (count(s, open, &opens) != 1 || !is_blank(s, opens) ||
        (n == 0 ? !is_last : n > 1 || closes < opens)) {
        return s;
    }
    marks = heap_alloc(h, s.n);
    memcpy(marks, s.marks, s.n);
    memset(marks + opens, 0, sizeof open - 1);
    if (n > 0) {
        memset(marks + closes, 0, sizeof close - 1);
    }
    s.marks = marks;
    return s;
}

static void trust_answer(struct heap *h, const struct value *message,
                         bool is_last)
{
    struct value *content = member(h, message, "content");

    if (content != NULL && content->kind == VALUE_STRING) {
        content->s = trust_reasoning(h, content->s, is_last);
    }
}

struct value convert_messages(struct heap *h, const json_t *json,
                              bool untrusted)
{
    struct value v = convert_json(h, json, untrusted);

    for (size_t i = 0; v.kind == VALUE_LIST && i < v.list->n; i++) {
        const struct value *message = &v.list->items[i];
        struct value *role = member(h, message, "role");

        if (role == NULL || role->kind != VALUE_STRING || !is_role(role->s)) {
            continue;
        }
        if (str_is(role->s, "assistant")) {
            trust_answer(h, message, i == v.list->n - 1);
        }
        *role = value_str(str_copy(h, role->s.text, role->s.n, false));
    }
    return v;
}
