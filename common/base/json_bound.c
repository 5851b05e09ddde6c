#include "common/base/json_bound.h"

/* Returns the index of the closing quote of the string that starts at
 * text[i].  Brackets and commas inside strings count nothing. */
static size_t skip_string(const char *text, size_t len, size_t i)
{
    for (i++; i < len && text[i] != '"'; i++) {
        if (text[i] == '\\') {
            i++;
        }
    }
    return i;
}

/* A text that is not JSON may close more brackets than it opened; the depth
 * then stays at 0, and the parser rejects the text. */
static void count(struct json_bounds *n, char c)
{
    switch (c) {
    case '[':
    case '{':
        n->depth++;
        n->values++;
        n->lists++;
        break;
    case ',':
        n->values++;
        break;
    case ']':
    case '}':
        n->depth -= n->depth > 0;
        break;
    default:
        break;
    }
}

enum status json_bound(const char *text, size_t len,
                       const struct json_bounds *most, enum status code,
                       struct error *e)
{
    struct json_bounds n = {0};

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"') {
            i = skip_string(text, len, i);
            continue;
        }
        count(&n, text[i]);
        if (n.depth > most->depth) {
            return error_set(e, code,
                             "JSON is nested more than %zu deep at byte %zu",
                             most->depth, i);
        }
        if (n.values > most->values) {
            return error_set(e, code,
                             "JSON has more than %zu values at byte %zu",
                             most->values, i);
        }
        if (n.lists > most->lists) {
            return error_set(
                e, code,
                "JSON has more than %zu arrays and objects at byte %zu",
                most->lists, i);
        }
    }
    return ST_OK;
}

size_t json_members(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"') {
            i = skip_string(text, len, i);
        } else if (text[i] == ':') {
            n++;
        }
    }
    return n;
}
