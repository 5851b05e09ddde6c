/* Calls as JSON objects: hermes and llama3. */
#include <stdlib.h>
#include <string.h>

#include "gateway/chat/output_parts.h"

/* Place in {"key": value, ..}. */
enum at { OBJECT, FIRST_KEY, KEY, KEY_TEXT, COLON, VALUE, IN_VALUE, AFTER };

enum key_name { NAME, ARGUMENTS, OTHER, UNUSUAL };

static const struct output_state json_call;

static void go(struct output_parser *p, enum at at)
{
    p->json.at = (uint8_t)at;
}

/* ---- values ---- */

/* Returns the text of a JSON string, to be freed, or NULL: it is no string or
 * has an invalid escape. */
static char *decode(const char *text, size_t n, size_t *out_n)
{
    json_t *v = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    char *out = NULL;

    if (json_is_string(v)) {
        *out_n = json_string_length(v);
        out = malloc(*out_n + 1);
        if (out != NULL) {
            memcpy(out, json_string_value(v), *out_n);
        }
    }
    json_decref(v);
    return out;
}

void output_json_arguments(struct output_parser *p, const char *text, size_t n)
{
    struct json_scan scan = {0};

    for (size_t i = 0, k; i < n; i += k) {
        bool in_string = json_scan_in_string(&scan);

        k = output_char(text + i, n - i);
        (void)json_scan_step(&scan, text[i]);
        output_argument(p, text + i, k, in_string);
    }
}

/* Gives withheld arguments: an object as it is written; null as no argument;
 * a string that contains an object as that object. */
static void give_held_arguments(struct output_parser *p)
{
    const struct output_json_call *c = &p->json;
    const char *text = p->held + c->begin;
    size_t n = c->end - c->begin, inner_n = 0;
    const char *inner;
    char *decoded = NULL;

    if (!c->has_arguments || *text == 'n') {
        output_give(p, OUTPUT_TOOL_ARGUMENTS, "{}", 2);
        return;
    }
    if (*text == '"') {
        decoded = decode(text, n, &inner_n);
    }
    inner = decoded;
    output_trim(&inner, &inner_n);
    if (inner != NULL && inner_n == 0) {
        output_give(p, OUTPUT_TOOL_ARGUMENTS, "{}", 2);
    } else if (inner != NULL && *inner == '{' &&
               json_scan_whole(inner, inner_n)) {
        output_json_arguments(p, inner, inner_n);
    } else {
        output_json_arguments(p, text, n);
    }
    free(decoded);
}

/* Begins the call.  Returns false if its name is not valid. */
static bool commit(struct output_parser *p)
{
    size_t n;
    char *name = decode(p->held + p->json.name_at, p->json.name_n, &n);
    bool valid = name != NULL && n > 0 && n <= OUTPUT_NAME_BYTES;

    if (valid) {
        output_begin_call(p, name, n);
        output_keep(p, p->held, p->n_held);
    }
    free(name);
    return valid;
}

static bool commit_held(struct output_parser *p)
{
    if (!commit(p)) {
        return false;
    }
    give_held_arguments(p);
    output_drop_held(p);
    return true;
}

/* ---- keys and values of the object ---- */

static enum key_name name_of_key(const struct output_json_call *c)
{
#define IS(text)                     \
    (c->n_key == sizeof(text) - 1 && \
     memcmp(c->key, text, sizeof(text) - 1) == 0)
    if (IS("name")) {
        return NAME;
    }
    if (IS("arguments") || IS("parameters")) {
        return ARGUMENTS;
    }
    return IS("type") || IS("id") ? OTHER : UNUSUAL;
#undef IS
}

static bool key_step(struct output_parser *p, char c)
{
    struct output_json_call *call = &p->json;

    if (c == '"') {
        call->name = (uint8_t)name_of_key(call);
        go(p, COLON);
        /* An answer in JSON is no call: give it as soon as that is clear. */
        return call->tagged || call->name != UNUSUAL;
    }
    if (call->n_key < sizeof call->key) {
        call->key[call->n_key] = c;
        call->n_key++;
    }
    return c != '\\';
}

/* Begins a value with its first character c. */
static bool value_begin(struct output_parser *p, char c)
{
    struct output_json_call *call = &p->json;

    call->value = p->n_held - 1;
    if (call->name == NAME) {
        return c == '"' && call->name_n == 0 && !p->committed;
    }
    if (call->name != ARGUMENTS) {
        return true;
    }
    if (call->has_arguments || p->committed) {
        call->name = OTHER; /* the first arguments are whole */
        return false;
    }
    call->has_arguments = true;
    if (c == '{' && call->name_n > 0) {
        if (!commit(p)) {
            return false;
        }
        output_drop_held(p);
    }
    return c == '{' || c == '"' || c == 'n';
}

/* Ends the value, which is held unless the call was committed before. */
static bool value_end(struct output_parser *p, uint32_t end)
{
    struct output_json_call *call = &p->json;

    go(p, AFTER);
    if (p->committed || call->name >= OTHER) {
        return true;
    }
    if (call->name == NAME) {
        call->name_at = call->value;
        call->name_n = end - call->value;
    } else {
        call->begin = call->value;
        call->end = end;
    }
    return call->name_n == 0 || !call->has_arguments || commit_held(p);
}

static bool after_step(struct output_parser *p, char c);

static bool value_step(struct output_parser *p, const char *text, size_t n)
{
    bool in_string = json_scan_in_string(&p->scan);
    enum json_scan_verdict v = json_scan_step(&p->scan, *text);

    if (v == JSON_SCAN_BAD) {
        return false;
    }
    if (v == JSON_SCAN_ENDED) {
        return value_end(p, p->n_held - 1) && after_step(p, *text);
    }
    if (p->committed && p->json.name == ARGUMENTS) {
        output_argument(p, text, n, in_string);
    }
    return v == JSON_SCAN_MORE || value_end(p, p->n_held);
}

/* Ends the object.  A call of hermes may have no arguments; without a tag, an
 * object with a name alone is an answer. */
static bool close_object(struct output_parser *p)
{
    if (!p->committed && (!p->json.tagged || p->json.name_n == 0 ||
                          p->json.has_arguments || !commit_held(p))) {
        return false;
    }
    output_end_call(p);
    return true;
}

static bool after_step(struct output_parser *p, char c)
{
    if (c == '}') {
        return close_object(p);
    }
    go(p, c == ',' ? KEY : AFTER);
    return c == ',' || output_is_space(&c, 1);
}

/* ---- the call ---- */

/* Returns whether the text still looks like a call. */
static bool call_step(struct output_parser *p, const char *text, size_t n)
{
    enum at at = p->json.at;
    char c = *text;

    if (at == IN_VALUE) {
        return value_step(p, text, n);
    }
    if (at == KEY_TEXT) {
        return key_step(p, c);
    }
    if (output_is_space(text, n)) {
        return true;
    }
    switch (at) {
    case OBJECT:
        go(p, FIRST_KEY);
        return c == '{';
    case FIRST_KEY:
    case KEY:
        p->json.n_key = 0;
        go(p, KEY_TEXT);
        return c == '"';
    case COLON:
        go(p, VALUE);
        return c == ':';
    case VALUE:
        p->scan = (struct json_scan){0};
        go(p, IN_VALUE);
        return value_begin(p, c) && value_step(p, text, n);
    default:
        return after_step(p, c);
    }
}

/* Ends an open call whose text goes on otherwise, or ends.  With whole
 * arguments it is a call: models forget the last brace. */
static void break_call(struct output_parser *p, size_t after)
{
    if (p->json.at == IN_VALUE && p->json.name == ARGUMENTS) {
        output_cut_call(p, after);
    } else {
        output_end_call(p);
    }
}

static void json_step(struct output_parser *p, const char *text, size_t n)
{
    bool room = p->committed || output_hold(p, text, n);

    if (room && call_step(p, text, n)) {
        return;
    }
    if (p->committed) {
        break_call(p, n);
    } else {
        p->n_held -= room ? (uint32_t)n : 0;
        output_release(p);
        /* The character must not begin the same call again. */
        p->fresh = false;
    }
    output_feed(p, text, n);
}

static void json_finish(struct output_parser *p)
{
    if (p->committed) {
        break_call(p, 0);
    } else {
        output_release(p);
    }
}

static const struct output_state json_call = {json_step, json_finish};

/* Begins a possible call with its marker. */
static void json_begin(struct output_parser *p, const char *marker)
{
    p->json = (struct output_json_call){.tagged = *marker != '\0'};
    p->state = &json_call;
    /* Cannot fail but for memory: held is empty. */
    if (!output_hold(p, marker, strlen(marker))) {
        output_content(p, marker, strlen(marker));
        p->state = p->text;
    }
}

/* ---- hermes ---- */

static void hermes_step(struct output_parser *p, const char *text, size_t n)
{
    static const char *const markers[] = {"<tool_call>", "</tool_call>", NULL};
    int m = output_text(p, markers, text, n);

    if (m == 0) {
        json_begin(p, markers[0]);
    } else if (m == 1 && p->fresh && p->n_calls > 0) {
        p->n_space = 0;
    } else if (m == 1) {
        output_content(p, markers[1], strlen(markers[1]));
    }
}

const struct output_state output_hermes_text = {hermes_step,
                                                output_text_finish};

/* ---- llama3 ---- */

/* All but the first end a turn and are no content.  They are in the text
 * because the tag, a special token too, has to be. */
static const char *const llama3_markers[] = {
    "<|python_tag|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", NULL};

const char *const output_llama3_ends[] = {"<|eot_id|>", "<|eom_id|>",
                                          "<|end_of_text|>", NULL};

static void llama3_step(struct output_parser *p, const char *text, size_t n)
{
    const char *const *markers = llama3_markers;
    bool calls = p->options.tools && p->fresh;
    int m;

    if (calls && p->n_mark == 0 && *text == '{') {
        json_begin(p, "");
        output_feed(p, text, n);
        return;
    }
    if (calls && p->n_mark == 0 && p->n_calls > 0 && *text == ';') {
        output_hold_space(p, *text);
        return;
    }
    m = output_text(p, markers, text, n);
    if (m == 0 && calls) {
        json_begin(p, markers[0]);
    } else if (m == 0) {
        output_content(p, markers[0], strlen(markers[0]));
    }
}

const struct output_state output_llama3_text = {llama3_step,
                                                output_text_finish};
