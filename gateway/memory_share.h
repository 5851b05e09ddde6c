/* memory_share.h - The gateway's memory, divided between clients.
 *
 *     half       requests: heads, bodies, their trees, answers that are whole
 *     an eighth  output that clients have not taken
 *     the rest   prompts on threads, sessions with the router, libraries
 *
 * of what the process may still allocate when it has started, and at most the
 * constants of gateway/http/http_limits.h.
 *
 * Threading: none.  Memory: none. */
#ifndef GATEWAY_MEMORY_SHARE_H
#define GATEWAY_MEMORY_SHARE_H

#include <stddef.h>
#include <stdio.h>

#include "common/base/status.h"

/* A gateway with less for requests does not start. */
#define MEMORY_SHARE_LEAST (1u << 20)

struct memory_share {
    size_t requests, outputs; /* bytes */
};

/* Divides what is left.  Returns ST_RESOURCE_EXHAUSTED if that is too little
 * to serve. */
MUST_CHECK enum status memory_share(struct memory_share *out, struct error *e);

/* Prints rows for --limits. */
void memory_share_print(FILE *to);

#endif
