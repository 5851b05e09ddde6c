#include "text/template/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "text/template/convert.h"
#include "text/template/eval.h"
#include "text/template/parser.h"

struct chat_template {
    struct heap heap; /* holds the tree */
    const struct node *root;
    bool has_tools;
};

/* ---- compiling ---- */

static enum status check_source(const char *source, size_t n, struct error *e)
{
    size_t bad;

    if (n > TEMPLATE_SOURCE_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "the template is %zu bytes long, at most %d are "
                         "allowed",
                         n, TEMPLATE_SOURCE_BYTES);
    }
    if (!utf8_valid(source, n, &bad)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the template is not UTF-8 at byte %zu", bad);
    }
    return ST_OK;
}

/* A function of its own: no local variable may change between setjmp() and
 * the jump. */
static enum status compile(struct chat_template *t, const char *source,
                           size_t n)
{
    if (setjmp(t->heap.out) != 0) {
        return t->heap.status;
    }
    t->root = parser_run(&t->heap, source, n, &t->has_tools);
    t->heap.error = NULL; /* the caller's, not ours from here on */
    return ST_OK;
}

enum status chat_template_compile(struct chat_template **out,
                                  const char *source, size_t n, struct error *e)
{
    enum status st = check_source(source, n, e);

    *out = NULL;
    if (st != ST_OK) {
        return st;
    }
    *out = malloc(sizeof **out);
    if (*out == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    heap_init(&(*out)->heap, e);
    st = compile(*out, source, n);
    if (st != ST_OK) {
        chat_template_free(out);
    }
    return st;
}

bool chat_template_has_tools(const struct chat_template *t)
{
    return t->has_tools;
}

void chat_template_free(struct chat_template **t)
{
    if (*t != NULL) {
        heap_fini(&(*t)->heap);
        free(*t);
        *t = NULL;
    }
}

/* ---- the result ---- */

/* Counts the untrusted parts of s and writes them if spans is not NULL. */
static size_t find_spans(struct str s, struct text_span *spans)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.marks[i] == 0) {
            continue;
        }
        if (i == 0 || s.marks[i - 1] == 0) {
            n++;
            if (spans != NULL) {
                spans[n - 1].begin = i;
            }
        }
        if (spans != NULL) {
            spans[n - 1].end = i + 1;
        }
    }
    return n;
}

static enum status copy_prompt(struct chat_prompt *out, struct str s,
                               struct error *e)
{
    out->n = s.n;
    out->n_untrusted = find_spans(s, NULL);
    out->text = malloc(s.n + 1);
    out->untrusted = malloc((out->n_untrusted + 1) * sizeof *out->untrusted);
    if (out->text == NULL || out->untrusted == NULL) {
        chat_prompt_fini(out);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    memcpy(out->text, s.text, s.n);
    (void)find_spans(s, out->untrusted);
    return ST_OK;
}

void chat_prompt_fini(struct chat_prompt *p)
{
    free(p->text);
    free(p->untrusted);
    *p = (struct chat_prompt){0};
}

/* ---- rendering ---- */

struct rendering {
    struct heap heap;
    const struct chat_variable *vars;
    size_t n_vars;
    int64_t now;
};

static void set_variables(struct rendering *r, struct scope *scope)
{
    for (size_t i = 0; i < r->n_vars; i++) {
        const struct chat_variable *v = &r->vars[i];
        bool messages = strcmp(v->name, "messages") == 0;
        struct str name = str_copy(&r->heap, v->name, strlen(v->name), false);

        scope_set(&r->heap, scope, name,
                  messages ? convert_messages(&r->heap, v->value, !v->trusted)
                           : convert_json(&r->heap, v->value, !v->trusted));
    }
}

/* Only r and out are used after a jump, and neither changes. */
static enum status render(const struct chat_template *t, struct rendering *r,
                          struct builder *out)
{
    struct eval x = {.h = &r->heap, .out = out};

    if (setjmp(r->heap.out) != 0) {
        return r->heap.status;
    }
    x.scope = scope_new(&r->heap, NULL);
    x.now = value_int(r->now);
    out->h = &r->heap;
    set_variables(r, x.scope);
    exec_statement(&x, t->root);
    return ST_OK;
}

enum status chat_template_render(const struct chat_template *t,
                                 const struct chat_variable *vars,
                                 size_t n_vars, int64_t now_unix,
                                 struct chat_prompt *out, struct error *e)
{
    struct rendering r = {.vars = vars, .n_vars = n_vars, .now = now_unix};
    struct builder text = {0};
    enum status st;

    *out = (struct chat_prompt){0};
    heap_init(&r.heap, e);
    st = render(t, &r, &text);
    if (st == ST_OK) {
        st = copy_prompt(out, builder_str(&text), e);
    }
    heap_fini(&r.heap);
    return st;
}
