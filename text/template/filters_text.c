#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/json_bound.h"
#include "text/template/access.h"
#include "text/template/convert.h"
#include "text/template/filters.h"
#include "text/template/print.h"

#define NUMBER_BYTES 400

/* ---- case and white space ---- */

static struct value run_lower(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return value_str(case_lower(h, print_str(h, in)));
}

static struct value run_upper(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return value_str(case_upper(h, print_str(h, in)));
}

static struct value run_capitalize(struct heap *h, struct value in,
                                   const struct args *a)
{
    (void)a;
    return value_str(case_capitalize(h, print_str(h, in)));
}

static struct value run_title(struct heap *h, struct value in,
                              const struct args *a)
{
    (void)a;
    return value_str(case_title(h, print_str(h, in), true));
}

static struct value run_trim(struct heap *h, struct value in,
                             const struct args *a)
{
    struct str set;
    bool all =
        a->slot[0].kind == VALUE_MISSING || a->slot[0].kind == VALUE_NONE;

    if (!all) {
        set = need_str(h, a->slot[0], "trim");
    }
    return value_str(
        str_strip(h, print_str(h, in), all ? NULL : &set, true, true));
}

/* Python puts the odd blank on the left if the width is odd. */
static struct value run_center(struct heap *h, struct value in,
                               const struct args *a)
{
    struct str s = print_str(h, in);
    int64_t width = args_int(h, a, 0, 80), n = (int64_t)str_length(h, s);
    int64_t pad = width > n ? width - n : 0;
    int64_t left = pad / 2 + (pad & width & 1);
    struct builder b = {.h = h};

    for (int64_t i = 0; i < pad; i++) {
        if (i == left) {
            builder_put(&b, s);
        }
        builder_put_c(&b, " ", false);
        heap_steps(h, 1);
    }
    if (left >= pad) {
        builder_put(&b, s);
    }
    return value_str(builder_str(&b));
}

static struct value run_replace(struct heap *h, struct value in,
                                const struct args *a)
{
    struct str old = print_str(h, args_need(h, a, 0, "old"));
    struct str to = print_str(h, args_need(h, a, 1, "new"));
    int64_t count = a->slot[2].kind == VALUE_NONE ? -1 : args_int(h, a, 2, -1);

    return value_str(str_replace(h, print_str(h, in), old, to, count));
}

/* ---- lines ---- */

static bool ends_line(uint32_t code)
{
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) ||
           code == 0x85 || code == 0x2028 || code == 0x2029;
}

static struct str indentation(struct heap *h, const struct args *a)
{
    struct builder b = {.h = h};
    int64_t width;

    if (a->slot[0].kind == VALUE_STRING) {
        return a->slot[0].s;
    }
    width = args_int(h, a, 0, 4);
    if (width > TEMPLATE_INDENT) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "an indentation of %lld, at most %d are allowed",
                  (long long)width, TEMPLATE_INDENT);
    }
    for (int64_t i = 0; i < width; i++) {
        builder_put_c(&b, " ", false);
    }
    return builder_str(&b);
}

/* The first line, and lines without text, are indented only on request. */
static struct value run_indent(struct heap *h, struct value in,
                               const struct args *a)
{
    struct str s = print_str(h, in), width = indentation(h, a);
    bool first = args_bool(a, 1, false), blank = args_bool(a, 2, false);
    struct builder b = {.h = h};
    size_t from = 0, len;

    heap_steps(h, s.n / 8);
    for (size_t i = 0; i <= s.n; i += len) {
        uint32_t code = '\n';

        len = 1;
        code = i < s.n ? str_code(s, i, &len) : code;
        if (!ends_line(code)) {
            continue;
        }
        if (from > 0) {
            builder_put_c(&b, "\n", i > from && s.marks[from] != 0);
        }
        if (from == 0 ? first : blank || i > from) {
            builder_put(&b, width);
        }
        builder_put(&b, str_part(s, from, i));
        len += code == '\r' && i + 1 < s.n && s.text[i + 1] == '\n';
        from = i + len;
    }
    return value_str(builder_str(&b));
}

/* ---- numbers ---- */

/* Copies a number's text without white space and single underscores. */
static bool number_text(struct heap *h, struct str s, char *to)
{
    size_t n = 0;

    s = str_strip(h, s, NULL, true, true);
    for (size_t i = 0; i < s.n; i++) {
        bool digit_before =
            i > 0 && s.text[i - 1] >= '0' && s.text[i - 1] <= '9';
        bool digit_after =
            i + 1 < s.n && s.text[i + 1] >= '0' && s.text[i + 1] <= '9';

        if (s.text[i] == '_' && digit_before && digit_after) {
            continue;
        }
        if (n + 1 == NUMBER_BYTES || s.text[i] == '\0' || s.text[i] == 'x' ||
            s.text[i] == 'X' || s.text[i] == '(') {
            return false; /* strtod() would read hexadecimal digits */
        }
        to[n++] = s.text[i];
    }
    to[n] = '\0';
    return n > 0;
}

static bool read_double(struct heap *h, struct value v, double *out)
{
    char text[NUMBER_BYTES], *end;

    if (v.kind == VALUE_UNDEFINED) {
        value_fail_undefined(h, v);
    }
    if (value_is_number(v)) {
        *out = value_double(v);
        return true;
    }
    if (v.kind != VALUE_STRING || !number_text(h, v.s, text)) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0';
}

/* A text that is no integer may be a fraction: '5.7' gives 5. */
static bool read_int(struct heap *h, struct value v, int base, int64_t *out)
{
    char text[NUMBER_BYTES], *end;
    double f;

    if (v.kind == VALUE_INT || v.kind == VALUE_BOOL) {
        *out = need_int(h, v, "int");
        return true;
    }
    if (v.kind == VALUE_STRING && number_text(h, v.s, text)) {
        errno = 0;
        *out = strtoll(text, &end, base);
        if (*end == '\0' && errno == 0) {
            return true;
        }
    }
    if (!read_double(h, v, &f) || !isfinite(f)) {
        return false;
    }
    if (f < -9.2e18 || f > 9.2e18) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "an integer does not fit into 64 bits");
    }
    *out = (int64_t)f;
    return true;
}

/* A number that was read from a client's text prints as untrusted text. */
static struct value marked(struct value v, struct value from)
{
    v.untrusted =
        from.untrusted || (from.kind == VALUE_STRING && str_untrusted(from.s));
    return v;
}

static struct value run_int(struct heap *h, struct value in,
                            const struct args *a)
{
    int64_t i, base = args_int(h, a, 1, 10);

    if (base != 2 && base != 8 && base != 10 && base != 16) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "the base of int must be 2, 8, 10 "
                  "or 16");
    }
    if (read_int(h, in, (int)base, &i)) {
        return marked(value_int(i), in);
    }
    return a->slot[0].kind == VALUE_MISSING ? value_int(0) : a->slot[0];
}

static struct value run_float(struct heap *h, struct value in,
                              const struct args *a)
{
    double f;

    if (read_double(h, in, &f)) {
        return marked(value_float(f), in);
    }
    return a->slot[0].kind == VALUE_MISSING ? value_float(0) : a->slot[0];
}

static struct value run_abs(struct heap *h, struct value in,
                            const struct args *a)
{
    (void)a;
    if (in.kind == VALUE_FLOAT) {
        in.f = fabs(in.f);
        return in;
    }
    in.i = need_int(h, in, "abs");
    in.kind = VALUE_INT;
    if (in.i == INT64_MIN) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "an integer does not fit into 64 bits");
    }
    in.i = in.i < 0 ? -in.i : in.i;
    return in;
}

/* printf() rounds a double correctly, half to even, as Python's round(). */
static struct value run_round(struct heap *h, struct value in,
                              const struct args *a)
{
    int64_t precision = args_int(h, a, 0, 0);
    struct str method = args_str(h, a, 1, "common");
    char text[NUMBER_BYTES];
    double f, scale;

    if (!value_is_number(in) || precision < 0 || precision > 15) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "round needs a number and a precision of 0 to 15");
    }
    f = value_double(in);
    scale = pow(10, (double)precision);
    if (str_is(method, "ceil")) {
        f = ceil(f * scale) / scale;
    } else if (str_is(method, "floor")) {
        f = floor(f * scale) / scale;
    } else if (!str_is(method, "common")) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "the method of round must be common, ceil or floor");
    } else if (in.kind != VALUE_FLOAT) {
        return marked(value_int(need_int(h, in, "round")), in);
    } else {
        snprintf(text, sizeof text, "%.*f", (int)precision, f);
        f = strtod(text, NULL);
    }
    return marked(value_float(f), in);
}

/* ---- others ---- */

static struct value run_default(struct heap *h, struct value in,
                                const struct args *a)
{
    bool use = in.kind == VALUE_UNDEFINED ||
               (args_bool(a, 1, false) && !value_true(in));

    if (!use) {
        return in;
    }
    return a->slot[0].kind == VALUE_MISSING ? value_c(h, "") : a->slot[0];
}

static struct value run_string(struct heap *h, struct value in,
                               const struct args *a)
{
    (void)a;
    return value_str(print_str(h, in));
}

static struct value run_safe(struct heap *h, struct value in,
                             const struct args *a)
{
    return run_string(h, in, a);
}

static struct value run_escape(struct heap *h, struct value in,
                               const struct args *a)
{
    static const char *const rows[][2] = {{"&", "&amp;"},
                                          {">", "&gt;"},
                                          {"<", "&lt;"},
                                          {"'", "&#39;"},
                                          {"\"", "&#34;"}};
    struct str s = print_str(h, in);
    bool mark = str_untrusted(s);

    (void)a;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s = str_replace(h, s, (struct str){rows[i][0], NULL, 1},
                        str_copy(h, rows[i][1], strlen(rows[i][1]), mark), -1);
    }
    return value_str(s);
}

static struct value run_format(struct heap *h, struct value in,
                               const struct args *a)
{
    return format_percent(h, need_str(h, in, "format"), a->items, a->n);
}

static void separators(struct heap *h, struct value v, struct json_style *style)
{
    const struct list *l;

    if (v.kind == VALUE_MISSING || v.kind == VALUE_NONE) {
        return;
    }
    l = value_iterate(h, v);
    if (l->n != 2) {
        heap_fail(h, ST_INVALID_ARGUMENT, "separators needs two strings");
    }
    style->item = need_str(h, l->items[0], "separators");
    style->key = need_str(h, l->items[1], "separators");
}

static struct value run_tojson(struct heap *h, struct value in,
                               const struct args *a)
{
    struct builder b = {.h = h};
    struct json_style style = {.indent = -1,
                               .ascii = args_bool(a, 0, false),
                               .sort = args_bool(a, 3, false)};

    if (a->slot[1].kind != VALUE_NONE) {
        style.indent = args_int(h, a, 1, -1);
    }
    if (style.indent > TEMPLATE_INDENT) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "an indentation of %lld, at most %d are allowed",
                  (long long)style.indent, TEMPLATE_INDENT);
    }
    style.item = style.indent < 0 ? str_copy(h, ", ", 2, false)
                                  : str_copy(h, ",", 1, false);
    style.key = str_copy(h, ": ", 2, false);
    separators(h, a->slot[2], &style);
    print_json(&b, in, &style);
    return value_str(builder_str(&b));
}

/* No filter of Jinja2, but hosts of published templates have it. */
static struct value run_from_json(struct heap *h, struct value in,
                                  const struct args *a)
{
    const struct json_bounds most = {TEMPLATE_NESTING, TEMPLATE_RANGE,
                                     TEMPLATE_RANGE};
    struct str s = need_str(h, in, "from_json");
    json_t *json;
    struct value v;

    (void)a;
    heap_steps(h, 1 + s.n / 8);
    if (json_bound(s.text, s.n, &most, ST_OUT_OF_RANGE, NULL) != ST_OK) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "from_json: more than %d values or %d levels", TEMPLATE_RANGE,
                  TEMPLATE_NESTING);
    }
    json = json_loadb(s.text, s.n, JSON_DECODE_ANY, NULL);
    if (json == NULL) {
        heap_fail(h, ST_INVALID_ARGUMENT, "from_json: the text is not JSON");
    }
    v = convert_owned(h, json, str_untrusted(s));
    return v;
}

static struct value run_attr(struct heap *h, struct value in,
                             const struct args *a)
{
    return access_attribute(h, in,
                            need_str(h, args_need(h, a, 0, "name"), "attr"));
}

static const struct builtin rows[] = {
    {"abs", "", run_abs},
    {"attr", "name", run_attr},
    {"capitalize", "", run_capitalize},
    {"center", "width", run_center},
    {"d", "default_value boolean", run_default},
    {"default", "default_value boolean", run_default},
    {"e", "", run_escape},
    {"escape", "", run_escape},
    {"float", "default", run_float},
    {"format", "*", run_format},
    {"from_json", "", run_from_json},
    {"indent", "width first blank", run_indent},
    {"int", "default base", run_int},
    {"lower", "", run_lower},
    {"replace", "old new count", run_replace},
    {"round", "precision method", run_round},
    {"safe", "", run_safe},
    {"string", "", run_string},
    {"title", "", run_title},
    {"tojson", "ensure_ascii indent separators sort_keys", run_tojson},
    {"trim", "chars", run_trim},
    {"upper", "", run_upper},
};

const struct builtins filters_of_text = {rows, sizeof rows / sizeof *rows};
