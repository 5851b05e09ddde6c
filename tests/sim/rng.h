/* rng.h - The only source of randomness: xoshiro256**, seeded by splitmix64.
 *
 * Integers only, so that a seed gives the same run with every compiler. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

/* Initialises a stream; streams of one seed are independent of each other. */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);

uint64_t rng_u64(struct rng *r);

/* Returns 0..n-1; 0 for n = 0. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* Returns lo..hi, both included. */
int64_t rng_range(struct rng *r, int64_t lo, int64_t hi);

/* Returns lo..hi with equal probability for every octave; lo >= 1. */
int64_t rng_octave(struct rng *r, int64_t lo, int64_t hi);

/* Returns true in `of` of 10,000 cases. */
bool rng_chance(struct rng *r, uint32_t of);

/* Mixes 64 bits, for hashes that need no secret. */
uint64_t mix64(uint64_t x);

#endif
