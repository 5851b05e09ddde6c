/* Every limit of text/template, at the limit and one past it. */
#include "template_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/heap.h"
#include "text/template/template_limits.h"

/* Returns text[n] made of copies of part, between head and tail; to free(). */
static char *repeat(const char *head, const char *part, size_t n,
                    const char *tail)
{
    size_t len = strlen(part);
    char *text = malloc(strlen(head) + n * len + strlen(tail) + 1), *to = text;

    assert_non_null(text);
    to = stpcpy(to, head);
    for (size_t i = 0; i < n; i++) {
        to = stpcpy(to, part);
    }
    stpcpy(to, tail);
    return text;
}

static enum status status_of(char *source, const char *vars, struct error *e)
{
    struct chat_prompt p;
    enum status st;

    *e = (struct error){0};
    st = fixture_run(source, vars, &p, e);
    chat_prompt_fini(&p);
    free(source);
    return st;
}

static void accept(char *source, const char *vars)
{
    struct error e;

    if (status_of(source, vars, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

static void refuse(char *source, const char *vars, const char *part)
{
    struct error e;

    assert_int_equal(status_of(source, vars, &e), ST_OUT_OF_RANGE);
    if (strstr(e.text, part) == NULL) {
        fail_msg("\"%s\", want \"%s\"", e.text, part);
    }
}

static void source_bytes(void **state)
{
    (void)state;
    accept(repeat("", "a", TEMPLATE_SOURCE_BYTES, ""), "{}");
    refuse(repeat("", "a", TEMPLATE_SOURCE_BYTES + 1, ""), "{}",
           "1048577 bytes long");
}

/* A block and a text are two nodes; each {{1}} is two more. */
static void nodes(void **state)
{
    (void)state;
    accept(repeat("", "{{1}}", (TEMPLATE_NODES - 2) / 2, "a"), "{}");
    refuse(repeat("", "{{1}}", (TEMPLATE_NODES - 2) / 2, "{{1}}"), "{}",
           "more than 131072 parts");
}

/* Returns n lists inside each other; to free(). */
static char *lists(size_t n)
{
    char *close = repeat("", "]", n, "}}");
    char *source = repeat("{{", "[", n, close);

    free(close);
    return source;
}

static void nesting(void **state)
{
    (void)state;
    accept(lists(TEMPLATE_NESTING), "{}");
    refuse(lists(TEMPLATE_NESTING + 1), "{}", "nests deeper than 100");
}

/* A chain of additions is one level deeper with each, around it the block and
 * the output. */
static void depth(void **state)
{
    (void)state;
    accept(repeat("{{ 0", "+1", TEMPLATE_DEPTH - 3, "}}"), "{}");
    refuse(repeat("{{ 0", "+1", TEMPLATE_DEPTH - 2, "}}"), "{}",
           "nests deeper than 400");
}

static void recursion_ends(void **state)
{
    (void)state;
    fixture_refuse("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}",
                   ST_OUT_OF_RANGE, "nests deeper than 400");
}

static bool steps_fit(struct heap *h, size_t n)
{
    if (setjmp(h->out) != 0) {
        return false;
    }
    heap_steps(h, n);
    return true;
}

static void steps(void **state)
{
    struct error e;
    struct heap h;

    (void)state;
    heap_init(&h, &e);
    assert_true(steps_fit(&h, TEMPLATE_STEPS));
    assert_false(steps_fit(&h, 1));
    assert_int_equal(h.status, ST_OUT_OF_RANGE);
    heap_fini(&h);
    fixture_refuse("{% set r = range(999) %}{% for a in r %}{% for b in r %}"
                   "{% for c in r %}{% endfor %}{% endfor %}{% endfor %}",
                   "{}", ST_OUT_OF_RANGE, "10485760 steps");
}

static bool memory_fits(struct heap *h, size_t n)
{
    if (setjmp(h->out) != 0) {
        return false;
    }
    (void)heap_alloc(h, n);
    return true;
}

static void memory(void **state)
{
    struct error e;
    struct heap h;

    (void)state;
    heap_init(&h, &e);
    assert_true(memory_fits(&h, TEMPLATE_MEMORY));
    assert_false(memory_fits(&h, 1));
    assert_int_equal(h.status, ST_OUT_OF_RANGE);
    heap_fini(&h);
    heap_init(&h, &e);
    assert_false(memory_fits(&h, SIZE_MAX));
    heap_fini(&h);
    fixture_refuse("{% set n = namespace(l=[0]) %}{% for a in range(99) %}"
                   "{% set n.l = n.l + n.l %}{% endfor %}",
                   "{}", ST_OUT_OF_RANGE, "268435456 bytes");
}

/* Doubling gives the limit exactly. */
static void text_bytes(void **state)
{
    static const char source[] =
        "{%% set n = namespace(s='a') %%}{%% for a in range(24) %%}"
        "{%% set n.s = n.s + n.s %%}{%% endfor %%}{{ n.s }}%s";
    char text[256];

    (void)state;
    assert_int_equal(TEMPLATE_TEXT_BYTES, 1 << 24);
    snprintf(text, sizeof text, source, "");
    accept(strdup(text), "{}");
    snprintf(text, sizeof text, source, "a");
    refuse(strdup(text), "{}", "longer than 16777216");
    snprintf(text, sizeof text, source, "{% set x = n.s ~ 'a' %}");
    refuse(strdup(text), "{}", "longer than 16777216");
    fixture_refuse("{{ 'a' * 99999999 }}", "{}", ST_OUT_OF_RANGE, "");
}

static void range(void **state)
{
    (void)state;
    fixture_expect("{{ range(100000) | length }}", "{}", "100000");
    fixture_refuse("{{ range(100001) | length }}", "{}", ST_OUT_OF_RANGE,
                   "more than 100000 numbers");
}

static void indent(void **state)
{
    (void)state;
    accept(strdup("{{ [1] | tojson(indent=64) }}{{ 'a' | indent(64) }}"), "{}");
    fixture_refuse("{{ [1] | tojson(indent=65) }}", "{}", ST_OUT_OF_RANGE,
                   "at most 64");
    fixture_refuse("{{ 'a' | indent(65) }}", "{}", ST_OUT_OF_RANGE,
                   "at most 64");
}

static void time_bytes(void **state)
{
    (void)state;
    accept(repeat("{{ strftime_now('", "a", TEMPLATE_TIME_BYTES - 1, "') }}"),
           "{}");
    refuse(repeat("{{ strftime_now('", "a", TEMPLATE_TIME_BYTES, "') }}"), "{}",
           "128 bytes long, at most 127");
}

#define BODY_BYTES (8 << 20) /* what a client may send */

static void expect_rendering(const char *path, const json_t *messages)
{
    char *source = fixture_read(path);
    struct chat_template *t = fixture_compile(source);
    const struct chat_variable var = {"messages", messages, false};
    struct chat_prompt p;
    struct error e;

    if (chat_template_render(t, &var, 1, 0, &p, &e) != ST_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    chat_prompt_fini(&p);
    chat_template_free(&t);
    free(source);
}

static void render_everywhere(const json_t *messages)
{
    static const char *const paths[] = {
        "tests/vectors/templates/Qwen-Qwen2.5-7B-Instruct.jinja",
        "tests/vectors/templates/Qwen-Qwen3-0.6B.jinja",
        "tests/vectors/templates/Qwen3-Coder.jinja",
        "tests/vectors/templates/Qwen3.5-4B.jinja"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        expect_rendering(paths[i], messages);
    }
}

static void limits_admit_a_long_message(void **state)
{
    char *text = repeat("", "abc \n\xC3\xA9\"", BODY_BYTES / 8, "");
    json_t *messages =
        json_pack("[{s:s,s:s}]", "role", "user", "content", text);

    (void)state;
    assert_non_null(messages);
    render_everywhere(messages);
    json_decref(messages);
    free(text);
}

static void limits_admit_ten_thousand_messages(void **state)
{
    static const char *const roles[] = {"user", "assistant"};
    json_t *messages = json_array();

    (void)state;
    for (size_t i = 0; i < 10000; i++) {
        json_array_append_new(messages,
                              json_pack("{s:s,s:s}", "role", roles[i % 2],
                                        "content", "<think>a</think> word"));
    }
    render_everywhere(messages);
    json_decref(messages);
}

/* The printed table is what the code uses. */
static void table(void **state)
{
    (void)state;
    assert_int_equal(template_limits_n, 10);
    assert_string_equal(template_limits[0].name, "TEMPLATE_SOURCE_BYTES");
    assert_int_equal(template_limits[0].value, TEMPLATE_SOURCE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(source_bytes),
        cmocka_unit_test(nodes),
        cmocka_unit_test(nesting),
        cmocka_unit_test(depth),
        cmocka_unit_test(recursion_ends),
        cmocka_unit_test(steps),
        cmocka_unit_test(memory),
        cmocka_unit_test(text_bytes),
        cmocka_unit_test(range),
        cmocka_unit_test(indent),
        cmocka_unit_test(time_bytes),
        cmocka_unit_test(limits_admit_a_long_message),
        cmocka_unit_test(limits_admit_ten_thousand_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
