/* ids_hash.h - 64 bits of a run of token ids, for Submit's ids_hash.
 *
 *     h = IDS_HASH_START;  for each id:  h = (h ^ id) * M;  h ^= h >> 29
 *
 * A chain, so that it goes on from any place: who has hashed n ids and kept h
 * can forget them.  It tells two prompts of one request_id apart; it is no
 * secret, and nobody gains by a collision who knows the request_id.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_WIRE_IDS_HASH_H
#define COMMON_WIRE_IDS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define IDS_HASH_START 0x9e3779b97f4a7c15u
#define IDS_HASH_TIMES 0xd6e8feb86659fd93u

/* The hash of what h was of, and then ids[0..n). */
static inline uint64_t ids_hash(uint64_t h, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h = (h ^ ids[i]) * IDS_HASH_TIMES;
        h ^= h >> 29;
    }
    return h;
}

#endif
