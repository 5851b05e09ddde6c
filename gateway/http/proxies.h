/* proxies.h - The address of a client behind proxies that are trusted.
 *
 *     peer  <--  X-Forwarded-For: forged, client, proxy2
 *
 * A proxy appends the address of its own peer to X-Forwarded-For.  Only what a
 * trusted proxy has appended counts: the header is read from its end, and the
 * first address that is no trusted proxy is the client.  If an entry is no
 * address, the one before it is the client.  The header of any other peer is
 * ignored.
 *
 * Threading, memory: no state; the caller's.  Limits: HTTP_PROXIES_MAX. */
#ifndef GATEWAY_HTTP_PROXIES_H
#define GATEWAY_HTTP_PROXIES_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/http/http.h"
#include "gateway/http/http_limits.h"

/* Addresses with the same first `bits` bits.  IPv4 as ::ffff:a.b.c.d. */
struct http_proxy {
    uint8_t bytes[16];
    unsigned bits;
    bool is_unix; /* any peer of a Unix socket */
};

struct http_proxies {
    struct http_proxy of[HTTP_PROXIES_MAX]; /* [n] */
    unsigned n;
};

/* Adds an address, "10.0.0.0/8", "2001:db8::/32", or "unix".  Returns false if
 * text is none of these, or if there is no place. */
bool http_proxies_add(struct http_proxies *p, const char *text);

/* Replaces text, the address of the peer of x, by that of the client, if the
 * peer is trusted. */
void http_proxies_client(const struct http_proxies *p,
                         const struct http_exchange *x,
                         char text[HTTP_CLIENT_TEXT]);

#endif
