#include "gateway/openai/body.h"

#include <string.h>

#include "common/base/json_bound.h"
#include "common/base/quote.h"
#include "gateway/openai/request.h"

#define FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY)

bool body_parse(const char *text, size_t n, json_t **out,
                struct openai_error *e)
{
    static const struct json_bounds most = {OPENAI_DEPTH_MAX, OPENAI_VALUES_MAX,
                                            OPENAI_LISTS_MAX};
    json_error_t at;
    struct error bound;

    *out = NULL;
    /* The library takes a NUL for the end, and ignores all that follows. */
    if (n > 0 && memchr(text, 0, n) != NULL) {
        openai_error_set(e, 400, NULL, NULL,
                         "the body is not valid JSON: byte %zu is NUL",
                         (size_t)((const char *)memchr(text, 0, n) - text));
        return false;
    }
    if (json_bound(text, n, &most, ST_OUT_OF_RANGE, &bound) != ST_OK) {
        openai_error_set(e, 413, NULL, NULL, "the body is too complex: %s",
                         bound.text);
        return false;
    }
    /* Keys cost far more time than other values: they are hashed. */
    if (json_members(text, n) > OPENAI_MEMBERS_MAX) {
        openai_error_set(e, 413, NULL, NULL,
                         "the body is too complex: its objects have more than "
                         "%d members",
                         OPENAI_MEMBERS_MAX);
        return false;
    }
    *out = json_loadb(text, n, FLAGS, &at);
    if (*out == NULL && json_error_code(&at) == json_error_numeric_overflow) {
        *out = json_loadb(text, n, FLAGS | JSON_DECODE_INT_AS_REAL, &at);
    }
    if (*out == NULL) {
        openai_error_set(e, 400, NULL, NULL,
                         "the body is not valid JSON: line %d, column %d: %s",
                         at.line, at.column,
                         quote_bytes(at.text, strlen(at.text)).text);
    }
    return *out != NULL;
}
