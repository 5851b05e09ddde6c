#include "gateway/openai/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/quote.h"

/* Clients retry by status and by type, so both follow from one table.
 * Returns the type that OpenAI's API has for a status of HTTP. */
static const char *type_of(int http)
{
    switch (http) {
    case 403:
        return "permission_error";
    case 429:
        return "rate_limit_error";
    default:
        return http >= 500 ? "server_error" : "invalid_request_error";
    }
}

void openai_error_set(struct openai_error *e, int http, const char *param,
                      const char *code, const char *fmt, ...)
{
    va_list args;

    e->http = http;
    e->type = type_of(http);
    e->code = code;
    e->overload = http == 503;
    snprintf(e->param, sizeof e->param, "%s", param != NULL ? param : "");
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
}

void openai_error_memory(struct openai_error *e)
{
    openai_error_set(e, 503, NULL, NULL,
                     "the server is out of memory for requests; retry later");
}

int openai_error_http(enum status st)
{
    switch (st) {
    case ST_INVALID_ARGUMENT:
    case ST_OUT_OF_RANGE:
        return 400;
    case ST_UNAUTHENTICATED:
        return 401;
    case ST_PERMISSION_DENIED:
        return 403;
    case ST_NOT_FOUND:
        return 404;
    case ST_ALREADY_EXISTS:
        return 409;
    case ST_ABORTED: /* clients retry 409, and a request may kill workers */
        return 422;
    case ST_RESOURCE_EXHAUSTED:
        return 429;
    case ST_CANCELLED:
        return 499; /* as nginx: the client closed the request */
    case ST_UNIMPLEMENTED:
        return 501;
    case ST_FAILED_PRECONDITION: /* a worker drains or lacks a layer */
    case ST_UNAVAILABLE:
        return 503;
    case ST_DEADLINE_EXCEEDED:
        return 504;
    default:
        return 500;
    }
}

/* Returns the code that clients test for; NULL where OpenAI has none. */
static const char *code_of(enum status st)
{
    switch (st) {
    case ST_OUT_OF_RANGE:
        return "context_length_exceeded";
    case ST_UNAUTHENTICATED:
        return "invalid_api_key";
    case ST_RESOURCE_EXHAUSTED:
        return "rate_limit_exceeded";
    default:
        return NULL;
    }
}

/* Returns what follows the field that a sentence of the router or of a job
 * begins with, and sets *field to its name in OpenAI's API.  NULL: none. */
static const char *strip_field(const char *sentence, const char **field)
{
    static const char *const names[][2] = {
        {"bias_tokens", "logit_bias"},
        {"stop_tokens", "stop_token_ids"},
        {"prompt", "prompt"},
        {"tokens", "tokens"}, /* of /detokenize */
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i][0]);

        if (strncmp(sentence, names[i][0], n) == 0 && sentence[n] == ':') {
            *field = names[i][1];
            return sentence + n;
        }
    }
    return NULL;
}

void openai_error_of_status(struct openai_error *e, enum status st,
                            const struct error *from)
{
    const char *field,
        *rest = from != NULL ? strip_field(from->text, &field) : NULL;

    if (from != NULL && memory_is_short(from)) {
        openai_error_set(e, 503, NULL, NULL, "%s", from->text);
        return;
    }
    if (rest != NULL) {
        openai_error_set(e, openai_error_http(st), field, code_of(st), "%s%s",
                         field, rest);
        return;
    }
    openai_error_set(e, openai_error_http(st), NULL, code_of(st), "%s",
                     from != NULL && from->text[0] != '\0' ? from->text
                                                           : status_text(st));
    /* The router's queues are full; a tenant's limits are the gateway's. */
    e->overload = e->overload || st == ST_RESOURCE_EXHAUSTED;
}

void openai_error_no_router(struct openai_error *e)
{
    openai_error_set(e, 503, NULL, NULL,
                     "no router has answered yet, so the models are unknown; "
                     "retry later");
}

void openai_error_no_model(struct openai_error *e, const char *model)
{
    openai_error_set(e, 404, "model", "model_not_found",
                     "no worker serves a model %s; GET /v1/models lists those "
                     "that are served",
                     quote(model).text);
}

void openai_error_body(struct json_out *out, const struct openai_error *e)
{
    /* param and code are required by the schema, and null without a value. */
    json_out_put(out, "{\"error\":{\"message\":");
    json_out_text(out, e->message);
    json_out_put(out, ",\"type\":");
    json_out_text(out, e->type);
    json_out_put(out, ",\"param\":");
    json_out_text(out, e->param[0] != '\0' ? e->param : NULL);
    json_out_put(out, ",\"code\":");
    json_out_text(out, e->code);
    json_out_put(out, "}}");
}
