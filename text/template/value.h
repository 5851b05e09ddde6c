/* value.h - Values of a template, and their strings.
 *
 * Every byte of a string has a mark: 0 if the template's author wrote it, 1
 * if it came from data.  Operations copy marks with bytes, so the prompt
 * shows which of its bytes no control token may contain.  A value that is no
 * string has one mark (untrusted) for the text it would print.
 *
 *     kind        member      as in Python
 *     MISSING     -           an argument that was not given
 *     UNDEFINED   s           jinja2.Undefined; s is its name
 *     NONE, BOOL, INT, FLOAT, STRING
 *     LIST        list        list, tuple, iterator, view, range: see shape
 *     DICT        dict        dict, in order of insertion
 *     NAMESPACE   dict        namespace()
 *     LOOP        loop        the variable `loop`
 *     MACRO       macro       a macro or a caller
 *     FUNCTION    function    a global function
 *     METHOD      method      a method with its object
 *
 * Threading: one thread's.  Memory: the heap's.  Strings are immutable; lists
 * and dicts are shared by reference. */
#ifndef TEXT_TEMPLATE_VALUE_H
#define TEXT_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/template/heap.h"

enum value_kind {
    VALUE_MISSING,
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION,
    VALUE_METHOD
};

struct str {
    const char *text;     /* [n] UTF-8 */
    const uint8_t *marks; /* [n] 0: trusted, 1: untrusted */
    size_t n;
};

struct builtin;
struct list;
struct dict;
struct loop;
struct macro;
struct method;

struct value {
    enum value_kind kind;
    bool untrusted;
    union {
        bool b;
        int64_t i;
        double f;
        struct str s;
        struct list *list;
        struct dict *dict;
        struct loop *loop;
        const struct macro *macro;
        const struct builtin *function;
        const struct method *method;
    };
};

enum list_shape {
    SHAPE_LIST,
    SHAPE_TUPLE,
    SHAPE_RANGE,
    SHAPE_VIEW,    /* a dict's: has a length, no elements by index */
    SHAPE_ITERATOR /* has no length, is true, and is empty once read */
};

struct list {
    enum list_shape shape;
    struct value *items;
    size_t n, cap;
};

struct entry {
    struct value key, value;
};

struct dict {
    struct entry *items;
    size_t n, cap;
};

struct loop {
    const struct list *items;
    size_t at;
    struct value changed; /* last argument of loop.changed() */
};

struct method {
    struct value object;
    const struct builtin *builtin;
};

/* ---- strings ---- */

/* Append bytes; fail past TEMPLATE_TEXT_BYTES. */
void builder_put(struct builder *b, struct str s);
void builder_put_text(struct builder *b, const char *text, size_t n,
                      bool untrusted);
void builder_put_c(struct builder *b, const char *text, bool untrusted);
void builder_put_code(struct builder *b, uint32_t code, bool untrusted);

/* Returns what was collected; the builder must not be used again. */
struct str builder_str(const struct builder *b);

/* Returns a copy of text[n] in which all marks are the same. */
struct str str_copy(struct heap *h, const char *text, size_t n, bool untrusted);
struct str str_concat(struct heap *h, struct str a, struct str b);

/* Returns bytes [from, to) of s, without a copy. */
struct str str_part(struct str s, size_t from, size_t to);
bool str_equal(struct str a, struct str b);
bool str_is(struct str s, const char *text);

/* Returns whether any byte is untrusted. */
bool str_untrusted(struct str s);

/* Returns the offset of the first needle at or after from; SIZE_MAX if there
 * is none. */
size_t str_find(struct heap *h, struct str s, struct str needle, size_t from);

/* Decode the character at byte `at`, before byte `end`; set *len to its
 * bytes. */
uint32_t str_code(struct str s, size_t at, size_t *len);
uint32_t str_code_before(struct str s, size_t end, size_t *len);

/* Returns the number of characters. */
size_t str_length(struct heap *h, struct str s);

/* Removes white space, or the characters of set if it is not NULL. */
struct str str_strip(struct heap *h, struct str s, const struct str *set,
                     bool left, bool right);

/* Returns s with every `old` replaced, at most count times; -1: all. */
struct str str_replace(struct heap *h, struct str s, struct str old,
                       struct str to, int64_t count);

/* Returns whether code is white space for Python's str.isspace(). */
bool code_is_space(uint32_t code);

/* ---- values ---- */

struct value value_undefined(struct str name);
struct value value_none(void);
struct value value_bool(bool b);
struct value value_int(int64_t i);
struct value value_float(double f);
struct value value_str(struct str s);
struct value value_c(struct heap *h, const char *text);
struct value value_list(struct heap *h, enum list_shape shape, size_t cap);
struct value value_dict(struct heap *h);

void list_add(struct heap *h, struct list *l, struct value v);

/* Returns the value of a key; NULL if there is none. */
struct value *dict_get(struct heap *h, const struct dict *d, struct value key);
struct value *dict_get_str(struct heap *h, const struct dict *d,
                           struct str key);
void dict_set(struct heap *h, struct dict *d, struct value key,
              struct value value);
bool dict_remove(struct heap *h, struct dict *d, struct value key);

/* Returns the elements of anything that can be iterated; fails otherwise.
 * An iterator is empty afterwards. */
const struct list *value_iterate(struct heap *h, struct value v);
bool value_is_iterable(struct value v);

/* Returns the number of elements or characters; fails if v has none. */
size_t value_length(struct heap *h, struct value v);

/* Returns whether v counts in arithmetic; a bool does. */
bool value_is_number(struct value v);
double value_double(struct value v);
bool value_true(struct value v);
bool value_equal(struct heap *h, struct value a, struct value b);

/* Returns <0, 0 or >0; fails if the kinds have no order. */
int value_compare(struct heap *h, struct value a, struct value b);

/* Returns whether v is in container, as the operator `in`. */
bool value_in(struct heap *h, struct value v, struct value container);

/* Returns the kind in words: "a string". */
const char *value_kind_name(struct value v);

/* Fails with a sentence that an undefined value was used. */
_Noreturn void value_fail_undefined(struct heap *h, struct value v);

/* Sorts items[n]; stable.  before: returns whether b must precede a. */
typedef bool value_before_fn(struct heap *h, void *arg, const struct value *b,
                             const struct value *a);
void value_sort(struct heap *h, struct value *items, size_t n,
                value_before_fn *before, void *arg);

#endif
