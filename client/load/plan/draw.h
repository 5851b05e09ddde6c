/* draw.h - Random numbers that are a function of their seed alone.
 *
 * xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64.  Libraries
 * differ in rand(); these numbers are equal everywhere.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef CLIENT_LOAD_PLAN_DRAW_H
#define CLIENT_LOAD_PLAN_DRAW_H

#include <stdint.h>

struct draw {
    uint64_t s[4];
};

/* Returns a seed that depends on all bits of a and b. */
uint64_t draw_mix(uint64_t a, uint64_t b);

/* Begins the numbers of a seed. */
void draw_seed(struct draw *d, uint64_t seed);

uint64_t draw_u64(struct draw *d);

/* Returns a number below n > 0, uniform. */
uint64_t draw_below(struct draw *d, uint64_t n);

/* Returns a number in [0, 1), uniform. */
double draw_unit(struct draw *d);

/* Returns an exponential number of mean 1. */
double draw_exp(struct draw *d);

/* Returns a normal number of mean 0 and deviation 1. */
double draw_normal(struct draw *d);

/* Returns a gamma number of this shape > 0 and mean 1 (Marsaglia and Tsang,
 * 2000).  Its coefficient of variation is 1 / sqrt(shape). */
double draw_gamma(struct draw *d, double shape);

#endif
