#include <string.h>

#include "gateway/chat/output_parser.h"

static const char *const names[] = {[OUTPUT_PLAIN] = "plain",
                                    [OUTPUT_HERMES] = "hermes",
                                    [OUTPUT_LLAMA3] = "llama3",
                                    [OUTPUT_QWEN3_CODER] = "qwen3-coder",
                                    [OUTPUT_HARMONY] = "gpt-oss"};

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

const char *output_format_name(enum output_format format)
{
    return names[format];
}

bool output_needs_special(enum output_format format)
{
    return format == OUTPUT_LLAMA3 || format == OUTPUT_HARMONY;
}

enum output_format output_format_of_template(const char *source, size_t n,
                                             bool *reasoning)
{
#define HAS(text) (memmem(source, n, text, sizeof(text) - 1) != NULL)
    *reasoning = HAS("<think>") || HAS("</think>") || HAS("reasoning_content");
    /* Channels are the only structure of gpt-oss: analysis is its reasoning. */
    if (HAS("<|channel|>")) {
        *reasoning = true;
        return OUTPUT_HARMONY;
    }
    /* Templates of qwen3-coder contain the marker of hermes too. */
    if (HAS("<tool_call>")) {
        return HAS("<function=") ? OUTPUT_QWEN3_CODER : OUTPUT_HERMES;
    }
    /* Llama 3.2 has no tag for calls of functions. */
    if (HAS("<|python_tag|>") ||
        (HAS("<|start_header_id|>") && HAS("parameters"))) {
        return OUTPUT_LLAMA3;
    }
    return OUTPUT_PLAIN;
#undef HAS
}
