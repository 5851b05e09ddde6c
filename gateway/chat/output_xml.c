/* Calls as tags: qwen3-coder. */
#include <string.h>

#include "gateway/chat/output_parts.h"

/* The text between calls recognises the first three; a value the last three;
 * the space between parameters all of them. */
enum { CALL, FUNCTION, CALL_END, FUNCTION_END, PARAMETER, PARAMETER_END };

static const char *const text_markers[] = {"<tool_call>",
                                           "<function=", "</tool_call>", NULL};
static const char *const inner_markers[] = {
    "<tool_call>",  "<function=", "</tool_call>", "</function>", "<parameter=",
    "</parameter>", NULL};
static const char *const *const value_markers = inner_markers + FUNCTION_END;

static const struct output_state xml_open, xml_name, xml_inner, xml_key,
    xml_value;

/* ---- types of parameters ---- */

enum {
    TYPE_STRING = 1,
    TYPE_NUMBER = 2,
    TYPE_BOOLEAN = 4,
    TYPE_NULL = 8,
    TYPE_ARRAY = 16,
    TYPE_OBJECT = 32
};

static unsigned type_of_name(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"string", TYPE_STRING},  {"number", TYPE_NUMBER},
                 {"integer", TYPE_NUMBER}, {"boolean", TYPE_BOOLEAN},
                 {"null", TYPE_NULL},      {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};

    for (size_t i = 0; name != NULL && i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0) {
            return types[i].type;
        }
    }
    return 0;
}

static unsigned type_of_value(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

/* Returns the types that "type" and "enum" allow. */
static unsigned types_here(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    const json_t *values = json_object_get(schema, "enum");
    unsigned types = type_of_name(json_string_value(type));
    const json_t *v;
    size_t i;

    json_array_foreach(type, i, v)
    {
        types |= type_of_name(json_string_value(v));
    }
    if (types == 0) {
        json_array_foreach(values, i, v)
        {
            types |= type_of_value(v);
        }
    }
    return types;
}

/* Returns the types that a schema allows, 0 if it names none.  Alternatives
 * are read one level deep: deeper ones are rare. */
static unsigned types_of(const json_t *schema)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    unsigned types = types_here(schema);
    const json_t *v;
    size_t i;

    for (int k = 0; k < 3; k++) {
        const json_t *list = json_object_get(schema, lists[k]);

        json_array_foreach(list, i, v)
        {
            types |= types_here(v);
        }
    }
    return types;
}

/* Returns the schemas of a function's parameters, or NULL.  Tools of the
 * Responses API have no inner object. */
static const json_t *properties_of(const json_t *tools, const char *name,
                                   size_t n)
{
    const json_t *tool;
    size_t i;

    json_array_foreach(tools, i, tool)
    {
        const json_t *inner = json_object_get(tool, "function");
        const json_t *f = inner != NULL ? inner : tool;
        const json_t *its = json_object_get(f, "name");

        if (json_string_length(its) == n && json_is_string(its) &&
            memcmp(json_string_value(its), name, n) == 0) {
            return json_object_get(json_object_get(f, "parameters"),
                                   "properties");
        }
    }
    return NULL;
}

/* ---- arguments ---- */

static void arg(struct output_parser *p, const char *text, size_t n)
{
    output_give(p, OUTPUT_TOOL_ARGUMENTS, text, n);
}

/* Gives text[0..n) as a part of a JSON string. */
static void arg_escaped(struct output_parser *p, const char *text, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) {
        k = output_char(text + i, n - i);
        if (text[i] == '"' || text[i] == '\\') {
            arg(p, "\\", 1);
        }
        output_argument(p, text + i, k, true);
    }
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(text, word, n) == 0;
}

/* Returns the JSON text that the types allow for a value as the model wrote
 * it, without its outer white space; NULL: the value is a string. */
static const char *converted(unsigned types, const char *text, size_t n)
{
    unsigned type = *text == '{'   ? TYPE_OBJECT
                    : *text == '[' ? TYPE_ARRAY
                                   : TYPE_NUMBER;

    /* Models write Python's words too. */
    if (is_word(text, n, "true") || is_word(text, n, "false")) {
        return !(types & TYPE_BOOLEAN) ? NULL : n == 4 ? "true" : "false";
    }
    if (is_word(text, n, "null") || is_word(text, n, "none")) {
        return types & TYPE_NULL || !(types & TYPE_STRING) ? "null" : NULL;
    }
    if (*text == '"' || !(types & type) || !json_scan_whole(text, n)) {
        return NULL;
    }
    return text;
}

/* Gives the value that is held. */
static void arg_held(struct output_parser *p)
{
    const char *text = p->held, *json = NULL;
    size_t n = p->n_held;

    output_trim(&text, &n);
    if (n > 0) {
        json = converted(p->xml.types, text, n);
    }
    if (json == text && n > 0) {
        output_json_arguments(p, text, n);
    } else if (json != NULL) {
        arg(p, json, strlen(json));
    } else {
        arg(p, "\"", 1);
        arg_escaped(p, p->held, p->n_held);
        arg(p, "\"", 1);
    }
    output_drop_held(p);
}

static void end(struct output_parser *p)
{
    arg(p, p->xml.n_parameters == 0 ? "{}" : "}",
        p->xml.n_parameters == 0 ? 2 : 1);
    output_end_call(p);
}

/* ---- text, and the start of a call ---- */

static bool hold_text(struct output_parser *p, const char *text)
{
    return output_hold(p, text, strlen(text));
}

/* Handles a marker between calls. */
static void text_marker(struct output_parser *p, int m)
{
    bool held = m != CALL_END && hold_text(p, text_markers[m]);

    if (held) {
        p->state = m == CALL ? &xml_open : &xml_name;
    } else if (m == CALL_END && p->fresh && p->n_calls > 0) {
        p->n_space = 0;
    } else {
        output_content(p, text_markers[m], strlen(text_markers[m]));
    }
}

static void text_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_text(p, text_markers, text, n);

    if (m != OUTPUT_MARK_NONE) {
        text_marker(p, m);
    }
}

const struct output_state output_xml_text = {text_step, output_text_finish};

/* After <tool_call>: only white space and <function= may follow. */
static void open_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, text_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m == FUNCTION && hold_text(p, text_markers[m])) {
        p->state = &xml_name;
    } else if (m != OUTPUT_MARK_NONE) {
        output_release(p);
        text_marker(p, m);
    } else if (p->n_mark > 0 || !output_is_space(text, n) ||
               !output_hold(p, text, n)) {
        output_release(p);
        output_feed(p, text, n);
    }
}

static const struct output_state xml_open = {open_step, output_release};

/* Returns the length of the name that is held, after its '='. */
static size_t name_length(const struct output_parser *p)
{
    const char *at = memchr(p->held, '=', p->n_held);

    return p->n_held - (size_t)(at + 1 - p->held);
}

/* Begins the call whose tag is held. */
static void name_end(struct output_parser *p)
{
    size_t n = name_length(p);
    const char *name = p->held + p->n_held - n;

    p->xml = (struct output_xml_call){
        .properties = properties_of(p->options.tool_list, name, n)};
    output_begin_call(p, name, n);
    output_keep(p, p->held, p->n_held);
    output_keep(p, ">", 1);
    output_drop_held(p);
    p->state = &xml_inner;
}

/* Returns whether the character may stand in a name. */
static bool in_name(const char *text)
{
    return (uint8_t)*text >= 0x20 && *text != '<' && *text != '>';
}

static bool hold_name(struct output_parser *p, const char *text, size_t n)
{
    return in_name(text) && name_length(p) + n <= OUTPUT_NAME_BYTES &&
           output_hold(p, text, n);
}

static void name_step(struct output_parser *p, const char *text, size_t n)
{
    if (*text == '>' && name_length(p) > 0) {
        name_end(p);
    } else if (!hold_name(p, text, n)) {
        output_release(p);
        output_feed(p, text, n);
    }
}

static const struct output_state xml_name = {name_step, output_release};

/* ---- parameters ---- */

static void inner_marker(struct output_parser *p, int m)
{
    if (m == PARAMETER && hold_text(p, inner_markers[m])) {
        p->state = &xml_key;
    } else if (m == CALL || m == FUNCTION) {
        end(p);
        text_marker(p, m);
    } else if (m != PARAMETER_END) {
        end(p);
    }
}

static void inner_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, inner_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m != OUTPUT_MARK_NONE) {
        inner_marker(p, m);
    } else if (p->n_mark > 0 || !output_is_space(text, n)) {
        end(p);
        output_release(p);
        output_feed(p, text, n);
    }
}

/* Without the tag that ends it, a call may lack parameters. */
static void inner_finish(struct output_parser *p)
{
    p->n_mark = 0;
    output_cut_call(p, 0);
}

static const struct output_state xml_inner = {inner_step, inner_finish};

/* Begins the parameter whose tag is held. */
static void key_end(struct output_parser *p)
{
    size_t n = name_length(p);
    const char *key = p->held + p->n_held - n;
    const json_t *schema = json_object_getn(p->xml.properties, key, n);

    output_give(p, OUTPUT_TOOL_ARGUMENTS,
                p->xml.n_parameters == 0 ? "{\"" : ", \"",
                p->xml.n_parameters == 0 ? 2 : 3);
    p->xml.n_parameters++;
    arg_escaped(p, key, n);
    arg(p, "\": ", 3);
    p->xml.types = (uint8_t)types_of(schema);
    p->xml.start = true;
    p->xml.newline = false;
    p->xml.quoted = p->xml.types == 0 || p->xml.types == TYPE_STRING;
    if (p->xml.quoted) {
        arg(p, "\"", 1);
    }
    output_drop_held(p);
    p->state = &xml_value;
}

static void key_step(struct output_parser *p, const char *text, size_t n)
{
    if (*text == '>' && name_length(p) > 0) {
        key_end(p);
    } else if (!hold_name(p, text, n)) {
        /* The tag is content, after the call that it breaks. */
        char tag[OUTPUT_NAME_BYTES + OUTPUT_MARK_BYTES];
        size_t k = p->n_held;

        memcpy(tag, p->held, k);
        end(p);
        output_content(p, tag, k);
        output_feed(p, text, n);
    }
}

static const struct output_state xml_key = {key_step, inner_finish};

/* ---- values ---- */

/* Adds text[0..n) to the value. */
static void value_add(struct output_parser *p, const char *text, size_t n)
{
    if (!p->xml.quoted) {
        if (output_hold(p, text, n)) {
            return;
        }
        /* Too long to be converted: a string, from its first character. */
        arg(p, "\"", 1);
        arg_escaped(p, p->held, p->n_held);
        output_drop_held(p);
        p->xml.quoted = true;
    }
    arg_escaped(p, text, n);
}

/* Takes characters of the value.  The newlines after the opening tag and
 * before the closing one are no part of it. */
static void value_text(struct output_parser *p, const char *text, size_t n)
{
    bool newline = *text == '\n' && n == 1;

    if (p->xml.start && newline) {
        p->xml.start = false;
        return;
    }
    p->xml.start = false;
    if (p->xml.newline) {
        value_add(p, "\n", 1);
    }
    p->xml.newline = newline;
    if (!newline) {
        value_add(p, text, n);
    }
}

static void value_end(struct output_parser *p)
{
    if (p->xml.quoted) {
        arg(p, "\"", 1);
    } else {
        arg_held(p);
    }
    p->state = &xml_inner;
}

static void value_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, value_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m != OUTPUT_MARK_NONE) {
        value_end(p);
        inner_marker(p, m + FUNCTION_END);
    } else if (p->n_mark > 0) {
        value_text(p, p->mark, p->n_mark);
        p->n_mark = 0;
        output_feed(p, text, n);
    } else {
        value_text(p, text, n);
    }
}

static const struct output_state xml_value = {value_step, inner_finish};
