#include "text/template/lexer.h"

#include <stdlib.h>
#include <string.h>

struct lexer {
    struct heap *h;
    struct tokens *out;
    struct str s; /* the source with its newlines made "\n" */
    size_t at;
    unsigned line;
    bool line_start; /* the last tag took the newline behind it */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           is_digit(c) || (unsigned char)c >= 0x80;
}

static char peek(const struct lexer *x, size_t ahead)
{
    return x->at + ahead < x->s.n ? x->s.text[x->at + ahead] : '\0';
}

static bool looking_at(const struct lexer *x, size_t at, const char *text)
{
    size_t n = strlen(text);

    return n <= x->s.n - at && memcmp(x->s.text + at, text, n) == 0;
}

/* Moves to `to` and counts the lines on the way. */
static void move(struct lexer *x, size_t to)
{
    for (; x->at < to; x->at++) {
        x->line += x->s.text[x->at] == '\n';
    }
}

static struct token *put(struct lexer *x, enum token_kind kind)
{
    struct tokens *t = x->out;

    if (t->n == t->cap) {
        t->items = heap_grow(x->h, t->items, t->n, sizeof *t->items, &t->cap);
    }
    t->items[t->n] = (struct token){.kind = kind, .line = x->line};
    return &t->items[t->n++];
}

_Noreturn static void fail(struct lexer *x, const char *what)
{
    x->h->line = x->line;
    heap_fail(x->h, ST_INVALID_ARGUMENT, "%s", what);
}

/* Every newline becomes "\n"; one at the end of the source is dropped. */
static void normalise(struct lexer *x, const char *source, size_t n)
{
    char *copy = heap_alloc(x->h, n + 1);
    size_t w = 0;

    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r') {
            i += i + 1 < n && source[i + 1] == '\n';
            copy[w++] = '\n';
        } else {
            copy[w++] = source[i];
        }
    }
    if (w > 0 && copy[w - 1] == '\n') {
        w--;
    }
    /* Literals are parts of the source, so all share its zero marks. */
    x->s = (struct str){copy, heap_alloc(x->h, n + 1), w};
}

/* ---- text between tags ---- */

static size_t skip_space(const struct lexer *x, size_t at)
{
    size_t len;

    while (at < x->s.n && code_is_space(str_code(x->s, at, &len))) {
        at += len;
    }
    return at;
}

/* Returns the end of the text before a tag at `end`.  "-" after the tag's
 * opening removes all white space; without a sign, a block alone on its line
 * loses its indentation. */
static size_t text_end(struct lexer *x, size_t from, size_t end, bool block)
{
    struct str s = str_part(x->s, from, end);
    char sign = end + 2 < x->s.n ? x->s.text[end + 2] : '\0';
    size_t line = s.n;

    if (sign == '-') {
        return from + str_strip(x->h, s, NULL, false, true).n;
    }
    if (sign == '+' || !block) {
        return end;
    }
    while (line > 0 && s.text[line - 1] != '\n') {
        line--;
    }
    if ((line > 0 || x->line_start) &&
        str_strip(x->h, str_part(s, line, s.n), NULL, true, false).n == 0) {
        return from + line;
    }
    return end;
}

static void put_data(struct lexer *x, size_t from, size_t end)
{
    if (from < end) {
        put(x, TOKEN_DATA)->text = str_part(x->s, from, end);
    }
}

/* Moves past a tag's closing, which is `close` ("%}"), with the white space
 * or newline that belongs to it.  Returns false if no closing is here. */
static bool close_tag(struct lexer *x, const char *close, bool trim)
{
    char sign = peek(x, 0);
    size_t at = x->at + ((sign == '-' || (sign == '+' && trim)) ? 1 : 0);

    if (!looking_at(x, at, close)) {
        return false;
    }
    at += 2;
    if (sign == '-') {
        at = skip_space(x, at);
    } else if (sign != '+' && trim && at < x->s.n && x->s.text[at] == '\n') {
        at++;
    }
    move(x, at);
    x->line_start = x->s.text[at - 1] == '\n';
    return true;
}

static void comment(struct lexer *x)
{
    size_t from = x->at;

    move(x, x->at + 2);
    while (x->at < x->s.n) {
        if (close_tag(x, "#}", true)) {
            return;
        }
        move(x, x->at + 1);
    }
    move(x, from);
    fail(x, "the comment is not closed; end it with \"#}\"");
}

/* Returns the offset behind `word` in a tag that opens at `at`; 0 if the tag
 * is another. */
static size_t tag_word(struct lexer *x, size_t at, const char *word)
{
    at += 2;
    if (at < x->s.n && (x->s.text[at] == '-' || x->s.text[at] == '+')) {
        at++;
    }
    at = skip_space(x, at);
    if (!looking_at(x, at, word)) {
        return 0;
    }
    return skip_space(x, at + strlen(word));
}

/* {% raw %}: everything up to {% endraw %} is text. */
static bool raw(struct lexer *x)
{
    size_t body = tag_word(x, x->at, "raw"), from = x->at;
    unsigned line = x->line;

    if (body == 0) {
        return false;
    }
    move(x, body);
    if (!close_tag(x, "%}", false)) {
        x->at = from;
        x->line = line;
        return false;
    }
    body = x->at;
    for (size_t i = body; i < x->s.n; i++) {
        size_t end = looking_at(x, i, "{%") ? tag_word(x, i, "endraw") : 0;

        if (end != 0) {
            put_data(x, body, text_end(x, body, i, true));
            move(x, end);
            if (close_tag(x, "%}", true)) {
                return true;
            }
        }
    }
    fail(x, "the raw block is not closed; end it with {% endraw %}");
}

/* ---- inside tags ---- */

static void put_name(struct lexer *x)
{
    size_t from = x->at;

    while (x->at < x->s.n && is_name(x->s.text[x->at])) {
        x->at++;
    }
    put(x, TOKEN_NAME)->text = str_part(x->s, from, x->at);
}

#define NUMBER_BYTES 64

/* Copies digits without their underscores. */
static size_t digits(struct lexer *x, char *to, size_t n)
{
    while (is_digit(peek(x, 0)) ||
           (peek(x, 0) == '_' && n > 0 && is_digit(peek(x, 1)))) {
        if (n + 1 >= NUMBER_BYTES) {
            fail(x, "a number is longer than 62 characters");
        }
        if (peek(x, 0) != '_') {
            to[n++] = peek(x, 0);
        }
        x->at++;
    }
    return n;
}

static size_t exponent(struct lexer *x, char *to, size_t n)
{
    size_t sign = peek(x, 1) == '+' || peek(x, 1) == '-' ? 1 : 0;

    if ((peek(x, 0) != 'e' && peek(x, 0) != 'E') ||
        !is_digit(peek(x, 1 + sign))) {
        return n;
    }
    if (n + 3 >= NUMBER_BYTES) {
        fail(x, "a number is longer than 62 characters");
    }
    to[n++] = 'e';
    if (sign != 0) {
        to[n++] = peek(x, 1);
    }
    x->at += 1 + sign;
    return digits(x, to, n);
}

/* A fraction needs digits on both sides of its point. */
static void put_number(struct lexer *x)
{
    char text[NUMBER_BYTES];
    size_t n = digits(x, text, 0), whole = n;
    /* "a.0.1" is an access to two elements, not to the element 0.1. */
    bool after_dot =
        x->out->n > 0 && x->out->items[x->out->n - 1].op == OPERATOR('.', 0);

    if (peek(x, 0) == '.' && is_digit(peek(x, 1)) && !after_dot) {
        if (n + 2 >= NUMBER_BYTES) {
            fail(x, "a number is longer than 62 characters");
        }
        text[n++] = '.';
        x->at++;
        n = digits(x, text, n);
    }
    if (!after_dot) {
        n = exponent(x, text, n);
    }
    text[n] = '\0';
    if (n > whole) {
        put(x, TOKEN_FLOAT)->f = strtod(text, NULL);
        return;
    }
    if (is_name(peek(x, 0)) || n > 19 || (n > 1 && text[0] == '0') ||
        strtoull(text, NULL, 10) > INT64_MAX) {
        fail(x, "a number is not a decimal integer of at most 63 bits");
    }
    put(x, TOKEN_INT)->i = (int64_t)strtoull(text, NULL, 10);
}

static uint32_t hex(struct lexer *x, size_t n)
{
    uint32_t code = 0;

    for (size_t i = 0; i < n; i++) {
        char c = peek(x, i);
        uint32_t digit = is_digit(c)            ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) {
            fail(x, "an escape of a string has too few hexadecimal digits");
        }
        code = code << 4 | digit;
    }
    move(x, x->at + n);
    return code;
}

static void put_escaped_code(struct lexer *x, struct builder *b, size_t n)
{
    uint32_t code = hex(x, n);

    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        fail(x, "an escape of a string is no Unicode character");
    }
    builder_put_code(b, code, false);
}

static void octal(struct lexer *x, struct builder *b, char first)
{
    uint32_t code = (uint32_t)(first - '0');

    for (int i = 0; i < 2 && peek(x, 0) >= '0' && peek(x, 0) <= '7'; i++) {
        code = code << 3 | (uint32_t)(peek(x, 0) - '0');
        x->at++;
    }
    builder_put_code(b, code, false);
}

/* Decodes the escape whose backslash was read, by Python's rules: an unknown
 * one stands for itself. */
static void escape(struct lexer *x, struct builder *b)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = peek(x, 0);
    const char *known = c == '\0' ? NULL : strchr(from, c);

    move(x, x->at + 1);
    if (known != NULL) {
        builder_put_text(b, &to[known - from], 1, false);
    } else if (c >= '0' && c <= '7') {
        octal(x, b, c);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        put_escaped_code(x, b, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
        fail(x, "the escape \\N of a string is not supported");
    } else if (c != '\n') { /* a newline is skipped */
        builder_put_text(b, "\\", 1, false);
        x->at--;
    }
}

static void put_string(struct lexer *x)
{
    char quote = peek(x, 0);
    struct builder b = {.h = x->h};
    size_t from;
    unsigned line = x->line;

    x->at++;
    from = x->at;
    while (x->at < x->s.n && x->s.text[x->at] != quote) {
        if (x->s.text[x->at] != '\\') {
            move(x, x->at + 1);
            continue;
        }
        builder_put(&b, str_part(x->s, from, x->at));
        x->at++;
        escape(x, &b);
        from = x->at;
    }
    if (x->at >= x->s.n) {
        x->line = line;
        fail(x, "a string is not closed");
    }
    builder_put(&b, str_part(x->s, from, x->at));
    x->at++;
    put(x, TOKEN_STRING)->text = builder_str(&b);
}

static void put_operator(struct lexer *x)
{
    static const char two[][3] = {"//", "**", "==", "!=", ">=", "<="};
    char c = peek(x, 0);
    unsigned op = 0;

    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        if (looking_at(x, x->at, two[i])) {
            op = OPERATOR(two[i][0], two[i][1]);
        }
    }
    if (op == 0 && (c == '\0' || strchr("+-/*%~[](){}><=.:|,", c) == NULL)) {
        fail(x, "a character of a tag belongs to no expression");
    }
    put(x, TOKEN_OPERATOR)->op = op != 0 ? op : OPERATOR(c, 0);
    x->at += op != 0 ? 2 : 1;
}

static void put_token(struct lexer *x)
{
    char c = peek(x, 0);

    if (is_digit(c)) {
        put_number(x);
    } else if (is_name(c)) {
        put_name(x);
    } else if (c == '"' || c == '\'') {
        put_string(x);
    } else {
        put_operator(x);
    }
}

/* A closing inside brackets belongs to the expression: {{ {'a': {}} }}. */
static void track_brackets(const struct lexer *x, size_t *open)
{
    unsigned op = x->out->items[x->out->n - 1].op;

    if (op == '(' || op == '[' || op == '{') {
        ++*open;
    } else if ((op == ')' || op == ']' || op == '}') && *open > 0) {
        --*open;
    }
}

static void tag(struct lexer *x, bool block)
{
    unsigned line = x->line;
    size_t open = 0;

    put(x, block ? TOKEN_BLOCK_BEGIN : TOKEN_PRINT_BEGIN);
    move(x, x->at + 2);
    if (peek(x, 0) == '-' || peek(x, 0) == '+') {
        x->at++;
    }
    for (;;) {
        move(x, skip_space(x, x->at));
        if (x->at >= x->s.n) {
            x->line = line;
            fail(x, "a tag is not closed");
        }
        if (open == 0 && close_tag(x, block ? "%}" : "}}", block)) {
            break;
        }
        put_token(x);
        track_brackets(x, &open);
    }
    put(x, block ? TOKEN_BLOCK_END : TOKEN_PRINT_END);
}

/* Returns the offset of the next tag; of the end if there is none. */
static size_t next_tag(const struct lexer *x)
{
    size_t at = x->at;

    while (at + 1 < x->s.n &&
           !(x->s.text[at] == '{' && strchr("{%#", x->s.text[at + 1]) != NULL &&
             x->s.text[at + 1] != '\0')) {
        at++;
    }
    return at + 1 < x->s.n ? at : x->s.n;
}

void lexer_run(struct heap *h, const char *source, size_t n, struct tokens *out)
{
    struct lexer x = {.h = h, .out = out, .line = 1, .line_start = true};

    *out = (struct tokens){0};
    normalise(&x, source, n);
    while (x.at < x.s.n) {
        size_t begin = next_tag(&x);
        char kind = begin < x.s.n ? x.s.text[begin + 1] : '\0';

        put_data(&x, x.at,
                 kind == '\0' ? begin : text_end(&x, x.at, begin, kind != '{'));
        move(&x, begin);
        if (kind == '#') {
            comment(&x);
        } else if (kind != '\0' && (kind == '{' || !raw(&x))) {
            tag(&x, kind == '%');
        }
    }
    put(&x, TOKEN_END);
    h->line = 0;
}
