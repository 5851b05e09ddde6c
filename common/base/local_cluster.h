/* local_cluster.h - Where the newest cluster of `sluice serve` of this user is.
 *
 * serve records the endpoint of its router in a file that only this user can
 * write: in XDG_RUNTIME_DIR, or else in /tmp/sluice-UID.  sluicectl takes it if
 * nothing else names a router.  A record whose socket nobody serves counts as
 * none, so a killed serve leaves no trap.
 *
 * Threading: none.  Memory: the caller's.  Limits: one record; the newest
 * replaces it. */
#ifndef COMMON_BASE_LOCAL_CLUSTER_H
#define COMMON_BASE_LOCAL_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#define LOCAL_CLUSTER_BYTES 256 /* an endpoint with its NUL */

/* Records an endpoint ipc://PATH.  Does nothing if no directory is safe, or if
 * the file cannot be written: sluicectl then needs --router. */
void local_cluster_add(const char *endpoint);

/* Removes the record if it has this endpoint. */
void local_cluster_remove(const char *endpoint);

/* Copies the recorded endpoint.  Returns false if there is none that accepts
 * connections. */
bool local_cluster_find(char endpoint[LOCAL_CLUSTER_BYTES]);

#endif
