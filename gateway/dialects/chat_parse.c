#include "gateway/dialects/chat_parse.h"

#include "gateway/openai/messages.h"
#include "gateway/openai/parse.h"

/* Audio would be the second element. */
static bool read_modalities(struct parse *p, const struct field *f)
{
    (void)p;
    if (!field_array(f, 1, 1)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field kind = field_element(f, i);

        if (!field_is(&kind, "text")) {
            return field_unexpected(&kind, "\"text\"");
        }
    }
    return true;
}

static const struct rule chat_rules[] = {
    RULE_BY("messages", messages_parse),
    RULE_BY("max_completion_tokens", parse_max_tokens),
    RULE("top_logprobs", LATER),
    RULE_BY("modalities", read_modalities),
    RULE_BY("chat_template_kwargs", parse_kwargs),
    RULE_BY("reasoning_effort", parse_effort),
    RULE("tools", LATER),
    RULE("tool_choice", LATER),
    RULE_BOOL("parallel_tool_calls", template.parallel_tool_calls),
    RULE("add_generation_prompt", LATER),
    RULE("continue_final_message", LATER),
    /* Hints that no open model has. */
    RULE("verbosity", IGNORE),
    RULE("include_reasoning", IGNORE),
    RULE("echo", NEUTRAL),
    RULE("functions", NEUTRAL),
    /* The form of tools before 2023-11; clients have a newer one. */
    RULE("function_call", REFUSE),
    RULE("audio", REFUSE),
    RULE("web_search_options", REFUSE),
    /* A template from a client is a program; only the operator's run. */
    RULE("chat_template", REFUSE),
    RULE("documents", NEUTRAL),
    RULE("mm_processor_kwargs", NEUTRAL),
};

bool chat_parse(struct parse *p)
{
    return parse_rules(p, chat_rules, RULE_COUNT_OF(chat_rules), true) &&
           parse_require(p, "model") && parse_require(p, "messages") &&
           parse_top_logprobs(p) && messages_tools(p) && parse_prompt_end(p) &&
           parse_stream_options(p);
}
