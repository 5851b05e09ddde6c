#include "template_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 22 November 2026, 00:00:00 UTC. */
#define NOW 1795305600

json_t *fixture_json(const char *path)
{
    json_error_t at;
    json_t *v = json_load_file(path, JSON_ALLOW_NUL, &at);

    if (v == NULL) {
        fail_msg("%s: line %d: %s", path, at.line, at.text);
    }
    return v;
}

char *fixture_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n;
    char *text;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    return text;
}

struct chat_template *fixture_compile(const char *source)
{
    struct chat_template *t;
    struct error e;

    if (chat_template_compile(&t, source, strlen(source), &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return t;
}

static size_t add(struct chat_variable *to, size_t n, const json_t *from,
                  bool trusted)
{
    json_t *object = (json_t *)(uintptr_t)from;

    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at)) {
        assert_true(n < FIXTURE_VARIABLES);
        to[n++] = (struct chat_variable){json_object_iter_key(at),
                                         json_object_iter_value(at), trusted};
    }
    return n;
}

enum status fixture_render(const struct chat_template *t, const json_t *vars,
                           const json_t *trusted, struct chat_prompt *out,
                           struct error *e)
{
    struct chat_variable v[FIXTURE_VARIABLES];
    size_t n = trusted == NULL ? 0 : add(v, 0, trusted, true);

    n = add(v, n, vars, false);
    return chat_template_render(t, v, n, NOW, out, e);
}

enum status fixture_run(const char *source, const char *vars,
                        struct chat_prompt *out, struct error *e)
{
    json_t *v = json_loads(vars, 0, NULL);
    struct chat_template *t;
    enum status st = chat_template_compile(&t, source, strlen(source), e);

    assert_non_null(v);
    *out = (struct chat_prompt){0};
    if (st == ST_OK) {
        st = fixture_render(t, v, NULL, out, e);
    }
    chat_template_free(&t);
    json_decref(v);
    return st;
}

void fixture_expect(const char *source, const char *vars, const char *want)
{
    struct chat_prompt p;
    struct error e = {0};

    if (fixture_run(source, vars, &p, &e) != ST_OK) {
        fail_msg("%s: %s", source, e.text);
    }
    if (p.n != strlen(want) || memcmp(p.text, want, p.n) != 0) {
        fail_msg("%s: \"%.*s\", not \"%s\"", source, (int)p.n, p.text, want);
    }
    chat_prompt_fini(&p);
}

void fixture_refuse(const char *source, const char *vars, enum status status,
                    const char *part)
{
    struct chat_prompt p;
    struct error e = {0};
    enum status st = fixture_run(source, vars, &p, &e);

    if (st != status || strstr(e.text, part) == NULL) {
        fail_msg("%s: status %d, \"%s\", not %d, \"%s\"", source, (int)st,
                 e.text, (int)status, part);
    }
    assert_null(p.text);
}
