/* resolver.h - Resolves names of hosts in the background.
 *
 *     ask --> waiting --> in a lookup --> answered --> taken
 *
 * A lookup is a call of getaddrinfo(3), which may take many seconds.  It runs
 * in a thread of its own, RESOLVER_THREADS at most, so that a name server that
 * is silent for one name delays no other.  A name is in one lookup at a time.
 * Its answer serves every query of the name that waits when the answer arrives:
 * a query that is repeated sooner than the lookup ends is answered by that
 * lookup.  Nothing is kept afterwards, because hosts move.
 *
 * Threading: one thread calls these functions.  None of them waits for a
 * lookup.  Memory: the heap, freed when the last lookup has ended.  Limits:
 * RESOLVER_QUERIES, RESOLVER_THREADS, RESOLVER_ADDRESSES. */
#ifndef COMMON_WIRE_RESOLVER_H
#define COMMON_WIRE_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/endpoint.h"

#define RESOLVER_QUERIES   40 /* open at once, answered ones too */
#define RESOLVER_THREADS   4  /* lookups at once */
#define RESOLVER_ADDRESSES 16 /* a name; further ones are left out */
#define RESOLVER_TEXT      64 /* an address with its zone and NUL */

struct resolver_answer {
    uint32_t id; /* names the query */
    unsigned n;  /* addresses, the preferred one first; 0: failed */
    char addresses[RESOLVER_ADDRESSES][RESOLVER_TEXT];
    char why[100]; /* if n is 0 */
};

/* Looks a name up and fills in everything but the id.  Called from threads of
 * the resolver, on several names at once. */
typedef void resolver_lookup_fn(void *arg, const char *host,
                                struct resolver_answer *out);

struct resolver;

/* Makes a resolver without threads.  lookup: for tests, with its argument,
 * which outlives the lookups; NULL: getaddrinfo().  Returns
 * ST_RESOURCE_EXHAUSTED if descriptors or memory are lacking. */
MUST_CHECK enum status resolver_new(struct resolver **out,
                                    resolver_lookup_fn *lookup, void *arg,
                                    struct error *e);

/* Frees it.  Lookups that run go on alone, and their answers are dropped. */
void resolver_free(struct resolver **r);

/* Returns a descriptor that is readable while answers wait. */
int resolver_fd(const struct resolver *r);

/* Begins a query.  The answer has the caller's id, which no other open query
 * has.  Returns false if RESOLVER_QUERIES are open or the name is too long. */
MUST_CHECK bool resolver_ask(struct resolver *r, uint32_t id, const char *host);

/* Ends a query without an answer; a no-op if there is none of that id. */
void resolver_cancel(struct resolver *r, uint32_t id);

/* Takes an answer.  Returns false if there is none. */
bool resolver_take(struct resolver *r, struct resolver_answer *out);

#endif
