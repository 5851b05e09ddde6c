#include <utf8proc.h>

#include "text/template/print.h"

/* Characters are looked up one by one, which costs more than a copy. */
#define STEP_BYTES 8

static uint32_t lower(uint32_t code)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

/* The one common letter whose capital is two. */
#define SHARP_S 0xDF

static void put_upper(struct builder *b, uint32_t code, bool first,
                      bool untrusted)
{
    if (code == SHARP_S) {
        builder_put_c(b, first ? "Ss" : "SS", untrusted);
    } else {
        builder_put_code(b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)code),
                         untrusted);
    }
}

struct str case_lower(struct heap *h, struct str s)
{
    struct builder b = {.h = h};
    size_t len;

    heap_steps(h, s.n / STEP_BYTES);
    for (size_t i = 0; i < s.n; i += len) {
        builder_put_code(&b, lower(str_code(s, i, &len)), s.marks[i]);
    }
    return builder_str(&b);
}

struct str case_upper(struct heap *h, struct str s)
{
    struct builder b = {.h = h};
    size_t len;

    heap_steps(h, s.n / STEP_BYTES);
    for (size_t i = 0; i < s.n; i += len) {
        uint32_t code = str_code(s, i, &len);

        put_upper(&b, code, false, s.marks[i]);
    }
    return builder_str(&b);
}

/* Characters keep the mark of their first byte. */
struct str case_capitalize(struct heap *h, struct str s)
{
    struct builder b = {.h = h};
    size_t len;

    heap_steps(h, s.n / STEP_BYTES);
    for (size_t i = 0; i < s.n; i += len) {
        uint32_t code = str_code(s, i, &len);

        if (i == 0) {
            put_upper(&b, code, true, s.marks[i]);
        } else {
            builder_put_code(&b, lower(code), s.marks[i]);
        }
    }
    return builder_str(&b);
}

static bool is_cased(uint32_t code)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);

    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL ||
           c == UTF8PROC_CATEGORY_LT;
}

/* The filter starts a word after a blank, "-" or an opening bracket, the
 * method after every character that has no case. */
static bool starts_word(uint32_t before, bool filter)
{
    if (!filter) {
        return !is_cased(before);
    }
    return code_is_space(before) || before == '-' || before == '(' ||
           before == '{' || before == '[' || before == '<';
}

struct str case_title(struct heap *h, struct str s, bool filter)
{
    struct builder b = {.h = h};
    uint32_t before = ' ';
    size_t len;

    heap_steps(h, s.n / STEP_BYTES);
    for (size_t i = 0; i < s.n; i += len) {
        uint32_t code = str_code(s, i, &len);

        if (starts_word(before, filter)) {
            put_upper(&b, code, !filter, s.marks[i]);
        } else {
            builder_put_code(&b, lower(code), s.marks[i]);
        }
        before = code;
    }
    return builder_str(&b);
}
