/* call_log.h - The line that each HTTP request leaves in the log.
 *
 *     http-request method=GET route=models status=200
 *     http-request method=POST route=chat_completions status=200 ms=71.9
 *         request=3f9a... tenant=we.. prompt=12 tokens=64 stream=1 end=done
 *
 * A generation is logged when it is over, with the id that the router's log
 * has; end is done, failed or gone, and status 499 if the client went before
 * an answer.  Probes (public routes) are logged at debug, everything else at
 * info.
 *
 * Threading: one thread.  Memory: none. */
#ifndef GATEWAY_CALLS_CALL_LOG_H
#define GATEWAY_CALLS_CALL_LOG_H

#include "gateway/calls/generation.h"
#include "gateway/http/http.h"

/* Logs an answer with its status. */
void call_log_answer(enum http_method method, enum gateway_route route,
                     int status);

/* Logs a generation that is over. */
void call_log_generation(const struct generation *g);

#endif
