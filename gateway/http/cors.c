#include "gateway/http/cors.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ORIGIN_BYTES_MAX 255

/* The value goes into a header as it is, so nothing may end the line. */
static bool is_origin(const char *text)
{
    const char *host = strstr(text, "://");

    return host != NULL &&
           (strncmp(text, "http://", 7) == 0 ||
            strncmp(text, "https://", 8) == 0) &&
           host[3] != '\0' && strlen(text) <= ORIGIN_BYTES_MAX &&
           strpbrk(host + 3, "/ \t\r\n\",;?#@\\") == NULL;
}

bool http_cors_valid(const char *allowed)
{
    return strcmp(allowed, "*") == 0 || is_origin(allowed);
}

/* Headers that clients of OpenAI send: the SDKs add x-stainless-*. */
static const char preflight_lines[] =
    "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
    "Access-Control-Allow-Headers: *, Authorization\r\n"
    "Access-Control-Max-Age: 600\r\n";

struct http_cors http_cors_headers(const struct http_exchange *x,
                                   const char *allowed, bool preflight)
{
    const char *origin = http_header(x, "origin", NULL);
    struct http_cors cors = {.lines = ""};

    if (allowed == NULL || origin == NULL ||
        (strcmp(allowed, "*") != 0 && strcasecmp(allowed, origin) != 0)) {
        return cors;
    }
    /* A cache must not serve one origin's answer to another. */
    snprintf(cors.lines, sizeof cors.lines,
             "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n%s", allowed,
             preflight ? preflight_lines : "");
    return cors;
}
