/* Hashes of three bits, instead of those of common/wire/prefix_hash.c. */
#include "common/wire/prefix_hash.h"

struct prefix_hash prefix_hash_root(const struct prefix_key *key,
                                    const void *tenant, size_t n)
{
    const uint8_t *name = tenant;
    uint64_t h = key->bytes[0];

    for (size_t i = 0; i < n; i++) {
        h = h * 31 + name[i];
    }
    return (struct prefix_hash){.lo = h % 8};
}

struct prefix_hash prefix_hash_next(const struct prefix_key *key,
                                    struct prefix_hash of,
                                    const uint32_t *tokens)
{
    (void)key;
    return (struct prefix_hash){.lo = (of.lo + tokens[0]) % 8};
}
