/* The answers of tests/vectors/tool_calls.json, whole and cut.
 *
 * Each case is parsed whole, character by character, at every split in two,
 * at random splits, and cut by length at every character. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/chat/joined.h"

#define CASES_MIN     120
#define RANDOM_SPLITS 20

struct vector {
    const char *name, *text;
    size_t n;
    struct output_parser_options options;
    struct joined want;
};

static json_t *file;

static const char *field(const json_t *v, const char *key)
{
    const char *s = json_string_value(json_object_get(v, key));

    return s == NULL ? "" : s;
}

static void append(struct joined_text *out, const char *text)
{
    joined_append(out, text, strlen(text));
}

static void read_vector(struct vector *v, const json_t *row)
{
    const json_t *calls = json_object_get(row, "calls"), *call;
    const json_t *tools = json_object_get(row, "tools");
    size_t i;

    *v =
        (struct vector){.name = field(row, "name"), .text = field(row, "text")};
    v->n = strlen(v->text);
    v->options.tools = !json_is_false(tools);
    v->options.keep = true;
    v->options.tool_list = json_object_get(file, "tools");
    v->options.reasoning = json_is_true(json_object_get(row, "reasoning"));
    v->options.in_reasoning =
        json_is_true(json_object_get(row, "in_reasoning"));
    assert_true(output_format_parse(field(row, "format"), &v->options.format));
    append(&v->want.content, field(row, "content"));
    append(&v->want.reasoning, field(row, "reasoning_content"));
    json_array_foreach(calls, i, call)
    {
        append(&v->want.calls, field(call, "name"));
        append(&v->want.calls, "\x01");
        append(&v->want.calls, field(call, "arguments"));
        append(&v->want.calls, "\x02");
    }
}

static void show(const char *what, const struct joined *j)
{
    print_message("%s\n  content:   %s\n  reasoning: %s\n  calls:     %s\n",
                  what, j->content.text, j->reasoning.text, j->calls.text);
}

static void check(const struct vector *v, const struct joined *want, size_t n,
                  size_t (*cut)(void *, size_t), void *arg)
{
    struct joined got;

    joined_parse(&got, &v->options, v->text, n, cut, arg);
    if (!joined_same(&got, want)) {
        show(v->name, &got);
        show("expected", want);
        fail();
    }
    joined_fini(&got);
}

static size_t cut_every(void *arg, size_t at)
{
    (void)arg, (void)at;
    return 1;
}

static size_t cut_once(void *arg, size_t at)
{
    const size_t *where = arg;

    return at < *where ? *where - at : SIZE_MAX;
}

static size_t cut_random(void *arg, size_t at)
{
    uint64_t *seed = arg;

    (void)at;
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return 1 + (size_t)(*seed >> 33) % 12;
}

static void each(void (*run)(const struct vector *v))
{
    const json_t *cases = json_object_get(file, "cases"), *row;
    size_t i;

    assert_true(json_array_size(cases) >= CASES_MIN);
    json_array_foreach(cases, i, row)
    {
        struct vector v;

        read_vector(&v, row);
        run(&v);
        joined_fini(&v.want);
    }
}

static void run_whole(const struct vector *v)
{
    check(v, &v->want, v->n, NULL, NULL);
}

static void each_answer_whole_is_as_expected(void **state)
{
    (void)state;
    each(run_whole);
}

static void run_split(const struct vector *v)
{
    uint64_t seed = v->n;

    check(v, &v->want, v->n, cut_every, NULL);
    for (size_t at = 1; at < v->n; at++) {
        check(v, &v->want, v->n, cut_once, &at);
    }
    for (int i = 0; i < RANDOM_SPLITS; i++) {
        check(v, &v->want, v->n, cut_random, &seed);
    }
}

static void no_split_changes_an_answer(void **state)
{
    (void)state;
    each(run_split);
}

/* Checks that each call's arguments are JSON. */
static void check_arguments(const struct vector *v, const struct joined *j)
{
    const char *at = j->calls.text;

    for (uint32_t i = 0; i < j->n_calls; i++) {
        const char *begin = strchr(at, 1) + 1, *end = strchr(begin, 2);
        json_t *arguments =
            json_loadb(begin, (size_t)(end - begin),
                       JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, NULL);

        if (arguments == NULL) {
            show(v->name, j);
            fail();
        }
        json_decref(arguments);
        at = end + 1;
    }
}

static void run_cut(const struct vector *v)
{
    for (size_t n = 0; n <= v->n; n++) {
        struct joined whole;

        if (n < v->n && ((unsigned char)v->text[n] & 0xc0) == 0x80) {
            continue;
        }
        joined_parse(&whole, &v->options, v->text, n, NULL, NULL);
        check(v, &whole, n, cut_every, NULL);
        check_arguments(v, &whole);
        joined_fini(&whole);
    }
}

static void an_answer_cut_by_length_is_the_same_whole_and_streamed(void **state)
{
    (void)state;
    each(run_cut);
}

/* Without tools, an answer passes unchanged, but for special tokens. */
static void run_unparsed(const struct vector *v)
{
    struct vector plain = *v;
    struct joined want = {0};

    plain.options = (struct output_parser_options){.format = OUTPUT_PLAIN};
    joined_append(&want.content, v->text, v->n);
    check(&plain, &want, v->n, cut_every, NULL);
    if (v->options.format != OUTPUT_HARMONY &&
        v->options.format != OUTPUT_LLAMA3) {
        plain.options.format = v->options.format;
        check(&plain, &want, v->n, cut_every, NULL);
    }
    joined_fini(&want);
}

static void without_tools_all_text_is_content(void **state)
{
    (void)state;
    each(run_unparsed);
}

static int load(void **state)
{
    (void)state;
    file = json_load_file("tests/vectors/tool_calls.json", 0, NULL);
    return file == NULL;
}

static int unload(void **state)
{
    (void)state;
    json_decref(file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_whole_is_as_expected),
        cmocka_unit_test(no_split_changes_an_answer),
        cmocka_unit_test(
            an_answer_cut_by_length_is_the_same_whole_and_streamed),
        cmocka_unit_test(without_tools_all_text_is_content),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
