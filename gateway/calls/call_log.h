/* call_log.h - The line that each HTTP request leaves in the log.
 *
 *     http-request method=GET route=models status=200 client=10.0.0.7
 *         tenant=web model=- request=3f9a...
 *     http-request method=POST route=chat_completions status=200
 *         client=10.0.0.7 tenant=web model=tiny request=3f9a... ms=71.9
 *         prompt=12 tokens=64 stream=1 end=done
 *
 * A generation is logged when it is over (generation_end.c), with the id that
 * the router's log has; end is done, cut (by the default limit of tokens),
 * failed or gone, and status 499 if the client went before an answer.  A value
 * that is not known is "-": the tenant of a request without a valid key, the
 * model of a body with a fault.  Probes (public routes) are logged at debug,
 * everything else at info.
 *
 * Threading: one thread.  Memory: none. */
#ifndef GATEWAY_CALLS_CALL_LOG_H
#define GATEWAY_CALLS_CALL_LOG_H

#include "gateway/http/http.h"
#include "gateway/metrics/metrics.h"

/* The fields that every line has; texts are borrowed. */
struct call_line {
    enum http_method method;
    enum gateway_route route;
    int status;
    const char *client; /* an address */
    const char *tenant; /* NULL: none */
    const char *model;  /* any bytes; NULL: none */
    const char *id;     /* in x-request-id of the answer */
};

/* Returns whether the line of an answer is wanted. */
bool call_log_wants(enum gateway_route route, int status);

/* Logs an answer. */
void call_log_answer(const struct call_line *l);

/* Logs a generation: l, then the text of its figures. */
void call_log_generation(const struct call_line *l, const char *figures);

#endif
