/* Random answers in all formats, made of fragments of markers and JSON.
 *
 * The first bytes choose the format, the options and the cuts; each other
 * byte is a fragment.  Whole, cut at random, and character by character, the
 * answer joins to the same events.  The arguments of each call are whole
 * JSON. */
#include <string.h>

#include "fuzz.h"
#include "gateway/chat/json_scan.h"
#include "tests/unit/gateway/chat/joined.h"

#define TEXT_MAX 4096

static const char *const fragments[] = {
    "<tool_call>",
    "</tool_call>",
    "<function=",
    "</function>",
    "<parameter=",
    "</parameter>",
    "f>",
    "a>",
    "i>",
    "z>",
    ">",
    "<",
    "</",
    "<|",
    "<t",
    "<f",
    "<p",
    "<think>",
    "</think>",
    "<|python_tag|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|start|>assistant",
    "<|channel|>analysis",
    "<|channel|>commentary",
    "<|channel|>final",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|constrain|>json",
    " to=functions.f",
    "to=",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    ";",
    "\"name\": ",
    "\"arguments\": ",
    "\"parameters\": ",
    "\"f\"",
    "\"{\\\"a\\\": 1}\"",
    "\"a\": ",
    "\"id\": ",
    "null",
    "true",
    "12",
    "-0.5e3",
    "\\u00e9",
    "\\n",
    "\n",
    " ",
    "\t",
    "x",
    "Hello",
    "é",
    "日",
    "🎉",
    "\x01",
    "{\"name\": \"f\", \"arguments\": {",
    "<tool_call>\n{\"name\": \"f\"",
    "<tool_call>\n<function=f>\n<parameter=i>\n",
    "\n</parameter>\n",
    "</function>\n</tool_call>"};

#define FRAGMENTS (sizeof fragments / sizeof *fragments)

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
    "\"parameters\": {\"properties\": {\"a\": {\"type\": \"string\"}, "
    "\"i\": {\"type\": \"integer\"}, \"z\": {\"anyOf\": [{\"type\": "
    "[\"array\", \"object\"]}, {\"type\": \"null\"}]}}}}}]";

static size_t cut_every(void *arg, size_t at)
{
    (void)arg, (void)at;
    return 1;
}

static size_t cut_random(void *arg, size_t at)
{
    uint32_t *seed = arg;

    (void)at;
    *seed = *seed * 1664525 + 1013904223;
    return 1 + (*seed >> 16) % 24;
}

static void check_arguments(const struct joined *j)
{
    const char *at = j->calls.text;

    for (uint32_t i = 0; i < j->n_calls; i++) {
        const char *begin = strchr(at, 1) + 1, *end = strchr(begin, 2);

        FUZZ_CHECK(json_scan_whole(begin, (size_t)(end - begin)));
        at = end + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static json_t *tools;
    struct output_parser_options options = {0};
    struct joined whole, other;
    char text[TEXT_MAX + 64];
    size_t w = 0;
    uint32_t seed;

    if (tools == NULL) {
        tools = json_loads(tools_text, 0, NULL);
        FUZZ_CHECK(tools != NULL);
    }
    if (n < 2) {
        return 0;
    }
    options.format = (enum output_format)(data[0] % 5);
    options.tools = (data[1] & 1) == 0;
    options.reasoning = (data[1] & 2) != 0;
    options.in_reasoning = (data[1] & 4) != 0;
    options.keep = true;
    options.one_call = (data[1] & 16) != 0;
    options.tool_list = (data[1] & 8) == 0 ? tools : NULL;
    seed = data[1];
    for (size_t i = 2; i < n && w < TEXT_MAX; i++) {
        const char *fragment = fragments[data[i] % FRAGMENTS];

        memcpy(text + w, fragment, strlen(fragment));
        w += strlen(fragment);
    }
    joined_parse(&whole, &options, text, w, NULL, NULL);
    joined_parse(&other, &options, text, w, cut_every, NULL);
    FUZZ_CHECK(joined_same(&whole, &other));
    joined_fini(&other);
    joined_parse(&other, &options, text, w, cut_random, &seed);
    FUZZ_CHECK(joined_same(&whole, &other));
    joined_fini(&other);
    check_arguments(&whole);
    FUZZ_CHECK(!options.one_call || whole.n_calls <= 1);
    joined_fini(&whole);
    return 0;
}
