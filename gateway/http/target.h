/* target.h - Checks of a request's target.
 *
 * Only one spelling of a path is accepted, so that a proxy and this server
 * cannot disagree on which path a request names:
 *
 *     accepted   /v1/models?x=1   *   /v1/models/a%20b
 *     refused    http://h/v1   //v1   /v1/../x   /v1/%2e%2e   /a%2fb   /a%25
 *
 * Names that may hold a slash follow a prefix.  Clients encode that slash or
 * not, and both spellings mean the same name: with the prefix /v1/models/,
 * /v1/models/a%2fb is accepted and is /v1/models/a/b.
 *
 * Threading: none.  Memory: works in place. */
#ifndef GATEWAY_HTTP_TARGET_H
#define GATEWAY_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/http/refusal.h"

/* Cuts scheme and host from a target in absolute form, as proxies send it;
 * other targets stay as they are.  host is the value of the Host header, NULL
 * for none.  Returns false and *r if the hosts differ: another server would
 * follow the other one. */
bool http_target_cut_host(char *target, const char *host,
                          struct http_refusal *r);

/* Splits target into path and query, and decodes the path in place.  Behind
 * each prefix of names_under, which ends with NULL or is NULL, a slash may be
 * encoded.  Sets *query to
 * the offset of the query's text, 0 if there is none.  Returns false and *r if
 * the target is refused. */
bool http_target_parse(char *target, const char *const *names_under,
                       size_t *query, struct http_refusal *r);

#endif
