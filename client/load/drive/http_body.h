/* http_body.h - JSON bodies of requests.
 *
 * Threading: none.  Memory: a kind owns its texts. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_BODY_H
#define CLIENT_LOAD_DRIVE_HTTP_BODY_H

#include "client/load/drive/http_text.h"
#include "client/load/drive/target.h"

/* The members that all bodies of a run share. */
struct http_body {
    bool chat;
    bool sends_max; /* false: options.extra limits the output */
    char *shared;   /* `,"model":"x",...}` */
};

/* Merges the options with options->extra, whose members win.  Returns
 * ST_INVALID_ARGUMENT if extra is no JSON object. */
MUST_CHECK enum status http_body_init(struct http_body *b,
                                      const struct target_options *o,
                                      struct error *e);
void http_body_fini(struct http_body *b);

/* Appends the body of a request.  Returns ST_INVALID_ARGUMENT if the route
 * cannot take the prompt. */
MUST_CHECK enum status http_body_put(const struct http_body *b,
                                     const struct prompt *p,
                                     uint32_t max_tokens, struct http_text *out,
                                     struct error *e);

#endif
