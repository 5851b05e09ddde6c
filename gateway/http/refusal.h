/* refusal.h - The reason why the server refuses a request.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef GATEWAY_HTTP_REFUSAL_H
#define GATEWAY_HTTP_REFUSAL_H

#include <stdbool.h>

#define HTTP_REFUSAL_TEXT 320

struct http_refusal {
    int status;                   /* status of the response */
    char text[HTTP_REFUSAL_TEXT]; /* a sentence for the client */
};

/* Sets *r; returns false, for the caller to return.  A longer text is cut. */
bool http_refuse(struct http_refusal *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
