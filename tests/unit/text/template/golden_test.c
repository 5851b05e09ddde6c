/* Renderings equal those of Jinja2. */
#include "template_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTORS "tests/vectors/templates/"

/* Compares one rendering with the reference's text, or with its error.
 * Returns whether they agree, and prints them if not. */
static bool agrees(const char *name, const char *source, const json_t *vars,
                   const json_t *want)
{
    const json_t *text = json_object_get(want, "rendered");
    struct chat_template *t;
    struct chat_prompt p = {0};
    struct error e = {0};
    enum status st = chat_template_compile(&t, source, strlen(source), &e);
    bool ok;

    if (st == ST_OK) {
        st = fixture_render(t, vars, NULL, &p, &e);
    }
    if (text == NULL) {
        ok = st != ST_OK && e.text[0] != '\0';
    } else {
        ok = st == ST_OK && p.n == json_string_length(text) &&
             memcmp(p.text, json_string_value(text), p.n) == 0;
    }
    if (!ok) {
        fprintf(stderr, "%s: %s\n  status %d %s\n  got  %.*s\n  want %s\n",
                name, source, (int)st, e.text, (int)p.n,
                p.text == NULL ? "" : p.text,
                text == NULL ? json_string_value(json_object_get(want, "error"))
                             : json_string_value(text));
    }
    chat_prompt_fini(&p);
    chat_template_free(&t);
    return ok;
}

/* A case's variables, and those that every conversation has. */
static json_t *conversation(const json_t *c)
{
    json_t *vars = json_pack("{s:b}", "add_generation_prompt", 1);

    json_object_update(vars, (json_t *)(uintptr_t)c);
    return vars;
}

static void published_templates_render_as_jinja2(void **state)
{
    json_t *golden = fixture_json(VECTORS "golden.json");
    json_t *results = json_object_get(golden, "results");
    json_t *cases = json_object_get(golden, "cases");
    size_t n = 0, bad = 0;
    const char *model, *name;
    json_t *of_model, *want;

    (void)state;
    json_object_foreach(results, model, of_model)
    {
        char path[128], *source;

        snprintf(path, sizeof path, VECTORS "%s.jinja", model);
        source = fixture_read(path);
        json_object_foreach(of_model, name, want)
        {
            json_t *vars = conversation(json_object_get(cases, name));

            n++;
            bad += !agrees(name, source, vars, want);
            json_decref(vars);
        }
        free(source);
    }
    json_decref(golden);
    assert_true(n >= 50);
    assert_int_equal(bad, 0);
}

static void small_templates_render_as_jinja2(void **state)
{
    json_t *file = fixture_json(VECTORS "cases.json"), *c;
    const json_t *cases = json_object_get(file, "cases");
    const json_t *vars = json_object_get(file, "vars");
    size_t i, bad = 0;

    (void)state;
    assert_true(json_array_size(cases) >= 400);
    json_array_foreach(cases, i, c)
    {
        bad += !agrees("case", json_string_value(json_object_get(c, "source")),
                       vars, c);
    }
    json_decref(file);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_templates_render_as_jinja2),
        cmocka_unit_test(small_templates_render_as_jinja2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
