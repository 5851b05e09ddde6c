/* The parser of answers allocates nothing for content and reasoning. */
#include <string.h>

#include "gateway/chat/output_parser.h"
#include "tests/alloc/count.h"
#include "tests/unit/cmocka.h"

#define PUSHES 1000

static void count_bytes(void *arg, const struct output_event *event)
{
    *(size_t *)arg += event->n;
}

static uint64_t allocations(enum output_format format, const char *head,
                            const char *piece)
{
    struct output_parser_options options = {
        .format = format, .tools = true, .reasoning = true};
    struct output_parser *p = output_parser_new(&options);
    size_t n = 0;
    uint64_t count;

    assert_non_null(p);
    output_parser_push(p, head, strlen(head), count_bytes, &n);
    alloc_reset();
    for (int i = 0; i < PUSHES; i++) {
        output_parser_push(p, piece, strlen(piece), count_bytes, &n);
    }
    count = alloc_count(ALLOC_TEST);
    alloc_as(ALLOC_THREADS);
    output_parser_free(&p);
    assert_true(n >= (PUSHES - 1) * strlen(piece));
    alloc_as(ALLOC_TEST);
    return count;
}

static void content_allocates_nothing(void **state)
{
    (void)state;
    for (int f = OUTPUT_PLAIN; f <= OUTPUT_LLAMA3; f++) {
        assert_int_equal(
            allocations((enum output_format)f, "Hello", " a < b <tool <|"), 0);
    }
    assert_int_equal(
        allocations(OUTPUT_HARMONY, "<|channel|>final<|message|>", " a <b"), 0);
}

static void reasoning_allocates_nothing(void **state)
{
    (void)state;
    assert_int_equal(allocations(OUTPUT_HERMES, "<think>a", " b\n\n</th c"), 0);
}

static void streamed_arguments_allocate_nothing(void **state)
{
    (void)state;
    assert_int_equal(
        allocations(OUTPUT_HERMES,
                    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"",
                    "text \\n {} "),
        0);
    assert_int_equal(allocations(OUTPUT_QWEN3_CODER,
                                 "<function=f><parameter=a>", "text \" <b> "),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_allocates_nothing),
        cmocka_unit_test(reasoning_allocates_nothing),
        cmocka_unit_test(streamed_arguments_allocate_nothing),
    };
    alloc_as(ALLOC_TEST);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
