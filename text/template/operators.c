#include "text/template/operators.h"

#include <math.h>

#include "text/template/ast.h"
#include "text/template/lexer.h"
#include "text/template/print.h"

/* ---- numbers ---- */

static int64_t whole(struct value v)
{
    return v.kind == VALUE_BOOL ? v.b : v.i;
}

_Noreturn static void overflow(struct heap *h)
{
    heap_fail(h, ST_INVALID_ARGUMENT, "an integer does not fit into 64 bits");
}

_Noreturn static void by_zero(struct heap *h)
{
    heap_fail(h, ST_INVALID_ARGUMENT, "a division by zero");
}

/* Rounds toward minus infinity, as Python does. */
static int64_t floor_div(struct heap *h, int64_t a, int64_t b)
{
    int64_t q;

    if (b == 0) {
        by_zero(h);
    }
    if (a == INT64_MIN && b == -1) {
        overflow(h);
    }
    q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t modulo(struct heap *h, int64_t a, int64_t b)
{
    int64_t r;

    if (b == 0) {
        by_zero(h);
    }
    if (b == -1) {
        return 0;
    }
    r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t power(struct heap *h, int64_t base, int64_t exponent)
{
    int64_t result = 1;

    /* Squares: at most 63 rounds, as an exponent halves in each. */
    for (;;) {
        if (exponent % 2 == 1 &&
            __builtin_mul_overflow(result, base, &result)) {
            overflow(h);
        }
        exponent /= 2;
        if (exponent == 0) {
            return result;
        }
        if (__builtin_mul_overflow(base, base, &base)) {
            overflow(h);
        }
    }
}

static struct value integers(struct heap *h, unsigned op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;

    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case '%':
        r = modulo(h, a, b);
        break;
    case OPERATOR('/', '/'):
        r = floor_div(h, a, b);
        break;
    default:
        if (b < 0) {
            return value_float(pow((double)a, (double)b));
        }
        r = power(h, a, b);
        break;
    }
    if (over) {
        overflow(h);
    }
    return value_int(r);
}

/* The result has the sign of the divisor; fmod()'s has the dividend's. */
static double float_modulo(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static struct value floats(struct heap *h, unsigned op, double a, double b)
{
    if (b == 0 && (op == '/' || op == '%' || op == OPERATOR('/', '/'))) {
        by_zero(h);
    }
    switch (op) {
    case '+':
        return value_float(a + b);
    case '-':
        return value_float(a - b);
    case '*':
        return value_float(a * b);
    case '/':
        return value_float(a / b);
    case '%':
        return value_float(float_modulo(a, b));
    case OPERATOR('/', '/'):
        return value_float(floor(a / b));
    default:
        return value_float(pow(a, b));
    }
}

/* ---- sequences ---- */

static struct value add_lists(struct heap *h, const struct list *a,
                              const struct list *b)
{
    struct value v = value_list(h, a->shape, a->n + b->n);

    for (size_t i = 0; i < a->n; i++) {
        list_add(h, v.list, a->items[i]);
    }
    for (size_t i = 0; i < b->n; i++) {
        list_add(h, v.list, b->items[i]);
    }
    return v;
}

static struct value repeat(struct heap *h, struct value v, int64_t times)
{
    struct builder b = {.h = h};
    struct value all;

    if (v.kind == VALUE_STRING) {
        for (int64_t i = 0; i < times && v.s.n > 0; i++) {
            builder_put(&b, v.s);
            heap_steps(h, 1);
        }
        return value_str(builder_str(&b));
    }
    all = value_list(h, v.list->shape, 0);
    for (int64_t i = 0; i < times && v.list->n > 0; i++) {
        for (size_t j = 0; j < v.list->n; j++) {
            list_add(h, all.list, v.list->items[j]);
        }
    }
    return all;
}

/* A bool counts as 0 or 1. */
static bool repeats(struct value v, struct value times)
{
    return (v.kind == VALUE_STRING ||
            (v.kind == VALUE_LIST && v.list->shape <= SHAPE_TUPLE)) &&
           (times.kind == VALUE_INT || times.kind == VALUE_BOOL);
}

/* A tuple has all the values; anything else is the one value. */
static struct value percent(struct heap *h, struct str format, struct value v)
{
    if (v.kind == VALUE_LIST && v.list->shape == SHAPE_TUPLE) {
        return format_percent(h, format, v.list->items, v.list->n);
    }
    return format_percent(h, format, &v, 1);
}

_Noreturn static void fail_kinds(struct heap *h, unsigned op, struct value a,
                                 struct value b)
{
    const char text[3] = {(char)(op & 0xFF), (char)(op >> 8), '\0'};

    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, a.kind == VALUE_UNDEFINED ? a : b);
    }
    heap_fail(h, ST_INVALID_ARGUMENT, "\"%s\" cannot combine %s and %s", text,
              value_kind_name(a), value_kind_name(b));
}

static struct value combine(struct heap *h, unsigned op, struct value a,
                            struct value b)
{
    bool lists = a.kind == VALUE_LIST && b.kind == VALUE_LIST;

    if (value_is_number(a) && value_is_number(b)) {
        return a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT || op == '/'
                   ? floats(h, op, value_double(a), value_double(b))
                   : integers(h, op, whole(a), whole(b));
    }
    if (op == '+' && a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        return value_str(str_concat(h, a.s, b.s));
    }
    if (op == '+' && lists && a.list->shape == b.list->shape &&
        a.list->shape <= SHAPE_TUPLE) {
        return add_lists(h, a.list, b.list);
    }
    if (op == '*' && repeats(a, b)) {
        return repeat(h, a, whole(b));
    }
    if (op == '*' && repeats(b, a)) {
        return repeat(h, b, whole(a));
    }
    if (op == '%' && a.kind == VALUE_STRING) {
        return percent(h, a.s, b);
    }
    fail_kinds(h, op, a, b);
}

struct value operator_binary(struct heap *h, unsigned op, struct value a,
                             struct value b)
{
    struct value v = combine(h, op, a, b);

    v.untrusted = a.untrusted || b.untrusted;
    return v;
}

struct value operator_unary(struct heap *h, unsigned op, struct value v)
{
    struct value zero = value_int(0);

    if (v.kind == VALUE_FLOAT) {
        v.f = op == '-' ? -v.f : v.f;
        return v;
    }
    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (!value_is_number(v)) {
        heap_fail(h, ST_INVALID_ARGUMENT, "%s has no sign", value_kind_name(v));
    }
    return operator_binary(h, op, zero, v);
}

bool operator_compare(struct heap *h, unsigned op, struct value a,
                      struct value b)
{
    switch (op) {
    case OPERATOR_IN:
        return value_in(h, a, b);
    case OPERATOR_NOT_IN:
        return !value_in(h, a, b);
    case OPERATOR('=', '='):
        return value_equal(h, a, b);
    case OPERATOR('!', '='):
        return !value_equal(h, a, b);
    case '<':
        return value_compare(h, a, b) < 0;
    case '>':
        return value_compare(h, a, b) > 0;
    case OPERATOR('<', '='):
        return value_compare(h, a, b) <= 0;
    default:
        return value_compare(h, a, b) >= 0;
    }
}

/* ---- slices ---- */

struct slice {
    int64_t start, stop, step;
};

static int64_t bound(struct heap *h, struct value v, int64_t otherwise)
{
    return v.kind == VALUE_MISSING || v.kind == VALUE_NONE
               ? otherwise
               : need_int(h, v, "a slice");
}

static int64_t clamp(int64_t at, int64_t n, int64_t low, int64_t high)
{
    if (at < 0) {
        at += n; /* no overflow: n >= 0 */
    }
    return at < low ? low : at > high ? high : at;
}

/* Python's slice.indices(). */
static struct slice indices(struct heap *h, int64_t n, struct value start,
                            struct value stop, struct value step)
{
    struct slice s = {.step = bound(h, step, 1)};
    bool back = s.step < 0;
    int64_t low = back ? -1 : 0, high = back ? n - 1 : n;

    if (s.step == 0) {
        heap_fail(h, ST_INVALID_ARGUMENT, "the step of a slice is 0");
    }
    s.start = bound(h, start, INT64_MIN);
    s.start = start.kind == VALUE_MISSING || start.kind == VALUE_NONE
                  ? (back ? high : low)
                  : clamp(s.start, n, low, high);
    s.stop = bound(h, stop, INT64_MIN);
    s.stop = stop.kind == VALUE_MISSING || stop.kind == VALUE_NONE
                 ? (back ? low : high)
                 : clamp(s.stop, n, low, high);
    return s;
}

static bool inside(const struct slice *s, int64_t i)
{
    return s->step > 0 ? i < s->stop : i > s->stop;
}

static int64_t next(const struct slice *s, int64_t i)
{
    int64_t sum;

    /* Past every stop, so that the loop ends. */
    return __builtin_add_overflow(i, s->step, &sum) ? s->stop : sum;
}

/* Byte offsets of the characters of a string, and of its end. */
static const size_t *offsets(struct heap *h, struct str s, size_t n)
{
    size_t *at = heap_alloc(h, (n + 1) * sizeof *at), len, w = 0;

    for (size_t i = 0; i < s.n; i += len) {
        at[w++] = i;
        (void)str_code(s, i, &len);
    }
    at[w] = s.n;
    return at;
}

/* Returns the offset of character i. */
static size_t offset_of(struct heap *h, struct str s, int64_t i)
{
    size_t at = 0, len;

    for (; i > 0; i--, at += len) {
        (void)str_code(s, at, &len);
    }
    heap_bytes(h, at);
    return at;
}

/* Slices count characters.  With step 1 no byte is copied. */
static struct value slice_str(struct heap *h, struct str s,
                              const struct slice *sl, size_t n)
{
    struct builder b = {.h = h};
    const size_t *at;

    if (sl->step == 1) {
        return value_str(sl->start >= sl->stop
                             ? str_part(s, 0, 0)
                             : str_part(s, offset_of(h, s, sl->start),
                                        offset_of(h, s, sl->stop)));
    }
    at = offsets(h, s, n);
    for (int64_t i = sl->start; inside(sl, i); i = next(sl, i)) {
        heap_steps(h, 1);
        builder_put(&b, str_part(s, at[i], at[i + 1]));
    }
    return value_str(builder_str(&b));
}

struct value operator_slice(struct heap *h, struct value v, struct value start,
                            struct value stop, struct value step)
{
    struct value out;
    struct slice s;
    size_t n;

    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (v.kind != VALUE_STRING &&
        (v.kind != VALUE_LIST || v.list->shape > SHAPE_RANGE)) {
        heap_fail(h, ST_INVALID_ARGUMENT, "%s cannot be cut by a slice",
                  value_kind_name(v));
    }
    n = value_length(h, v);
    s = indices(h, (int64_t)n, start, stop, step);
    if (v.kind == VALUE_STRING) {
        return slice_str(h, v.s, &s, n);
    }
    out = value_list(h, v.list->shape, 0);
    for (int64_t i = s.start; inside(&s, i); i = next(&s, i)) {
        list_add(h, out.list, v.list->items[i]);
    }
    out.untrusted = v.untrusted;
    return out;
}
