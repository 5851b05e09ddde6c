/* http_url.h - The parts of an HTTP endpoint.
 *
 * Threading, memory: none.  Pure. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_URL_H
#define CLIENT_LOAD_DRIVE_HTTP_URL_H

#include <stdbool.h>

#include "common/base/status.h"

#define HTTP_URL_MAX 512

struct http_url {
    bool secure;
    char host[256]; /* without brackets */
    char port[8];
    char authority[272];     /* for Host: */
    char base[HTTP_URL_MAX]; /* path in front of /models: "/v1", "" */
};

/* Reads an endpoint.  Returns ST_INVALID_ARGUMENT and a sentence.
 *
 *     http://host:port                     base /v1
 *     http://host:port/v1                  base /v1
 *     http://host:port/api/v4              base /api/v4, as OpenAI's clients
 *     http://host:port/chat/completions    no base: the route itself */
MUST_CHECK enum status http_url_read(struct http_url *out, const char *text,
                                     struct error *e);

#endif
