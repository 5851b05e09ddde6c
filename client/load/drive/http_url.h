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
    char base[HTTP_URL_MAX]; /* path up to /v1, without it: "" or "/x" */
};

/* Reads "http://host:port/path", with or without /v1.  Returns
 * ST_INVALID_ARGUMENT and a sentence. */
MUST_CHECK enum status http_url_read(struct http_url *out, const char *text,
                                     struct error *e);

#endif
