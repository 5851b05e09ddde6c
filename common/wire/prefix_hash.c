#include "common/wire/prefix_hash.h"

#include <sodium.h>
#include <string.h>

#include "common/base/bytes.h"

_Static_assert(PREFIX_KEY_BYTES == crypto_shorthash_siphashx24_KEYBYTES &&
                   PREFIX_HASH_BYTES == crypto_shorthash_siphashx24_BYTES,
               "sizes of SipHash-2-4-128");

static uint64_t read64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static struct prefix_hash hash(const struct prefix_key *key,
                               const uint8_t *data, size_t n)
{
    uint8_t out[PREFIX_HASH_BYTES];

    crypto_shorthash_siphashx24(out, data, n, key->bytes);
    return (struct prefix_hash){read64(out), read64(out + 8)};
}

size_t prefix_scope(uint8_t out[PREFIX_SCOPE_MAX], const void *tenant, size_t n,
                    const void *salt, size_t n_salt)
{
    if (n > 0) {
        memcpy(out, tenant, n);
    }
    if (n_salt > 0) {
        out[n++] = 0;
        memcpy(out + n, salt, n_salt);
    }
    return n + n_salt;
}

struct prefix_hash prefix_hash_root(const struct prefix_key *key,
                                    const void *scope, size_t n)
{
    return hash(key, n > 0 ? scope : (const void *)"", n);
}

struct prefix_hash prefix_hash_next(const struct prefix_key *key,
                                    struct prefix_hash of,
                                    const uint32_t *tokens)
{
    uint8_t data[PREFIX_HASH_BYTES + PREFIX_UNIT * 4];

    put_u64(data, of.lo);
    put_u64(data + 8, of.hi);
    for (size_t i = 0; i < PREFIX_UNIT; i++) {
        for (size_t b = 0; b < 4; b++) {
            data[PREFIX_HASH_BYTES + 4 * i + b] =
                (uint8_t)(tokens[i] >> (8 * b));
        }
    }
    return hash(key, data, sizeof data);
}
