/* regex_parse.c - The parser of ECMA-262 patterns. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/grammar/grammar_limits.h"
#include "text/grammar/regex_tree.h"

struct parser {
    struct re_tree *t;
    const char *s;
    size_t n, at;
    unsigned depth;
    struct error *e;
    enum status st;
};

static void fail(struct parser *r, enum status st, const char *what)
{
    if (r->st == ST_OK) {
        r->st = error_set(r->e, st, "pattern, at byte %zu: %s", r->at, what);
    }
}

static bool more(const struct parser *r)
{
    return r->st == ST_OK && r->at < r->n;
}

static bool take(struct parser *r, const char *s)
{
    size_t len = strlen(s);

    if (r->n - r->at < len || memcmp(r->s + r->at, s, len) != 0) {
        return false;
    }
    r->at += len;
    return true;
}

static uint32_t new_node(struct parser *r, struct re x)
{
    struct re_tree *t = r->t;

    if (!arena_grow(&t->p->budget, &t->nodes, &t->cap, (uint64_t)t->n + 1,
                    sizeof *t->nodes)) {
        fail(r, ST_RESOURCE_EXHAUSTED, "GRAMMAR_BYTES_MAX is exceeded");
        return 0;
    }
    t->nodes[t->n] = x;
    return t->n++;
}

/* ---- characters ---- */

static uint32_t next_char(struct parser *r)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)r->s + r->at,
                         (utf8proc_ssize_t)(r->n - r->at), &c);

    if (len <= 0) {
        fail(r, ST_INVALID_ARGUMENT, "not UTF-8");
        return 0;
    }
    r->at += (size_t)len;
    return (uint32_t)c;
}

static uint32_t hex(struct parser *r, unsigned least, unsigned most)
{
    uint32_t v = 0;
    unsigned n = 0;

    while (n < most && r->at < r->n) {
        char c = r->s[r->at];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;

        if (d < 0) {
            break;
        }
        v = v * 16 + (uint32_t)d;
        r->at++;
        n++;
    }
    if (n < least) {
        fail(r, ST_INVALID_ARGUMENT, "an escape needs more hex digits");
    }
    return v;
}

/* Two escapes of surrogates are one character, as with the flag u. */
static uint32_t unicode_escape(struct parser *r)
{
    uint32_t c, low;
    size_t at;

    if (take(r, "{")) {
        c = hex(r, 1, 6);
        if (!take(r, "}") || c > CHAR_LAST) {
            fail(r, ST_INVALID_ARGUMENT, "no character of \\u{...}");
        }
        return c;
    }
    c = hex(r, 4, 4);
    at = r->at;
    if (c >= 0xD800 && c < 0xDC00 && take(r, "\\u")) {
        low = hex(r, 4, 4);
        if (low >= 0xDC00 && low < 0xE000) {
            return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
        r->at = at;
    }
    return c;
}

/* Reads an escape of one character, behind the backslash. */

static uint32_t char_escape(struct parser *r)
{
    uint32_t c = next_char(r);

    switch (c) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'v':
        return '\v';
    case 'f':
        return '\f';
    case 'r':
        return '\r';
    case 'x':
        return hex(r, 2, 2);
    case 'u':
        return unicode_escape(r);
    case 'c':
        return next_char(r) & 31;
    case '0':
        if (r->at >= r->n || r->s[r->at] < '0' || r->s[r->at] > '9') {
            return 0;
        }
        break;
    default:
        break;
    }
    if (c >= '0' && c <= '9') {
        fail(r, ST_UNIMPLEMENTED, "back references are not supported");
    } else if (c < 0x80 && ((c | 32) >= 'a' && (c | 32) <= 'z')) {
        fail(r, ST_UNIMPLEMENTED,
             c == 'b' || c == 'B' ? "word boundaries are not supported"
                                  : "this escape is not supported");
    }
    return c;
}

/* ---- classes ---- */

static const struct char_range digits[] = {{'0', '9'}};
static const struct char_range words[] = {
    {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct char_range spaces[] = {
    {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
    {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

static void add_ranges(struct parser *r, struct char_set *to,
                       const struct char_range *from, size_t n, bool invert)
{
    struct expr_pool *p = r->t->p;
    struct char_set s = {0};

    for (size_t i = 0; i < n; i++) {
        char_set_add(&s, p, from[i].lo, from[i].hi);
    }
    char_set_finish(&s, p, invert);
    char_set_add_all(to, p, &s);
    char_set_fini(&s, p);
}

/* Adds the characters whose general category begins with name[0..n). */

static bool add_category(struct parser *r, struct char_set *to,
                         const char *name, size_t n, bool invert)
{
    struct expr_pool *p = r->t->p;
    struct char_set s = {0};
    bool found = false;

    for (uint32_t c = 0; n >= 1 && n <= 2 && c <= CHAR_LAST; c++) {
        const char *of = utf8proc_category_string((utf8proc_int32_t)c);

        if (memcmp(of, name, n) == 0) {
            found = true;
            if (s.n > 0 && s.ranges[s.n - 1].hi + 1 == c) {
                s.ranges[s.n - 1].hi = c;
            } else {
                char_set_add(&s, p, c, c);
            }
        }
    }
    char_set_finish(&s, p, invert);
    char_set_add_all(to, p, &s);
    char_set_fini(&s, p);
    return found;
}

static void property(struct parser *r, struct char_set *to, bool invert)
{
    const char *name, *end;

    if (!take(r, "{") ||
        (end = memchr(r->s + r->at, '}', r->n - r->at)) == NULL) {
        fail(r, ST_INVALID_ARGUMENT, "\\p needs {a category}");
        return;
    }
    name = r->s + r->at;
    if (!add_category(r, to, name, (size_t)(end - name), invert)) {
        fail(r, ST_UNIMPLEMENTED,
             "\\p knows general categories of one or two letters only");
    }
    r->at = (size_t)(end - r->s) + 1;
}

/* Reads a class escape behind the backslash.  Returns false, and reads nothing,
 * if there is none. */
static bool class_escape(struct parser *r, struct char_set *to)
{
    char c = r->at < r->n ? r->s[r->at] : '\0';

    r->at++;
    switch (c) {
    case 'd':
    case 'D':
        add_ranges(r, to, digits, 1, c == 'D');
        return true;
    case 'w':
    case 'W':
        add_ranges(r, to, words, 4, c == 'W');
        return true;
    case 's':
    case 'S':
        add_ranges(r, to, spaces, sizeof spaces / sizeof *spaces, c == 'S');
        return true;
    case 'p':
    case 'P':
        property(r, to, c == 'P');
        return true;
    default:
        r->at--;
        return false;
    }
}

/* Reads one member of [...]; sets *is_class if it is not one character. */
static uint32_t class_member(struct parser *r, struct char_set *to,
                             bool *is_class)
{
    *is_class = false;
    if (!take(r, "\\")) {
        return next_char(r);
    }
    if (class_escape(r, to)) {
        *is_class = true;
        return 0;
    }
    if (take(r, "b")) {
        return '\b';
    }
    return char_escape(r);
}

static uint32_t set_node(struct parser *r, struct char_set *s, bool invert)
{
    struct re_tree *t = r->t;
    uint32_t e;

    char_set_finish(s, t->p, invert);
    e = char_set_expr(t->p, s, t->json);
    char_set_fini(s, t->p);
    return new_node(
        r,
        (struct re){.kind = RE_EXPR, .child = RE_NIL, .next = RE_NIL, .e = e});
}

/* A dash is a range between two characters, and itself anywhere else. */
static uint32_t parse_class(struct parser *r)
{
    struct char_set s = {0};
    bool invert = take(r, "^");

    while (more(r) && r->s[r->at] != ']') {
        bool first_class, last_class = false;
        uint32_t lo = class_member(r, &s, &first_class), hi = lo;

        if (!first_class && r->at + 1 < r->n && r->s[r->at] == '-' &&
            r->s[r->at + 1] != ']') {
            r->at++;
            hi = class_member(r, &s, &last_class);
            if (last_class) { /* as Annex B: a dash for itself */
                char_set_add(&s, r->t->p, '-', '-');
                hi = lo;
            }
        }
        if (hi < lo) {
            fail(r, ST_INVALID_ARGUMENT,
                 "a range of [...] ends before it "
                 "begins");
        }
        if (!first_class) {
            char_set_add(&s, r->t->p, lo, hi);
        }
    }
    if (!take(r, "]")) {
        fail(r, ST_INVALID_ARGUMENT, "[ has no ]");
    }
    return set_node(r, &s, invert);
}

/* ---- terms ---- */

static uint32_t parse_alternatives(struct parser *r);

static uint32_t parse_group(struct parser *r)
{
    struct re x = {.kind = RE_ALT, .next = RE_NIL};
    bool look = false;

    if (take(r, "?=") || take(r, "?!")) {
        look = true;
        x.m = r->s[r->at - 1] == '!';
    } else if (take(r, "?<=") || take(r, "?<!")) {
        fail(r, ST_UNIMPLEMENTED, "lookbehind is not supported");
    } else if (take(r, "?<")) {
        while (more(r) && r->s[r->at] != '>') {
            r->at++;
        }
        r->at++;
    } else if (!take(r, "?:") && take(r, "?")) {
        fail(r, ST_UNIMPLEMENTED, "this kind of group is not supported");
    }
    if (++r->depth > GRAMMAR_NESTING_MAX) {
        fail(r, ST_RESOURCE_EXHAUSTED, "GRAMMAR_NESTING_MAX is exceeded");
        return 0;
    }
    x.child = parse_alternatives(r);
    r->depth--;
    if (!take(r, ")")) {
        fail(r, ST_INVALID_ARGUMENT, "( has no )");
    }
    if (!look) {
        return x.child;
    }
    x.kind = RE_LOOK;
    x.anchors = true;
    return new_node(r, x);
}

static uint32_t anchor(struct parser *r, enum re_kind kind)
{
    return new_node(
        r, (struct re){
               .kind = kind, .child = RE_NIL, .next = RE_NIL, .anchors = true});
}

static uint32_t parse_atom(struct parser *r)
{
    static const struct char_range ends[] = {
        {'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    struct char_set s = {0};
    uint32_t c;

    if (take(r, "(")) {
        return parse_group(r);
    }
    if (take(r, "[")) {
        return parse_class(r);
    }
    if (take(r, "^")) {
        return anchor(r, RE_BOL);
    }
    if (take(r, "$")) {
        return anchor(r, RE_EOL);
    }
    if (take(r, ".")) {
        add_ranges(r, &s, ends, 3, true);
        return set_node(r, &s, false);
    }
    if (take(r, "\\")) {
        if (class_escape(r, &s)) {
            return set_node(r, &s, false);
        }
        c = char_escape(r);
    } else if (r->s[r->at] == '*' || r->s[r->at] == '+' || r->s[r->at] == '?') {
        fail(r, ST_INVALID_ARGUMENT, "nothing to repeat");
        return 0;
    } else {
        c = next_char(r);
    }
    char_set_add(&s, r->t->p, c, c);
    return set_node(r, &s, false);
}

static uint32_t number(struct parser *r)
{
    uint64_t v = 0;

    while (r->at < r->n && r->s[r->at] >= '0' && r->s[r->at] <= '9') {
        v = v * 10 + (uint64_t)(r->s[r->at++] - '0');
        if (v > GRAMMAR_REPEAT_MAX) {
            fail(r, ST_RESOURCE_EXHAUSTED, "GRAMMAR_REPEAT_MAX is exceeded");
            return 0;
        }
    }
    return (uint32_t)v;
}

/* Reads {m}, {m,} or {m,n}.  Returns false, and reads nothing, if the brace
 * stands for itself. */
static bool braces(struct parser *r, uint32_t *m, uint32_t *n)
{
    size_t at = r->at, digits_at;

    if (!take(r, "{")) {
        return false;
    }
    digits_at = r->at;
    *m = number(r);
    if (r->at > digits_at) {
        *n = *m;
        if (take(r, ",")) {
            digits_at = r->at;
            *n = number(r);
            *n = r->at == digits_at ? EXPR_INF : *n;
        }
        if (take(r, "}")) {
            return true;
        }
    }
    r->at = at;
    return false;
}

static bool quantifier(struct parser *r, uint32_t *m, uint32_t *n)
{
    *m = 0;
    *n = EXPR_INF;
    if (take(r, "+")) {
        *m = 1;
    } else if (take(r, "?")) {
        *n = 1;
    } else if (!take(r, "*") && !braces(r, m, n)) {
        return false;
    }
    if (*m > *n) {
        fail(r, ST_INVALID_ARGUMENT, "a quantifier ends before it begins");
    }
    take(r, "?"); /* lazy or not: the same texts match */
    return true;
}

static uint32_t parse_term(struct parser *r)
{
    uint32_t atom = parse_atom(r), m, n;
    struct re x = {.kind = RE_REP, .child = atom, .next = RE_NIL};

    while (more(r) && quantifier(r, &m, &n)) {
        x.m = m;
        x.n = n;
        x.anchors = r->t->nodes[x.child].anchors;
        if (x.anchors && r->st == ST_OK) {
            fail(r, ST_UNIMPLEMENTED,
                 "^, $ and lookahead inside a repetition are not supported");
        }
        x.child = new_node(r, x);
    }
    return x.child;
}

static uint32_t parse_sequence(struct parser *r)
{
    struct re x = {.kind = RE_SEQ, .child = RE_NIL, .next = RE_NIL};
    uint32_t last = RE_NIL;

    while (more(r) && r->s[r->at] != '|' && r->s[r->at] != ')') {
        uint32_t term = parse_term(r);

        if (r->st != ST_OK) {
            return 0;
        }
        x.anchors = x.anchors || r->t->nodes[term].anchors;
        if (last == RE_NIL) {
            x.child = term;
        } else {
            r->t->nodes[last].next = term;
        }
        last = term;
    }
    return new_node(r, x);
}

static uint32_t parse_alternatives(struct parser *r)
{
    struct re x = {.kind = RE_ALT, .next = RE_NIL};
    uint32_t last = RE_NIL;

    do {
        uint32_t seq = parse_sequence(r);

        if (r->st != ST_OK) {
            return 0;
        }
        x.anchors = x.anchors || r->t->nodes[seq].anchors;
        if (last == RE_NIL) {
            x.child = seq;
        } else {
            r->t->nodes[last].next = seq;
        }
        last = seq;
    } while (take(r, "|"));
    return new_node(r, x);
}

enum status re_parse(struct re_tree *t, const char *s, size_t n, uint32_t *root,
                     struct error *e)
{
    struct parser r = {.t = t, .s = s, .n = n, .e = e, .st = ST_OK};

    if (n > GRAMMAR_PATTERN_MAX) {
        fail(&r, ST_RESOURCE_EXHAUSTED, "GRAMMAR_PATTERN_MAX is exceeded");
        return r.st;
    }
    *root = parse_alternatives(&r);
    if (r.st == ST_OK && r.at < n) {
        fail(&r, ST_INVALID_ARGUMENT, ") has no (");
    }
    if (t->p->budget.failed) {
        fail(&r, ST_RESOURCE_EXHAUSTED, "GRAMMAR_BYTES_MAX is exceeded");
    }
    return r.st;
}

void re_tree_fini(struct re_tree *t)
{
    t->p->budget.bytes -= t->cap * sizeof *t->nodes;
    free(t->nodes);
    t->nodes = NULL;
}
