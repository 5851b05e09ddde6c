/* private_env.h - The environment of a private cluster.
 *
 * The programs of `sluice serve` and `sluice bench` get the options of their
 * command lines alone: SLUICE_ROUTER_KEY and the like are meant for the
 * machine's services, and SLUICE_KEY for clients of another cluster.
 *
 * Threading: before any thread starts.  Memory: the caller's. */
#ifndef CLIENT_FRONT_PRIVATE_ENV_H
#define CLIENT_FRONT_PRIVATE_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a variable of this name would change a program of the
 * cluster, or a client of it. */
bool private_env_drops(const char *name, size_t n);

/* Removes these variables.  Writes the name of the first one that sets an
 * option of a daemon to name, [cap] with its NUL, "" if there is none, and
 * returns the number of those. */
unsigned private_env_clean(char *name, size_t cap);

#endif
