#include "text/template/parser.h"

#include <stdlib.h>
#include <string.h>

#include "text/template/functions.h"

/* ---- tokens ---- */

const struct token *parser_token(const struct parser *p, size_t ahead)
{
    size_t last = p->tokens.n - 1;

    return &p->tokens.items[p->at + ahead < last ? p->at + ahead : last];
}

bool parser_is_name(const struct parser *p, const char *name)
{
    const struct token *t = parser_token(p, 0);

    return t->kind == TOKEN_NAME && str_is(t->text, name);
}

bool parser_skip_name(struct parser *p, const char *name)
{
    bool found = parser_is_name(p, name);

    p->at += found;
    return found;
}

bool parser_is_op(const struct parser *p, unsigned op)
{
    const struct token *t = parser_token(p, 0);

    return t->kind == TOKEN_OPERATOR && t->op == op;
}

bool parser_skip_op(struct parser *p, unsigned op)
{
    bool found = parser_is_op(p, op);

    p->at += found;
    return found;
}

void parser_need_op(struct parser *p, unsigned op)
{
    char expected[8] = {'"', (char)(op & 0xFF), '"', '\0'};

    if (!parser_skip_op(p, op)) {
        parser_fail(p, expected);
    }
}

static void need(struct parser *p, enum token_kind kind, const char *expected)
{
    if (parser_token(p, 0)->kind != kind) {
        parser_fail(p, expected);
    }
    p->at++;
}

struct str parser_need_name(struct parser *p)
{
    struct str name = parser_token(p, 0)->text;

    need(p, TOKEN_NAME, "a name");
    return name;
}

static const char *token_name(const struct token *t)
{
    static const char *const names[] = {"the end of the template",
                                        "text",
                                        "\"{{\"",
                                        "\"}}\"",
                                        "\"{%\"",
                                        "\"%}\"",
                                        "the name",
                                        "a string",
                                        "an integer",
                                        "a number",
                                        "an operator"};

    return names[t->kind];
}

void parser_fail(struct parser *p, const char *expected)
{
    const struct token *t = parser_token(p, 0);
    const char op[3] = {(char)(t->op & 0xFF), (char)(t->op >> 8), '\0'};
    struct str found = {op, NULL, strlen(op)};

    if (t->kind == TOKEN_NAME) {
        found = str_part(t->text, 0, t->text.n < 64 ? t->text.n : 64);
    }
    p->h->line = t->line;
    heap_fail(p->h, ST_INVALID_ARGUMENT, "expected %s, found %s%s%.*s",
              expected, token_name(t), found.n > 0 ? " " : "", (int)found.n,
              found.text);
}

_Noreturn static void refuse(struct parser *p, unsigned line, const char *kind,
                             struct str name)
{
    p->h->line = line;
    heap_fail(p->h, ST_UNIMPLEMENTED, "the %s \"%.*s\" is not supported", kind,
              (int)(name.n < 64 ? name.n : 64), name.text);
}

/* ---- nodes ---- */

struct node *parser_node(struct parser *p, enum node_kind kind)
{
    struct node *n;

    p->h->line = parser_token(p, 0)->line;
    if (p->nodes == TEMPLATE_NODES) {
        heap_fail(p->h, ST_OUT_OF_RANGE, "the template has more than %d parts",
                  TEMPLATE_NODES);
    }
    p->nodes++;
    n = heap_alloc(p->h, sizeof *n);
    n->kind = kind;
    n->line = p->h->line;
    return n;
}

void parser_add(struct parser *p, struct node *to, struct node *child)
{
    if (to->n == to->cap) {
        to->list = heap_grow(p->h, to->list, to->n, sizeof *to->list, &to->cap);
    }
    to->list[to->n++] = child;
}

/* Bounds the recursion of the parser, and so its stack. */
void parser_enter(struct parser *p)
{
    if (p->nesting == TEMPLATE_NESTING) {
        p->h->line = parser_token(p, 0)->line;
        heap_fail(p->h, ST_OUT_OF_RANGE,
                  "the template nests deeper than %d levels", TEMPLATE_NESTING);
    }
    p->nesting++;
}

void parser_note(struct parser *p, struct names *names, struct str name)
{
    if (names->n == names->cap) {
        size_t cap;

        names->lines =
            heap_grow(p->h, names->lines, names->n, sizeof *names->lines, &cap);
        names->items = heap_grow(p->h, names->items, names->n,
                                 sizeof *names->items, &names->cap);
    }
    names->lines[names->n] = parser_token(p, 0)->line;
    names->items[names->n++] = name;
}

/* ---- statements ---- */

static struct node *statements(struct parser *p, const char *const *ends);

static void end_tag(struct parser *p)
{
    need(p, TOKEN_BLOCK_END, "the end of the tag");
}

/* Parses statements up to a tag of `ends`, whose word is not consumed. */
static struct node *body_until(struct parser *p, const char *const *ends)
{
    struct node *body;

    end_tag(p);
    parser_enter(p);
    body = statements(p, ends);
    p->nesting--;
    return body;
}

static struct node *body_to(struct parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct node *body = body_until(p, ends);

    p->at++; /* the word */
    end_tag(p);
    return body;
}

/* {% if %} with its branches, from behind "if" or "elif". */
static struct node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *first = NULL, **to = &first;

    for (;;) {
        struct node *n = parser_node(p, NODE_IF);

        *to = n;
        n->a = expression_tuple(p, false);
        n->b = body_until(p, ends);
        if (parser_skip_name(p, "elif")) {
            to = &n->c;
            continue;
        }
        if (parser_skip_name(p, "else")) {
            n->c = body_to(p, "endif");
        } else {
            p->at++;
            end_tag(p);
        }
        return first;
    }
}

static struct node *parse_for(struct parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct node *n = parser_node(p, NODE_FOR);

    n->a = expression_target(p, false);
    if (!parser_skip_name(p, "in")) {
        parser_fail(p, "\"in\"");
    }
    n->b = expression_tuple(p, false);
    if (parser_skip_name(p, "if")) {
        n->c = expression_parse(p);
    }
    if (parser_is_name(p, "recursive")) {
        refuse(p, n->line, "tag", parser_token(p, 0)->text);
    }
    p->loops++;
    n->d = body_until(p, ends);
    p->loops--;
    if (parser_skip_name(p, "else")) {
        parser_add(p, n, body_to(p, "endfor"));
    } else {
        p->at++;
        end_tag(p);
    }
    return n;
}

static struct node *parse_set(struct parser *p)
{
    struct node *n = parser_node(p, NODE_SET);

    n->a = expression_target(p, true);
    if (parser_skip_op(p, OPERATOR('=', 0))) {
        n->b = expression_tuple(p, true);
        end_tag(p);
        return n;
    }
    n->kind = NODE_SET_BLOCK;
    n->b = expression_filters(p, parser_node(p, NODE_HOLE), false);
    n->d = body_to(p, "endset");
    return n;
}

static struct node *macro_body(struct parser *p, struct node *macro,
                               const char *end)
{
    unsigned loops = p->loops, uses = p->uses;

    p->loops = 0; /* a macro's body cannot leave a loop around it */
    p->uses = 0;
    macro->d = body_to(p, end);
    macro->op = p->uses;
    p->loops = loops;
    p->uses = uses;
    return macro;
}

static struct node *parse_macro(struct parser *p)
{
    struct node *n = parser_node(p, NODE_MACRO);

    n->text = parser_need_name(p);
    parser_note(p, &p->assigned, n->text);
    parser_need_op(p, '(');
    expression_parameters(p, n);
    return macro_body(p, n, "endmacro");
}

static struct node *parse_call(struct parser *p)
{
    struct node *n = parser_node(p, NODE_CALL_BLOCK);

    n->b = parser_node(p, NODE_MACRO);
    n->b->text = (struct str){"caller", NULL, 6};
    if (parser_skip_op(p, '(')) {
        expression_parameters(p, n->b);
    }
    n->a = expression_parse(p);
    if (n->a->kind != NODE_CALL) {
        parser_fail(p, "a call of a macro before this");
    }
    macro_body(p, n->b, "endcall");
    return n;
}

static struct node *parse_filter(struct parser *p)
{
    struct node *n = parser_node(p, NODE_FILTER_BLOCK);

    n->a = expression_filters(p, parser_node(p, NODE_HOLE), true);
    n->d = body_to(p, "endfilter");
    return n;
}

static struct node *parse_jump(struct parser *p, enum node_kind kind)
{
    struct node *n = parser_node(p, kind);

    if (p->loops == 0) {
        p->at--;
        parser_fail(p, "a loop around \"break\" or \"continue\"");
    }
    end_tag(p);
    return n;
}

/* Parses a tag whose word was consumed. */
static struct node *parse_tag(struct parser *p, const struct token *word)
{
    if (str_is(word->text, "if")) {
        return parse_if(p);
    }
    if (str_is(word->text, "for")) {
        return parse_for(p);
    }
    if (str_is(word->text, "set")) {
        return parse_set(p);
    }
    if (str_is(word->text, "macro")) {
        return parse_macro(p);
    }
    if (str_is(word->text, "call")) {
        return parse_call(p);
    }
    if (str_is(word->text, "filter")) {
        return parse_filter(p);
    }
    if (str_is(word->text, "break")) {
        return parse_jump(p, NODE_BREAK);
    }
    if (str_is(word->text, "continue")) {
        return parse_jump(p, NODE_CONTINUE);
    }
    if (str_is(word->text, "generation")) {
        return body_to(p, "endgeneration");
    }
    refuse(p, word->line, "tag", word->text);
}

/* Looks at the word behind "{%". */
static bool is_end(const struct parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++) {
        const struct token *t = parser_token(p, 1);

        if (t->kind == TOKEN_NAME && str_is(t->text, *ends)) {
            return true;
        }
    }
    return false;
}

static struct node *statement(struct parser *p)
{
    const struct token *t = parser_token(p, 0);
    struct node *n;

    if (t->kind == TOKEN_DATA) {
        n = parser_node(p, NODE_DATA);
        n->text = t->text;
        p->at++;
    } else if (t->kind == TOKEN_PRINT_BEGIN) {
        p->at++;
        n = parser_node(p, NODE_PRINT);
        n->a = expression_tuple(p, true);
        need(p, TOKEN_PRINT_END, "\"}}\"");
    } else {
        p->at++;
        t = parser_token(p, 0);
        need(p, TOKEN_NAME, "the name of a tag");
        n = parse_tag(p, t);
    }
    return n;
}

static struct node *statements(struct parser *p, const char *const *ends)
{
    struct node *block = parser_node(p, NODE_BLOCK);

    while (parser_token(p, 0)->kind != TOKEN_END) {
        if (parser_token(p, 0)->kind == TOKEN_BLOCK_BEGIN && is_end(p, ends)) {
            p->at++;
            return block;
        }
        parser_add(p, block, statement(p));
    }
    if (ends != NULL) {
        parser_fail(p, ends[0]);
    }
    return block;
}

/* ---- names that are called ---- */

/* Sorted, as a template may have as many names as nodes. */
static int by_bytes(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);

    return c != 0 ? c : (x->n > y->n) - (x->n < y->n);
}

/* A function that neither the template nor we define would fail only when it
 * is called; it is refused now. */
static void check_calls(struct parser *p)
{
    struct names *set = &p->assigned;

    if (set->n > 0) {
        qsort(set->items, set->n, sizeof *set->items, by_bytes);
    }
    for (size_t i = 0; i < p->called.n; i++) {
        struct str name = p->called.items[i];

        if (!str_is(name, "caller") && function_find(name) == NULL &&
            (set->n == 0 || bsearch(&name, set->items, set->n,
                                    sizeof *set->items, by_bytes) == NULL)) {
            refuse(p, p->called.lines[i], "function", name);
        }
    }
}

const struct node *parser_run(struct heap *h, const char *source, size_t n,
                              bool *reads_tools)
{
    struct parser p = {.h = h};
    const struct node *root;

    lexer_run(h, source, n, &p.tokens);
    root = statements(&p, NULL);
    check_calls(&p);
    h->line = 0;
    *reads_tools = p.reads_tools;
    return root;
}
