#include "gateway/openai/messages.h"

#include <string.h>

#include "common/base/json_bound.h"
#include "gateway/openai/json_memory.h"
#include "gateway/openai/json_out.h"

/* ---- content ---- */

static bool known_type(const struct field *type, const char *const *types)
{
    for (; *types != NULL; types++) {
        if (field_is(type, *types)) {
            return true;
        }
    }
    return false;
}

/* The text of a part is in "text", that of a refusal in "refusal". */
static bool read_part(const struct field *f, const char *const *types,
                      struct json_out *joined)
{
    struct field type, text;
    const char *bytes;
    size_t n;

    if (!field_object(f)) {
        return false;
    }
    if (!field_find(f, "type", &type) || !json_is_string(type.value)) {
        return field_unexpected(&type, "a string");
    }
    if (!known_type(&type, types)) {
        return field_fail(&type, "is a kind of part that is not supported; "
                                 "send text");
    }
    (void)field_find(f, field_is(&type, "refusal") ? "refusal" : "text", &text);
    if (!field_string(&text, &bytes, &n)) {
        return false;
    }
    json_out_raw(joined, bytes, n);
    return true;
}

/* Line feeds between parts: what vLLM and llama.cpp do, so that a model sees
 * the same text from each server. */
bool messages_content(const struct field *f, const char *const *types,
                      json_t **out)
{
    struct json_out joined = {0};
    size_t n = json_array_size(f->value);
    bool fine = true;

    if (json_is_string(f->value)) {
        *out = json_incref((json_t *)f->value);
        return true;
    }
    if (!json_is_array(f->value) || n == 0) {
        return field_unexpected(f, "a string or an array of text parts");
    }
    for (size_t i = 0; i < n && fine; i++) {
        struct field part = field_element(f, i);

        json_out_put(&joined, i > 0 ? "\n" : "");
        fine = read_part(&part, types, &joined);
    }
    if (fine) {
        *out = json_stringn(joined.n > 0 ? joined.data : "", joined.n);
    }
    if (joined.broken) {
        json_memory_fail();
    }
    json_out_fini(&joined);
    return fine;
}

/* Functions without a result exist, and their hosts send null or []. */
bool messages_result(const struct field *f, const char *const *types,
                     json_t **out)
{
    if (json_is_null(f->value) ||
        (json_is_array(f->value) && json_array_size(f->value) == 0)) {
        *out = json_string("");
        return true;
    }
    return messages_content(f, types, out);
}

/* ---- calls ---- */

/* Recursion is at most OPENAI_DEPTH_MAX deep, as the text was bounded. */
static size_t count_values(const json_t *v)
{
    size_t n = 1, i;
    const char *key;
    json_t *member;

    if (json_is_array(v)) {
        json_array_foreach((json_t *)v, i, member)
        {
            n += count_values(member);
        }
    } else if (json_is_object(v)) {
        json_object_foreach((json_t *)v, key, member)
        {
            n += count_values(member);
        }
    }
    return n;
}

/* Templates of Qwen and Hermes print arguments with tojson, which would quote
 * a string once more; so a text that is an object becomes one. */
bool messages_arguments(struct parse *p, const struct field *f, json_t **out)
{
    struct json_bounds most = {OPENAI_DEPTH_MAX, p->values_left,
                               p->values_left};
    struct error bound;
    const char *text;
    size_t n;

    if (!field_string(f, &text, &n)) {
        return false;
    }
    if (json_bound(text, n, &most, ST_OUT_OF_RANGE, &bound) != ST_OK) {
        return field_fail(f,
                          "is too complex (%s); all calls together may have "
                          "%d values",
                          bound.text, MESSAGES_ARGUMENTS_VALUES);
    }
    *out =
        memchr(text, 0, n) == NULL
            ? json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)
            : NULL;
    /* All trees of a request share one budget: many calls of allowed size
     * would otherwise cost more than the body may. */
    if (json_is_object(*out)) {
        size_t values = count_values(*out);

        p->values_left -= values < p->values_left ? values : p->values_left;
        return true;
    }
    json_decref(*out);
    *out = json_incref((json_t *)f->value);
    return true;
}

/* OpenAI's rule.  A name also enters prompts, so no other byte is allowed. */
bool messages_name_within(const struct field *f, size_t most, const char **name)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    if (!field_short_string(f, most, name)) {
        return false;
    }
    return (*name)[strspn(*name, set)] == '\0' ||
           field_unexpected(f, "letters, digits, '_' and '-'");
}

bool messages_name(const struct field *f, const char **name)
{
    return messages_name_within(f, OPENAI_NAME_MAX, name);
}

void messages_add_call(json_t *message, const char *id, const char *name,
                       json_t *arguments)
{
    json_t *calls = json_object_get(message, "tool_calls");
    json_t *function = json_object(), *call = json_object();

    if (calls == NULL) {
        calls = json_array();
        if (!parse_put(message, "tool_calls", calls)) {
            calls = NULL; /* freed */
        }
    }
    parse_put(function, "name", json_string(name));
    parse_put(function, "arguments", arguments);
    parse_put(call, "id", json_string(id));
    parse_put(call, "type", json_string("function"));
    parse_put(call, "function", function);
    parse_append(calls, call);
}

static bool read_call(struct parse *p, const struct field *f, json_t *message)
{
    struct field type, id, function, name, arguments;
    const char *id_text, *name_text;
    json_t *value;

    if (!field_object(f)) {
        return false;
    }
    (void)field_find(f, "id", &id);
    (void)field_find(f, "function", &function);
    if (field_find(f, "type", &type) && !field_is(&type, "function")) {
        return field_unexpected(&type, "\"function\"");
    }
    if (!field_short_string(&id, OPENAI_CALL_ID_MAX, &id_text) ||
        !field_object(&function)) {
        return false;
    }
    (void)field_find(&function, "name", &name);
    (void)field_find(&function, "arguments", &arguments);
    if (!messages_name(&name, &name_text) ||
        !messages_arguments(p, &arguments, &value)) {
        return false;
    }
    messages_add_call(message, id_text, name_text, value);
    return true;
}

static bool read_calls(struct parse *p, const struct field *f, json_t *message)
{
    if (!field_array(f, 0, OPENAI_TOOLS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field call = field_element(f, i);

        if (!read_call(p, &call, message)) {
            return false;
        }
    }
    return true;
}

/* ---- one message ---- */

json_t *messages_add(struct parse *p, const char *role, json_t *content)
{
    json_t *message = json_object();

    if (p->r->messages == NULL) {
        p->r->messages = json_array();
    }
    parse_put(message, "role", json_string(role));
    parse_put(message, "content", content);
    return parse_append(p->r->messages, message) ? message : NULL;
}

static const char *const text_part[] = {"text", NULL};
static const char *const answer_parts[] = {"text", "refusal", NULL};

/* Copies a member that must be a string if it is there. */
static bool copy_string(const struct field *f, const char *key, json_t *to,
                        const char *as)
{
    struct field member;

    if (!field_find(f, key, &member)) {
        return true;
    }
    if (!json_is_string(member.value)) {
        return field_unexpected(&member, "a string");
    }
    parse_put(to, as, json_incref((json_t *)member.value));
    return true;
}

static bool refuse(const struct field *f, const char *key)
{
    struct field member;

    return !field_find(f, key, &member) || field_refuse(&member);
}

static bool read_content(const struct field *f, json_t **out)
{
    struct field content;

    (void)field_find(f, "content", &content);
    return messages_content(&content, text_part, out);
}

static bool read_assistant(struct parse *p, const struct field *f)
{
    struct field content, calls, other;
    json_t *value = NULL, *message;
    bool has_content = field_find(f, "content", &content);
    bool has_calls = field_find(f, "tool_calls", &calls);

    /* Beside calls, no parts are no content. */
    if (has_calls && json_is_array(content.value) &&
        json_array_size(content.value) == 0) {
        has_content = false;
    }

    if (has_content && !messages_content(&content, answer_parts, &value)) {
        return false;
    }
    message =
        messages_add(p, "assistant", value != NULL ? value : json_string(""));
    if (!refuse(f, "function_call") || !refuse(f, "audio") ||
        (has_calls && !read_calls(p, &calls, message)) ||
        !copy_string(f, "reasoning", message, "reasoning_content") ||
        !copy_string(f, "reasoning_content", message, "reasoning_content")) {
        return false;
    }
    /* More than role and content: calls or reasoning stand for the content. */
    return has_content || json_object_size(message) > 2 ||
           field_find(f, "refusal", &other) ||
           field_fail(&content, "is required without tool_calls");
}

static bool read_tool(struct parse *p, const struct field *f)
{
    struct field id, result;
    const char *text;
    json_t *content, *message;

    (void)field_find(f, "tool_call_id", &id);
    (void)field_find(f, "content", &result);
    if (!field_short_string(&id, OPENAI_CALL_ID_MAX, &text) ||
        !messages_result(&result, text_part, &content)) {
        return false;
    }
    message = messages_add(p, "tool", content);
    parse_put(message, "tool_call_id", json_string(text));
    return copy_string(f, "name", message, "name");
}

static bool read_message(struct parse *p, const struct field *f)
{
    struct field role;
    json_t *content;
    bool user;

    if (!field_object(f)) {
        return false;
    }
    (void)field_find(f, "role", &role);
    if (field_is(&role, "assistant")) {
        return read_assistant(p, f);
    }
    if (field_is(&role, "tool")) {
        return read_tool(p, f);
    }
    /* Most templates reject a developer; the role is OpenAI's later name of
     * system. */
    user = field_is(&role, "user");
    if (!user && !field_is(&role, "system") && !field_is(&role, "developer")) {
        return field_unexpected(&role,
                                "system, developer, user, assistant or tool");
    }
    return read_content(f, &content) &&
           copy_string(f, "name",
                       messages_add(p, user ? "user" : "system", content),
                       "name");
}

bool messages_parse(struct parse *p, const struct field *f)
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

/* ---- tools ---- */

bool messages_function(struct parse *p, const struct field *f)
{
    struct field name, member;
    const char *text;
    size_t n;
    bool strict = false;

    if (!field_object(f)) {
        return false;
    }
    (void)field_find(f, "name", &name);
    if (!messages_name(&name, &text)) {
        return false;
    }
    if (field_find(f, "description", &member) &&
        !field_string(&member, &text, &n)) {
        return false;
    }
    if (field_find(f, "parameters", &member) && !field_object(&member)) {
        return false;
    }
    if (field_find(f, "strict", &member) && !field_flag(&member, &strict)) {
        return false;
    }
    p->r->template.strict = p->r->template.strict || strict;
    return true;
}

bool messages_is_function(struct parse *p, const struct field *tool, bool *is)
{
    struct field type;

    *is = false;
    if (!field_object(tool)) {
        return false;
    }
    (void)field_find(tool, "type", &type);
    if (field_is(&type, "function")) {
        *is = true;
        return true;
    }
    if (!json_is_string(type.value) || p->limits.refuse_unknown) {
        return field_unexpected(&type, "\"function\"");
    }
    return parse_ignore(p, tool->up, json_string_value(type.value));
}

void messages_add_tool(struct parse *p, json_t *tool)
{
    /* Templates test tools for null, not for emptiness. */
    if (p->r->template.tools == NULL) {
        p->r->template.tools = json_array();
    }
    parse_append(p->r->template.tools, tool);
}

static bool read_tools(struct parse *p, const struct field *f)
{
    if (!field_array(f, 0, OPENAI_TOOLS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field tool = field_element(f, i), function;
        bool is_function;

        if (!messages_is_function(p, &tool, &is_function)) {
            return false;
        }
        if (!is_function) {
            continue;
        }
        (void)field_find(&tool, "function", &function);
        if (!messages_function(p, &function)) {
            return false;
        }
        messages_add_tool(p, json_incref((json_t *)tool.value));
    }
    return true;
}

bool messages_tool_choice(struct parse *p, bool *none)
{
    struct field f;

    *none = false;
    if (!field_find(&p->body, "tool_choice", &f) || field_is(&f, "auto")) {
        return true;
    }
    *none = field_is(&f, "none");
    if (*none) {
        return true;
    }
    /* To force a call needs a grammar in the sampler. */
    if (field_is(&f, "required") || json_is_object(f.value)) {
        return field_fail(&f, "cannot force a call yet; use auto or none");
    }
    return field_unexpected(&f, "auto or none");
}

bool messages_tools(struct parse *p)
{
    struct field f;
    bool none;

    if ((field_find(&p->body, "tools", &f) && !read_tools(p, &f)) ||
        !messages_tool_choice(p, &none)) {
        return false;
    }
    /* A model that does not see the functions calls none. */
    if (none) {
        json_decref(p->r->template.tools);
        p->r->template.tools = NULL;
        p->r->template.strict = false;
    }
    return true;
}
