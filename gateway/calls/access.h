/* access.h - The API key of a request, and its tenant.
 *
 * Threading: one thread.  Memory: a tenant is valid until the next reload of
 * the key file, or until the end of a request that tenant_begin() admitted. */
#ifndef GATEWAY_CALLS_ACCESS_H
#define GATEWAY_CALLS_ACCESS_H

#include "gateway/calls/service.h"

/* Returns the tenant of the request's key, NULL if the key is missing or
 * wrong. */
struct tenant *access_tenant(const struct service *c,
                             const struct http_exchange *x);

/* Returns whether the request's key may read the figures of all tenants. */
bool access_is_operator(const struct service *c, const struct http_exchange *x);

/* Returns whether the request has a header with a key, right or wrong. */
bool access_has_key(const struct http_exchange *x);

#endif
