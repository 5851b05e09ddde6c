#include <string.h>

#include "gateway/chat/output_parser.h"

static const char *const names[] = {[OUTPUT_PLAIN] = "plain",
                                    [OUTPUT_HERMES] = "hermes",
                                    [OUTPUT_LLAMA3] = "llama3",
                                    [OUTPUT_QWEN3_CODER] = "qwen3-coder",
                                    [OUTPUT_HARMONY] = "gpt-oss"};

const char output_markers[] =
    "<think></think><tool_call></tool_call><tool_response></tool_response>"
    "<function=</function><parameter=</parameter><|python_tag|><|channel|>"
    "<|message|><|call|><|start|><|end|><|return|><|constrain|>[TOOL_CALLS]";

#define FORMATS (sizeof names / sizeof *names)

bool output_format_parse(const char *name, enum output_format *format)
{
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *format = (enum output_format)i;
            return true;
        }
    }
    return false;
}

bool output_needs_special(enum output_format format)
{
    return format == OUTPUT_LLAMA3 || format == OUTPUT_HARMONY;
}

const char *output_format_name(enum output_format format)
{
    return names[format];
}

/* Markers of calls in formats that no parser here reads.  Some of these
 * templates have <tool_call> as well, around something else. */
static const struct {
    const char *marker, *name;
} unread[] = {
    {"[TOOL_CALLS]", "mistral"},
    {"<arg_key>", "glm"},
    {"<minimax:tool_call>", "minimax"},
    {"<|tool_calls_section_begin|>", "kimi"},
    {"<|tool_call_begin|>", "kimi"},
    {"<\xEF\xBD\x9Ctool\xE2\x96\x81"
     "calls\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     "deepseek"},
    {"DSML", "deepseek"},
    {"<|START_ACTION|>", "command-r"},
    {"<|tool_call|>", "granite or phi"},
    {"<|tool_call_start|>", "lfm2"},
    {"<start_function_call>", "functiongemma"},
    {"<|tool_call>", "gemma"},
};

static bool has(const char *source, size_t n, const char *text)
{
    return memmem(source, n, text, strlen(text)) != NULL;
}

static const char *unread_of(const char *source, size_t n)
{
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++) {
        if (has(source, n, unread[i].marker)) {
            return unread[i].name;
        }
    }
    return NULL;
}

static enum output_format read_of(const char *source, size_t n)
{
    /* Templates of qwen3-coder contain the marker of hermes too. */
    if (has(source, n, "<tool_call>")) {
        return has(source, n, "<function=") ? OUTPUT_QWEN3_CODER
                                            : OUTPUT_HERMES;
    }
    /* Llama 3.2 has no tag for calls of functions. */
    if (has(source, n, "<|python_tag|>") ||
        (has(source, n, "<|start_header_id|>") &&
         has(source, n, "parameters"))) {
        return OUTPUT_LLAMA3;
    }
    return OUTPUT_PLAIN;
}

struct output_found output_format_of_template(const char *source, size_t n)
{
    struct output_found f = {OUTPUT_PLAIN, false, NULL};

    f.reasoning = has(source, n, "<think>") || has(source, n, "</think>") ||
                  has(source, n, "reasoning_content");
    /* Channels are the only structure of gpt-oss: analysis is its reasoning. */
    if (has(source, n, "<|channel|>")) {
        f.reasoning = true;
        f.format = OUTPUT_HARMONY;
        return f;
    }
    f.unread = unread_of(source, n);
    f.format = f.unread != NULL ? OUTPUT_PLAIN : read_of(source, n);
    return f;
}
