/* local_host.h - Names of this machine, as browsers write them.
 *
 * A web page can reach a server that listens on loopback: by its address, or by
 * a foreign name that resolves to 127.0.0.1 (DNS rebinding).  Browsers send the
 * name that the page used, so a server without keys serves local names only.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef COMMON_BASE_LOCAL_HOST_H
#define COMMON_BASE_LOCAL_HOST_H

#include <stdbool.h>
#include <stddef.h>

#define LOCAL_HOST_BYTES 254 /* bytes of a DNS name with its NUL */

/* Copies the name of "NAME[:PORT]" or "[ADDRESS][:PORT]", the value of a Host
 * header, to name: without port, brackets, and the dot at the end.  host has n
 * bytes.  Returns false if the name is empty or too long, or if a bracket is
 * missing. */
bool host_name_copy(const char *host, size_t n, char name[LOCAL_HOST_BYTES]);

/* Returns true if name, from host_name_copy(), is localhost, a name below it
 * (RFC 6761, 6.3), or a loopback address. */
bool host_name_is_local(const char *name);

/* Returns the n bytes of the host of an origin such as http://localhost:3000,
 * which point into it; NULL if the origin has another form, as "null" has. */
const char *origin_host(const char *origin, size_t *n);

/* Returns true if the host of the value of a Host header is local. */
bool host_is_local(const char *host, size_t n);

#endif
