/* ids_hash.h - A 64-bit hash of token ids, for Submit's ids_hash.
 *
 *     h = IDS_HASH_START;  for each id:  h = (h ^ id) * M;  h ^= h >> 29
 *
 * The hash is a chain, so it continues from any point: after n ids, h
 * replaces them.  It distinguishes two prompts with one request_id.  It is
 * not secret: a peer with the request_id gains nothing by a collision.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_WIRE_IDS_HASH_H
#define COMMON_WIRE_IDS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define IDS_HASH_START 0x9e3779b97f4a7c15u
#define IDS_HASH_TIMES 0xd6e8feb86659fd93u

/* Hashes ids[0..n) onto h, the hash of the ids before them. */
static inline uint64_t ids_hash(uint64_t h, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h = (h ^ ids[i]) * IDS_HASH_TIMES;
        h ^= h >> 29;
    }
    return h;
}

#endif
