/* framing.h - Checks of a complete head, and where its body ends.
 *
 * The rules against request smuggling (RFC 9112, section 11.2) are here: one
 * length, given once and in one way.
 *
 * Threading, memory: none. */
#ifndef GATEWAY_HTTP_FRAMING_H
#define GATEWAY_HTTP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/http/head.h"

struct http_framing {
    uint64_t length; /* bytes of a body that is not chunked */
    bool chunked;
    bool keep;     /* the client keeps the connection */
    bool expects;  /* the client waits for 100 Continue */
    bool has_body; /* chunked, or length > 0 */
};

/* Reads the framing of a complete head.  Returns false and *r if a header is
 * wrong, contradicts another, or announces more than body_max bytes. */
bool http_framing_read(struct http_framing *f, const struct http_head *h,
                       size_t body_max, struct http_refusal *r);

#endif
