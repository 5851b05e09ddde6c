#include "gateway/dialects/anthropic_error.h"

#include <string.h>

#define OVERLOADED 529 /* what the SDKs take for "the server, not you" */

int anthropic_error_status(const struct openai_error *e)
{
    return e->overload ? OVERLOADED : e->http;
}

static const char *type_of(int http)
{
    switch (http) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 504:
        return "timeout_error";
    case OVERLOADED:
        return "overloaded_error";
    default:
        return http >= 500 ? "api_error" : "invalid_request_error";
    }
}

void anthropic_error_body(struct json_out *out, const struct openai_error *e)
{
    bool is_long =
        e->code != NULL && strcmp(e->code, "context_length_exceeded") == 0;

    json_out_put(out, "{\"type\":\"error\",\"error\":{\"type\":");
    json_out_text(out, type_of(anthropic_error_status(e)));
    json_out_put(out, ",\"message\":\"");
    /* Agents shorten their conversation if they read these words. */
    json_out_put(out, is_long ? "prompt is too long: " : "");
    json_out_escaped(out, e->message, strlen(e->message));
    json_out_put(out, "\"}}");
}
