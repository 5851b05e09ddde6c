/* request_memory.h - Memory that open requests may make the router hold.
 *
 * A request counts from its arrival to its end: its prompt, and max_tokens of
 * each choice.  Calls that are held for a first worker and texts that wait for
 * a tokenizer thread count too.  What does not fit is refused before it takes
 * memory, so that libraries which abort without memory do not run out of it.
 *
 * Beside these, a session holds output that its client does not read, up to
 * CLIENT_UNREAD_BYTES and for SLOW_READER_MS.
 *
 * Threading: the core's thread only.  Memory: none.  Limits:
 * router_options.memory_bytes. */
#ifndef ROUTER_BASE_REQUEST_MEMORY_H
#define ROUTER_BASE_REQUEST_MEMORY_H

#include <stddef.h>

#include "common/base/status.h"
#include "router/base/base.h"

/* Counts bytes as used.  Returns ST_RESOURCE_EXHAUSTED, with the figures in e
 * (which may be NULL), if that would exceed the limit. */
MUST_CHECK enum status request_memory_take(struct router_base *b, size_t bytes,
                                           struct error *e);
void request_memory_give(struct router_base *b, size_t bytes);

/* Returns when to retry what was refused, RETRY_MS_MIN; 0: what needs so many
 * bytes never fits. */
uint32_t request_memory_retry_ms(const struct router_base *b, size_t bytes);

#endif
