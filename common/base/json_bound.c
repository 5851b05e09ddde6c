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

/* By jansson 2.14 and glibc's malloc, which rounds to 16 bytes.  A text is in
 * the parser's buffer, which doubles, and in the tree.  A short string takes 80
 * bytes, and an array doubles its pointers.  An object has buckets, and for
 * each member a pair of lists, a hash and the key. */
#define TEXT_COST   3
#define VALUE_COST  104
#define LIST_COST   240
#define MEMBER_COST 128
#define PARSER_COST 16384

size_t json_cost(const char *text, size_t len)
{
    struct json_bounds n = {0};
    size_t members = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"') {
            i = skip_string(text, len, i);
        } else if (text[i] == ':') {
            members++;
        } else {
            count(&n, text[i]);
        }
    }
    return PARSER_COST + TEXT_COST * len + VALUE_COST * (n.values + 1) +
           LIST_COST * n.lists + MEMBER_COST * members;
}
