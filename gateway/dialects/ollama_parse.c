/* Translates bodies of Ollama's API.  Sampling is in an object `options`, whose
 * names are those of llama.cpp: they are read by the tables of all endpoints,
 * under their place. */
#include "gateway/dialects/ollama_parse.h"

#include <stdio.h>

#include "gateway/openai/messages.h"
#include "gateway/openai/parse.h"

static const char *const text_parts[] = {"text", NULL};

/* ---- messages ---- */

/* Calls have no ids here, so that they get their place as one. */
static bool read_call(const struct field *f, json_t *message)
{
    struct field function, name, arguments;
    const char *name_text;
    char id[32];

    (void)field_find(f, "function", &function);
    if (!field_object(f) || !field_object(&function)) {
        return false;
    }
    (void)field_find(&function, "name", &name);
    (void)field_find(&function, "arguments", &arguments);
    if (!messages_name_within(&name, ANTHROPIC_NAME_MAX, &name_text) ||
        !field_object(&arguments)) {
        return false;
    }
    snprintf(id, sizeof id, "call_%zu", f->index);
    messages_add_call(message, id, name_text,
                      json_incref((json_t *)arguments.value));
    return true;
}

static bool read_calls(const struct field *f, json_t *message)
{
    struct field calls;

    if (!field_find(f, "tool_calls", &calls)) {
        return true;
    }
    if (!field_array(&calls, 0, OPENAI_TOOLS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(calls.value); i++) {
        struct field call = field_element(&calls, i);

        if (!read_call(&call, message)) {
            return false;
        }
    }
    return true;
}

/* Copies a text, if it is there. */
static bool copy(const struct field *f, const char *key, json_t *message,
                 const char *as)
{
    struct field member;
    const char *text;
    size_t n;

    if (!field_find(f, key, &member)) {
        return true;
    }
    if (!field_string(&member, &text, &n)) {
        return false;
    }
    parse_put(message, as, json_incref((json_t *)member.value));
    return true;
}

static bool known_role(const struct field *role)
{
    return field_is(role, "system") || field_is(role, "user") ||
           field_is(role, "assistant") || field_is(role, "tool") ||
           field_unexpected(role, "system, user, assistant or tool");
}

static bool read_message(struct parse *p, const struct field *f)
{
    struct field role, content, images;
    json_t *value, *message;

    (void)field_find(f, "role", &role);
    if (!field_object(f) || !known_role(&role)) {
        return false;
    }
    if (field_find(f, "images", &images) && !field_neutral(&images)) {
        return field_refuse(&images);
    }
    if (!field_find(f, "content", &content)) {
        value = json_string("");
    } else if (!messages_content(&content, text_parts, &value)) {
        return false;
    }
    message = messages_add(p, json_string_value(role.value), value);
    return read_calls(f, message) &&
           copy(f, "thinking", message, "reasoning_content") &&
           copy(f, "tool_name", message, "name");
}

static bool read_messages(struct parse *p, const struct field *f)
{
    if (!field_array(f, 1, OPENAI_MESSAGES_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field message = field_element(f, i);

        if (!read_message(p, &message)) {
            return false;
        }
    }
    return true;
}

/* ---- other fields ---- */

/* Names that would be read twice, or give an answer that this API lacks. */
static const struct rule option_rules[] = {
    RULE("model", REFUSE),          RULE("n", REFUSE),
    RULE("stream", REFUSE),         RULE("messages", REFUSE),
    RULE("stream_options", REFUSE),
};

static bool read_options(struct parse *p, const struct field *f)
{
    struct parse inner = *p;

    if (!field_object(f)) {
        return false;
    }
    inner.body = *f;
    return parse_rules(&inner, option_rules, RULE_COUNT_OF(option_rules), true);
}

static bool read_think(struct parse *p, const struct field *f)
{
    return json_is_string(f->value) ? parse_effort(p, f)
                                    : parse_enable_thinking(p, f);
}

#define SHARED_RULES                                                    \
    RULE_BY("model", parse_model), RULE_BOOL("stream", stream),         \
        RULE_BY("options", read_options), RULE_BY("think", read_think), \
        RULE("keep_alive", IGNORE), RULE("format", NEUTRAL),            \
        RULE("template", NEUTRAL), RULE("images", NEUTRAL),             \
        RULE("logprobs", NEUTRAL), RULE("top_logprobs", NEUTRAL)

static const struct rule chat_rules[] = {
    SHARED_RULES, RULE_BY("messages", read_messages), RULE("tools", LATER),
    RULE("tool_choice", LATER)};

bool ollama_parse_chat(struct parse *p)
{
    p->r->stream = true; /* unless it is false */
    return parse_rules(p, chat_rules, RULE_COUNT_OF(chat_rules), false) &&
           parse_require(p, "model") && parse_require(p, "messages") &&
           messages_tools(p) && parse_prompt_end(p);
}

/* ---- /api/generate ---- */

static bool read_system(struct parse *p, const struct field *f)
{
    const char *text;
    size_t n;

    if (!field_string(f, &text, &n)) {
        return false;
    }
    if (n > 0) {
        (void)messages_add(p, "system", json_incref((json_t *)f->value));
    }
    return true;
}

static const struct rule generate_rules[] = {SHARED_RULES,
                                             RULE_BY("system", read_system),
                                             RULE("prompt", LATER),
                                             RULE("raw", LATER),
                                             RULE("suffix", NEUTRAL),
                                             RULE("context", NEUTRAL)};

static bool read_raw(struct parse *p, const struct field *prompt)
{
    p->r->prompts = parse_alloc(1, sizeof *p->r->prompts);
    if (p->r->prompts == NULL) {
        return false;
    }
    p->r->n_prompts = 1;
    p->r->template.add_special = true;
    json_decref(p->r->messages); /* a raw prompt has no system */
    p->r->messages = NULL;
    parse_hold_input(p, prompt->value);
    return field_string(prompt, &p->r->prompts[0].text,
                        &p->r->prompts[0].n_text);
}

bool ollama_parse_generate(struct parse *p)
{
    struct field prompt, raw;
    const char *text;
    bool is_raw = false;
    size_t n;

    p->r->stream = true;
    if (!parse_rules(p, generate_rules, RULE_COUNT_OF(generate_rules), false) ||
        !parse_require(p, "model") || !parse_require(p, "prompt")) {
        return false;
    }
    (void)field_find(&p->body, "prompt", &prompt);
    if (!field_string(&prompt, &text, &n)) {
        return false;
    }
    if (n == 0) {
        return field_fail(&prompt, "is empty; models are loaded already");
    }
    if (field_find(&p->body, "raw", &raw) && !field_flag(&raw, &is_raw)) {
        return false;
    }
    if (is_raw) {
        return read_raw(p, &prompt);
    }
    (void)messages_add(p, "user", json_incref((json_t *)prompt.value));
    p->r->template.add_generation_prompt = true;
    return true;
}
