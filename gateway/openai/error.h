/* error.h - Errors in the shape of OpenAI's API.
 *
 *     {"error":{"message":"n: 65 is over the limit of 64; lower it",
 *               "type":"invalid_request_error","param":"n","code":null}}
 *
 * A text from outside is escaped in a message, as common/base/quote.h does.
 *
 * Threading: none.  Memory: an error is the caller's storage; type and code
 * are constants. */
#ifndef GATEWAY_OPENAI_ERROR_H
#define GATEWAY_OPENAI_ERROR_H

#include <stdbool.h>

#include "common/base/status.h"
#include "gateway/openai/json_out.h"

#define OPENAI_PARAM_BYTES 64 /* a field's place, with its NUL */

struct openai_error {
    int http;                       /* 400..599 */
    char message[ERROR_TEXT];       /* a sentence */
    const char *type;               /* "invalid_request_error" */
    char param[OPENAI_PARAM_BYTES]; /* "messages[1].content"; "": null */
    const char *code;               /* "model_not_found"; NULL: null */
    bool overload; /* the server has too much to do, not this client */
};

/* Sets *e to a status of HTTP and a formatted message.  The type follows from
 * the status.  param and code may be NULL. */
void openai_error_set(struct openai_error *e, int http, const char *param,
                      const char *code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Sets *e to the failure of a call: st of sluice's router, and its sentence.
 * A sentence that begins with a field of the protocol names the field of
 * OpenAI's API in its place.  A lack of memory is 503, a quota or a full queue
 * 429.  from may be NULL. */
void openai_error_of_status(struct openai_error *e, enum status st,
                            const struct error *from);

/* Sets *e to 503: the gateway is short of memory. */
void openai_error_memory(struct openai_error *e);

/* Sets *e to 503: no router has answered since the start. */
void openai_error_no_router(struct openai_error *e);

/* Sets *e to 404 model_not_found. */
void openai_error_no_model(struct openai_error *e, const char *model);

/* Returns the status of HTTP for st. */
int openai_error_http(enum status st);

/* Appends the body of an error. */
void openai_error_body(struct json_out *out, const struct openai_error *e);

#endif
