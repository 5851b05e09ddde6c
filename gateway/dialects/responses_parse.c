/* Translates bodies of /v1/responses to messages and tools of a chat. */
#include "gateway/dialects/responses_parse.h"

#include <string.h>

#include "gateway/openai/messages.h"
#include "gateway/openai/parse.h"

static const char *const text_parts[] = {"input_text", "output_text", "text",
                                         "refusal", NULL};
static const char *const summary_parts[] = {"summary_text", "reasoning_text",
                                            "text", NULL};

/* ---- items of the input ---- */

/* An assistant's turn arrives as several items: reasoning, text, calls.  They
 * become one message, to which *open points until another role speaks. */

static json_t *open_turn(struct parse *p, json_t **open)
{
    if (*open == NULL) {
        *open = messages_add(p, "assistant", json_string(""));
    }
    return *open;
}

static bool read_role(struct parse *p, const struct field *role,
                      json_t *content, json_t **open)
{
    bool user = field_is(role, "user");

    if (field_is(role, "assistant")) {
        json_t *turn = open_turn(p, open);

        if (json_string_length(json_object_get(turn, "content")) > 0 ||
            json_object_get(turn, "tool_calls") != NULL) {
            *open = NULL;
            turn = open_turn(p, open);
        }
        parse_put(turn, "content", content);
        return true;
    }
    *open = NULL;
    if (user || field_is(role, "system") || field_is(role, "developer")) {
        (void)messages_add(p, user ? "user" : "system", content);
        return true;
    }
    json_decref(content);
    return field_unexpected(role, "system, developer, user or assistant");
}

static bool read_message(struct parse *p, const struct field *f, json_t **open)
{
    struct field role, content;
    json_t *value;

    (void)field_find(f, "role", &role);
    (void)field_find(f, "content", &content);
    return messages_content(&content, text_parts, &value) &&
           read_role(p, &role, value, open);
}

static bool read_call(struct parse *p, const struct field *f, json_t **open)
{
    struct field id, name, arguments;
    const char *id_text, *name_text;
    json_t *value;

    (void)field_find(f, "call_id", &id);
    (void)field_find(f, "name", &name);
    (void)field_find(f, "arguments", &arguments);
    if (!field_short_string(&id, OPENAI_CALL_ID_MAX, &id_text) ||
        !messages_name(&name, &name_text) ||
        !messages_arguments(p, &arguments, &value)) {
        return false;
    }
    messages_add_call(open_turn(p, open), id_text, name_text, value);
    return true;
}

static bool read_output(struct parse *p, const struct field *f, json_t **open)
{
    struct field id, output;
    const char *id_text;
    json_t *value, *message;

    (void)field_find(f, "call_id", &id);
    (void)field_find(f, "output", &output);
    if (!field_short_string(&id, OPENAI_CALL_ID_MAX, &id_text) ||
        !messages_result(&output, text_parts, &value)) {
        return false;
    }
    *open = NULL;
    message = messages_add(p, "tool", value);
    parse_put(message, "tool_call_id", json_string(id_text));
    return true;
}

/* The reasoning itself is in content, if the client has it; else a summary. */
static bool read_reasoning(struct parse *p, const struct field *f,
                           json_t **open)
{
    struct field parts;
    json_t *value;
    bool has_content =
        field_find(f, "content", &parts) && json_array_size(parts.value) > 0;

    if (!has_content && !field_find(f, "summary", &parts)) {
        return true; /* encrypted, by another server */
    }
    if (!field_array(&parts, 0, OPENAI_MESSAGES_MAX)) {
        return false;
    }
    if (json_array_size(parts.value) == 0) {
        return true;
    }
    if (!messages_content(&parts, summary_parts, &value)) {
        return false;
    }
    *open = NULL;
    parse_put(open_turn(p, open), "reasoning_content", value);
    return true;
}

static bool read_item(struct parse *p, const struct field *f, json_t **open)
{
    struct field type;

    if (!field_object(f)) {
        return false;
    }
    if (!field_find(f, "type", &type) || field_is(&type, "message")) {
        return read_message(p, f, open);
    }
    if (field_is(&type, "function_call")) {
        return read_call(p, f, open);
    }
    if (field_is(&type, "function_call_output")) {
        return read_output(p, f, open);
    }
    if (field_is(&type, "reasoning")) {
        return read_reasoning(p, f, open);
    }
    return field_unexpected(
        &type, "message, function_call, function_call_output or reasoning");
}

static bool read_input(struct parse *p, const struct field *f)
{
    json_t *open = NULL;

    /* A text is short for one message of the user. */
    if (json_is_string(f->value)) {
        (void)messages_add(p, "user", json_incref((json_t *)f->value));
        return true;
    }
    if (!json_is_array(f->value)) {
        return field_unexpected(f, "a string or an array of items");
    }
    if (!field_array(f, 1, OPENAI_MESSAGES_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field item = field_element(f, i);

        if (!read_item(p, &item, &open)) {
            return false;
        }
    }
    /* Items without text, such as reasoning without a summary, make none. */
    return p->r->messages != NULL ||
           field_fail(f, "has no message; send at least one");
}

static bool read_instructions(struct parse *p, const struct field *f)
{
    const char *text;
    size_t n;

    if (!field_string(f, &text, &n)) {
        return false;
    }
    (void)messages_add(p, "system", json_incref((json_t *)f->value));
    return true;
}

/* ---- other fields ---- */

/* A summary would need a second model; the reasoning itself is returned. */
static bool read_reasoning_options(struct parse *p, const struct field *f)
{
    struct field effort;

    if (!field_object(f)) {
        return false;
    }
    return !field_find(f, "effort", &effort) || parse_effort(p, &effort);
}

static bool read_text(struct parse *p, const struct field *f)
{
    struct field format;

    if (!field_object(f)) {
        return false;
    }
    return !field_find(f, "format", &format) || parse_format(p, &format);
}

/* "auto" would drop items from the middle of a conversation. */
static bool read_truncation(struct parse *p, const struct field *f)
{
    (void)p;
    return field_is(f, "disabled") || field_unexpected(f, "\"disabled\"");
}

static bool read_include(struct parse *p, const struct field *f)
{
    if (!field_array(f, 0, OPENAI_TOOLS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field item = field_element(f, i);

        if (field_is(&item, "message.output_text.logprobs")) {
            p->r->sampling.logprobs = true;
        } else if (!field_is(&item, "reasoning.encrypted_content")) {
            /* Reasoning is returned in the clear, so that value adds none. */
            return field_unexpected(&item, "message.output_text.logprobs");
        }
    }
    return true;
}

static const struct rule responses_rules[] = {
    RULE_BY("instructions", read_instructions),
    RULE_BY("input", read_input),
    RULE_BY("max_output_tokens", parse_max_tokens),
    RULE_BY("include", read_include),
    RULE("top_logprobs", LATER),
    RULE_BY("chat_template_kwargs", parse_kwargs),
    RULE_BY("reasoning", read_reasoning_options),
    RULE_BY("text", read_text),
    RULE_BY("truncation", read_truncation),
    /* The answer repeats it, so it must have the schema's type. */
    RULE_BY("metadata", parse_object),
    RULE("tools", LATER),
    RULE("tool_choice", LATER),
    RULE_BOOL("parallel_tool_calls", template.parallel_tool_calls),
    RULE("max_tool_calls", IGNORE), /* of tools that run at the server */
    RULE("background", NEUTRAL),
    RULE("previous_response_id", REFUSE),
    RULE("conversation", REFUSE),
    RULE("prompt", REFUSE),
    RULE("context_management", REFUSE),
    /* Names of other endpoints. */
    RULE("n", REFUSE),
    RULE("max_tokens", REFUSE),
    RULE("logprobs", REFUSE),
    RULE("response_format", REFUSE),
};

/* ---- tools ---- */

static json_t *member_or_null(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);

    return v != NULL ? json_incref(v) : json_null();
}

/* Here a function's members stand beside its type. */
static void add_tool(struct parse *p, json_t *flat, const json_t *tool)
{
    static const char *const keys[] = {"name", "description", "parameters",
                                       "strict"};
    json_t *function = json_object(), *chat = json_object();
    json_t *shown = json_object();

    parse_put(shown, "type", json_string("function"));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *v = json_object_get(tool, keys[i]);

        parse_put(shown, keys[i], member_or_null(tool, keys[i]));
        if (v != NULL && !json_is_null(v)) {
            parse_put(function, keys[i], json_incref(v));
        }
    }
    /* The answer must repeat all four members, null if absent. */
    parse_append(flat, shown);
    parse_put(chat, "type", json_string("function"));
    parse_put(chat, "function", function);
    messages_add_tool(p, chat);
}

static bool read_tools(struct parse *p, json_t *flat)
{
    struct field f;

    if (!field_find(&p->body, "tools", &f)) {
        return true;
    }
    if (!field_array(&f, 0, OPENAI_TOOLS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f.value); i++) {
        struct field tool = field_element(&f, i);
        bool is_function;

        if (!messages_is_function(p, &tool, &is_function)) {
            return false;
        }
        if (!is_function) {
            continue;
        }
        if (!messages_function(p, &tool)) {
            return false;
        }
        add_tool(p, flat, tool.value);
    }
    return true;
}

static bool read_tools_and_choice(struct parse *p)
{
    json_t *flat = json_array();
    bool none;

    if (!parse_put(p->r->values.repeated, "tools", flat) ||
        !read_tools(p, flat) || !messages_tool_choice(p, &none)) {
        return false;
    }
    parse_put(p->r->values.repeated, "tool_choice",
              json_string(none ? "none" : "auto"));
    if (none) {
        json_decref(p->r->template.tools);
        p->r->template.tools = NULL;
    }
    return true;
}

static bool read_top_logprobs(struct parse *p)
{
    struct sampling *s = &p->r->sampling;
    struct field f;

    if (!field_find(&p->body, "top_logprobs", &f)) {
        return true;
    }
    if (!field_count(&f, 0, TOP_LOGPROBS_MAX, &s->n_top_logprobs)) {
        return false;
    }
    /* Candidates without include ask for logprobs as well. */
    s->logprobs = s->logprobs || s->n_top_logprobs > 0;
    return true;
}

/* ---- what the answer repeats ---- */

static json_t *repeated_reasoning(const struct parse *p)
{
    json_t *given = json_object_get(p->body.value, "reasoning");
    json_t *shown = json_object();

    parse_put(shown, "effort", member_or_null(given, "effort"));
    parse_put(shown, "summary", json_null());
    return shown;
}

static void repeat(struct parse *p)
{
    json_t *to = p->r->values.repeated, *format = json_object(),
           *text = json_object();
    json_t *metadata = member_or_null(p->body.value, "metadata");

    if (json_is_null(metadata)) {
        metadata = json_object();
    }
    parse_put(format, "type", json_string("text"));
    parse_put(text, "format", format);
    parse_put(to, "text", text);
    parse_put(to, "instructions",
              member_or_null(p->body.value, "instructions"));
    parse_put(to, "metadata", metadata);
    parse_put(to, "service_tier", json_string(openai_tiers[p->r->turn.tier]));
    parse_put(to, "parallel_tool_calls",
              json_boolean(p->r->template.parallel_tool_calls));
    parse_put(to, "temperature", json_real((double)p->r->sampling.temperature));
    parse_put(to, "top_p", json_real((double)p->r->sampling.top_p));
    parse_put(to, "max_output_tokens",
              p->r->has_max_tokens ? json_integer(p->r->max_tokens)
                                   : json_null());
    parse_put(to, "top_logprobs", json_integer(p->r->sampling.n_top_logprobs));
    parse_put(to, "reasoning", repeated_reasoning(p));
    parse_put(to, "previous_response_id", json_null());
    parse_put(to, "background", json_false());
    /* Nothing is stored, whatever the request asks for. */
    parse_put(to, "store", json_false());
    parse_put(to, "truncation", json_string("disabled"));
}

bool responses_parse(struct parse *p)
{
    p->r->values.repeated = json_object();
    p->r->template.add_generation_prompt = true;
    if (!parse_rules(p, responses_rules, RULE_COUNT_OF(responses_rules),
                     true) ||
        !parse_require(p, "model") || !parse_require(p, "input") ||
        !read_top_logprobs(p) || !read_tools_and_choice(p) ||
        !parse_stream_options(p)) {
        return false;
    }
    repeat(p);
    return true;
}
