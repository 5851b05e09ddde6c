/* pages.h - Requests of web pages that a server without keys refuses.
 *
 *     Host: NAME                    NAME must be local or listed
 *     Origin: ORIGIN                must be local, listed, or allowed by --cors
 *     Sec-Fetch-Site: cross-site    refused, unless a person follows a link
 *                                   (GET with Sec-Fetch-Mode: navigate)
 *
 * A page cannot forge these headers (Fetch standard, 2.2.2; W3C Fetch
 * Metadata). Clients that are no browsers send Host only, or nothing.  Any port
 * of a local name is this machine, because tunnels change ports.
 *
 * Threading, memory: no state; the caller's. */
#ifndef GATEWAY_HTTP_PAGES_H
#define GATEWAY_HTTP_PAGES_H

#include <stdbool.h>

#include "gateway/http/http.h"

struct http_page_rules {
    const char *cors;         /* allowed origin, "*", or NULL for none */
    const char *const *hosts; /* [n_hosts] allowed host names, or "*" */
    unsigned n_hosts;
};

/* Returns whether `name` can be a host of the rules: "*", a name, or an
 * address, without scheme, port and brackets. */
bool http_page_host_valid(const char *name);

/* Returns the reason for which x is refused, a static sentence; NULL if it is
 * not. */
const char *http_page_refusal(const struct http_exchange *x,
                              const struct http_page_rules *rules);

#endif
