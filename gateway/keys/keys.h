/* keys.h - API keys and the tenants that they belong to.
 *
 * A key file has one line a key; '#' starts a comment:
 *
 *     SHA256 TENANT [requests=N/min] [tokens=N/min] [streams=N] [guaranteed=N]
 *                   [role=operator]
 *
 *     9f86d0...0a08 web     requests=600/min tokens=200000/min streams=32
 *     60303a...9752 nightly
 *     1f3ce4...77b1 watch   role=operator
 *
 * SHA256 is the hash of the whole key in 64 hex digits.  A fast hash is right
 * here: keys are 256 random bits, so no list of likely keys exists that a slow
 * hash would protect.  A tenant may have several keys; all its lines give the
 * same limits.  A role belongs to a key: with role=operator, it reads the
 * figures of all tenants.
 *
 * A lookup hashes the presented key and compares the hash with every entry, in
 * time that does not depend on which entry matches, or how far.
 *
 * Without a file, every request belongs to the tenant "default", which has no
 * limits and may have guarantees.  The gateway then serves loopback only.
 *
 * Logs, metrics and listings show a tenant by its whole name
 * (common/base/log.h).  Logs never contain a key.
 *
 * Threading: none.  Memory: struct keys owns its tenants.  A tenant stays
 * valid until keys_free(), or until a reload drops it and its last request
 * ends.  Pure, except keys_load(), keys_reload() and keys_new_line().
 * Limits: keys_limits. */
#ifndef GATEWAY_KEYS_KEYS_H
#define GATEWAY_KEYS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limit.h"
#include "common/base/status.h"
#include "gateway/keys/tenant.h"
#include "proto/limits.h"

struct keys;

/* X(name, value, unit, what it bounds) */
#define KEYS_LIMIT_MAP(X)                                                      \
    X(KEYS_FILE_BYTES, 1 << 20, "bytes", "a key file")                         \
    X(KEYS_LINE_BYTES, 512, "bytes", "a line of a key file")                   \
    X(KEYS_MAX, 4096, "keys", "a key file")                                    \
    X(TENANT_RATE_MAX, 1000000000, "a minute", "requests or tokens= of a key") \
    X(TENANT_STREAMS_MAX, 1000000, "requests", "streams= of a key")

enum keys_limit {
#define X(name, value, unit, what) name = (value),
    KEYS_LIMIT_MAP(X)
#undef X
};

/* Rows of the table, for limits_print(). */
extern const struct limit_row keys_limits[];
extern const size_t keys_limits_n;

#define KEYS_HASH_BYTES 32

/* Makes keys from text[0..n), a key file.  Returns ST_INVALID_ARGUMENT and a
 * sentence with the line: wrong hash, name or limit, a hash that occurs twice,
 * limits that differ from the tenant's other lines, no key at all;
 * ST_OUT_OF_RANGE past KEYS_FILE_BYTES, KEYS_LINE_BYTES or KEYS_MAX. */
MUST_CHECK enum status keys_parse(struct keys **out, const char *text, size_t n,
                                  struct error *e);

/* Makes keys from a file.  Errors are those of file_read() and keys_parse(),
 * with the path. */
MUST_CHECK enum status keys_load(struct keys **out, const char *path,
                                 struct error *e);

/* Makes keys that admit everyone as the tenant "default". */
MUST_CHECK enum status keys_open(struct keys **out, struct error *e);

/* Frees keys and all tenants; NULL is legal. */
void keys_free(struct keys **k);

/* Replaces the keys by those of text[0..n).  Tenants keep their use by name.
 * A tenant that text does not list gets no new request, and ends with its last
 * one.  After an error nothing has changed.  Errors: as keys_parse(). */
MUST_CHECK enum status keys_replace(struct keys *k, const char *text, size_t n,
                                    struct error *e);

/* Calls keys_replace() with the text of a file; for SIGHUP.  Errors: as
 * keys_load(). */
MUST_CHECK enum status keys_reload(struct keys *k, const char *path,
                                   struct error *e);

/* Returns the tenant of a presented key (without "Bearer "), or NULL if no
 * entry matches.  After keys_open(): the tenant "default", for any key, also
 * NULL. */
struct tenant *keys_find(struct keys *k, const char *key, size_t n);

/* Returns whether a presented key has role=operator.  After keys_open(): true,
 * as there is one tenant only. */
bool keys_is_operator(struct keys *k, const char *key, size_t n);

/* Returns whether everyone is admitted (keys_open()). */
bool keys_are_open(const struct keys *k);

/* Returns the number of keys. */
size_t keys_n(const struct keys *k);

/* Calls fn for each tenant, also one that the file no longer lists but that
 * has requests. */
void keys_each_tenant(struct keys *k, void (*fn)(void *arg, struct tenant *t),
                      void *arg);

/* A new key, and its line for the key file.  Both end in a NUL. */
struct keys_new {
    char key[10 + 2 * KEYS_HASH_BYTES + 1]; /* "sk-sluice-" and hex digits */
    char line[2 * KEYS_HASH_BYTES + 1 + TENANT_NAME_MAX + 1];
};

/* Makes a random key of 256 bits for tenant.  Returns ST_INVALID_ARGUMENT if
 * the name is wrong, ST_UNAVAILABLE without random numbers.  The caller shows
 * the key once and wipes *out. */
MUST_CHECK enum status keys_new_line(struct keys_new *out, const char *tenant,
                                     struct error *e);

#endif
