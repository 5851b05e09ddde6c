/* prefix_hash.h - Names of prefixes, computed alike by router and workers.
 *
 * A prefix of a whole number of units (PREFIX_UNIT tokens) has a 128-bit hash:
 *
 *     h(0)     = SipHash-2-4-128(key, scope)
 *     h(i + 1) = SipHash-2-4-128(key, h(i) ++ the tokens of unit i, 4 bytes
 *                each, least significant first)
 *
 * The scope is the tenant's name, or name ++ 0 ++ salt if the request has a
 * salt.  Names have no NUL byte, so no two scopes are equal.
 *
 * The key is the router's and goes to the workers in HelloReply.  A client
 * without the key therefore cannot find two prefixes of one hash.  A worker
 * still compares the tokens before it reuses memory.  Prefixes of two scopes
 * differ from h(0) on.
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_WIRE_PREFIX_HASH_H
#define COMMON_WIRE_PREFIX_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

#define PREFIX_UNIT       64 /* tokens */
#define PREFIX_KEY_BYTES  16
#define PREFIX_HASH_BYTES 16
#define PREFIX_SCOPE_MAX  (TENANT_NAME_MAX + 1 + CACHE_SALT_MAX)

struct prefix_key {
    uint8_t bytes[PREFIX_KEY_BYTES];
};

struct prefix_hash {
    uint64_t lo, hi;
};

/* Writes the scope of a tenant, [n] bytes, and a salt, [n_salt] bytes; either
 * may be empty.  Returns its bytes.  n is at most TENANT_NAME_MAX and n_salt at
 * most CACHE_SALT_MAX. */
size_t prefix_scope(uint8_t out[PREFIX_SCOPE_MAX], const void *tenant, size_t n,
                    const void *salt, size_t n_salt);

/* Returns h(0) of a scope, [n] bytes; n = 0: no tenant. */
struct prefix_hash prefix_hash_root(const struct prefix_key *key,
                                    const void *scope, size_t n);

/* Returns the hash of the prefix that continues `of` by tokens[PREFIX_UNIT]. */
struct prefix_hash prefix_hash_next(const struct prefix_key *key,
                                    struct prefix_hash of,
                                    const uint32_t *tokens);

static inline int prefix_hash_same(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* Returns a number for a restorable prefix, for auditors that compare sets of
 * them by sums. */
static inline uint64_t prefix_hash_digest(struct prefix_hash h,
                                          uint32_t n_tokens)
{
    return (h.lo ^ n_tokens) * 0x9e3779b97f4a7c15u + h.hi;
}

#endif
