/* Translates bodies of /v1/messages to messages and tools of a chat.
 *
 *     a user's text blocks    one message, joined by line feeds
 *     its tool_result         a message of role tool, in its place
 *     an assistant's blocks   one message: text, reasoning_content, tool_calls
 */
#include "gateway/dialects/anthropic_parse.h"

#include <string.h>

#include "gateway/openai/json_memory.h"
#include "gateway/openai/json_out.h"
#include "gateway/openai/messages.h"
#include "gateway/openai/parse.h"

static const char *const text_blocks[] = {"text", NULL};

/* ---- blocks ---- */

/* Texts of blocks that become one content. */
struct joined {
    struct json_out text;
    bool has; /* a block, which may be empty */
};

static bool join(struct joined *j, const struct field *block, const char *key)
{
    struct field text;
    const char *bytes;
    size_t n;

    (void)field_find(block, key, &text);
    if (!field_string(&text, &bytes, &n)) {
        return false;
    }
    json_out_put(&j->text, j->has ? "\n" : "");
    json_out_raw(&j->text, bytes, n);
    j->has = true;
    return true;
}

/* Returns the content, and empties j. */
static json_t *take(struct joined *j)
{
    json_t *text = json_stringn(j->text.n > 0 ? j->text.data : "", j->text.n);

    if (j->text.broken) {
        json_memory_fail();
    }
    json_out_fini(&j->text);
    j->has = false;
    return text;
}

/* Every computed prefix is kept, so that a mark only shows that the client
 * counts on it. */
static bool note_mark(struct parse *p, const struct field *block)
{
    struct field mark;

    if (!field_find(block, "cache_control", &mark)) {
        return true;
    }
    p->r->values.marks_cache = true;
    return field_object(&mark);
}

static bool type_of(struct parse *p, const struct field *block,
                    struct field *type)
{
    if (!field_object(block)) {
        return false;
    }
    (void)field_find(block, "type", type);
    if (!json_is_string(type->value)) {
        return field_unexpected(type, "a string");
    }
    return note_mark(p, block);
}

static bool refuse_type(const struct field *type, const char *instead)
{
    return field_fail(type, "is a kind of block that is not supported; send %s",
                      instead);
}

/* ---- the user ---- */

static void end_user(struct parse *p, struct joined *j)
{
    if (j->has) {
        (void)messages_add(p, "user", take(j));
    }
}

static bool read_result(struct parse *p, const struct field *block)
{
    struct field id, content, flag;
    const char *id_text;
    json_t *value, *message;
    bool failed;

    (void)field_find(block, "tool_use_id", &id);
    if (!field_short_string(&id, OPENAI_CALL_ID_MAX, &id_text) ||
        (field_find(block, "is_error", &flag) && !field_flag(&flag, &failed))) {
        return false;
    }
    if (!field_find(block, "content", &content)) {
        value = json_string("");
    } else if (!messages_result(&content, text_blocks, &value)) {
        return false;
    }
    message = messages_add(p, "tool", value);
    parse_put(message, "tool_call_id", json_string(id_text));
    return true;
}

static bool read_user_block(struct parse *p, const struct field *block,
                            struct joined *j)
{
    struct field type;

    if (!type_of(p, block, &type)) {
        return false;
    }
    if (field_is(&type, "text")) {
        return join(j, block, "text");
    }
    if (field_is(&type, "tool_result")) {
        end_user(p, j);
        return read_result(p, block);
    }
    return refuse_type(&type, "text or tool_result");
}

static bool read_user(struct parse *p, const struct field *content)
{
    struct joined j = {.has = false};
    bool fine = true;

    if (json_is_string(content->value)) {
        (void)messages_add(p, "user", json_incref((json_t *)content->value));
        return true;
    }
    if (!json_is_array(content->value)) {
        return field_unexpected(content, "a string or an array of blocks");
    }
    if (!field_array(content, 1, OPENAI_MESSAGES_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(content->value) && fine; i++) {
        struct field block = field_element(content, i);

        fine = read_user_block(p, &block, &j);
    }
    if (fine) {
        end_user(p, &j);
    }
    json_out_fini(&j.text);
    return fine;
}

/* ---- the assistant ---- */

struct answer {
    json_t *message;
    struct joined text, thinking;
};

static bool read_use(const struct field *block, json_t *message)
{
    struct field id, name, input;
    const char *id_text, *name_text;

    (void)field_find(block, "id", &id);
    (void)field_find(block, "name", &name);
    (void)field_find(block, "input", &input);
    if (!field_short_string(&id, OPENAI_CALL_ID_MAX, &id_text) ||
        !messages_name_within(&name, ANTHROPIC_NAME_MAX, &name_text) ||
        !field_object(&input)) {
        return false;
    }
    messages_add_call(message, id_text, name_text,
                      json_incref((json_t *)input.value));
    return true;
}

static bool read_assistant_block(struct parse *p, const struct field *block,
                                 struct answer *a)
{
    struct field type;

    if (!type_of(p, block, &type)) {
        return false;
    }
    if (field_is(&type, "text")) {
        return join(&a->text, block, "text");
    }
    if (field_is(&type, "thinking")) {
        return join(&a->thinking, block, "thinking");
    }
    if (field_is(&type, "tool_use")) {
        return read_use(block, a->message);
    }
    /* Encrypted by another server, so that no model here can read it. */
    return field_is(&type, "redacted_thinking") ||
           refuse_type(&type, "text, thinking or tool_use");
}

static bool read_assistant(struct parse *p, const struct field *content)
{
    struct answer a = {.message = NULL};
    bool fine = true;

    if (json_is_string(content->value)) {
        (void)messages_add(p, "assistant",
                           json_incref((json_t *)content->value));
        return true;
    }
    if (!json_is_array(content->value)) {
        return field_unexpected(content, "a string or an array of blocks");
    }
    if (!field_array(content, 0, OPENAI_MESSAGES_MAX)) {
        return false;
    }
    a.message = messages_add(p, "assistant", json_string(""));
    for (size_t i = 0; i < json_array_size(content->value) && fine; i++) {
        struct field block = field_element(content, i);

        fine = read_assistant_block(p, &block, &a);
    }
    if (fine && a.text.has) {
        parse_put(a.message, "content", take(&a.text));
    }
    if (fine && a.thinking.has) {
        parse_put(a.message, "reasoning_content", take(&a.thinking));
    }
    json_out_fini(&a.text.text);
    json_out_fini(&a.thinking.text);
    return fine;
}

/* ---- messages ---- */

static bool read_system(struct parse *p, const struct field *f)
{
    json_t *value;

    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field block = field_element(f, i), type;

        if (!type_of(p, &block, &type)) {
            return false;
        }
    }
    /* No blocks are no system. */
    if (json_is_array(f->value) && json_array_size(f->value) == 0) {
        return true;
    }
    if (!messages_content(f, text_blocks, &value)) {
        return false;
    }
    (void)messages_add(p, "system", value);
    return true;
}

static bool read_message(struct parse *p, const struct field *f)
{
    struct field role, content;

    if (!field_object(f)) {
        return false;
    }
    (void)field_find(f, "role", &role);
    (void)field_find(f, "content", &content);
    if (field_is(&role, "user")) {
        return read_user(p, &content);
    }
    if (field_is(&role, "assistant")) {
        return read_assistant(p, &content);
    }
    return field_is(&role, "system")
               ? read_system(p, &content)
               : field_unexpected(&role, "user or assistant");
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
    /* A system without blocks makes none. */
    return p->r->messages != NULL ||
           field_fail(f, "has no message; send at least one");
}

/* An answer that the client begins: the model continues its text. */
static void read_prefill(struct parse *p)
{
    const json_t *last =
        json_array_get(p->r->messages, json_array_size(p->r->messages) - 1);
    struct field role = {.value = json_object_get(last, "role")};

    p->r->template.continue_final_message =
        field_is(&role, "assistant") &&
        json_object_get(last, "tool_calls") == NULL;
    p->r->template.add_generation_prompt =
        !p->r->template.continue_final_message;
}

/* ---- tools ---- */

static bool check_function(struct parse *p, const struct field *tool)
{
    struct field name, member;
    const char *text;
    bool strict = false;
    size_t n;

    (void)field_find(tool, "name", &name);
    if (!messages_name_within(&name, ANTHROPIC_NAME_MAX, &text) ||
        !note_mark(p, tool)) {
        return false;
    }
    if (field_find(tool, "description", &member) &&
        !field_string(&member, &text, &n)) {
        return false;
    }
    if (field_find(tool, "strict", &member) && !field_flag(&member, &strict)) {
        return false;
    }
    p->r->template.strict = p->r->template.strict || strict;
    (void)field_find(tool, "input_schema", &member);
    return field_object(&member);
}

/* Takes a function over in OpenAI's chat form. */
static void add_function(struct parse *p, const json_t *tool)
{
    static const char *const keys[][2] = {{"name", "name"},
                                          {"description", "description"},
                                          {"input_schema", "parameters"}};
    json_t *function = json_object(), *chat = json_object();

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *v = json_object_get(tool, keys[i][0]);

        if (v != NULL && !json_is_null(v)) {
            parse_put(function, keys[i][1], json_incref(v));
        }
    }
    parse_put(chat, "type", json_string("function"));
    parse_put(chat, "function", function);
    messages_add_tool(p, chat);
}

/* Types other than custom run at the server, or belong to models that were
 * trained with them: such tools are left out, and the answer names them. */
static bool read_tool(struct parse *p, const struct field *f,
                      const struct field *tool)
{
    struct field type;

    if (!field_object(tool)) {
        return false;
    }
    if (field_find(tool, "type", &type) && !field_is(&type, "custom")) {
        return json_is_string(type.value)
                   ? parse_ignore(p, f, json_string_value(type.value))
                   : field_unexpected(&type, "a string");
    }
    if (!check_function(p, tool)) {
        return false;
    }
    add_function(p, tool->value);
    return true;
}

static bool read_tools(struct parse *p)
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

        if (!read_tool(p, &f, &tool)) {
            return false;
        }
    }
    return true;
}

static bool read_choice(struct parse *p)
{
    struct field f, type, one;
    bool alone = false;

    if (!field_find(&p->body, "tool_choice", &f)) {
        return true;
    }
    if (!field_object(&f)) {
        return false;
    }
    if (field_find(&f, "disable_parallel_tool_use", &one) &&
        !field_flag(&one, &alone)) {
        return false;
    }
    p->r->template.parallel_tool_calls = !alone;
    (void)field_find(&f, "type", &type);
    if (field_is(&type, "none")) {
        json_decref(p->r->template.tools);
        p->r->template.tools = NULL;
        p->r->template.strict = false;
        return true;
    }
    /* To force a call needs a grammar in the sampler. */
    if (field_is(&type, "any") || field_is(&type, "tool")) {
        return field_fail(&type, "cannot force a call yet; use auto or none");
    }
    return field_is(&type, "auto") || field_unexpected(&type, "auto or none");
}

/* ---- other fields ---- */

static bool read_output_config(struct parse *p, const struct field *f)
{
    struct field member;

    if (!field_object(f)) {
        return false;
    }
    return (!field_find(f, "effort", &member) || parse_effort(p, &member)) &&
           (!field_find(f, "format", &member) || field_refuse(&member));
}

/* Anthropic's names of the default tier; the others are OpenAI's. */
static bool read_tier(struct parse *p, const struct field *f)
{
    return field_is(f, "standard_only") || field_is(f, "standard") ||
           parse_service_tier(p, f);
}

/* At the top it marks the last block. */
static bool read_mark(struct parse *p, const struct field *f)
{
    return note_mark(p, f->up);
}

static const struct rule anthropic_rules[] = {
    RULE_BY("system", read_system),
    RULE_BY("messages", read_messages),
    RULE_BY("stop_sequences", parse_stop),
    RULE("tools", LATER),
    RULE("tool_choice", LATER),
    RULE_BY("chat_template_kwargs", parse_kwargs),
    RULE_BY("thinking", parse_thinking),
    RULE_BY("output_config", read_output_config),
    RULE("output_format", REFUSE),
    RULE_BY("service_tier", read_tier),
    RULE_BY("metadata", parse_object),
    RULE_BY("cache_control", read_mark),
    RULE("mcp_servers", NEUTRAL),
    RULE("container", NEUTRAL),
    /* Usage is in every stream. */
    RULE("stream_options", IGNORE),
    /* Names of other endpoints. */
    RULE("n", REFUSE),
    RULE("logprobs", REFUSE),
    RULE("top_logprobs", REFUSE),
    RULE("functions", NEUTRAL),
};

bool anthropic_parse(struct parse *p)
{
    if (!parse_rules(p, anthropic_rules, RULE_COUNT_OF(anthropic_rules),
                     true) ||
        !parse_require(p, "model") || !parse_require(p, "messages") ||
        !read_tools(p) || !read_choice(p)) {
        return false;
    }
    read_prefill(p);
    return true;
}
